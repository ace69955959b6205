package rollouts

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"drydock.dev/drydock/activities/activitykit"
	"drydock.dev/drydock/activities/activitytest"
	"drydock.dev/drydock/internal/kube"
)

// lookUp looks up clusters until it has seen that.
func lookUp(t *testing.T, clusters []string, seen SeenClusters) {
	t.Helper()
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		found, err := (&Activities{Clusters: activitytest.Clusters}).LookUpClusters(t.Context(), clusters)
		assert.NoError(c, err)
		assert.ElementsMatch(c, seen.Deleted, found.Deleted)
		assert.Equal(c, seen.Offline, found.Offline)
	}, activitytest.EventTimeout, 20*time.Millisecond)
}

func TestDeletedManagedClustersAreFound(t *testing.T) {
	activitytest.ManagedCluster(t, activitytest.SpokeName, nil)
	var workers, gone []string
	for i := range 3 * activitykit.MaxParallelRequests {
		gone = append(gone, fmt.Sprintf("was-here-%d", i))
		workers = append(workers, activitytest.SpokeName, gone[i])
	}
	seen, err := (&Activities{Clusters: activitytest.Clusters}).LookUpClusters(t.Context(), workers)
	require.NoError(t, err)
	require.Equal(t, gone, seen.Deleted, "in the order of the input")
}

func TestAManagedClusterThatIsNotAvailableIsOffline(t *testing.T) {
	clusters := []string{"available", "unavailable", "unreachable", "unreported", "unregistered"}
	for _, name := range clusters[:4] {
		activitytest.ManagedCluster(t, name, nil)
	}
	for name, status := range map[string]metav1.ConditionStatus{"available": metav1.ConditionTrue, "unavailable": metav1.ConditionFalse, "unreachable": metav1.ConditionUnknown} {
		activitytest.SetAvailable(t, name, status)
	}
	lookUp(t, clusters, SeenClusters{Offline: []string{"unavailable", "unreachable"}, Deleted: []string{"unregistered"}})
}

func TestAPlanNamesTheClustersThatAreOffline(t *testing.T) {
	const cluster = "offline-soon"
	activitytest.ManagedCluster(t, cluster, map[string]string{kube.AnnotationWorker: kube.WorkerInCluster})
	cgu := activitytest.NodeRollout(cluster)
	a := &Activities{Clusters: activitytest.Clusters}
	before := plan(t, cgu)
	require.Empty(t, before.Offline)
	changed := make(chan error, 1)
	go func() {
		changed <- a.AwaitOtherPlan(t.Context(), AwaitOtherPlanInput{PlanInput: PlanInput{Object: cgu}, Digest: before.Digest})
	}()
	activitytest.SetAvailable(t, cluster, metav1.ConditionUnknown)
	select {
	case err := <-changed:
		require.NoError(t, err)
	case <-time.After(activitytest.EventTimeout):
		require.Fail(t, "the change was not noticed")
	}
	after := plan(t, cgu)
	require.Equal(t, []string{cluster}, after.Offline)
	require.Equal(t, before.RemediationPlan, after.RemediationPlan)
}

func TestAwaitDeletedClustersReturnsOnDeletion(t *testing.T) {
	for _, name := range []string{"stays", "goes"} {
		activitytest.ManagedCluster(t, name, nil)
	}
	rollouts := &Activities{Clusters: activitytest.Clusters}
	var seen SeenClusters
	ended := make(chan error, 1)
	go func() {
		var err error
		seen, err = rollouts.AwaitDeletedClusters(t.Context(), []string{"stays", "goes"})
		ended <- err
	}()
	activitytest.ManagedCluster(t, "comes", nil)
	select {
	case err := <-ended:
		t.Fatalf("it did not wait: %v", err)
	default:
	}
	deleteCluster(t, "goes")
	deletedAt := time.Now()
	require.NoError(t, <-ended)
	require.Less(t, time.Since(deletedAt), activitytest.EventTimeout, "an event ends the wait, not a periodic read")
	require.Equal(t, []string{"goes"}, seen.Deleted)
}

