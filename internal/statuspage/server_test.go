package statuspage

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"google.golang.org/protobuf/types/known/timestamppb"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	sreportalv1 "drydock.dev/drydock/internal/apis/sreportal/v1alpha1"
	"drydock.dev/drydock/internal/observe"
	"drydock.dev/drydock/internal/portal"
	statusv1 "drydock.dev/drydock/internal/statuspage/proto/drydock/v1"
	"drydock.dev/drydock/internal/statuspage/proto/drydock/v1/statusv1connect"
	"drydock.dev/drydock/internal/temporal"
	portalworkflow "drydock.dev/drydock/workflows/portal"
)

// Signals to simulated workflows: set the status, end with a status, and continue as new.
const (
	signalSetStatus     = "setStatus"
	signalEnd           = "end"
	signalContinueAsNew = "continueAsNew"
)

func TestTheServerOnARealTemporalServer(t *testing.T) {
	t.Parallel()
	s := newStage(t)
	t.Run("reports a portal without components, and that this is current", s.testEmpty)
	t.Run("shows the portal on the page and in the API", s.testPortal)
	t.Run("sends watchers only changes", s.testWatch)
	t.Run("finds rollouts and nodes, and follows them until they end", s.testWork)
	t.Run("follows workflows that continue as new", s.testContinueAsNew)
	t.Run("shows only the portal with PortalOnly", s.testPortalOnly)
	t.Run("explains waits to agents", s.testMCP)
	t.Run("requires the token to announce a maintenance", s.testWrites)
	t.Run("sends Temporal no more requests for many clients than for one", s.testCalls)
	t.Run("shows its last state as stale while Temporal is down", s.testAway)
	t.Run("shows its last state as stale while no worker answers", s.testStale)
}

func (s *stage) components() (*connect.Response[statusv1.ListComponentsResponse], error) {
	return s.api.ListComponents(context.Background(), connect.NewRequest(&statusv1.ListComponentsRequest{}))
}

func (s *stage) testEmpty(t *testing.T) {
	answer := eventually(t, s.components, func(a *statusv1.ListComponentsResponse) bool { return !a.GetFreshness().GetStale() })
	require.Empty(t, answer.GetComponents())
	require.Equal(t, statusv1.ServiceStatus_SERVICE_STATUS_UNKNOWN, answer.GetStatus())
	_, _, body := get(t, s.url)
	require.Contains(t, body, "Nothing is declared of portal main yet")
}

func (s *stage) testPortal(t *testing.T) {
	s.setStatus(t, temporal.StatusPortalID("main"), typeSimulatedPortal, ofPortal())
	s.setStatus(t, temporal.StatusPortalID("other"), typeSimulatedPortal, large(10).Portal)
	answer := eventually(t, s.components, func(a *statusv1.ListComponentsResponse) bool { return len(a.GetComponents()) > 0 })
	require.Len(t, answer.GetComponents(), 3, "only components of this portal")
	require.Equal(t, statusv1.ServiceStatus_SERVICE_STATUS_MAINTENANCE, answer.GetStatus())
	require.Len(t, answer.GetComponents()[0].GetDays(), 30)

	_, _, body := get(t, s.url)
	require.Contains(t, body, "Database upgrade")
	require.NotContains(t, body, "component-001")

	// Plain HTTP and JSON.
	plain, err := http.Post(s.url+"/drydock.v1.StatusService/ListMaintenances", "application/json", strings.NewReader(`{"phase":"MAINTENANCE_PHASE_UPCOMING"}`))
	require.NoError(t, err)
	defer plain.Body.Close()
	var listed struct {
		Maintenances []struct{ Title, Window string }
	}
	require.NoError(t, json.NewDecoder(plain.Body).Decode(&listed))
	require.Len(t, listed.Maintenances, 1)
	require.Equal(t, "prod/saturday-night", listed.Maintenances[0].Window)

	incidents := func(unresolvedOnly bool) (names []string) {
		answer, err := s.api.ListIncidents(t.Context(), connect.NewRequest(&statusv1.ListIncidentsRequest{UnresolvedOnly: unresolvedOnly}))
		require.NoError(t, err)
		for _, incident := range answer.Msg.GetIncidents() {
			names = append(names, incident.GetName())
		}
		return names
	}
	require.Equal(t, []string{"dns", "login"}, incidents(false))
	require.Equal(t, []string{"dns"}, incidents(true))

	// gRPC.
	h2 := &http.Transport{Protocols: new(http.Protocols)}
	h2.Protocols.SetUnencryptedHTTP2(true)
	overGRPC := statusv1connect.NewStatusServiceClient(&http.Client{Transport: h2}, s.url, connect.WithGRPC())
	one, err := overGRPC.ListComponents(t.Context(), connect.NewRequest(&statusv1.ListComponentsRequest{Group: "Tools"}))
	require.NoError(t, err)
	require.Len(t, one.Msg.GetComponents(), 1)
	h2.CloseIdleConnections()
}

