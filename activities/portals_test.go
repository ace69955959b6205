package activities

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"drydock.dev/drydock/internal/portal"
	"drydock.dev/drydock/internal/temporal"
)

// portalsServer is a Temporal that has listed workflows, some of which are over by now.
type portalsServer struct {
	mu               sync.Mutex
	listed           []string
	answers          map[string]error
	signalled, begun []string
}

func (s *portalsServer) ListWorkflow(context.Context, *workflowservice.ListWorkflowExecutionsRequest) (*workflowservice.ListWorkflowExecutionsResponse, error) {
	page := &workflowservice.ListWorkflowExecutionsResponse{}
	for _, id := range s.listed {
		page.Executions = append(page.Executions, &workflowpb.WorkflowExecutionInfo{Execution: &commonpb.WorkflowExecution{WorkflowId: id}})
	}
	return page, nil
}

func (s *portalsServer) SignalWorkflow(_ context.Context, id, _, signal string, _ any) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.signalled = append(s.signalled, id+" "+signal)
	return s.answers[id]
}

func (s *portalsServer) SignalWithStartWorkflow(_ context.Context, id, signal string, _ any, _ client.StartWorkflowOptions, _ any, _ ...any) (client.WorkflowRun, error) {
	s.begun = append(s.begun, id+" "+signal)
	return nil, s.answers[id]
}

func TestOtherPortalsAreToldWhatOneShowsNow(t *testing.T) {
	server := &portalsServer{listed: []string{"portal/main", "portal/other", "portal/over"}, answers: map[string]error{"portal/over": serviceerror.NewNotFound("it is over")}}
	portals := &Portals{Temporal: server}
	require.NoError(t, portals.ClaimObjects(t.Context(), portal.Move{To: "main"}), "one that is over need not know")
	require.ElementsMatch(t, []string{"portal/other moved", "portal/over moved"}, server.signalled)
	server.answers["portal/other"] = errors.New("nobody answers")
	require.ErrorContains(t, portals.ClaimObjects(t.Context(), portal.Move{To: "main"}), "portal main shows now: nobody answers")
	require.ErrorContains(t, portals.SeekWindows(t.Context(), "main"), "announce themselves to portal main")
}

func TestAWindowBeginsThePortalThatShowsItAndNoOther(t *testing.T) {
	server := &portalsServer{answers: map[string]error{"portal/before": serviceerror.NewNotFound("it is over")}}
	portals := &Portals{Temporal: server}
	for _, name := range []string{"main", "before"} {
		in := AnnounceWindowInput{Portal: name, Announcement: portal.Announcement{Window: "prod/night", Portal: "main"}}
		require.NoError(t, portals.AnnounceWindow(t.Context(), in))
	}
	require.Equal(t, []string{"portal/main " + temporal.SignalAnnouncement}, server.begun)
	require.Equal(t, []string{"portal/before " + temporal.SignalAnnouncement}, server.signalled)
}
