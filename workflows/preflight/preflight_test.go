package preflight

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"drydock.dev/drydock/activities/drain"
	"drydock.dev/drydock/activities/node"
	"drydock.dev/drydock/activities/rollouts"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/rollout"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/internal/windows"
	"drydock.dev/drydock/workflows/workflowtest"
)

func maintenance(windows ...drydockv1.WindowName) Input {
	object := &maintenancev1.NodeMaintenance{Spec: maintenancev1.NodeMaintenanceSpec{NodeName: "worker-1", DrainSpec: &maintenancev1.DrainSpec{}, MaintenanceWindows: windows}}
	object.Namespace = "prod"
	return Input{Cluster: "spoke-1", Maintenance: object}
}

// newWorld has the drains of one node in each cluster, and all windows but the undefined ones, which are closed.
func newWorld(t *testing.T, undefined ...string) *workflowtest.World {
	w := workflowtest.NewWorld(t)
	workflowtest.Simulate(w, "ReadWindows", func(names []string) any {
		statuses := make([]windows.Status, len(names))
		for i, name := range names {
			statuses[i] = windows.Status{Window: name, Phase: windows.PhaseClosed}
			if slices.Contains(undefined, name) {
				statuses[i].Phase = windows.PhaseUndefined
			}
		}
		return statuses
	})
	workflowtest.Simulate(w, "ForeseeDrains", func(in node.ForeseeDrainsInput) any {
		return []drain.Forecast{{Cluster: in.Cluster, Node: "worker-1", Evict: 2}}
	})
	return w
}

func checked(t *testing.T, w *workflowtest.World, in Input) Result {
	t.Helper()
	var result Result
	w.ExecuteWorkflow(Preflight, in)
	require.NoError(t, w.GetWorkflowError())
	require.NoError(t, w.GetWorkflowResult(&result))
	return result
}

func TestWhatAMaintenanceNamesMustExist(t *testing.T) {
	tests := []struct {
		name      string
		fails     string
		err       error
		undefined []string
		in        Input
		want      []string
	}{
		{name: "everything exists", in: maintenance("night"), want: []string{}},
		{
			name: "an unknown cluster", fails: "LocateCluster", err: temporal.Error(temporal.ErrNotFound, "cluster spoke-1 is not known: add it", nil), in: maintenance(),
			want: []string{"cluster spoke-1 is not known: add it"},
		},
		{
			name: "an unknown cluster without a maintenance", fails: "LocateCluster", err: temporal.Error(temporal.ErrNotFound, "cluster spoke-1 is not known: add it", nil),
			in: Input{Cluster: "spoke-1"}, want: []string{"cluster spoke-1 is not known: add it"},
		},
		{
			name: "an unknown node", fails: "ForeseeDrains", err: temporal.Error(temporal.ErrNodeGone, "node worker-1 of cluster spoke-1 does not exist", nil), in: maintenance(),
			want: []string{"spec.nodeName: node worker-1 of cluster spoke-1 does not exist"},
		},
		{
			name: "a window that is not defined", undefined: []string{"prod/night"}, in: maintenance("night"),
			want: []string{"spec.maintenanceWindows: window prod/night is not defined: `drydock window create -f FILE` defines it"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, tt.undefined...)
			w.Fail[tt.fails] = func(int) error { return tt.err }
			require.Equal(t, tt.want, checked(t, w, tt.in).Problems)
		})
	}
}

func TestClosedWindowsAreNoProblem(t *testing.T) {
	result := checked(t, newWorld(t), maintenance("night", "ops/freeze"))
	require.Empty(t, result.Problems)
	require.Equal(t, []windows.Status{{Window: "prod/night", Phase: windows.PhaseClosed}, {Window: "ops/freeze", Phase: windows.PhaseClosed}}, result.Closed)
}

func TestAnUnreachableClusterIsNoProblemOfTheRequest(t *testing.T) {
	w := newWorld(t)
	w.Fail["ForeseeDrains"] = func(int) error { return temporal.Error(temporal.ErrClusterUnreachable, "no answer", nil) }
	result := checked(t, w, maintenance())
	require.Empty(t, result.Problems)
	require.Equal(t, []string{"spoke-1: no answer"}, result.Unforeseen)
}

func TestACheckThatWaitsEndsWhenNothingIsMissing(t *testing.T) {
	w := newWorld(t)
	w.Fail["LocateCluster"] = func(call int) error {
		if call <= 3 {
			return temporal.Error(temporal.ErrNotFound, "cluster spoke-1 is not known", nil)
		}
		return nil
	}
	in := maintenance()
	in.Wait = 10 * time.Minute
	require.Empty(t, checked(t, w, in).Problems)
}

func TestACheckWaitsNoLongerThanAsked(t *testing.T) {
	w := newWorld(t)
	w.Fail["LocateCluster"] = func(int) error { return temporal.Error(temporal.ErrNotFound, "cluster spoke-1 is not known", nil) }
	in := maintenance()
	in.Wait = 10 * time.Minute
	started := w.Now()
	require.NotEmpty(t, checked(t, w, in).Problems)
	require.InDelta(t, in.Wait, w.Now().Sub(started), float64(maxPause))
}

func TestTheDrainsOfTheFirstClustersOfARolloutArePreviewed(t *testing.T) {
	w := newWorld(t)
	var clusters []string
	for i := range foreseenClusters + 5 {
		clusters = append(clusters, fmt.Sprintf("spoke-%02d", i))
	}
	w.Plan = rollouts.Plan{Plan: rollout.Plan{RemediationPlan: [][]string{clusters}}}
	result := checked(t, w, Input{Rollout: &ranv1.ClusterGroupUpgrade{Spec: ranv1.ClusterGroupUpgradeSpec{
		NodeMaintenance: &ranv1.NodeMaintenanceRemediation{DrainSpec: &maintenancev1.DrainSpec{}},
	}}})
	require.Empty(t, result.Problems)
	require.Equal(t, w.Plan.RemediationPlan, result.Plan.RemediationPlan)
	require.Len(t, result.Drains, foreseenClusters)
	require.Equal(t, "spoke-19", result.Drains[foreseenClusters-1].Cluster)
	require.Equal(t, 5, result.NotForeseen)
}

func TestTheProblemsOfASelectionHaveTheirField(t *testing.T) {
	w := newWorld(t)
	w.Plan = rollouts.Plan{Plan: rollout.NewPlan(&ranv1.ClusterGroupUpgrade{Spec: ranv1.ClusterGroupUpgradeSpec{Clusters: []string{"a", "b", "c", "d"}}}, rollout.Inventory{}, time.Time{})}
	require.Equal(t, []string{"spec.clusters: 4 clusters are not ManagedClusters, such as a, b, c"}, checked(t, w, Input{Rollout: &ranv1.ClusterGroupUpgrade{}}).Problems)
}
