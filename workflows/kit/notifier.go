package kit

import (
	"fmt"
	"slices"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	sdktemporal "go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	"drydock.dev/drydock/internal/emergency"
	"drydock.dev/drydock/internal/notify"
	"drydock.dev/drydock/internal/temporal"
)

const (
	// notifyFor limits the retries for a receiver that does not answer. notifyPause is the longest pause between them.
	notifyFor   = 24 * time.Hour
	notifyPause = 10 * time.Minute
	// notifyTimeout limits one attempt, beside the dialog with a mail server.
	notifyTimeout = time.Minute
)

// WithNotificationRetries returns the context of an activity that sends a notification to the receiver with a URL.
func WithNotificationRetries(ctx workflow.Context, url, summary string) workflow.Context {
	limit := notifyTimeout
	if notify.IsEmail(url) {
		limit += notify.EmailTimeout
	}
	return workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout:    limit,
		ScheduleToCloseTimeout: notifyFor,
		Summary:                temporal.Cut(summary, 200),
		RetryPolicy: &sdktemporal.RetryPolicy{
			InitialInterval: time.Second, BackoffCoefficient: 2, MaximumInterval: notifyPause, NonRetryableErrorTypes: temporal.NonRetryable,
		},
	})
}

// Notifier notifies the receivers of a piece of work of what happens to it, each of each fact once. Without receivers it does nothing. Each notification
// is a workflow of its own, so that a dead receiver delays nothing.
type Notifier struct {
	// Kind and Name of the work, such as rollout and prod/november.
	Kind, Name string
	// Receivers returns the current receivers.
	Receivers func() []drydockv1.Notification
	// Planned are the reasons of waits that are part of the work, or of which other events notify, beside the emergency stop and closed windows.
	Planned []string
	// State passes to the next run.
	State NotifierState

	// wait is the current wait, if it blocks the work.
	wait *drydockv1.Wait
	// queue has the notices whose workflows are not started yet.
	queue []notify.Notice
	// starting: workflows of notices are being started.
	starting bool
}

// NotifierState is what a notifier remembers.
type NotifierState struct {
	// Last is the number of the last fact.
	Last int32 `json:"last,omitempty"`
	// Open are the states that have been notified and have not ended.
	Open []OpenFact `json:"open,omitempty"`
}

// OpenFact is a state that lasts, and the receiver that was notified of it.
type OpenFact struct {
	Receiver string      `json:"receiver"`
	Fact     notify.Fact `json:"fact"`
}

// Hold notifies of the emergency stop, or that it has ended. That a window closes is part of the plan.
func (n *Notifier) Hold(ctx workflow.Context, hold *drydockv1.Hold) {
	if hold == nil || emergency.Reason(*hold) != emergency.ReasonHeld {
		n.Ends(ctx, drydockv1.EventHeld)
		return
	}
	n.Begins(ctx, drydockv1.EventHeld, "", emergency.Message(*hold), workflow.Now(ctx))
}

// End notifies of the end of the work. No state lasts longer.
func (n *Notifier) End(ctx workflow.Context, event drydockv1.NotificationEvent, reason, message string) {
	n.Waits(nil)
	for len(n.State.Open) > 0 {
		n.Ends(ctx, n.State.Open[0].Fact.Event)
	}
	n.Tell(ctx, event, reason, message)
}

// Tell notifies of a fact.
func (n *Notifier) Tell(ctx workflow.Context, event drydockv1.NotificationEvent, reason, message string) {
	fact := notify.Fact{Event: event, Kind: n.Kind, Name: n.Name, Reason: reason, Message: message, At: workflow.Now(ctx)}
	n.send(ctx, fact, func(receiver drydockv1.Notification) bool { return notify.Wants(receiver, event) })
}

// Begins notifies of a state that lasts until Ends. A receiver that was notified of it is not notified again.
func (n *Notifier) Begins(ctx workflow.Context, event drydockv1.NotificationEvent, reason, message string, since time.Time) {
	n.begins(ctx, notify.Fact{Event: event, Kind: n.Kind, Name: n.Name, Reason: reason, Message: message, At: since}, func(drydockv1.Notification) bool { return true })
}

func (n *Notifier) begins(ctx workflow.Context, fact notify.Fact, to func(drydockv1.Notification) bool) {
	for _, receiver := range n.send(ctx, fact, func(receiver drydockv1.Notification) bool {
		return to(receiver) && notify.Wants(receiver, fact.Event) && !n.isOpen(fact.Event, receiver)
	}) {
		n.State.Open = append(n.State.Open, OpenFact{Receiver: notify.Short(receiver.URL), Fact: fact})
	}
}

// Ends resolves the alerts of a state that has ended. Other receivers are not notified of that.
func (n *Notifier) Ends(ctx workflow.Context, event drydockv1.NotificationEvent) {
	open := n.State.Open
	n.State.Open = slices.DeleteFunc(slices.Clone(open), func(o OpenFact) bool { return o.Fact.Event == event })
	for _, ended := range open {
		if ended.Fact.Event != event {
			continue
		}
		fact := ended.Fact
		fact.ResolvedAt = new(workflow.Now(ctx))
		n.send(ctx, fact, func(receiver drydockv1.Notification) bool {
			return receiver.Format == drydockv1.FormatAlertmanager && notify.Short(receiver.URL) == ended.Receiver
		})
	}
}

