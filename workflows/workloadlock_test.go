package workflows

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/converter"
	sdktemporal "go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/activities"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	lcmv1 "drydock.dev/drydock/internal/apis/lcm/v1alpha1"
	"drydock.dev/drydock/internal/locks"
	"drydock.dev/drydock/internal/temporal"
)

// lockWorld is a world with an application's locks: each look finds the next of what is due, and after the last nothing is due any more.
type lockWorld struct {
	*world
	due     []activities.WorkloadLocksDue
	reports []locks.Report
}

func newLockWorld(t *testing.T) *lockWorld {
	w := &lockWorld{world: newWorld(t), reports: []locks.Report{{Cluster: clusterLock(lcmv1.LockActive, locks.NoRequest), Total: 2, Active: 2}}}
	play(w.world, "ObserveWorkloadLocks", func(activities.WorkloadLocksInput) any {
		w.mu.Lock()
		defer w.mu.Unlock()
		next := w.due[0]
		w.due = w.due[1:]
		w.blocked["ObserveWorkloadLocks"] = len(w.due) == 0
		return next
	})
	play(w.world, "ApplyWorkloadLocks", func(activities.WorkloadLocksInput) any {
		w.mu.Lock()
		defer w.mu.Unlock()
		last := w.reports[0]
		if len(w.reports) > 1 {
			w.reports = w.reports[1:]
		}
		return last
	})
	w.blocked["ObserveWorkloadLocks"] = true
	return w
}

// finds has something due at the next look, and this is how the locks are then.
func (w *lockWorld) finds(change locks.LockDecision, report locks.Report) {
	w.blocked["ObserveWorkloadLocks"] = false
	w.due = append(w.due, activities.WorkloadLocksDue{Changes: []locks.LockDecision{change}})
	w.reports = append(w.reports, report)
}

func (w *lockWorld) run(in WorkloadLockControllerInput) {
	w.ExecuteWorkflow(WorkloadLockController, in)
}

func lockInput() WorkloadLockControllerInput {
	return WorkloadLockControllerInput{Cluster: "c1", Policy: drydockv1.WorkloadLockPolicy{Spec: drydockv1.WorkloadLockPolicySpec{ControllerName: "tf", Namespace: "tf"}}}
}

func clusterLock(state lcmv1.LockState, reason locks.Reason) locks.LockDecision {
	return locks.LockDecision{Kind: locks.ClusterLockKind, Name: "tf", Action: locks.Keep, From: state, To: state, Reason: reason}
}

func nodeLock(node string, from, to lcmv1.LockState, reason locks.Reason) locks.LockDecision {
	return locks.LockDecision{Kind: locks.NodeLockKind, Name: "tf-" + node, Node: node, Action: locks.Update, From: from, To: to, Reason: reason}
}

// inMaintenance is a report of two nodes, of which n1 has been let go of and n2 waits for its turn.
func inMaintenance() locks.Report {
	n2 := nodeLock("n2", lcmv1.LockActive, lcmv1.LockActive, locks.MaxInactiveNodes)
	n2.Message = "its turn comes after n1 (at most 1 at once)"
	return locks.Report{
		Cluster: clusterLock(lcmv1.LockInactive, locks.RequestStands), Total: 2, Active: 1, Inactive: 1,
		Nodes:    []locks.LockDecision{nodeLock("n1", lcmv1.LockInactive, lcmv1.LockInactive, locks.RequestStands), n2},
		Progress: locks.Progress{Percentage: 50, Description: "1 out of 2 nodes updated", InactiveNow: 1, Updated: 1, Total: 2},
	}
}

func TestALockControllerPutsTheLocksRightAtTheStartAndWheneverSomethingIsDue(t *testing.T) {
	w := newLockWorld(t)
	w.finds(nodeLock("n1", lcmv1.LockActive, lcmv1.LockInactive, locks.PodReady), inMaintenance())
	w.when(func() bool { return len(w.called()) == 5 }, func() {
		status := statusOf[WorkloadLockControllerStatus](w.world)
		require.Equal(t, LockControllerRunning, status.State)
		require.Equal(t, inMaintenance(), *status.Locks)
		require.Equal(t, "tf", status.Policy.ControllerName)
		require.Equal(t, string(locks.MaxInactiveNodes), status.Wait.Reason)
		require.Equal(t, "node n2: its turn comes after n1 (at most 1 at once)", status.Wait.Message)
		w.SignalWorkflow(temporal.SignalCancel, nil)
	})
	w.run(lockInput())
	require.Equal(t, []string{"LocateCluster", "ApplyWorkloadLocks", "ObserveWorkloadLocks", "ApplyWorkloadLocks", "ObserveWorkloadLocks"}, w.called())
	in := w.inputs["ApplyWorkloadLocks"][0].(activities.WorkloadLocksInput)
	require.Equal(t, "c1", in.Cluster)
	require.True(t, strings.HasPrefix(in.Owner, "default-test-workflow-id/"), in.Owner)
}

