package locks_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/activities/lockcontroller"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	lcmv1 "drydock.dev/drydock/internal/apis/lcm/v1alpha1"
	"drydock.dev/drydock/internal/locks"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/kit"
	locksworkflow "drydock.dev/drydock/workflows/locks"
	"drydock.dev/drydock/workflows/workflowtest"
)

func nodeLock(node string, from, to lcmv1.LockState, reason locks.Reason) locks.LockDecision {
	return locks.LockDecision{Kind: locks.NodeLockKind, Name: "tf-" + node, Node: node, Action: locks.Update, From: from, To: to, Reason: reason}
}

// inMaintenance is a report of two nodes: the lock of n1 is inactive, and n2 waits.
func inMaintenance() locks.Report {
	n2 := nodeLock("n2", lcmv1.LockActive, lcmv1.LockActive, locks.MaxInactiveNodes)
	n2.Message = "waits for n1 (at most 1 inactive at once)"
	return locks.Report{
		Cluster: workflowtest.ClusterLock(lcmv1.LockInactive, locks.RequestStands), Total: 2, Active: 1, Inactive: 1,
		Nodes:    []locks.LockDecision{nodeLock("n1", lcmv1.LockInactive, lcmv1.LockInactive, locks.RequestStands), n2},
		Progress: locks.Progress{Percentage: 50, Description: "1 out of 2 nodes updated", InactiveNow: 1, Updated: 1, Total: 2},
	}
}

func TestALockControllerAppliesThePolicyAtTheStartAndOnChanges(t *testing.T) {
	w := workflowtest.NewLockWorld(t)
	w.AddDue(nodeLock("n1", lcmv1.LockActive, lcmv1.LockInactive, locks.PodReady), inMaintenance())
	w.When(func() bool { return len(w.Called()) == 5 }, func() {
		status := workflowtest.StatusOf[locksworkflow.Status](w.World)
		require.Equal(t, locksworkflow.Running, status.State)
		require.Equal(t, inMaintenance(), *status.Locks)
		require.Equal(t, "tf", status.Policy.ControllerName)
		require.Equal(t, string(locks.MaxInactiveNodes), status.Wait.Reason)
		require.Equal(t, "node n2: waits for n1 (at most 1 inactive at once)", status.Wait.Message)
		w.SignalWorkflow(temporal.SignalCancel, nil)
	})
	w.Run(workflowtest.LockInput())
	require.Equal(t, []string{"LocateCluster", "ApplyWorkloadLocks", "ObserveWorkloadLocks", "ApplyWorkloadLocks", "ObserveWorkloadLocks"}, w.Called())
	in := w.Inputs["ApplyWorkloadLocks"][0].(lockcontroller.Input)
	require.Equal(t, "c1", in.Cluster)
	require.True(t, strings.HasPrefix(in.Owner, "default-test-workflow-id/"), in.Owner)
	require.Equal(t, []string{
		"Lock controller enters a state cluster=c1 controller=tf state=Running",
		"Lock applied cluster=c1 controller=tf node=n1 action=update state=inactive reason=PodReady",
		"Lock controller enters a state cluster=c1 controller=tf state=Cancelled",
	}, w.Log.Lines("cluster", "controller", "state", "node", "action", "reason"))
}

