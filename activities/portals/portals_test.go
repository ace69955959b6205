package portals

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/testsuite"

	"drydock.dev/drydock/internal/portal"
	"drydock.dev/drydock/internal/temporal"
)

// portalsServer is a Temporal server that lists workflows, some of which are closed.
type portalsServer struct {
	mu               sync.Mutex
	listed           []string
	answers          map[string]error
	signalled, begun []string
}

// ListWorkflow returns two workflows per page.
func (s *portalsServer) ListWorkflow(_ context.Context, request *workflowservice.ListWorkflowExecutionsRequest) (*workflowservice.ListWorkflowExecutionsResponse, error) {
	page := &workflowservice.ListWorkflowExecutionsResponse{}
	from, _ := strconv.Atoi(string(request.NextPageToken))
	to := min(from+2, len(s.listed))
	if to < len(s.listed) {
		page.NextPageToken = []byte(strconv.Itoa(to))
	}
	for _, id := range s.listed[from:to] {
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

// newPortalsEnvironment runs activities of a server, one attempt each.
func newPortalsEnvironment(server *portalsServer) (*Activities, *testsuite.TestActivityEnvironment) {
	var suite testsuite.WorkflowTestSuite
	environment := suite.NewTestActivityEnvironment()
	portals := &Activities{Temporal: server}
	environment.RegisterActivity(portals)
	return portals, environment
}

func TestOtherPortalsAreInformedOfAChange(t *testing.T) {
	server := &portalsServer{listed: []string{"portal/main", "portal/other", "portal/closed"}, answers: map[string]error{"portal/closed": serviceerror.NewNotFound("the workflow is closed")}}
	portals, environment := newPortalsEnvironment(server)
	_, err := environment.ExecuteActivity(portals.ClaimObjects, portal.Move{To: "main"})
	require.NoError(t, err, "a closed portal is skipped")
	require.ElementsMatch(t, []string{"portal/other moved", "portal/closed moved"}, server.signalled)
	server.answers["portal/other"] = errors.New("no answer")
	_, err = environment.ExecuteActivity(portals.ClaimObjects, portal.Move{To: "main"})
	require.ErrorContains(t, err, "objects of portal main: no answer")
	_, err = environment.ExecuteActivity(portals.RequestAnnouncements, "main")
	require.ErrorContains(t, err, "announcements of windows to portal main")
}

func TestARetryOfManyMessagesResumesAtTheFailedOne(t *testing.T) {
	server := &portalsServer{listed: []string{"portal/a", "portal/b", "portal/c", "portal/d"}, answers: map[string]error{"portal/d": errors.New("no answer")}}
	portals, environment := newPortalsEnvironment(server)
	var reached []byte
	environment.SetOnActivityHeartbeatListener(func(_ *activity.Info, details converter.EncodedValues) { require.NoError(t, details.Get(&reached)) })
	_, err := environment.ExecuteActivity(portals.ClaimObjects, portal.Move{To: "main"})
	require.ErrorContains(t, err, "no answer")
	require.Equal(t, []byte("2"), reached)

	server.answers, server.signalled = nil, nil
	portals, environment = newPortalsEnvironment(server)
	environment.SetHeartbeatDetails(reached)
	_, err = environment.ExecuteActivity(portals.ClaimObjects, portal.Move{To: "main"})
	require.NoError(t, err)
	require.ElementsMatch(t, []string{"portal/c moved", "portal/d moved"}, server.signalled)
}

func TestAWindowStartsOnlyThePortalThatShowsIt(t *testing.T) {
	server := &portalsServer{answers: map[string]error{"portal/before": serviceerror.NewNotFound("the workflow is closed")}}
	portals := &Activities{Temporal: server}
	for _, name := range []string{"main", "before"} {
		in := AnnounceWindowInput{Portal: name, Announcement: portal.Announcement{Window: "prod/night", Portal: "main"}}
		require.NoError(t, portals.AnnounceWindow(t.Context(), in))
	}
	require.Equal(t, []string{"portal/main " + temporal.SignalAnnouncement}, server.begun)
	require.Equal(t, []string{"portal/before " + temporal.SignalAnnouncement}, server.signalled)
}
