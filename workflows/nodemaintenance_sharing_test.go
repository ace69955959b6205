package workflows

import (
	"cmp"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"k8s.io/apimachinery/pkg/api/meta"

	"drydock.dev/drydock/activities"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/emergency"
	"drydock.dev/drydock/internal/scheduling"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/internal/windows"
)

// peer is the other maintenance of the node, which the test plays.
var peer = scheduling.Asker{WorkflowID: "node/c1/gpu/n1", FirstRunID: "run-of-peer"}

// self is how the maintenance under test is known to others.
func (w *world) self() scheduling.Asker {
	w.t.Helper()
	for _, call := range slices.Backward(w.schedulerCalls) {
		if call.Asker.WorkflowID == "node/c1/ops/n1" { // others may have called in between
			return call.Asker
		}
	}
	require.Fail(w.t, "it has not asked the scheduler")
	return scheduling.Asker{}
}

// claims makes the peer ask for the node of the maintenance under test, or say how it stands there.
func (w *world) claims(number int64, state maintenancev1.RequestorState) func() {
	return func() {
		spec := handOver().Object.Spec
		spec.RequestorID = "gpu.example.com"
		w.SignalWorkflow(temporal.SignalClaim, scheduling.Claim{From: peer, To: w.self(), Number: number, Spec: spec, State: state})
	}
}

// lastShare is what the peer was told last.
func (w *world) lastShare() scheduling.Share {
	told := w.toldShares()
	require.NotEmpty(w.t, told)
	return told[len(told)-1]
}

// toldShares are what those who share the node were told of it, in that order, in which words that are sent together do not arrive.
func (w *world) toldShares() []scheduling.Share {
	var shares []scheduling.Share
	for _, told := range w.toldOf(temporal.SignalShare) {
		shares = append(shares, told.(scheduling.Share))
	}
	slices.SortFunc(shares, func(a, b scheduling.Share) int { return cmp.Compare(a.Number, b.Number) })
	return shares
}

// lastShared is that those who share the node were told of it last as it is meant.
func (w *world) lastShared(meant func(scheduling.Share) bool) func() bool {
	return func() bool {
		told := w.toldShares()
		return len(told) > 0 && meant(told[len(told)-1])
	}
}

func TestANodeThatAnotherMaintenanceJoinedIsReturnedWhenBothAreDone(t *testing.T) {
	w := newWorld(t)
	w.locked, w.blocked["AwaitNodeLocks"] = true, true
	w.say(w.claims(1, maintenancev1.RequestorAtWork), func() {
		share := w.lastShare()
		require.Equal(t, scheduling.Share{From: w.self(), To: peer, Number: 1, State: maintenancev1.NodeScheduled}, share)
	}, func() { w.CancelWorkflow() }, w.keepsNode(maintenancev1.NodeScheduled), w.claims(2, maintenancev1.RequestorLeft))
	w.ExecuteWorkflow(NodeMaintenance, handOver())
	requireCancelled[nodeStatus](w)

	w = newWorld(t)
	w.say(
		w.claims(1, maintenancev1.RequestorAtWork), func() { require.True(t, w.lastShare().Ready) },
		w.signal(temporal.SignalDone, ""), w.keepsNode(maintenancev1.NodeReady), func() {
			require.Contains(t, statusOf[nodeStatus](w).Wait.Message, "gpu.example.com (node/c1/gpu/n1)")
		},
		w.claims(2, maintenancev1.RequestorDone),
	)
	w.ExecuteWorkflow(NodeMaintenance, handOver())
	require.Equal(t, maintenancev1.NodeCompleted, requireResult[nodeStatus](w).State)
	require.Len(t, w.inputs["TakeNode"], 1)
	require.Len(t, w.inputs["Drain"], 1)
	require.Len(t, w.inputs["ReturnNode"], 1)
}

func TestNobodyWaitsForTheEndOfAMaintenanceThatIsDoneWithTheNode(t *testing.T) {
	w := newWorld(t)
	asked := 0
	w.SetOnActivityCanceledListener(func(info *activity.Info) {
		if info.ActivityType.Name == "AwaitEnd" {
			asked++
		}
	})
	w.say(w.claims(1, maintenancev1.RequestorAtWork), w.signal(temporal.SignalDone, ""), w.claims(2, maintenancev1.RequestorDone))
	w.ExecuteWorkflow(NodeMaintenance, handOver())
	requireResult[nodeStatus](w)
	require.Equal(t, 1, asked, "to end")
}

func TestAJoinedMaintenanceIsToldWhenTheNodeIsReady(t *testing.T) {
	w := newWorld(t)
	release := make(chan struct{})
	play(w, "Drain", func(activities.DrainInput) any { <-release; return maintenancev1.DrainStatus{} })
	w.when(func() bool { return statusOf[nodeStatus](w).State == maintenancev1.NodeDraining }, func() {
		w.claims(1, maintenancev1.RequestorAtWork)()
		close(release)
	})
	w.when(w.lastShared(func(share scheduling.Share) bool { return share.Ready }), func() {
		w.claims(2, maintenancev1.RequestorDone)()
		w.SignalWorkflow(temporal.SignalDone, nil)
	})
	w.ExecuteWorkflow(NodeMaintenance, handOver())
	requireResult[nodeStatus](w)
}

