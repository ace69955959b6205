package nodemaintenance_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"drydock.dev/drydock/activities/node"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/nodemaintenance"
	"drydock.dev/drydock/workflows/workflowtest"
)

// twoRequestors is a maintenance with two requestors.
func twoRequestors() nodemaintenance.Input {
	in := workflowtest.RequestorMaintenance()
	in.Object.Spec.AdditionalRequestors = []string{"gpu.example.com"}
	return in
}

func TestANodeIsReturnedWhenAllRequestorsAreDone(t *testing.T) {
	for _, order := range [][]string{{"", "gpu.example.com"}, {"gpu.example.com", "ops.example.com"}} {
		w := workflowtest.NewWorld(t)
		w.EachMinute(w.Signal(temporal.SignalDone, order[0]), w.RequireNodeKept(maintenancev1.NodeReady), func() {
			status := workflowtest.StatusOf[workflowtest.NodeStatus](w)
			require.Len(t, status.Requestors, 2)
			require.Contains(t, []string{"the node is ready for gpu.example.com; waiting for done", "the node is ready for ops.example.com; waiting for done"}, status.Wait.Message)
		}, w.Signal(temporal.SignalDone, order[0]), w.RequireNodeKept(maintenancev1.NodeReady), w.Signal(temporal.SignalDone, order[1]))
		w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, twoRequestors())
		require.Equal(t, maintenancev1.NodeCompleted, workflowtest.RequireResult[workflowtest.NodeStatus](w).State)
	}
}

func TestASignalOfAnUnknownRequestorIsReported(t *testing.T) {
	w := workflowtest.NewWorld(t)
	w.EachMinute(w.Signal(temporal.SignalDone, "unknown"), w.RequireNodeKept(maintenancev1.NodeReady), w.Signal(temporal.SignalDone, ""))
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, workflowtest.RequestorMaintenance())
	require.Contains(t, workflowtest.RequireResult[workflowtest.NodeStatus](w).Notes, "done was sent for unknown, which is no requestor of this maintenance: nothing done")
}

func TestAFailedRequestorKeepsTheNodeAfterAnotherIsDone(t *testing.T) {
	w := workflowtest.NewWorld(t)
	w.EachMinute(
		w.Signal(temporal.SignalFail, "gpu.example.com"), w.RequireNodeKept(maintenancev1.NodeRequestorFailed),
		w.Signal(temporal.SignalDone, ""), w.RequireNodeKept(maintenancev1.NodeRequestorFailed),
		w.Signal(temporal.SignalRecover, "gpu.example.com"), w.RequireNodeKept(maintenancev1.NodeReady),
		w.Signal(temporal.SignalDone, "gpu.example.com"),
	)
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, twoRequestors())
	require.Nil(t, workflowtest.RequireResult[workflowtest.NodeStatus](w).Failure)
}

func TestACancelledRequestorLeavesTheNodeToTheOthers(t *testing.T) {
	for _, by := range []string{"signal", "Temporal"} {
		w := workflowtest.NewWorld(t)
		cancel := w.Signal(temporal.SignalCancel, "")
		if by == "Temporal" {
			cancel = w.CancelWorkflow
		}
		w.EachMinute(cancel, w.RequireNodeKept(maintenancev1.NodeReady), w.Signal(temporal.SignalDone, "gpu.example.com"))
		w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, twoRequestors())
		status := workflowtest.RequireCancelled[workflowtest.NodeStatus](w)
		require.Equal(t, maintenancev1.NodeCancelled, status.State)
		require.Contains(t, w.Called(), "AwaitNodeHealthy", "a requestor worked on the node")
	}
}

