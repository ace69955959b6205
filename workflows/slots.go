package workflows

import (
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/drydock/activities"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	"drydock.dev/drydock/internal/scheduling"
	"drydock.dev/drydock/internal/temporal"
)

// A workflow that waits for a slot tells the scheduler so once more after askAgainFirst, then after twice as long, and so on up to askAgainAtMost:
// somebody may have terminated that, and it remembers nothing then. A request that waits for months does not fill its history so. It need not be sooner:
// the sweeper looks after the scheduler, every ten minutes at least, and the scheduler tells again whomever it did not reach.
const askAgainFirst, askAgainAtMost = 30 * time.Second, time.Hour

// slotKeeper asks the scheduler of a cluster for slots, and knows which its workflow has.
type slotKeeper struct {
	cluster string
	asker   scheduling.Asker
	// trouble is why the scheduler cannot be asked.
	trouble *drydockv1.Wait
	// changed is told that there is something new.
	changed func()

	// slots that were asked for and not released, in that order. number is that of the last.
	slots  []scheduling.Slot
	number int64
	// gone are slots that were asked for nodes that the cluster does not have.
	gone []scheduling.Slot
	// wait is why the first that was not granted waits; turn is the number of the message that said so. scheduler is when the one began that was
	// heard last.
	wait *drydockv1.Wait
	// holder has the node of that one, if that is why it waits.
	holder *scheduling.Asker
	// held are nodes that are waited for, and the maintenances that have them.
	held      []scheduling.HeldNode
	turn      int64
	scheduler time.Time

	// unsaid is what the scheduler was not told yet. everything: it wants to be told all. reached: it was running when it was told last.
	// telling: it is being told something.
	unsaid                       scheduling.Call
	everything, reached, telling bool
	// returns are what others have told it, to be said once more when there is something to say. doubted is the number of the last slot that it was told
	// to be held: it may have heard before that it was given back, or not at all if it began later than that.
	returns []scheduling.Release
	doubted int64
	// again is when the scheduler is told everything again, if somebody waits then; nil: that is not set. againAfter is how long that was put off last.
	again      workflow.Future
	againAfter time.Duration
}

func newSlotKeeper(ctx workflow.Context, cluster string) *slotKeeper {
	info := workflow.GetInfo(ctx)
	asker := scheduling.Asker{WorkflowID: info.WorkflowExecution.ID, FirstRunID: info.FirstRunID}
	return &slotKeeper{cluster: cluster, asker: asker}
}

// listen takes in what the scheduler grants, and that it wants to be told everything.
func (k *slotKeeper) listen(ctx workflow.Context, changed func()) {
	k.changed = changed
	onSignal(ctx, temporal.SignalTurn, "Which slots are granted, and why the others are not.", func(turn scheduling.Turn) {
		if turn.Asker != k.asker || !k.hear(turn.Scheduler) {
			return // it is for one that had this id before, or what is left of a scheduler that is gone
		}
		for _, grant := range turn.Granted {
			k.take(grant)
		}
		for _, over := range turn.Gone {
			k.miss(over)
		}
		if turn.Number > k.turn {
			k.turn, k.wait, k.holder, k.held = turn.Number, turn.Wait, turn.Holder, turn.Held
		}
		changed()
	})
	onSignal(ctx, temporal.SignalRollCall, "The scheduler wants to be told all slots.", func(call scheduling.RollCall) {
		if k.hear(call.Scheduler) {
			k.everything, k.reached = true, true
			changed()
		}
	})
}

// hear reports whether what the scheduler says that began then counts: it is the one that was heard last, or a later one.
func (k *slotKeeper) hear(scheduler time.Time) bool {
	if scheduler.After(k.scheduler) {
		if !k.scheduler.IsZero() {
			k.doubted = k.number
		}
		k.scheduler, k.turn = scheduler, 0
	}
	return scheduler.Equal(k.scheduler)
}

// take takes a grant. One that is not asked for any more is given back: a message that was late has made the scheduler think so.
func (k *slotKeeper) take(grant scheduling.Grant) {
	if slot := k.find(grant.Namespace, grant.Name); slot != nil && slot.Number == grant.Number {
		slot.Granted = true
		return
	}
	k.unsaid.Released = append(k.unsaid.Released, scheduling.Release{Namespace: grant.Namespace, Name: grant.Name, Number: grant.Number})
}

// miss takes in that the node of a request is gone.
func (k *slotKeeper) miss(over scheduling.Grant) {
	if slot := k.find(over.Namespace, over.Name); slot != nil && slot.Number == over.Number && !slot.Granted {
		k.gone = append(k.gone, *slot)
		k.forget(over.Namespace, over.Name)
	}
}

// takeGone returns, once, the slots that were asked for nodes that the cluster does not have.
func (k *slotKeeper) takeGone() []scheduling.Slot {
	gone := k.gone
	k.gone = nil
	return gone
}

func (k *slotKeeper) find(namespace, name string) *scheduling.Slot {
	i := slices.IndexFunc(k.slots, func(s scheduling.Slot) bool { return s.Namespace == namespace && s.Name == name })
	if i < 0 {
		return nil
	}
	return &k.slots[i]
}

// ask asks for a slot; nothing new is asked while it is asked for or granted. It returns the slot.
func (k *slotKeeper) ask(request scheduling.Request, maintenance string, since time.Time) scheduling.Slot {
	if known := k.find(request.Namespace, request.Name); known != nil {
		return *known
	}
	k.number++
	slot := scheduling.Slot{Request: request, Maintenance: maintenance, Number: k.number, Since: since}
	k.slots = append(k.slots, slot)
	k.unsaid.Slots = append(k.unsaid.Slots, slot)
	return slot
}

