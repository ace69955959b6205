package workflows

import (
	"slices"

	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/internal/temporal"
)

// audience are the workflows that are told of a state: when they begin to follow, and whenever its number has grown.
type audience struct{ followers []follower }

// follower is a workflow that is told.
type follower struct {
	temporal.Subscription
	// Told is the number of the state that it was told last.
	Told int64 `json:"told"`
}

// tellAtOnce is how many workflows are told at the same time: the server blocks a run with too many outgoing signals.
const tellAtOnce = 100

// follow takes in a follower, which is told at once. One that asks again has not heard an answer.
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

// know spares those that were told the state of the number before to be told the next: they know it.
func (a *audience) know(before, next int64) {
	for i := range a.followers {
		if f := &a.followers[i]; f.Told == before {
			f.Told = next
		}
	}
}

// tell tells followers the state of that number by a signal, as many as may be told at once, and forgets those that are gone.
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
