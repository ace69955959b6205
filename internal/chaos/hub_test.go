package chaos

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// registration has the fields of a ManagedCluster that rollouts may change.
type registration struct {
	labels, annotations map[string]string
}

// registrations returns those fields of all ManagedClusters of the hub, by name.
func (s *scenarioRun) registrations(t *testing.T) map[string]registration {
	t.Helper()
	registrations := map[string]registration{}
	for _, cluster := range s.managedClusters(t.Context(), t) {
		registrations[cluster.Name] = registration{cluster.Labels, cluster.Annotations}
	}
	return registrations
}

func (s *scenarioRun) managedClusters(ctx context.Context, t *testing.T) []metav1.PartialObjectMetadata {
	t.Helper()
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(schema.GroupVersionKind{Group: "cluster.open-cluster-management.io", Version: "v1", Kind: "ManagedClusterList"})
	hub, err := s.Watch(ctx, s.Hub)
	require.NoError(t, err)
	require.NoError(t, hub.Client.List(ctx, list))
	return list.Items
}

// requireHubRestored requires that no view or action is left, and that ManagedClusters have their former labels and annotations. Only a rollout that did not complete leaves its labels,
// which no sweeper removes.
func (s *scenarioRun) requireHubRestored(t *testing.T) {
	t.Helper()
	if slices.ContainsFunc(s.works, func(w *work) bool { return w.labels && w.end != ended }) {
		s.unlabel(t)
	}
	require.Equal(t, s.registered, s.registrations(t))
	for _, kind := range []string{"view.open-cluster-management.io/v1beta1/ManagedClusterView", "action.open-cluster-management.io/v1beta1/ManagedClusterAction"} {
		require.Eventually(t, func() bool { return len(s.onHub(t, kind)) == 0 }, waitLimit, 100*time.Millisecond, "a %s is left", kind)
	}
}

// unlabel removes the label of scenarios from all ManagedClusters.
func (s *scenarioRun) unlabel(t *testing.T) {
	t.Helper()
	ctx := context.Background()
	hub, err := s.Watch(ctx, s.Hub)
	require.NoError(t, err)
	for _, cluster := range s.managedClusters(ctx, t) {
		before := cluster.DeepCopy()
		delete(cluster.Labels, fixtureLabel)
		require.NoError(t, hub.Client.Patch(ctx, &cluster, client.MergeFrom(before)))
	}
}