func TestAJoinedMaintenanceIsToldHowFarTheNodeIs(t *testing.T) {
	w := newWorld(t)
	w.locked, w.blocked["Drain"] = true, true
	w.fail["AwaitNodeLocks"] = func(int) error {
		if len(w.toldOf(temporal.SignalShare)) == 0 {
			return temporal.Error(temporal.ErrClusterUnreachable, "connection refused", nil)
		}
		return nil
	}
	w.say(w.claims(1, maintenancev1.RequestorAtWork))
	w.when(w.lastShared(func(share scheduling.Share) bool { return share.State == maintenancev1.NodeDraining }), func() {
		require.Equal(t, maintenancev1.NodeScheduled, w.toldShares()[0].State)
		require.False(t, w.lastShare().Ready)
		w.CancelWorkflow()
		w.claims(2, maintenancev1.RequestorLeft)()
	})
	w.ExecuteWorkflow(NodeMaintenance, handOver())
	requireCancelled[nodeStatus](w)
}

func TestAJoinedMaintenanceThatFailsHoldsTheNodeAndOneThatEndsWithoutAWordLetsItGo(t *testing.T) {
	w := newWorld(t)
	w.say(
		w.claims(1, maintenancev1.RequestorAtWork), w.claims(3, maintenancev1.RequestorFailed),
		w.claims(2, maintenancev1.RequestorDone), // late, and out of date
		w.signal(temporal.SignalDone, ""), w.keepsNode(maintenancev1.NodeReady), func() {
			require.Contains(t, statusOf[nodeStatus](w).Wait.Message, "; the work of gpu.example.com (node/c1/gpu/n1) has failed, and waits for recover, done or cancel")
		}, w.claims(4, maintenancev1.RequestorDone),
	)
	w.ExecuteWorkflow(NodeMaintenance, handOver())
	requireResult[nodeStatus](w)

	w = newWorld(t)
	w.over = []scheduling.Asker{peer}
	w.say(w.claims(1, maintenancev1.RequestorAtWork), w.signal(temporal.SignalDone, ""))
	w.ExecuteWorkflow(NodeMaintenance, handOver())
	require.Equal(t, "its maintenance is over", requireResult[nodeStatus](w).Requestors[1].Message)
}

func TestANodeIsKeptForAJoinedMaintenanceWhoseWorkHasFailedOrThatCannotSayThatItHasNot(t *testing.T) {
	keeping := handOver()
	keeping.Object.Spec.OnFailure = maintenancev1.FailureKeepCordoned
	claims := func(w *world, number int64, state maintenancev1.RequestorState) func() {
		return func() {
			claim := scheduling.Claim{From: peer, To: w.self(), Number: number, Spec: keeping.Object.Spec, State: state}
			w.SignalWorkflow(temporal.SignalClaim, claim)
		}
	}
	for _, tc := range []struct {
		name  string
		leave func(*world) []func()
		keep  bool
	}{
		{"it is done", func(w *world) []func() { return []func(){claims(w, 2, maintenancev1.RequestorDone)} }, false},
		{"it leaves after a failure", func(w *world) []func() {
			return []func(){claims(w, 2, maintenancev1.RequestorFailed), claims(w, 3, maintenancev1.RequestorLeft)}
		}, true},
		{"it is terminated", func(w *world) []func() {
			w.over = []scheduling.Asker{peer}
			return nil
		}, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld(t)
			w.say(append(append([]func(){claims(w, 1, maintenancev1.RequestorAtWork)}, tc.leave(w)...), w.signal(temporal.SignalDone, ""))...)
			w.ExecuteWorkflow(NodeMaintenance, keeping)
			require.Equal(t, maintenancev1.NodeCompleted, requireResult[nodeStatus](w).State)
			require.Equal(t, tc.keep, w.inputs["ReturnNode"][0].(activities.ReturnNodeInput).KeepCordoned)
		})
	}
}

