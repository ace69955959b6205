package workflows

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/workflow"
	"k8s.io/apimachinery/pkg/util/intstr"

	"drydock.dev/drydock/activities"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/emergency"
	"drydock.dev/drydock/internal/scheduling"
	"drydock.dev/drydock/internal/temporal"
)

// schedulerWorld runs a scheduler whose cluster has three nodes, of which one at a time may be under maintenance, until its test ends it. It keeps
// whom the scheduler has told what.
type schedulerWorld struct {
	*world
	turns []scheduling.Turn
	lost  []scheduling.Holder
	// askers run in the cluster; called are those that were asked for all their slots.
	askers, called []string
	// unseen are nodes that the cluster has, and that the watch has not shown.
	unseen []string
}

func newSchedulerWorld(t *testing.T) *schedulerWorld {
	w := &schedulerWorld{world: newWorld(t)}
	w.play()
	w.OnSignalExternalWorkflow(mock.Anything, mock.Anything, mock.Anything, temporal.SignalRollCall, mock.Anything).Return(
		func(_, id, _, _ string, _ any) error {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.called = append(w.called, id)
			return nil
		}).Maybe()
	w.OnSignalExternalWorkflow(mock.Anything, mock.Anything, mock.Anything, temporal.SignalTurn, mock.Anything).Return(
		func(_, _, _, _ string, payload any) error {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.turns = append(w.turns, payload.(scheduling.Turn))
			return nil
		}).Maybe()
	return w
}

// play plays the activities of the scheduler.
func (w *schedulerWorld) play() {
	play(w.world, "WatchNodes", func(string) any { return nil })
	play(w.world, "FindLost", func([]scheduling.Holder) any {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.lost
	})
	play(w.world, "FindGone", func(in activities.FindGoneInput) any {
		w.mu.Lock()
		defer w.mu.Unlock()
		return slices.DeleteFunc(slices.Clone(in.Nodes), func(node string) bool { return slices.Contains(w.unseen, node) })
	})
	play(w.world, "FindAskers", func(string) any { return append([]string{}, w.askers...) })
	w.blocked["WatchNodes"] = true
}

func (w *schedulerWorld) see(sight scheduling.Sight) {
	sight.From = time.Unix(1, 0)
	w.SignalWorkflow(temporal.SignalSight, sight)
}

func (w *schedulerWorld) seeAll() {
	sight := scheduling.Sight{First: true, Last: true, Config: &maintenancev1.MaintenanceOperatorConfigSpec{MaxParallelOperations: new(intstr.FromInt(1))}}
	for _, node := range []string{"a", "b", "c"} {
		sight.Nodes = append(sight.Nodes, scheduling.SeenNode{Node: scheduling.Node{Name: node}})
	}
	w.see(sight)
}

func (w *schedulerWorld) call(who string, call scheduling.Call) {
	call.Asker = scheduling.Asker{WorkflowID: who, FirstRunID: "run"}
	w.SignalWorkflow(temporal.SignalCall, call)
}

func slotFor(node string, number int64) scheduling.Slot {
	return scheduling.Slot{
		Request: scheduling.Request{Namespace: "ops", Name: node, Node: node, Requestor: "june"}, Number: number,
		Since: time.Unix(number, 0), Maintenance: "node/c1/ops/" + node,
	}
}

func asks(slots ...scheduling.Slot) scheduling.Call { return scheduling.Call{Slots: slots} }

func returns(node string, number int64) scheduling.Call {
	return scheduling.Call{Released: []scheduling.Release{{Namespace: "ops", Name: node, Number: number}}}
}

// grants are the nodes that were granted, in order.
func (w *schedulerWorld) grants() (nodes []string) {
	for _, turn := range w.turns {
		for _, grant := range turn.Granted {
			nodes = append(nodes, turn.Asker.WorkflowID+" "+grant.Name)
		}
	}
	return nodes
}

// after runs the steps, one a minute, and lets the run end with the last, by continuing as new.
func (w *schedulerWorld) after(steps ...func()) {
	for i, step := range steps {
		w.RegisterDelayedCallback(step, time.Duration(i+1)*time.Minute)
	}
	w.RegisterDelayedCallback(func() {
		w.SetContinueAsNewSuggested(true)
		w.SignalWorkflow(temporal.SignalCall, scheduling.Call{})
	}, time.Duration(len(steps)+1)*time.Minute)
}

// carried runs the scheduler and returns what it hands to the next run.
func (w *schedulerWorld) carried() MaintenanceSchedulerCarried {
	w.ExecuteWorkflow(MaintenanceScheduler, MaintenanceSchedulerInput{Cluster: "c1"})
	require.True(w.t, w.IsWorkflowCompleted())
	var next *workflow.ContinueAsNewError
	require.ErrorAs(w.t, w.GetWorkflowError(), &next)
	var in MaintenanceSchedulerInput
	require.NoError(w.t, converter.GetDefaultDataConverter().FromPayloads(next.Input, &in))
	return *in.Carried
}

