package activities

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	lcmv1 "drydock.dev/drydock/internal/apis/lcm/v1alpha1"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/temporal"
)

func TestANodeWhoseDrainWouldFailStaysInServiceAndNothingIsAskedFor(t *testing.T) {
	ref, shop := testNode(t), newTenant(t)
	settled(t, spokeName, shop.pod(t, ref.Node, "bare", withoutController))
	departure := Departure{Drain: &maintenancev1.DrainSpec{}}

	planned, err := nodes().PlanMaintenance(t.Context(), PlanMaintenanceInput{NodeRef: ref, Departure: departure})
	require.NoError(t, err, "its turn is not yet")
	require.Contains(t, planned.Warning, " would fail: 1 pod without a controller, which only force evicts: "+shop.namespace+"/bare")
	_, err = nodes().TakeNode(t.Context(), TakeNodeInput{NodeRef: ref, Cordon: true, Departure: departure})
	require.Equal(t, temporal.ErrPodsNotEvictable, temporal.ErrorType(err))
	require.Len(t, temporal.Blockers(err), 1)
	require.Empty(t, requestsFor(t, ref.Node))
	_, err = nodes().Cordon(t.Context(), CordonInput{NodeRef: ref, Cordon: true, Departure: departure})
	require.Equal(t, temporal.ErrPodsNotEvictable, temporal.ErrorType(err))
	node := getNode(t, ref.Node)
	require.False(t, node.Spec.Unschedulable)
	require.Empty(t, kube.Owner(node))
	require.Equal(t, []string{
		"Normal Pending: a maintenance of the node waits for its turn",
		"Warning DrainObstructed: " + planned.Warning,
		"Warning PodsNotEvictable: " + temporal.ErrorMessage(err),
	}, told(eventsOf(t, ref.Node)))

	departure.Drain.Force = true
	result, err := nodes().Cordon(t.Context(), CordonInput{NodeRef: ref, Cordon: true, Departure: departure})
	require.NoError(t, err)
	require.Empty(t, result.Warning)
}

func TestABudgetThatCanNeverAllowADisruptionIsCalledOutWhileTheNodeIsInService(t *testing.T) {
	ref, shop := testNode(t), newTenant(t)
	settled(t, spokeName, shop.pod(t, ref.Node, "web"))
	budget := shop.budget(t, "web", 1, 1)
	settled(t, spokeName, budget)
	warning := fmt.Sprintf("the drain of node %s would wait until you change the budgets or add replicas: "+
		"1 pod blocked by PodDisruptionBudget %s/web (0 of 1 may be disrupted; 1 of 1 healthy, needs 1)", ref.Node, shop.namespace)
	departure := Departure{Drain: &maintenancev1.DrainSpec{}}
	for range 2 {
		planned, err := nodes().PlanMaintenance(t.Context(), PlanMaintenanceInput{NodeRef: ref, Departure: departure})
		require.NoError(t, err)
		require.Equal(t, warning, planned.Warning)
	}
	require.False(t, getNode(t, ref.Node).Spec.Unschedulable)
	obstructed := func(e corev1.Event) bool { return e.Reason == EventDrainObstructed }
	events := eventsOf(t, ref.Node)
	require.Equal(t, "Warning DrainObstructed: "+warning, told(events)[slices.IndexFunc(events, obstructed)])

	taken, err := nodes().TakeNode(t.Context(), TakeNodeInput{NodeRef: ref, Cordon: true, Departure: departure})
	require.NoError(t, err, "a person may change the budget while the drain waits for it")
	require.True(t, taken.Cordon.CordonedByUs)
	require.Equal(t, warning, taken.Warning)
	require.Len(t, slices.DeleteFunc(eventsOf(t, ref.Node), func(e corev1.Event) bool { return !obstructed(e) }), 1)
}

func TestPodsThatALockHolderMayTakeOffTheNodeAreNoReasonNotToAskIt(t *testing.T) {
	ref, shop := testNode(t), newTenant(t)
	settled(t, spokeName, shop.pod(t, ref.Node, "bare", withoutController))
	lock := heldNode(t, "virt", ref.Node)
	settled(t, spokeName, lock)
	departure := Departure{Drain: &maintenancev1.DrainSpec{}}
	taken, err := nodes().TakeNode(t.Context(), TakeNodeInput{NodeRef: ref, Cordon: true, Departure: departure})
	require.NoError(t, err)
	require.Contains(t, taken.Warning, " would fail")
	require.Nil(t, taken.Cordon)
	require.Len(t, requestsFor(t, ref.Node), 1)

	say(t, lock, lcmv1.LockInactive, "")
	require.NoError(t, initiator().AwaitNodeLocks(t.Context(), NodeLockInput{NodeRef: ref}))
	_, err = nodes().Cordon(t.Context(), CordonInput{NodeRef: ref, Cordon: true, Locked: true, Departure: departure})
	require.Equal(t, temporal.ErrPodsNotEvictable, temporal.ErrorType(err), "it has let go, and left the pod")
	require.False(t, getNode(t, ref.Node).Spec.Unschedulable)
}
