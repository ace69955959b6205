package chaos

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/devstack"
	"drydock.dev/drydock/internal/emergency"
	"drydock.dev/drydock/internal/scheduling"
	"drydock.dev/drydock/internal/temporal"
	slotsworkflow "drydock.dev/drydock/workflows/slots"
)

// slots are scenarios of faults while nodes wait for slots.
func slots() []scenario {
	return []scenario{
		crashOnSpokes("the worker is killed while nodes wait for slots", killed, slotTaken(), heldCluster(), resyncing()),
		crashOnSpokes("the worker stops while nodes wait for slots", stopped, slotTaken(), heldCluster(), resyncing()),
		crashOnSpokes("the worker is killed while maintenances wait for each other", killed, waitsForSlot(), waitsForNode(), heldRollout()),
		crashOnSpokes("the worker stops while maintenances wait for each other", stopped, waitsForSlot(), waitsForNode(), heldRollout()),
		crashOnSpokes("the worker is killed while a rollout waits for a maintenance", killed, rolloutWaitsForNode(), ownerTerminated()),
		crashOnSpokes("the worker stops while a rollout waits for a maintenance", stopped, rolloutWaitsForNode(), ownerTerminated()),
		{name: "the scheduler is terminated while slots are requested", short: true, run: schedulerTerminated},
		{name: "the scheduler is terminated while a rollout is running", run: schedulerOfRolloutTerminated},
		{name: "the owner of the only slot is terminated", run: slotOwnerTerminated},
		{name: "work is cancelled while it waits for others", run: waitingWorkEnds(cancelled, (*scenarioRun).cancel)},
		{name: "work is terminated while it waits for others", run: waitingWorkEnds(terminated, func(s *scenarioRun, t *testing.T, _ int, waiter string) {
			require.NoError(t, s.temporal.TerminateWorkflow(t.Context(), waiter, "", s.name))
		})},
	}
}

func schedulerState(name, moment string, reach func(*testing.T, *scenarioRun, target) reached) state {
	return state{workflow: temporal.MaintenanceScheduler, state: name, moment: moment, activity: "WatchNodes", reach: reach}
}

// slotTaken: one maintenance has the only slot of the cluster, and another waits for it.
func slotTaken() state {
	return schedulerState("granting", "one slot granted, one requested", func(t *testing.T, s *scenarioRun, at target) reached {
		_, unblock := s.startSlotWaiter(t, at)
		return reached{workflow: temporal.MaintenanceSchedulerID(at.spoke.Name), unblock: unblock}
	})
}

// waitsForSlot is slotTaken from the view of the waiting maintenance.
func waitsForSlot() state {
	return state{
		workflow: temporal.NodeMaintenance, state: string(maintenancev1.NodePending), moment: "waiting for its slot",
		reach: func(t *testing.T, s *scenarioRun, at target) reached {
			waiting, unblock := s.startSlotWaiter(t, at)
			return reached{workflow: waiting.workflow, unblock: unblock}
		},
	}
}

// startSlotWaiter starts a maintenance that waits for the slot of another one, whose drain is blocked until unblock is called.
func (s *scenarioRun) startSlotWaiter(t *testing.T, at target) (waiting *work, unblock func()) {
	t.Helper()
	first := draining().reach(t, s, at)
	waiting = s.maintain(t, target{at.spoke, "worker-2"}, maintenancev1.NodeMaintenanceSpec{Action: job(nil)})
	s.awaitReason(t, waiting.workflow, string(scheduling.NoSlot))
	s.awaitQueue(t, at.spoke, func(queue []scheduling.QueueEntry) bool {
		return len(queue) == 2 && queue[0].Owner.WorkflowID == first.workflow && queue[0].Rank == 0 && queue[1].Rank == 1
	})
	return waiting, first.unblock
}

// awaitQueue waits until the queue of a scheduler satisfies a condition, and no resync is pending.
func (s *scenarioRun) awaitQueue(t *testing.T, spoke *devstack.Cluster, matches func([]scheduling.QueueEntry) bool) {
	t.Helper()
	status := awaitStatus(t, s, temporal.MaintenanceSchedulerID(spoke.Name), "has that queue", func(status slotsworkflow.SchedulerStatus) bool {
		return status.Wait == nil && matches(status.Queue)
	})
	for _, entry := range status.Queue {
		if entry.Rank == 0 {
			maintenance := temporal.NodeMaintenanceID(spoke.Name, entry.Namespace, entry.Name)
			require.True(t, s.isRunning(t, maintenance), "%s has ended and has a slot of %s", maintenance, spoke.Name)
		}
	}
}