func TestACancelledLockControllerLeavesTheLocksAndDescribesThem(t *testing.T) {
	for _, test := range []struct {
		name   string
		cancel func(w *workflowtest.LockWorld)
		by     string
	}{
		{"by signal", func(w *workflowtest.LockWorld) {
			w.SignalWorkflow(temporal.SignalCancel, temporal.SignalRequest{Actor: "ann", Reason: "moves"})
		}, "cancelled by ann: moves"},
		{"by Temporal's own cancellation", func(w *workflowtest.LockWorld) { w.CancelWorkflow() }, "cancelled"},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := workflowtest.NewLockWorld(t)
			w.Reports = []locks.Report{inMaintenance()}
			w.When(func() bool { return len(w.Called()) == 3 }, func() { test.cancel(w) })
			w.Run(workflowtest.LockInput())
			status := workflowtest.RequireCancelled[locksworkflow.Status](w.World)
			require.Equal(t, locksworkflow.Cancelled, status.State)
			require.Nil(t, status.Wait)
			require.Equal(t, []string{test.by + "; the locks stay as they are: 1 of 2 node locks block maintenance until the controller is started again or they are deleted, " +
				"and the cluster's lock stays inactive; n1 stay inactive after their maintenance"}, status.Notes)
			require.Equal(t, []string{"LocateCluster", "ApplyWorkloadLocks", "ObserveWorkloadLocks"}, w.Called(), "the locks are not changed")
		})
	}
}

func TestALockControllerReportsAnErrorAndRetries(t *testing.T) {
	w := workflowtest.NewLockWorld(t)
	unreachable := temporal.Error(temporal.ErrClusterUnreachable, "cluster c1: its API server does not answer", nil)
	w.Fail["ApplyWorkloadLocks"] = func(call int) error {
		if call <= kit.RoundAttempts+2 {
			return unreachable
		}
		return nil
	}
	var seen *drydockv1.Wait
	w.When(func() bool {
		seen = workflowtest.StatusOf[locksworkflow.Status](w.World).Wait
		return seen != nil
	}, func() {
		require.Equal(t, temporal.ErrClusterUnreachable, seen.Reason)
		require.Equal(t, "apply the lock policy: cluster c1: its API server does not answer", seen.Message)
		w.When(func() bool { return len(w.Inputs["ObserveWorkloadLocks"]) == 1 }, func() {
			require.Equal(t, string(locks.NoMaintenance), workflowtest.StatusOf[locksworkflow.Status](w.World).Wait.Reason)
			w.CancelWorkflow()
		})
	})
	w.Run(workflowtest.LockInput())
	require.NotNil(t, seen)
	workflowtest.RequireCancelled[locksworkflow.Status](w.World)
}

func TestALockControllerReportsAnUnreachableClusterAllDay(t *testing.T) {
	w := workflowtest.NewLockWorld(t)
	unreachable := temporal.Error(temporal.ErrClusterUnreachable, "cluster c1: its API server does not answer", nil)
	w.Blocked["ObserveWorkloadLocks"] = false
	w.Fail["ObserveWorkloadLocks"] = workflowtest.Always(unreachable)
	w.Fail["ApplyWorkloadLocks"] = func(call int) error {
		if call == 1 {
			return nil
		}
		return unreachable
	}
	w.RegisterDelayedCallback(func() {
		require.Equal(t, temporal.ErrClusterUnreachable, workflowtest.StatusOf[locksworkflow.Status](w.World).Wait.Reason)
		require.Len(t, w.InputsOf("ObserveWorkloadLocks"), kit.RoundAttempts)
		w.CancelWorkflow()
	}, 24*time.Hour)
	w.Run(workflowtest.LockInput())
	workflowtest.RequireCancelled[locksworkflow.Status](w.World)
}

func TestAnInvalidPolicyFailsTheLockController(t *testing.T) {
	w := workflowtest.NewLockWorld(t)
	w.Fail["ApplyWorkloadLocks"] = workflowtest.Always(temporal.Error(temporal.ErrInvalidSpec, "spec.nodeSelector: bad", nil))
	w.Run(workflowtest.LockInput())
	status := workflowtest.RequireFailure[locksworkflow.Status](w.World, temporal.ErrInvalidSpec)
	require.Equal(t, locksworkflow.Failed, status.State)
	require.Equal(t, []string{"spec.nodeSelector: bad; no lock was written"}, status.Notes)
}

