package nodemaintenance_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"drydock.dev/drydock/activities/node"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/scheduling"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/nodemaintenance"
	"drydock.dev/drydock/workflows/workflowtest"
)

func TestAStaleMaintenanceIsReportedAndContinues(t *testing.T) {
	w := workflowtest.NewWorld(t)
	w.Staleness = []scheduling.Staleness{{Stale: true, LimitSeconds: 3600}}
	w.EachMinute(w.RequireNodeKept(maintenancev1.NodeReady), func() {
		wait := workflowtest.StatusOf[workflowtest.NodeStatus](w).Wait
		require.Equal(t, nodemaintenance.ReasonStale, wait.Reason)
		require.Contains(t, wait.Message, "for longer than 3600 s")
	}, w.Signal(temporal.SignalDone, ""))
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, workflowtest.RequestorMaintenance())
	require.Contains(t, workflowtest.RequireResult[workflowtest.NodeStatus](w).Notes[0], "stale since ")
	require.Equal(t, int64(1), w.Counters.Of("drydock_stale_maintenances", "c1"), "counted once")
}

func TestAMaintenanceIsStaleWhileItsClusterReportsIt(t *testing.T) {
	w := workflowtest.NewWorld(t)
	w.Staleness = []scheduling.Staleness{{Stale: true, LimitSeconds: 3600}, {}}
	w.EachMinute(func() {
		require.Equal(t, "AwaitingRequestor", workflowtest.StatusOf[workflowtest.NodeStatus](w).Wait.Reason)
	}, w.Signal(temporal.SignalDone, ""))
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, workflowtest.RequestorMaintenance())
	workflowtest.RequireResult[workflowtest.NodeStatus](w)
	require.Equal(t, scheduling.Staleness{Stale: true, LimitSeconds: 3600}, w.Inputs["AwaitStale"][1].(node.AwaitStaleInput).Known.Staleness)
}

func TestAStaleMaintenanceIsCollectedIfConfigured(t *testing.T) {
	w := workflowtest.NewWorld(t)
	w.Staleness = []scheduling.Staleness{{Stale: true, LimitSeconds: 3600, Collect: true}}
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, twoRequestors())
	status := workflowtest.RequireCancelled[workflowtest.NodeStatus](w)
	require.Contains(t, status.Notes, "cancelled: collected, as garbageCollect requires: the node was ready for more than 3600 s (maxNodeMaintenanceTimeSeconds)")
	require.Contains(t, w.Called(), "ReturnNode")
}

func TestALongRunningJobIsReportedAndNotStopped(t *testing.T) {
	w := workflowtest.NewWorld(t)
	w.Blocked["RunJob"] = true
	w.Staleness = []scheduling.Staleness{{Stale: true, LimitSeconds: 3600, Collect: true}}
	w.EachMinute(w.RequireNodeKept(maintenancev1.NodeReady), func() {
		require.Contains(t, workflowtest.StatusOf[workflowtest.NodeStatus](w).Notes[0], "the Job started 3600 s before, and is still running")
		require.NotContains(t, w.Called(), "RemoveJob")
	}, w.Signal(temporal.SignalCancel, ""))
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, workflowtest.FullMaintenance())
	workflowtest.RequireCancelled[workflowtest.NodeStatus](w)
	require.Equal(t, int64(1), w.Counters.Of("drydock_stale_maintenances", "c1"))
}

func TestRequestorsAfterALongJobAreNotCollected(t *testing.T) {
	w := workflowtest.NewWorld(t)
	seen, calls := make(chan struct{}), 0
	workflowtest.SimulateConcurrent(w, "AwaitStale", func(node.AwaitStaleInput) (any, bool) {
		calls++
		if calls == 2 { // the Job is stale
			close(seen)
		}
		return scheduling.Staleness{Stale: true, LimitSeconds: 3600, Collect: true}, calls == 1
	})
	w.Fail["RunJob"] = func(int) error {
		<-seen
		return nil
	}
	in := workflowtest.FullMaintenance()
	in.Object.Spec.AdditionalRequestors = []string{"gpu.example.com"}
	w.EachMinute(w.RequireNodeKept(maintenancev1.NodeReady), func() {
		require.Equal(t, nodemaintenance.ReasonAwaitingRequestor, workflowtest.StatusOf[workflowtest.NodeStatus](w).Wait.Reason)
	}, w.Signal(temporal.SignalDone, "gpu.example.com"))
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, in)
	require.Equal(t, maintenancev1.RequestorDone, workflowtest.RequireResult[workflowtest.NodeStatus](w).Requestors[1].State)
}

func TestAFailedStaleMaintenanceIsNotCollectedAndCanRecover(t *testing.T) {
	w := workflowtest.NewWorld(t)
	w.Fail["RunJob"] = workflowtest.Always(temporal.Error(temporal.ErrJobFailed, "job ops/n1 failed", nil))
	start := w.Now()
	workflowtest.SimulateConcurrent(w, "AwaitStale", func(in node.AwaitStaleInput) (any, bool) {
		return scheduling.Staleness{Stale: true, LimitSeconds: 3600, Collect: true}, !in.Known.Stale && in.ReadySince.Before(start.Add(time.Minute))
	})
	w.EachMinute(w.RequireNodeKept(maintenancev1.NodeRequestorFailed), w.Signal(temporal.SignalRecover, ""), func() {
		w.RequireNodeKept(maintenancev1.NodeReady)()
		require.Equal(t, nodemaintenance.ReasonAwaitingRequestor, workflowtest.StatusOf[workflowtest.NodeStatus](w).Wait.Reason, "the node is ready again")
	}, w.Signal(temporal.SignalDone, ""))
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, workflowtest.FullMaintenance())
	workflowtest.RequireResult[workflowtest.NodeStatus](w)
	inputs := w.InputsOf("AwaitStale")
	require.WithinDuration(t, start.Add(2*time.Minute), inputs[len(inputs)-1].(node.AwaitStaleInput).ReadySince, time.Second)
}
