package nodemaintenance

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/workflow"

	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/kit/kittest"
)

// The sweeper is woken while the cluster is located: both activities may be retried at the same time.
func TestTheOldestOfSeveralRetriesIsShownUntilItEnds(t *testing.T) {
	shown := kittest.Run(t, func(ctx workflow.Context) ([]string, error) {
		in := Input{Cluster: "c1", Object: maintenancev1.NodeMaintenance{Spec: maintenancev1.NodeMaintenanceSpec{NodeName: "n1", RequestorID: "ops"}}}
		m, err := newNodeMaintenance(ctx, in)
		var shown []string
		show := func() {
			reason := ""
			if wait := m.state.Status.Wait; wait != nil {
				reason = wait.Reason
			}
			shown = append(shown, reason)
		}
		wake, locate := m.reportRetry(), m.reportRetry()
		wake(ctx, temporal.ErrClusterUnreachable, "no answer")
		show()
		locate(ctx, temporal.ErrClusterUnknown, "no worker")
		show()
		wake(ctx, "", "")
		show()
		m.awaited = awaited{name: "Drain", report: locate}
		m.observe(ctx, temporal.Observation{Activity: "Drain"})
		show()
		return shown, err
	})
	require.Equal(t, []string{temporal.ErrClusterUnreachable, temporal.ErrClusterUnreachable, temporal.ErrClusterUnknown, ""}, shown)
}
