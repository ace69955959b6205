package statuspage

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	sreportalv1 "drydock.dev/drydock/internal/apis/sreportal/v1alpha1"
	"drydock.dev/drydock/internal/portal"
	"drydock.dev/drydock/internal/rollout"
	statusv1 "drydock.dev/drydock/internal/statuspage/proto/drydock/v1"
)

func days(worst ...sreportalv1.ServiceStatus) []portal.Day {
	dates := []string{"2026-11-01", "2026-11-02", "2026-11-03", "2026-11-04"}
	var days []portal.Day
	for i, status := range worst {
		days = append(days, portal.Day{Date: dates[i], Worst: status})
	}
	return days
}

func TestABarIsSplitWhereTheStatusChanges(t *testing.T) {
	require.Equal(t, []run{
		{Days: 1, Tone: "blank", When: "1 Nov", Words: "Not known"},
		{Days: 2, Tone: "good", When: "2 Nov to 3 Nov", Words: "Operational"},
		{Days: 1, Tone: "none", When: "4 Nov", Words: "Unknown"},
	}, runsOf(days("", sreportalv1.StatusOperational, sreportalv1.StatusOperational, sreportalv1.StatusUnknown)))
	require.Empty(t, runsOf(nil))
}

func TestABarHasADescription(t *testing.T) {
	require.Equal(t, "Last 4 days, by the worst of each: not known on 1 day, operational on 2 days, major outage on 1 day (3 Nov).",
		daysText(days("", sreportalv1.StatusOperational, sreportalv1.StatusMajorOutage, sreportalv1.StatusOperational)))
}

func TestEveryStateHasALabel(t *testing.T) {
	for state, words := range map[string]string{"InProgress": "In progress", "complete": "Complete", "WaitForPodCompletion": "Wait for pod completion", "": ""} {
		require.Equal(t, words, rollout.Words(state))
	}
}

func TestTheHeadlineShowsTheWorstStatus(t *testing.T) {
	for status, words := range map[sreportalv1.ServiceStatus]string{
		sreportalv1.StatusOperational:   "All systems operational",
		sreportalv1.StatusUnknown:       "Status unknown",
		sreportalv1.StatusMaintenance:   "Maintenance in progress",
		sreportalv1.StatusDegraded:      "Some systems are degraded",
		sreportalv1.StatusPartialOutage: "Partial outage",
		sreportalv1.StatusMajorOutage:   "Major outage",
	} {
		view := fleet()
		view.Portal.Status = status
		require.Equal(t, words, headline(&view))
	}
	view := fleet()
	view.Trouble = &Trouble{Message: "Temporal does not answer"}
	require.Equal(t, "Last known: Maintenance in progress", headline(&view), "the page's title and MCP use the same headline")
	require.Equal(t, "No components yet", headline(&View{AsOf: noon}))
	require.Equal(t, "Not read yet", headline(&View{}))
}

func TestAHeldRolloutShowsItsHoldAndItsEnd(t *testing.T) {
	upgrade, node := november(), worker3()
	upgrade.Status.Held = &drydockv1.Hold{Scope: drydockv1.HoldAll, By: "ann", Reason: "outage", Since: metav1.NewTime(noon)}
	require.Equal(t, pill{"warn", "Held"}, newUpgrade(upgrade, webUI{}, noon).Pill)
	require.Equal(t, "every cluster is held since 2026-11-21 12:00:00Z by ann: outage", upgradeMessage(upgrade, webUI{}, noon).GetHeld())

	upgrade.Status.Held = &drydockv1.Hold{Window: "prod/night", Reason: "window prod/night opens at 22:00"}
	require.Equal(t, pill{"warn", "Waiting for window"}, newUpgrade(upgrade, webUI{}, noon).Pill, "a window is not an emergency stop")
	require.Equal(t, "window prod/night opens at 22:00", upgradeMessage(upgrade, webUI{}, noon).GetHeld())

	require.Empty(t, nodeMessage(node, webUI{}).GetHeld())
	node.Status.Held = &drydockv1.Hold{Scope: drydockv1.HoldCluster("spoke-1"), Since: metav1.NewTime(noon)}
	require.Equal(t, "cluster spoke-1 is held since 2026-11-21 12:00:00Z", nodeMessage(node, webUI{}).GetHeld())
	node.CompletedAt = new(noon)
	require.Empty(t, nodeMessage(node, webUI{}).GetHeld(), "an ended maintenance is not held")
}

func TestAGroupHasTheStatusOfItsWorstComponent(t *testing.T) {
	view := fleet()
	groups := groupsOf(&view)
	require.Equal(t, "Core", groups[0].Name)
	require.Equal(t, pill{"work", "Under maintenance"}, groups[0].Pill)
	require.Equal(t, []string{"Database upgrade"}, groups[0].Components[1].Reasons)
	require.Equal(t, pill{"good", "Operational"}, groups[1].Pill)
}

