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

// follow calls read now and whenever the history of a subject grows, until its workflow closes. It calls tick every second.
func (s *server) follow(ctx context.Context, of subject, read func(context.Context, *client.WorkflowExecutionDescription) error, tick func()) error {
	execution, err := s.describe(ctx, of, "")
	if err == nil {
		follower := observe.Follower{Server: s, WorkflowID: of.workflowID, Tick: tick, Read: func(ctx context.Context, runID string) error {
			execution, err := s.describe(ctx, of, runID)
			if err != nil {
				return err
			}
			return read(ctx, execution)
		}}
		err = follower.Follow(ctx, execution.WorkflowExecution.RunID)
	}
	if unread, ok := errors.AsType[observe.HistoryError](err); ok {
		err = s.explain("follow", of, unread.Unwrap())
	}
	if err == nil {
		return nil
	}
	return cmp.Or(stillRunning(ctx, of), err)
}

// stillRunning is the error of a subject that was followed until ctx was done; nil while ctx is not done.
func stillRunning(ctx context.Context, of subject) error {
	switch {
	case timeIsUp(ctx):
		return fmt.Errorf("%s has not ended within --timeout and continues: see `%s`", of, of.show)
	case ctx.Err() != nil:
		return fmt.Errorf("stopped watching %s, which continues: see `%s`", of, of.show)
	}
	return nil
}

// timeIsUp reports whether ctx's deadline has passed. A request with that deadline may fail a moment before ctx is done.
func timeIsUp(ctx context.Context) bool {
	deadline, ok := ctx.Deadline()
	return ok && time.Until(deadline) < 100*time.Millisecond
}
