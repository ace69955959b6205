package nodemaintenance_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"drydock.dev/drydock/activities/jobs"
	"drydock.dev/drydock/activities/node"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/scheduling"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/kit"
	"drydock.dev/drydock/workflows/nodemaintenance"
	"drydock.dev/drydock/workflows/workflowtest"
)

// forTwo hands a node over to two requestors of one maintenance.
func forTwo() nodemaintenance.Input {
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
		w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, forTwo())
		require.Equal(t, maintenancev1.NodeCompleted, workflowtest.RequireResult[workflowtest.NodeStatus](w).State)
	}
}

func TestASignalOfAnUnknownRequestorIsReported(t *testing.T) {
	w := workflowtest.NewWorld(t)
	w.EachMinute(w.Signal(temporal.SignalDone, "who"), w.RequireNodeKept(maintenancev1.NodeReady), w.Signal(temporal.SignalDone, ""))
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, workflowtest.RequestorMaintenance())
	require.Contains(t, workflowtest.RequireResult[workflowtest.NodeStatus](w).Notes, "done was sent for who, which is no requestor of this maintenance: nothing done")
}

func TestAFailedRequestorKeepsTheNodeAfterAnotherIsDone(t *testing.T) {
	w := workflowtest.NewWorld(t)
	w.EachMinute(
		w.Signal(temporal.SignalFail, "gpu.example.com"), w.RequireNodeKept(maintenancev1.NodeRequestorFailed),
		w.Signal(temporal.SignalDone, ""), w.RequireNodeKept(maintenancev1.NodeRequestorFailed),
		w.Signal(temporal.SignalRecover, "gpu.example.com"), w.RequireNodeKept(maintenancev1.NodeReady),
		w.Signal(temporal.SignalDone, "gpu.example.com"),
	)
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, forTwo())
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
		w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, forTwo())
		status := workflowtest.RequireCancelled[workflowtest.NodeStatus](w)
		require.Equal(t, maintenancev1.NodeCancelled, status.State)
		require.Contains(t, w.Called(), "AwaitNodeHealthy", "somebody has worked on the node")
	}
}

// Its work is done, and the node was returned well: nothing was taken back.
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
			w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, forTwo())
			status := workflowtest.RequireResult[workflowtest.NodeStatus](w)
			require.Equal(t, maintenancev1.NodeCompleted, status.State)
			require.Contains(t, status.Notes, "cancel was sent for ops.example.com: the node is kept for gpu.example.com")
			returned := w.Inputs["ReturnNode"][0].(node.ReturnNodeInput)
			require.Equal(t, maintenancev1.NodeCompleted, returned.Ended.State, "the node is told so, too")
		})
	}
}

// It has had its say; the others want to know that the node is well.
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
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, forTwo())
	status := workflowtest.RequireResult[workflowtest.NodeStatus](w)
	require.Equal(t, maintenancev1.NodeCompleted, status.State)
	require.Contains(t, status.Notes, "cancel was sent for gpu.example.com, but gpu.example.com no longer needs the node: nothing done")
}

// What is cancelled then is the check of the node, of which nobody knows what it would have found.
func TestACancelDuringTheHealthCheckIsACancellation(t *testing.T) {
	w := workflowtest.NewWorld(t)
	w.Blocked["AwaitNodeHealthy"] = true
	w.EachMinute(w.Signal(temporal.SignalDone, ""), w.Signal(temporal.SignalCancel, ""))
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, workflowtest.RequestorMaintenance())
	require.Equal(t, maintenancev1.NodeCancelled, workflowtest.RequireCancelled[workflowtest.NodeStatus](w).State)
}

