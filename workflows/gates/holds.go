// Package gates holds the gates for new work: the emergency stop and maintenance windows.
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

// Holds has the state of the emergency stop and of the maintenance windows of a workflow. The workflow subscribes to them, or its parent passes
// them on.
type Holds struct {
	ctx workflow.Context
	// State is the state of the emergency stop. From a parent, it includes closed windows.
	State   emergency.State
	Windows Windows
	// Begun: the workflow has started its work. A closing window may let it finish.
	Begun bool
	// subscription is set in a workflow that subscribes to the emergency stop itself. Such a workflow disrupts nothing before it has the state.
	subscription *temporal.Subscription
	unsubscribed bool
	// stopSubscribing cancels the subscribing activity.
	stopSubscribing workflow.CancelFunc
	// Trouble is the error of a failing subscription.
	Trouble string
	// changed is called for each newer state.
	changed func()
}

// Listen handles the signals with the state of the emergency stop and calls changed for each newer state. An older state is ignored.
func (k *Holds) Listen(ctx workflow.Context, changed func()) {
	k.ctx, k.changed = ctx, changed
	kit.OnSignal(ctx, temporal.SignalHeld, "The state of the emergency stop.", k.Receive)
}

// Receive takes a newer state.
func (k *Holds) Receive(state emergency.State) {
	if state.Number > k.State.Number {
		k.State = state
		k.changed()
	}
}

// Subscribe subscribes to the holds of a cluster, or of all clusters for the empty name. It runs in the background: only a step that disrupts something
// waits for the state. A subscription of an earlier run is still valid. FindSubscribers in activities/holds must list every workflow type that calls
// Subscribe.
func (k *Holds) Subscribe(ctx workflow.Context, cluster string) {
	k.Expect(ctx, cluster)
	if k.Known() {
		return
	}
	subscribing, stop := workflow.WithCancel(ctx)
	k.stopSubscribing = stop
	workflow.GoNamed(subscribing, "subscribe to holds", func(ctx workflow.Context) {
		retrier := kit.HubRetrier(func(_ workflow.Context, _, message string) { k.Trouble = message })
		var hub *holds.Activities
		var state emergency.State
		// The only error is the cancellation of the workflow, which then disrupts nothing.
		if retrier.Run(ctx, "subscribe to the emergency stop", hub.SubscribeToHolds, k.Subscription(), &state) == nil {
			k.Receive(state)
		}
	})
}

// Expect prepares for the holds of a cluster to which an activity with other work subscribes the workflow. Receive takes their state.
func (k *Holds) Expect(ctx workflow.Context, cluster string) {
	info := workflow.GetInfo(ctx)
	k.subscription = &temporal.Subscription{WorkflowID: info.WorkflowExecution.ID, FirstRunID: info.FirstRunID, Cluster: cluster}
}

// Subscription returns the workflow's own subscription.
func (k *Holds) Subscription() temporal.Subscription { return *k.subscription }

// Unsubscribe ends the subscriptions. A lost message does no harm: a closed workflow is removed when a notification to it fails.
func (k *Holds) Unsubscribe(ctx workflow.Context) {
	k.Windows.unsubscribe(ctx)
	if k.stopSubscribing != nil {
		k.stopSubscribing() // the state may have arrived while the activity is still retried
	}
	if k.subscription != nil && !k.unsubscribed {
		_ = workflow.SignalExternalWorkflow(ctx, temporal.EmergencyStopID, "", temporal.SignalUnsubscribeHolds, *k.subscription).Get(ctx, nil)
	}
}

// Unsubscribed records that an activity has ended the subscription to the emergency stop.
func (k *Holds) Unsubscribed() { k.unsubscribed = true }

// ForQuery returns a copy for queries. A query must not change the cached decisions: a replay would not have them, and commands depend on them.
func (k *Holds) ForQuery() *Holds {
	copied := *k
	copied.Windows.decisions = maps.Clone(k.Windows.decisions)
	return &copied
}

// Of returns the hold that prevents new work in a cluster; nil: none.
func (k *Holds) Of(cluster string) *drydockv1.Hold { return k.HoldFor(cluster, 0) }

// OfAny returns the first hold that prevents new work in one of several clusters; nil: none.
func (k *Holds) OfAny(clusters ...string) *drydockv1.Hold {
	for _, cluster := range clusters {
		if hold := k.Of(cluster); hold != nil {
			return hold
		}
	}
	return nil
}