// release gives a slot back, or takes the request back.
func (k *slotKeeper) release(release scheduling.Release) {
	slot := k.find(release.Namespace, release.Name)
	if slot == nil {
		return
	}
	release.Number = slot.Number
	k.forget(release.Namespace, release.Name)
	k.unsaid.Slots = slices.DeleteFunc(k.unsaid.Slots, func(s scheduling.Slot) bool {
		return s.Namespace == release.Namespace && s.Name == release.Name
	})
	k.unsaid.Released = append(k.unsaid.Released, release)
}

// handOut names a slot to the one who gives it back.
func (k *slotKeeper) handOut(namespace, name string) *scheduling.HeldSlot {
	slot := k.find(namespace, name)
	if slot == nil {
		return nil
	}
	return &scheduling.HeldSlot{Asker: k.asker, Namespace: namespace, Name: name, Number: slot.Number}
}

// returned takes in that a slot was given back by the one who was told of it. The scheduler need not be told at once, unless it may have missed that.
func (k *slotKeeper) returned(release scheduling.Release) {
	slot := k.find(release.Namespace, release.Name)
	switch {
	case slot == nil:
		return
	case slot.Number <= k.doubted || len(k.returns) >= returnsAtOnce:
		k.release(release)
		return
	}
	release.Number = slot.Number
	k.forget(release.Namespace, release.Name)
	k.returns = append(k.returns, release)
}

// returnsAtOnce is how many slots that others have given back are told the scheduler in one message.
const returnsAtOnce = 200

// forget drops a slot. When none is waited for any more, there is no reason to wait either.
func (k *slotKeeper) forget(namespace, name string) {
	k.slots = slices.DeleteFunc(k.slots, func(s scheduling.Slot) bool { return s.Namespace == namespace && s.Name == name })
	if !k.waits() {
		k.wait, k.holder, k.held = nil, nil, nil
	}
}

// granted reports whether it has that slot.
func (k *slotKeeper) granted(namespace, name string) bool {
	slot := k.find(namespace, name)
	return slot != nil && slot.Granted
}

// waits reports whether a slot was asked for and not granted.
func (k *slotKeeper) waits() bool {
	return slices.ContainsFunc(k.slots, func(s scheduling.Slot) bool { return !s.Granted })
}

// run tells the scheduler what it has to know, one message after the other, until ctx is cancelled.
func (k *slotKeeper) run(ctx workflow.Context) {
	for {
		if err := k.awaitNews(ctx); err != nil {
			return
		}
		call := scheduling.Call{Asker: k.asker, Slots: k.unsaid.Slots, Released: append(k.unsaid.Released, k.returns...)}
		if k.everything {
			k.account(&call)
		}
		k.unsaid, k.returns, k.everything, k.telling = scheduling.Call{}, nil, false, true
		k.tell(ctx, call)
		k.telling = false
	}
}

// awaitNews waits for something that the scheduler does not know, or for the time to tell it everything again.
func (k *slotKeeper) awaitNews(ctx workflow.Context) error {
	for {
		err := workflow.Await(ctx, func() bool {
			return k.news() || k.waits() && k.again == nil || k.again != nil && k.again.IsReady()
		})
		switch {
		case err != nil || k.news():
			return err
		case k.again == nil:
			// It goes on when the wait is over: another often begins, and to stop it costs as much.
			k.againAfter = min(max(2*k.againAfter, askAgainFirst), askAgainAtMost)
			k.again = workflow.NewTimerWithOptions(ctx, k.againAfter, workflow.TimerOptions{Summary: "ask for a slot again"})
			continue
		}
		k.again = nil
		if k.waits() {
			k.reached = false
			return nil
		}
		k.againAfter = 0
	}
}

func (k *slotKeeper) news() bool {
	return k.everything || len(k.unsaid.Slots)+len(k.unsaid.Released) > 0
}

// tell tells a scheduler that runs only what is new. One that does not is started, and told everything.
func (k *slotKeeper) tell(ctx workflow.Context, call scheduling.Call) {
	if k.reached {
		told := workflow.SignalExternalWorkflow(ctx, temporal.MaintenanceSchedulerID(k.cluster), "", temporal.SignalCall, call)
		if told.Get(ctx, nil) == nil {
			return
		}
	}
	k.account(&call)
	k.unsaid.Slots = nil
	hub := insistence{taskQueue: temporal.TaskQueue, waiting: k.explain}
	var scheduler *activities.Scheduler
	in := activities.CallSchedulerInput{Cluster: k.cluster, Call: call}
	k.reached = hub.effect(ctx, "ask the scheduler of "+k.cluster, scheduler.CallScheduler, in, nil) == nil
}

// account makes a call one of everything. Of the slots that it has by its own account some may be given back already.
func (k *slotKeeper) account(call *scheduling.Call) {
	call.Slots, call.All = slices.Clone(k.slots), true
	for _, slot := range k.slots {
		if slot.Granted {
			k.doubted = max(k.doubted, slot.Number)
		}
	}
}

func (k *slotKeeper) explain(ctx workflow.Context, reason, message string) {
	k.trouble = nil
	if reason != "" {
		k.trouble = &drydockv1.Wait{Reason: reason, Message: message, Since: metav1.NewTime(workflow.Now(ctx))}
	}
	k.changed()
}

// settle waits until the scheduler knows everything.
func (k *slotKeeper) settle(ctx workflow.Context) error {
	return workflow.Await(ctx, func() bool { return !k.news() && !k.telling })
}
