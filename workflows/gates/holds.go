// Package gates holds what keeps a workflow from starting new work: the emergency stop and maintenance windows.
package gates

import (
	"maps"
	"time"

	"go.temporal.io/sdk/workflow"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/drydock/activities/holds"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	"drydock.dev/drydock/internal/emergency"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/kit"
)

// Holds is what a workflow knows of the emergency stop and of the maintenance windows that it names. The workflow subscribes to them, or its parent
// passes them on.
type Holds struct {
	ctx workflow.Context
	// State is the state of the emergency stop, or what the parent passes on of both.
	State   emergency.State
	Windows Windows
	// Begun: the workflow has started its work, and a window that closes may let it finish.
	Begun bool
	// subscription is set in a workflow that subscribes to the emergency stop itself. It disrupts nothing until it knows what is held.
	subscription *temporal.Subscription
	// stopAsking cancels the subscribing activity.
	stopAsking workflow.CancelFunc
	// Trouble is why subscribing failed.
	Trouble string
}

// Listen handles the signals with the state of the emergency stop and calls changed for each newer state. An older state is ignored.
func (k *Holds) Listen(ctx workflow.Context, changed func()) {
	k.ctx = ctx
	kit.OnSignal(ctx, temporal.SignalHeld, "The state of the emergency stop.", func(state emergency.State) {
		if state.Number > k.State.Number {
			k.State = state
			changed()
		}
	})
}

// Follow subscribes to what is held in a cluster, or in all clusters for the empty name, in the background: only a step that disrupts something waits for
// the answer. A subscription of an earlier run is still valid. activities.Holds.FindSubscribers must list every workflow type that calls this.
func (k *Holds) Follow(ctx workflow.Context, cluster string) {
	info := workflow.GetInfo(ctx)
	k.subscription = &temporal.Subscription{WorkflowID: info.WorkflowExecution.ID, FirstRunID: info.FirstRunID, Cluster: cluster}
	if k.Known() {
		return
	}
	asking, stop := workflow.WithCancel(ctx)
	k.stopAsking = stop
	workflow.GoNamed(asking, "follow holds", func(ctx workflow.Context) {
		retrier := kit.HubRetrier(func(_ workflow.Context, _, message string) { k.Trouble = message })
		var hub *holds.Activities
		// The only error is that the workflow is cancelled, and then it disrupts nothing.
		_ = retrier.Run(ctx, "ask what is held", hub.SubscribeToHolds, *k.subscription, nil)
	})
}

// Leave ends the subscriptions. A lost message does no harm: a workflow that is gone is removed when a notification to it fails.
func (k *Holds) Leave(ctx workflow.Context) {
	k.Windows.leave(ctx)
	if k.stopAsking != nil {
		k.stopAsking() // the answer may have come while the activity is still retried
	}
	if k.subscription != nil {
		_ = workflow.SignalExternalWorkflow(ctx, temporal.EmergencyStopID, "", temporal.SignalUnsubscribeHolds, *k.subscription).Get(ctx, nil)
	}
}

// ForQuery returns a copy for queries. A query must not change the remembered answers: a replay would not have them, and commands depend on them.
func (k *Holds) ForQuery() *Holds {
	aside := *k
	aside.Windows.decisions = maps.Clone(k.Windows.decisions)
	return &aside
}

// Of returns what prevents new work in a cluster; nil: nothing.
func (k *Holds) Of(cluster string) *drydockv1.Hold { return k.UnlessFits(cluster, 0) }

// OfAny returns what prevents new work in one of several clusters; nil: nothing.
func (k *Holds) OfAny(clusters ...string) *drydockv1.Hold {
	for _, cluster := range clusters {
		if hold := k.Of(cluster); hold != nil {
			return hold
		}
	}
	return nil
}

// UnlessFits returns what prevents new work that takes that long in a cluster; nil: nothing.
func (k *Holds) UnlessFits(cluster string, need time.Duration) *drydockv1.Hold {
	hold := k.current().Of(cluster)
	if hold == nil {
		hold = k.Windows.Hold(cluster, need)
	}
	if hold != nil && k.Begun && hold.LetsFinish() {
		return nil
	}
	return hold
}

// current returns the state at this time: a window that the parent announced may have closed since.
func (k *Holds) current() emergency.State {
	if k.State.Closes == nil {
		return k.State
	}
	return k.State.At(workflow.Now(k.ctx))
}

// ClosedWindow returns the closed maintenance window, the workflow's own or its parent's, that prevents new work in a cluster, apart from the emergency stop; nil:
// none.
func (k *Holds) ClosedWindow(cluster string) *drydockv1.Hold {
	if hold := k.Windows.Hold(cluster, 0); hold != nil {
		return hold
	}
	return k.current().Closed(cluster)
}

