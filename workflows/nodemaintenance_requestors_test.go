package workflows

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"drydock.dev/drydock/activities"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/scheduling"
	"drydock.dev/drydock/internal/temporal"
)

// forTwo hands a node over to two requestors of one maintenance.
func forTwo() NodeMaintenanceInput {
	in := handOver()
	in.Object.Spec.AdditionalRequestors = []string{"gpu.example.com"}
	return in
}

// say sends signals one after the other, a minute apart, beginning after the first.
func (w *world) say(signals ...func()) {
	for i, signal := range signals {
		w.RegisterDelayedCallback(signal, time.Duration(i+1)*time.Minute)
	}
}

func (w *world) signal(name, requestor string) func() {
	return func() { w.SignalWorkflow(name, temporal.SignalRequest{Requestor: requestor}) }
}

// keepsNode requires that the node is not on its way back.
func (w *world) keepsNode(state maintenancev1.NodeState) func() {
	return func() {
		require.Equal(w.t, state, statusOf[nodeStatus](w).State)
		require.NotContains(w.t, w.called(), "AwaitNodeHealthy")
	}
}

func TestANodeIsReturnedWhenTheLastOfItsRequestorsIsDone(t *testing.T) {
	for _, order := range [][]string{{"", "gpu.example.com"}, {"gpu.example.com", "ops.example.com"}} {
		w := newWorld(t)
		w.say(w.signal(temporal.SignalDone, order[0]), w.keepsNode(maintenancev1.NodeReady), func() {
			status := statusOf[nodeStatus](w)
			require.Len(t, status.Requestors, 2)
			require.Contains(t, []string{"the node is handed over to gpu.example.com; waiting for done", "the node is handed over to ops.example.com; waiting for done"}, status.Wait.Message)
		}, w.signal(temporal.SignalDone, order[0]), w.keepsNode(maintenancev1.NodeReady), w.signal(temporal.SignalDone, order[1]))
		w.ExecuteWorkflow(NodeMaintenance, forTwo())
		require.Equal(t, maintenancev1.NodeCompleted, requireResult[nodeStatus](w).State)
	}
}

func TestWhatIsSaidForNobodyOfTheMaintenanceIsNoted(t *testing.T) {
	w := newWorld(t)
	w.say(w.signal(temporal.SignalDone, "who"), w.keepsNode(maintenancev1.NodeReady), w.signal(temporal.SignalDone, ""))
	w.ExecuteWorkflow(NodeMaintenance, handOver())
	require.Contains(t, requireResult[nodeStatus](w).Notes, "done was said for who, which is no requestor of this maintenance: nothing done")
}

func TestOneThatFailsHoldsTheNodeThoughTheOtherIsDone(t *testing.T) {
	w := newWorld(t)
	w.say(
		w.signal(temporal.SignalFail, "gpu.example.com"), w.keepsNode(maintenancev1.NodeRequestorFailed),
		w.signal(temporal.SignalDone, ""), w.keepsNode(maintenancev1.NodeRequestorFailed),
		w.signal(temporal.SignalRecover, "gpu.example.com"), w.keepsNode(maintenancev1.NodeReady),
		w.signal(temporal.SignalDone, "gpu.example.com"),
	)
	w.ExecuteWorkflow(NodeMaintenance, forTwo())
	require.Nil(t, requireResult[nodeStatus](w).Failure)
}

func TestOneThatIsCancelledLeavesTheNodeToTheOthers(t *testing.T) {
	for _, by := range []string{"signal", "Temporal"} {
		w := newWorld(t)
		cancel := w.signal(temporal.SignalCancel, "")
		if by == "Temporal" {
			cancel = w.CancelWorkflow
		}
		w.say(cancel, w.keepsNode(maintenancev1.NodeReady), w.signal(temporal.SignalDone, "gpu.example.com"))
		w.ExecuteWorkflow(NodeMaintenance, forTwo())
		status := requireCancelled[nodeStatus](w)
		require.Equal(t, maintenancev1.NodeCancelled, status.State)
		require.Contains(t, w.called(), "AwaitNodeHealthy", "somebody has worked on the node")
	}
}

