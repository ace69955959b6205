package kube

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"

	"drydock.dev/drydock/internal/manifestworks"
	"drydock.dev/drydock/internal/policies"
)

// part is the part of a kind that the caches keep, for kinds with very many objects.
type part struct {
	kind schema.GroupVersionKind
	// selector selects objects by label; the others are not read.
	selector string
	// trim keeps the fields that are used.
	trim toolscache.TransformFunc
}

// parts: of policies and manifest works, the status of the clusters. Their specs are read from the API server.
func parts() []part {
	return []part{
		{policies.Policies, policies.Replicas, policies.TrimObject},
		{manifestworks.Works, manifestworks.Ours, manifestworks.TrimObject},
	}
}
