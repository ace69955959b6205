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

// holdKeeper is what a workflow knows of the emergency stop and of the maintenance windows that it names. The workflow subscribes to them, or its parent
// passes them on.
type holdKeeper struct {
	ctx workflow.Context
	// state is the state of the emergency stop, or what the parent passes on of both.
	state   emergency.State
	windows windowKeeper
	// begun: the workflow has started its work, and a window that closes may let it finish.
	begun bool
	// subscription is set in a workflow that subscribes to the emergency stop itself. It disrupts nothing until it knows what is held.
	subscription *temporal.Subscription
	// stopAsking cancels the subscribing activity.
	stopAsking workflow.CancelFunc
	// trouble is why subscribing failed.
	trouble string
}

// listen handles the signals with the state of the emergency stop and calls changed for each newer state. An older state is ignored.
func (k *holdKeeper) listen(ctx workflow.Context, changed func()) {
	k.ctx = ctx
	onSignal(ctx, temporal.SignalHeld, "The state of the emergency stop.", func(state emergency.State) {
		if state.Number > k.state.Number {
			k.state = state
			changed()
		}
	})
}

// follow subscribes to what is held in a cluster, or in all clusters for the empty name, in the background: only a step that disrupts something waits for
// the answer. A subscription of an earlier run is still valid. activities.Holds.FindFollowers must list every workflow type that calls this.
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
		// The only error is that the workflow is cancelled, and then it disrupts nothing.
		_ = insist.effect(ctx, "ask what is held", hub.FollowHolds, *k.subscription, nil)
	})
}

// leave ends the subscriptions. A lost message does no harm: a workflow that is gone is removed when a notification to it fails.
func (k *holdKeeper) leave(ctx workflow.Context) {
	k.windows.leave(ctx)
	if k.stopAsking != nil {
		k.stopAsking() // the answer may have come while the activity is still retried
	}
	if k.subscription != nil {
		_ = workflow.SignalExternalWorkflow(ctx, temporal.EmergencyStopID, "", temporal.SignalLeaveHolds, *k.subscription).Get(ctx, nil)
	}
}

// aside returns a copy for queries. A query must not change the remembered answers: a replay would not have them, and commands depend on them.
func (k *holdKeeper) aside() *holdKeeper {
	aside := *k
	aside.windows.answers = maps.Clone(k.windows.answers)
	return &aside
}

// of returns what prevents new work in a cluster; nil: nothing.
func (k *holdKeeper) of(cluster string) *drydockv1.Hold { return k.unlessFits(cluster, 0) }

// ofAny returns what prevents new work in one of several clusters; nil: nothing.
func (k *holdKeeper) ofAny(clusters ...string) *drydockv1.Hold {
	for _, cluster := range clusters {
		if hold := k.of(cluster); hold != nil {
			return hold
		}
	}
	return nil
}

// unlessFits returns what prevents new work that takes that long in a cluster; nil: nothing.
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

// current returns the state at this time: a window that the parent announced may have closed since.
func (k *holdKeeper) current() emergency.State {
	if k.state.Closes == nil {
		return k.state
	}
	return k.state.At(workflow.Now(k.ctx))
}

// shut returns the closed maintenance window, the workflow's own or its parent's, that prevents new work in a cluster, apart from the emergency stop; nil:
// none.
func (k *holdKeeper) shut(cluster string) *drydockv1.Hold {
	if hold := k.windows.hold(cluster, 0); hold != nil {
		return hold
	}
	return k.current().Closed(cluster)
}

// closes returns when windows will prevent new work in a cluster, or stop the work that has started; nil: not in sight. Activities get this instant as an
// input: after an outage they may run before the workflow sees that a window has closed.
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

// closesFirst returns the earliest such instant of several clusters.
func (k *holdKeeper) closesFirst(clusters []string) (first *time.Time) {
	if !k.windows.selective() && len(clusters) > 1 {
		clusters = clusters[:1] // windows without selectors are the same for all clusters
	}
	for _, cluster := range clusters {
		if closes := k.closes(cluster); closes != nil && (first == nil || closes.Before(*first)) {
			first = closes
		}
	}
	return first
}

// all returns what prevents new work in every cluster; nil: nothing.
func (k *holdKeeper) all() *drydockv1.Hold {
	if all := k.state.All(); all != nil {
		return all
	}
	return k.windows.hold("", 0)
}

// any reports whether a hold is possible.
func (k *holdKeeper) any() bool { return len(k.state.Holds) > 0 || len(k.windows.names) > 0 }

// number grows with every change.
func (k *holdKeeper) number() int64 { return k.state.Number + k.windows.version }

// about returns all that concerns one cluster.
func (k *holdKeeper) about(cluster string) emergency.State {
	about := k.state.About(cluster)
	about.Number = k.number()
	if hold := k.windows.hold(cluster, 0); hold != nil {
		about.Holds = append(about.Holds, *hold)
	}
	about.Closes = k.windows.closes(cluster)
	return about
}

// known reports whether the state of the emergency stop is known.
func (k *holdKeeper) known() bool { return k.subscription == nil || k.state.Number > 0 }

// awaitKnown waits until the state of the emergency stop is known. Waiting receives the reason for the wait, and an empty reason at its end.
func (k *holdKeeper) awaitKnown(ctx workflow.Context, waiting func(ctx workflow.Context, reason, message string)) error {
	if k.known() {
		return nil
	}
	for !k.known() {
		trouble, message := k.trouble, "waiting for the state of the emergency stop (workflow "+temporal.EmergencyStopID+")"
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

// awaitRelease waits until a cluster is known to be not held. It runs before every step that disrupts something new.
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

// passOn signals every change that concerns a child to it, in order, until the child is over. Told is the state that it was started with.
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
			// The error means that the child is over.
			_ = child.SignalChildWorkflow(ctx, temporal.SignalHeld, state).Get(ctx, nil)
		}
	}
}

// held adds a row for a hold.
func (d *details) held(h *drydockv1.Hold) {
	if h != nil {
		d.row("**"+emergency.Reason(*h)+"**", h.String())
	}
}