// Its work is done, and the node was returned well: nothing was taken back.
func TestOneThatIsCancelledWhenItIsDoneHasCompleted(t *testing.T) {
	for _, by := range []string{"signal", "Temporal"} {
		t.Run(by, func(t *testing.T) {
			w := newWorld(t)
			cancel := w.signal(temporal.SignalCancel, "")
			if by == "Temporal" {
				cancel = w.CancelWorkflow
			}
			w.say(
				w.signal(temporal.SignalDone, ""), cancel, w.keepsNode(maintenancev1.NodeReady), func() {
					require.Equal(t, maintenancev1.RequestorDone, statusOf[nodeStatus](w).Requestors[0].State)
				},
				w.signal(temporal.SignalDone, "gpu.example.com"),
			)
			w.ExecuteWorkflow(NodeMaintenance, forTwo())
			status := requireResult[nodeStatus](w)
			require.Equal(t, maintenancev1.NodeCompleted, status.State)
			require.Contains(t, status.Notes, "cancel was said for ops.example.com: the node is kept for gpu.example.com")
			returned := w.inputs["ReturnNode"][0].(activities.ReturnNodeInput)
			require.Equal(t, maintenancev1.NodeCompleted, returned.Ended.State, "the node is told so, too")
		})
	}
}

// It has had its say; the others want to know that the node is well.
func TestOneThatIsDoneDoesNotCancelTheCheckOfTheNodeForTheOthers(t *testing.T) {
	w := newWorld(t)
	w.fail["AwaitNodeHealthy"] = func(call int) error {
		if call == 1 {
			w.signal(temporal.SignalCancel, "gpu.example.com")()
			return temporal.Error(temporal.ErrClusterUnreachable, "no answer", nil)
		}
		return nil
	}
	w.say(w.signal(temporal.SignalDone, "gpu.example.com"), w.signal(temporal.SignalDone, ""))
	w.ExecuteWorkflow(NodeMaintenance, forTwo())
	status := requireResult[nodeStatus](w)
	require.Equal(t, maintenancev1.NodeCompleted, status.State)
	require.Contains(t, status.Notes, "cancel was said for gpu.example.com, but gpu.example.com does not need the node any more: nothing done")
}

// What is cancelled then is the check of the node, of which nobody knows what it would have found.
func TestOneThatIsCancelledWhileItsNodeIsCheckedIsCancelled(t *testing.T) {
	w := newWorld(t)
	w.blocked["AwaitNodeHealthy"] = true
	w.say(w.signal(temporal.SignalDone, ""), w.signal(temporal.SignalCancel, ""))
	w.ExecuteWorkflow(NodeMaintenance, handOver())
	require.Equal(t, maintenancev1.NodeCancelled, requireCancelled[nodeStatus](w).State)
}

func TestWhatIsSaidOfAFailureIsNotedWithWhatComesOfIt(t *testing.T) {
	w := newWorld(t)
	says := func(signal, requestor, reason string) func() {
		return func() {
			w.SignalWorkflow(signal, temporal.SignalRequest{Requestor: requestor, Actor: "ann", Reason: reason})
		}
	}
	w.say(
		says(temporal.SignalRecover, "", ""),
		says(temporal.SignalFail, "gpu.example.com", "no firmware"),
		func() {
			require.Equal(t, "the work of gpu.example.com failed, says ann: no firmware", statusOf[nodeStatus](w).Failure.Message)
		},
		says(temporal.SignalRecover, "gpu.example.com", "found it"),
		says(temporal.SignalDone, "gpu.example.com", ""),
		says(temporal.SignalFail, "gpu.example.com", ""),
		says(temporal.SignalDone, "", ""),
	)
	w.ExecuteWorkflow(NodeMaintenance, forTwo())
	require.Equal(t, []string{
		"recover was said for ops.example.com by ann, but the work of ops.example.com has not failed: nothing done",
		"recover was said for gpu.example.com by ann: found it; the work of gpu.example.com, which had failed, goes on",
		"done was said for gpu.example.com by ann",
		"fail was said for gpu.example.com by ann, but gpu.example.com does not need the node any more: nothing done",
		"done was said for ops.example.com by ann",
	}, requireResult[nodeStatus](w).Notes)
}

