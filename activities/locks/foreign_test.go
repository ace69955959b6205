package locks_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/drydock/activities/activitytest"
	locksactivities "drydock.dev/drydock/activities/locks"
	nodeactivities "drydock.dev/drydock/activities/node"
	lcmv1 "drydock.dev/drydock/internal/apis/lcm/v1alpha1"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/temporal"
)

func TestANodeThatAnotherProgramMaintainsIsLeftToItUntilItIsDone(t *testing.T) {
	ref, other := activitytest.TestNode(t), activitytest.TestNode(t)
	theirs := activitytest.Created(t, &lcmv1.NodeMaintenanceRequest{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "theirs-"}, Spec: lcmv1.NodeMaintenanceRequestSpec{NodeName: ref.Node},
	})
	activitytest.Settled(t, activitytest.SpokeName, theirs)
	cluster := activitytest.TestCluster(t)
	request, err := locksactivities.ForeignRequest(t.Context(), cluster, other.Node)
	require.NoError(t, err)
	require.Nil(t, request)

	_, err = activitytest.Nodes().AcquireNode(t.Context(), nodeactivities.AcquireNodeInput{NodeRef: ref, Cordon: true})
	require.Equal(t, temporal.ErrNodeBusy, temporal.ErrorType(err))
	require.ErrorContains(t, err, "another program maintains node "+ref.Node+" until it deletes NodeMaintenanceRequest "+theirs.Name)
	require.Len(t, activitytest.RequestsFor(t, ref.Node), 1, "Drydock requests nothing")
	_, err = activitytest.Nodes().Cordon(t.Context(), nodeactivities.CordonInput{NodeRef: ref, Cordon: true, Locked: true})
	require.Equal(t, temporal.ErrNodeBusy, temporal.ErrorType(err), "it may have begun while the maintenance waited for locks")
	require.False(t, activitytest.GetNode(t, ref.Node).Spec.Unschedulable)

	free := make(chan error, 1)
	go func() {
		free <- activitytest.Nodes().AwaitNodeFree(t.Context(), nodeactivities.AwaitNodeFreeInput{NodeRef: ref})
	}()
	require.NoError(t, cluster.Client.Delete(t.Context(), theirs))
	require.NoError(t, <-free)
	acquired, err := activitytest.Nodes().AcquireNode(t.Context(), nodeactivities.AcquireNodeInput{NodeRef: ref, Cordon: true})
	require.NoError(t, err)
	require.NotNil(t, acquired.Cordon)
}

func TestAClusterThatAnotherProgramMaintainsIsFound(t *testing.T) {
	cluster := activitytest.BareCluster(t)
	theirs := activitytest.Create(t, cluster, &lcmv1.ClusterMaintenanceRequest{ObjectMeta: metav1.ObjectMeta{GenerateName: "theirs-"}})
	require.Eventually(t, func() bool { // the watch shows it a moment later
		request, err := locksactivities.ForeignRequest(t.Context(), cluster, "n1")
		require.NoError(t, err)
		return request != nil && request.Kind == "ClusterMaintenanceRequest" && request.Name == theirs.Name
	}, activitytest.EventTimeout, 20*time.Millisecond)
	require.NoError(t, cluster.Client.Delete(t.Context(), theirs))
	activitytest.Create(t, cluster, &lcmv1.ClusterMaintenanceRequest{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "ours-", Annotations: map[string]string{kube.AnnotationOwner: "node/c/default/m/run"}},
	})
	require.Eventually(t, func() bool {
		request, err := locksactivities.ForeignRequest(t.Context(), cluster, "n1")
		require.NoError(t, err)
		return request == nil
	}, activitytest.EventTimeout, 20*time.Millisecond)
}