func TestTheMessageOfAFailureIsRecordedWithItsEffect(t *testing.T) {
	w := workflowtest.NewWorld(t)
	says := func(signal, requestor, reason string) func() {
		return func() {
			w.SignalWorkflow(signal, temporal.SignalRequest{Requestor: requestor, Actor: "ann", Reason: reason})
		}
	}
	w.EachMinute(
		says(temporal.SignalRecover, "", ""),
		says(temporal.SignalFail, "gpu.example.com", "no firmware"),
		func() {
			require.Equal(t, "the work of gpu.example.com failed, says ann: no firmware", workflowtest.StatusOf[workflowtest.NodeStatus](w).Failure.Message)
		},
		says(temporal.SignalRecover, "gpu.example.com", "found it"),
		says(temporal.SignalDone, "gpu.example.com", ""),
		says(temporal.SignalFail, "gpu.example.com", ""),
		says(temporal.SignalDone, "", ""),
	)
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, forTwo())
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

// A reason may begin like a name.
func TestAFailureIsReportedWithItsMessage(t *testing.T) {
	for _, test := range []struct{ actor, reason, said string }{
		{"", "", ""},
		{"", "by mistake", ": by mistake"},
		{"ann", "", ", says ann"},
		{"ann", "by mistake", ", says ann: by mistake"},
		{"by the way", "no firmware", ", says by the way: no firmware"},
	} {
		t.Run(test.said, func(t *testing.T) {
			w := workflowtest.NewWorld(t)
			w.EachMinute(func() {
				w.SignalWorkflow(temporal.SignalFail, temporal.SignalRequest{Actor: test.actor, Reason: test.reason})
			}, func() {
				status := workflowtest.StatusOf[workflowtest.NodeStatus](w)
				require.Equal(t, "the work of ops.example.com failed"+test.said, status.Failure.Message)
				require.Contains(t, status.Wait.Message, "the work on the node failed"+test.said+"; the node is held")
			}, w.Signal(temporal.SignalDone, ""))
			w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, workflowtest.RequestorMaintenance())
			workflowtest.RequireResult[workflowtest.NodeStatus](w)
			announced := w.Inputs["AnnounceState"][1].(node.AnnounceStateInput)
			require.Equal(t, "the work on the node has failed"+test.said+"; it stays out of service until the failure is cleared (recover), or done or cancel is sent", announced.Message)
		})
	}
}

func TestPreparationStopsWhenAllRequestorsLeft(t *testing.T) {
	w := workflowtest.NewWorld(t)
	w.Blocked["Drain"] = true
	w.EachMinute(w.Signal(temporal.SignalCancel, "gpu.example.com"), w.RequireNodeKept(maintenancev1.NodeDraining), w.Signal(temporal.SignalCancel, ""))
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, forTwo())
	workflowtest.RequireCancelled[workflowtest.NodeStatus](w)
	require.Contains(t, w.Called(), "ReturnNode")
}

func TestARequestorThatLeavesAfterAFailureFailsTheMaintenance(t *testing.T) {
	w := workflowtest.NewWorld(t)
	in := forTwo()
	in.Object.Spec.OnFailure = maintenancev1.FailureKeepCordoned
	w.EachMinute(w.Signal(temporal.SignalFail, "gpu.example.com"), w.Signal(temporal.SignalCancel, "gpu.example.com"), w.RequireNodeKept(maintenancev1.NodeReady), w.Signal(temporal.SignalDone, ""))
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, in)
	workflowtest.RequireFailure[workflowtest.NodeStatus](w, "RequestorFailed")
	require.True(t, w.Inputs["ReturnNode"][0].(node.ReturnNodeInput).KeepCordoned)
}

func TestASucceededJobLeavesTheNodeToTheOtherRequestors(t *testing.T) {
	w := workflowtest.NewWorld(t)
	in := workflowtest.FullMaintenance()
	in.Object.Spec.AdditionalRequestors = []string{"gpu.example.com"}
	w.EachMinute(w.RequireNodeKept(maintenancev1.NodeReady), w.Signal(temporal.SignalDone, "gpu.example.com"))
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, in)
	workflowtest.RequireResult[workflowtest.NodeStatus](w)
}

