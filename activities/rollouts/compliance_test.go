package rollouts

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"drydock.dev/drydock/activities/activitytest"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/devstack/devstacktest"
	"drydock.dev/drydock/internal/policies"
	"drydock.dev/drydock/internal/snapshot"
)

// createPolicy creates a policy, or the replica of one, with its status.
func createPolicy(t *testing.T, namespace, name, status string) {
	t.Helper()
	policy := &unstructured.Unstructured{}
	label := ""
	if policies.IsReplica(name) {
		label = policies.LabelRoot + ": " + name
	}
	require.NoError(t, yaml.Unmarshal(fmt.Appendf(nil, `
apiVersion: policy.open-cluster-management.io/v1
kind: Policy
metadata: {namespace: %s, name: %s, labels: {%s}}
spec:
  disabled: false
  remediationAction: inform
  policy-templates: [{objectDefinition: {apiVersion: v1, kind: ConfigMap, metadata: {name: base}, spec: {object-templates: []}}}]`, namespace, name, label), &policy.Object))
	activitytest.Create(t, activitytest.BareCluster(t), policy)
	require.NoError(t, activitytest.BareCluster(t).Client.Status().Patch(t.Context(), policy, client.RawPatch(types.MergePatchType, []byte(status))))
}

// The policy says of all clusters that they comply with it.
func TestAClusterCompliesOnlyIfItsReplicaSaysSo(t *testing.T) {
	namespace := devstacktest.Namespace(t, activitytest.Stack.Cluster(activitytest.HubName))
	clusters := map[string]string{}
	summary := ""
	for _, name := range []string{"agrees", "differs", "lacks", "outdated"} {
		clusters[name] = devstacktest.Namespace(t, activitytest.Stack.Cluster(activitytest.HubName))
		activitytest.ManagedCluster(t, clusters[name], nil)
		summary += fmt.Sprintf(`{"clustername":%q,"clusternamespace":%[1]q,"compliant":"Compliant"},`, clusters[name])
	}
	activitytest.BindAllClusters(t, namespace)
	createPolicy(t, namespace, "base", `{"status":{"status":[`+summary[:len(summary)-1]+`]}}`)
	replica := namespace + ".base"
	createPolicy(t, clusters["agrees"], replica, `{"status":{"compliant":"Compliant"}}`)
	createPolicy(t, clusters["differs"], replica, `{"status":{"compliant":"NonCompliant"}}`)
	createPolicy(t, clusters["outdated"], replica, `{"status":{"compliant":"Compliant","details":[{"history":[{"lastTimestamp":"2026-01-10T12:00:00Z"}]}]}}`)

	cgu := ranv1.ClusterGroupUpgrade{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "june"}, Spec: ranv1.ClusterGroupUpgradeSpec{
		Clusters: []string{clusters["agrees"], clusters["differs"], clusters["lacks"], clusters["outdated"]}, ManagedPolicies: []string{"base"},
		RemediationStrategy: ranv1.RemediationStrategy{MaxConcurrency: intstr.FromInt32(4)},
	}}
	a := &Activities{Clusters: activitytest.Clusters}
	var planned Plan
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		var err error
		planned, err = a.PlanRollout(t.Context(), PlanInput{Object: cgu})
		assert.NoError(c, err)
		assert.Equal(c, [][]string{{clusters["differs"], clusters["lacks"], clusters["outdated"]}}, planned.RemediationPlan)
	}, activitytest.EventTimeout, 20*time.Millisecond)
	require.Len(t, planned.Skipped, 1)
	require.Equal(t, "AlreadyCompliant", planned.Skipped[0].Reason)

	activitytest.SetAvailable(t, clusters["outdated"], metav1.ConditionTrue)
	hub, err := activitytest.Clusters.Hub(t.Context())
	require.NoError(t, err)
	later := time.Now().Add(policies.Settle)
	inventory, err := snapshot.Inventory(t.Context(), planReader{Reader: hub.Cache, api: hub.Client}, &cgu, later)
	require.NoError(t, err)
	require.Equal(t, map[string]bool{clusters["agrees"]: true, clusters["differs"]: false, clusters["lacks"]: false, clusters["outdated"]: true}, inventory.Policies[0].Compliant)
}

func TestAPolicyThatIsCreatedChangesThePlan(t *testing.T) {
	namespace := devstacktest.Namespace(t, activitytest.Stack.Cluster(activitytest.HubName))
	cluster := devstacktest.Namespace(t, activitytest.Stack.Cluster(activitytest.HubName))
	activitytest.ManagedCluster(t, cluster, nil)
	cgu := ranv1.ClusterGroupUpgrade{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "june"}, Spec: ranv1.ClusterGroupUpgradeSpec{
		Clusters: []string{cluster}, ManagedPolicies: []string{"base"}, RemediationStrategy: ranv1.RemediationStrategy{MaxConcurrency: intstr.FromInt32(1)},
	}}
	a := &Activities{Clusters: activitytest.Clusters}
	waiting := plan(t, cgu)
	require.Equal(t, []string{"Missing managed policies: [base]"}, waiting.Problems())
	ended := make(chan error, 1)
	go func() {
		ended <- a.AwaitOtherPlan(t.Context(), AwaitOtherPlanInput{PlanInput: PlanInput{Object: cgu}, Digest: waiting.Digest})
	}()
	createPolicy(t, namespace, "base", `{"status":{}}`)
	select {
	case err := <-ended:
		require.NoError(t, err)
	case <-time.After(activitytest.EventTimeout):
		require.Fail(t, "the change was not noticed")
	}
	require.Contains(t, plan(t, cgu).Problems()[0], "bound to none of the selected clusters")
}
