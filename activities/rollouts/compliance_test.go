package rollouts

import (
	"fmt"
	"strings"
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

	"drydock.dev/drydock/activities/activitykit"
	"drydock.dev/drydock/activities/activitytest"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/devstack/devstacktest"
	"drydock.dev/drydock/internal/policies"
)

// createPolicy creates a policy, or the replica of one, with its status. The status was written at a time.
func createPolicy(t *testing.T, namespace, name, status string, written time.Time) {
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
	hub := activitytest.BareCluster(t).Client
	require.NoError(t, hub.Status().Patch(t.Context(), policy, client.RawPatch(types.MergePatchType, []byte(status))))
	entries := policy.GetManagedFields()
	for i := range entries {
		if entries[i].Subresource == "status" {
			entries[i].Time = new(metav1.NewTime(written))
		}
	}
	policy.SetManagedFields(entries)
	require.NoError(t, hub.Update(t.Context(), policy))
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
	createPolicy(t, namespace, "base", `{"status":{"status":[`+summary[:len(summary)-1]+`]}}`, time.Now())
	replica := namespace + ".base"
	createPolicy(t, clusters["agrees"], replica, `{"status":{"compliant":"Compliant"}}`, time.Now().Add(time.Minute))
	createPolicy(t, clusters["differs"], replica, `{"status":{"compliant":"NonCompliant"}}`, time.Now().Add(time.Minute))
	createPolicy(t, clusters["outdated"], replica, `{"status":{"compliant":"Compliant"}}`, time.Now().Add(-time.Hour))

	cgu := ranv1.ClusterGroupUpgrade{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "june"}, Spec: ranv1.ClusterGroupUpgradeSpec{
		Clusters: []string{clusters["agrees"], clusters["differs"], clusters["lacks"], clusters["outdated"]}, ManagedPolicies: []string{"base"},
		RemediationStrategy: ranv1.RemediationStrategy{MaxConcurrency: intstr.FromInt32(4)},
	}}
	a := &Activities{Clusters: activitytest.Clusters}
	var planned Plan
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		var err error
		planned, err = a.PlanRollout(t.Context(), cgu)
		assert.NoError(c, err)
		assert.Equal(c, [][]string{{clusters["differs"], clusters["lacks"], clusters["outdated"]}}, planned.RemediationPlan)
	}, activitytest.EventTimeout, 20*time.Millisecond)
	require.Len(t, planned.Skipped, 1)
	require.Equal(t, "AlreadyCompliant", planned.Skipped[0].Reason)

	registered := &unstructured.Unstructured{}
	registered.SetGroupVersionKind(activitykit.ManagedClusterKind)
	registered.SetName(clusters["outdated"])
	available := `{"status":{"conditions":[{"type":"ManagedClusterConditionAvailable","status":"True","reason":"Test","message":"","lastTransitionTime":"2026-01-10T12:00:00Z"}]}}`
	require.NoError(t, activitytest.BareCluster(t).Client.Status().Patch(t.Context(), registered, client.RawPatch(types.MergePatchType, []byte(available))))
	settled := specifiedAt(t, time.Now().Add(-policies.Settle+2*time.Second), namespace+"/base", clusters["outdated"]+"/"+replica)
	require.NoError(t, a.AwaitOtherPlan(t.Context(), AwaitOtherPlanInput{Object: cgu, Digest: planned.Digest}))
	planned, err := a.PlanRollout(t.Context(), cgu)
	require.NoError(t, err)
	require.Equal(t, [][]string{{clusters["differs"], clusters["lacks"]}}, planned.RemediationPlan)
	require.False(t, time.Now().Before(settled.Add(policies.Settle)))
}

// specifiedAt sets when the specs of policies were last changed.
func specifiedAt(t *testing.T, at time.Time, names ...string) time.Time {
	t.Helper()
	for _, name := range names {
		policy := &unstructured.Unstructured{}
		policy.SetGroupVersionKind(policies.Policies)
		namespace, name, _ := strings.Cut(name, "/")
		hub := activitytest.BareCluster(t).Client
		require.NoError(t, hub.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, policy))
		entries := policy.GetManagedFields()
		for i := range entries {
			if entries[i].Subresource == "" {
				entries[i].Time = new(metav1.NewTime(at))
			}
		}
		policy.SetManagedFields(entries)
		require.NoError(t, hub.Update(t.Context(), policy))
	}
	return at.Truncate(time.Second)
}
