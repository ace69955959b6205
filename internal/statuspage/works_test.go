package statuspage

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"google.golang.org/protobuf/types/known/timestamppb"

	"drydock.dev/drydock/internal/observe"
)

// recordedServer is a Temporal server with one recorded workflow.
type recordedServer struct {
	client.Client
	info *workflowpb.WorkflowExecutionInfo
	// end is how the workflow ended.
	end error
}

func (s *recordedServer) DescribeWorkflowExecution(context.Context, string, string) (*workflowservice.DescribeWorkflowExecutionResponse, error) {
	return &workflowservice.DescribeWorkflowExecutionResponse{WorkflowExecutionInfo: s.info}, nil
}

func (s *recordedServer) GetWorkflow(context.Context, string, string) client.WorkflowRun {
	return recordedRun{err: s.end}
}

type recordedRun struct {
	client.WorkflowRun
	err error
}

func (r recordedRun) Get(context.Context, any) error { return r.err }

func (s *recordedServer) ListWorkflow(_ context.Context, in *workflowservice.ListWorkflowExecutionsRequest) (*workflowservice.ListWorkflowExecutionsResponse, error) {
	if strings.Contains(in.GetQuery(), "!= 'Running'") {
		return &workflowservice.ListWorkflowExecutionsResponse{}, nil
	}
	return &workflowservice.ListWorkflowExecutionsResponse{Executions: slices.Repeat([]*workflowpb.WorkflowExecutionInfo{s.info}, listed)}, nil
}

func (s *recordedServer) CountWorkflow(context.Context, *workflowservice.CountWorkflowExecutionsRequest) (*workflowservice.CountWorkflowExecutionsResponse, error) {
	return &workflowservice.CountWorkflowExecutionsResponse{Count: listed + 5}, nil
}

// recorded is a rollout that began this long after noon.
func recorded(after time.Duration, chain string, status enumspb.WorkflowExecutionStatus) *workflowpb.WorkflowExecutionInfo {
	info := &workflowpb.WorkflowExecutionInfo{
		Execution: &commonpb.WorkflowExecution{WorkflowId: "cgu/prod/november", RunId: chain}, FirstRunId: chain,
		Status: status, StartTime: timestamppb.New(noon.Add(after)),
	}
	if status != enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING {
		info.CloseTime = timestamppb.New(noon.Add(after + time.Hour))
	}
	return info
}

// readerWith returns a reader with these rollouts.
func readerWith(server client.Client, upgrades ...Upgrade) *Reader {
	r := NewReader(server, "main", false, discard())
	for _, u := range upgrades {
		r.upgrades.works[u.WorkflowID] = u
	}
	return r
}

func TestARolloutClosedWithoutAStatusIsFinished(t *testing.T) {
	r := readerWith(&recordedServer{info: recorded(0, "run-1", enumspb.WORKFLOW_EXECUTION_STATUS_FAILED), end: errors.New("it panicked")}, november())
	require.NoError(t, r.upgrades.followToEnd(t.Context(), "cgu/prod/november"), "there is nothing to retry")
	view, _ := r.View()
	require.False(t, view.Upgrades[0].Running())
	state, _ := verdict(view.Upgrades[0])
	require.Equal(t, "Failed", state)
	require.EqualValues(t, 42, view.Upgrades[0].Status.Percentage, "the last status stays")
}

func TestAFinishedRolloutIsReadLaterIfItsStatusIsUnavailable(t *testing.T) {
	r := readerWith(&recordedServer{info: recorded(0, "run-1", enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED), end: serviceerror.NewUnavailable("no")}, november())
	require.Error(t, r.upgrades.followToEnd(t.Context(), "cgu/prod/november"))
	view, _ := r.View()
	require.False(t, view.Upgrades[0].Running())
	require.False(t, view.Upgrades[0].settled)
}

func TestARestartedRolloutHasNoStateOfThePreviousRun(t *testing.T) {
	var u Upgrade
	u.update(observe.NewRow(recorded(0, "run-1", enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING)), "run-1")
	u.Status.Percentage, u.Known = 42, true
	continued := recorded(time.Hour, "run-1", enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING)
	u.update(observe.NewRow(continued), continued.GetFirstRunId())
	require.True(t, u.Known, "the same rollout, continued as new")
	restarted := recorded(2*time.Hour, "run-2", enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING)
	u.update(observe.NewRow(restarted), restarted.GetFirstRunId())
	require.False(t, u.Known)
	require.Zero(t, u.Status.Percentage)

	ended := october()
	ended.update(observe.NewRow(restarted), "")
	require.False(t, ended.Known, "a new rollout with the name has no status yet")
}

func TestALateAnswerDoesNotRestoreARemovedWorkflow(t *testing.T) {
	r := readerWith(nil)
	r.upgrades.change("cgu/prod/november", func(u *Upgrade) { u.Known = true })
	require.Empty(t, r.upgrades.works)
}

func TestAnUnchangedStatusIsNotPublished(t *testing.T) {
	r := readerWith(nil, november())
	before, _ := r.View()
	r.upgrades.change("cgu/prod/november", func(u *Upgrade) { u.Known = true })
	after, _ := r.View()
	require.Equal(t, before.Number, after.Number)
}

func TestOmittedEntriesAreCounted(t *testing.T) {
	r := readerWith(&recordedServer{info: recorded(0, "run-1", enumspb.WORKFLOW_EXECUTION_STATUS_FAILED)})
	require.NoError(t, r.upgrades.list(t.Context()))
	r.upgrades.wait()
	view, _ := r.View()
	require.Equal(t, 5, view.MoreUpgrades)
}

func TestTruncatedListsShowTheirCount(t *testing.T) {
	running, over := november().Row, november().Row
	ended := running.StartedAt.Add(time.Hour)
	over.CompletedAt = &ended
	later := running
	later.StartedAt = ended
	phased := running
	phased.Phase = "InProgress"
	read, unread, settled := november(), november(), november()
	unread.Known = false
	settled.CompletedAt, settled.settled = &ended, true
	for _, test := range []struct {
		name     string
		known    Upgrade
		row      observe.Row
		outdated bool
	}{
		{"a read workflow continues", read, phased, false},
		{"a read workflow ends", read, over, true},
		{"an unread workflow changes", unread, phased, true},
		{"an unread workflow is unchanged", unread, running, false},
		{"the list lags behind: an ended workflow is listed as running", settled, running, false},
		{"an ended workflow is started again", settled, later, true},
		{"an earlier run ended", Upgrade{Row: later}, over, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			require.Equal(t, test.outdated, test.known.outdatedBy(test.row))
			r := readerWith(nil, test.known)
			require.Equal(t, test.outdated, r.upgrades.merge([]observe.Row{test.row}))
		})
	}
}