func TestALockControllerThatIsCancelledLeavesTheLocksAndSaysWhatTheyDo(t *testing.T) {
	for _, test := range []struct {
		name   string
		cancel func(w *lockWorld)
		by     string
	}{
		{"by signal", func(w *lockWorld) {
			w.SignalWorkflow(temporal.SignalCancel, temporal.SignalRequest{Actor: "ann", Reason: "moves"})
		}, "cancelled by ann: moves"},
		{"by Temporal's own cancellation", func(w *lockWorld) { w.CancelWorkflow() }, "cancelled"},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newLockWorld(t)
			w.reports = []locks.Report{inMaintenance()}
			w.when(func() bool { return len(w.called()) == 3 }, func() { test.cancel(w) })
			w.run(lockInput())
			status := requireCancelled[WorkloadLockControllerStatus](w.world)
			require.Equal(t, LockControllerCancelled, status.State)
			require.Nil(t, status.Wait)
			require.Equal(t, []string{test.by + "; the locks stay as they are: 1 of 2 node locks hold until the controller is started again or they are deleted, " +
				"the cluster's lock has let go and does not take that back; n1 stay let go of after their maintenance"}, status.Notes)
			require.Equal(t, []string{"LocateCluster", "ApplyWorkloadLocks", "ObserveWorkloadLocks"}, w.called(), "no lock is touched")
		})
	}
}

func TestALockControllerSaysWhyItDoesNotGetOnAndTriesAgain(t *testing.T) {
	w := newLockWorld(t)
	unreachable := temporal.Error(temporal.ErrClusterUnreachable, "cluster c1: its API server does not answer", nil)
	w.fail["ApplyWorkloadLocks"] = func(call int) error {
		if call <= roundAttempts+2 {
			return unreachable
		}
		return nil
	}
	var seen *drydockv1.Wait
	w.when(func() bool {
		seen = statusOf[WorkloadLockControllerStatus](w.world).Wait
		return seen != nil
	}, func() {
		require.Equal(t, temporal.ErrClusterUnreachable, seen.Reason)
		require.Equal(t, "see to the locks: cluster c1: its API server does not answer", seen.Message)
		w.when(func() bool { return len(w.inputs["ObserveWorkloadLocks"]) == 1 }, func() {
			require.Equal(t, string(locks.NoMaintenance), statusOf[WorkloadLockControllerStatus](w.world).Wait.Reason)
			w.CancelWorkflow()
		})
	})
	w.run(lockInput())
	require.NotNil(t, seen)
	requireCancelled[WorkloadLockControllerStatus](w.world)
}

func TestALockControllerWhoseClusterDoesNotAnswerForADaySaysSoAllTheTime(t *testing.T) {
	w := newLockWorld(t)
	unreachable := temporal.Error(temporal.ErrClusterUnreachable, "cluster c1: its API server does not answer", nil)
	w.blocked["ObserveWorkloadLocks"] = false
	w.fail["ObserveWorkloadLocks"] = always(unreachable)
	w.fail["ApplyWorkloadLocks"] = func(call int) error {
		if call == 1 {
			return nil
		}
		return unreachable
	}
	w.RegisterDelayedCallback(func() {
		require.Equal(t, temporal.ErrClusterUnreachable, statusOf[WorkloadLockControllerStatus](w.world).Wait.Reason)
		require.Len(t, w.inputsOf("ObserveWorkloadLocks"), roundAttempts)
		w.CancelWorkflow()
	}, 24*time.Hour)
	w.run(lockInput())
	requireCancelled[WorkloadLockControllerStatus](w.world)
}

func TestAPolicyThatCannotBeFollowedEndsTheLockController(t *testing.T) {
	w := newLockWorld(t)
	w.fail["ApplyWorkloadLocks"] = always(temporal.Error(temporal.ErrInvalidSpec, "spec.nodeSelector: bad", nil))
	w.run(lockInput())
	status := requireFailure[WorkloadLockControllerStatus](w.world, temporal.ErrInvalidSpec)
	require.Equal(t, LockControllerFailed, status.State)
	require.Equal(t, []string{"spec.nodeSelector: bad; no lock was written"}, status.Notes)
}

