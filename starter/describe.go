package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	workflowpb "go.temporal.io/api/workflow/v1"

	"drydock.dev/drydock/internal/temporal"
)

// report is the status of a workflow: for programs, and for people.
type report struct {
	object any
	people func(*page)
	name   string
}

func (c *cli) printReport(r report) error { return c.print(r.object, r.people, r.name) }

// reportOf returns the report of a status that can also be watched. A status from the result of a workflow is noted on standard error.
func (c *cli) reportOf(status followed, target subject, err error) (report, error) {
	return report{status, func(w *page) { fmt.Fprintln(w, status.frame(w.now, w.frameStyle)) }, target.workflowID}, c.noteResult(err)
}

// noteResult notes that a status comes from the result of a workflow, which is no error.
func (c *cli) noteResult(err error) error {
	if errors.Is(err, errFromResult) {
		c.warn("%s", err)
		return nil
	}
	return err
}

// showStatus prints the report of a workflow.
func (c *cli) showStatus(get func(context.Context, *server, subject) (report, error)) func(context.Context, *server, subject) error {
	return func(ctx context.Context, s *server, target subject) error {
		shown, err := get(ctx, s, target)
		if err != nil {
			return err
		}
		return c.printReport(shown)
	}
}

// namer finds the workflow that the argument of a command names.
type namer func(ctx context.Context, s *server, name string) (subject, error)

// byName is a namer that needs no server.
func byName(named func(string) (subject, error)) namer {
	return func(_ context.Context, _ *server, name string) (subject, error) { return named(name) }
}

// newDescribe returns the command that shows everything about a workflow: its status, who asked for what and why, and the state of its
// workflow in Temporal. Without a namer the command has no argument.
func (c *cli) newDescribe(noun, operand string, named namer, get func(context.Context, *server, subject) (report, error)) *cobra.Command {
	cmd := &cobra.Command{
		Use:   strings.TrimSpace("describe " + operand),
		Short: "Show everything about a " + noun + ": its status, who asked for what and why, and its workflow",
		Long: "Show everything about a " + noun + `: its status, who asked for what and why, and its workflow in Temporal with the activities that
are pending, and the last failure of each.

The requests are those of the current run of the workflow.`,
		RunE: c.serverVerb(func(ctx context.Context, s *server, args []string) error {
			target, err := named(ctx, s, strings.Join(args, ""))
			if err != nil {
				return err
			}
			return c.describe(ctx, s, target, get)
		}),
	}
	cmd.Args = operands(strings.Fields(operand)...)
	c.addOutputFlag(cmd)
	return cmd
}

// description is everything about a workflow.
type description struct {
	Status   any             `json:"status"`
	Requests []personRequest `json:"requests"`
	Workflow workflowFacts   `json:"workflow"`
}

// personRequest is what a person or a program asked a workflow for.
type personRequest struct {
	At      time.Time `json:"at"`
	Request string    `json:"request"`
	By      string    `json:"by,omitempty"`
	For     string    `json:"for,omitempty"`
	Reason  string    `json:"reason,omitempty"`
}

// workflowFacts is the state of a workflow in Temporal.
type workflowFacts struct {
	ID         string            `json:"id"`
	RunID      string            `json:"runID"`
	TraceID    string            `json:"traceID,omitempty"`
	Type       string            `json:"type"`
	Execution  string            `json:"execution"`
	StartedAt  time.Time         `json:"startedAt"`
	ClosedAt   *time.Time        `json:"closedAt,omitempty"`
	Events     int64             `json:"events"`
	Activities []pendingActivity `json:"pendingActivities"`
}

// pendingActivity is an activity that runs, or waits for its next attempt.
type pendingActivity struct {
	Type    string `json:"type"`
	Attempt int32  `json:"attempt"`
	Failure string `json:"lastFailure,omitempty"`
}

func (c *cli) describe(ctx context.Context, s *server, target subject, get func(context.Context, *server, subject) (report, error)) error {
	shown, statusErr := get(ctx, s, target)
	facts, err := s.facts(ctx, target)
	if err != nil {
		return err // also the cause of statusErr, if there is no such workflow
	}
	requests, err := s.requests(ctx, target, facts.RunID)
	if err != nil {
		return err
	}
	full := description{Status: shown.object, Requests: requests, Workflow: facts}
	err = c.print(full, func(w *page) {
		if statusErr == nil {
			shown.people(w)
		}
		full.render(w)
	}, target.workflowID)
	return errors.Join(statusErr, err)
}

// facts reads the state of a subject's workflow in Temporal.
func (s *server) facts(ctx context.Context, target subject) (workflowFacts, error) {
	described, err := s.DescribeWorkflowExecution(ctx, target.workflowID, "")
	if err != nil {
		return workflowFacts{}, s.explain("describe", target, err)
	}
	info := described.GetWorkflowExecutionInfo()
	facts := workflowFacts{
		ID: info.GetExecution().GetWorkflowId(), RunID: info.GetExecution().GetRunId(), Type: info.GetType().GetName(),
		Execution: info.GetStatus().String(), StartedAt: info.GetStartTime().AsTime(), Events: info.GetHistoryLength(), Activities: []pendingActivity{},
	}
	if info.GetCloseTime() != nil {
		facts.ClosedAt = new(info.GetCloseTime().AsTime())
	}
	for _, pending := range described.GetPendingActivities() {
		facts.Activities = append(facts.Activities, pendingOf(pending))
	}
	facts.TraceID = s.traceID(ctx, info)
	return facts, nil
}

