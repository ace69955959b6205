package workflows

import (
	"slices"

	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/internal/temporal"
)

// audience are the workflows that subscribe to a numbered state. They are notified when they subscribe and whenever the number grows.
type audience struct{ followers []follower }

// follower is a workflow that is notified.
type follower struct {
	temporal.Subscription
	// Told is the number of the last state that was sent.
	Told int64 `json:"told"`
}

// tellAtOnce limits the notifications at the same time: the server blocks a run with too many outgoing signals.
const tellAtOnce = 100

// follow adds a subscription, which is notified at once. A workflow that subscribes again did not receive an answer and is notified again.
func (a *audience) follow(s temporal.Subscription) {
	a.forget(func(f follower) bool { return f.WorkflowID == s.WorkflowID })
	a.followers = append(a.followers, follower{Subscription: s})
}

func (a *audience) leave(s temporal.Subscription) {
	a.forget(func(f follower) bool {
		return f.WorkflowID == s.WorkflowID && (f.FirstRunID == s.FirstRunID || f.FirstRunID == "")
	})
}

func (a *audience) forget(which func(follower) bool) {
	a.followers = slices.DeleteFunc(a.followers, which)
}

func (a *audience) anyUntold(number int64) bool {
	return slices.ContainsFunc(a.followers, func(f follower) bool { return f.Told < number })
}

// know marks those that have the state before as notified of the next one, which is the same for them.
func (a *audience) know(before, next int64) {
	for i := range a.followers {
		if f := &a.followers[i]; f.Told == before {
			f.Told = next
		}
	}
}

// tell signals the state of that number to as many as may be notified at once, and removes those that are gone.
func (a *audience) tell(ctx workflow.Context, number int64, signal string, about func(temporal.Subscription) any) {
	var told []temporal.Subscription
	var answers []workflow.Future
	for i := range a.followers {
		f := &a.followers[i]
		if f.Told >= number || len(told) == tellAtOnce {
			continue
		}
		f.Told = number
		told = append(told, f.Subscription)
		answers = append(answers, workflow.SignalExternalWorkflow(ctx, f.WorkflowID, "", signal, about(f.Subscription)))
	}
	for i, answer := range answers {
		if answer.Get(ctx, nil) != nil {
			a.forget(func(f follower) bool { return f.Subscription == told[i] })
		}
	}
}