// The work of whose maintenance it is has failed: that one is collected when it was made good and is stale after that, or cancelled, and the other has the node all the time.
func TestANodeIsKeptForAJoinedMaintenanceWhenTheOneWhoseWorkFailedIsEnded(t *testing.T) {
	for name, tt := range map[string]struct {
		ends   string
		failed bool
		left   string
	}{
		"collected": {ends: temporal.SignalRecover, left: "collected, as garbageCollect asks"},
		"cancelled": {ends: temporal.SignalCancel, failed: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			var stale atomic.Bool
			beside(w, "AwaitStale", func(in activities.AwaitStaleInput) (any, bool) {
				return scheduling.Staleness{Stale: true, LimitSeconds: 3600, Collect: true}, stale.Load() && !in.Known.Stale
			})
			hasNode := func(own maintenancev1.RequestorState, state maintenancev1.NodeState) func() {
				return func() {
					w.keepsNode(state)()
					status := statusOf[nodeStatus](w)
					require.True(t, status.HandedOver)
					require.Equal(t, own, status.Requestors[0].State)
					require.Equal(t, maintenancev1.RequestorAtWork, status.Requestors[1].State)
					share := w.lastShare()
					require.Equal(t, state, share.State)
					require.True(t, share.Ready, "the other works on")
					require.Empty(t, share.Refused)
				}
			}
			w.say(
				w.claims(1, maintenancev1.RequestorAtWork), w.signal(temporal.SignalFail, ""), func() { stale.Store(true) },
				hasNode(maintenancev1.RequestorFailed, maintenancev1.NodeRequestorFailed),
				w.signal(tt.ends, ""), hasNode(maintenancev1.RequestorLeft, maintenancev1.NodeReady), func() {
					status := statusOf[nodeStatus](w)
					require.Contains(t, status.Wait.Message, "the node is handed over to gpu.example.com (node/c1/gpu/n1); waiting for done")
					require.Contains(t, status.Requestors[0].Message, tt.left)
				},
				w.claims(2, maintenancev1.RequestorDone),
			)
			w.ExecuteWorkflow(NodeMaintenance, handOver())
			if tt.failed {
				requireFailure[nodeStatus](w, "RequestorFailed")
			} else {
				requireCancelled[nodeStatus](w)
			}
			require.Len(t, w.inputs["ReturnNode"], 1)
		})
	}
}

// It has the node for itself then, whatever the other's work has come to, until that one says otherwise.
func TestAJoinedMaintenanceSaysThatItHasTheNodeAsLongAsItDoes(t *testing.T) {
	w := newWorld(t)
	w.occupy(peer)
	has := func(state maintenancev1.NodeState, handedOver bool, joinedTo string) func() {
		return func() {
			status := statusOf[nodeStatus](w)
			require.Equal(t, state, status.State)
			require.Equal(t, handedOver, status.HandedOver)
			require.Equal(t, handedOver, meta.IsStatusConditionTrue(status.Conditions, maintenancev1.ConditionReady))
			require.Equal(t, joinedTo, status.JoinedTo)
			require.Nil(t, status.Failure, "its own work has not failed")
		}
	}
	w.say(
		w.shares(scheduling.Share{Number: 1, State: maintenancev1.NodeReady, Ready: true}), has(maintenancev1.NodeReady, true, peer.WorkflowID),
		w.shares(scheduling.Share{Number: 2, State: maintenancev1.NodeRequestorFailed, Ready: true}), has(maintenancev1.NodeReady, true, peer.WorkflowID),
		w.shares(scheduling.Share{Number: 3, State: maintenancev1.NodeReady, Ready: true}), has(maintenancev1.NodeReady, true, peer.WorkflowID),
		w.shares(scheduling.Share{Number: 4, Refused: "it is returning the node"}), has(maintenancev1.NodePending, false, ""),
		w.CancelWorkflow,
	)
	w.ExecuteWorkflow(NodeMaintenance, handOver())
	requireCancelled[nodeStatus](w)
}

func TestAClaimForAnEarlierMaintenanceOfTheIDDoesNothing(t *testing.T) {
	w := newWorld(t)
	w.say(func() {
		to := w.self()
		to.FirstRunID = "an earlier one"
		w.SignalWorkflow(temporal.SignalClaim, scheduling.Claim{From: peer, To: to, Number: 1, Spec: handOver().Object.Spec, State: maintenancev1.RequestorAtWork})
	}, w.signal(temporal.SignalDone, ""))
	w.ExecuteWorkflow(NodeMaintenance, handOver())
	requireResult[nodeStatus](w)
	require.Empty(t, w.toldOf(temporal.SignalShare))
}

func TestAClaimThatIsNotCoveredOrComesTooLateIsRefused(t *testing.T) {
	w := newWorld(t)
	in := handOver()
	in.Object.Spec.DrainSpec = nil
	w.say(w.claims(1, maintenancev1.RequestorAtWork), func() {
		require.Equal(t, "it does not drain the node", w.lastShare().Refused)
		require.False(t, w.lastShare().Later)
	}, w.signal(temporal.SignalDone, ""))
	w.ExecuteWorkflow(NodeMaintenance, in)
	require.Empty(t, requireResult[nodeStatus](w).Requestors)

	w = newWorld(t)
	w.blocked["AwaitNodeHealthy"] = true
	w.say(w.signal(temporal.SignalDone, ""), w.claims(1, maintenancev1.RequestorAtWork), func() {
		require.Equal(t, "it is returning the node", w.lastShare().Refused)
		require.False(t, w.lastShare().Later)
	}, w.CancelWorkflow)
	w.ExecuteWorkflow(NodeMaintenance, handOver())
	requireCancelled[nodeStatus](w)
}