// traceID returns the ID of the trace that workers with --traces send of a workflow; empty if there is none. The trace begins with the topmost workflow above it
// that may begin one.
func (s *server) traceID(ctx context.Context, info *workflowpb.WorkflowExecutionInfo) (id string) {
	for {
		if slices.Contains(temporal.TraceRoots(), info.GetType().GetName()) {
			id = temporal.TraceID(info.GetFirstRunId())
		}
		parent := info.GetParentExecution()
		if parent == nil {
			return id
		}
		described, err := s.DescribeWorkflowExecution(ctx, parent.GetWorkflowId(), parent.GetRunId())
		if err != nil {
			return "" // it may be past its retention
		}
		info = described.GetWorkflowExecutionInfo()
	}
}

func pendingOf(pending *workflowpb.PendingActivityInfo) pendingActivity {
	return pendingActivity{Type: pending.GetActivityType().GetName(), Attempt: pending.GetAttempt(), Failure: pending.GetLastFailure().GetMessage()}
}

// message is the part of a request that says who asked, and why. Every request of a person has it.
type message struct {
	Actor     string `json:"actor"`
	Reason    string `json:"reason"`
	Comment   string `json:"comment"`
	Requestor string `json:"requestor"`
}

// steering are the signals of people that may come without an actor.
var steering = []string{
	temporal.SignalCancel, temporal.SignalPause, temporal.SignalResume, temporal.SignalEnable,
	temporal.SignalDone, temporal.SignalFail, temporal.SignalRecover,
}

// requests reads who asked a run of a workflow for what, from its history.
func (s *server) requests(ctx context.Context, target subject, runID string) ([]personRequest, error) {
	requests := []personRequest{}
	history := s.GetWorkflowHistory(ctx, target.workflowID, runID, false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for history.HasNext() {
		event, err := history.Next()
		if err != nil {
			return nil, s.explain("read the history of", target, err)
		}
		if request := requestIn(event); request != nil {
			requests = append(requests, *request)
		}
	}
	return requests, nil
}

// requestIn returns the request in an event; nil: it has none.
func requestIn(event *historypb.HistoryEvent) *personRequest {
	request := &personRequest{At: event.GetEventTime().AsTime()}
	var about message
	switch event.GetEventType() {
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED:
		started := event.GetWorkflowExecutionStartedEventAttributes()
		if started.GetContinuedExecutionRunId() != "" {
			return nil
		}
		by := temporal.StartedBy(started.GetMemo())
		request.Request, about = "start", message{Actor: by.Actor, Reason: by.Reason}
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED:
		signalled := event.GetWorkflowExecutionSignaledEventAttributes()
		request.Request, about = signalled.GetSignalName(), messageIn(signalled.GetInput())
		if about.Actor == "" && !slices.Contains(steering, request.Request) {
			return nil // from another workflow
		}
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_ACCEPTED:
		input := event.GetWorkflowExecutionUpdateAcceptedEventAttributes().GetAcceptedRequest().GetInput()
		request.Request, about = input.GetName(), messageIn(input.GetArgs())
	case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_CANCEL_REQUESTED:
		request.Request = "cancellation"
		about.Actor, about.Reason = event.GetWorkflowExecutionCancelRequestedEventAttributes().GetIdentity(), event.GetWorkflowExecutionCancelRequestedEventAttributes().GetCause()
	default:
		return nil
	}
	request.By, request.For, request.Reason = about.Actor, about.Requestor, strings.Trim(about.Reason+about.Comment, " ")
	return request
}

// messageIn returns the message in the input of a signal or an update; empty if it has another form.
func messageIn(input *commonpb.Payloads) (about message) {
	_ = decode(input, &about)
	return about
}

func (d description) render(w *page) {
	if len(d.Requests) > 0 {
		t := w.newTable("WHEN", "REQUEST", "BY", "FOR", "REASON")
		for _, r := range d.Requests {
			t.AppendRow(table.Row{stamp(r.At, w.now), r.Request, r.By, r.For, r.Reason})
		}
		fmt.Fprintf(w, "\n%s\n", t.Render())
	}
	fmt.Fprintf(w, "\nworkflow %s, run %s: %s, %s, %d events, started %s", d.Workflow.ID, d.Workflow.RunID, d.Workflow.Type, d.Workflow.Execution,
		d.Workflow.Events, stamp(d.Workflow.StartedAt, w.now))
	if d.Workflow.ClosedAt != nil {
		fmt.Fprintf(w, ", closed %s", stamp(*d.Workflow.ClosedAt, w.now))
	}
	fmt.Fprintln(w)
	if d.Workflow.TraceID != "" {
		fmt.Fprintf(w, "trace %s, if the workers send traces\n", d.Workflow.TraceID)
	}
	for _, activity := range d.Workflow.Activities {
		fmt.Fprintf(w, "  pending: %s, attempt %d%s\n", activity.Type, activity.Attempt, prefixed(", which last failed with: ", activity.Failure))
	}
}

// prefixed adds a prefix to a text that is not empty.
func prefixed(prefix, text string) string {
	if text == "" {
		return ""
	}
	return prefix + text
}