func (s *stage) testWatch(t *testing.T) {
	watching, err := s.api.Watch(t.Context(), connect.NewRequest(&statusv1.WatchRequest{}))
	require.NoError(t, err)
	defer watching.Close()
	require.True(t, watching.Receive())
	require.Len(t, watching.Msg().GetComponents().GetComponents(), 3)
	require.NotNil(t, watching.Msg().GetUpgrades(), "the first message has all")
	require.Len(t, watching.Msg().GetIncidents().GetIncidents(), 2)

	worse := ofPortal()
	worse.Number, worse.Status = 2, sreportalv1.StatusMajorOutage
	worse.Components[0].Status = sreportalv1.StatusMajorOutage
	s.setStatus(t, temporal.StatusPortalID("main"), typeSimulatedPortal, worse)
	for watching.Msg().GetComponents().GetStatus() != statusv1.ServiceStatus_SERVICE_STATUS_MAJOR_OUTAGE {
		require.True(t, watching.Receive(), "the stream ended before the change: %v", watching.Err())
		require.Nil(t, watching.Msg().GetUpgrades(), "the rollouts have not changed")
	}
}

func (s *stage) upgrade() (*connect.Response[statusv1.GetUpgradeResponse], error) {
	return s.api.GetUpgrade(context.Background(), connect.NewRequest(&statusv1.GetUpgradeRequest{Namespace: "prod", Name: "november"}))
}

func (s *stage) testWork(t *testing.T) {
	id, status := temporal.ClusterGroupUpgradeID("prod", "november"), november().Status
	s.setStatus(t, id, temporal.ClusterGroupUpgrade, status)
	s.setStatus(t, temporal.NodeMaintenanceID("spoke-2", "prod", "worker-3"), temporal.NodeMaintenance, worker3().Status)
	s.disrupt(t)
	found := eventually(t, s.upgrade, func(a *statusv1.GetUpgradeResponse) bool { return a.GetUpgrade().GetBatch() == 2 })
	require.True(t, found.GetUpgrade().GetRunning())
	require.Equal(t, "BatchInProgress", found.GetUpgrade().GetWait().GetReason())
	require.Len(t, found.GetClusters(), 3)
	nodes := func() (*connect.Response[statusv1.ListNodesResponse], error) {
		return s.api.ListNodes(context.Background(), connect.NewRequest(&statusv1.ListNodesRequest{Cluster: "spoke-2"}))
	}
	node := eventually(t, nodes, func(a *statusv1.ListNodesResponse) bool {
		return len(a.GetNodes()) == 1 && len(a.GetNodes()[0].GetStates()) == 4
	})
	require.Equal(t, "Draining", node.GetNodes()[0].GetState())

	status.Percentage = 77
	s.setStatus(t, id, temporal.ClusterGroupUpgrade, status)
	eventually(t, s.upgrade, func(a *statusv1.GetUpgradeResponse) bool { return a.GetUpgrade().GetPercentage() == 77 })

	require.NoError(t, s.temporal.SignalWorkflow(t.Context(), temporal.ClusterGroupUpgradeID("prod", "november"), "", signalEnd, october().Status))
	over := eventually(t, s.upgrade, func(a *statusv1.GetUpgradeResponse) bool { return !a.GetUpgrade().GetRunning() })
	require.Equal(t, "Completed", over.GetUpgrade().GetState())
	require.NotNil(t, over.GetUpgrade().GetEndedAt())

	// A rollout that is started again with its name is running.
	s.setStatus(t, id, temporal.ClusterGroupUpgrade, status)
	s.disrupt(t)
	eventually(t, s.upgrade, func(a *statusv1.GetUpgradeResponse) bool {
		return a.GetUpgrade().GetRunning() && a.GetUpgrade().GetPercentage() == 77
	})
}