// The scheduler tells both in the same moment who has the node.
func TestAClaimThatOvertakesTheGrantIsAnsweredWhenThatIsThere(t *testing.T) {
	w := newWorld(t)
	w.occupy(scheduling.Asker{WorkflowID: "node/c1/third/n1", FirstRunID: "run-of-third"})
	w.say(w.claims(1, maintenancev1.RequestorAtWork))
	w.RegisterDelayedCallback(func() {
		require.Empty(t, w.toldOf(temporal.SignalShare))
		w.callScheduler(scheduling.Call{
			Asker:    scheduling.Asker{WorkflowID: "node/c1/third/n1", FirstRunID: "run-of-third"},
			Released: []scheduling.Release{{Namespace: "gpu", Name: "n1", Number: 1}},
		})
	}, time.Minute+grantOnItsWay/2)
	w.RegisterDelayedCallback(func() {
		for _, told := range w.toldOf(temporal.SignalShare) {
			require.Empty(t, told.(scheduling.Share).Refused)
		}
		require.True(t, w.lastShare().Ready)
		require.Equal(t, peer.WorkflowID, statusOf[nodeStatus](w).Requestors[1].Maintenance)
		w.signal(temporal.SignalDone, "")()
		w.claims(2, maintenancev1.RequestorDone)()
	}, 2*time.Minute)
	w.ExecuteWorkflow(NodeMaintenance, handOver())
	requireResult[nodeStatus](w)
}

// Whoever claims may have the slot itself by then.
func TestAClaimThatNoGrantFollowsIsRefusedSoon(t *testing.T) {
	w := newWorld(t)
	w.occupy(scheduling.Asker{WorkflowID: "node/c1/third/n1", FirstRunID: "run-of-third"})
	w.say(w.claims(1, maintenancev1.RequestorAtWork))
	w.RegisterDelayedCallback(func() {
		require.Len(t, w.toldOf(temporal.SignalShare), 1)
		require.Equal(t, "it does not have the node", w.lastShare().Refused)
		require.True(t, w.lastShare().Later, "it waits for it")
		w.claims(2, maintenancev1.RequestorAtWork)()
	}, time.Minute+2*grantOnItsWay)
	w.RegisterDelayedCallback(w.claims(3, maintenancev1.RequestorLeft), time.Minute+2*grantOnItsWay+time.Second)
	w.RegisterDelayedCallback(func() {
		require.Len(t, w.toldOf(temporal.SignalShare), 1, "whoever has left is not answered")
		w.CancelWorkflow()
	}, time.Hour)
	w.ExecuteWorkflow(NodeMaintenance, handOver())
	require.Empty(t, requireCancelled[nodeStatus](w).Requestors)
}

func TestAMaintenanceThatFailsTellsThoseThatJoinedIt(t *testing.T) {
	w := newWorld(t)
	w.locked = true
	play(w, "AwaitNodeLocks", func(activities.NodeLockInput) any { return nil })
	w.fail["Drain"] = func(call int) error {
		if call < 3*roundAttempts {
			return temporal.Error(temporal.ErrClusterUnreachable, "connection refused", nil)
		}
		return temporal.Error(temporal.ErrDrainTimedOut, "drain n1: 1 pod blocked", nil)
	}
	w.say(w.claims(1, maintenancev1.RequestorAtWork))
	w.ExecuteWorkflow(NodeMaintenance, handOver())
	requireFailure[nodeStatus](w, temporal.ErrDrainTimedOut)
	require.Equal(t, "it is returning the node: drain n1: 1 pod blocked", w.lastShare().Refused)
}

// occupy gives the node to the peer, or to whoever else, before the maintenance under test asks.
func (w *world) occupy(holder scheduling.Asker) {
	w.RegisterDelayedCallback(func() {
		w.callScheduler(scheduling.Call{Asker: holder, Slots: []scheduling.Slot{{
			Request:     scheduling.Request{Namespace: "gpu", Name: "n1", Node: "n1", Requestor: "gpu.example.com"},
			Maintenance: holder.WorkflowID, Number: 1, Since: w.Now(),
		}}})
	}, 0)
}

// vacate lets the peer give the node back.
func (w *world) vacate() {
	w.callScheduler(scheduling.Call{Asker: peer, Released: []scheduling.Release{{Namespace: "gpu", Name: "n1", Number: 1}}})
}

// shares makes the peer answer the maintenance under test.
func (w *world) shares(share scheduling.Share) func() {
	return func() {
		share.From, share.To = peer, w.lastClaim().From
		w.SignalWorkflow(temporal.SignalShare, share)
	}
}

