package chaos

import (
	"context"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// registration is what rollouts may change of a ManagedCluster.
type registration struct {
	labels, annotations map[string]string
}

// registrations are the ManagedClusters of the hub, by name.
func (s *scene) registrations(t *testing.T) map[string]registration {
	t.Helper()
	registrations := map[string]registration{}
	for _, cluster := range s.managedClusters(t.Context(), t) {
		registrations[cluster.Name] = registration{cluster.Labels, cluster.Annotations}
	}
	return registrations
}

func (s *scene) managedClusters(ctx context.Context, t *testing.T) []metav1.PartialObjectMetadata {
	t.Helper()
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(schema.GroupVersionKind{Group: "cluster.open-cluster-management.io", Version: "v1", Kind: "ManagedClusterList"})
	hub, err := s.Watch(ctx, s.Hub)
	require.NoError(t, err)
	require.NoError(t, hub.Client.List(ctx, list))
	return list.Items
}

// requireHubRestored: no rollout leaves labels or annotations on ManagedClusters. Only one that has not come to its end leaves what it gave them
// at its beginning, and no sweeper takes that back.
func (s *scene) requireHubRestored(t *testing.T) {
	t.Helper()
	if slices.ContainsFunc(s.works, func(w *work) bool { return w.labels && w.end != ended }) {
		s.unlabel(t)
	}
	require.Equal(t, s.registered, s.registrations(t))
}

// unlabel takes the label of scenarios from all ManagedClusters.
func (s *scene) unlabel(t *testing.T) {
	t.Helper()
	ctx := context.Background()
	hub, err := s.Watch(ctx, s.Hub)
	require.NoError(t, err)
	for _, cluster := range s.managedClusters(ctx, t) {
		before := cluster.DeepCopy()
		delete(cluster.Labels, propLabel)
		require.NoError(t, hub.Client.Patch(ctx, &cluster, client.MergeFrom(before)))
	}
}
