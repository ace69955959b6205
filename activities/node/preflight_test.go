package node_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"drydock.dev/drydock/activities/activitytest"
	"drydock.dev/drydock/activities/drain"
	"drydock.dev/drydock/activities/events"
	"drydock.dev/drydock/activities/locks"
	nodeactivities "drydock.dev/drydock/activities/node"
	lcmv1 "drydock.dev/drydock/internal/apis/lcm/v1alpha1"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/temporal"
)

func TestANodeWhoseDrainWouldFailStaysInService(t *testing.T) {
	ref, shop := activitytest.TestNode(t), activitytest.NewTenant(t)
	activitytest.Settled(t, activitytest.SpokeName, shop.Pod(t, ref.Node, "bare", activitytest.WithoutController))
	preflight := drain.Preflight{Drain: &maintenancev1.DrainSpec{}}

	planned, err := activitytest.Nodes().PlanMaintenance(t.Context(), nodeactivities.PlanMaintenanceInput{NodeRef: ref, Preflight: preflight})
	require.NoError(t, err, "the preflight is only a warning before the slot")
	require.Contains(t, planned.Warning, " would fail: 1 pod without a controller, which only force evicts: "+shop.Namespace+"/bare")
	_, err = activitytest.Nodes().AcquireNode(t.Context(), nodeactivities.AcquireNodeInput{NodeRef: ref, Cordon: true, Preflight: preflight})
	require.Equal(t, temporal.ErrPodsNotEvictable, temporal.ErrorType(err))
	require.Len(t, temporal.Blockers(err), 1)
	require.Empty(t, activitytest.RequestsFor(t, ref.Node))
	_, err = activitytest.Nodes().Cordon(t.Context(), nodeactivities.CordonInput{NodeRef: ref, Cordon: true, Preflight: preflight})
	require.Equal(t, temporal.ErrPodsNotEvictable, temporal.ErrorType(err))
	node := activitytest.GetNode(t, ref.Node)
	require.False(t, node.Spec.Unschedulable)
	require.Empty(t, kube.Owner(node))
	require.Equal(t, []string{
		"Normal Pending: a maintenance of the node waits for its slot",
		"Warning DrainObstructed: " + planned.Warning,
		"Warning PodsNotEvictable: " + temporal.ErrorMessage(err),
	}, activitytest.EventLines(activitytest.EventsOf(t, ref.Node)))

	preflight.Drain.Force = true
	result, err := activitytest.Nodes().Cordon(t.Context(), nodeactivities.CordonInput{NodeRef: ref, Cordon: true, Preflight: preflight})
	require.NoError(t, err)
	require.Empty(t, result.Warning)
}

func TestANodeWhoseJobIsNotAllowedIsNotTouched(t *testing.T) {
	ref := activitytest.TestNode(t)
	job := &maintenancev1.JobAction{Namespace: kube.SystemNamespace}
	before := activitytest.GetNode(t, ref.Node)
	_, planned := activitytest.Nodes().PlanMaintenance(t.Context(), nodeactivities.PlanMaintenanceInput{NodeRef: ref, Job: job})
	_, acquired := activitytest.Nodes().AcquireNode(t.Context(), nodeactivities.AcquireNodeInput{NodeRef: ref, Cordon: true, Job: job})
	for _, err := range []error{planned, acquired} {
		require.Equal(t, temporal.ErrInvalidSpec, temporal.ErrorType(err), "%v", err)
		require.ErrorContains(t, err, "action.job.namespace: Forbidden: Drydock's own accounts are in drydock-system")
	}
	after := activitytest.GetNode(t, ref.Node)
	require.Equal(t, before.Annotations[kube.AnnotationOwner], after.Annotations[kube.AnnotationOwner])
	require.Empty(t, kube.Owner(after))
	require.False(t, after.Spec.Unschedulable)
	for _, condition := range after.Status.Conditions {
		require.Empty(t, kube.ConditionOwners(condition))
	}
	require.Empty(t, activitytest.RequestsFor(t, ref.Node))
}

func TestThePreflightReportsABudgetThatCanNeverAllowADisruption(t *testing.T) {
	ref, shop := activitytest.TestNode(t), activitytest.NewTenant(t)
	activitytest.Settled(t, activitytest.SpokeName, shop.Pod(t, ref.Node, "web"))
	budget := shop.Budget(t, "web", 1, 1)
	activitytest.Settled(t, activitytest.SpokeName, budget)
	warning := fmt.Sprintf("the drain of node %s would wait: 1 pod blocked by PodDisruptionBudget %s/web (its minAvailable is 1, and it selects 1 pod): "+
		"add replicas, or lower it with `kubectl patch pdb web -n %s --type=merge -p '{\"spec\":{\"minAvailable\":0}}'`", ref.Node, shop.Namespace, shop.Namespace)
	preflight := drain.Preflight{Drain: &maintenancev1.DrainSpec{}}
	for range 2 {
		planned, err := activitytest.Nodes().PlanMaintenance(t.Context(), nodeactivities.PlanMaintenanceInput{NodeRef: ref, Preflight: preflight})
		require.NoError(t, err)
		require.Equal(t, warning, planned.Warning)
	}
	require.False(t, activitytest.GetNode(t, ref.Node).Spec.Unschedulable)
	obstructed := func(e corev1.Event) bool { return e.Reason == events.DrainObstructed }
	events := activitytest.EventsOf(t, ref.Node)
	require.Equal(t, "Warning DrainObstructed: "+warning, activitytest.EventLines(events)[slices.IndexFunc(events, obstructed)])

	acquired, err := activitytest.Nodes().AcquireNode(t.Context(), nodeactivities.AcquireNodeInput{NodeRef: ref, Cordon: true, Preflight: preflight})
	require.NoError(t, err, "a person may change the budget while the drain waits for it")
	require.True(t, acquired.Cordon.CordonedByUs)
	require.Equal(t, warning, acquired.Warning)
	require.Len(t, slices.DeleteFunc(activitytest.EventsOf(t, ref.Node), func(e corev1.Event) bool { return !obstructed(e) }), 1)
}

func TestThePreflightIgnoresPodsOfLockHolders(t *testing.T) {
	ref, shop := activitytest.TestNode(t), activitytest.NewTenant(t)
	activitytest.Settled(t, activitytest.SpokeName, shop.Pod(t, ref.Node, "bare", activitytest.WithoutController))
	lock := activitytest.HeldNode(t, "virt", ref.Node)
	activitytest.Settled(t, activitytest.SpokeName, lock)
	preflight := drain.Preflight{Drain: &maintenancev1.DrainSpec{}}
	acquired, err := activitytest.Nodes().AcquireNode(t.Context(), nodeactivities.AcquireNodeInput{NodeRef: ref, Cordon: true, Preflight: preflight})
	require.NoError(t, err)
	require.Contains(t, acquired.Warning, " would fail")
	require.Nil(t, acquired.Cordon)
	require.Len(t, activitytest.RequestsFor(t, ref.Node), 1)

	activitytest.WriteLockState(t, lock, lcmv1.LockInactive, "")
	require.NoError(t, activitytest.Initiator().AwaitNodeLocks(t.Context(), locks.NodeLockInput{NodeRef: ref}))
	_, err = activitytest.Nodes().Cordon(t.Context(), nodeactivities.CordonInput{NodeRef: ref, Cordon: true, Locked: true, Preflight: preflight})
	require.Equal(t, temporal.ErrPodsNotEvictable, temporal.ErrorType(err), "its lock was released, but its pod stays")
	require.False(t, activitytest.GetNode(t, ref.Node).Spec.Unschedulable)
}
