package statuspage

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	sreportalv1 "drydock.dev/drydock/internal/apis/sreportal/v1alpha1"
	"drydock.dev/drydock/internal/observe"
	"drydock.dev/drydock/internal/portal"
)

const (
	// patience limits each wait on a busy machine.
	patience = 2 * time.Minute
	// tick is how often a condition is checked.
	tick = 20 * time.Millisecond
)

// token is the token of servers that accept changes.
const token = "0123456789abcdef"

// shown returns a server with this view, without a Temporal server.
func shown(t testing.TB, view View) (*Server, *httptest.Server) {
	t.Helper()
	s, err := New(Options{Namespace: "default", Portal: "main", WebUI: "http://127.0.0.1:8233", Access: Access{Token: token}, Log: discard()})
	require.NoError(t, err)
	s.show(view)
	web := httptest.NewServer(s.Handler())
	t.Cleanup(func() {
		s.endStreams()
		web.Close()
	})
	return s, web
}

// show sets the view of the server, as if it had just been read.
func (s *Server) show(view View) {
	s.reader.publish(func(v *View) bool {
		number, revisions := v.Number, v.revisions
		*v = view
		v.Number = number
		v.revisions.portal, v.revisions.upgrades, v.revisions.nodes = revisions.portal+1, revisions.upgrades+1, revisions.nodes+1
		return true
	})
}

// noon is the time of the views.
var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// fleet is a view with a portal, rollouts and nodes.
func fleet() View {
	return View{Portal: ofPortal(), Upgrades: []Upgrade{november(), october()}, Nodes: []Node{worker3()}, AsOf: noon}
}

func ofPortal() *portal.View {
	return &portal.View{
		Name: "main", Number: 1, Status: sreportalv1.StatusMaintenance, AsOf: noon,
		Components: []portal.ComponentView{
			component("api", "API", "Core", sreportalv1.StatusOperational),
			component("registry", "Registry", "Core", sreportalv1.StatusMaintenance, "db-upgrade"),
			component("ci", "Build farm", "Tools", sreportalv1.StatusOperational),
		},
		InProgress: []portal.MaintenanceView{{
			Name: "db-upgrade", Title: "Database upgrade", Description: "The registry is read-only.", Components: []string{"registry"},
			Start: noon.Add(-time.Hour), End: noon.Add(time.Hour), Phase: sreportalv1.PhaseInProgress, AffectedStatus: sreportalv1.StatusMaintenance,
		}},
		Upcoming: []portal.MaintenanceView{{
			Name: "saturday-night", Title: "Saturday night", Components: []string{"ci"}, Start: noon.Add(10 * time.Hour), End: noon.Add(14 * time.Hour),
			Phase: sreportalv1.PhaseUpcoming, AffectedStatus: sreportalv1.StatusMaintenance, Window: "prod/saturday-night",
		}},
		Incidents: []portal.IncidentView{
			{Name: "dns", Title: "Names do not resolve", Severity: sreportalv1.SeverityMajor, Phase: sreportalv1.IncidentMonitoring, Components: []string{"ci"}, StartedAt: noon.Add(-2 * time.Hour), Message: "The cache is filled again."},
			{Name: "login", Title: "No login", Severity: sreportalv1.SeverityMinor, Phase: sreportalv1.IncidentResolved, StartedAt: noon.Add(-30 * time.Hour), ResolvedAt: new(noon.Add(-29 * time.Hour)), Message: "A certificate was renewed."},
		},
		Completed: []portal.MaintenanceView{{
			Name: "switches", Title: "New switches", Start: noon.Add(-50 * time.Hour), End: noon.Add(-48 * time.Hour),
			Phase: sreportalv1.PhaseCompleted, AffectedStatus: sreportalv1.StatusDegraded,
		}},
	}
}

// component has thirty days: the first five unknown, and a bad one ten days ago.
func component(name, display, group string, status sreportalv1.ServiceStatus, because ...string) portal.ComponentView {
	c := portal.ComponentView{
		Name: name, DisplayName: display, Description: "What " + display + " is for", Group: group, Link: "https://example.com/" + name,
		Declared: sreportalv1.StatusOperational, Status: status, Since: noon.Add(-time.Hour), Because: because,
	}
	for i := range 30 {
		day := portal.Day{Date: noon.AddDate(0, 0, i-29).Format(time.DateOnly), Worst: sreportalv1.StatusOperational}
		switch {
		case i < 5:
			day.Worst = ""
		case i == 19:
			day.Worst = sreportalv1.StatusPartialOutage
		case i == 29:
			day.Worst = status
		}
		c.Days = append(c.Days, day)
	}
	return c
}

