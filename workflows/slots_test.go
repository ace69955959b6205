package workflows

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/workflow"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	"drydock.dev/drydock/internal/scheduling"
	"drydock.dev/drydock/internal/temporal"
)

// keeping runs a workflow that only keeps slots: one step a minute.
func keeping(w *world, steps ...func(*slotKeeper)) {
	w.ExecuteWorkflow(func(ctx workflow.Context, _ string) error {
		k := newSlotKeeper(ctx, "c1")
		k.listen(ctx, func() {})
		workflow.GoNamed(ctx, "slots", k.run)
		for _, step := range steps {
			step(k)
			if err := workflow.Sleep(ctx, time.Minute); err != nil {
				return err
			}
		}
		return nil
	}, "")
	require.True(w.t, w.IsWorkflowCompleted())
	require.NoError(w.t, w.GetWorkflowError())
}

func (k *slotKeeper) askFor(node string) {
	slot := slotFor(node, 1)
	k.ask(slot.Request, slot.Maintenance, slot.Since)
}

func TestAGrantThatIsNotWantedAnyMoreIsGivenBack(t *testing.T) {
	w := newWorld(t)
	w.RegisterDelayedCallback(func() {
		require.True(t, w.book.Empty())
		w.callScheduler(w.schedulerCalls[0]) // an attempt that everybody took for lost
	}, 90*time.Second)
	keeping(w,
		func(k *slotKeeper) { k.askFor("a") },
		func(k *slotKeeper) {
			require.False(t, k.waits())
			k.release(scheduling.Release{Namespace: "ops", Name: "a"})
		},
		func(*slotKeeper) { require.True(t, w.book.Empty(), "nobody has the slot") },
	)
}

func TestASchedulerThatCallsTheRollIsToldEverySlot(t *testing.T) {
	w := newWorld(t)
	w.RegisterDelayedCallback(func() {
		w.book = scheduling.Book{}
		w.SignalWorkflow(temporal.SignalRollCall, scheduling.RollCall{Scheduler: time.Unix(2, 0)})
	}, 100*time.Second)
	keeping(w,
		func(k *slotKeeper) { k.askFor("a"); k.askFor("b") },
		func(*slotKeeper) {},
		func(*slotKeeper) {
			last := w.schedulerCalls[len(w.schedulerCalls)-1]
			require.True(t, last.All)
			require.Len(t, last.Slots, 2)
			require.True(t, last.Slots[0].Granted)
			require.False(t, last.Slots[1].Granted)
			require.Len(t, w.inputsOf("CallScheduler"), len(w.schedulerCalls)-1, "whoever calls runs, and is told by a signal")
		},
	)
}

func TestWhatASchedulerHasSaidThatIsGoneCountsNoMore(t *testing.T) {
	w := newWorld(t)
	w.slots = 0
	gone, now := time.Unix(2, 0), time.Unix(3, 0)
	var me scheduling.Asker
	say := func(scheduler time.Time, number int64, reason string, grants ...scheduling.Grant) {
		w.SignalWorkflow(temporal.SignalTurn, scheduling.Turn{
			Asker: me, Scheduler: scheduler, Number: number, Granted: grants, Wait: &drydockv1.Wait{Reason: reason},
		})
	}
	w.RegisterDelayedCallback(func() { say(gone, 7, "Old") }, 70*time.Second)
	w.RegisterDelayedCallback(func() { say(now, 1, "New") }, 80*time.Second)
	w.RegisterDelayedCallback(func() {
		say(gone, 8, "Old", scheduling.Grant{Namespace: "ops", Name: "a", Number: 1})
	}, 90*time.Second)
	keeping(w,
		func(k *slotKeeper) { me = k.asker; k.askFor("a") },
		func(*slotKeeper) {},
		func(k *slotKeeper) {
			require.Equal(t, "New", k.wait.Reason, "its messages are counted anew")
			require.True(t, k.waits(), "another may have the slot by now")
		},
	)
}

func TestASlotThatOthersGaveBackIsToldWithTheNextMessage(t *testing.T) {
	w := newWorld(t)
	keeping(w,
		func(k *slotKeeper) { k.askFor("a") },
		func(k *slotKeeper) {
			w.callScheduler(k.handOut("ops", "a").Return(false))
			require.True(t, w.book.Empty())
			k.returned(scheduling.Release{Namespace: "ops", Name: "a"})
		},
		func(k *slotKeeper) {
			require.Len(t, w.schedulerCalls, 2, "it knows already")
			k.askFor("b")
		},
	)
	require.Len(t, w.schedulerCalls, 3)
	require.Equal(t, []scheduling.Release{{Namespace: "ops", Name: "a", Number: 1}}, w.schedulerCalls[2].Released)
}

func TestASchedulerThatMayHaveMissedThatASlotWasGivenBackIsToldAtOnce(t *testing.T) {
	w := newWorld(t)
	begins := func(at int64) func(*slotKeeper) {
		return func(*slotKeeper) {
			w.book = scheduling.Book{}
			w.SignalWorkflow(temporal.SignalRollCall, scheduling.RollCall{Scheduler: time.Unix(at, 0)})
		}
	}
	keeping(w,
		begins(1),
		func(k *slotKeeper) { k.askFor("a") },
		begins(2),
		func(k *slotKeeper) {
			require.False(t, w.book.Empty(), "it was told that the slot is held")
			k.returned(scheduling.Release{Namespace: "ops", Name: "a"}) // what the maintenance said, the one before has heard
		},
		func(*slotKeeper) { require.True(t, w.book.Empty()) },
	)
}

func TestASlotIsGivenBackAtOnceThatTheSchedulerWasToldToBeHeldWhileOthersGaveItBack(t *testing.T) {
	w := newWorld(t)
	var keeper *slotKeeper
	w.RegisterDelayedCallback(func() { require.False(t, keeper.waits(), "b has the slot") }, 65*time.Second)
	keeping(w,
		func(k *slotKeeper) { keeper = k; k.askFor("a"); k.askFor("b") },
		func(k *slotKeeper) {
			last := w.schedulerCalls[len(w.schedulerCalls)-1]
			require.True(t, last.All && last.Slots[0].Granted, "b is asked for once more, and a accounted for")
			k.returned(scheduling.Release{Namespace: "ops", Name: "a"}) // whoever worked on it has said so before
		},
	)
}

func TestWhoeverWaitsForASlotAsksAgainSoonAndThenLessAndLessOften(t *testing.T) {
	w := newWorld(t)
	w.slots = 0
	var asked []int
	steps := []func(*slotKeeper){func(k *slotKeeper) { k.askFor("a") }}
	for range 20 {
		steps = append(steps, func(*slotKeeper) { asked = append(asked, len(w.inputsOf("CallScheduler"))) })
	}
	keeping(w, steps...)
	require.Equal(t, []int{2, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 5, 5, 5, 5, 6, 6, 6, 6, 6}, asked, "after every minute: after 30 s, 90 s, 210 s, 450 s, 930 s")
}
