package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"

	"drydock.dev/drydock/internal/observe"
	"drydock.dev/drydock/internal/temporal"
)

// server is a connection to Temporal.
type server struct {
	client.Client
	address   string
	namespace string
	// options of the connection say how to decode histories.
	options client.Options
}

// dial connects to Temporal.
func (c *cli) dial(ctx context.Context) (*server, error) {
	options, err := c.connection.Options(nil, nil)
	if err != nil {
		return nil, usageError{error: err}
	}
	connection, err := temporal.Dial(ctx, options)
	if err != nil {
		return nil, err
	}
	return &server{Client: connection, address: options.HostPort, namespace: options.Namespace, options: options}, nil
}

// dialLazily returns a connection that waits for Temporal on its first use.
func (c *cli) dialLazily() (*server, error) {
	options, err := c.connection.Options(nil, nil)
	if err != nil {
		return nil, usageError{error: err}
	}
	connection, err := client.NewLazyClient(options)
	if err != nil {
		return nil, usageError{error: err}
	}
	return &server{Client: connection, address: options.HostPort, namespace: options.Namespace, options: options}, nil
}

// subject names a workflow in the user's terms.
type subject struct {
	// noun and name, e.g. "rollout" and "ztp/november".
	noun, name string
	workflowID string
	// show, list and start are the commands that show it, list all of its kind, and start it. Only a singleton has start.
	show, list, start string
}

func (s subject) String() string { return s.noun + " " + s.name }

// workflowRef names a workflow in JSON output.
type workflowRef = observe.Ref

// start records the actor and the reason, and starts the workflow of a subject unless it is already running. An ended one is started again as a new run of the same id; Temporal
// retains the old run.
func (s *server) start(ctx context.Context, of subject, reason string, options client.StartWorkflowOptions, workflow string, input any) (client.WorkflowRun, error) {
	options.ID = of.workflowID
	if options.Memo == nil {
		options.Memo = map[string]any{}
	}
	options.Memo[temporal.MemoStarted] = temporal.SignalRequest{Actor: actor(), Reason: reason}
	options.StaticSummary = temporal.Cut(options.StaticSummary, summaryLimit)
	options.TaskQueue = temporal.TaskQueue
	options.WorkflowIDConflictPolicy = enumspb.WORKFLOW_ID_CONFLICT_POLICY_FAIL
	options.WorkflowIDReusePolicy = enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE
	options.WorkflowExecutionErrorWhenAlreadyStarted = true
	run, err := s.ExecuteWorkflow(ctx, options, workflow, input)
	if err != nil {
		return nil, s.explain("start", of, err)
	}
	return run, nil
}

// startText says who started a workflow, and why, between two texts; it is empty without a reason.
func startText(of workflowRef, before, after string) string {
	if of.StartReason == "" {
		return ""
	}
	return before + "started by " + of.StartedBy + ": " + of.StartReason + after
}

// summaryLimit is the maximum length of a summary in bytes.
const summaryLimit = 200

// signal sends a signal to the running workflow of a subject.
func (s *server) signal(ctx context.Context, to subject, name string, request temporal.SignalRequest) error {
	request.Actor = actor()
	err := s.SignalWorkflow(ctx, to.workflowID, "", name, request)
	return s.explainUndelivered(ctx, name, to, err)
}

// explainUndelivered explains why a signal or an update did not reach a subject: often it has ended, or does not exist.
func (s *server) explainUndelivered(ctx context.Context, doing string, of subject, err error) error {
	if _, unknown := errors.AsType[*serviceerror.NotFound](err); unknown {
		if closed, describeErr := s.DescribeWorkflowExecution(ctx, of.workflowID, ""); describeErr == nil {
			ended := workflowRow{Row: observe.NewRow(closed.GetWorkflowExecutionInfo())}
			return fmt.Errorf("%s has already ended (%s), so %s has no effect; see `%s`", of, ended.phase(), doing, of.show)
		}
	}
	return s.explain(doing, of, err)
}

// query gets the status of a subject's workflow. If no worker answers, the error is observe.ErrNoWorker.
func (s *server) query(ctx context.Context, of subject, runID string, into any, args ...any) error {
	const doing = "get the status of"
	return s.explainQuery(doing, of, observe.Status(ctx, s, of.workflowID, runID, into, args...))
}

// explainQuery adds to an error of a query what to do about it.
func (s *server) explainQuery(doing string, of subject, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, observe.ErrNoWorker):
		return fmt.Errorf("%s %s: %w", doing, of, err)
	case errors.Is(err, observe.ErrNotUnderstood):
		return fmt.Errorf("%s %w", of, err)
	}
	return s.explain(doing, of, err)
}

// explain adds to an error of Temporal what to do about it.
func (s *server) explain(doing string, of subject, err error) error {
	if err == nil {
		return nil
	}
	if _, running := errors.AsType[*serviceerror.WorkflowExecutionAlreadyStarted](err); running {
		return fmt.Errorf("%s is already running: see `%s`", of, of.show)
	}
	if _, unknown := errors.AsType[*serviceerror.NamespaceNotFound](err); unknown {
		return fmt.Errorf("temporal at %s has no namespace %q; set another with --temporal-namespace (--namespace is that of the object)", s.address, s.namespace)
	}
	if _, unknown := errors.AsType[*serviceerror.NotFound](err); unknown {
		if of.start != "" {
			return fmt.Errorf("%s not found: start it with `%s`", of, of.start)
		}
		return fmt.Errorf("%s not found: see `%s`", of, of.list)
	}
	if invalid, ok := errors.AsType[*serviceerror.InvalidArgument](err); ok && strings.Contains(strings.ToLower(invalid.Message), "search attribute") {
		return fmt.Errorf("%s %s: Temporal namespace %s lacks the search attributes of Drydock: run `drydock setup` (%s)", doing, of, s.namespace, invalid.Message)
	}
	return fmt.Errorf("%s %s: %w", doing, of, err)
}
