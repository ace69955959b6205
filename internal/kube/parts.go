package kube

import (
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	"drydock.dev/drydock/internal/installplans"
	"drydock.dev/drydock/internal/manifestworks"
	"drydock.dev/drydock/internal/policies"
	"drydock.dev/drydock/internal/views"
)

// part is the part of a kind that the caches keep, for kinds with very many objects.
type part struct {
	kind schema.GroupVersionKind
	// selector selects objects by label; the others are not read. Empty: it selects all.
	selector string
	// metadata: the part is for reads of metadata only.
	metadata bool
	// trim keeps the fields that are used.
	trim toolscache.TransformFunc
}

// parts: of the replicas of policies and of manifest works, the status of the clusters; of the policies themselves, the metadata. Their specs are read from the API server.
// Of ManagedClusters: the metadata, and whether they are Available. Of bindings and placements: those of rollouts. Of InstallPlans, and of views of them, all but the manifests.
func parts() []part {
	return []part{
		{kind: policies.Policies, selector: policies.Replicas, trim: policies.TrimObject},
		{kind: policies.Policies, selector: policies.Roots, metadata: true, trim: trimMetadata},
		{kind: policies.ManagedClusters, trim: policies.TrimManagedCluster},
		{kind: policies.PlacementBindings, selector: policies.Ours, trim: cache.TransformStripManagedFields()},
		{kind: policies.Placements, selector: policies.Ours, trim: cache.TransformStripManagedFields()},
		{kind: policies.PlacementRules, selector: policies.Ours, trim: cache.TransformStripManagedFields()},
		{kind: manifestworks.Works, selector: manifestworks.Ours, trim: manifestworks.TrimObject},
		{kind: installplans.InstallPlans, trim: installplans.TrimObject},
		{kind: views.Views, selector: views.Ours, trim: installplans.TrimObject},
		{kind: views.Actions, selector: views.Ours, trim: installplans.TrimObject},
	}
}

// partKey is a kind, or its metadata.
type partKey struct {
	kind     schema.GroupVersionKind
	metadata bool
}

// allParts returns the parts by kind.
var allParts = sync.OnceValue(func() map[partKey]part {
	all := map[partKey]part{}
	for _, part := range parts() {
		all[partKey{part.kind, part.metadata}] = part
	}
	return all
})

// trimMetadata keeps of the metadata of an object what tells that it has changed.
func trimMetadata(object any) (any, error) {
	if found, ok := object.(*metav1.PartialObjectMetadata); ok {
		found.ManagedFields, found.Annotations = nil, nil
	}
	return object, nil
}