// continueAsNew makes a simulated workflow continue as new, and returns when it has.
func (s *stage) continueAsNew(t *testing.T, id string) {
	t.Helper()
	before, err := s.temporal.DescribeWorkflow(t.Context(), id, "")
	require.NoError(t, err)
	require.NoError(t, s.temporal.SignalWorkflow(t.Context(), id, "", signalContinueAsNew, nil))
	require.Eventually(t, func() bool {
		now, err := s.temporal.DescribeWorkflow(t.Context(), id, "")
		return err == nil && now.WorkflowExecution.RunID != before.WorkflowExecution.RunID
	}, patience, tick)
}

func (s *stage) testContinueAsNew(t *testing.T) {
	rollout, shows := temporal.ClusterGroupUpgradeID("prod", "november"), temporal.StatusPortalID("main")
	before, err := s.upgrade()
	require.NoError(t, err)
	for _, id := range []string{rollout, shows} {
		s.continueAsNew(t, id)
	}
	// The new status is set only in the new run.
	status := november().Status
	status.Percentage = 88
	s.setStatus(t, rollout, temporal.ClusterGroupUpgrade, status)
	after := eventually(t, s.upgrade, func(a *statusv1.GetUpgradeResponse) bool { return a.GetUpgrade().GetPercentage() == 88 })
	require.NotEqual(t, before.Msg.GetUpgrade().GetRunId(), after.GetUpgrade().GetRunId())
	require.True(t, after.GetUpgrade().GetRunning())
	next := ofPortal()
	next.Status, next.Components[0].Status = sreportalv1.StatusMajorOutage, sreportalv1.StatusMajorOutage
	next.Components[2].Description = "Builds the other components"
	s.setStatus(t, shows, typeSimulatedPortal, next)
	eventually(t, s.components, func(a *statusv1.ListComponentsResponse) bool {
		return len(a.GetComponents()) == 3 && a.GetComponents()[2].GetDescription() == "Builds the other components"
	})
}

func (s *stage) testPortalOnly(t *testing.T) {
	address, api := s.serveWith(t, Options{Temporal: s.reading, Namespace: s.namespace, Portal: "main", PortalOnly: true, Log: discard()})
	eventually(t, func() (*connect.Response[statusv1.ListComponentsResponse], error) {
		return api.ListComponents(context.Background(), connect.NewRequest(&statusv1.ListComponentsRequest{}))
	}, func(a *statusv1.ListComponentsResponse) bool {
		return len(a.GetComponents()) == 3 && !a.GetFreshness().GetStale()
	})
	_, _, body := get(t, address)
	require.Contains(t, body, "Database upgrade")
	require.NotContains(t, body, "november")
	status, _, _ := get(t, address+"/upgrades/prod/november")
	require.Equal(t, http.StatusNotFound, status)
	status, _, _ = get(t, address+"/nodes/spoke-2/worker-3")
	require.Equal(t, http.StatusNotFound, status)
	_, err := api.ListUpgrades(t.Context(), connect.NewRequest(&statusv1.ListUpgradesRequest{}))
	require.Equal(t, connect.CodePermissionDenied, connect.CodeOf(err))
	_, err = api.GetUpgrade(t.Context(), connect.NewRequest(&statusv1.GetUpgradeRequest{Namespace: "prod", Name: "november"}))
	require.Equal(t, connect.CodePermissionDenied, connect.CodeOf(err))
	_, err = api.ListNodes(t.Context(), connect.NewRequest(&statusv1.ListNodesRequest{}))
	require.Equal(t, connect.CodePermissionDenied, connect.CodeOf(err))
	watching, err := api.Watch(t.Context(), connect.NewRequest(&statusv1.WatchRequest{}))
	require.NoError(t, err)
	defer watching.Close()
	require.True(t, watching.Receive())
	require.NotNil(t, watching.Msg().GetComponents())
	require.Nil(t, watching.Msg().GetUpgrades())
	require.Nil(t, watching.Msg().GetNodes())

	session := agentAt(t, address)
	require.ElementsMatch(t, []string{"list_components", "list_maintenances", "list_incidents", "get_platform_status"}, toolsOf(t, session))
	result, err := session.CallTool(t.Context(), &mcp.CallToolParams{Name: "get_platform_status", Arguments: map[string]any{}})
	require.NoError(t, err)
	text, err := json.Marshal(result.StructuredContent)
	require.NoError(t, err)
	require.Contains(t, string(text), `"unread":["rollouts and nodes: this server does not show them"]`)
}

