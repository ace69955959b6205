package slots_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/workflow"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	"drydock.dev/drydock/internal/scheduling"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/slots"
	"drydock.dev/drydock/workflows/workflowtest"
)

// owning runs a workflow that only owns slots, with one step per minute.
func owning(w *workflowtest.World, steps ...func(*slots.Client)) {
	w.ExecuteWorkflow(func(ctx workflow.Context, _ string) error {
		c := slots.NewClient(ctx, "c1", "ops", "june")
		c.Listen(ctx, func() {})
		workflow.GoNamed(ctx, "slots", c.Run)
		for _, step := range steps {
			step(c)
			if err := workflow.Sleep(ctx, time.Minute); err != nil {
				return err
			}
		}
		return nil
	}, "")
	require.True(w.T, w.IsWorkflowCompleted())
	require.NoError(w.T, w.GetWorkflowError())
}

// requestFor requests a slot for a maintenance with the name of its node.
func requestFor(c *slots.Client, node string) { c.Request(node, node, time.Unix(1, 0)) }

func TestEverySetListsAllRequestsAndSlots(t *testing.T) {
	w := workflowtest.NewWorld(t)
	owning(w,
		func(c *slots.Client) { requestFor(c, "a"); requestFor(c, "b") },
		func(c *slots.Client) { requestFor(c, "c") },
		func(c *slots.Client) {
			require.True(t, c.Granted("a"))
			require.True(t, c.AnyWaiting())
			set := w.Scheduler.LastSet()
			require.Len(t, set.Slots, 3)
			require.True(t, set.Slots[0].Granted)
			require.Len(t, w.InputsOf("RequestSlots"), 1, "a scheduler that has answered gets signals")
			c.Release("a", scheduling.Release{LeftOut: true})
		},
		func(*slots.Client) {
			require.Len(t, w.Scheduler.LastSet().Slots, 2)
		},
		func(c *slots.Client) { c.Release("b", scheduling.Release{}) },
		func(*slots.Client) {
			var sent []scheduling.Release
			for _, set := range w.Scheduler.Sets {
				sent = append(sent, set.Releases...)
			}
			require.Equal(t, []scheduling.Release{{Number: 1, LeftOut: true}}, sent, "once: it was delivered")
		},
	)
}

func TestAGrantForACancelledRequestIsReleased(t *testing.T) {
	w := workflowtest.NewWorld(t)
	w.RegisterDelayedCallback(func() {
		require.True(t, w.Scheduler.State.Empty())
		late := w.Scheduler.Sets[0]
		late.Version = w.Scheduler.LastSet().Version // an attempt that was delayed
		w.RequestSlots(late)
	}, 90*time.Second)
	owning(w,
		func(c *slots.Client) { requestFor(c, "a") },
		func(c *slots.Client) {
			require.False(t, c.AnyWaiting())
			c.Release("a", scheduling.Release{})
		},
		func(*slots.Client) { require.True(t, w.Scheduler.State.Empty(), "the slot is released") },
	)
}

func TestASchedulerThatStartsWithoutStateGetsEverySlot(t *testing.T) {
	w := workflowtest.NewWorld(t)
	w.RegisterDelayedCallback(func() { w.RestartScheduler(2) }, 100*time.Second)
	owning(w,
		func(c *slots.Client) { requestFor(c, "a"); requestFor(c, "b") },
		func(*slots.Client) {},
		func(*slots.Client) {
			last := w.Scheduler.LastSet()
			require.Len(t, last.Slots, 2)
			require.True(t, last.Slots[0].Granted)
			require.False(t, last.Slots[1].Granted)
			require.Len(t, w.InputsOf("RequestSlots"), 1, "it is running, and gets a signal")
		},
	)
}