func TestOneThatIsCancelledWhileItsNodeIsReturnedAfterDoneHasCompleted(t *testing.T) {
	w := newWorld(t)
	cancelled := false
	w.fail["ReturnNode"] = func(int) error {
		w.mu.Lock()
		defer w.mu.Unlock()
		if !cancelled {
			return temporal.Error(temporal.ErrClusterUnreachable, "connection refused", nil)
		}
		return nil
	}
	w.say(w.signal(temporal.SignalDone, ""), func() { require.Equal(t, maintenancev1.NodeCleaningUp, statusOf[nodeStatus](w).State) }, w.signal(temporal.SignalCancel, ""), func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		cancelled = true
	})
	w.ExecuteWorkflow(NodeMaintenance, handOver())
	require.Equal(t, maintenancev1.NodeCompleted, requireResult[nodeStatus](w).State)
	require.True(t, cancelled)
}

// A reason may begin like a name.
func TestAFailureIsToldWithWhatWasSaidOfIt(t *testing.T) {
	for _, test := range []struct{ actor, reason, said string }{
		{"", "", ""},
		{"", "by mistake", ": by mistake"},
		{"ann", "", ", says ann"},
		{"ann", "by mistake", ", says ann: by mistake"},
		{"by the way", "no firmware", ", says by the way: no firmware"},
	} {
		t.Run(test.said, func(t *testing.T) {
			w := newWorld(t)
			w.say(func() {
				w.SignalWorkflow(temporal.SignalFail, temporal.SignalRequest{Actor: test.actor, Reason: test.reason})
			}, func() {
				status := statusOf[nodeStatus](w)
				require.Equal(t, "the work of ops.example.com failed"+test.said, status.Failure.Message)
				require.Contains(t, status.Wait.Message, "the work on the node failed"+test.said+"; the node is held")
			}, w.signal(temporal.SignalDone, ""))
			w.ExecuteWorkflow(NodeMaintenance, handOver())
			requireResult[nodeStatus](w)
			announced := w.inputs["AnnounceState"][1].(activities.AnnounceStateInput)
			require.Equal(t, "the work on the node has failed"+test.said+"; it stays out of service until somebody decides", announced.Message)
		})
	}
}

func TestANodeThatNobodyNeedsAnyMoreIsNotPreparedToTheEnd(t *testing.T) {
	w := newWorld(t)
	w.blocked["Drain"] = true
	w.say(w.signal(temporal.SignalCancel, "gpu.example.com"), w.keepsNode(maintenancev1.NodeDraining), w.signal(temporal.SignalCancel, ""))
	w.ExecuteWorkflow(NodeMaintenance, forTwo())
	requireCancelled[nodeStatus](w)
	require.Contains(t, w.called(), "ReturnNode")
}

func TestOneThatLeavesWithAFailureLeavesAFailedMaintenance(t *testing.T) {
	w := newWorld(t)
	in := forTwo()
	in.Object.Spec.OnFailure = maintenancev1.FailureKeepCordoned
	w.say(w.signal(temporal.SignalFail, "gpu.example.com"), w.signal(temporal.SignalCancel, "gpu.example.com"), w.keepsNode(maintenancev1.NodeReady), w.signal(temporal.SignalDone, ""))
	w.ExecuteWorkflow(NodeMaintenance, in)
	requireFailure[nodeStatus](w, "RequestorFailed")
	require.True(t, w.inputs["ReturnNode"][0].(activities.ReturnNodeInput).KeepCordoned)
}

func TestAJobThatIsDoneLeavesTheNodeToTheOthers(t *testing.T) {
	w := newWorld(t)
	in := wholeMaintenance()
	in.Object.Spec.AdditionalRequestors = []string{"gpu.example.com"}
	w.say(w.keepsNode(maintenancev1.NodeReady), w.signal(temporal.SignalDone, "gpu.example.com"))
	w.ExecuteWorkflow(NodeMaintenance, in)
	requireResult[nodeStatus](w)
}

func TestAJobWhoseRequestorLeavesIsStoppedAndTheOthersKeepTheNode(t *testing.T) {
	w := newWorld(t)
	w.blocked["RunJob"] = true
	in := wholeMaintenance()
	in.Object.Spec.AdditionalRequestors = []string{"gpu.example.com"}
	w.say(w.signal(temporal.SignalCancel, ""), w.keepsNode(maintenancev1.NodeReady), func() {
		require.Contains(t, w.called(), "RemoveJob")
	}, w.signal(temporal.SignalDone, "gpu.example.com"))
	w.ExecuteWorkflow(NodeMaintenance, in)
	requireCancelled[nodeStatus](w)
	require.Len(t, w.inputs["RemoveJob"], 1)
}

