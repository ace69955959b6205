package e2e

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/devstack/devstacktest"
	"drydock.dev/drydock/internal/devstack/fleet"
	"drydock.dev/drydock/internal/scheduling"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/slots"
)

// Three requestors request twenty of thirty nodes each, and a rollout ten, in a cluster with several budgets. Meanwhile nodes fail and are replaced,
// the worker is killed, and the scheduler is terminated several times. The observer checks the budgets at every change of a node.
func TestManyRequestorsShareTheBudgetsOfAClusterDespiteFaults(t *testing.T) {
	alone(t)
	if !devstacktest.Soak() {
		t.Skip("takes minutes: make chaos runs it")
	}
	a := newSchedulerFleet(t)
	begun := time.Now()
	a.breakNodes(t)
	o := a.observe(t)
	a.startRollout(t)
	requestors := a.startRequests(t)
	var work sync.WaitGroup
	work.Go(func() { a.injectFaults(t, o) })
	for _, r := range requestors {
		work.Go(func() { r.finish(t) })
	}
	work.Go(func() { assert.NoError(t, a.awaitEnd(t, temporal.ClusterGroupUpgradeID("default", concurrentRollout))) })
	work.Wait()
	require.False(t, t.Failed())

	// One maintenance has never finished. It has kept its slot, and all others have ended.
	endless := requestors[0].endless
	queue := a.awaitQueue(t, 1)
	require.Equal(t, endless, queue[0].Owner.WorkflowID)
	require.Zero(t, queue[0].Rank, "the endless maintenance has a slot")
	require.Equal(t, 1, o.inMaintenance())
	a.signal(t, temporal.SignalDone, endless)
	require.NoError(t, a.awaitEnd(t, endless))
	a.awaitQueue(t, 0)
	require.NoError(t, a.AwaitCleanup(t.Context(), a.spoke))
	require.Empty(t, o.violations())
	runs := a.runsOfScheduler(t)
	require.Greater(t, len(runs), 5, "the scheduler continued as new")
	ofRollout := temporal.ClusterUpgradeID("default", concurrentRollout, a.spoke.Name)
	require.True(t, slices.ContainsFunc(runs, func(run slots.SchedulerInput) bool { return carriesSlot(run, ofRollout) }), "with slots of the rollout")
	t.Logf("%d requests in %s, at most %d nodes in maintenance at the same time, %d runs of the scheduler", requestorCount*requestsEach, time.Since(begun).Round(time.Second), o.mostInMaintenance(), len(runs))
}

// A maintenance that waits for the locks of its node has a slot, but no mark on its node yet.
func TestARestartedSchedulerResyncsSlotsBeforeItGrants(t *testing.T) {
	reserve(t, "spoke-5")
	spoke := theFleet.Cluster("spoke-5")
	first, second := target{spoke, "worker-1"}, target{spoke, "worker-2"}
	lockNode(t, first)
	startMaintenance(t, first, maintenancev1.NodeMaintenanceSpec{})
	awaitReason("WorkloadLocksHeld")(t, first)

	terminate(t, temporal.MaintenanceSchedulerID(spoke.Name))
	startMaintenance(t, second, maintenancev1.NodeMaintenanceSpec{})
	status := ask(t, temporal.MaintenanceSchedulerID(spoke.Name), func(s slots.SchedulerStatus) bool {
		return s.Wait == nil && slices.ContainsFunc(s.Queue, func(p scheduling.QueueEntry) bool { return p.Node == second.node })
	})
	require.Len(t, status.Queue, 2)
	require.Equal(t, first.workflowID(), status.Queue[0].Owner.WorkflowID)
	require.Zero(t, status.Queue[0].Rank, "the first maintenance has the only slot")
	require.Equal(t, scheduling.NoSlot, status.Queue[1].Reason)
	decision := succeeds(t, "node", "schedule", "--cluster", spoke.Name, "--kubeconfig", spoke.KubeconfigFile)
	require.Contains(t, decision, "0 slots free")
	require.Regexp(t, second.name()+` .* waits +NoSlot: maxParallelOperations allows 1 of \d nodes under maintenance at once \(worker-1 for `, decision)

	unlock(t, spoke)
	for _, at := range []target{first, second} {
		awaitDone(t, at.name(), spoke)
		succeeds(t, "node", "status", at.name(), "--cluster", spoke.Name, "--watch")
	}
	require.NoError(t, theFleet.AwaitCleanup(t.Context(), spoke))
}

// Slot owners do not ask again, and waiting requesters ask less and less often, so the sweeper restarts the scheduler.
func TestATerminatedSchedulerIsRestartedWithoutARequest(t *testing.T) {
	reserve(t, "spoke-5")
	spoke := theFleet.Cluster("spoke-5")
	at := target{spoke, "worker-1"}
	startMaintenance(t, at, maintenancev1.NodeMaintenanceSpec{})
	awaitNodeState(t, at.workflowID(), maintenancev1.NodeReady)
	terminate(t, temporal.MaintenanceSchedulerID(spoke.Name))
	ask(t, temporal.MaintenanceSchedulerID(spoke.Name), func(s slots.SchedulerStatus) bool {
		return s.Wait == nil && len(s.Queue) == 1 && s.Queue[0].Rank == 0 && s.Queue[0].Owner.WorkflowID == at.workflowID()
	})
	awaitDone(t, at.name(), spoke)
	succeeds(t, "node", "status", at.name(), "--cluster", spoke.Name, "--watch")
	require.NoError(t, theFleet.AwaitCleanup(t.Context(), spoke))
}

// Without budgets one node at a time is in maintenance, for all requestors together.
func TestARolloutAndAPersonShareTheBudgetOfACluster(t *testing.T) {
	reserve(t, "spoke-6") // no test changes its budgets
	spoke := theFleet.Cluster("spoke-6")
	before := len(actionsOf(t, spoke))
	startRollout(t, rollout("shared", "", 60, spoke.Name))
	nodes := []string{"worker-1", "worker-2"}
	for _, name := range nodes {
		succeeds(t, "node", "maintain", name, "--cluster", spoke.Name, "--requestor", "ann.example.com", "--name", "by-hand-"+name)
	}
	ended := "" // the scheduler may learn of it later
	for range nodes {
		status := ask(t, temporal.MaintenanceSchedulerID(spoke.Name), func(s slots.SchedulerStatus) bool {
			return len(s.Queue) > 0 && s.Queue[0].Rank == 0 && s.Queue[0].Requestor == "ann.example.com" && s.Queue[0].Name != ended
		})
		ended = status.Queue[0].Name
		awaitDone(t, status.Queue[0].Name, spoke)
		succeeds(t, "node", "status", status.Queue[0].Name, "--cluster", spoke.Name, "--watch")
	}
	_, code := awaitEnd(t, "shared")
	require.Zero(t, code)
	require.NoError(t, theFleet.AwaitCleanup(t.Context(), spoke))

	out, maintained := "", 0
	for _, action := range actionsOf(t, spoke)[before:] {
		switch action.What {
		case fleet.ActionCordon:
			require.Empty(t, out, "%s is cordoned while %s is out of service", action.Object, out)
			out = action.Object
			maintained++
		case fleet.ActionUncordon:
			require.Equal(t, out, action.Object)
			out = ""
		}
	}
	require.Equal(t, workers+1+len(nodes), maintained)
}
