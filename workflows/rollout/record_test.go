package rollout

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/workflow"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/rollout"
	"drydock.dev/drydock/workflows/kit/kittest"
)

// Showing thousands of clusters is slow, and the SDK reports a deadlock after a second.
func TestChangesOfManyClustersAreShownOnce(t *testing.T) {
	const clusters, together = 30, 20
	shown := kittest.Run(t, func(ctx workflow.Context) ([]int32, error) {
		status := ranv1.ClusterGroupUpgradeStatus{RemediationPlan: make([][]string, 1), Status: ranv1.RunStatus{CurrentBatch: 1, CurrentBatchStartedAt: new(metav1.Now()), StartedAt: new(metav1.Now())}}
		for i := range clusters {
			status.Clusters = append(status.Clusters, ranv1.ClusterStatus{Name: fmt.Sprintf("c%05d", i), State: ranv1.ClusterRunning, Batch: 1, StartedAt: new(metav1.Now())})
		}
		record := newGroupRecord(ctx, &status, "fleet/june", rollout.ManagedPolicies)
		record.completed = func(...string) {}
		var shown []int32 // the shown failures after each change
		record.showOnce(func() {
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
	require.Equal(t, append(make([]int32, together), together), shown)
}

func TestNotesAreLimitedInNumberAndLength(t *testing.T) {
	status := kittest.Run(t, func(ctx workflow.Context) (ranv1.ClusterGroupUpgradeStatus, error) {
		var status ranv1.ClusterGroupUpgradeStatus
		record := newGroupRecord(ctx, &status, "fleet/june", rollout.ManagedPolicies)
		for i := range 1000 {
			record.note(fmt.Sprintf("note %d: ", i) + strings.Repeat("x", 10_000))
		}
		return status, nil
	})
	notes := status.Notes
	require.Len(t, notes, notesKept)
	require.Contains(t, notes[notesKept-1], "note 999: ")
	require.Len(t, notes[0], noteLimit)
}