func TestTheOthersDoNotGetTheNodeBeforeTheJobOfTheOneThatLeftIsGone(t *testing.T) {
	w := newWorld(t)
	w.blocked["RunJob"] = true
	attempts := int(2 * cleanUpLimit / laterRetry) // at 10 s each longer than any clean-up
	w.fail["RemoveJob"] = func(call int) error {
		if call > attempts {
			return nil
		}
		require.Empty(t, w.inputsOf("AnnounceState"), "the node is handed over")
		return temporal.Error(activities.ReasonJobStopping, "job ops/n1 was stopped; waiting until its pods are gone", nil)
	}
	in := wholeMaintenance()
	in.Object.Spec.AdditionalRequestors = []string{"gpu.example.com"}
	w.say(w.signal(temporal.SignalCancel, ""))
	w.RegisterDelayedCallback(func() {
		require.Equal(t, activities.ReasonJobStopping, statusOf[nodeStatus](w).Wait.Reason)
	}, cleanUpLimit)
	w.when(func() bool { return len(w.inputsOf("AnnounceState")) > 0 }, w.signal(temporal.SignalDone, "gpu.example.com"))
	w.ExecuteWorkflow(NodeMaintenance, in)

	status := requireCancelled[nodeStatus](w)
	require.False(t, status.LeftCordoned)
	require.Len(t, w.inputs["RemoveJob"], attempts+1)
	require.Contains(t, w.called(), "AwaitNodeHealthy", "gpu.example.com has worked on the node")
}

// Whoever deletes a job, and the time that is over, does not end its pod.
func TestNobodyGetsTheNodeBeforeAJobThatHasFailedIsGone(t *testing.T) {
	w := newWorld(t)
	w.fail["RunJob"] = always(temporal.Error(temporal.ErrJobFailed, "job ops/n1 timed out", nil))
	attempts := int(2 * cleanUpLimit / laterRetry)
	w.fail["RemoveJob"] = func(call int) error {
		if call > attempts {
			return nil
		}
		require.Empty(t, w.inputsOf("AnnounceState"), "the node is handed over")
		return temporal.Error(activities.ReasonJobStopping, "job ops/n1 was stopped; waiting until its pods are gone", nil)
	}
	in := wholeMaintenance()
	in.Object.Spec.AdditionalRequestors = []string{"gpu.example.com"}
	w.say(w.signal(temporal.SignalDone, ""), func() {
		status := statusOf[nodeStatus](w)
		require.Equal(t, maintenancev1.NodeReady, status.State, "nobody may say done yet")
		require.Equal(t, activities.ReasonJobStopping, status.Wait.Reason)
		require.Equal(t, temporal.ErrJobFailed, status.Failure.Reason)
		require.Contains(t, status.Notes, "done was said for ops.example.com, but a job is at work: nothing done")
	}, w.signal(temporal.SignalRecover, ""))
	w.when(func() bool { return len(w.inputsOf("AnnounceState")) > 0 }, func() {
		require.Contains(t, statusOf[nodeStatus](w).Wait.Message, "handed over to ops.example.com, gpu.example.com; waiting for done")
		w.signal(temporal.SignalDone, "")()
		w.signal(temporal.SignalDone, "gpu.example.com")()
	})
	w.ExecuteWorkflow(NodeMaintenance, in)

	require.Equal(t, maintenancev1.NodeCompleted, requireResult[nodeStatus](w).State)
	require.Len(t, w.inputs["RemoveJob"], attempts+1)
}

