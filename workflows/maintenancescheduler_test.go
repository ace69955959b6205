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

// schedulerWorld runs a scheduler whose cluster has three nodes, of which one at a time may be under maintenance, until its test ends it. It keeps the
// responses.
type schedulerWorld struct {
	*world
	responses []scheduling.SlotResponse
	sets      map[string]*scheduling.SlotRequests
	// names of the requests, by owner and number.
	names  map[string]string
	closed []scheduling.Holder
	// owners run in the cluster; resynced are those that were asked for all their slots.
	owners, resynced []string
	// unseen are nodes that the cluster has, and that the watch has not shown.
	unseen []string
}

func newSchedulerWorld(t *testing.T) *schedulerWorld {
	w := bareSchedulerWorld(t)
	w.OnSignalExternalWorkflow(mock.Anything, mock.Anything, mock.Anything, temporal.SignalResync, mock.Anything).Return(
		func(_, id, _, _ string, _ any) error {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.resynced = append(w.resynced, id)
			return nil
		}).Maybe()
	w.responsesFail(func(scheduling.SlotResponse) bool { return false })
	return w
}

// bareSchedulerWorld does not take responses yet.
func bareSchedulerWorld(t *testing.T) *schedulerWorld {
	w := &schedulerWorld{world: newWorld(t), sets: map[string]*scheduling.SlotRequests{}, names: map[string]string{}}
	w.simulate()
	return w
}

// simulate registers the activities of the scheduler.
func (w *schedulerWorld) simulate() {
	play(w.world, "WatchNodes", func(string) any { return nil })
	play(w.world, "FindClosedOwners", func([]scheduling.Holder) any {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.closed
	})
	play(w.world, "FindGone", func(in activities.FindGoneInput) any {
		w.mu.Lock()
		defer w.mu.Unlock()
		return slices.DeleteFunc(slices.Clone(in.Nodes), func(node string) bool { return slices.Contains(w.unseen, node) })
	})
	play(w.world, "FindSlotOwners", func(string) any { return append([]string{}, w.owners...) })
	w.blocked["WatchNodes"] = true
}

func (w *schedulerWorld) see(update scheduling.NodeUpdate) {
	update.Watch = time.Unix(1, 0)
	w.SignalWorkflow(temporal.SignalNodeUpdate, update)
}

func (w *schedulerWorld) seeAll() {
	update := scheduling.NodeUpdate{First: true, Last: true, Config: &maintenancev1.MaintenanceOperatorConfigSpec{MaxParallelOperations: new(intstr.FromInt(1))}}
	for _, node := range []string{"a", "b", "c"} {
		update.Nodes = append(update.Nodes, scheduling.SeenNode{Node: scheduling.Node{Name: node}})
	}
	w.see(update)
}

// setOf is the set of an owner, which a test may change.
func (w *schedulerWorld) setOf(who string) *scheduling.SlotRequests {
	if w.sets[who] == nil {
		w.sets[who] = &scheduling.SlotRequests{
			Owner: scheduling.SlotOwner{WorkflowID: who, FirstRunID: "run"}, Namespace: "ops", Requestor: "june", Maintenances: "node/c1/ops/",
		}
	}
	return w.sets[who]
}

// send sends the set of an owner.
func (w *schedulerWorld) send(who string) {
	set := w.setOf(who)
	set.Version++
	sent := *set
	sent.Slots = slices.Clone(set.Slots)
	w.SignalWorkflow(temporal.SignalSlotRequests, sent)
}

// request adds requests to the set of an owner.
func (w *schedulerWorld) request(who string, slots ...scheduling.Slot) {
	w.setOf(who).Slots = append(w.setOf(who).Slots, slots...)
	for _, slot := range slots {
		w.names[fmt.Sprint(who, slot.Number)] = slot.Name
	}
	w.send(who)
}

// release removes slots from the set of an owner.
func (w *schedulerWorld) release(who string, number int64) {
	w.setOf(who).Slots = slices.DeleteFunc(w.setOf(who).Slots, func(s scheduling.Slot) bool { return s.Number == number })
	w.send(who)
}

func closedOwner(who string) scheduling.Holder {
	return scheduling.Holder{SlotOwner: scheduling.SlotOwner{WorkflowID: who, FirstRunID: "run"}}
}

func slotFor(node string, number int64) scheduling.Slot {
	return scheduling.Slot{Number: number, Name: node, Node: node, Since: time.Unix(number, 0)}
}

// grants are the owners and nodes of the grants, in order.
func (w *schedulerWorld) grants() (grants []string) {
	for _, response := range w.responses {
		for _, number := range response.Granted {
			grant := response.Owner.WorkflowID + " " + w.named(response.Owner.WorkflowID, number)
			if !slices.Contains(grants, grant) {
				grants = append(grants, grant)
			}
		}
	}
	return grants
}

