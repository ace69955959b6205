package kit_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"drydock.dev/drydock/activities"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/rollout"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/internal/windows"
	"drydock.dev/drydock/workflows/nodemaintenance"
	rolloutworkflow "drydock.dev/drydock/workflows/rollout"
	"drydock.dev/drydock/workflows/window"
	"drydock.dev/drydock/workflows/workflowtest"
)

func TestTheDetailsOfAFailedDrainNameThePods(t *testing.T) {
	status := &maintenancev1.NodeMaintenanceStatus{State: maintenancev1.NodeFailed, Failure: &maintenancev1.Failure{
		Reason: temporal.ErrDrainTimedOut, Message: "drain n1: 1 pod blocked",
		Blockers: []drydockv1.Blocker{{Kind: "Pod", Namespace: "shop", Name: "web-1", Message: "PodDisruptionBudget shop/web"}},
	}}
	require.Equal(t, `| node | c1/n1 |
|---|---|
| state | Failed |
| **failure** | DrainTimedOut: drain n1: 1 pod blocked |
| blocked by | Pod shop/web-1: PodDisruptionBudget shop/web |
`, nodemaintenance.NodeDetails(activities.NodeRef{Cluster: "c1", Node: "n1"}, status))
}

func TestTheDetailsOfARolloutListTheClustersOfWhichThereIsSomethingToSay(t *testing.T) {
	status := &ranv1.ClusterGroupUpgradeStatus{Clusters: []ranv1.ClusterStatus{{Name: "c1", Batch: 1, State: ranv1.ClusterComplete}, {Name: "c2", Batch: 2, State: ranv1.ClusterPending}}}
	require.NotContains(t, rolloutworkflow.GroupDetails(status), "| cluster |", "a table without rows")
	status.Clusters[1].State, status.Clusters[1].Step = ranv1.ClusterRunning, "Nodes"
	require.Contains(t, rolloutworkflow.GroupDetails(status), `| cluster | batch | state | step | reason |
|---|---|---|---|---|
| c2 | 2 | running | Nodes |  |
`)
	require.NotContains(t, rolloutworkflow.GroupDetails(status), "| c1 |")
}

func TestTheDetailsOfARolloutWithoutClustersDoNotSayThatAllIsDone(t *testing.T) {
	details := rolloutworkflow.GroupDetails(&workflowtest.GroupStatus{Percentage: rollout.Percentage(nil), Wait: &drydockv1.Wait{Reason: "MissingBlockingCR", Message: "waiting for default/first"}})
	require.Contains(t, details, "waiting for default/first")
	require.NotContains(t, details, "100")
}

func TestTheDetailsOfAWindowSayWhatHasHappenedAndByWhom(t *testing.T) {
	require.Contains(t, window.WindowDetails(windows.Status{Window: "prod/night", Phase: windows.PhaseOver, Events: []windows.Event{
		{At: workflowtest.Noon, Kind: windows.EventStarted, Message: "open until 2026-12-01 14:00:00Z"},
		{At: workflowtest.Noon.Add(time.Hour), Kind: windows.EventExtended, By: "ann", Reason: "no backup tonight", Message: "extended until 2026-12-01 15:00:00Z"},
		{At: workflowtest.Noon.Add(2 * time.Hour), Kind: windows.EventCancelled, By: "bob", Message: "cancelled: the window opens no more"},
	}}), `| when | what | by |
|---|---|---|
| 2026-12-01 14:00:00Z | cancelled: the window opens no more | bob |
| 2026-12-01 13:00:00Z | extended until 2026-12-01 15:00:00Z | ann: no backup tonight |
| 2026-12-01 12:00:00Z | started: open until 2026-12-01 14:00:00Z |  |
`)
}