func TestWhatAJobThatIsRemovedIsWaitedForIsSaidAtOnce(t *testing.T) {
	w := newWorld(t)
	w.blocked["RunJob"] = true
	w.fail["RemoveJob"] = func(call int) error {
		if call == 1 {
			w.SignalWorkflow(temporal.SignalObserved, temporal.Observation{
				Activity: "RemoveJob", Wait: &drydockv1.Wait{Reason: activities.ReasonJobStopping, Message: "waiting until its pods are gone: ops/n1-x"},
			})
		}
		if call <= roundAttempts {
			return temporal.Error(activities.ReasonJobStopping, "job ops/n1 was stopped", nil)
		}
		return nil
	}
	w.say(w.signal(temporal.SignalCancel, ""))
	w.RegisterDelayedCallback(func() {
		require.Less(t, len(w.inputsOf("RemoveJob")), roundAttempts)
		wait := statusOf[nodeStatus](w).Wait
		require.NotNil(t, wait)
		require.Equal(t, "waiting until its pods are gone: ops/n1-x", wait.Message)
	}, time.Minute+4*time.Second)
	w.ExecuteWorkflow(NodeMaintenance, wholeMaintenance())
	require.Nil(t, requireCancelled[nodeStatus](w).Wait)
}

func TestAMaintenanceThatIsStaleIsReportedAndNotEnded(t *testing.T) {
	w := newWorld(t)
	w.staleness = []scheduling.Staleness{{Stale: true, LimitSeconds: 3600}}
	w.say(w.keepsNode(maintenancev1.NodeReady), func() {
		wait := statusOf[nodeStatus](w).Wait
		require.Equal(t, ReasonStale, wait.Reason)
		require.Contains(t, wait.Message, "for longer than 3600 s")
	}, w.signal(temporal.SignalDone, ""))
	w.ExecuteWorkflow(NodeMaintenance, handOver())
	require.Contains(t, requireResult[nodeStatus](w).Notes[0], "stale since ")
	require.Equal(t, int64(1), w.counters.of("drydock_stale_maintenances", "c1"), "counted once")
}

func TestAMaintenanceIsStaleOnlyAsLongAsItsClusterSaysSo(t *testing.T) {
	w := newWorld(t)
	w.staleness = []scheduling.Staleness{{Stale: true, LimitSeconds: 3600}, {}}
	w.say(func() {
		require.Equal(t, "AwaitingRequestor", statusOf[nodeStatus](w).Wait.Reason)
	}, w.signal(temporal.SignalDone, ""))
	w.ExecuteWorkflow(NodeMaintenance, handOver())
	requireResult[nodeStatus](w)
	require.Equal(t, scheduling.Staleness{Stale: true, LimitSeconds: 3600}, w.inputs["AwaitStale"][1].(activities.AwaitStaleInput).Known.Staleness)
}

func TestAStaleMaintenanceIsCollectedWhereItsClusterWantsThat(t *testing.T) {
	w := newWorld(t)
	w.staleness = []scheduling.Staleness{{Stale: true, LimitSeconds: 3600, Collect: true}}
	w.ExecuteWorkflow(NodeMaintenance, forTwo())
	status := requireCancelled[nodeStatus](w)
	require.Contains(t, status.Notes, "cancelled: collected, as garbageCollect asks: the node was ready for more than 3600 s (maxNodeMaintenanceTimeSeconds)")
	require.Contains(t, w.called(), "ReturnNode")
}

func TestAJobThatIsAtWorkForTooLongIsReportedAndNotStopped(t *testing.T) {
	w := newWorld(t)
	w.blocked["RunJob"] = true
	w.staleness = []scheduling.Staleness{{Stale: true, LimitSeconds: 3600, Collect: true}}
	w.say(w.keepsNode(maintenancev1.NodeReady), func() {
		require.Contains(t, statusOf[nodeStatus](w).Notes[0], "the job began 3600 s before, and is at work still")
		require.NotContains(t, w.called(), "RemoveJob")
	}, w.signal(temporal.SignalCancel, ""))
	w.ExecuteWorkflow(NodeMaintenance, wholeMaintenance())
	requireCancelled[nodeStatus](w)
	require.Equal(t, int64(1), w.counters.of("drydock_stale_maintenances", "c1"))
}

