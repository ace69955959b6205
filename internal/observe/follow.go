// Package observe reads the status of workflows: from visibility, from queries to workers, and whenever a history grows.
package observe

import (
	"context"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/client"
)

// readInterval is the minimum time between two reads of a workflow.
const readInterval = 200 * time.Millisecond

// Histories is the part of Temporal's client that Follower needs.
type Histories interface {
	GetWorkflowHistory(ctx context.Context, workflowID, runID string, isLongPoll bool, filter enumspb.HistoryEventFilterType) client.HistoryEventIterator
}

// Follower calls Read whenever the history of a workflow has grown. It uses a long poll, so that an idle workflow causes no queries.
type Follower struct {
	Server     Histories
	WorkflowID string
	// Read reads the status of a run. An error ends following.
	Read func(ctx context.Context, runID string) error
	// Event is called with each event of a run, by another goroutine than Read; it may be nil.
	Event func(runID string, event *historypb.HistoryEvent)
	// Tick is called every second, for text that changes with time; it may be nil.
	Tick func()
}

// HistoryError is a failure to read the history of a followed workflow.
type HistoryError struct{ error }

func (e HistoryError) Unwrap() error { return e.error }

// Follow reads a run now and whenever its history grows, then the runs that continue it, until the last one closes. The error is that of
// Read, a HistoryError, or ctx's.
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

// followRun follows a run until it closes, and returns the run that continues it, if any.
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
			if err := f.Read(ctx, runID); err != nil {
				return "", err
			}
			if err := Pause(ctx, readInterval); err != nil {
				return "", err
			}
		case end := <-ended:
			if end.err != nil || end.next != "" {
				return end.next, end.err
			}
			return "", f.Read(ctx, runID)
		}
	}
}

// seconds is a ticker for Tick; a nil channel without Tick.
func (f Follower) seconds() (<-chan time.Time, func()) {
	if f.Tick == nil {
		return nil, func() {}
	}
	ticker := time.NewTicker(time.Second)
	return ticker.C, ticker.Stop
}

// Pause waits for a duration or until ctx is done.
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
	// next is the run that continues it; empty without one.
	next string
	err  error
}

// readHistory signals grown for new events until the run closes.
func (f Follower) readHistory(ctx context.Context, runID string, grown chan<- struct{}) runEnd {
	events := f.Server.GetWorkflowHistory(ctx, f.WorkflowID, runID, true, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	var end runEnd
	for events.HasNext() {
		event, err := events.Next()
		if err != nil {
			return runEnd{err: HistoryError{err}}
		}
		if f.Event != nil {
			f.Event(runID, event)
		}
		end.next = event.GetWorkflowExecutionContinuedAsNewEventAttributes().GetNewExecutionRunId()
		select {
		case grown <- struct{}{}:
		default: // a read is due already
		}
	}
	return end
}
