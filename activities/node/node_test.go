package node_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drydock.dev/drydock/activities/activitykit"
	"drydock.dev/drydock/activities/activitytest"
	"drydock.dev/drydock/activities/marks"
	nodeactivities "drydock.dev/drydock/activities/node"
	"drydock.dev/drydock/internal/kube"
)

func TestOurConditionsKeepThoseOfTheKubelet(t *testing.T) {
	ref := activitytest.TestNode(t)
	kubelets := func() []corev1.NodeCondition {
		var conditions []corev1.NodeCondition
		for _, condition := range activitytest.GetNode(t, ref.Node).Status.Conditions {
			if condition.Reason != "Drydock" {
				condition.LastHeartbeatTime, condition.LastTransitionTime = metav1.Time{}, metav1.Time{} // the kubelet may just have started
				conditions = append(conditions, condition)
			}
		}
		return conditions
	}
	before := kubelets()
	require.NotEmpty(t, before)
	require.NoError(t, activitytest.PlanMaintenance(t.Context(), ref))
	activitytest.Cordon(t, ref)
	require.Equal(t, before, kubelets())
	activitytest.ReturnNode(t, ref)
	require.Equal(t, before, kubelets())
}

func TestAMaintenanceWaitsUntilAnotherReturnsTheNode(t *testing.T) {
	ref := activitytest.TestNode(t)
	other := ref
	other.Owner = "node/spoke/default/other/run"
	activitytest.Cordon(t, other)
	require.NoError(t, activitytest.PlanMaintenance(t.Context(), ref), "a node may be planned while another maintenance has it")
	free := make(chan error, 2)
	for _, of := range []string{"", "node/spoke/default/other"} {
		go func() {
			free <- activitytest.Nodes().AwaitNodeFree(t.Context(), nodeactivities.AwaitNodeFreeInput{NodeRef: ref, Of: of})
		}()
	}
	require.Eventually(t, func() bool {
		planned := kube.FindNodeCondition(activitytest.GetNode(t, ref.Node), kube.ConditionMaintenancePlanned)
		return planned != nil && kube.ConditionOwnedBy(*planned, ref.Owner)
	}, activitytest.EventTimeout, 20*time.Millisecond)
	require.Empty(t, free)
	require.NoError(t, activitytest.Nodes().AwaitNodeFree(t.Context(), nodeactivities.AwaitNodeFreeInput{NodeRef: ref, Of: "node/spoke/default/third"}), "that maintenance does not have it")
	activitytest.ReturnNode(t, other)
	require.NoError(t, <-free)
	require.NoError(t, <-free)
	require.NotNil(t, kube.FindNodeCondition(activitytest.GetNode(t, ref.Node), kube.ConditionMaintenancePlanned), "the return keeps the planned condition of others")
	require.Empty(t, activitytest.ReturnNode(t, ref))
	activitytest.RequireNoTrace(t, ref.Node)
}

func TestANodeIsPlannedWhileAnyMaintenanceWaitsForIt(t *testing.T) {
	ref := activitytest.TestNode(t)
	planners := func() []string {
		planned := kube.FindNodeCondition(activitytest.GetNode(t, ref.Node), kube.ConditionMaintenancePlanned)
		if planned == nil {
			return nil
		}
		require.Equal(t, corev1.ConditionTrue, planned.Status)
		return kube.ConditionOwners(*planned)
	}
	waiting := []activitykit.NodeRef{ref, ref, ref, ref}
	for i := range waiting {
		waiting[i].Owner = fmt.Sprintf("node/spoke/default/waits-%d/run", i)
		require.NoError(t, activitytest.PlanMaintenance(t.Context(), waiting[i]))
		require.NoError(t, activitytest.PlanMaintenance(t.Context(), waiting[i]), "a lost reply adds no duplicate")
		activitytest.Settled(t, activitytest.SpokeName, activitytest.GetNode(t, ref.Node))
	}
	require.Equal(t, []string{waiting[0].Owner, waiting[1].Owner, waiting[2].Owner, waiting[3].Owner}, planners())
	activitytest.ReturnNode(t, waiting[1]) // the waiting maintenance is cancelled
	require.Equal(t, []string{waiting[0].Owner, waiting[2].Owner, waiting[3].Owner}, planners())
	activitytest.Cordon(t, waiting[0])
	require.Equal(t, []string{waiting[2].Owner, waiting[3].Owner}, planners())
	activitytest.ReturnNode(t, waiting[0])
	require.Equal(t, []string{waiting[2].Owner, waiting[3].Owner}, planners())
	activitytest.ReturnNode(t, waiting[2])
	activitytest.ReturnNode(t, waiting[3])
	activitytest.RequireNoTrace(t, ref.Node)
}

func TestAPlannedConditionIsRemovedDespiteAConflict(t *testing.T) {
	ref := activitytest.TestNode(t)
	require.NoError(t, activitytest.PlanMaintenance(t.Context(), ref))
	reads := 0
	err := marks.Update(t.Context(), activitytest.TestCluster(t), ref.Node, func(node *corev1.Node) (client.Patch, error) {
		if reads++; reads == 1 {
			activitytest.Changed(t, ref.Node, activitytest.Annotated("interruption", "once"))
		}
		return nil, activitytest.TestCluster(t).RemoveNodeConditions(t.Context(), node, ref.Owner)
	})
	require.NoError(t, err)
	require.GreaterOrEqual(t, reads, 2, "the kubelet may change the node, too")
	require.Nil(t, kube.FindNodeCondition(activitytest.GetNode(t, ref.Node), kube.ConditionMaintenancePlanned))
}
