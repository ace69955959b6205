package attack

import (
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"
	temporalclient "go.temporal.io/sdk/client"
	"google.golang.org/protobuf/types/known/durationpb"
	"k8s.io/apimachinery/pkg/api/meta"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/devstack/devstacktest"
	"drydock.dev/drydock/internal/devstack/fleet"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/nodemaintenance"
)

// A client that may write to another Temporal namespace of the same server starts Drydock's workflows there, and signals those of the fleet by their names. Nobody
// works on them.
func clientOfAnotherNamespace(t *testing.T) {
	_, err := theTemporal(t).WorkflowService().RegisterNamespace(t.Context(), &workflowservice.RegisterNamespaceRequest{
		Namespace: "tenant", WorkflowExecutionRetentionPeriod: durationpb.New(24 * time.Hour),
	})
	require.NoError(t, err)
	tenant, err := temporalclient.NewLazyClient(temporalclient.Options{HostPort: theFleet.Temporal.Address, Namespace: "tenant", Identity: "tenant"})
	require.NoError(t, err)
	defer tenant.Close()
	id := temporal.NodeMaintenanceID("spoke-1", "default", "tenant")
	require.Eventually(t, func() bool { // the server learns of a new namespace within seconds
		_, err = tenant.ExecuteWorkflow(t.Context(), temporalclient.StartWorkflowOptions{ID: id, TaskQueue: temporal.TaskQueue}, temporal.NodeMaintenance,
			nodemaintenance.Input{Cluster: "spoke-1"})
		return err == nil
	}, limit, 200*time.Millisecond)
	require.Error(t, tenant.SignalWorkflow(t.Context(), temporal.MaintenanceSchedulerID("spoke-1"), "", temporal.SignalSlotReturn, nil))
	require.Error(t, tenant.TerminateWorkflow(t.Context(), temporal.EmergencyStopID, "", "attack"))
	described, err := tenant.DescribeWorkflowExecution(t.Context(), id, "")
	require.NoError(t, err)
	require.Equal(t, enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING, described.GetWorkflowExecutionInfo().GetStatus())
	require.LessOrEqual(t, described.GetWorkflowExecutionInfo().GetHistoryLength(), int64(2), "no worker polls that namespace")
}

// After all attacks, with what they left behind, a rollout of both clusters completes. The audit logs show what Drydock's accounts did meanwhile.
func worksOn(t *testing.T) {
	manifest := file(t, `
apiVersion: ran.openshift.io/v1alpha1
kind: ClusterGroupUpgrade
metadata: {name: beside, namespace: default}
spec:
  clusters: [spoke-1, spoke-2]
  remediationStrategy: {maxConcurrency: 2, timeout: 60}
  nodeMaintenance:
    drainSpec: {timeoutSeconds: 0}
    action: {type: job, job: {namespace: drydock-jobs, template: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: work, image: registry.example.com/work:1.0}]}}}}}}
`)
	succeeds(t, "upgrade", "start", "-f", manifest)
	workflowOf[ranv1.ClusterGroupUpgradeStatus]{t, temporal.ClusterGroupUpgradeID("default", "beside")}.await(func(s ranv1.ClusterGroupUpgradeStatus) bool {
		return meta.IsStatusConditionTrue(s.Conditions, ranv1.ConditionSucceeded)
	})
	for _, spoke := range theFleet.Spokes {
		for _, node := range []string{"control-plane-1", "worker-1", "worker-2"} {
			requireInService(t, spoke.Client, node)
		}
		for _, action := range fleet.ActionsOf(devstacktest.AuditEvents(t, spoke)) {
			require.NotEqual(t, fleet.ActionForeign, action.What, "%+v", action)
		}
	}
	for _, cluster := range theFleet.Clusters() {
		for _, event := range devstacktest.AuditEvents(t, cluster) {
			requireExpectedWrite(t, event)
		}
	}
}

// expectedWrites of Drydock's accounts, as namespace, resource and verb; a namespace of * is any.
var expectedWrites = []*regexp.Regexp{
	regexp.MustCompile(`^ nodes(/status)? patch$`),
	regexp.MustCompile(`^[a-z-]+ pods/eviction create$`),
	regexp.MustCompile(`^drydock-jobs jobs (create|patch|delete)$`),
	regexp.MustCompile(`^[a-z-]+ events create$`),
	regexp.MustCompile(`^ (cluster|node)maintenancerequests (create|delete)$`),
	regexp.MustCompile(`^[a-z-]+ nodemaintenances(/status)? (patch|create|delete)$`),
	regexp.MustCompile(`^[a-z-]+ (clustergroupupgrades|maintenancewindows)(/status)? patch$`),
	regexp.MustCompile(`^ (cluster|node)workloadlocks(/status)? (create|patch)$`),
	regexp.MustCompile(`^drydock-system configmaps (create|update)$`),
	regexp.MustCompile(`^ managedclusters patch$`),
	regexp.MustCompile(`^ selfsubject(access|rules)reviews create$`),
}

// requireExpectedWrite requires that an event is no write of Drydock, or one that it makes without attacks, too. Mallory's writes are hers alone.
func requireExpectedWrite(t *testing.T, event auditv1.Event) {
	t.Helper()
	ours := strings.HasPrefix(event.User.Username, "system:serviceaccount:drydock-system:")
	if event.ObjectRef == nil || event.ResponseStatus == nil || event.ResponseStatus.Code >= http.StatusBadRequest || event.Stage != auditv1.StageResponseComplete {
		return
	}
	if event.ImpersonatedUser != nil && event.ImpersonatedUser.Username == mallory && event.Verb != "get" && event.Verb != "list" {
		require.False(t, ofDrydock(event.ObjectRef.Namespace), "%s", event.RequestURI)
		require.NotEmpty(t, event.ObjectRef.Namespace, "%s", event.RequestURI)
	}
	if !ours || event.Verb == "get" || event.Verb == "list" || event.Verb == "watch" {
		return
	}
	resource := event.ObjectRef.Resource
	if event.ObjectRef.Subresource != "" {
		resource += "/" + event.ObjectRef.Subresource
	}
	what := event.ObjectRef.Namespace + " " + resource + " " + event.Verb
	for _, expected := range expectedWrites {
		if expected.MatchString(what) {
			return
		}
	}
	require.Fail(t, "Drydock wrote what it should not", "%s by %s: %s", what, event.User.Username, event.RequestURI)
}
