package statuspage

import (
	"context"
	"encoding/json"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"

	"drydock.dev/drydock/internal/portal"
)

// fakeServer is a Temporal server whose answers a test sets. By default it has no workflow.
type fakeServer struct {
	client.Client
	// query answers the nth query; list and describe answer every such call.
	query    func(n int64) (converter.EncodedValue, error)
	list     func() error
	describe func() (*workflowpb.WorkflowExecutionInfo, error)

	// events are the events of every history; nil: a history never has one.
	events chan *historypb.HistoryEvent

	queries, described atomic.Int64
}

// HasNext and Next implement client.HistoryEventIterator.
func (s *fakeServer) HasNext() bool { return true }

func (s *fakeServer) Next() (*historypb.HistoryEvent, error) {
	event, more := <-s.events
	if !more {
		return nil, context.Canceled
	}
	return event, nil
}

func (s *fakeServer) GetWorkflowHistory(context.Context, string, string, bool, enumspb.HistoryEventFilterType) client.HistoryEventIterator {
	return s
}

func (s *fakeServer) DescribeWorkflow(context.Context, string, string) (*client.WorkflowExecutionDescription, error) {
	described := &client.WorkflowExecutionDescription{}
	described.WorkflowExecution.RunID = "run-1"
	return described, nil
}

func (s *fakeServer) QueryWorkflow(context.Context, string, string, string, ...any) (converter.EncodedValue, error) {
	n := s.queries.Add(1)
	if s.query == nil {
		return nil, serviceerror.NewNotFound("no such workflow")
	}
	return s.query(n)
}

func (s *fakeServer) ListWorkflow(context.Context, *workflowservice.ListWorkflowExecutionsRequest) (*workflowservice.ListWorkflowExecutionsResponse, error) {
	if s.list == nil {
		return &workflowservice.ListWorkflowExecutionsResponse{}, nil
	}
	return &workflowservice.ListWorkflowExecutionsResponse{}, s.list()
}

func (s *fakeServer) DescribeWorkflowExecution(context.Context, string, string) (*workflowservice.DescribeWorkflowExecutionResponse, error) {
	s.described.Add(1)
	if s.describe == nil {
		return nil, serviceerror.NewNotFound("no such workflow")
	}
	info, err := s.describe()
	return &workflowservice.DescribeWorkflowExecutionResponse{WorkflowExecutionInfo: info}, err
}

func (s *fakeServer) CheckHealth(context.Context, *client.CheckHealthRequest) (*client.CheckHealthResponse, error) {
	return &client.CheckHealthResponse{}, nil
}

// answerOf is the answer of a query.
type answerOf struct{ value any }

func (answerOf) HasValue() bool { return true }

func (a answerOf) Get(into any) error {
	text, err := json.Marshal(a.value)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}

func TestAFailedListMakesTheViewStale(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var fails atomic.Bool
		fails.Store(true)
		r := NewReader(&fakeServer{list: func() error {
			if fails.Load() {
				return serviceerror.NewUnavailable("visibility is down")
			}
			return nil
		}}, "main", false, discard())
		go r.Run(t.Context())
		time.Sleep(2 * askInterval)
		view, _ := r.View()
		require.NotNil(t, view.Trouble)
		require.Equal(t, "Cannot list rollouts and nodes", view.Trouble.Message)
		require.Zero(t, view.AsOf)

		fails.Store(false)
		time.Sleep(2 * askInterval)
		view, _ = r.View()
		require.Nil(t, view.Trouble)
		was := view.AsOf

		fails.Store(true)
		time.Sleep(maxListInterval + 2*askInterval)
		view, _ = r.View()
		require.NotNil(t, view.Trouble)
		require.Less(t, view.AsOf.Sub(was), maxListInterval+askInterval, "a stale view keeps its time")
	})
}

func TestOneLostAnswerDoesNotMakeTheViewStale(t *testing.T) {
	server := &fakeServer{query: func(n int64) (converter.EncodedValue, error) {
		if n == 1 {
			return nil, serviceerror.NewWorkflowNotReady("it continues as new")
		}
		return nil, nil
	}}
	r := NewReader(server, "main", false, discard())
	close(r.listed)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	_, changed := r.View()
	go r.checkPeriodically(ctx)
	select {
	case <-changed:
	case <-time.After(patience):
		require.Fail(t, "there is no next view")
	}
	view, _ := r.View()
	require.Nil(t, view.Trouble)
}

func TestAnOlderAnswerDoesNotReplaceANewerOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answer := make(chan struct{})
		r := NewReader(&fakeServer{query: func(n int64) (converter.EncodedValue, error) {
			if n == 1 {
				<-answer
			}
			return answerOf{portal.View{Number: n}}, nil
		}}, "main", false, discard())
		read := func() chan error {
			done := make(chan error, 1)
			go func() { done <- r.readPortal(t.Context()) }()
			synctest.Wait() // the older read is blocked
			return done
		}
		first, second := read(), read()
		close(answer)
		require.NoError(t, <-first)
		require.NoError(t, <-second)
		view, _ := r.View()
		require.EqualValues(t, 2, view.Portal.Number)
	})
}

func TestAChangeOfThePortalIsReadWithinASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var number atomic.Int64
		server := &fakeServer{
			query: func(int64) (converter.EncodedValue, error) { return answerOf{portal.View{Number: number.Load()}}, nil },
			describe: func() (*workflowpb.WorkflowExecutionInfo, error) {
				return recorded(0, "run-1", enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING), nil
			},
			events: make(chan *historypb.HistoryEvent),
		}
		r := NewReader(server, "main", true, discard())
		ctx, stop := context.WithCancel(t.Context())
		go r.Run(ctx)
		for i := range int64(50) {
			time.Sleep(time.Duration(i) * 37 * time.Millisecond) // at various times after the previous change
			number.Store(i + 1)
			server.events <- &historypb.HistoryEvent{}
			time.Sleep(time.Second - 2*batchDelay)
			view, _ := r.View()
			require.EqualValues(t, i+1, view.Portal.Number)
		}
		stop()
		close(server.events)
		synctest.Wait()
	})
}

func TestAFailingWorkflowIsReadWithBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &fakeServer{describe: func() (*workflowpb.WorkflowExecutionInfo, error) { return nil, serviceerror.NewUnavailable("no") }}
		r := readerWith(server, november())
		go r.upgrades.follow(t.Context(), "cgu/prod/november")
		time.Sleep(10 * time.Minute)
		described := server.described.Load()
		require.InDelta(t, 14, described, 2)

		time.Sleep(time.Second)
		r.upgrades.refresh(t.Context())
		synctest.Wait()
		require.Equal(t, described+1, server.described.Load(), "the view is current again")
	})
}

func TestRunningWorkflowsAreReadAgainAfterAnOutage(t *testing.T) {
	server := &fakeServer{
		query: func(int64) (converter.EncodedValue, error) { return answerOf{november().Status}, nil },
		describe: func() (*workflowpb.WorkflowExecutionInfo, error) {
			return recorded(0, "run-1", enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING), nil
		},
	}
	stale, over := november(), october()
	stale.Status.Percentage = 1
	r := readerWith(server, stale, over)
	r.upgrades.following = map[string]bool{stale.WorkflowID: true, over.WorkflowID: true}
	r.upgrades.refresh(t.Context())
	r.upgrades.wait()
	view, _ := r.View()
	require.EqualValues(t, 42, view.Upgrades[0].Status.Percentage)
	require.EqualValues(t, 1, server.queries.Load(), "an ended workflow is not read again")
}