// november is a rollout that waits in its second batch.
func november() Upgrade {
	started, estimate := metav1.NewTime(noon.Add(-30*time.Minute)), metav1.NewTime(noon.Add(40*time.Minute))
	return Upgrade{
		Row: observe.Row{
			Ref: observe.RefOf("cgu/prod/november", "run-1"), Execution: enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING.String(), StartedAt: started.Time,
		},
		Known: true,
		Status: ranv1.ClusterGroupUpgradeStatus{
			Conditions: []metav1.Condition{{Type: ranv1.ConditionProgressing, Status: metav1.ConditionTrue, Reason: ranv1.ReasonInProgress, Message: "Maintaining nodes"}},
			Clusters: []ranv1.ClusterStatus{
				{Name: "spoke-1", State: ranv1.ClusterComplete, Batch: 1, Nodes: ranv1.NodeCounts{Total: 3, Done: 3}},
				{Name: "spoke-2", State: ranv1.ClusterRunning, Batch: 2, Step: "worker-3: Draining", Reason: "DisruptionBudget", Message: "budget shop/web allows 0 of 3", Nodes: ranv1.NodeCounts{Total: 4, Done: 1}},
				{Name: "spoke-3", State: ranv1.ClusterPending, Batch: 3},
			},
			Counts: ranv1.ClusterCounts{Total: 3, Complete: 1, Running: 1, Pending: 1}, Percentage: 42,
			Status: ranv1.RunStatus{StartedAt: &started, CurrentBatch: 2, Batches: 3, Estimate: &ranv1.Estimate{End: estimate, Earliest: estimate, Latest: estimate}},
			Wait: &drydockv1.Wait{
				Reason: "BatchInProgress", Message: "1 cluster is running", Since: metav1.NewTime(noon.Add(-5 * time.Minute)),
			},
		},
	}
}

// october is a rollout that has ended.
func october() Upgrade {
	ended := noon.Add(-72 * time.Hour)
	return Upgrade{
		Row: observe.Row{
			Ref: observe.RefOf("cgu/prod/october", "run-0"), Execution: enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED.String(),
			StartedAt: ended.Add(-time.Hour), CompletedAt: &ended,
		},
		Known: true,
		Status: ranv1.ClusterGroupUpgradeStatus{
			Conditions: []metav1.Condition{{Type: ranv1.ConditionSucceeded, Status: metav1.ConditionTrue, Reason: ranv1.ReasonCompleted, Message: "All clusters are complete"}},
			Counts:     ranv1.ClusterCounts{Total: 3, Complete: 3}, Percentage: 100,
		},
	}
}

// worker3 is a node that cannot be drained.
func worker3() Node {
	at := func(minutes int) metav1.Time { return metav1.NewTime(noon.Add(time.Duration(minutes) * time.Minute)) }
	return Node{
		Row: observe.Row{
			Ref: observe.RefOf("node/spoke-2/prod/november-worker-3", "run-2"), Execution: enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING.String(),
			Node: "worker-3", Requestor: "november.prod.cgu", StartedAt: at(-10).Time,
		},
		Known: true,
		Status: maintenancev1.NodeMaintenanceStatus{
			State: maintenancev1.NodeDraining,
			States: []maintenancev1.StateTime{
				{State: maintenancev1.NodePending, At: at(-10)},
				{State: maintenancev1.NodeScheduled, At: at(-9)},
				{State: maintenancev1.NodeCordon, At: at(-8)},
				{State: maintenancev1.NodeDraining, At: at(-7)},
			},
			Wait: &drydockv1.Wait{
				Reason: "DisruptionBudget", Message: "budget shop/web allows 0 of 3", Since: at(-6),
				Blockers: []drydockv1.Blocker{{Kind: "PodDisruptionBudget", Namespace: "shop", Name: "web", Message: "needs 3 healthy"}},
			},
		},
	}
}

// large is a view with this many components, and half as many upcoming maintenances.
func large(components int) View {
	view := View{AsOf: noon, Portal: &portal.View{Name: "main", Number: 1, Status: sreportalv1.StatusOperational, AsOf: noon}}
	for i := range components {
		name := fmt.Sprintf("component-%03d", i)
		view.Portal.Components = append(view.Portal.Components, component(name, name, fmt.Sprintf("Group %02d", i/10), sreportalv1.StatusOperational))
	}
	for i := range components / 2 {
		start := noon.Add(time.Duration(i+1) * time.Hour)
		view.Portal.Upcoming = append(view.Portal.Upcoming, portal.MaintenanceView{
			Name: fmt.Sprintf("prod/night-%d", i), Title: fmt.Sprintf("Night %d", i), Components: []string{"component-001", "component-002"},
			Start: start, End: start.Add(time.Hour), Phase: sreportalv1.PhaseUpcoming, AffectedStatus: sreportalv1.StatusMaintenance, Window: "prod/night",
		})
	}
	return view
}

// get returns the response of a server.
func get(t testing.TB, address string) (status int, header http.Header, body string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	require.NoError(t, err)
	answer, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	return answer.StatusCode, answer.Header, string(text)
}

func discard() *slog.Logger { return slog.New(slog.DiscardHandler) }

// unreachable is a client of a Temporal server that does not exist.
func unreachable(t *testing.T) client.Client {
	t.Helper()
	server, err := client.NewLazyClient(client.Options{HostPort: "127.0.0.1:1", Logger: log.NewStructuredLogger(discard())})
	require.NoError(t, err)
	t.Cleanup(server.Close)
	return server
}
