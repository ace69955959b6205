package main

import (
	"context"
	"errors"
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
	runID := ""
	for {
		execution, err := s.describe(ctx, of, runID)
		if err != nil {
			return err
		}
		run := followedRun{server: s, of: of, id: execution.WorkflowExecution.RunID, look: look, tick: tick}
		runID, err = run.follow(ctx)
		if ctx.Err() != nil {
			return stoppedFollowing(ctx, of)
		}
		if err != nil || runID == "" {
			return err
		}
	}
}

// stoppedFollowing says that the watching has ended, but not the work.
func stoppedFollowing(ctx context.Context, of subject) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("%s is not over yet (--timeout); it goes on: see `%s`", of, of.show)
	}
	return fmt.Errorf("stopped watching %s; it goes on: see `%s`", of, of.show)
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
	grown := make(chan struct{}, 1)
	var historyErr error
	go func() {
		defer close(grown)
		next, historyErr = r.readHistory(ctx, grown)
	}()
	seconds := time.NewTicker(time.Second)
	defer seconds.Stop()
	looked := time.Time{}
	for {
		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case <-seconds.C:
			r.tick()
		case _, more := <-grown:
			select {
			case <-ctx.Done():
				return "", ctx.Err()
			case <-time.After(time.Until(looked.Add(lookInterval))):
			}
			looked = time.Now()
			if err := r.lookOnce(ctx); err != nil {
				return "", err
			}
			if !more {
				return next, historyErr
			}
		}
	}
}

func (r followedRun) lookOnce(ctx context.Context) error {
	execution, err := r.server.describe(ctx, r.of, r.id)
	if err != nil {
		return err
	}
	return r.look(ctx, execution)
}

// readHistory tells grown about new events until the run is over. It returns the id of the run that continues this one, if one does.
func (r followedRun) readHistory(ctx context.Context, grown chan<- struct{}) (string, error) {
	events := r.server.GetWorkflowHistory(ctx, r.of.workflowID, r.id, true, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	next := ""
	for events.HasNext() {
		event, err := events.Next()
		if err != nil {
			return "", r.server.explain("follow", r.of, err)
		}
		next = event.GetWorkflowExecutionContinuedAsNewEventAttributes().GetNewExecutionRunId()
		select {
		case grown <- struct{}{}:
		default: // a look is due already
		}
	}
	return next, nil
}