// requireNoSlots waits until the scheduler of a spoke has no slots and no requests. A terminated scheduler without a successor has none.
func (s *scenarioRun) requireNoSlots(t *testing.T, spoke *devstack.Cluster) {
	t.Helper()
	scheduler := temporal.MaintenanceSchedulerID(spoke.Name)
	if !s.wasStarted(t, scheduler) || !s.isRunning(t, scheduler) {
		return
	}
	awaitStatus(t, s, scheduler, "has an empty queue, although all work has ended", func(status slotsworkflow.SchedulerStatus) bool {
		return len(status.Queue) == 0
	})
}

// heldCluster: nothing is granted during a hold.
func heldCluster() state {
	return schedulerState("held", "one slot requested", func(t *testing.T, s *scenarioRun, at target) reached {
		release := s.hold(t, at.spoke)
		w := s.maintain(t, at, maintenancev1.NodeMaintenanceSpec{Action: job(nil)})
		s.awaitReason(t, w.workflow, emergency.ReasonHeld)
		return reached{workflow: temporal.MaintenanceSchedulerID(at.spoke.Name), unblock: release}
	})
}

// heldRollout: a rollout does not start a held cluster.
func heldRollout() state {
	return groupState("InProgress, its cluster held", "", func(t *testing.T, s *scenarioRun, at target) reached {
		release := s.hold(t, at.spoke)
		w := s.smallRollout(t, at, nil, at.node)
		s.awaitReason(t, w.workflow, emergency.ReasonHeld)
		return reached{workflow: w.workflow, unblock: release}
	})
}

// hold holds a cluster until release is called.
func (s *scenarioRun) hold(t *testing.T, cluster *devstack.Cluster) (release func()) {
	t.Helper()
	s.drydock(t, "hold", "--cluster", cluster.Name, "--reason", s.name)
	t.Cleanup(func() { _ = s.Command(context.Background(), "release", "--cluster", cluster.Name).Run() }) // the cluster may be released already
	return func() { s.drydock(t, "release", "--cluster", cluster.Name) }
}

// resyncing: a restarted scheduler waits for the answer of a stuck maintenance, which may have a slot.
func resyncing() state {
	return schedulerState("resync", "one owner does not answer", func(t *testing.T, s *scenarioRun, at target) reached {
		_, unblock := s.startSlotWaiter(t, at)
		stuck := s.startStuckMaintenance(t, at.spoke)
		scheduler := temporal.MaintenanceSchedulerID(at.spoke.Name)
		require.NoError(t, s.temporal.TerminateWorkflow(t.Context(), scheduler, "", s.name))
		s.maintain(t, target{at.spoke, "worker-3"}, maintenancev1.NodeMaintenanceSpec{Action: job(nil)})
		awaitStatus(t, s, scheduler, "waits for the stuck maintenance", func(status slotsworkflow.SchedulerStatus) bool {
			return status.Wait != nil && status.Wait.Reason == scheduling.ReasonSlotOwnersUnknown && strings.Contains(status.Wait.Message, stuck)
		})
		return reached{workflow: scheduler, unblock: func() {
			require.NoError(t, s.temporal.TerminateWorkflow(context.Background(), stuck, "", s.name))
			unblock()
		}}
	})
}

// startStuckMaintenance starts a maintenance that no worker executes, and returns its ID.
func (s *scenarioRun) startStuckMaintenance(t *testing.T, spoke *devstack.Cluster) (id string) {
	t.Helper()
	id = temporal.NodeMaintenanceID(spoke.Name, namespace, s.name+"-stuck")
	_, err := s.temporal.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: id, TaskQueue: "no-worker"}, temporal.NodeMaintenance)
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.temporal.TerminateWorkflow(context.Background(), id, "", s.name) }) // it may be closed
	require.Eventually(t, func() bool {
		found, err := s.temporal.ListWorkflow(t.Context(), &workflowservice.ListWorkflowExecutionsRequest{Query: "WorkflowId = '" + id + "'"})
		return err == nil && len(found.Executions) == 1
	}, waitLimit, commandLimit/1000, "%s cannot be found", id)
	return id
}

// waitsForNode: a maintenance waits for a node that another maintenance owns.
func waitsForNode() state {
	return state{
		workflow: temporal.NodeMaintenance, state: string(maintenancev1.NodePending), moment: "waiting for the node of another maintenance",
		reach: func(t *testing.T, s *scenarioRun, at target) reached {
			owner := s.maintain(t, at, maintenancev1.NodeMaintenanceSpec{DrainSpec: drainAll()})
			owner.maintainedAgain = true
			s.awaitPhase(t, owner.workflow, string(maintenancev1.NodeReady))
			waiting := s.maintainFor(t, at, "waiting.example.com", maintenancev1.NodeMaintenanceSpec{Action: job(nil)})
			s.awaitReason(t, waiting.workflow, string(scheduling.NodeBusy))
			return reached{workflow: waiting.workflow, unblock: func() { s.signalIfRunning(t, owner.workflow, temporal.SignalDone) }}
		},
	}
}