func TestALongRunContinuesAsNewWithItsStatus(t *testing.T) {
	w := workflowtest.NewLockWorld(t)
	w.AddDue(nodeLock("n1", lcmv1.LockActive, lcmv1.LockInactive, locks.PodReady), inMaintenance())
	w.Fail["ObserveWorkloadLocks"] = func(int) error {
		w.SetContinueAsNewSuggested(true)
		return nil
	}
	w.Run(workflowtest.LockInput())
	var next *workflow.ContinueAsNewError
	require.ErrorAs(t, w.GetWorkflowError(), &next)
	require.Equal(t, temporal.WorkloadLockController, next.WorkflowType.Name)
	require.Equal(t, []string{"LocateCluster", "ApplyWorkloadLocks", "ObserveWorkloadLocks", "ApplyWorkloadLocks"}, w.Called(), "it continues as new when no activity runs")
	var in locksworkflow.Input
	require.NoError(t, converter.GetDefaultDataConverter().FromPayloads(next.Input, &in))
	require.Equal(t, temporal.TaskQueue, in.TaskQueue)
	require.Equal(t, inMaintenance(), *in.Carried.Locks)

	again := workflowtest.NewLockWorld(t)
	again.Reports = []locks.Report{inMaintenance()}
	again.When(func() bool { return len(again.Called()) == 2 }, func() { again.CancelWorkflow() })
	again.Run(in)
	status := workflowtest.RequireCancelled[locksworkflow.Status](again.World)
	require.True(t, in.Carried.StartedAt.Equal(&status.StartedAt))
	require.Equal(t, []string{"ApplyWorkloadLocks", "ObserveWorkloadLocks"}, again.Called())
}

func TestALockControllerContinuesAsNewDuringALongOutage(t *testing.T) {
	w := workflowtest.NewLockWorld(t)
	w.Fail["ApplyWorkloadLocks"] = func(call int) error {
		if call == 2*kit.RoundAttempts {
			w.SetContinueAsNewSuggested(true)
		}
		return temporal.Error(temporal.ErrClusterUnreachable, "cluster c1: its API server does not answer", nil)
	}
	w.SimulateAfter(24*time.Hour, w.CancelWorkflow)
	w.Run(workflowtest.LockInput())
	require.True(t, workflow.IsContinueAsNewError(w.GetWorkflowError()), "%v", w.GetWorkflowError())
}

func TestALockControllerShowsTheProgress(t *testing.T) {
	report := inMaintenance()
	require.Contains(t, locksworkflow.Details(&locksworkflow.Status{Locks: &report}), "| progress | 1 out of 2 nodes updated (50%), 1 inactive now |")
}

func TestTheDetailsOfALockControllerAreLimited(t *testing.T) {
	status := locksworkflow.Status{Cluster: "c1", State: locksworkflow.Running, Locks: &locks.Report{}}
	var due lockcontroller.Due
	for i := range locks.MaxReported {
		lock := nodeLock(fmt.Sprintf("worker-%d.example.com", i), lcmv1.LockActive, lcmv1.LockInactive, locks.PodReady)
		lock.Message = "pod tf/vrouter: container agent is not ready"
		status.Locks.Nodes = append(status.Locks.Nodes, lock)
		due.Changes = append(due.Changes, lock)
	}
	require.Less(t, len(locksworkflow.Details(&status)), 2048)
	require.Contains(t, locksworkflow.Details(&status), "| worker-0.example.com | inactive | PodReady | pod tf/vrouter: container agent is not ready |")
	require.Less(t, len(locksworkflow.ApplySummary(due)), 200)
	require.Equal(t, "locks: worker-0.example.com inactive, worker-1.example.com inactive, worker-2.example.com inactive, worker-3.example.com inactive and 96 more", locksworkflow.ApplySummary(due))
	require.Equal(t, "locks: cluster created, n1 removed, n2 PodNotReady", locksworkflow.ApplySummary(lockcontroller.Due{Changes: []locks.LockDecision{
		{Kind: locks.ClusterLockKind, Action: locks.Create},
		{Kind: locks.NodeLockKind, Node: "n1", Action: locks.Delete},
		nodeLock("n2", lcmv1.LockActive, lcmv1.LockActive, locks.PodNotReady),
	}}))
}