// testWrites uses the real workflow of a portal.
func (s *stage) testWrites(t *testing.T) {
	options := temporal.StatusPortalOptions("real")
	_, err := s.temporal.UpdateWithStartWorkflow(t.Context(), client.UpdateWithStartWorkflowOptions{
		StartWorkflowOperation: s.temporal.NewWithStartWorkflowOperation(options, temporal.StatusPortal, portalworkflow.Input{}),
		UpdateOptions: client.UpdateWorkflowOptions{
			WorkflowID: options.ID, UpdateName: temporal.UpdateApply, WaitForStage: client.WorkflowUpdateStageCompleted,
			Args: []any{portal.ApplyRequest{Components: []sreportalv1.Component{{
				ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "api"},
				Spec:       sreportalv1.ComponentSpec{DisplayName: "API", Group: "Core", PortalRef: "real", Status: sreportalv1.StatusOperational},
			}}}},
		},
	})
	require.NoError(t, err)
	_, api := s.serve(t, "real")
	components := func() (*connect.Response[statusv1.ListComponentsResponse], error) {
		return api.ListComponents(context.Background(), connect.NewRequest(&statusv1.ListComponentsRequest{}))
	}
	is := func(status statusv1.ServiceStatus) func(*statusv1.ListComponentsResponse) bool {
		return func(a *statusv1.ListComponentsResponse) bool { return a.GetStatus() == status }
	}
	eventually(t, components, is(statusv1.ServiceStatus_SERVICE_STATUS_OPERATIONAL))

	now := time.Now().Truncate(time.Second)
	create := func(bearer string, change func(*statusv1.CreateMaintenanceRequest)) error {
		message := &statusv1.CreateMaintenanceRequest{
			Name: "new-disks", Title: "New disks", Start: timestamppb.New(now), End: timestamppb.New(now.Add(time.Hour)), Components: []string{"api"},
		}
		change(message)
		request := connect.NewRequest(message)
		request.Header().Set("Authorization", bearer)
		_, err := api.CreateMaintenance(t.Context(), request)
		return err
	}
	asIs := func(*statusv1.CreateMaintenanceRequest) {}
	for _, bearer := range []string{"", "Bearer", "Bearer ", "Bearer wrong", "Bearer " + token[:len(token)-1], "Bearer " + token + "x", "Basic " + token, token} {
		require.Equal(t, connect.CodeUnauthenticated, connect.CodeOf(create(bearer, asIs)), bearer)
	}
	for name, wrong := range map[string]func(*statusv1.CreateMaintenanceRequest){
		"metadata.name":     func(m *statusv1.CreateMaintenanceRequest) { m.Name = "New Disks" },
		"start":             func(m *statusv1.CreateMaintenanceRequest) { m.Start = nil },
		"spec.title":        func(m *statusv1.CreateMaintenanceRequest) { m.Title = "" },
		"spec.scheduledEnd": func(m *statusv1.CreateMaintenanceRequest) { m.End = m.GetStart() },
	} {
		err := create("Bearer "+token, wrong)
		require.Equal(t, connect.CodeInvalidArgument, connect.CodeOf(err), "%s: %v", name, err)
		require.ErrorContains(t, err, name)
	}
	require.NoError(t, create("Bearer "+token, asIs))
	eventually(t, components, is(statusv1.ServiceStatus_SERVICE_STATUS_MAINTENANCE))

	cancel := func(name string) error {
		request := connect.NewRequest(&statusv1.CancelMaintenanceRequest{Name: name, Reason: "no disks"})
		request.Header().Set("Authorization", "Bearer "+token)
		_, err := api.CancelMaintenance(t.Context(), request)
		return err
	}
	require.NoError(t, cancel("new-disks"))
	eventually(t, components, is(statusv1.ServiceStatus_SERVICE_STATUS_OPERATIONAL))
	err = cancel("old-disks")
	require.Equal(t, connect.CodeInvalidArgument, connect.CodeOf(err))
	require.ErrorContains(t, err, "the portal has no maintenance old-disks")

	// A portal that does not run yet starts with the announced maintenance.
	_, api = s.serve(t, "fresh")
	require.Equal(t, connect.CodeFailedPrecondition, connect.CodeOf(cancel("new-disks")))
	require.NoError(t, create("Bearer "+token, asIs))
	eventually(t, func() (*connect.Response[statusv1.ListMaintenancesResponse], error) {
		return api.ListMaintenances(context.Background(), connect.NewRequest(&statusv1.ListMaintenancesRequest{}))
	}, func(a *statusv1.ListMaintenancesResponse) bool { return len(a.GetMaintenances()) == 1 })
}

