package main

import (
	"context"
	"fmt"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
)

// lookInterval is the least time between two looks at a workflow that changes all the time.
const lookInterval = 200 * time.Millisecond

// follow looks at a subject now and whenever its history has grown, until it is over. Temporal tells of new events by a long poll, so that
// nothing is asked of a workflow that does not change. Tick is called every second for what changes with time alone.
func (s *server) follow(ctx context.Context, of subject, look func(context.Context, *client.WorkflowExecutionDescription) error, tick func()) error {
	execution, err := s.describe(ctx, of, "")
	for err == nil {
		run := followedRun{server: s, of: of, id: execution.WorkflowExecution.RunID, look: look, tick: tick}
		var next string
		if next, err = run.follow(ctx); err != nil || next == "" {
			break
		}
		execution, err = s.describe(ctx, of, next)
	}
	switch {
	case err == nil:
		return nil
	case timeIsUp(ctx):
		return fmt.Errorf("%s is not over yet (--timeout); it goes on: see `%s`", of, of.show)
	case ctx.Err() != nil:
		return fmt.Errorf("stopped watching %s; it goes on: see `%s`", of, of.show)
	}
	return err
}

// timeIsUp reports whether ctx's deadline has passed. A request that was sent with it may find so a moment before ctx does.
func timeIsUp(ctx context.Context) bool {
	deadline, ok := ctx.Deadline()
	return ok && time.Until(deadline) < 100*time.Millisecond
}

// followedRun is one run of a workflow that is followed.
type followedRun struct {
	server *server
	of     subject
	id     string
	look   func(context.Context, *client.WorkflowExecutionDescription) error
	tick   func()
}

// follow looks at the run until it is over, and returns the run that continues it, if one does.
func (r followedRun) follow(ctx context.Context) (next string, err error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	grown, ended := make(chan struct{}, 1), make(chan runEnd, 1)
	go func() { ended <- r.readHistory(ctx, grown) }()
	seconds := time.NewTicker(time.Second)
	defer seconds.Stop()
	for {
		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case <-seconds.C:
			r.tick()
		case <-grown:
			if err := r.lookOnce(ctx); err != nil {
				return "", err
			}
			if err := settle(ctx); err != nil {
				return "", err
			}
		case end := <-ended:
			if end.err != nil || end.next != "" {
				return end.next, end.err
			}
			return "", r.lookOnce(ctx)
		}
	}
}

// settle lets a workflow that changes all the time change a little more before the next look.
func settle(ctx context.Context) error {
	over := time.NewTimer(lookInterval)
	defer over.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-over.C:
		return nil
	}
}

func (r followedRun) lookOnce(ctx context.Context) error {
	execution, err := r.server.describe(ctx, r.of, r.id)
	if err != nil {
		return err
	}
	return r.look(ctx, execution)
}

// runEnd is how following a run ended.
type runEnd struct {
	// next is the run that continues it; empty: none.
	next string
	err  error
}

// readHistory tells grown about new events until the run is over.
func (r followedRun) readHistory(ctx context.Context, grown chan<- struct{}) runEnd {
	events := r.server.GetWorkflowHistory(ctx, r.of.workflowID, r.id, true, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	var end runEnd
	for events.HasNext() {
		event, err := events.Next()
		if err != nil {
			return runEnd{err: r.server.explain("follow", r.of, err)}
		}
		end.next = event.GetWorkflowExecutionContinuedAsNewEventAttributes().GetNewExecutionRunId()
		select {
		case grown <- struct{}{}:
		default: // a look is due already
		}
	}
	return end
}