func TestTheSchedulerGrantsASlotHandsItOnAndCarriesItsBookOver(t *testing.T) {
	w := newSchedulerWorld(t)
	w.after(
		func() { w.call("june", asks(slotFor("a", 1), slotFor("b", 2))) },
		func() { require.Empty(t, w.grants(), "nobody has seen the nodes"); w.seeAll() },
		func() { require.Equal(t, []string{"june a"}, w.grants()); w.call("july", asks(slotFor("c", 3))) },
		func() { w.call("june", returns("a", 1)) },
		func() { require.Equal(t, []string{"june a", "june b"}, w.grants(), "the older goes first") },
		func() {
			status := statusOf[MaintenanceSchedulerStatus](w.world)
			require.Len(t, status.Queue, 2)
			require.Equal(t, 1, status.Queue[1].Rank)
			require.Equal(t, scheduling.NoSlot, status.Queue[1].Reason)
			require.Zero(t, status.AvailableSlots, "the one that there is has been granted")
		},
	)
	carried := w.carried()
	require.Len(t, carried.Book.Parties, 2)
}

// Without one, a node at a time.
func TestASchedulerGrantsByTheDefaultsWhenTheConfigurationIsDeleted(t *testing.T) {
	allows := func(w *schedulerWorld, config maintenancev1.MaintenanceOperatorConfigSpec) {
		w.see(scheduling.Sight{Config: &config})
	}
	w := newSchedulerWorld(t)
	w.after(
		func() {
			w.seeAll()
			allows(w, maintenancev1.MaintenanceOperatorConfigSpec{MaxParallelOperations: new(intstr.FromInt(0))})
			w.call("june", asks(slotFor("a", 1), slotFor("b", 2), slotFor("c", 3)))
		},
		func() { require.Empty(t, w.grants()); allows(w, maintenancev1.MaintenanceOperatorConfigSpec{}) },
		func() {
			require.Equal(t, []string{"june a"}, w.grants())
			allows(w, maintenancev1.MaintenanceOperatorConfigSpec{MaxParallelOperations: new(intstr.FromInt(2))})
		},
		func() {
			require.Equal(t, []string{"june a", "june b"}, w.grants())
			allows(w, maintenancev1.MaintenanceOperatorConfigSpec{})
			w.call("june", returns("a", 1))
		},
		func() {
			status := statusOf[MaintenanceSchedulerStatus](w.world)
			require.Len(t, status.Queue, 2, "who had a slot keeps it")
			require.Contains(t, status.Queue[1].Message, "maxParallelOperations allows 1 of 3 nodes under maintenance at once (b for june)")
			require.Len(t, w.grants(), 2)
		},
	)
	w.carried()
}

func TestWhileAClusterIsHeldItsSchedulerGrantsNothing(t *testing.T) {
	w := newSchedulerWorld(t)
	w.after(
		func() { w.SignalWorkflow(temporal.SignalHeld, heldState(2, "cluster/c1")) },
		func() { w.seeAll(); w.call("june", asks(slotFor("a", 1))) },
		func() {
			require.Empty(t, w.grants())
			require.Equal(t, emergency.ReasonHeld, w.turns[0].Wait.Reason)
			require.Equal(t, emergency.ReasonHeld, statusOf[MaintenanceSchedulerStatus](w.world).Wait.Reason)
			w.SignalWorkflow(temporal.SignalHeld, emergency.State{Number: 3})
		},
		func() { require.Equal(t, []string{"june a"}, w.grants()) },
	)
	w.carried()
}

func TestUntilItKnowsWhatIsHeldTheSchedulerGrantsNothing(t *testing.T) {
	w := newSchedulerWorld(t)
	w.untold = true
	w.after(
		func() { w.seeAll(); w.call("june", asks(slotFor("a", 1))) },
		func() { require.Empty(t, w.grants()) },
	)
	w.carried()
}

func TestTheSlotOfAHolderThatEndedIsFreedAndTheSweeperWoken(t *testing.T) {
	w := newSchedulerWorld(t)
	w.after(
		func() { w.seeAll(); w.call("june", asks(slotFor("a", 1))); w.call("july", asks(slotFor("b", 1))) },
		func() {
			require.Equal(t, []string{"june a"}, w.grants())
			w.mu.Lock()
			defer w.mu.Unlock()
			w.lost = []scheduling.Holder{{Asker: scheduling.Asker{WorkflowID: "june", FirstRunID: "run"}}}
		},
		func() {},
		func() { require.Equal(t, []string{"june a", "july b"}, w.grants()) },
	)
	w.carried()
	require.NotEmpty(t, w.inputsOf("WakeSweeper"))
	require.Equal(t, []string{"node/c1/ops/a"}, w.inputsOf("FindLost")[0].([]scheduling.Holder)[0].Maintenances)
}

