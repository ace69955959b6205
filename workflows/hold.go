package workflows

import (
	"maps"
	"time"

	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/activities"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	"drydock.dev/drydock/internal/emergency"
	"drydock.dev/drydock/internal/temporal"
)

// holdKeeper keeps what a workflow knows of the emergency stop, and of the maintenance windows that it names. It follows them, or is told by its parent.
type holdKeeper struct {
	ctx workflow.Context
	// state is what the emergency stop says, or the parent, of both.
	state   emergency.State
	windows windowKeeper
	// begun: the workflow is at work, and a window that has closed may let it finish.
	begun bool
	// subscription, in a workflow that follows the emergency stop by itself: until it has been told what is held, it disrupts nothing.
	subscription *temporal.Subscription
	// stopAsking ends the question.
	stopAsking workflow.CancelFunc
	// trouble is why it could not ask.
	trouble string
}

// listen takes in what is held, and calls changed when that is news. What was said before what is known counts no more.
func (k *holdKeeper) listen(ctx workflow.Context, changed func()) {
	k.ctx = ctx
	onSignal(ctx, temporal.SignalHeld, "What is held by the emergency stop.", func(state emergency.State) {
		if state.Number > k.state.Number {
			k.state = state
			changed()
		}
	})
}

// follow asks to be told what is held in a cluster, or in all: the empty name. Nobody waits for that until something is to be disrupted. What
// an earlier run has asked for holds for this one, too. activities.Holds.FindFollowers must know every type of workflow that does this.
func (k *holdKeeper) follow(ctx workflow.Context, cluster string) {
	info := workflow.GetInfo(ctx)
	k.subscription = &temporal.Subscription{WorkflowID: info.WorkflowExecution.ID, FirstRunID: info.FirstRunID, Cluster: cluster}
	if k.known() {
		return
	}
	asking, stop := workflow.WithCancel(ctx)
	k.stopAsking = stop
	workflow.GoNamed(asking, "follow holds", func(ctx workflow.Context) {
		insist := insistence{taskQueue: temporal.TaskQueue, waiting: func(_ workflow.Context, _, message string) { k.trouble = message }}
		var hub *activities.Holds
		// It is tried until the workflow is cancelled, and disrupts nothing any more.
		_ = insist.effect(ctx, "ask what is held", hub.FollowHolds, *k.subscription, nil)
	})
}

// leave says that nothing more needs to be told. If nobody hears it: a workflow that is gone is forgotten when it is told something.
func (k *holdKeeper) leave(ctx workflow.Context) {
	k.windows.leave(ctx)
	if k.stopAsking != nil {
		k.stopAsking() // the answer may have come from an attempt of which nobody knows that it has ended
	}
	if k.subscription != nil {
		_ = workflow.SignalExternalWorkflow(ctx, temporal.EmergencyStopID, "", temporal.SignalLeaveHolds, *k.subscription).Get(ctx, nil)
	}
}

// aside is a copy for queries to ask: what they made the keeper remember, a replay would not, and commands depend on it.
func (k *holdKeeper) aside() *holdKeeper {
	aside := *k
	aside.windows.answers = maps.Clone(k.windows.answers)
	return &aside
}

// of is what keeps anything new from being started in a cluster; nil: nothing does.
func (k *holdKeeper) of(cluster string) *drydockv1.Hold { return k.unlessFits(cluster, 0) }

// ofAny is what keeps anything new from being started in one of several clusters; nil: nothing does.
func (k *holdKeeper) ofAny(clusters ...string) *drydockv1.Hold {
	for _, cluster := range clusters {
		if hold := k.of(cluster); hold != nil {
			return hold
		}
	}
	return nil
}

// unlessFits is what keeps something new that takes that long from being started in a cluster; nil: nothing does.
func (k *holdKeeper) unlessFits(cluster string, need time.Duration) *drydockv1.Hold {
	hold := k.current().Of(cluster)
	if hold == nil {
		hold = k.windows.hold(cluster, need)
	}
	if hold != nil && k.begun && hold.LetsFinish() {
		return nil
	}
	return hold
}

// current is what is held by the clock: it need not have been told.
func (k *holdKeeper) current() emergency.State {
	if k.state.Closes == nil {
		return k.state
	}
	return k.state.At(workflow.Now(k.ctx))
}

