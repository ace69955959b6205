package nodemaintenance_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"drydock.dev/drydock/activities/node"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/nodemaintenance"
	"drydock.dev/drydock/workflows/workflowtest"
)

func TestAFailedNodeStaysCordonedIfConfigured(t *testing.T) {
	w := workflowtest.NewWorld(t)
	w.Fail["Drain"] = workflowtest.Always(temporal.Error(temporal.ErrDrainTimedOut, "", nil))
	in := workflowtest.FullMaintenance()
	in.Object.Spec.OnFailure = maintenancev1.FailureKeepCordoned
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, in)

	workflowtest.RequireFailure[workflowtest.NodeStatus](w, temporal.ErrDrainTimedOut)
	require.True(t, w.Inputs["ReturnNode"][0].(node.ReturnNodeInput).KeepCordoned)
}

func TestANodeLeftCordonedIsReportedDespiteALostReply(t *testing.T) {
	w := workflowtest.NewWorld(t)
	workflowtest.Simulate(w, "ReturnNode", func(node.ReturnNodeInput) any { return node.ReturnNodeResult{LeftCordoned: true} })
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, workflowtest.FullMaintenance())

	status := workflowtest.RequireResult[workflowtest.NodeStatus](w)
	require.True(t, status.LeftCordoned)
	require.Contains(t, status.Notes, "left cordoned: Drydock's marks were already removed, by an attempt whose reply was lost or manually")
}

func TestAWaitingMaintenanceDoesNotReportTheCordonOfAnother(t *testing.T) {
	w := workflowtest.NewWorld(t)
	w.Scheduler.Capacity = 0
	workflowtest.Simulate(w, "ReturnNode", func(node.ReturnNodeInput) any {
		return node.ReturnNodeResult{LeftCordoned: true, Note: "the node is left as it is: it is under maintenance by node/c1/ops/other"}
	})
	w.RegisterDelayedCallback(w.CancelWorkflow, time.Minute)
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, workflowtest.FullMaintenance())

	require.False(t, workflowtest.RequireCancelled[workflowtest.NodeStatus](w).LeftCordoned)
	require.Empty(t, w.Scheduler.LastSet().Releases)
}

func TestANodeUncordonedManuallyIsReportedAndNotJoinable(t *testing.T) {
	const noted = "the node was uncordoned manually: pods may come to it; cordon it again (kubectl cordon n1), and undo that cordon later"
	for name, c := range map[string]struct {
		seen       []node.Readiness
		uncordoned bool
	}{
		"the node stays uncordoned":  {[]node.Readiness{{Uncordoned: true}}, true},
		"the node is cordoned again": {[]node.Readiness{{Uncordoned: true}, {}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := workflowtest.NewWorld(t)
			calls := 0
			workflowtest.SimulateConcurrent(w, "AwaitStale", func(in node.AwaitStaleInput) (any, bool) {
				require.Equal(t, "n1", in.CordonedNode)
				if calls++; calls > len(c.seen) {
					return nil, false
				}
				return c.seen[calls-1], true
			})
			w.EachMinute(func() {
				w.RequireNodeKept(maintenancev1.NodeReady)()
				wait := workflowtest.StatusOf[workflowtest.NodeStatus](w).Wait
				require.Equal(t, nodemaintenance.ReasonAwaitingRequestor, wait.Reason, "the requestor keeps the node")
				require.Equal(t, c.uncordoned, strings.Contains(wait.Message, "; the node is no longer cordoned, so pods may come to it"))
			}, func() {
				problem := ""
				if c.uncordoned {
					problem = "kubectl cordon n1"
				}
				w.RequireUpdateResult(w.Join("gpu.example.com"), problem)
			}, w.Signal(temporal.SignalCancel, "gpu.example.com"), w.Signal(temporal.SignalDone, ""))
			w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, workflowtest.RequestorMaintenance())
			require.Contains(t, workflowtest.RequireResult[workflowtest.NodeStatus](w).Notes, noted)
			for i, in := range w.InputsOf("AwaitStale") {
				require.Equal(t, i, in.(node.AwaitStaleInput).Changes)
			}
		})
	}
}

func TestAnUncordonIsNotReportedWithoutACordon(t *testing.T) {
	w := workflowtest.NewWorld(t)
	in := workflowtest.RequestorMaintenance()
	in.Object.Spec.Cordon = new(false)
	w.EachMinute(w.Signal(temporal.SignalDone, ""))
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, in)
	workflowtest.RequireResult[workflowtest.NodeStatus](w)
	require.Empty(t, w.InputsOf("AwaitStale")[0].(node.AwaitStaleInput).CordonedNode)
}

func TestACleanupReturnsTheNodeThatWasHealthyButNotReturned(t *testing.T) {
	for _, fails := range []bool{false, true} {
		w := workflowtest.NewWorld(t)
		returns := 1
		if fails {
			w.Fail["ReturnNode"] = workflowtest.Once(errors.New("the API server does not answer"))
			returns = 2
		}
		workflowtest.SignalWhen(w, workflowtest.InState(maintenancev1.NodeReady), temporal.SignalDone, nil)
		w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, workflowtest.RequestorMaintenance())
		status := workflowtest.RequireResult[workflowtest.NodeStatus](w)
		require.Equal(t, maintenancev1.NodeCompleted, status.State)
		require.Contains(t, workflowtest.States(status), maintenancev1.NodeCleaningUp)
		require.Len(t, w.InputsOf("ReturnNode"), returns)
		require.Len(t, w.InputsOf("AwaitNodeHealthy"), 1)
	}
}
