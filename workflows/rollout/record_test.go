package rollout_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/workflow"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/rollout"
	rolloutworkflow "drydock.dev/drydock/workflows/rollout"
	"drydock.dev/drydock/workflows/workflowtest"
)

// To show a rollout of thousands takes a while, and a goroutine of a workflow that does not pause for a second is taken for a deadlock.
func TestClustersThatEndTogetherAreShownOnce(t *testing.T) {
	const clusters, together = 30, 20
	w := workflowtest.NewWorld(t)
	w.RegisterAs("ends", func(ctx workflow.Context) ([]int32, error) {
		status := workflowtest.GroupStatus{RemediationPlan: make([][]string, 1), Status: ranv1.RunStatus{CurrentBatch: 1, CurrentBatchStartedAt: new(metav1.Now()), StartedAt: new(metav1.Now())}}
		for i := range clusters {
			status.Clusters = append(status.Clusters, ranv1.ClusterStatus{Name: fmt.Sprintf("c%05d", i), State: ranv1.ClusterRunning, Batch: 1, StartedAt: new(metav1.Now())})
		}
		record := rolloutworkflow.NewGroupRecord(ctx, &status, "fleet/june", rollout.ManagedPolicies)
		record.Completed = func(...string) {}
		var shown []int32 // how many have failed, after each
		record.Together(func() {
			for i := range together {
				record.ClusterEnded(ctx, ranv1.ClusterStatus{Name: status.Clusters[i].Name, State: ranv1.ClusterFailed, Reason: "Unbound", Batch: 1})
				shown = append(shown, status.Counts.Failed)
			}
		})
		if record.Failed() != together {
			return nil, fmt.Errorf("failed: %d", record.Failed())
		}
		return append(shown, status.Counts.Failed), nil
	})
	w.ExecuteWorkflow("ends", nil)
	require.Equal(t, append(make([]int32, together), together), workflowtest.RequireResult[[]int32](w))
}