func TestTheNextRunWakesTheSweeperThatThisOneCouldNot(t *testing.T) {
	w := newSchedulerWorld(t)
	w.OnActivity("WakeSweeper", mock.Anything, mock.Anything).Return(errGone)
	w.lost = []scheduling.Holder{{Asker: scheduling.Asker{WorkflowID: "june", FirstRunID: "run"}}}
	w.after(func() { w.seeAll(); w.call("june", asks(slotFor("a", 1))) })
	carried := w.carried()

	next := newSchedulerWorld(t)
	next.after()
	next.ExecuteWorkflow(MaintenanceScheduler, MaintenanceSchedulerInput{Cluster: "c1", Carried: &carried})
	require.Len(t, next.inputsOf("WakeSweeper"), 1)
	require.False(t, handedOn[MaintenanceSchedulerInput](next.world).Carried.Unswept)
}

func TestARequestForANodeThatDoesNotExistIsOverAndOneThatIsNotSeenYetWaits(t *testing.T) {
	w := newSchedulerWorld(t)
	w.unseen = []string{"new"}
	gone := func() (names []string) {
		for _, turn := range w.turns {
			for _, over := range turn.Gone {
				names = append(names, turn.Asker.WorkflowID+" "+over.Name)
			}
		}
		return names
	}
	w.after(
		func() { w.seeAll(); w.call("june", asks(slotFor("gone", 1), slotFor("new", 2))) },
		func() {
			require.Empty(t, w.grants(), "nobody sees how many nodes are out of service")
			require.Equal(t, []string{"june gone"}, gone())
			require.Equal(t, scheduling.NodeNotFound, statusOf[MaintenanceSchedulerStatus](w.world).Queue[0].Reason)
			w.unseen = nil // it was deleted before it was ever shown
		},
		func() { require.Equal(t, []string{"june gone", "june new"}, gone()) },
	)
	require.Empty(t, w.carried().Book.Parties)
}

func TestASlotIsKeptUntilTheLastEffectOfWhoHadItWasSeen(t *testing.T) {
	const toBeSeen = 3 * time.Second // marks are shown a second later than they are made
	require.GreaterOrEqual(t, scheduling.UncleanPause, lastWrites+toBeSeen)
}

func TestWhoCannotBeToldIsAskedAboutAtOnce(t *testing.T) {
	w := &schedulerWorld{world: newWorld(t)}
	w.play()
	w.OnSignalExternalWorkflow(mock.Anything, mock.Anything, mock.Anything, temporal.SignalTurn, mock.Anything).Return(errGone).Maybe()
	var asked int
	w.after(
		func() { w.seeAll(); w.call("june", asks(slotFor("a", 1))) },
		func() {},
	)
	w.RegisterDelayedCallback(func() {
		asked = len(w.inputsOf("FindLost"))
	}, time.Minute+10*time.Second)
	w.carried()
	require.Equal(t, 1, asked, "before the next round")
}

// Its slot would be kept for it, and nobody know.
func TestWhoWasNotReachedIsToldAgainUnlessItIsOver(t *testing.T) {
	for _, over := range []bool{false, true} {
		w := &schedulerWorld{world: newWorld(t)}
		w.play()
		tried := 0
		w.tellFails(func(scheduling.Turn) bool {
			tried++
			return tried <= 2 || over
		})
		if over {
			w.lost = []scheduling.Holder{{Asker: scheduling.Asker{WorkflowID: "june", FirstRunID: "run"}}}
		}
		w.after(
			func() { w.seeAll(); w.call("june", asks(slotFor("a", 1), slotFor("b", 2))) },
			func() {}, func() {},
			func() {
				if over {
					require.Empty(t, w.turns)
					return
				}
				require.Equal(t, []string{"june a"}, w.grants())
				require.Equal(t, string(scheduling.NoSlot), w.turns[len(w.turns)-1].Wait.Reason, "and why it waits for the other")
			},
		)
		w.carried()
		if over {
			require.LessOrEqual(t, tried, 2, "once of the slot, and of the wait at most")
		}
	}
}

// tellFails has the scheduler not reach those whom it tells as long as the function says so.
func (w *schedulerWorld) tellFails(fails func(scheduling.Turn) bool) {
	w.OnSignalExternalWorkflow(mock.Anything, mock.Anything, mock.Anything, temporal.SignalTurn, mock.Anything).Return(
		func(_, _, _, _ string, payload any) error {
			w.mu.Lock()
			defer w.mu.Unlock()
			if fails(payload.(scheduling.Turn)) {
				return errGone
			}
			w.turns = append(w.turns, payload.(scheduling.Turn))
			return nil
		}).Maybe()
}

