package attack

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	temporalclient "go.temporal.io/sdk/client"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/clusterupgrade"
	"drydock.dev/drydock/workflows/rollout"
)

// rolloutWith is a rollout of the spoke outside with an action on each node.
func rolloutWith(namespace, name string, action *maintenancev1.Action) *ranv1.ClusterGroupUpgrade {
	return &ranv1.ClusterGroupUpgrade{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: ranv1.ClusterGroupUpgradeSpec{
			Clusters:            []string{outsideSpoke().Name},
			RemediationStrategy: ranv1.RemediationStrategy{MaxConcurrency: intstr.FromInt32(1), Timeout: 60},
			NodeMaintenance:     &ranv1.NodeMaintenanceRemediation{Action: action},
		},
	}
}

// upgradeOf is the workflow of a rollout.
func upgradeOf(t *testing.T, namespace, name string) workflowOf[ranv1.ClusterGroupUpgradeStatus] {
	t.Helper()
	return workflowOf[ranv1.ClusterGroupUpgradeStatus]{t, temporal.ClusterGroupUpgradeID(namespace, name)}
}

// started starts a workflow as a Temporal client does, without the checks of the CLI, and returns its error.
func started(t *testing.T, id, workflow string, input any) error {
	t.Helper()
	options := temporalclient.StartWorkflowOptions{ID: id, TaskQueue: temporal.TaskQueue, WorkflowIDReusePolicy: enumspb.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE}
	run, err := theTemporal(t).ExecuteWorkflow(t.Context(), options, workflow, input)
	require.NoError(t, err)
	return run.Get(t.Context(), nil)
}

// Those who may request rollouts, or write to Temporal, have a Job run on each node that the clusters file does not allow. It is refused by its field, and no node is
// marked: for an object, for workflows that are started past the CLI, and for a part of a rollout.
func rolloutsRequestForbiddenJobs(t *testing.T) {
	hub := asMallory(t, theFleet.Hub)
	spoke := outsideSpoke()
	for name, field := range map[string]string{
		"host-pid": "hostPID", "host-path": "volumes[0].hostPath.path", "privileged": "containers[0].securityContext.privileged",
	} {
		t.Run(name, func(t *testing.T) {
			refused := "action.job.template.spec.template.spec." + field + ": Forbidden"
			action := forbiddenActions()[name]
			object := rolloutWith(tenantNamespace, name, action)
			require.NoError(t, hub.Create(t.Context(), object))
			upgradeOf(t, tenantNamespace, name).await(func(s ranv1.ClusterGroupUpgradeStatus) bool {
				return anyMessage(s.Conditions, refused)
			})
			require.NoError(t, hub.Delete(t.Context(), object))

			raw := rolloutWith("default", "raw-"+name, action)
			require.ErrorContains(t, started(t, temporal.ClusterGroupUpgradeID("default", raw.Name), temporal.ClusterGroupUpgrade, rollout.Input{Object: *raw}), refused)
		})
	}
	part := clusterupgrade.Input{Namespace: "default", Rollout: "part", Cluster: spoke.Name, TaskQueue: temporal.TaskQueue, Remediation: *rolloutWith("", "", forbiddenActions()["host-pid"]).Spec.NodeMaintenance}
	require.ErrorContains(t, started(t, temporal.ClusterUpgradeID("default", "part", spoke.Name), temporal.ClusterUpgrade, part), "hostPID: Forbidden")
	for _, node := range []string{"control-plane-1", "worker-1", "worker-2"} {
		requireInService(t, spoke.Client, node)
	}
}

func anyMessage(conditions []metav1.Condition, part string) bool {
	for _, condition := range conditions {
		if strings.Contains(condition.Message, part) {
			return true
		}
	}
	return false
}
