// Package observe reads how workflows stand, for those who look on: what Temporal lists, what workers answer, and when there is something new.
package observe

import (
	"context"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
)

// lookInterval is the least time between two looks at a workflow that changes all the time.
const lookInterval = 200 * time.Millisecond

// Histories is what is asked of Temporal to follow a workflow; its client answers it.
type Histories interface {
	GetWorkflowHistory(ctx context.Context, workflowID, runID string, isLongPoll bool, filter enumspb.HistoryEventFilterType) client.HistoryEventIterator
}

// Follower looks at a workflow whenever there may be something new. Temporal tells of new events by a long poll, so that nothing is asked of a
// workflow that does not change.
type Follower struct {
	Server     Histories
	WorkflowID string
	// Look looks at a run. An error ends following.
	Look func(ctx context.Context, runID string) error
	// Tick, if there is one, is called every second, for what changes with time alone.
	Tick func()
}

// HistoryError says that a workflow cannot be followed, because its history cannot be read.
type HistoryError struct{ error }

func (e HistoryError) Unwrap() error { return e.error }

// Follow looks at a run now and whenever its history has grown, then at those that continue it, until the last is over. The error may be that
// of a look, a HistoryError, or ctx's.
func (f Follower) Follow(ctx context.Context, runID string) error {
	for runID != "" {
		next, err := f.followRun(ctx, runID)
		if err != nil {
			return err
		}
		runID = next
	}
	return nil
}

// followRun looks at a run until it is over, and returns the one that continues it, if one does.
func (f Follower) followRun(ctx context.Context, runID string) (next string, err error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	grown, ended := make(chan struct{}, 1), make(chan runEnd, 1)
	go func() { ended <- f.readHistory(ctx, runID, grown) }()
	seconds, stopTicking := f.seconds()
	defer stopTicking()
	for {
		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case <-seconds:
			f.Tick()
		case <-grown:
			if err := f.Look(ctx, runID); err != nil {
				return "", err
			}
			if err := Pause(ctx, lookInterval); err != nil {
				return "", err
			}
		case end := <-ended:
			if end.err != nil || end.next != "" {
				return end.next, end.err
			}
			return "", f.Look(ctx, runID)
		}
	}
}

// seconds is a clock for Tick; one that stands still when there is none.
func (f Follower) seconds() (<-chan time.Time, func()) {
	if f.Tick == nil {
		return nil, func() {}
	}
	ticker := time.NewTicker(time.Second)
	return ticker.C, ticker.Stop
}

// Pause waits, so that what changes all the time changes a little more before the next look.
func Pause(ctx context.Context, pause time.Duration) error {
	over := time.NewTimer(pause)
	defer over.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-over.C:
		return nil
	}
}

// runEnd is how following a run ended.
type runEnd struct {
	// next is the run that continues it; empty: none.
	next string
	err  error
}

// readHistory tells grown about new events until the run is over.
func (f Follower) readHistory(ctx context.Context, runID string, grown chan<- struct{}) runEnd {
	events := f.Server.GetWorkflowHistory(ctx, f.WorkflowID, runID, true, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	var end runEnd
	for events.HasNext() {
		event, err := events.Next()
		if err != nil {
			return runEnd{err: HistoryError{err}}
		}
		end.next = event.GetWorkflowExecutionContinuedAsNewEventAttributes().GetNewExecutionRunId()
		select {
		case grown <- struct{}{}:
		default: // a look is due already
		}
	}
	return end
}