func TestAJobIsStoppedWhenItsRequestorLeaves(t *testing.T) {
	w := workflowtest.NewWorld(t)
	w.Blocked["RunJob"] = true
	in := workflowtest.FullMaintenance()
	in.Object.Spec.AdditionalRequestors = []string{"gpu.example.com"}
	w.EachMinute(w.Signal(temporal.SignalCancel, ""), w.RequireNodeKept(maintenancev1.NodeReady), func() {
		require.Contains(t, w.Called(), "RemoveJob")
	}, w.Signal(temporal.SignalDone, "gpu.example.com"))
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, in)
	workflowtest.RequireCancelled[workflowtest.NodeStatus](w)
	require.Len(t, w.Inputs["RemoveJob"], 1)
}

func TestOtherRequestorsWaitUntilTheStoppedJobIsGone(t *testing.T) {
	w := workflowtest.NewWorld(t)
	w.Blocked["RunJob"] = true
	attempts := int(2 * nodemaintenance.CleanUpLimit / kit.LaterRetry) // at 10 s each longer than any clean-up
	w.Fail["RemoveJob"] = func(call int) error {
		if call > attempts {
			return nil
		}
		require.Empty(t, w.InputsOf("AnnounceState"), "the node is handed over")
		return temporal.Error(jobs.ReasonJobStopping, "job ops/n1 was stopped; waiting until its pods are gone", nil)
	}
	in := workflowtest.FullMaintenance()
	in.Object.Spec.AdditionalRequestors = []string{"gpu.example.com"}
	w.EachMinute(w.Signal(temporal.SignalCancel, ""))
	w.RegisterDelayedCallback(func() {
		require.Equal(t, jobs.ReasonJobStopping, workflowtest.StatusOf[workflowtest.NodeStatus](w).Wait.Reason)
	}, nodemaintenance.CleanUpLimit)
	w.When(func() bool { return len(w.InputsOf("AnnounceState")) > 0 }, w.Signal(temporal.SignalDone, "gpu.example.com"))
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, in)

	status := workflowtest.RequireCancelled[workflowtest.NodeStatus](w)
	require.False(t, status.LeftCordoned)
	require.Len(t, w.Inputs["RemoveJob"], attempts+1)
	require.Contains(t, w.Called(), "AwaitNodeHealthy", "gpu.example.com has worked on the node")
}

// Whoever deletes a job, and the time that is over, does not end its pod.
func TestRequestorsWaitUntilAFailedJobIsGone(t *testing.T) {
	w := workflowtest.NewWorld(t)
	w.Fail["RunJob"] = workflowtest.Always(temporal.Error(temporal.ErrJobFailed, "job ops/n1 timed out", nil))
	attempts := int(2 * nodemaintenance.CleanUpLimit / kit.LaterRetry)
	w.Fail["RemoveJob"] = func(call int) error {
		if call > attempts {
			return nil
		}
		require.Empty(t, w.InputsOf("AnnounceState"), "the node is handed over")
		return temporal.Error(jobs.ReasonJobStopping, "job ops/n1 was stopped; waiting until its pods are gone", nil)
	}
	in := workflowtest.FullMaintenance()
	in.Object.Spec.AdditionalRequestors = []string{"gpu.example.com"}
	w.EachMinute(w.Signal(temporal.SignalDone, ""), func() {
		status := workflowtest.StatusOf[workflowtest.NodeStatus](w)
		require.Equal(t, maintenancev1.NodeReady, status.State, "nobody may say done yet")
		require.Equal(t, jobs.ReasonJobStopping, status.Wait.Reason)
		require.Equal(t, temporal.ErrJobFailed, status.Failure.Reason)
		require.Contains(t, status.Notes, "done was sent for ops.example.com, but a Job is running: nothing done")
	}, w.Signal(temporal.SignalRecover, ""))
	w.When(func() bool { return len(w.InputsOf("AnnounceState")) > 0 }, func() {
		require.Contains(t, workflowtest.StatusOf[workflowtest.NodeStatus](w).Wait.Message, "ready for ops.example.com, gpu.example.com; waiting for done")
		w.Signal(temporal.SignalDone, "")()
		w.Signal(temporal.SignalDone, "gpu.example.com")()
	})
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, in)

	require.Equal(t, maintenancev1.NodeCompleted, workflowtest.RequireResult[workflowtest.NodeStatus](w).State)
	require.Len(t, w.Inputs["RemoveJob"], attempts+1)
}

