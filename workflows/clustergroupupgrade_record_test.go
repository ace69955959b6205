package workflows

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/workflow"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/rollout"
)

// To show a rollout of thousands takes a while, and a goroutine of a workflow that does not pause for a second is taken for a deadlock.
func TestClustersThatEndTogetherAreShownOnce(t *testing.T) {
	const clusters, together = 30, 20
	w := newWorld(t)
	w.registerAs("ends", func(ctx workflow.Context) ([]int32, error) {
		status := groupStatus{RemediationPlan: make([][]string, 1), Status: ranv1.RunStatus{CurrentBatch: 1, CurrentBatchStartedAt: new(metav1.Now()), StartedAt: new(metav1.Now())}}
		for i := range clusters {
			status.Clusters = append(status.Clusters, ranv1.ClusterStatus{Name: fmt.Sprintf("c%05d", i), State: ranv1.ClusterRunning, Batch: 1, StartedAt: new(metav1.Now())})
		}
		record := newGroupRecord(ctx, &status, "fleet/june", rollout.ManagedPolicies)
		record.completed = func(...string) {}
		var shown []int32 // how many have failed, after each
		record.together(func() {
			for i := range together {
				record.clusterEnded(ctx, ranv1.ClusterStatus{Name: status.Clusters[i].Name, State: ranv1.ClusterFailed, Reason: "Unbound", Batch: 1})
				shown = append(shown, status.Counts.Failed)
			}
		})
		if record.failed() != together {
			return nil, fmt.Errorf("failed: %d", record.failed())
		}
		return append(shown, status.Counts.Failed), nil
	})
	w.ExecuteWorkflow("ends", nil)
	require.Equal(t, append(make([]int32, together), together), requireResult[[]int32](w))
}
