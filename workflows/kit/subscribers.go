package kit

import (
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/internal/temporal"
)

const (
	// MaxNotifications limits the notifications in progress: the server blocks a run with too many outgoing signals.
	MaxNotifications = 100
	// ListAgainAfter is the pause before subscribers are listed a second time: the server's list of workflows is eventually consistent.
	ListAgainAfter = time.Minute
	// UnusedTime is how long a workflow without work and without subscribers waits before it ends.
	UnusedTime = time.Minute
)

// Subscribers are the workflows that subscribe to a numbered state. They are notified when they subscribe and whenever the number grows.
type Subscribers struct{ Workflows []Subscriber }

// Subscriber is a workflow that is notified.
type Subscriber struct {
	temporal.Subscription
	// Notified is the number of the last state that was sent.
	Notified int64 `json:"notified"`
}

// Add adds a subscription, which is notified of each state that it does not have. A workflow that subscribes again may have missed a notification.
func (s *Subscribers) Add(subscription temporal.Subscription) {
	s.remove(func(one Subscriber) bool { return one.WorkflowID == subscription.WorkflowID })
	s.Workflows = append(s.Workflows, Subscriber{Subscription: subscription, Notified: subscription.Known})
}

// Remove removes a subscription. It also removes that of a subscriber whose FirstRunID is unknown, because a search found it.
func (s *Subscribers) Remove(subscription temporal.Subscription) {
	s.remove(func(one Subscriber) bool {
		return one.WorkflowID == subscription.WorkflowID && (one.FirstRunID == subscription.FirstRunID || one.FirstRunID == "")
	})
}

func (s *Subscribers) remove(which func(Subscriber) bool) {
	s.Workflows = slices.DeleteFunc(s.Workflows, which)
}

// AnyUnnotified reports whether a subscriber has not been sent the state of that number.
func (s *Subscribers) AnyUnnotified(number int64) bool {
	return slices.ContainsFunc(s.Workflows, func(one Subscriber) bool { return one.Notified < number })
}

// Skip marks subscribers that have the previous state as notified of the next one, which is the same for them.
func (s *Subscribers) Skip(before, next int64) {
	for i := range s.Workflows {
		if one := &s.Workflows[i]; one.Notified == before {
			one.Notified = next
		}
	}
}

// Notify signals the state of that number to at most MaxNotifications subscribers, and removes those that have ended. payload returns the payload for a
// subscription.
func (s *Subscribers) Notify(ctx workflow.Context, number int64, signal string, payload func(temporal.Subscription) any) {
	var notified []temporal.Subscription
	var deliveries []workflow.Future
	for i := range s.Workflows {
		one := &s.Workflows[i]
		if one.Notified >= number || len(notified) == MaxNotifications {
			continue
		}
		one.Notified = number
		notified = append(notified, one.Subscription)
		deliveries = append(deliveries, workflow.SignalExternalWorkflow(ctx, one.WorkflowID, "", signal, payload(one.Subscription)))
	}
	for i, delivery := range deliveries {
		if delivery.Get(ctx, nil) != nil {
			s.remove(func(one Subscriber) bool { return one.Subscription == notified[i] })
		}
	}
}