func TestALongRunContinuesAsNewWithItsStatus(t *testing.T) {
	w := newLockWorld(t)
	w.finds(nodeLock("n1", lcmv1.LockActive, lcmv1.LockInactive, locks.PodReady), inMaintenance())
	w.fail["ObserveWorkloadLocks"] = func(int) error {
		w.SetContinueAsNewSuggested(true)
		return nil
	}
	w.run(lockInput())
	var next *workflow.ContinueAsNewError
	require.ErrorAs(t, w.GetWorkflowError(), &next)
	require.Equal(t, temporal.WorkloadLockController, next.WorkflowType.Name)
	require.Equal(t, []string{"LocateCluster", "ApplyWorkloadLocks", "ObserveWorkloadLocks", "ApplyWorkloadLocks"}, w.called(), "it ends when nothing is under way")
	var in WorkloadLockControllerInput
	require.NoError(t, converter.GetDefaultDataConverter().FromPayloads(next.Input, &in))
	require.Equal(t, temporal.TaskQueue, in.TaskQueue)
	require.Equal(t, inMaintenance(), *in.Carried.Locks)

	again := newLockWorld(t)
	again.reports = []locks.Report{inMaintenance()}
	again.when(func() bool { return len(again.called()) == 2 }, func() { again.CancelWorkflow() })
	again.run(in)
	status := requireCancelled[WorkloadLockControllerStatus](again.world)
	require.True(t, in.Carried.StartedAt.Equal(&status.StartedAt))
	require.Equal(t, []string{"ApplyWorkloadLocks", "ObserveWorkloadLocks"}, again.called())
}

func TestALockControllerWhoseClusterDoesNotAnswerForWeeksFillsNoHistory(t *testing.T) {
	w := newLockWorld(t)
	w.fail["ApplyWorkloadLocks"] = func(call int) error {
		if call == 2*roundAttempts {
			w.SetContinueAsNewSuggested(true)
		}
		return temporal.Error(temporal.ErrClusterUnreachable, "cluster c1: its API server does not answer", nil)
	}
	w.simulateAfter(24*time.Hour, w.CancelWorkflow)
	w.run(lockInput())
	require.True(t, workflow.IsContinueAsNewError(w.GetWorkflowError()), "%v", w.GetWorkflowError())
}

func TestALockControllerShowsTheProgress(t *testing.T) {
	report := inMaintenance()
	require.Contains(t, lockControllerDetails(&WorkloadLockControllerStatus{Locks: &report}), "| progress | 1 out of 2 nodes updated (50%), 1 inactive now |")
}

func TestWhatALockControllerShowsStaysSmall(t *testing.T) {
	status := WorkloadLockControllerStatus{Cluster: "c1", State: LockControllerRunning, Locks: &locks.Report{}}
	var due activities.WorkloadLocksDue
	for i := range locks.MaxReported {
		lock := nodeLock(fmt.Sprintf("worker-%d.example.com", i), lcmv1.LockActive, lcmv1.LockInactive, locks.PodReady)
		lock.Message = "pod tf/vrouter: container agent is not ready"
		status.Locks.Nodes = append(status.Locks.Nodes, lock)
		due.Changes = append(due.Changes, lock)
	}
	require.Less(t, len(lockControllerDetails(&status)), 2048)
	require.Contains(t, lockControllerDetails(&status), "| worker-0.example.com | inactive | PodReady | pod tf/vrouter: container agent is not ready |")
	require.Less(t, len(applySummary(due)), 200)
	require.Equal(t, "worker-0.example.com inactive, worker-1.example.com inactive, worker-2.example.com inactive, worker-3.example.com inactive and 96 more", applySummary(due))
	require.Equal(t, "cluster created, n1 removed, n2 PodNotReady", applySummary(activities.WorkloadLocksDue{Changes: []locks.LockDecision{
		{Kind: locks.ClusterLockKind, Action: locks.Create},
		{Kind: locks.NodeLockKind, Node: "n1", Action: locks.Delete},
		nodeLock("n2", lcmv1.LockActive, lcmv1.LockActive, locks.PodNotReady),
	}}))
}

func TestAWaitThatOnlyRanForLongIsNoFailureAndAnEffectIs(t *testing.T) {
	wait, effect := workflow.ActivityOptions{HeartbeatTimeout: heartbeatTimeout}, workflow.ActivityOptions{}
	tooLong := sdktemporal.NewTimeoutError(enumspb.TIMEOUT_TYPE_START_TO_CLOSE, nil)
	require.False(t, uneventful(errors.New("boom"), wait))
	require.False(t, uneventful(sdktemporal.NewTimeoutError(enumspb.TIMEOUT_TYPE_HEARTBEAT, nil), wait))
	require.True(t, uneventful(tooLong, wait))
	require.False(t, uneventful(tooLong, effect))
}
