package workflows

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/workflow"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/rollout"
)

// A goroutine of a workflow that does not pause for a second is taken for a deadlock.
func TestThousandsOfClustersThatEndTogetherKeepNoWorkflowTaskForLong(t *testing.T) {
	const clusters, together = 10_000, 2000
	w := newWorld(t)
	w.registerAs("ends", func(ctx workflow.Context) (time.Duration, error) {
		status := groupStatus{RemediationPlan: make([][]string, 1), Status: ranv1.RunStatus{CurrentBatch: 1, CurrentBatchStartedAt: new(metav1.Now()), StartedAt: new(metav1.Now())}}
		for i := range clusters {
			status.Clusters = append(status.Clusters, ranv1.ClusterStatus{Name: fmt.Sprintf("c%05d", i), State: ranv1.ClusterRunning, Batch: 1, StartedAt: new(metav1.Now())})
		}
		record := newGroupRecord(ctx, &status, rollout.ManagedPolicies)
		record.completed = func(...string) {}
		began := time.Now() //workflowcheck:ignore it is measured
		record.together(ctx, func() {
			for i := range together {
				record.clusterEnded(ctx, ranv1.ClusterStatus{Name: status.Clusters[i].Name, State: ranv1.ClusterFailed, Reason: "Unbound", Batch: 1})
			}
		})
		if record.failed() != together || status.Counts.Failed != together {
			return 0, fmt.Errorf("failed: %d, shown: %d", record.failed(), status.Counts.Failed)
		}
		return time.Since(began), nil //workflowcheck:ignore it is measured
	})
	w.ExecuteWorkflow("ends", nil)
	require.Less(t, requireResult[time.Duration](w), 200*time.Millisecond)
}
