package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"go.temporal.io/sdk/client"

	"drydock.dev/drydock/internal/observe"
)

// follow looks at a subject now and whenever its history has grown, until it is over. Tick is called every second for what changes with time alone.
func (s *server) follow(ctx context.Context, of subject, look func(context.Context, *client.WorkflowExecutionDescription) error, tick func()) error {
	execution, err := s.describe(ctx, of, "")
	if err == nil {
		follower := observe.Follower{Server: s, WorkflowID: of.workflowID, Tick: tick, Look: func(ctx context.Context, runID string) error {
			execution, err := s.describe(ctx, of, runID)
			if err != nil {
				return err
			}
			return look(ctx, execution)
		}}
		err = follower.Follow(ctx, execution.WorkflowExecution.RunID)
	}
	if unread, ok := errors.AsType[observe.HistoryError](err); ok {
		err = s.explain("follow", of, unread.Unwrap())
	}
	if err == nil {
		return nil
	}
	return cmp.Or(leftAtWork(ctx, of), err)
}

// leftAtWork says of a subject that was followed until ctx was over that it goes on; nil while ctx is not.
func leftAtWork(ctx context.Context, of subject) error {
	switch {
	case timeIsUp(ctx):
		return fmt.Errorf("%s is not over yet (--timeout); it goes on: see `%s`", of, of.show)
	case ctx.Err() != nil:
		return fmt.Errorf("stopped watching %s; it goes on: see `%s`", of, of.show)
	}
	return nil
}

// timeIsUp reports whether ctx's deadline has passed. A request that was sent with it may find so a moment before ctx does.
func timeIsUp(ctx context.Context) bool {
	deadline, ok := ctx.Deadline()
	return ok && time.Until(deadline) < 100*time.Millisecond
}