// rolloutWaitsForNode: a rollout waits for a node that another maintenance drains.
func rolloutWaitsForNode() state {
	return clusterState(ranv1.StepWorkers, "waiting for the node of another maintenance", "", func(t *testing.T, s *scenarioRun, at target) reached {
		pod := s.barePod(t, at, map[string]string{devstack.AnnotationLeaveAfter: forever})
		owner := s.maintainFor(t, at, "owner.example.com", maintenancev1.NodeMaintenanceSpec{DrainSpec: drainAll()})
		owner.maintainedAgain = true
		s.awaitWaiting(t, owner.workflow, "Drain")
		w := s.smallRollout(t, at, nil, at.node)
		s.awaitReason(t, s.awaitCluster(t, w, at.spoke), string(scheduling.NodeBusy))
		return reached{workflow: w.ofCluster(at.spoke), unblock: func() {
			endTermination(t, at, pod)
			s.awaitPhase(t, owner.workflow, string(maintenancev1.NodeReady))
			s.signal(t, owner.workflow, temporal.SignalDone)
		}}
	})
}

// schedulerTerminated: the next scheduler does not grant a slot twice, and serves all requests.
func schedulerTerminated(t *testing.T, s *scenarioRun) {
	at := target{s.Spokes[1], "worker-1"}
	waiting, unblock := s.startSlotWaiter(t, at)
	require.NoError(t, s.temporal.TerminateWorkflow(t.Context(), temporal.MaintenanceSchedulerID(at.spoke.Name), "", s.name))
	s.maintain(t, target{at.spoke, "worker-3"}, maintenancev1.NodeMaintenanceSpec{Action: job(nil)})
	s.awaitQueue(t, at.spoke, func(queue []scheduling.QueueEntry) bool {
		return len(queue) == 3 && queue[0].Node == at.node && queue[0].Rank == 0 && hasWaiter(queue, waiting)
	})
	unblock()
}

func hasWaiter(queue []scheduling.QueueEntry, w *work) bool {
	return slices.ContainsFunc(queue, func(p scheduling.QueueEntry) bool { return p.Owner.WorkflowID == w.workflow && p.Rank > 0 })
}

// schedulerOfRolloutTerminated: the rollout sends its slots to the next scheduler.
func schedulerOfRolloutTerminated(t *testing.T, s *scenarioRun) {
	at := target{s.Spokes[1], "worker-1"}
	w, unblock := s.slowDrain(t, at, at.node, "worker-2")
	require.NoError(t, s.temporal.TerminateWorkflow(t.Context(), temporal.MaintenanceSchedulerID(at.spoke.Name), "", s.name))
	s.maintain(t, target{at.spoke, "worker-3"}, maintenancev1.NodeMaintenanceSpec{Action: job(nil)})
	s.awaitQueue(t, at.spoke, func(queue []scheduling.QueueEntry) bool {
		return len(queue) == 3 && queue[0].Owner.WorkflowID == w.ofCluster(at.spoke) && queue[0].Node == at.node && queue[0].Rank == 0
	})
	unblock()
}

// slotOwnerTerminated: the scheduler frees the slot when the sweeper has returned the node.
func slotOwnerTerminated(t *testing.T, s *scenarioRun) {
	_, unblock := s.startSlotWaiter(t, target{s.Spokes[1], "worker-1"})
	owner := s.works[0]
	owner.end, owner.terminated = terminated, true
	require.NoError(t, s.temporal.TerminateWorkflow(t.Context(), owner.workflow, "", s.name))
	unblock()
}

// waitingWorkEnds is a scenario in which waiting work is cancelled or terminated. The work that it waits for continues.
func waitingWorkEnds(end string, stop func(s *scenarioRun, t *testing.T, i int, waiter string)) func(*testing.T, *scenarioRun) {
	return func(t *testing.T, s *scenarioRun) {
		arrived := s.reachAll(t, s.oneNodePerSpoke(), waitsForSlot(), waitsForNode(), heldRollout())
		for i, at := range arrived {
			w := s.workOf(t, at.workflow)
			w.end, w.terminated = end, end == terminated
			stop(s, t, i, at.workflow)
			s.requireEnd(t, w)
		}
		for _, at := range arrived {
			at.unblock()
		}
	}
}
