package clusterupgrade

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/workflow"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/kit/kittest"
)

var oneCluster = Input{Namespace: "ops", Rollout: "june", Cluster: "c1", TaskQueue: temporal.TaskQueue, Batch: 1}

// updated is the progress of an application with two nodes.
func updated(nodes int32) []drydockv1.LockProgress {
	return []drydockv1.LockProgress{{Controller: "tf", Percentage: 50 * nodes, Updated: nodes, Total: 2}}
}

func TestTheSummaryNamesTheNodeWithTheGravestWait(t *testing.T) {
	for _, test := range []struct{ reasons, named string }{
		{"WorkloadLocksHeld WorkloadLocksFailed WorkloadLocksHeld", "w1: Draining"},
		{"WorkloadLocksHeld DisruptionBudget NoController", "w2: Draining"},
		// The others wait for the locks of the node that drains.
		{"WorkloadLocksHeld DisruptionBudget WorkloadLocksHeld", "w1: Draining"},
		{"WorkloadLocksHeld WorkloadLocksHeld", "w0: Draining"},
		{"- PodsTerminating", "w1: Draining"},
		{"PodsTerminating -", "w0: Draining"},
		{"- -", "w0: Draining"},
	} {
		summary := kittest.Run(t, func(ctx workflow.Context) (ranv1.ClusterStatus, error) {
			c, err := newClusterUpgrade(ctx, oneCluster)
			for i, reason := range strings.Fields(test.reasons) {
				node := ranv1.ClusterNodeStatus{Name: fmt.Sprintf("w%d", i), State: maintenancev1.NodeDraining, StartedAt: c.state.Status.StartedAt}
				if reason != "-" {
					node.Wait = &drydockv1.Wait{Reason: reason}
				}
				c.state.Status.Nodes = append(c.state.Status.Nodes, node)
			}
			return c.record.summary(), err
		})
		require.Equal(t, test.named, summary.Step, test.reasons)
		if named := strings.Fields(test.reasons)[summary.Step[1]-'0']; named != "-" {
			require.Equal(t, named, summary.Reason, test.reasons)
		}
	}
}

func TestTheSummaryHasTheProgressOfApplicationsUntilTheClusterEnds(t *testing.T) {
	summaries := kittest.Run(t, func(ctx workflow.Context) ([]ranv1.ClusterStatus, error) {
		c, err := newClusterUpgrade(ctx, oneCluster)
		c.state.Status.Nodes = []ranv1.ClusterNodeStatus{{Name: "w0"}, {Name: "w1"}}
		reports := []ranv1.ClusterStatus{c.record.summary()}
		c.nodes.running = []string{"w0"}
		c.nodes.recordProgress(ranv1.ClusterNodeStatus{Name: "w0", State: maintenancev1.NodeDraining, LockProgress: updated(1)})
		reports = append(reports, c.record.summary())
		c.nodes.recordProgress(ranv1.ClusterNodeStatus{Name: "w0", State: maintenancev1.NodeReady})
		reports = append(reports, c.record.summary())
		c.nodes.ended(ctx, "w0", maintenancev1.NodeMaintenanceStatus{State: maintenancev1.NodeCompleted, LockProgress: updated(2)}, nil)
		reports = append(reports, c.record.summary())
		require.Empty(t, c.state.Status.Nodes[0].LockProgress, "the node does not store it again")
		c.state.Status.State = ranv1.ClusterComplete
		return append(reports, c.record.summary()), err
	})
	var progress [][]drydockv1.LockProgress
	for _, summary := range summaries {
		progress = append(progress, summary.LockProgress)
	}
	require.Equal(t, [][]drydockv1.LockProgress{nil, updated(1), updated(1), updated(2), nil}, progress, "the record of a completed cluster stays short")
}