func TestAwaitClustersBackReturnsThoseThatAreBackOrDeleted(t *testing.T) {
	offline := []string{"comes-back", "stays-offline", "is-deleted"}
	for _, name := range offline {
		activitytest.ManagedCluster(t, name, nil)
		activitytest.SetAvailable(t, name, metav1.ConditionUnknown)
	}
	lookUp(t, offline, SeenClusters{Offline: offline})
	for _, change := range []struct {
		cluster string
		make    func()
	}{
		{"comes-back", func() { activitytest.SetAvailable(t, "comes-back", metav1.ConditionTrue) }},
		{"is-deleted", func() { deleteCluster(t, "is-deleted") }},
	} {
		var seen SeenClusters
		ended := make(chan error, 1)
		go func() {
			var err error
			seen, err = (&Activities{Clusters: activitytest.Clusters}).AwaitClustersBack(t.Context(), offline)
			ended <- err
		}()
		change.make()
		changedAt := time.Now()
		require.NoError(t, <-ended)
		require.Less(t, time.Since(changedAt), activitytest.EventTimeout, "an event ends the wait, not a periodic read")
		require.Equal(t, []string{change.cluster}, seen.Back)
		offline = slices.DeleteFunc(offline, func(name string) bool { return name == change.cluster })
	}
}

func TestManyOfflineClustersAreGatheredLongerWhenTheyAreBack(t *testing.T) {
	var deleted []string
	for i := range 150 {
		deleted = append(deleted, fmt.Sprintf("was-offline-%d", i))
	}
	lookUp(t, deleted, SeenClusters{Deleted: deleted})
	started := time.Now()
	seen, err := (&Activities{Clusters: activitytest.Clusters}).AwaitClustersBack(t.Context(), deleted)
	require.NoError(t, err)
	require.Equal(t, deleted, seen.Back)
	require.GreaterOrEqual(t, time.Since(started), 150*gatherPerCluster)
}

func deleteCluster(t *testing.T, name string) {
	t.Helper()
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(activitykit.ManagedClusterKind)
	object.SetName(name)
	require.NoError(t, activitytest.BareCluster(t).Client.Delete(t.Context(), object))
}

func TestAwaitAvailabilityChangeReturnsAllThatAreOfflineOrDeleted(t *testing.T) {
	clusters := []string{"stays-online", "goes-offline", "goes-away"}
	for _, name := range clusters {
		activitytest.ManagedCluster(t, name, nil)
		activitytest.SetAvailable(t, name, metav1.ConditionTrue)
	}
	lookUp(t, clusters, SeenClusters{})
	var known SeenClusters
	for _, change := range []struct {
		make func()
		seen SeenClusters
	}{
		{func() { activitytest.SetAvailable(t, "goes-offline", metav1.ConditionUnknown) }, SeenClusters{Offline: []string{"goes-offline"}}},
		{func() { deleteCluster(t, "goes-away") }, SeenClusters{Offline: []string{"goes-offline"}, Deleted: []string{"goes-away"}}},
		{func() { activitytest.SetAvailable(t, "goes-offline", metav1.ConditionTrue) }, SeenClusters{Deleted: []string{"goes-away"}}},
	} {
		var seen SeenClusters
		ended := make(chan error, 1)
		go func() {
			var err error
			in := AvailabilityWatch{Clusters: clusters, Away: slices.Concat(known.Deleted, known.Offline)}
			seen, err = (&Activities{Clusters: activitytest.Clusters}).AwaitAvailabilityChange(t.Context(), in)
			ended <- err
		}()
		change.make()
		changedAt := time.Now()
		require.NoError(t, <-ended)
		require.Less(t, time.Since(changedAt), activitytest.EventTimeout, "an event ends the wait, not a periodic read")
		require.Equal(t, change.seen, seen)
		known = seen
	}
}