// lastClaim is what the peer was told last.
func (w *world) lastClaim() scheduling.Claim {
	told := w.toldOf(temporal.SignalClaim)
	require.NotEmpty(w.t, told)
	return told[len(told)-1].(scheduling.Claim)
}

func TestAMaintenanceJoinsTheOneThatHasItsNode(t *testing.T) {
	w := newWorld(t)
	w.occupy(peer)
	w.say(
		w.shares(scheduling.Share{Number: 1, State: maintenancev1.NodeDraining}), func() {
			status := statusOf[nodeStatus](w)
			require.Equal(t, ReasonJoined, status.Wait.Reason)
			require.Equal(t, peer.WorkflowID, status.JoinedTo)
			require.Len(t, w.book.Parties, 1, "it does not ask for a slot any more")
			require.NotContains(t, w.called(), "WithdrawPlan", "it waits for the node")
		},
		w.shares(scheduling.Share{Number: 2, State: maintenancev1.NodeReady, Ready: true}), w.keepsNode(maintenancev1.NodeReady),
		func() { require.Contains(t, w.called(), "WithdrawPlan", "it has the node") },
		w.signal(temporal.SignalFail, ""), func() { require.Equal(t, maintenancev1.RequestorFailed, w.lastClaim().State) },
		w.signal(temporal.SignalRecover, ""), w.signal(temporal.SignalDone, ""),
	)
	w.ExecuteWorkflow(NodeMaintenance, handOver())
	status := requireResult[nodeStatus](w)
	require.Equal(t, []maintenancev1.NodeState{
		maintenancev1.NodePending, maintenancev1.NodeReady, maintenancev1.NodeRequestorFailed, maintenancev1.NodeReady,
		maintenancev1.NodeCleaningUp, maintenancev1.NodeCompleted,
	}, states(status))
	require.Equal(t, maintenancev1.RequestorDone, w.lastClaim().State)
	require.Equal(t, peer, w.lastClaim().To)
	for _, deed := range []string{"TakeNode", "Drain", "AwaitNodeHealthy"} {
		require.NotContains(t, w.called(), deed, "the holder has done so")
	}
}

// asked is how often the peer was asked to share its node.
func (w *world) asked() int {
	return len(slices.DeleteFunc(w.toldOf(temporal.SignalClaim), func(told any) bool { return !told.(scheduling.Claim).State.NeedsNode() }))
}

// What was said, or the answer, may be lost: that of a holder which continues as new in that moment, say.
func TestAHolderThatDoesNotAnswerIsAskedAgainSoonAndThenLessAndLessOften(t *testing.T) {
	for name, in := range map[string]NodeMaintenanceInput{"a maintenance of its own": handOver(), "a node of a rollout": joining()} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.occupy(peer)
			var asked []int
			for i := range 9 {
				w.RegisterDelayedCallback(func() { asked = append(asked, w.asked()) }, time.Duration(i+1)*time.Minute)
			}
			w.RegisterDelayedCallback(func() {
				require.Equal(t, []int{2, 3, 3, 4, 4, 4, 4, 5, 5}, asked, "after every minute: after 30 s, 90 s, 210 s, 450 s")
				require.Equal(t, int64(5), w.lastClaim().Number, "each is another, by which it is told from those before")
				w.shares(scheduling.Share{Number: 1, State: maintenancev1.NodeDraining})()
			}, 10*time.Minute)
			w.RegisterDelayedCallback(func() {
				require.Equal(t, peer.WorkflowID, statusOf[nodeStatus](w).JoinedTo)
				require.Equal(t, 5, w.asked(), "it has answered")
				w.CancelWorkflow()
			}, 10*time.Hour)
			w.ExecuteWorkflow(NodeMaintenance, in)
			requireCancelled[nodeStatus](w)
		})
	}
}

func TestAHolderThatDoesNotHaveTheNodeYetIsAskedAgain(t *testing.T) {
	for _, later := range []bool{true, false} {
		w := newWorld(t)
		w.occupy(peer)
		w.say(w.shares(scheduling.Share{Number: 1, Refused: "it does not have the node", Later: later}))
		w.RegisterDelayedCallback(func() {
			require.Contains(t, statusOf[nodeStatus](w).Wait.Message, "cannot be joined: it does not have the node")
			require.Equal(t, later, w.asked() > 2, "what will not change is not asked again")
			w.CancelWorkflow()
		}, time.Hour)
		w.ExecuteWorkflow(NodeMaintenance, handOver())
		requireCancelled[nodeStatus](w)
	}
}