// The work is complete, and nothing was undone.
func TestACancelAfterDoneIsACompletion(t *testing.T) {
	for _, by := range []string{"signal", "Temporal"} {
		t.Run(by, func(t *testing.T) {
			w := workflowtest.NewWorld(t)
			cancel := w.Signal(temporal.SignalCancel, "")
			if by == "Temporal" {
				cancel = w.CancelWorkflow
			}
			w.EachMinute(
				w.Signal(temporal.SignalDone, ""), cancel, w.RequireNodeKept(maintenancev1.NodeReady), func() {
					require.Equal(t, maintenancev1.RequestorDone, workflowtest.StatusOf[workflowtest.NodeStatus](w).Requestors[0].State)
				},
				w.Signal(temporal.SignalDone, "gpu.example.com"),
			)
			w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, twoRequestors())
			status := workflowtest.RequireResult[workflowtest.NodeStatus](w)
			require.Equal(t, maintenancev1.NodeCompleted, status.State)
			require.Contains(t, status.Notes, "cancel was sent for ops.example.com: the node is kept for gpu.example.com")
			returned := w.Inputs["ReturnNode"][0].(node.ReturnNodeInput)
			require.Equal(t, maintenancev1.NodeCompleted, returned.Ended.State, "the Event on the node has the same state")
		})
	}
}

// The others need the result of the check.
func TestADoneRequestorDoesNotCancelTheHealthCheckOfTheOthers(t *testing.T) {
	w := workflowtest.NewWorld(t)
	w.Fail["AwaitNodeHealthy"] = func(call int) error {
		if call == 1 {
			w.Signal(temporal.SignalCancel, "gpu.example.com")()
			return temporal.Error(temporal.ErrClusterUnreachable, "no answer", nil)
		}
		return nil
	}
	w.EachMinute(w.Signal(temporal.SignalDone, "gpu.example.com"), w.Signal(temporal.SignalDone, ""))
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, twoRequestors())
	status := workflowtest.RequireResult[workflowtest.NodeStatus](w)
	require.Equal(t, maintenancev1.NodeCompleted, status.State)
	require.Contains(t, status.Notes, "cancel was sent for gpu.example.com, but gpu.example.com no longer needs the node: nothing done")
}

// The cancel interrupts the health check, so its result is unknown.
func TestACancelDuringTheHealthCheckIsACancellation(t *testing.T) {
	w := workflowtest.NewWorld(t)
	w.Blocked["AwaitNodeHealthy"] = true
	w.EachMinute(w.Signal(temporal.SignalDone, ""), w.Signal(temporal.SignalCancel, ""))
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, workflowtest.RequestorMaintenance())
	require.Equal(t, maintenancev1.NodeCancelled, workflowtest.RequireCancelled[workflowtest.NodeStatus](w).State)
}

func TestTheMessageOfAFailureIsRecordedWithItsEffect(t *testing.T) {
	w := workflowtest.NewWorld(t)
	send := func(signal, requestor, reason string) func() {
		return func() {
			w.SignalWorkflow(signal, temporal.SignalRequest{Requestor: requestor, Actor: "ann", Reason: reason})
		}
	}
	w.EachMinute(
		send(temporal.SignalRecover, "", ""),
		send(temporal.SignalFail, "gpu.example.com", "no firmware"),
		func() {
			require.Equal(t, "the work of gpu.example.com failed, says ann: no firmware", workflowtest.StatusOf[workflowtest.NodeStatus](w).Failure.Message)
		},
		send(temporal.SignalRecover, "gpu.example.com", "found it"),
		send(temporal.SignalDone, "gpu.example.com", ""),
		send(temporal.SignalFail, "gpu.example.com", ""),
		send(temporal.SignalDone, "", ""),
	)
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, twoRequestors())
	require.Equal(t, []string{
		"recover was sent for ops.example.com by ann, but the work of ops.example.com has not failed: nothing done",
		"recover was sent for gpu.example.com by ann: found it; the work of gpu.example.com, which had failed, continues",
		"done was sent for gpu.example.com by ann",
		"fail was sent for gpu.example.com by ann, but gpu.example.com no longer needs the node: nothing done",
		"done was sent for ops.example.com by ann",
	}, workflowtest.RequireResult[workflowtest.NodeStatus](w).Notes)
}