// Closes returns when windows will prevent new work in a cluster, or stop the work that has started; nil: not in sight. Activities get this instant as an
// input: after an outage they may run before the workflow sees that a window has closed.
func (k *Holds) Closes(cluster string) *time.Time {
	closing := k.State.Closes
	if closing == nil {
		closing = k.Windows.closes(cluster)
	}
	switch {
	case closing == nil, k.Begun && closing.StopsAt.IsZero():
		return nil
	case k.Begun:
		return &closing.StopsAt
	}
	return &closing.At
}

// ClosesFirst returns the earliest such instant of several clusters.
func (k *Holds) ClosesFirst(clusters []string) (first *time.Time) {
	if !k.Windows.selective() && len(clusters) > 1 {
		clusters = clusters[:1] // windows without selectors are the same for all clusters
	}
	for _, cluster := range clusters {
		if closes := k.Closes(cluster); closes != nil && (first == nil || closes.Before(*first)) {
			first = closes
		}
	}
	return first
}

// All returns what prevents new work in every cluster; nil: nothing.
func (k *Holds) All() *drydockv1.Hold {
	if all := k.State.All(); all != nil {
		return all
	}
	return k.Windows.Hold("", 0)
}

// Any reports whether a hold is possible.
func (k *Holds) Any() bool { return len(k.State.Holds) > 0 || len(k.Windows.Names) > 0 }

// Number grows with every change.
func (k *Holds) Number() int64 { return k.State.Number + k.Windows.Version }

// About returns all that concerns one cluster.
func (k *Holds) About(cluster string) emergency.State {
	about := k.State.About(cluster)
	about.Number = k.Number()
	if hold := k.Windows.Hold(cluster, 0); hold != nil {
		about.Holds = append(about.Holds, *hold)
	}
	about.Closes = k.Windows.closes(cluster)
	return about
}

// Known reports whether the state of the emergency stop is known.
func (k *Holds) Known() bool { return k.subscription == nil || k.State.Number > 0 }

// AwaitKnown waits until the state of the emergency stop is known. Waiting receives the reason for the wait, and an empty reason at its end.
func (k *Holds) AwaitKnown(ctx workflow.Context, waiting kit.Report) error {
	if k.Known() {
		return nil
	}
	for !k.Known() {
		trouble := k.Trouble
		waiting(ctx, emergency.ReasonUnknown, k.unknownMessage())
		if err := workflow.Await(ctx, func() bool { return k.Known() || k.Trouble != trouble }); err != nil {
			return err
		}
	}
	waiting(ctx, "", "")
	return nil
}

// unknownMessage is what a workflow waits for that does not know what is held.
func (k *Holds) unknownMessage() string {
	message := "waiting for the state of the emergency stop (workflow " + temporal.EmergencyStopID + ")"
	if k.Trouble != "" {
		message += ": " + k.Trouble
	}
	return message
}

// Wait returns what a step that disrupts a cluster waits for: the state of the emergency stop, or the end of a hold; nil: nothing.
func (k *Holds) Wait(cluster string, now metav1.Time) *drydockv1.Wait {
	if !k.Known() {
		return &drydockv1.Wait{Reason: emergency.ReasonUnknown, Message: k.unknownMessage(), Since: now}
	}
	if hold := k.Of(cluster); hold != nil {
		return emergency.Wait(*hold, now)
	}
	return nil
}

// AwaitRelease waits until a cluster is known to be not held. It runs before every step that disrupts something new.
func (k *Holds) AwaitRelease(ctx workflow.Context, cluster string, reason kit.CurrentReason) error {
	if err := k.AwaitKnown(ctx, reason.Set); err != nil {
		return err
	}
	for hold := k.Of(cluster); hold != nil; hold = k.Of(cluster) {
		reason.Hold(ctx, *hold)
		number := k.Number()
		if err := workflow.Await(ctx, func() bool { return k.Number() != number }); err != nil {
			return err
		}
		if k.Of(cluster) == nil {
			reason.Set(ctx, "", "")
		}
	}
	return nil
}

// Forward signals every change that concerns a child to it, in order, until the child is over. Told is the state that it was started with.
func (k *Holds) Forward(ctx workflow.Context, about func() emergency.State, told emergency.State, child workflow.ChildWorkflowFuture, over func() bool) {
	seen := told.Number
	for {
		_ = workflow.Await(ctx, func() bool { return over() || k.Number() != seen })
		if over() || ctx.Err() != nil {
			return
		}
		seen = k.Number()
		if state := about(); !state.Same(told) {
			told = state
			// The error means that the child is over.
			_ = child.SignalChildWorkflow(ctx, temporal.SignalHeld, state).Get(ctx, nil)
		}
	}
}