func (s *stage) testCalls(t *testing.T) {
	before := s.calls.Load()
	begun := time.Now()
	for range 100 {
		status, _, _ := get(t, s.url)
		require.Equal(t, http.StatusOK, status)
		_, err := s.components()
		require.NoError(t, err)
	}
	// The reader's own requests continue meanwhile: its periodic checks and lists.
	rounds := 2 + int64(time.Since(begun)/askInterval)
	require.Less(t, s.calls.Load()-before, 20*rounds, "200 requests")
}

func (s *stage) testAway(t *testing.T) {
	before, err := s.components()
	require.NoError(t, err)
	require.NoError(t, s.process.Kill())
	answer := eventually(t, s.components, func(a *statusv1.ListComponentsResponse) bool { return a.GetFreshness().GetStale() })
	require.Equal(t, "Temporal does not answer", answer.GetFreshness().GetTrouble())
	since, asOf := answer.GetFreshness().GetStaleSince().AsTime(), answer.GetFreshness().GetAsOf().AsTime()
	require.False(t, since.Before(asOf), "the state was current until then")
	require.Equal(t, len(before.Msg.GetComponents()), len(answer.GetComponents()), "the last state is shown")
	code, _, body := get(t, s.url)
	require.Equal(t, http.StatusOK, code)
	require.Contains(t, body, `Temporal does not answer since <time datetime="`+since.Format(time.RFC3339)+`"`)
	require.Contains(t, body, `What you see is how things were at <time datetime="`+asOf.Format(time.RFC3339)+`"`)
	later := eventually(t, s.components, func(a *statusv1.ListComponentsResponse) bool { return a.GetFreshness().GetStale() })
	require.Equal(t, since, later.GetFreshness().GetStaleSince().AsTime(), "the start of the outage stays")

	require.NoError(t, s.process.Start(t.Context()))
	eventually(t, s.components, func(a *statusv1.ListComponentsResponse) bool { return !a.GetFreshness().GetStale() })
	// Changes arrive again.
	status := november().Status
	status.Percentage = 93
	s.setStatus(t, temporal.ClusterGroupUpgradeID("prod", "november"), temporal.ClusterGroupUpgrade, status)
	eventually(t, s.upgrade, func(a *statusv1.GetUpgradeResponse) bool { return a.GetUpgrade().GetPercentage() == 93 })
	worst := ofPortal()
	worst.Status = sreportalv1.StatusPartialOutage
	s.setStatus(t, temporal.StatusPortalID("main"), typeSimulatedPortal, worst)
	eventually(t, s.components, func(a *statusv1.ListComponentsResponse) bool {
		return a.GetStatus() == statusv1.ServiceStatus_SERVICE_STATUS_PARTIAL_OUTAGE
	})
}

func (s *stage) testStale(t *testing.T) {
	s.worker.Stop()
	// The stopping worker may still answer.
	answer := eventually(t, s.components, func(a *statusv1.ListComponentsResponse) bool {
		return a.GetFreshness().GetTrouble() == "No Drydock worker answers"
	})
	require.True(t, answer.GetFreshness().GetStale())
	require.NotNil(t, answer.GetFreshness().GetStaleSince())
	require.NotEmpty(t, answer.GetComponents(), "the last state is shown")
	_, _, body := get(t, s.url)
	require.Contains(t, body, "No Drydock worker answers since")
	require.Contains(t, body, "Last known: ")

	// The server may notice it first, with its own message.
	require.Eventually(t, func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), observe.AnswerTimeout)
		defer cancel()
		_, err := s.temporal.QueryWorkflow(ctx, temporal.StatusPortalID("main"), "", temporal.QueryStatus)
		_, unpolled := errors.AsType[*serviceerror.FailedPrecondition](err)
		return unpolled
	}, patience, tick)
	require.ErrorIs(t, observe.Status(t.Context(), s.temporal, temporal.StatusPortalID("main"), "", &portal.View{}), observe.ErrNoWorker)

	s.startWorker(t)
	defer s.worker.Stop()
	eventually(t, s.components, func(a *statusv1.ListComponentsResponse) bool { return !a.GetFreshness().GetStale() })
}