func TestATerminatedWorkflowIsNotShownAsRunningOnPages(t *testing.T) {
	upgrade, node := november(), worker3()
	upgrade.Execution, node.Execution = "Terminated", "Terminated"
	state, _ := verdict(upgrade)
	require.Equal(t, "Terminated", state)
	require.Equal(t, "Terminated", stateOf(node))
}

func TestACutTextIsMarked(t *testing.T) {
	upgrade := november()
	for execution, words := range map[string]string{"Terminated": "It was terminated", "TimedOut": "It timed out", "Failed": "It ended and left no status"} {
		upgrade.Execution, upgrade.noStatus = execution, true
		state, message := verdict(upgrade)
		require.Equal(t, execution, state)
		require.Contains(t, message, words)
	}
}

func TestAnUnreadWorkflowHasTheStateThatTemporalLists(t *testing.T) {
	upgrade := november()
	upgrade.Known, upgrade.Status = false, ranv1.ClusterGroupUpgradeStatus{}
	state, _ := verdict(upgrade)
	require.Equal(t, "Not read yet", statePill(state).Words)
	upgrade.Phase = "InProgress"
	state, _ = verdict(upgrade)
	require.Equal(t, "InProgress", state)
	ended := noon
	upgrade.CompletedAt, upgrade.Execution = &ended, "Completed"
	state, _ = verdict(upgrade)
	require.Equal(t, "Completed", state)
}

func TestLinksToTheWebUIEscapeTheWorkflow(t *testing.T) {
	ui := webUI{"http://ui.example/", "default"}
	require.Equal(t, "http://ui.example/namespaces/default/workflows/cgu%2Fprod%2Fnovember/run-1", ui.link("cgu/prod/november", "run-1"))
	require.Empty(t, webUI{}.link("cgu/prod/november", "run-1"))
}

func TestAnIncidentHasAllItsFieldsInTheAPI(t *testing.T) {
	login := incidentMessage(ofPortal().Incidents[1])
	require.True(t, proto.Equal(&statusv1.Incident{
		Name: "login", Title: "No login", Severity: statusv1.IncidentSeverity_INCIDENT_SEVERITY_MINOR, Phase: statusv1.IncidentPhase_INCIDENT_PHASE_RESOLVED,
		StartedAt: timestamppb.New(noon.Add(-30 * time.Hour)), ResolvedAt: timestamppb.New(noon.Add(-29 * time.Hour)), Message: "A certificate was renewed.",
	}, login), "%v", login)
	dns := incidentMessage(ofPortal().Incidents[0])
	require.Equal(t, []string{"ci"}, dns.GetComponents())
	require.Nil(t, dns.GetResolvedAt())
	for _, severity := range []sreportalv1.IncidentSeverity{sreportalv1.SeverityMinor, sreportalv1.SeverityMajor, sreportalv1.SeverityCritical} {
		require.NotZero(t, incidentMessage(portal.IncidentView{Severity: severity}).GetSeverity(), severity)
	}
	for _, phase := range []sreportalv1.IncidentPhase{
		sreportalv1.IncidentInvestigating, sreportalv1.IncidentIdentified, sreportalv1.IncidentMonitoring, sreportalv1.IncidentResolved,
	} {
		require.NotZero(t, incidentMessage(portal.IncidentView{Phase: phase}).GetPhase(), phase)
	}
}

func TestWatchersReceiveOnlyChanges(t *testing.T) {
	first := fleet()
	first.Number = 1
	all := changedSince(nil, &first, webUI{})
	require.Len(t, all.GetComponents().GetComponents(), 3)
	require.Len(t, all.GetMaintenances().GetMaintenances(), 3)
	require.Len(t, all.GetIncidents().GetIncidents(), 2)
	require.Len(t, all.GetUpgrades().GetUpgrades(), 2)
	require.Len(t, all.GetNodes().GetNodes(), 1)

	next := first
	next.Number = 2
	require.Nil(t, changedSince(&first, &next, webUI{}))
	next.revisions.upgrades++
	some := changedSince(&first, &next, webUI{})
	require.NotNil(t, some.GetUpgrades())
	require.Nil(t, some.GetComponents())
	require.Nil(t, some.GetIncidents())
	require.Nil(t, some.GetNodes())

	stale := next
	stale.Trouble = &Trouble{Message: "Temporal does not answer", Since: noon}
	require.True(t, changedSince(&next, &stale, webUI{}).GetFreshness().GetStale())
}