func TestWhoGetsTheNodeAfterAJobThatTookTooLongIsNotCollectedForIt(t *testing.T) {
	w := newWorld(t)
	seen, calls := make(chan struct{}), 0
	beside(w, "AwaitStale", func(activities.AwaitStaleInput) (any, bool) {
		calls++
		if calls == 2 { // the job is known to be stale
			close(seen)
		}
		return scheduling.Staleness{Stale: true, LimitSeconds: 3600, Collect: true}, calls == 1
	})
	w.fail["RunJob"] = func(int) error {
		<-seen
		return nil
	}
	in := wholeMaintenance()
	in.Object.Spec.AdditionalRequestors = []string{"gpu.example.com"}
	w.say(w.keepsNode(maintenancev1.NodeReady), func() {
		require.Equal(t, ReasonAwaitingRequestor, statusOf[nodeStatus](w).Wait.Reason)
	}, w.signal(temporal.SignalDone, "gpu.example.com"))
	w.ExecuteWorkflow(NodeMaintenance, in)
	require.Equal(t, maintenancev1.RequestorDone, requireResult[nodeStatus](w).Requestors[1].State)
}

func TestAStaleMaintenanceWhoseWorkHasFailedIsNotCollectedAndIsReadyAnewWhenItGoesOn(t *testing.T) {
	w := newWorld(t)
	w.fail["RunJob"] = always(temporal.Error(temporal.ErrJobFailed, "job ops/n1 failed", nil))
	start := w.Now()
	beside(w, "AwaitStale", func(in activities.AwaitStaleInput) (any, bool) {
		return scheduling.Staleness{Stale: true, LimitSeconds: 3600, Collect: true}, !in.Known.Stale && in.ReadySince.Before(start.Add(time.Minute))
	})
	w.say(w.keepsNode(maintenancev1.NodeRequestorFailed), w.signal(temporal.SignalRecover, ""), func() {
		w.keepsNode(maintenancev1.NodeReady)()
		require.Equal(t, ReasonAwaitingRequestor, statusOf[nodeStatus](w).Wait.Reason, "it is ready anew")
	}, w.signal(temporal.SignalDone, ""))
	w.ExecuteWorkflow(NodeMaintenance, wholeMaintenance())
	requireResult[nodeStatus](w)
	asked := w.inputsOf("AwaitStale")
	require.WithinDuration(t, start.Add(2*time.Minute), asked[len(asked)-1].(activities.AwaitStaleInput).ReadySince, time.Second)
}

func TestANodeThatSomebodyUncordonsWhileItIsHandedOverIsSaidToBeOpenAndSharedWithNobody(t *testing.T) {
	const noted = "somebody has uncordoned the node: pods may come to it; whoever cordons it (kubectl cordon n1) takes that cordon back"
	for name, c := range map[string]struct {
		seen []activities.Readiness
		open bool
	}{
		"as long as it is open":     {[]activities.Readiness{{Uncordoned: true}}, true},
		"and not once it is closed": {[]activities.Readiness{{Uncordoned: true}, {}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			looks := 0
			beside(w, "AwaitStale", func(in activities.AwaitStaleInput) (any, bool) {
				require.Equal(t, "n1", in.CordonedNode)
				if looks++; looks > len(c.seen) {
					return nil, false
				}
				return c.seen[looks-1], true
			})
			w.say(func() {
				w.keepsNode(maintenancev1.NodeReady)()
				wait := statusOf[nodeStatus](w).Wait
				require.Equal(t, ReasonAwaitingRequestor, wait.Reason, "the requestor has the node all the same")
				require.Equal(t, c.open, strings.Contains(wait.Message, "; the node is not cordoned any more, so that pods may come to it"))
			}, func() {
				problem := ""
				if c.open {
					problem = "kubectl cordon n1"
				}
				w.answers(w.join("gpu.example.com"), problem)
			}, w.signal(temporal.SignalCancel, "gpu.example.com"), w.signal(temporal.SignalDone, ""))
			w.ExecuteWorkflow(NodeMaintenance, handOver())
			require.Contains(t, requireResult[nodeStatus](w).Notes, noted)
			for i, in := range w.inputsOf("AwaitStale") {
				require.Equal(t, i, in.(activities.AwaitStaleInput).Changes)
			}
		})
	}
}

func TestNobodyIsToldThatANodeIsOpenWhichIsNotToBeCordoned(t *testing.T) {
	w := newWorld(t)
	in := handOver()
	in.Object.Spec.Cordon = new(false)
	w.say(w.signal(temporal.SignalDone, ""))
	w.ExecuteWorkflow(NodeMaintenance, in)
	requireResult[nodeStatus](w)
	require.Empty(t, w.inputsOf("AwaitStale")[0].(activities.AwaitStaleInput).CordonedNode)
}