// It waits for the node itself then, and may have it before.
func TestAHolderThatGaveTheNodeBackIsAskedAgainWhenItHasItOnceMore(t *testing.T) {
	for _, later := range []bool{true, false} {
		w := newWorld(t)
		w.occupy(peer)
		before := 0
		w.say(
			w.shares(scheduling.Share{Number: 1, State: maintenancev1.NodeScheduled}),
			w.shares(scheduling.Share{Number: 2, Refused: "it waits for the node again", Later: later}), func() {
				require.Equal(t, maintenancev1.NodePending, statusOf[nodeStatus](w).State)
			},
			w.shares(scheduling.Share{Number: 3, State: maintenancev1.NodeScheduled}), func() {
				require.Equal(t, later, w.asked() > before)
				require.Equal(t, later, statusOf[nodeStatus](w).JoinedTo == peer.WorkflowID)
				w.CancelWorkflow()
			},
		)
		w.RegisterDelayedCallback(func() { before = w.asked() }, 90*time.Second)
		w.ExecuteWorkflow(NodeMaintenance, handOver())
		requireCancelled[nodeStatus](w)
	}
}

func TestAMaintenanceThatCannotJoinWaitsAndSaysWhy(t *testing.T) {
	for name, tc := range map[string]struct {
		holder scheduling.Asker
		why    string
	}{
		"it is refused":   {peer, "node/c1/gpu/n1 cannot be joined: it does not drain the node"},
		"it is a rollout": {scheduling.Asker{WorkflowID: "cgu/ops/june/c1", FirstRunID: "1"}, "cgu/ops/june/c1 cannot be joined: it belongs to a rollout"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.occupy(tc.holder)
			refuse := w.shares(scheduling.Share{Number: 1, Refused: "it does not drain the node"})
			if tc.holder != peer {
				refuse = func() { require.Empty(t, w.toldOf(temporal.SignalClaim)) }
			}
			w.say(refuse, func() {
				wait := statusOf[nodeStatus](w).Wait
				require.Equal(t, "NodeBusy", wait.Reason)
				require.Contains(t, wait.Message, tc.why)
			}, w.CancelWorkflow)
			w.ExecuteWorkflow(NodeMaintenance, handOver())
			requireCancelled[nodeStatus](w)
		})
	}
}

func TestAJoinedMaintenanceThatLosesTheNodeWaitsForItsOwnSlot(t *testing.T) {
	for _, how := range []string{"is told", "asks"} {
		t.Run(how, func(t *testing.T) {
			w := newWorld(t)
			w.occupy(peer)
			lose := w.shares(scheduling.Share{Number: 2, Refused: "it is returning the node"})
			if how == "asks" {
				w.over = []scheduling.Asker{peer}
				lose = func() {}
			}
			w.say(
				w.shares(scheduling.Share{Number: 1, State: maintenancev1.NodeReady, Ready: true}), lose, w.keepsNode(maintenancev1.NodePending),
				func() {
					require.NotContains(t, w.called(), "TakeNode")
					planned := slices.DeleteFunc(w.called(), func(name string) bool { return name != "PlanMaintenance" && name != "WithdrawPlan" })
					require.Equal(t, []string{"PlanMaintenance", "WithdrawPlan", "PlanMaintenance"}, planned)
				}, w.vacate,
			)
			w.RegisterDelayedCallback(w.signal(temporal.SignalDone, ""), time.Hour)
			w.ExecuteWorkflow(NodeMaintenance, handOver())
			status := requireResult[nodeStatus](w)
			require.Empty(t, status.JoinedTo)
			require.Contains(t, w.called(), "TakeNode")
			require.Contains(t, w.called(), "AwaitNodeHealthy")
		})
	}
}

func TestASharedNodeThatIsLostBeforeItIsHandedOverIsNotWorkedOn(t *testing.T) {
	for name, meanwhile := range map[string]func(*world){
		"its holder returns it": func(w *world) { w.shares(scheduling.Share{Number: 2, Refused: "it is returning the node"})() },
		"the window closes":     func(w *world) { w.SignalWorkflow(temporal.SignalWindow, opensAt(2, w.Now().Add(24*time.Hour))) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.windows = map[string]windows.Standing{nightWindow: openUntil(1, w.Now().Add(4*time.Hour))}
			w.occupy(peer)
			withdrawn := make(chan struct{})
			play(w, "WithdrawPlan", func(activities.NodeRef) any { <-withdrawn; return nil })
			w.say(w.shares(scheduling.Share{Number: 1, State: maintenancev1.NodeReady, Ready: true}))
			w.when(func() bool { return len(w.inputsOf("WithdrawPlan")) > 0 }, func() {
				meanwhile(w)
				close(withdrawn)
			})
			w.when(func() bool { return w.calledTimes("PlanMaintenance", 2)() || statusOf[nodeStatus](w).HandedOver }, w.CancelWorkflow)
			in := maintenanceInWindow()
			in.Object.Spec.Action = nil
			w.ExecuteWorkflow(NodeMaintenance, in)
			require.NotContains(t, states(requireCancelled[nodeStatus](w)), maintenancev1.NodeReady)
		})
	}
}

