package lockcontroller

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/drydock/activities/activitytest"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	lcmv1 "drydock.dev/drydock/internal/apis/lcm/v1alpha1"
	"drydock.dev/drydock/internal/temporal"
)

func TestTheLocksOfADeletedPolicyAreRemovedOrTakenOver(t *testing.T) {
	a, other := newApplication(t, 2), newApplication(t, 1)
	a.step()
	other.step()
	w := &Activities{Clusters: activitytest.Clusters}
	in := ReleaseInput{Cluster: a.in.Cluster, ControllerName: a.in.Policy.ControllerName, Policy: temporal.Object{Name: "deleted", UID: "1"}}
	locksOf := func(a *application) (names []string) {
		t.Helper()
		var ofNodes lcmv1.NodeWorkloadLockList
		var ofCluster lcmv1.ClusterWorkloadLockList
		require.NoError(t, a.cluster.Client.List(t.Context(), &ofNodes))
		require.NoError(t, a.cluster.Client.List(t.Context(), &ofCluster))
		for _, lock := range ofNodes.Items {
			names = append(names, lock.Spec.ControllerName)
		}
		for _, lock := range ofCluster.Items {
			names = append(names, lock.Spec.ControllerName)
		}
		return slices.DeleteFunc(names, func(name string) bool { return name != a.in.Policy.ControllerName })
	}

	successor := activitytest.Created(t, &drydockv1.WorkloadLockPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: a.in.Policy.ControllerName + "-successor"}, Spec: a.in.Policy,
	})
	result, err := w.ReleaseWorkloadLocks(t.Context(), in)
	require.NoError(t, err)
	require.Equal(t, ReleaseResult{KeptFor: successor.Name}, result)
	require.Len(t, locksOf(a), 3)

	require.NoError(t, a.cluster.Client.Delete(t.Context(), successor))
	result, err = w.ReleaseWorkloadLocks(t.Context(), in)
	require.NoError(t, err)
	require.Equal(t, ReleaseResult{Removed: 3}, result)
	require.Empty(t, locksOf(a))
	require.Len(t, locksOf(other), 2, "those of other applications stay")

	result, err = w.ReleaseWorkloadLocks(t.Context(), in)
	require.NoError(t, err, "repeated after a lost reply")
	require.Zero(t, result.Removed)
}
