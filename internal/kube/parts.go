package kube

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"

	"drydock.dev/drydock/internal/manifestworks"
	"drydock.dev/drydock/internal/policies"
)

// part is what the caches keep of a kind of which a cluster has more than anybody looks at.
type part struct {
	kind schema.GroupVersionKind
	// selector picks objects by label; the others are not read at all.
	selector string
	// trim leaves of an object what is looked at.
	trim toolscache.TransformFunc
}

// parts: of policies and manifest works, how the clusters stand. What people write is read from the API server.
func parts() []part {
	return []part{
		{policies.Policies, policies.Replicas, policies.TrimObject},
		{manifestworks.Works, manifestworks.Ours, manifestworks.TrimObject},
	}
}
