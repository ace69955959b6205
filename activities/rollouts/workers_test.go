package rollouts

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/testsuite"
	"k8s.io/apimachinery/pkg/util/intstr"

	"drydock.dev/drydock/activities/activitytest"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/temporal"
)

func TestEverythingThatWorkersLackIsReported(t *testing.T) {
	activitytest.ManagedCluster(t, "lonely", nil)
	cgu := activitytest.NodeRollout("lonely")
	cgu.Spec.Backup = true
	plan := plan(t, cgu)
	require.Empty(t, plan.RemediationPlan)
	require.Equal(t, "BackupImageMissing", plan.Conditions[1].Reason)
	require.Contains(t, plan.Problems()[0], "start the workers with --backup-image; no worker has credentials for lonely: add it")

	_, err := asAnActivity(t, 0, (&Activities{Clusters: activitytest.Clusters}).PlanRollout, PlanInput{Object: cgu})
	require.Equal(t, temporal.ErrClusterUnknown, temporal.ErrorType(err), "another worker must try first: %v", err)
	require.False(t, temporal.Final(err))
	_, err = asAnActivity(t, WorkerAttempts-1, (&Activities{Clusters: activitytest.Clusters}).PlanRollout, PlanInput{Object: cgu})
	require.NoError(t, err, "after enough attempts the plan reports it")
}

func TestAgentsReplaceCredentialsExceptForNodes(t *testing.T) {
	rollouts := &Activities{Clusters: activitytest.Clusters}
	nodes := activitytest.NodeRollout("elsewhere")
	_, unreachable, err := rollouts.findWorkers(t.Context(), &nodes, []string{"elsewhere"})
	require.NoError(t, err)
	require.Equal(t, []string{"elsewhere"}, unreachable)

	backup := ranv1.ClusterGroupUpgrade{Spec: ranv1.ClusterGroupUpgradeSpec{ManagedPolicies: []string{"p"}, Backup: true}}
	_, unreachable, err = rollouts.findWorkers(t.Context(), &backup, []string{"elsewhere"})
	require.NoError(t, err)
	require.Empty(t, unreachable)

	// The spoke serves no views.
	clusters := kube.New(kube.FromConfigs(activitytest.Stack.Cluster(activitytest.SpokeName).Config, nil), kube.Options{})
	t.Cleanup(clusters.Close)
	_, unreachable, err = (&Activities{Clusters: clusters}).findWorkers(t.Context(), &backup, []string{"elsewhere"})
	require.NoError(t, err)
	require.Equal(t, []string{"elsewhere"}, unreachable)
}

// asAnActivity runs an attempt of an activity after that many other workers.
func asAnActivity(t *testing.T, workers int, run, in any) (converter.EncodedValue, error) {
	t.Helper()
	var suite testsuite.WorkflowTestSuite
	environment := suite.NewTestActivityEnvironment()
	environment.RegisterActivity(run)
	if workers > 0 {
		environment.SetHeartbeatDetails(workers)
	}
	return environment.ExecuteActivity(run, in)
}

func TestARetryRunsOnTheWorkersOfItsClusters(t *testing.T) {
	rollouts := &Activities{Clusters: activitytest.Clusters}
	activitytest.ManagedCluster(t, "inward", map[string]string{kube.AnnotationWorker: kube.WorkerInCluster})
	require.Eventually(t, func() bool {
		queue, err := rollouts.LocateCluster(t.Context(), "inward")
		return err == nil && queue == "drydock.inward"
	}, activitytest.EventTimeout, 20*time.Millisecond)
	recall := func(t *testing.T, spec ranv1.ClusterGroupUpgradeSpec, failed string) (LoadedRollout, error) {
		in := finalStatus("default", "again-"+failed, ranv1.ReasonFailed)
		in.Object.Spec = spec
		in.Object.Spec.Clusters = []string{failed, "gone"}
		in.Object.Spec.RemediationStrategy.MaxConcurrency = intstr.FromInt32(1)
		in.Object.Status.RemediationPlan = [][]string{{failed}, {"gone"}}
		in.Object.Status.Clusters = []ranv1.ClusterStatus{{Name: failed, Batch: 1, State: ranv1.ClusterFailed}, {Name: "gone", Batch: 2, State: ranv1.ClusterComplete}}
		require.NoError(t, rollouts.SaveRollout(t.Context(), in))
		rollouts.Workflows = activitytest.Rollouts{in.RunID: in.Object}
		return rollouts.LoadRollout(t.Context(), LoadRolloutInput{Namespace: "default", Name: in.Object.Name})
	}
	for name, spec := range map[string]ranv1.ClusterGroupUpgradeSpec{
		"nodes":                  {NodeMaintenance: &ranv1.NodeMaintenanceRemediation{}},
		"policies with a backup": {ManagedPolicies: []string{"p"}, Backup: true},
		"works with precaching":  {ManifestWorkTemplates: []string{"w"}, PreCaching: true},
	} {
		t.Run(name, func(t *testing.T) {
			recalled, err := recall(t, spec, "inward")
			require.NoError(t, err, "a complete cluster needs no worker")
			require.Equal(t, map[string]string{"inward": "drydock.inward"}, recalled.TaskQueues)
			_, err = recall(t, spec, "elsewhere")
			if spec.NodeMaintenance == nil {
				require.NoError(t, err, "its agent precaches and backs up")
				return
			}
			require.Equal(t, temporal.ErrInvalidSpec, temporal.ErrorType(err), "%v", err)
			require.ErrorContains(t, err, "no worker has credentials for elsewhere")
			_, err = asAnActivity(t, 0, rollouts.LoadRollout, LoadRolloutInput{Namespace: "default", Name: "again-elsewhere"})
			require.Equal(t, temporal.ErrClusterUnknown, temporal.ErrorType(err), "another worker must try first: %v", err)
		})
	}
	_, err := recall(t, ranv1.ClusterGroupUpgradeSpec{ManagedPolicies: []string{"p"}}, "elsewhere")
	require.NoError(t, err, "policies need only the hub")
}