func TestResponsesOfATerminatedSchedulerAreIgnored(t *testing.T) {
	w := workflowtest.NewWorld(t)
	w.Scheduler.Capacity = 0
	gone, now := time.Unix(2, 0), time.Unix(3, 0)
	var me scheduling.SlotOwner
	respond := func(scheduler time.Time, number int64, reason string, granted ...int64) {
		w.SignalWorkflow(temporal.SignalSlotResponse, scheduling.SlotResponse{
			Owner: me, Scheduler: scheduler, Number: number, Granted: granted, Wait: &drydockv1.Wait{Reason: reason},
		})
	}
	w.RegisterDelayedCallback(func() { respond(gone, 7, "Old") }, 70*time.Second)
	w.RegisterDelayedCallback(func() { respond(now, 2, "New") }, 80*time.Second)
	w.RegisterDelayedCallback(func() { respond(gone, 8, "Old", 1) }, 90*time.Second)
	w.RegisterDelayedCallback(func() { respond(now, 1, "Overtaken", 1) }, 100*time.Second)
	owning(w,
		func(c *slots.Client) { me = c.Owner; requestFor(c, "a") },
		func(*slots.Client) {},
		func(c *slots.Client) {
			require.Equal(t, "New", c.Wait.Reason)
			require.True(t, c.AnyWaiting(), "another owner may have the slot by now")
		},
	)
}

func TestASlotThatItsMaintenanceHasReturnedLeavesWithTheNextSet(t *testing.T) {
	w := workflowtest.NewWorld(t)
	owning(w,
		func(c *slots.Client) { requestFor(c, "a") },
		func(c *slots.Client) {
			w.ReturnSlot(c.Held("a").Return(false))
			require.True(t, w.Scheduler.State.Empty())
			c.MarkReturned("a")
		},
		func(c *slots.Client) {
			require.Len(t, w.Scheduler.Sets, 1, "the scheduler knows already")
			requestFor(c, "b")
		},
		func(*slots.Client) {},
	)
	require.Len(t, w.Scheduler.Sets, 2)
	require.Equal(t, "b", w.Scheduler.LastSet().Slots[0].Name)
	require.Len(t, w.Scheduler.LastSet().Slots, 1)
}

func TestASchedulerThatMayHaveMissedAReturnGetsTheSet(t *testing.T) {
	w := workflowtest.NewWorld(t)
	owning(w,
		func(c *slots.Client) { requestFor(c, "a") },
		func(*slots.Client) { w.RestartScheduler(2) },
		func(c *slots.Client) {
			require.False(t, w.Scheduler.State.Empty(), "the set lists the slot")
			c.MarkReturned("a") // to the previous scheduler
		},
		func(*slots.Client) { require.True(t, w.Scheduler.State.Empty()) },
	)
}

func TestAWaitingOwnerResendsItsRequestsEachHour(t *testing.T) {
	w := workflowtest.NewWorld(t)
	w.Scheduler.Capacity = 0
	var resent []int
	known := 1
	steps := []func(*slots.Client){func(c *slots.Client) { requestFor(c, "a") }}
	for minute := range 130 {
		steps = append(steps, func(*slots.Client) {
			if sent := len(w.Scheduler.Sets); sent > known {
				resent, known = append(resent, minute), sent
			}
		})
	}
	owning(w, steps...)
	require.Equal(t, []int{60, 120}, resent)
}

// A new scheduler grants nothing before all owners have answered it, so that one that is being accepted must answer, too.
func TestALentSetIsSentToASchedulerThatAsks(t *testing.T) {
	w := workflowtest.NewWorld(t)
	w.RegisterDelayedCallback(func() {
		require.Empty(t, w.Scheduler.Sets, "an activity delivers it")
		w.SignalWorkflow(temporal.SignalResync, scheduling.Resync{Scheduler: time.Unix(5, 0)})
	}, 90*time.Second)
	owning(w,
		func(c *slots.Client) {
			requestFor(c, "a")
			c.Lend()
		},
		func(*slots.Client) {},
		func(c *slots.Client) {
			require.Equal(t, "a", w.Scheduler.LastSet().Slots[0].Name)
			require.False(t, c.Settled())
			c.TakeBack(true)
			require.True(t, c.Settled())
		},
	)
}