// send queues the notices of a fact, and returns the receivers.
func (n *Notifier) send(ctx workflow.Context, fact notify.Fact, wants func(drydockv1.Notification) bool) []drydockv1.Notification {
	receivers := slices.DeleteFunc(slices.Clone(n.Receivers()), func(receiver drydockv1.Notification) bool { return !wants(receiver) })
	if len(receivers) == 0 {
		return nil
	}
	n.State.Last++
	id := fmt.Sprintf("%ss/%s/%s/%d", n.Kind, n.Name, workflow.GetInfo(ctx).FirstRunID, n.State.Last)
	for _, receiver := range receivers {
		n.queue = append(n.queue, notify.To(receiver, id, fact))
	}
	return receivers
}

// Waits records the current wait; nil: there is none.
func (n *Notifier) Waits(wait *drydockv1.Wait) {
	n.wait = nil
	if wait != nil && wait.Reason != emergency.ReasonHeld && wait.Reason != emergency.ReasonWaitingForWindow && !slices.Contains(n.Planned, wait.Reason) {
		n.wait = wait
	}
}

// Run starts the workflows of notices, and notices waits that have become long, until ctx is cancelled. Run it in its own coroutine.
func (n *Notifier) Run(ctx workflow.Context) {
	workflow.GoNamed(ctx, "notice long waits", n.noticeWaits)
	for workflow.Await(ctx, func() bool { return len(n.queue) > 0 }) == nil {
		n.start(ctx)
	}
}

// Idle reports whether the workflows of all notices are started. The work may not end before.
func (n *Notifier) Idle() bool { return len(n.queue) == 0 && !n.starting }

func (n *Notifier) start(ctx workflow.Context) {
	queue := n.queue
	n.queue, n.starting = nil, true
	var started []workflow.ChildWorkflowFuture
	for _, notice := range queue {
		started = append(started, workflow.ExecuteChildWorkflow(workflow.WithChildOptions(ctx, workflow.ChildWorkflowOptions{
			WorkflowID:            temporal.NotificationID(notice.ID),
			WorkflowIDReusePolicy: enumspb.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE,
			ParentClosePolicy:     enumspb.PARENT_CLOSE_POLICY_ABANDON,
			StaticSummary:         temporal.Cut(notice.String(), 200),
		}), temporal.Notification, notice))
	}
	for _, child := range started {
		// An error means that this notification has been started before.
		_ = child.GetChildWorkflowExecution().Get(ctx, nil)
	}
	n.starting = false
}

// longWait is when a receiver is to be notified of the current wait.
type longWait struct {
	receiver string
	due      time.Time
}

// nextLongWait returns the first receiver that is to be notified of the current wait; nil: none.
func (n *Notifier) nextLongWait() *longWait {
	if n.wait == nil {
		return nil
	}
	var next *longWait
	for _, receiver := range n.Receivers() {
		due := n.wait.Since.Add(notify.BlockedAfter(receiver))
		if notify.Wants(receiver, drydockv1.EventBlocked) && !n.isOpen(drydockv1.EventBlocked, receiver) && (next == nil || due.Before(next.due)) {
			next = &longWait{receiver: receiver.URL, due: due}
		}
	}
	return next
}

func (n *Notifier) isOpen(event drydockv1.NotificationEvent, receiver drydockv1.Notification) bool {
	return slices.ContainsFunc(n.State.Open, func(open OpenFact) bool {
		return open.Fact.Event == event && open.Receiver == notify.Short(receiver.URL)
	})
}

// noticeWaits notifies of waits that last longer than blockedAfter. A timer is not stopped when its wait ends, because many short waits would fill the
// history.
func (n *Notifier) noticeWaits(ctx workflow.Context) {
	var timer workflow.Future
	var fires time.Time
	var stop workflow.CancelFunc
	tooLate := func() bool {
		next := n.nextLongWait()
		return next != nil && (timer == nil || next.due.Before(fires))
	}
	for {
		switch next := n.nextLongWait(); {
		case n.blockedEnded():
			n.Ends(ctx, drydockv1.EventBlocked)
		case next != nil && !next.due.After(workflow.Now(ctx)):
			fact := notify.Fact{Event: drydockv1.EventBlocked, Kind: n.Kind, Name: n.Name, Reason: n.wait.Reason, Message: n.wait.Message, At: n.wait.Since.Time}
			n.begins(ctx, fact, func(receiver drydockv1.Notification) bool { return receiver.URL == next.receiver })
		case tooLate():
			if stop != nil {
				stop()
			}
			var timing workflow.Context
			timing, stop = workflow.WithCancel(ctx)
			fires = next.due
			timer = workflow.NewTimerWithOptions(timing, fires.Sub(workflow.Now(ctx)), workflow.TimerOptions{Summary: "before receivers are notified of a wait"})
		default:
			if workflow.Await(ctx, func() bool { return n.blockedEnded() || tooLate() || timer != nil && timer.IsReady() }) != nil {
				return
			}
			if timer != nil && timer.IsReady() {
				timer, stop = nil, nil
			}
		}
	}
}

// blockedEnded reports whether receivers were notified of a wait that has ended.
func (n *Notifier) blockedEnded() bool {
	return slices.ContainsFunc(n.State.Open, func(open OpenFact) bool {
		return open.Fact.Event == drydockv1.EventBlocked && (n.wait == nil || n.wait.Reason != open.Fact.Reason)
	})
}