func TestACancelDuringTheReturnAfterDoneIsACompletion(t *testing.T) {
	w := workflowtest.NewWorld(t)
	cancelled := false
	w.Fail["ReturnNode"] = func(int) error {
		w.Mu.Lock()
		defer w.Mu.Unlock()
		if !cancelled {
			return temporal.Error(temporal.ErrClusterUnreachable, "connection refused", nil)
		}
		return nil
	}
	w.EachMinute(w.Signal(temporal.SignalDone, ""), func() {
		require.Equal(t, maintenancev1.NodeCleaningUp, workflowtest.StatusOf[workflowtest.NodeStatus](w).State)
	}, w.Signal(temporal.SignalCancel, ""), func() {
		w.Mu.Lock()
		defer w.Mu.Unlock()
		cancelled = true
	})
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, workflowtest.RequestorMaintenance())
	require.Equal(t, maintenancev1.NodeCompleted, workflowtest.RequireResult[workflowtest.NodeStatus](w).State)
	require.True(t, cancelled)
}

// A reason may start with the word by, like the name of a sender.
func TestAFailureIsReportedWithItsMessage(t *testing.T) {
	for _, test := range []struct{ actor, reason, report string }{
		{"", "", ""},
		{"", "by mistake", ": by mistake"},
		{"ann", "", ", says ann"},
		{"ann", "by mistake", ", says ann: by mistake"},
		{"by the way", "no firmware", ", says by the way: no firmware"},
	} {
		t.Run(test.report, func(t *testing.T) {
			w := workflowtest.NewWorld(t)
			w.EachMinute(func() {
				w.SignalWorkflow(temporal.SignalFail, temporal.SignalRequest{Actor: test.actor, Reason: test.reason})
			}, func() {
				status := workflowtest.StatusOf[workflowtest.NodeStatus](w)
				require.Equal(t, "the work of ops.example.com failed"+test.report, status.Failure.Message)
				require.Contains(t, status.Wait.Message, "the work on the node failed"+test.report+"; the node is held")
			}, w.Signal(temporal.SignalDone, ""))
			w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, workflowtest.RequestorMaintenance())
			workflowtest.RequireResult[workflowtest.NodeStatus](w)
			announced := w.Inputs["AnnounceState"][1].(node.AnnounceStateInput)
			require.Equal(t, "the work on the node has failed"+test.report+"; it stays out of service until the failure is cleared (recover), or done or cancel is sent", announced.Message)
		})
	}
}

func TestPreparationStopsWhenAllRequestorsLeft(t *testing.T) {
	w := workflowtest.NewWorld(t)
	w.Blocked["Drain"] = true
	w.EachMinute(w.Signal(temporal.SignalCancel, "gpu.example.com"), w.RequireNodeKept(maintenancev1.NodeDraining), w.Signal(temporal.SignalCancel, ""))
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, twoRequestors())
	workflowtest.RequireCancelled[workflowtest.NodeStatus](w)
	require.Contains(t, w.Called(), "ReturnNode")
}

func TestARequestorThatLeavesAfterAFailureFailsTheMaintenance(t *testing.T) {
	w := workflowtest.NewWorld(t)
	in := twoRequestors()
	in.Object.Spec.OnFailure = maintenancev1.FailureKeepCordoned
	w.EachMinute(w.Signal(temporal.SignalFail, "gpu.example.com"), w.Signal(temporal.SignalCancel, "gpu.example.com"), w.RequireNodeKept(maintenancev1.NodeReady), w.Signal(temporal.SignalDone, ""))
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, in)
	workflowtest.RequireFailure[workflowtest.NodeStatus](w, "RequestorFailed")
	require.True(t, w.Inputs["ReturnNode"][0].(node.ReturnNodeInput).KeepCordoned)
}
