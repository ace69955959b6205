package activities

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/rollout"
	"drydock.dev/drydock/internal/temporal"
)

// registered reads a ManagedCluster from the hub's API server.
func registered(t *testing.T, name string) *metav1.PartialObjectMetadata {
	t.Helper()
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(managedClusterKind)
	require.NoError(t, bareCluster(t).Client.Get(t.Context(), client.ObjectKey{Name: name}, object))
	return object
}

// patchesOf counts the changes of a ManagedCluster that the hub was asked for.
func patchesOf(t *testing.T, name string) int {
	t.Helper()
	events, err := stack.Cluster(hubName).AuditEvents()
	require.NoError(t, err)
	count := 0
	for _, event := range events {
		if event.ObjectRef != nil && event.ObjectRef.Resource == "managedclusters" && event.ObjectRef.Name == name && event.Verb != "create" && event.Verb != "get" {
			count++
		}
	}
	return count
}

func TestLabelsAndAnnotationsOfClustersAreChangedInOneRequestEach(t *testing.T) {
	managedCluster(t, "labelled-1", map[string]string{"note": "old", "kept": "yes"})
	managedCluster(t, "labelled-2", nil)
	in := ChangeClustersInput{
		Clusters: []string{"labelled-1", "labelled-2", "was-here", "labelled-1"},
		Change: rollout.ClusterChange{
			Labels:      map[string]*string{"ztp-running": new(""), "absent": nil},
			Annotations: map[string]*string{"note": nil, "when": new("now")},
		},
	}
	rollouts := &Rollouts{Clusters: clusters}
	require.NoError(t, rollouts.ChangeClusters(t.Context(), in), "a cluster that was deleted is passed over")

	first := registered(t, "labelled-1")
	require.Equal(t, map[string]string{"ztp-running": ""}, first.Labels)
	require.Equal(t, map[string]string{"kept": "yes", "when": "now"}, first.Annotations)
	require.Contains(t, registered(t, "labelled-2").Labels, "ztp-running")
	require.Eventually(t, func() bool { return patchesOf(t, "labelled-1") == 1 }, 5*time.Second, 50*time.Millisecond)

	require.NoError(t, rollouts.ChangeClusters(t.Context(), in))
	require.Equal(t, first.ResourceVersion, registered(t, "labelled-1").ResourceVersion, "done again, it changes nothing")
}

func TestALabelThatNoClusterCanHaveIsRefused(t *testing.T) {
	managedCluster(t, "labelled-3", nil)
	err := (&Rollouts{Clusters: clusters}).ChangeClusters(t.Context(), ChangeClustersInput{
		Clusters: []string{"labelled-3"}, Change: rollout.ClusterChange{Labels: map[string]*string{"a": new("no good")}},
	})
	require.Equal(t, temporal.ErrInvalidSpec, temporal.ErrorType(err), "%v", err)

	cgu := nodeRollout(spokeName)
	cgu.Spec.Actions.BeforeEnable = &ranv1.BeforeEnable{AddClusterLabels: map[string]string{"a": "no good"}}
	_, err = (&Rollouts{Clusters: clusters}).PlanRollout(t.Context(), cgu)
	require.Equal(t, temporal.ErrInvalidSpec, temporal.ErrorType(err), "and no rollout is planned with one")
	require.ErrorContains(t, err, "spec.actions.beforeEnable.addClusterLabels")
}