func TestTheWaitForARemovedJobIsShownAtOnce(t *testing.T) {
	w := workflowtest.NewWorld(t)
	w.Blocked["RunJob"] = true
	w.Fail["RemoveJob"] = func(call int) error {
		if call == 1 {
			w.SignalWorkflow(temporal.SignalObserved, temporal.Observation{
				Activity: "RemoveJob", Wait: &drydockv1.Wait{Reason: jobs.ReasonJobStopping, Message: "waiting until its pods are gone: ops/n1-x"},
			})
		}
		if call <= kit.RoundAttempts {
			return temporal.Error(jobs.ReasonJobStopping, "job ops/n1 was stopped", nil)
		}
		return nil
	}
	w.EachMinute(w.Signal(temporal.SignalCancel, ""))
	w.RegisterDelayedCallback(func() {
		require.Less(t, len(w.InputsOf("RemoveJob")), kit.RoundAttempts)
		wait := workflowtest.StatusOf[workflowtest.NodeStatus](w).Wait
		require.NotNil(t, wait)
		require.Equal(t, "waiting until its pods are gone: ops/n1-x", wait.Message)
	}, time.Minute+4*time.Second)
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, workflowtest.FullMaintenance())
	require.Nil(t, workflowtest.RequireCancelled[workflowtest.NodeStatus](w).Wait)
}

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
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, forTwo())
	status := workflowtest.RequireCancelled[workflowtest.NodeStatus](w)
	require.Contains(t, status.Notes, "cancelled: collected, as garbageCollect asks: the node was ready for more than 3600 s (maxNodeMaintenanceTimeSeconds)")
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
		if calls == 2 { // the job is known to be stale
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
		require.Equal(t, nodemaintenance.ReasonAwaitingRequestor, workflowtest.StatusOf[workflowtest.NodeStatus](w).Wait.Reason, "it is ready anew")
	}, w.Signal(temporal.SignalDone, ""))
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, workflowtest.FullMaintenance())
	workflowtest.RequireResult[workflowtest.NodeStatus](w)
	asked := w.InputsOf("AwaitStale")
	require.WithinDuration(t, start.Add(2*time.Minute), asked[len(asked)-1].(node.AwaitStaleInput).ReadySince, time.Second)
}

func TestANodeUncordonedManuallyIsReportedAndNotJoinable(t *testing.T) {
	const noted = "the node was uncordoned manually: pods may come to it; cordon it again (kubectl cordon n1), and undo that cordon later"
	for name, c := range map[string]struct {
		seen []node.Readiness
		open bool
	}{
		"as long as it is open":     {[]node.Readiness{{Uncordoned: true}}, true},
		"and not once it is closed": {[]node.Readiness{{Uncordoned: true}, {}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := workflowtest.NewWorld(t)
			looks := 0
			workflowtest.SimulateConcurrent(w, "AwaitStale", func(in node.AwaitStaleInput) (any, bool) {
				require.Equal(t, "n1", in.CordonedNode)
				if looks++; looks > len(c.seen) {
					return nil, false
				}
				return c.seen[looks-1], true
			})
			w.EachMinute(func() {
				w.RequireNodeKept(maintenancev1.NodeReady)()
				wait := workflowtest.StatusOf[workflowtest.NodeStatus](w).Wait
				require.Equal(t, nodemaintenance.ReasonAwaitingRequestor, wait.Reason, "the requestor has the node all the same")
				require.Equal(t, c.open, strings.Contains(wait.Message, "; the node is no longer cordoned, so pods may come to it"))
			}, func() {
				problem := ""
				if c.open {
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
