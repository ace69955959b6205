package kit

import (
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/internal/temporal"
)

// Subscribers are the workflows that subscribe to a numbered state. They are notified when they subscribe and whenever the number grows.
type Subscribers struct{ Workflows []Subscriber }

// Subscriber is a workflow that is notified.
type Subscriber struct {
	temporal.Subscription
	// Told is the number of the last state that was sent.
	Told int64 `json:"told"`
}

// NotifyAtOnce limits the notifications at the same time: the server blocks a run with too many outgoing signals.
const NotifyAtOnce = 100

// Add adds a subscription, which is notified at once. A workflow that subscribes again did not receive an answer and is notified again.
func (a *Subscribers) Add(s temporal.Subscription) {
	a.forget(func(f Subscriber) bool { return f.WorkflowID == s.WorkflowID })
	a.Workflows = append(a.Workflows, Subscriber{Subscription: s})
}

func (a *Subscribers) Remove(s temporal.Subscription) {
	a.forget(func(f Subscriber) bool {
		return f.WorkflowID == s.WorkflowID && (f.FirstRunID == s.FirstRunID || f.FirstRunID == "")
	})
}

func (a *Subscribers) forget(which func(Subscriber) bool) {
	a.Workflows = slices.DeleteFunc(a.Workflows, which)
}

func (a *Subscribers) AnyUnnotified(number int64) bool {
	return slices.ContainsFunc(a.Workflows, func(f Subscriber) bool { return f.Told < number })
}

// Skip marks those that have the state before as notified of the next one, which is the same for them.
func (a *Subscribers) Skip(before, next int64) {
	for i := range a.Workflows {
		if f := &a.Workflows[i]; f.Told == before {
			f.Told = next
		}
	}
}

// Notify signals the state of that number to as many as may be notified at once, and removes those that are gone.
func (a *Subscribers) Notify(ctx workflow.Context, number int64, signal string, about func(temporal.Subscription) any) {
	var told []temporal.Subscription
	var answers []workflow.Future
	for i := range a.Workflows {
		f := &a.Workflows[i]
		if f.Told >= number || len(told) == NotifyAtOnce {
			continue
		}
		f.Told = number
		told = append(told, f.Subscription)
		answers = append(answers, workflow.SignalExternalWorkflow(ctx, f.WorkflowID, "", signal, about(f.Subscription)))
	}
	for i, answer := range answers {
		if answer.Get(ctx, nil) != nil {
			a.forget(func(f Subscriber) bool { return f.Subscription == told[i] })
		}
	}
}

const (
	// RecallPatience is for how long it may stay unknown what was held before. After that everything is held: whoever waits to be answered, or
	// told, is not kept waiting for longer. It is less than the command line's patience with a worker.
	RecallPatience = 8 * time.Second
	// ListFollowersAgainAfter is when those that follow are looked for once more: a list of workflows lags behind.
	ListFollowersAgainAfter = time.Minute
)

// UnusedTime is for how long a window that opens no more, and that nobody follows, waits for somebody.
const UnusedTime = time.Minute