// It asks for nothing else: the book has forgotten it when the word is lost.
func TestWhoWasNotReachedIsToldAgainThatItsNodeIsGoneUnlessItIsOver(t *testing.T) {
	for name, over := range map[string]bool{"it goes on": false, "it is over": true} {
		t.Run(name, func(t *testing.T) {
			w := &schedulerWorld{world: newWorld(t)}
			w.play()
			tried := 0
			w.tellFails(func(turn scheduling.Turn) bool {
				if len(turn.Gone) > 0 {
					tried++
				}
				return tried == 1 || over
			})
			if over {
				w.lost = []scheduling.Holder{{Asker: scheduling.Asker{WorkflowID: "june", FirstRunID: "run"}}}
			}
			w.after(
				func() { w.seeAll(); w.call("june", asks(slotFor("gone", 1))) },
				func() {}, func() {}, func() {},
			)
			carried := w.carried()
			require.Empty(t, carried.Book.Parties)
			if over {
				require.Empty(t, w.turns)
				require.Equal(t, 1, tried)
				return
			}
			require.Len(t, w.turns, 1)
			require.Equal(t, []scheduling.Grant{{Namespace: "ops", Name: "gone", Number: 1}}, w.turns[0].Gone)
		})
	}
}

// There is always somebody who has just ended when it is told.
func TestWhoWasNotReachedIsToldAgainThoughOthersAreNotReachedAllTheTime(t *testing.T) {
	w := &schedulerWorld{world: newWorld(t)}
	w.play()
	tried := 0
	w.tellFails(func(turn scheduling.Turn) bool {
		if turn.Asker.WorkflowID != "june" {
			return true
		}
		tried++
		return tried == 1
	})
	w.RegisterDelayedCallback(func() { w.seeAll(); w.call("june", asks(slotFor("a", 1))) }, time.Minute)
	for i := range 30 {
		asked := time.Minute + time.Duration(i+1)*lostInterval/3
		w.simulateAfter(asked, func() { w.call(fmt.Sprintf("ghost-%d", i), asks(slotFor("b", 1))) })
	}
	w.RegisterDelayedCallback(func() { require.Equal(t, []string{"june a"}, w.grants()) }, time.Minute+3*lostInterval)
	w.after(func() {}, func() {}, func() {}, func() {})
	w.carried()
}

func TestAClusterIsWatchedOnlyWhileSomebodyAsksAndForAWhileAfter(t *testing.T) {
	w := newSchedulerWorld(t)
	watching := func() bool { return statusOf[MaintenanceSchedulerStatus](w.world).Watching }
	w.after(
		func() { require.False(t, watching()) },
		func() { w.call("june", asks(slotFor("a", 1))); w.seeAll() },
		func() { require.True(t, watching()); w.call("june", returns("a", 1)) },
		func() { require.True(t, watching()) },
		func() {}, func() {}, func() {}, func() {},
		func() { require.False(t, watching()); w.call("june", asks(slotFor("b", 2))) },
		func() {
			require.True(t, watching())
			require.Equal(t, []string{"june a"}, w.grants(), "what was seen before is forgotten")
			w.seeAll()
		},
		func() { require.Equal(t, []string{"june a", "june b"}, w.grants()) },
	)
	w.carried()
}

func TestAnotherWatchesSoonWhenTheOneThatDidIsSilent(t *testing.T) {
	w := newSchedulerWorld(t)
	silences := map[string]time.Duration{}
	w.SetOnActivityStartedListener(func(info *activity.Info, _ context.Context, _ converter.EncodedValues) {
		w.mu.Lock()
		defer w.mu.Unlock()
		silences[info.ActivityType.Name] = info.HeartbeatTimeout
	})
	w.after(func() { w.call("june", asks(slotFor("a", 1))) }, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		require.Equal(t, 10*time.Second, silences["WatchNodes"], "as docs/explanation/slots.md says: nodes that go down meanwhile are not counted")
	})
	w.carried()
}

func TestAClusterThatCannotBeSeenGetsNothingAndTheWaitSaysWhy(t *testing.T) {
	w := newSchedulerWorld(t)
	w.fail["WatchNodes"] = func(call int) error {
		if call < 20 {
			return temporal.Error(temporal.ErrClusterUnreachable, "cluster c1: connection refused", nil)
		}
		return nil
	}
	w.after(
		func() { w.call("june", asks(slotFor("a", 1))) },
		func() {
			require.Equal(t, temporal.ErrClusterUnreachable, statusOf[MaintenanceSchedulerStatus](w.world).Wait.Reason)
			require.Equal(t, temporal.ErrClusterUnreachable, w.turns[len(w.turns)-1].Wait.Reason)
		},
		func() {}, func() {}, func() { w.seeAll() },
		func() { require.Equal(t, []string{"june a"}, w.grants()) },
	)
	w.carried()
}