// Pods would be evicted once more, for work that is done.
func TestAJoinedMaintenanceThatIsDoneWhenItLosesTheNodeDoesNotTakeItAgain(t *testing.T) {
	w := newWorld(t)
	w.occupy(peer)
	w.say(w.shares(scheduling.Share{Number: 1, State: maintenancev1.NodeReady, Ready: true}), func() {
		w.sendTogether(
			sending{temporal.SignalDone, temporal.SignalRequest{}},
			sending{temporal.SignalShare, scheduling.Share{From: peer, To: w.lastClaim().From, Number: 2, Refused: "its workflow is over"}},
		)
	})
	w.ExecuteWorkflow(NodeMaintenance, handOver())
	require.Equal(t, maintenancev1.NodeCompleted, requireResult[nodeStatus](w).State)
	require.NotContains(t, w.called(), "TakeNode")
}

func TestAJoinedMaintenanceThatIsCancelledLeavesTheNodeToTheOther(t *testing.T) {
	w := newWorld(t)
	w.occupy(peer)
	w.say(w.shares(scheduling.Share{Number: 1, State: maintenancev1.NodeReady, Ready: true}), w.signal(temporal.SignalCancel, ""))
	w.ExecuteWorkflow(NodeMaintenance, handOver())
	requireCancelled[nodeStatus](w)
	require.Equal(t, maintenancev1.RequestorLeft, w.lastClaim().State)
}

func TestAMaintenanceThatGetsItsSlotBeforeItIsAnsweredLeavesTheOther(t *testing.T) {
	w := newWorld(t)
	w.occupy(peer)
	w.say(func() { require.Equal(t, maintenancev1.RequestorAtWork, w.lastClaim().State) }, w.vacate,
		w.shares(scheduling.Share{Number: 1, State: maintenancev1.NodeReady, Ready: true}), w.signal(temporal.SignalDone, ""))
	w.ExecuteWorkflow(NodeMaintenance, handOver())
	require.Empty(t, requireResult[nodeStatus](w).JoinedTo)
	require.Contains(t, w.called(), "TakeNode")
	require.Equal(t, maintenancev1.RequestorLeft, w.lastClaim().State)
}

// Whoever has the node would be held up until the next opening.
func TestAMaintenanceLeavesTheOneThatItJoinedWhenItsWindowClosesBeforeTheHandOver(t *testing.T) {
	for _, action := range []drydockv1.OverrunAction{drydockv1.OverrunFinish, drydockv1.OverrunPause, drydockv1.OverrunCancel} {
		t.Run(string(action), func(t *testing.T) {
			w := newWorld(t)
			start := w.Now()
			closed := opensAt(2, start.Add(24*time.Hour))
			closed.OnOverrun = action
			w.windows = map[string]windows.Standing{nightWindow: openUntil(1, start.Add(4*time.Hour))}
			w.occupy(peer)
			w.say(w.shares(scheduling.Share{Number: 1, State: maintenancev1.NodeDraining}))
			w.tells(4*time.Hour, closed)
			w.RegisterDelayedCallback(func() {
				require.Equal(t, maintenancev1.RequestorLeft, w.lastClaim().State)
				require.Equal(t, closed.Window, statusOf[nodeStatus](w).Held.Window)
				require.Contains(t, w.lastClaim().Message, "window ops/night is closed")
				require.Len(t, w.book.Parties, 1, "it asks for no slot")
				w.shares(scheduling.Share{Number: 2, State: maintenancev1.NodeReady, Ready: true})() // it was on its way
			}, 4*time.Hour+time.Minute)
			w.RegisterDelayedCallback(func() {
				status := statusOf[nodeStatus](w)
				require.Equal(t, emergency.ReasonWaitingForWindow, status.Wait.Reason)
				require.Empty(t, status.JoinedTo)
				require.False(t, status.HandedOver)
			}, 23*time.Hour)
			w.tells(24*time.Hour, openUntil(3, start.Add(28*time.Hour)))
			w.RegisterDelayedCallback(func() {
				require.Equal(t, maintenancev1.RequestorAtWork, w.lastClaim().State, "it is asked once more")
				w.shares(scheduling.Share{Number: 3, State: maintenancev1.NodeReady, Ready: true})()
			}, 24*time.Hour+time.Minute)
			w.RegisterDelayedCallback(func() {
				require.True(t, statusOf[nodeStatus](w).HandedOver)
				w.SignalWorkflow(temporal.SignalDone, nil)
			}, 24*time.Hour+2*time.Minute)
			in := maintenanceInWindow()
			in.Object.Spec.Action = nil
			w.ExecuteWorkflow(NodeMaintenance, in)
			require.Nil(t, requireResult[nodeStatus](w).Held)
			require.NotContains(t, w.called(), "TakeNode")
			require.Len(t, w.inputs["PlanMaintenance"], 1, "until then it waited for its turn all the time")
		})
	}
}

