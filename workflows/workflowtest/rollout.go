package workflowtest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	sdktemporal "go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"drydock.dev/drydock/activities"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/rollout"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/clusterupgrade"
)

type GroupStatus = ranv1.ClusterGroupUpgradeStatus

// ARollout rolls node maintenance over the batches, with a timeout of 60 minutes.
func ARollout(canaries ...string) ranv1.ClusterGroupUpgrade {
	return ranv1.ClusterGroupUpgrade{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ops", Name: "june"},
		Spec: ranv1.ClusterGroupUpgradeSpec{
			Clusters:            []string{"c1"},
			NodeMaintenance:     &ranv1.NodeMaintenanceRemediation{},
			RemediationStrategy: ranv1.RemediationStrategy{Canaries: canaries, MaxConcurrency: intstr.FromInt32(2), Timeout: 60},
			BatchTimeoutAction:  ranv1.BatchTimeoutContinue,
		},
	}
}

func PlanOf(batches ...[]string) activities.RolloutPlan {
	return activities.RolloutPlan{Plan: rollout.Plan{
		ComputedMaxConcurrency: 2, RemediationPlan: batches,
		Conditions: []metav1.Condition{
			{Type: ranv1.ConditionClustersSelected, Status: metav1.ConditionTrue, Reason: ranv1.ReasonClusterSelectionCompleted},
			{Type: ranv1.ConditionValidated, Status: metav1.ConditionTrue, Reason: ranv1.ReasonValidationCompleted},
		},
	}}
}

// NewGroupWorld registers a ClusterUpgrade that only takes its time.
func NewGroupWorld(t *testing.T, batches ...[]string) (*World, *Children) {
	w := NewWorld(t)
	w.Plan = PlanOf(batches...)
	c := newChildren()
	w.RegisterAs(temporal.ClusterUpgrade, func(ctx workflow.Context, in clusterupgrade.Input) (ranv1.ClusterStatus, error) {
		err := c.run(ctx, in.Cluster)
		result := ranv1.ClusterStatus{Name: in.Cluster, Batch: in.Batch, State: ranv1.ClusterComplete}
		if sdktemporal.IsCanceledError(err) {
			result.State = ranv1.ClusterCancelled
			return result, sdktemporal.NewCanceledError(result)
		}
		return result, err
	})
	return w, c
}

// Never ends a cluster only when it is cancelled, and takes a while to return its nodes.
func Never(ctx workflow.Context) error {
	err := workflow.Sleep(ctx, 1000*time.Hour)
	cleanUp, _ := workflow.NewDisconnectedContext(ctx)
	_ = workflow.Sleep(cleanUp, time.Minute)
	return err
}

func ClusterFails(workflow.Context) error {
	result := ranv1.ClusterStatus{State: ranv1.ClusterFailed, Reason: temporal.ErrJobFailed, Message: "node w0: exit code 3"}
	return sdktemporal.NewApplicationErrorWithOptions(result.Message, result.Reason, sdktemporal.ApplicationErrorOptions{NonRetryable: true, Details: []any{result}})
}

func ClusterStates(s GroupStatus) map[string]ranv1.ClusterState {
	states := map[string]ranv1.ClusterState{}
	for _, c := range s.Clusters {
		states[c.Name] = c.State
	}
	return states
}

func RequireCondition(t *testing.T, s GroupStatus, conditionType string, status metav1.ConditionStatus, reason string) {
	t.Helper()
	condition := meta.FindStatusCondition(s.Conditions, conditionType)
	require.NotNil(t, condition, conditionType)
	require.Equal(t, status, condition.Status, condition.Message)
	require.Equal(t, reason, condition.Reason, condition.Message)
}