// HoldFor returns the hold that prevents new work of that length in a cluster; nil: none.
func (k *Holds) HoldFor(cluster string, need time.Duration) *drydockv1.Hold {
	hold := k.current().Of(cluster)
	if hold == nil {
		hold = k.Windows.Hold(cluster, need)
	}
	if hold != nil && k.Begun && hold.LetsFinish() {
		return nil
	}
	return hold
}

// current returns the state at this time. A window that the parent announced may have closed since.
func (k *Holds) current() emergency.State {
	if k.State.Closes == nil {
		return k.State
	}
	return k.State.At(workflow.Now(k.ctx))
}

// ClosedWindow returns the closed maintenance window that prevents new work in a cluster, regardless of the emergency stop; nil: none. The window is the
// workflow's own or its parent's.
func (k *Holds) ClosedWindow(cluster string) *drydockv1.Hold {
	if hold := k.Windows.Hold(cluster, 0); hold != nil {
		return hold
	}
	return k.current().Closed(cluster)
}

// Closes returns when windows will prevent new work in a cluster, or stop work that has started; nil: no such time is known. Activities receive this
// instant as an input: after an outage they may run before the workflow learns that a window has closed.
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

// ClosesFirst returns the earliest result of Closes for several clusters.
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

// All returns the hold that prevents new work in every cluster; nil: none.
func (k *Holds) All() *drydockv1.Hold {
	if all := k.State.All(); all != nil {
		return all
	}
	return k.Windows.Hold("", 0)
}

// Any reports whether a hold is possible.
func (k *Holds) Any() bool { return len(k.State.Holds) > 0 || len(k.Windows.Names) > 0 }

// Number is the version of the holds. It grows with every change.
func (k *Holds) Number() int64 { return k.State.Number + k.Windows.Version }

// ForCluster returns the holds of one cluster.
func (k *Holds) ForCluster(cluster string) emergency.State {
	state := k.State.ForCluster(cluster)
	state.Number = k.Number()
	if hold := k.Windows.Hold(cluster, 0); hold != nil {
		state.Holds = append(state.Holds, *hold)
	}
	state.Closes = k.Windows.closes(cluster)
	return state
}

// Known reports whether the state of the emergency stop is known.
func (k *Holds) Known() bool { return k.subscription == nil || k.State.Number > 0 }

// AwaitKnown waits until the state of the emergency stop is known. It reports the reason of the wait, and an empty reason at its end.
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

// unknownMessage describes the wait for the state of the emergency stop.
func (k *Holds) unknownMessage() string {
	message := "waiting for the state of the emergency stop (workflow " + temporal.EmergencyStopID + ")"
	if k.Trouble != "" {
		message += ": " + k.Trouble
	}
	return message
}

// Wait returns the wait of a step that disrupts a cluster: for the state of the emergency stop, or for the end of a hold; nil: the step may start.
func (k *Holds) Wait(cluster string, now metav1.Time) *drydockv1.Wait {
	if !k.Known() {
		return &drydockv1.Wait{Reason: emergency.ReasonUnknown, Message: k.unknownMessage(), Since: now}
	}
	if hold := k.Of(cluster); hold != nil {
		return emergency.Wait(*hold, now)
	}
	return nil
}

// AwaitRelease waits until the state of the emergency stop is known and no hold applies to the cluster. Call it before every new disruption.
func (k *Holds) AwaitRelease(ctx workflow.Context, cluster string, reason kit.CurrentReason) error {
	kit.HandlePendingSignals(ctx)
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

// Forward sends a child every change of its holds, in order, until the child ends. sent is the state that the child was started with.
func (k *Holds) Forward(ctx workflow.Context, current func() emergency.State, sent emergency.State, child workflow.ChildWorkflowFuture, ended func() bool) {
	seen := sent.Number
	for {
		_ = workflow.Await(ctx, func() bool { return ended() || k.Number() != seen })
		if ended() || ctx.Err() != nil {
			return
		}
		seen = k.Number()
		if state := current(); !state.Same(sent) {
			sent = state
			// An error means that the child has ended.
			_ = child.SignalChildWorkflow(ctx, temporal.SignalHeld, state).Get(ctx, nil)
		}
	}
}