func TestAMaintenanceDoesNotTakeOverASharedNodeWhileItsClusterIsHeld(t *testing.T) {
	w := newWorld(t)
	start := w.Now()
	w.windows = map[string]windows.Standing{nightWindow: openUntil(1, start.Add(4*time.Hour))}
	w.occupy(peer)
	w.say(
		w.shares(scheduling.Share{Number: 1, State: maintenancev1.NodeDraining}),
		func() { w.SignalWorkflow(temporal.SignalHeld, heldState(2, drydockv1.HoldCluster("c1"))) },
		w.shares(scheduling.Share{Number: 2, State: maintenancev1.NodeReady, Ready: true}),
		func() { requireHeldWait(t, statusOf[nodeStatus](w)) },
	)
	w.tells(4*time.Hour, opensAt(2, start.Add(24*time.Hour)))
	w.releaseAfter(5*time.Hour, 3)
	w.RegisterDelayedCallback(func() {
		require.Equal(t, maintenancev1.RequestorLeft, w.lastClaim().State, "the window had closed meanwhile")
		w.CancelWorkflow()
	}, 6*time.Hour)
	in := maintenanceInWindow()
	in.Object.Spec.Action = nil
	w.ExecuteWorkflow(NodeMaintenance, in)
	requireCancelled[nodeStatus](w)
}

func TestAMaintenanceThatHadLeftMayJoinAgain(t *testing.T) {
	w := newWorld(t)
	w.say(
		w.claims(1, maintenancev1.RequestorAtWork), w.claims(2, maintenancev1.RequestorLeft),
		w.claims(1, maintenancev1.RequestorAtWork), // late, and out of date
		func() { require.Equal(t, maintenancev1.RequestorLeft, statusOf[nodeStatus](w).Requestors[1].State) },
		w.claims(3, maintenancev1.RequestorAtWork), w.signal(temporal.SignalDone, ""), w.keepsNode(maintenancev1.NodeReady),
		w.claims(4, maintenancev1.RequestorDone),
	)
	w.ExecuteWorkflow(NodeMaintenance, handOver())
	require.Len(t, requireResult[nodeStatus](w).Requestors, 2)

	w = newWorld(t)
	w.blocked["AwaitNodeHealthy"] = true
	w.say(w.claims(1, maintenancev1.RequestorAtWork), w.claims(2, maintenancev1.RequestorLeft), w.signal(temporal.SignalDone, ""),
		w.claims(3, maintenancev1.RequestorAtWork), func() { require.Equal(t, "it is returning the node", w.lastShare().Refused) }, w.CancelWorkflow)
	w.ExecuteWorkflow(NodeMaintenance, handOver())
	requireCancelled[nodeStatus](w)
}

// joining asks for a node of a rollout that the peer has.
func joining() NodeMaintenanceInput {
	in := handOver()
	in.Parent, in.TaskQueue, in.Join, in.DoneWhenReady = "cgu/ops/june/c1", temporal.TaskQueue, &peer, true
	return in
}

func TestANodeOfARolloutIsDoneWhenTheMaintenanceThatItJoinedHasReturnedIt(t *testing.T) {
	for _, tc := range []struct {
		returned bool
		want     maintenancev1.NodeState
	}{{true, maintenancev1.NodeCompleted}, {false, maintenancev1.NodePending}} {
		w := newWorld(t)
		var over atomic.Bool
		play(w, "AwaitEnd", func(scheduling.Asker) any { return activities.Ending{Completed: tc.returned} })
		w.fail["AwaitEnd"] = func(int) error {
			if over.Load() {
				return nil
			}
			return errors.New("it goes on")
		}
		w.say(
			w.shares(scheduling.Share{Number: 1, State: maintenancev1.NodeDraining}), w.shares(scheduling.Share{Number: 2, State: maintenancev1.NodeReady, Ready: true}),
			func() {
				require.Equal(t, maintenancev1.RequestorDone, w.lastClaim().State, "it holds nobody up")
				require.Contains(t, statusOf[nodeStatus](w).Wait.Message, "returns it when all are done")
				over.Store(true)
			},
		)
		w.ExecuteWorkflow(NodeMaintenance, joining())
		require.Equal(t, tc.want, requireResult[nodeStatus](w).State)
		require.Equal(t, []string{"AwaitEnd"}, slices.Compact(w.called()), "it touches nothing itself")
		require.Empty(t, w.schedulerCalls, "its rollout waits for the slot")
	}
}

func TestANodeOfARolloutThatIsNotSharedIsLeftToTheRollout(t *testing.T) {
	for _, over := range []bool{false, true} {
		w := newWorld(t)
		if over {
			w.over = []scheduling.Asker{peer}
		} else {
			w.say(w.shares(scheduling.Share{Number: 1, Refused: "it does not drain the node"}))
		}
		w.ExecuteWorkflow(NodeMaintenance, joining())
		status := requireResult[nodeStatus](w)
		require.Equal(t, maintenancev1.NodePending, status.State)
		require.Len(t, status.Notes, 1)
		require.Empty(t, w.called())
	}
}
