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

// owning runs a workflow that only owns slots: one step a minute.
func owning(w *world, steps ...func(*slotClient)) {
	w.ExecuteWorkflow(func(ctx workflow.Context, _ string) error {
		c := newSlotClient(ctx, "c1", "ops", "june")
		c.listen(ctx, func() {})
		workflow.GoNamed(ctx, "slots", c.run)
		for _, step := range steps {
			step(c)
			if err := workflow.Sleep(ctx, time.Minute); err != nil {
				return err
			}
		}
		return nil
	}, "")
	require.True(w.t, w.IsWorkflowCompleted())
	require.NoError(w.t, w.GetWorkflowError())
}

func (c *slotClient) requestFor(node string) { c.request(node, node, time.Unix(1, 0)) }

// schedulerStarts replaces the scheduler by one without state, which asks for all sets.
func (w *world) schedulerStarts(at int64) {
	w.scheduler.state, w.scheduler.startedAt = scheduling.SlotState{}, time.Unix(at, 0).UTC()
	w.SignalWorkflow(temporal.SignalResync, scheduling.Resync{Scheduler: w.scheduler.startedAt})
}

func TestEverySetListsAllRequestsAndSlots(t *testing.T) {
	w := newWorld(t)
	owning(w,
		func(c *slotClient) { c.requestFor("a"); c.requestFor("b") },
		func(c *slotClient) { c.requestFor("c") },
		func(c *slotClient) {
			require.True(t, c.granted("a"))
			require.True(t, c.waits())
			set := w.scheduler.lastSet()
			require.Len(t, set.Slots, 3)
			require.True(t, set.Slots[0].Granted)
			require.Len(t, w.inputsOf("RequestSlots"), 1, "a scheduler that has answered gets signals")
			c.release("a", scheduling.Release{LeftOut: true})
		},
		func(*slotClient) {
			require.Len(t, w.scheduler.lastSet().Slots, 2)
			require.Equal(t, []scheduling.Release{{Number: 1, LeftOut: true}}, w.scheduler.lastSet().Releases)
		},
		func(c *slotClient) { c.release("b", scheduling.Release{}) },
		func(*slotClient) { require.Empty(t, w.scheduler.lastSet().Releases, "it was delivered") },
	)
}

func TestAGrantThatIsNotRequestedAnyMoreIsReleased(t *testing.T) {
	w := newWorld(t)
	w.RegisterDelayedCallback(func() {
		require.True(t, w.scheduler.state.Empty())
		late := w.scheduler.sets[0]
		late.Version = w.scheduler.lastSet().Version // an attempt that was delayed
		w.requestSlots(late)
	}, 90*time.Second)
	owning(w,
		func(c *slotClient) { c.requestFor("a") },
		func(c *slotClient) {
			require.False(t, c.waits())
			c.release("a", scheduling.Release{})
		},
		func(*slotClient) { require.True(t, w.scheduler.state.Empty(), "the slot is free") },
	)
}

func TestASchedulerThatStartsWithoutStateGetsEverySlot(t *testing.T) {
	w := newWorld(t)
	w.RegisterDelayedCallback(func() { w.schedulerStarts(2) }, 100*time.Second)
	owning(w,
		func(c *slotClient) { c.requestFor("a"); c.requestFor("b") },
		func(*slotClient) {},
		func(*slotClient) {
			last := w.scheduler.lastSet()
			require.Len(t, last.Slots, 2)
			require.True(t, last.Slots[0].Granted)
			require.False(t, last.Slots[1].Granted)
			require.Len(t, w.inputsOf("RequestSlots"), 1, "it is running, and gets a signal")
		},
	)
}

func TestResponsesOfASchedulerThatWasTerminatedDoNotCount(t *testing.T) {
	w := newWorld(t)
	w.scheduler.capacity = 0
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
		func(c *slotClient) { me = c.owner; c.requestFor("a") },
		func(*slotClient) {},
		func(c *slotClient) {
			require.Equal(t, "New", c.wait.Reason)
			require.True(t, c.waits(), "another owner may have the slot by now")
		},
	)
}

func TestASlotThatItsMaintenanceHasReturnedLeavesWithTheNextSet(t *testing.T) {
	w := newWorld(t)
	owning(w,
		func(c *slotClient) { c.requestFor("a") },
		func(c *slotClient) {
			w.returnSlot(c.held("a").Return(false))
			require.True(t, w.scheduler.state.Empty())
			c.returned("a")
		},
		func(c *slotClient) {
			require.Len(t, w.scheduler.sets, 1, "the scheduler knows already")
			c.requestFor("b")
		},
		func(*slotClient) {},
	)
	require.Len(t, w.scheduler.sets, 2)
	require.Equal(t, "b", w.scheduler.lastSet().Slots[0].Name)
	require.Len(t, w.scheduler.lastSet().Slots, 1)
}

func TestASchedulerThatMayHaveMissedTheReturnOfASlotGetsTheSetAtOnce(t *testing.T) {
	w := newWorld(t)
	owning(w,
		func(c *slotClient) { c.requestFor("a") },
		func(*slotClient) { w.schedulerStarts(2) },
		func(c *slotClient) {
			require.False(t, w.scheduler.state.Empty(), "the set has listed the slot")
			c.returned("a") // to the scheduler before
		},
		func(*slotClient) { require.True(t, w.scheduler.state.Empty()) },
	)
}

func TestAnOwnerThatWaitsSendsItsRequestsAgainSoonAndThenLessAndLessOften(t *testing.T) {
	w := newWorld(t)
	w.scheduler.capacity = 0
	var sent []int
	steps := []func(*slotClient){func(c *slotClient) { c.requestFor("a") }}
	for range 20 {
		steps = append(steps, func(*slotClient) { sent = append(sent, len(w.scheduler.sets)) })
	}
	owning(w, steps...)
	require.Equal(t, []int{2, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 5, 5, 5, 5, 6, 6, 6, 6, 6}, sent, "after every minute: after 30 s, 90 s, 210 s, 450 s, 930 s")
}