// named is the name of a request; it may be over.
func (w *schedulerWorld) named(who string, number int64) string {
	return w.names[fmt.Sprint(who, number)]
}

// after runs the steps, one a minute, and lets the run end with the last, by continuing as new.
func (w *schedulerWorld) after(steps ...func()) {
	for i, step := range steps {
		w.RegisterDelayedCallback(step, time.Duration(i+1)*time.Minute)
	}
	w.RegisterDelayedCallback(func() {
		w.SetContinueAsNewSuggested(true)
		w.SignalWorkflow(temporal.SignalSlotRequests, scheduling.SlotRequests{})
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
		func() { w.request("june", slotFor("a", 1), slotFor("b", 2)) },
		func() { require.Empty(t, w.grants(), "nobody has seen the nodes"); w.seeAll() },
		func() { require.Equal(t, []string{"june a"}, w.grants()); w.request("july", slotFor("c", 3)) },
		func() { w.release("june", 1) },
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
	require.Len(t, carried.Slots.Requesters, 2)
}

// Without one, a node at a time.
func TestASchedulerGrantsByTheDefaultsWhenTheConfigurationIsDeleted(t *testing.T) {
	allows := func(w *schedulerWorld, config maintenancev1.MaintenanceOperatorConfigSpec) {
		w.see(scheduling.NodeUpdate{Config: &config})
	}
	w := newSchedulerWorld(t)
	w.after(
		func() {
			w.seeAll()
			allows(w, maintenancev1.MaintenanceOperatorConfigSpec{MaxParallelOperations: new(intstr.FromInt(0))})
			w.request("june", slotFor("a", 1), slotFor("b", 2), slotFor("c", 3))
		},
		func() { require.Empty(t, w.grants()); allows(w, maintenancev1.MaintenanceOperatorConfigSpec{}) },
		func() {
			require.Equal(t, []string{"june a"}, w.grants())
			allows(w, maintenancev1.MaintenanceOperatorConfigSpec{MaxParallelOperations: new(intstr.FromInt(2))})
		},
		func() {
			require.Equal(t, []string{"june a", "june b"}, w.grants())
			allows(w, maintenancev1.MaintenanceOperatorConfigSpec{})
			w.release("june", 1)
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
		func() { w.seeAll(); w.request("june", slotFor("a", 1)) },
		func() {
			require.Empty(t, w.grants())
			require.Equal(t, emergency.ReasonHeld, w.responses[0].Wait.Reason)
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
		func() { w.seeAll(); w.request("june", slotFor("a", 1)) },
		func() { require.Empty(t, w.grants()) },
	)
	w.carried()
}

func TestTheSlotOfAHolderThatEndedIsFreedAndTheSweeperWoken(t *testing.T) {
	w := newSchedulerWorld(t)
	w.after(
		func() { w.seeAll(); w.request("june", slotFor("a", 1)); w.request("july", slotFor("b", 1)) },
		func() {
			require.Equal(t, []string{"june a"}, w.grants())
			w.mu.Lock()
			defer w.mu.Unlock()
			w.closed = []scheduling.Holder{closedOwner("june")}
		},
		func() {},
		func() { require.Equal(t, []string{"june a", "july b"}, w.grants()) },
	)
	w.carried()
	require.NotEmpty(t, w.inputsOf("WakeSweeper"))
	require.Equal(t, []string{"node/c1/ops/a"}, w.inputsOf("FindClosedOwners")[0].([]scheduling.Holder)[0].Maintenances)
}

func TestTheNextRunWakesTheSweeperThatThisOneCouldNot(t *testing.T) {
	w := newSchedulerWorld(t)
	w.OnActivity("WakeSweeper", mock.Anything, mock.Anything).Return(errGone)
	w.closed = []scheduling.Holder{closedOwner("june")}
	w.after(func() { w.seeAll(); w.request("june", slotFor("a", 1)) })
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
		for _, response := range w.responses {
			for _, number := range response.NodesGone {
				if name := w.named(response.Owner.WorkflowID, number); !slices.Contains(names, name) {
					names = append(names, name)
				}
			}
		}
		return names
	}
	w.after(
		func() { w.seeAll(); w.request("june", slotFor("gone", 1), slotFor("new", 2)) },
		func() {
			require.Empty(t, w.grants(), "its budgets are not known")
			require.Equal(t, []string{"gone"}, gone())
			require.Equal(t, scheduling.NodeNotFound, statusOf[MaintenanceSchedulerStatus](w.world).Queue[0].Reason)
			w.unseen = nil // it was deleted before it was ever shown
		},
		func() { require.Equal(t, []string{"gone", "new"}, gone()); w.release("june", 1); w.release("june", 2) },
	)
	require.Empty(t, w.carried().Slots.Requesters)
}

func TestASlotIsKeptUntilTheLastEffectOfWhoHadItWasSeen(t *testing.T) {
	const toBeSeen = 3 * time.Second // marks are shown a second later than they are made
	require.GreaterOrEqual(t, scheduling.UncleanPause, lastWrites+toBeSeen)
}

func TestAnOwnerThatAResponseDoesNotReachIsCheckedAtOnce(t *testing.T) {
	w := bareSchedulerWorld(t)
	w.responsesFail(func(scheduling.SlotResponse) bool { return true })
	var checked int
	w.after(
		func() { w.seeAll(); w.request("june", slotFor("a", 1)) },
		func() {},
	)
	w.RegisterDelayedCallback(func() {
		checked = len(w.inputsOf("FindClosedOwners"))
	}, time.Minute+10*time.Second)
	w.carried()
	require.Equal(t, 1, checked, "before the next regular check")
}

// Otherwise the slot would be kept for an owner that does not know of it.
func TestAResponseThatDidNotArriveIsSentAgainUnlessTheOwnerIsClosed(t *testing.T) {
	for _, closed := range []bool{false, true} {
		w := bareSchedulerWorld(t)
		tried := 0
		w.responsesFail(func(scheduling.SlotResponse) bool {
			tried++
			return tried <= 2 || closed
		})
		if closed {
			w.closed = []scheduling.Holder{closedOwner("june")}
		}
		w.after(
			func() { w.seeAll(); w.request("june", slotFor("a", 1), slotFor("b", 2), slotFor("gone", 3)) },
			func() {}, func() {},
			func() {
				if closed {
					require.Empty(t, w.responses)
					return
				}
				require.Equal(t, []string{"june a"}, w.grants())
				last := w.responses[len(w.responses)-1]
				require.Equal(t, string(scheduling.NoSlot), last.Wait.Reason)
				require.Equal(t, []int64{3}, last.NodesGone)
			},
		)
		w.carried()
		if closed {
			require.LessOrEqual(t, tried, 2, "the grant and then the node that is gone")
		}
	}
}

// responsesFail lets responses fail as long as the function says so.
func (w *schedulerWorld) responsesFail(fails func(scheduling.SlotResponse) bool) {
	w.OnSignalExternalWorkflow(mock.Anything, mock.Anything, mock.Anything, temporal.SignalSlotResponse, mock.Anything).Return(
		func(_, _, _, _ string, payload any) error {
			w.mu.Lock()
			defer w.mu.Unlock()
			response := payload.(scheduling.SlotResponse)
			if fails(response) {
				return errGone
			}
			w.responses = append(w.responses, response)
			return nil
		}).Maybe()
}

// At any time some owner has just closed when its response is sent.
func TestAResponseIsSentAgainThoughOthersFailAllTheTime(t *testing.T) {
	w := bareSchedulerWorld(t)
	tried := 0
	w.responsesFail(func(response scheduling.SlotResponse) bool {
		if response.Owner.WorkflowID != "june" {
			return true
		}
		tried++
		return tried == 1
	})
	w.RegisterDelayedCallback(func() { w.seeAll(); w.request("june", slotFor("a", 1)) }, time.Minute)
	for i := range 30 {
		w.simulateAfter(time.Minute+time.Duration(i+1)*checkOwnersEvery/3, func() { w.request(fmt.Sprintf("ghost-%d", i), slotFor("b", 1)) })
	}
	w.RegisterDelayedCallback(func() { require.Equal(t, []string{"june a"}, w.grants()) }, time.Minute+3*checkOwnersEvery)
	w.after(func() {}, func() {}, func() {}, func() {})
	w.carried()
}

func TestAClusterIsWatchedOnlyWhileSomebodyAsksAndForAWhileAfter(t *testing.T) {
	w := newSchedulerWorld(t)
	watching := func() bool { return statusOf[MaintenanceSchedulerStatus](w.world).Watching }
	w.after(
		func() { require.False(t, watching()) },
		func() { w.request("june", slotFor("a", 1)); w.seeAll() },
		func() { require.True(t, watching()); w.release("june", 1) },
		func() { require.True(t, watching()) },
		func() {}, func() {}, func() {}, func() {},
		func() { require.False(t, watching()); w.request("june", slotFor("b", 2)) },
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
	w.after(func() { w.request("june", slotFor("a", 1)) }, func() {
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
		func() { w.request("june", slotFor("a", 1)) },
		func() {
			require.Equal(t, temporal.ErrClusterUnreachable, statusOf[MaintenanceSchedulerStatus](w.world).Wait.Reason)
			require.Equal(t, temporal.ErrClusterUnreachable, w.responses[len(w.responses)-1].Wait.Reason)
		},
		func() {}, func() {}, func() { w.seeAll() },
		func() { require.Equal(t, []string{"june a"}, w.grants()) },
	)
	w.carried()
}