// shut is the maintenance window, the workflow's own or its parent's, that keeps anything new from being started in a cluster, whatever the emergency stop
// holds; nil: none does.
func (k *holdKeeper) shut(cluster string) *drydockv1.Hold {
	if hold := k.windows.hold(cluster, 0); hold != nil {
		return hold
	}
	return k.current().Closed(cluster)
}

// closes is from when on windows keep anything new from being started in a cluster, or what has begun from going on; nil: no such time is in sight. Whoever begins
// something for the workflow is told: after an outage it may be first, and the workflow not know what the time is.
func (k *holdKeeper) closes(cluster string) *time.Time {
	closing := k.state.Closes
	if closing == nil {
		closing = k.windows.closes(cluster)
	}
	switch {
	case closing == nil, k.begun && closing.StopsAt.IsZero():
		return nil
	case k.begun:
		return &closing.StopsAt
	}
	return &closing.At
}

// closesFirst is the earliest such time of several clusters.
func (k *holdKeeper) closesFirst(clusters []string) (first *time.Time) {
	if !k.windows.selective() && len(clusters) > 1 {
		clusters = clusters[:1] // it is the same for all
	}
	for _, cluster := range clusters {
		if closes := k.closes(cluster); closes != nil && (first == nil || closes.Before(*first)) {
			first = closes
		}
	}
	return first
}

// all is what keeps anything new from being started in any cluster; nil: nothing does.
func (k *holdKeeper) all() *drydockv1.Hold {
	if all := k.state.All(); all != nil {
		return all
	}
	return k.windows.hold("", 0)
}

// any reports whether there may be a hold.
func (k *holdKeeper) any() bool { return len(k.state.Holds) > 0 || len(k.windows.names) > 0 }

// number grows with everything that is told.
func (k *holdKeeper) number() int64 { return k.state.Number + k.windows.version }

// about is all that concerns one cluster.
func (k *holdKeeper) about(cluster string) emergency.State {
	about := k.state.About(cluster)
	about.Number = k.number()
	if hold := k.windows.hold(cluster, 0); hold != nil {
		about.Holds = append(about.Holds, *hold)
	}
	about.Closes = k.windows.closes(cluster)
	return about
}

// known reports whether it is known what is held.
func (k *holdKeeper) known() bool { return k.subscription == nil || k.state.Number > 0 }

// awaitKnown waits until it is known what is held. Waiting is told why that is not known yet, and an empty reason once it is.
func (k *holdKeeper) awaitKnown(ctx workflow.Context, waiting func(ctx workflow.Context, reason, message string)) error {
	if k.known() {
		return nil
	}
	for !k.known() {
		trouble, message := k.trouble, "waiting to be told what is held (workflow "+temporal.EmergencyStopID+")"
		if trouble != "" {
			message += ": " + trouble
		}
		waiting(ctx, emergency.ReasonUnknown, message)
		if err := workflow.Await(ctx, func() bool { return k.known() || k.trouble != trouble }); err != nil {
			return err
		}
	}
	waiting(ctx, "", "")
	return nil
}

// awaitRelease waits until it is known that a cluster is not held. It stands before every step that disrupts something new.
func (k *holdKeeper) awaitRelease(ctx workflow.Context, cluster string, reason reasonKeeper) error {
	if err := k.awaitKnown(ctx, reason.set); err != nil {
		return err
	}
	for hold := k.of(cluster); hold != nil; hold = k.of(cluster) {
		reason.hold(ctx, *hold)
		number := k.number()
		if err := workflow.Await(ctx, func() bool { return k.number() != number }); err != nil {
			return err
		}
		if k.of(cluster) == nil {
			reason.set(ctx, "", "")
		}
	}
	return nil
}

// passOn tells a child of every change that concerns it, in order, until it is over. Told is what it was started with.
func (k *holdKeeper) passOn(ctx workflow.Context, about func() emergency.State, told emergency.State, child workflow.ChildWorkflowFuture, over func() bool) {
	seen := told.Number
	for {
		_ = workflow.Await(ctx, func() bool { return over() || k.number() != seen })
		if over() || ctx.Err() != nil {
			return
		}
		seen = k.number()
		if state := about(); !state.Same(told) {
			told = state
			// A child that is over meanwhile needs not be told: nothing to do about an error.
			_ = child.SignalChildWorkflow(ctx, temporal.SignalHeld, state).Get(ctx, nil)
		}
	}
}

// held adds the emergency stop to current details.
func (d *details) held(h *drydockv1.Hold) {
	if h != nil {
		d.row("**"+emergency.Reason(*h)+"**", h.String())
	}
}
