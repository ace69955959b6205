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

// scripted is a Temporal server that answers as it is told: it has no workflow, unless the fields say otherwise.
type scripted struct {
	client.Client
	// query answers the nth query, list and describe every such call.
	query    func(n int64) (converter.EncodedValue, error)
	list     func() error
	describe func() (*workflowpb.WorkflowExecutionInfo, error)

	// events are those of every history, as they come; nil: it has none, and nothing ever comes.
	events chan *historypb.HistoryEvent

	queries, described atomic.Int64
}

// HasNext and Next make it a history, too.
func (s *scripted) HasNext() bool { return true }

func (s *scripted) Next() (*historypb.HistoryEvent, error) {
	event, more := <-s.events
	if !more {
		return nil, context.Canceled
	}
	return event, nil
}

func (s *scripted) GetWorkflowHistory(context.Context, string, string, bool, enumspb.HistoryEventFilterType) client.HistoryEventIterator {
	return s
}

func (s *scripted) DescribeWorkflow(context.Context, string, string) (*client.WorkflowExecutionDescription, error) {
	described := &client.WorkflowExecutionDescription{}
	described.WorkflowExecution.RunID = "run-1"
	return described, nil
}

func (s *scripted) QueryWorkflow(context.Context, string, string, string, ...any) (converter.EncodedValue, error) {
	n := s.queries.Add(1)
	if s.query == nil {
		return nil, serviceerror.NewNotFound("no such workflow")
	}
	return s.query(n)
}

func (s *scripted) ListWorkflow(context.Context, *workflowservice.ListWorkflowExecutionsRequest) (*workflowservice.ListWorkflowExecutionsResponse, error) {
	if s.list == nil {
		return &workflowservice.ListWorkflowExecutionsResponse{}, nil
	}
	return &workflowservice.ListWorkflowExecutionsResponse{}, s.list()
}

func (s *scripted) DescribeWorkflowExecution(context.Context, string, string) (*workflowservice.DescribeWorkflowExecutionResponse, error) {
	s.described.Add(1)
	if s.describe == nil {
		return nil, serviceerror.NewNotFound("no such workflow")
	}
	info, err := s.describe()
	return &workflowservice.DescribeWorkflowExecutionResponse{WorkflowExecutionInfo: info}, err
}

func (s *scripted) CheckHealth(context.Context, *client.CheckHealthRequest) (*client.CheckHealthResponse, error) {
	return &client.CheckHealthResponse{}, nil
}

// answerOf is what a query answers.
type answerOf struct{ value any }

func (answerOf) HasValue() bool { return true }

func (a answerOf) Get(into any) error {
	text, err := json.Marshal(a.value)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}

// next waits for the next view.
func (r *Reader) next(t *testing.T) *View {
	t.Helper()
	_, changed := r.View()
	select {
	case <-changed:
	case <-time.After(patience):
		require.Fail(t, "there is no next view")
	}
	view, _ := r.View()
	return view
}

func TestAFailedListMakesTheViewStale(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var fails atomic.Bool
		fails.Store(true)
		r := NewReader(&scripted{list: func() error {
			if fails.Load() {
				return serviceerror.NewUnavailable("visibility is away")
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
		time.Sleep(listAnyway + 2*askInterval)
		view, _ = r.View()
		require.NotNil(t, view.Trouble)
		require.Less(t, view.AsOf.Sub(was), listAnyway+askInterval, "what is not known is of no later time")
	})
}

func TestOneLostAnswerDoesNotMakeTheViewStale(t *testing.T) {
	server := &scripted{query: func(n int64) (converter.EncodedValue, error) {
		if n == 1 {
			return nil, serviceerror.NewWorkflowNotReady("it is being continued")
		}
		return nil, nil
	}}
	r := NewReader(server, "main", false, discard())
	close(r.listed)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	go r.keepAsking(ctx)
	require.Nil(t, r.next(t).Trouble)
}

func TestAnOlderAnswerDoesNotReplaceANewerOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answer := make(chan struct{})
		r := NewReader(&scripted{query: func(n int64) (converter.EncodedValue, error) {
			if n == 1 {
				<-answer
			}
			return answerOf{portal.View{Number: n}}, nil
		}}, "main", false, discard())
		read := func() chan error {
			done := make(chan error, 1)
			go func() { done <- r.readPortal(t.Context()) }()
			synctest.Wait() // it has come as far as it comes
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
		server := &scripted{
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
			time.Sleep(time.Duration(i) * 37 * time.Millisecond) // at any moment, also right after another change
			number.Store(i + 1)
			server.events <- &historypb.HistoryEvent{}
			time.Sleep(time.Second - 2*together)
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
		server := &scripted{describe: func() (*workflowpb.WorkflowExecutionInfo, error) { return nil, serviceerror.NewUnavailable("no") }}
		r := knowing(server, november())
		go r.upgrades.follow(t.Context(), "cgu/prod/november")
		time.Sleep(10 * time.Minute)
		asked := server.described.Load()
		require.InDelta(t, 14, asked, 2)

		time.Sleep(time.Second)
		r.upgrades.lookAgain(t.Context())
		synctest.Wait()
		require.Equal(t, asked+1, server.described.Load(), "the view is current again")
	})
}

func TestRunningWorkflowsAreReadAgainAfterAnOutage(t *testing.T) {
	server := &scripted{
		query: func(int64) (converter.EncodedValue, error) { return answerOf{november().Status}, nil },
		describe: func() (*workflowpb.WorkflowExecutionInfo, error) {
			return recorded(0, "run-1", enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING), nil
		},
	}
	stale, over := november(), october()
	stale.Status.Percentage = 1
	r := knowing(server, stale, over)
	r.upgrades.following = map[string]bool{stale.WorkflowID: true, over.WorkflowID: true}
	r.upgrades.lookAgain(t.Context())
	r.upgrades.wait()
	view, _ := r.View()
	require.EqualValues(t, 42, view.Upgrades[0].Status.Percentage)
	require.EqualValues(t, 1, server.queries.Load(), "what is over does not change")
}
