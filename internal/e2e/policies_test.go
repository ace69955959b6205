package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"drydock.dev/drydock/activities/activitykit"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/devstack/devstacktest"
	"drydock.dev/drydock/internal/devstack/propagator"
)

// createOnHub creates objects, and deletes them after the test.
func createOnHub(t *testing.T, documents string) {
	t.Helper()
	hub, err := client.New(theFleet.Hub.Config, client.Options{})
	require.NoError(t, err)
	for _, document := range strings.Split(documents, "\n---\n") {
		object := &unstructured.Unstructured{}
		require.NoError(t, yaml.Unmarshal([]byte(document), &object.Object))
		require.NoError(t, hub.Create(t.Context(), object), document)
		t.Cleanup(func() { require.NoError(t, client.IgnoreNotFound(hub.Delete(context.Background(), object))) })
	}
}

// informPolicy is an inform policy for a ConfigMap with its name, bound to clusters.
func informPolicy(name, annotations string, clusters ...string) string {
	listed := ""
	for _, cluster := range clusters {
		listed += "{name: " + cluster + "},"
	}
	return strings.NewReplacer("NAME", name, "ANNOTATIONS", annotations, "CLUSTERS", listed).Replace(`
apiVersion: policy.open-cluster-management.io/v1
kind: Policy
metadata: {namespace: default, name: NAME, annotations: {ANNOTATIONS}}
spec:
  disabled: false
  remediationAction: inform
  policy-templates:
  - objectDefinition:
      apiVersion: policy.open-cluster-management.io/v1
      kind: ConfigurationPolicy
      metadata: {name: NAME}
      spec: {object-templates: [{complianceType: musthave, objectDefinition: {apiVersion: v1, kind: ConfigMap, metadata: {name: NAME}}}]}
---
apiVersion: apps.open-cluster-management.io/v1
kind: PlacementRule
metadata: {namespace: default, name: NAME}
spec: {clusters: [CLUSTERS]}
---
apiVersion: policy.open-cluster-management.io/v1
kind: PlacementBinding
metadata: {namespace: default, name: NAME}
placementRef: {apiGroup: apps.open-cluster-management.io, kind: PlacementRule, name: NAME}
subjects: [{apiGroup: policy.open-cluster-management.io, kind: Policy, name: NAME}]`)
}

// The rollout is started before its policy exists, and its policy before it is bound.
func TestARolloutStartsOnceItsPoliciesAreBound(t *testing.T) {
	reserve(t, policyHub, edges)
	for _, edge := range []string{"edge-1", "edge-2"} {
		register(t, edge, nil)
	}
	hub, err := propagator.Start(t.Context(), theFleet.Hub.Config, propagator.Options{Takes: func(string, string) time.Duration { return 0 }})
	require.NoError(t, err)
	t.Cleanup(hub.Stop)
	awaitValidated := func(message string) {
		t.Helper()
		awaitStatus(t, "later", func(s ranv1.ClusterGroupUpgradeStatus) bool {
			return strings.Contains(conditionMessage(s, ranv1.ConditionValidated), message)
		})
	}
	startUnchecked(t, on("edge-1, edge-2", "\n  managedPolicies: [clock]\n  actions: {afterCompletion: {addClusterLabels: {clock: set}}}")("later"))
	awaitValidated("Missing managed policies: [clock]")
	policy, binding, _ := strings.Cut(informPolicy("clock", "", "edge-1"), "\n---\n")
	createOnHub(t, policy)
	awaitValidated("policy default/clock is bound to none of the selected clusters (edge-1, edge-2)")
	createOnHub(t, binding)
	ended := awaitStatus(t, "later", func(s ranv1.ClusterGroupUpgradeStatus) bool {
		return conditionMessage(s, ranv1.ConditionSucceeded) != ""
	})
	require.Equal(t, "True Completed: All clusters are compliant with all the managed policies; skipped because no policy of the rollout is bound to them: edge-2",
		conditionMessage(ended, ranv1.ConditionSucceeded))
	for edge, label := range map[string]string{"edge-1": "set", "edge-2": ""} {
		managed := activitykit.ManagedCluster(edge)
		require.NoError(t, hubClient(t).Get(t.Context(), client.ObjectKeyFromObject(managed), managed))
		require.Equal(t, label, managed.GetLabels()["clock"], edge)
	}
}

// Only the hub knows the clusters. edge-1 loses compliance with its first policy while that soaks. edge-2 never complies with the other policy.
func TestPoliciesAreRolledOutThroughTheHub(t *testing.T) {
	reserve(t, policyHub, edges)
	const soak = 20 * time.Second
	clusters := []string{"edge-1", "edge-2", "edge-3"}
	for _, edge := range clusters {
		register(t, edge, nil)
	}
	var repaired atomic.Bool
	hub, err := propagator.Start(t.Context(), theFleet.Hub.Config, propagator.Options{Takes: func(cluster, policy string) time.Duration {
		if cluster == "edge-2" && strings.Contains(policy, "network") && !repaired.Load() {
			return -1
		}
		return 200 * time.Millisecond
	}})
	require.NoError(t, err)
	t.Cleanup(hub.Stop)
	createOnHub(t, informPolicy("kernel", `ran.openshift.io/soak-seconds: "20"`, clusters...))
	createOnHub(t, informPolicy("network", "", clusters...))
	awaitNonCompliant(t, len(clusters), "kernel", "network")

	example, err := os.ReadFile(filepath.Join("..", "..", "docs", "examples", "policy-rollout.yaml"))
	require.NoError(t, err)
	r := applyRollout(t, strings.Replace(string(example), "timeout: 1", "timeout: 60", 1))
	inState := func(cluster string, state ranv1.ClusterState) ranv1.ClusterGroupUpgradeStatus {
		return awaitStatus(t, "policies", func(s ranv1.ClusterGroupUpgradeStatus) bool { return clusterOf(s, cluster).State == state })
	}
	inState("edge-1", ranv1.ClusterSoaking)
	hub.Drift("edge-1", "default", "kernel")
	drifted := time.Now()
	r.awaitCondition("Progressing", "True InProgress")
	started := inState("edge-1", ranv1.ClusterComplete).Status.StartedAt.Time
	setTimeout := func(minutes int) { r.patch(fmt.Sprintf(`{"spec":{"remediationStrategy":{"timeout":%d}}}`, minutes)) }
	setTimeout(2 + int(time.Since(started).Minutes())) // half of it is for the first batch
	inState("edge-2", ranv1.ClusterTimedOut)
	setTimeout(60)
	status, code := awaitEnd(t, "policies")

	require.Equal(t, 1, code)
	requireSucceededFalse(t, status, ranv1.ReasonTimedOut)
	require.Equal(t, ranv1.ClusterComplete, clusterOf(status, "edge-1").State)
	require.Equal(t, ranv1.ClusterTimedOut, clusterOf(status, "edge-2").State)
	require.Equal(t, &ranv1.PolicyStatus{Name: "network", Status: "NonCompliant"}, clusterOf(status, "edge-2").CurrentPolicy)
	require.Equal(t, ranv1.ClusterComplete, clusterOf(status, "edge-3").State)
	shown := r.awaitCondition("Succeeded", "False TimedOut")
	require.Equal(t, map[string]any{"edge-1": "complete", "edge-2": "timedout", "edge-3": "complete"}, shownClusters(shown))
	managed, _, _ := unstructured.NestedSlice(shown.Object, "status", "managedPoliciesForUpgrade")
	require.Equal(t, []any{map[string]any{"name": "kernel", "namespace": "default"}, map[string]any{"name": "network", "namespace": "default"}}, managed)

	began := func(cluster, policy string) propagator.Enforcement {
		all := hub.Enforcements()
		i := slices.IndexFunc(all, func(e propagator.Enforcement) bool {
			return e.Began && e.Cluster == cluster && strings.Contains(e.Policy, policy)
		})
		require.GreaterOrEqual(t, i, 0, "%s on %s", policy, cluster)
		return all[i]
	}
	require.Greater(t, began("edge-1", "network").At.Sub(drifted), soak, "the drift restarts the soak time")
	for _, edge := range clusters {
		require.True(t, began(edge, "kernel").At.Before(began(edge, "network").At), "the policies are enforced one after the other on %s", edge)
	}
	require.True(t, began("edge-3", "kernel").At.After(clusterOf(status, "edge-2").CompletedAt.Time.Add(-time.Second)), "the second batch starts after the first")
	requireNothingEnforced(t, hub)
	requireNoHubObjects(t, "policies")

	repaired.Store(true)
	before := len(hub.Enforcements())
	succeeds(t, "upgrade", "retry", "policies")
	status, code = awaitEnd(t, "policies")
	require.Zero(t, code, "%v", status.Conditions)
	require.EqualValues(t, len(clusters), status.Counts.Complete)
	for _, enforcement := range hub.Enforcements()[before:] {
		require.Equal(t, "edge-2", enforcement.Cluster, "complete clusters are not touched")
	}
	requireNoHubObjects(t, "policies")
	shown = r.awaitCondition("Succeeded", "True Completed")
	require.Equal(t, map[string]any{"edge-1": "complete", "edge-2": "complete", "edge-3": "complete"}, shownClusters(shown))
}

// A copy in the namespace of the rollout reads what the policy reads in its own, also after a change.
func TestACopyOfAPolicyReadsTheSameConfigMap(t *testing.T) {
	reserve(t, policyHub, edges)
	register(t, "edge-1", nil)
	var large atomic.Bool
	hub, err := propagator.Start(t.Context(), theFleet.Hub.Config, propagator.Options{Takes: func(string, string) time.Duration {
		if large.Load() {
			return 0
		}
		return -1
	}})
	require.NoError(t, err)
	t.Cleanup(hub.Stop)
	base := devstacktest.Namespace(t, theFleet.Hub)
	in := func(text string) string { return strings.ReplaceAll(text, "NAMESPACE", base) }
	createOnHub(t, in(`
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {namespace: NAMESPACE, name: rollouts}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: drydock-rollouts}
subjects: [{kind: ServiceAccount, namespace: drydock-system, name: drydock-hub}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {namespace: NAMESPACE, name: configmaps}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: drydock-copied-configmaps}
subjects: [{kind: ServiceAccount, namespace: drydock-system, name: drydock-hub}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {namespace: default, name: configmaps}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: drydock-copied-configmaps}
subjects: [{kind: ServiceAccount, namespace: drydock-system, name: drydock-hub}]
---
apiVersion: policy.open-cluster-management.io/v1
kind: Policy
metadata: {namespace: NAMESPACE, name: sized}
spec:
  disabled: false
  remediationAction: inform
  policy-templates:
  - objectDefinition:
      apiVersion: policy.open-cluster-management.io/v1
      kind: ConfigurationPolicy
      metadata: {name: sized}
      spec: {object-templates: [{complianceType: musthave, objectDefinition: {apiVersion: v1, kind: ConfigMap, metadata: {name: sized}, data: {size: '{{hub fromConfigMap "" "sizes" "size" hub}}'}}}]}
---
apiVersion: apps.open-cluster-management.io/v1
kind: PlacementRule
metadata: {namespace: NAMESPACE, name: sized}
spec: {clusters: [{name: edge-1}]}
---
apiVersion: policy.open-cluster-management.io/v1
kind: PlacementBinding
metadata: {namespace: NAMESPACE, name: sized}
placementRef: {apiGroup: apps.open-cluster-management.io, kind: PlacementRule, name: sized}
subjects: [{apiGroup: policy.open-cluster-management.io, kind: Policy, name: sized}]`))
	startUnchecked(t, on("edge-1", "\n  managedPolicies: [sized]\n  policyEnforcement: Copy")("sizes"))
	awaitStatus(t, "sizes", func(s ranv1.ClusterGroupUpgradeStatus) bool {
		return strings.Contains(conditionMessage(s, ranv1.ConditionValidated), "its hub templates read ConfigMap "+base+"/sizes, which does not exist")
	})
	createOnHub(t, in("{apiVersion: v1, kind: ConfigMap, metadata: {namespace: NAMESPACE, name: sizes}, data: {size: small}}"))
	require.Eventually(t, func() bool { return len(hub.Enforced()["edge-1"]) > 0 }, stateLimit, 20*time.Millisecond)

	sizes := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: base, Name: "sizes"}}
	require.NoError(t, hubClient(t).Patch(t.Context(), sizes, client.RawPatch(types.MergePatchType, []byte(`{"data":{"size":"large"}}`))))
	large.Store(true)
	hub.Evaluate()
	status, code := awaitEnd(t, "sizes")
	require.Zero(t, code, "%v", status.Conditions)
	require.EqualValues(t, 1, status.Counts.Complete)
	requireNoHubObjects(t, "sizes")
	var copies corev1.ConfigMapList
	require.NoError(t, hubClient(t).List(t.Context(), &copies, client.MatchingLabels{"openshift-cluster-group-upgrades/clusterGroupUpgrade": "sizes"}))
	require.Empty(t, copies.Items)
}

// unbindAllClusters deletes the binding that lets Placements of namespace default select all clusters, until the end of the test.
func unbindAllClusters(t *testing.T) {
	t.Helper()
	binding := &unstructured.Unstructured{}
	require.NoError(t, yaml.Unmarshal([]byte(allClustersBound), &binding.Object))
	hub := hubClient(t)
	require.NoError(t, hub.Delete(t.Context(), binding.DeepCopy()))
	t.Cleanup(func() { require.NoError(t, hub.Create(context.Background(), binding)) })
}

const allClustersBound = `
apiVersion: cluster.open-cluster-management.io/v1beta2
kind: ManagedClusterSetBinding
metadata: {namespace: default, name: global}
spec: {clusterSet: global}`

// The binding of their sets disappears, and another user deletes and changes what enforces the policy, while clusters are in progress. A Placement binds the
// policy, so that the hub unbinds it, too.
func TestARolloutInProgressWaitsForClusterSetBindingsAndRestoresItsObjects(t *testing.T) {
	alone(t)
	createOnHub(t, managedCluster("dock-1"))
	var complies atomic.Bool
	hub, err := propagator.Start(t.Context(), theFleet.Hub.Config, propagator.Options{Takes: func(string, string) time.Duration {
		if complies.Load() {
			return 0
		}
		return -1
	}})
	require.NoError(t, err)
	t.Cleanup(hub.Stop)
	unbindAllClusters(t)
	binding := &unstructured.Unstructured{}
	require.NoError(t, yaml.Unmarshal([]byte(allClustersBound), &binding.Object))
	api := hubClient(t)
	require.NoError(t, api.Create(t.Context(), binding.DeepCopy()))
	t.Cleanup(func() {
		require.NoError(t, client.IgnoreNotFound(api.Delete(context.Background(), binding.DeepCopy())))
	})
	policy, _, _ := strings.Cut(informPolicy("clock", ""), "\n---\n")
	createOnHub(t, policy+`
---
apiVersion: cluster.open-cluster-management.io/v1beta1
kind: Placement
metadata: {namespace: default, name: docks}
spec: {predicates: [{requiredClusterSelector: {labelSelector: {matchExpressions: [{key: name, operator: In, values: [dock-1]}]}}}]}
---
apiVersion: policy.open-cluster-management.io/v1
kind: PlacementBinding
metadata: {namespace: default, name: docks}
placementRef: {apiGroup: cluster.open-cluster-management.io, kind: Placement, name: docks}
subjects: [{apiGroup: policy.open-cluster-management.io, kind: Policy, name: clock}]`)
	awaitNonCompliant(t, 1, "clock")
	startUnchecked(t, on("dock-1", "\n  managedPolicies: [clock]")("docks"))
	awaitEnforced := func() {
		t.Helper()
		require.Eventually(t, func() bool { return len(hub.Enforced()["dock-1"]) == 1 }, stateLimit, 20*time.Millisecond)
	}
	awaitEnforced()

	require.NoError(t, api.Delete(t.Context(), binding.DeepCopy()))
	awaitStatus(t, "docks", func(s ranv1.ClusterGroupUpgradeStatus) bool {
		dock := clusterOf(s, "dock-1")
		return dock.Reason == ranv1.ReasonWaitingForPlacement && strings.Contains(dock.Message, "create the ManagedClusterSetBinding there for the set global") &&
			strings.Contains(conditionMessage(s, ranv1.ConditionProgressing), ranv1.ReasonWaitingForPlacement)
	})
	require.Eventually(t, func() bool { return len(hub.Enforced()["dock-1"]) == 0 }, stateLimit, 20*time.Millisecond, "the hub has unbound the policy")
	require.NoError(t, api.Create(t.Context(), binding.DeepCopy()))
	awaitStatus(t, "docks", func(s ranv1.ClusterGroupUpgradeStatus) bool {
		return clusterOf(s, "dock-1").Reason == "NonCompliant"
	})
	awaitEnforced()

	var placements, bindings unstructured.UnstructuredList
	placements.SetAPIVersion("cluster.open-cluster-management.io/v1beta1")
	placements.SetKind("PlacementList")
	bindings.SetAPIVersion("policy.open-cluster-management.io/v1")
	bindings.SetKind("PlacementBindingList")
	ours := client.MatchingLabels{"openshift-cluster-group-upgrades/clusterGroupUpgrade": "docks"}
	require.NoError(t, api.List(t.Context(), &placements, ours))
	require.NoError(t, api.List(t.Context(), &bindings, ours))
	require.Len(t, placements.Items, 1)
	require.Len(t, bindings.Items, 1)
	require.NoError(t, api.Delete(t.Context(), &placements.Items[0]))
	narrowed := bindings.Items[0].DeepCopy()
	unstructured.RemoveNestedField(narrowed.Object, "bindingOverrides", "remediationAction")
	require.NoError(t, api.Patch(t.Context(), narrowed, client.MergeFrom(&bindings.Items[0])))
	awaitStatus(t, "docks", func(s ranv1.ClusterGroupUpgradeStatus) bool {
		notes := strings.Join(s.Notes, "; ")
		return strings.Contains(notes, "had been deleted, and was created again") && strings.Contains(notes, "had been changed by another user, and was restored")
	})
	awaitEnforced()
	complies.Store(true)
	hub.Evaluate()
	status, code := awaitEnd(t, "docks")
	require.Zero(t, code, "%v", status.Conditions)
	require.EqualValues(t, 1, status.Counts.Complete)
	requireNoHubObjects(t, "docks")
}

// The policies are enforced with additional bindings. The worker is killed while core-1 is running, and a policy is deleted while core-2 is.
func TestPoliciesAreEnforcedInPlaceOnceEachDespiteFaults(t *testing.T) {
	alone(t)
	cores := []string{"core-1", "core-2"}
	for _, core := range cores {
		createOnHub(t, managedCluster(core))
	}
	hub, err := propagator.Start(t.Context(), theFleet.Hub.Config, propagator.Options{Takes: func(cluster, policy string) time.Duration {
		if cluster == "core-2" && strings.Contains(policy, "dns") {
			return -1
		}
		return 3 * time.Second
	}})
	require.NoError(t, err)
	t.Cleanup(hub.Stop)
	createOnHub(t, informPolicy("clock", "", cores...))
	createOnHub(t, informPolicy("dns", "", cores...))
	awaitNonCompliant(t, len(cores), "clock", "dns")
	unbindAllClusters(t)

	startUnchecked(t, `
apiVersion: ran.openshift.io/v1alpha1
kind: ClusterGroupUpgrade
metadata: {namespace: default, name: in-place}
spec:
  clusters: [core-1, core-2]
  managedPolicies: [clock, dns]
  remediationStrategy: {maxConcurrency: 1, timeout: 60}`)
	waiting := awaitPhase(t, "in-place", ranv1.ReasonWaitingForPlacement)
	require.Contains(t, waiting.Wait.Message, "create the ManagedClusterSetBindings there for the sets global (for: core-1, core-2)")
	createOnHub(t, allClustersBound)
	require.Eventually(t, func() bool { return len(hub.Enforced()["core-1"]) > 0 }, stateLimit, 20*time.Millisecond)
	require.NoError(t, theFleet.Worker.Kill())
	require.NoError(t, theFleet.Worker.Start(t.Context()))
	awaitStatus(t, "in-place", func(s ranv1.ClusterGroupUpgradeStatus) bool {
		return clusterOf(s, "core-2").Step == "policy dns" && slices.Contains(hub.Enforced()["core-2"], "default.dns")
	})
	client, err := client.New(theFleet.Hub.Config, client.Options{})
	require.NoError(t, err)
	policy := &unstructured.Unstructured{}
	policy.SetAPIVersion("policy.open-cluster-management.io/v1")
	policy.SetKind("Policy")
	policy.SetNamespace("default")
	policy.SetName("dns")
	require.NoError(t, client.Delete(t.Context(), policy))
	status, code := awaitEnd(t, "in-place")

	require.Equal(t, 1, code)
	requireSucceededFalse(t, status, ranv1.ReasonFailed)
	require.Equal(t, ranv1.ClusterComplete, clusterOf(status, "core-1").State)
	require.Equal(t, ranv1.ClusterFailed, clusterOf(status, "core-2").State)
	require.Equal(t, "Unbound", clusterOf(status, "core-2").Reason)
	require.Contains(t, clusterOf(status, "core-2").Message, "policy default/dns is no longer bound to the cluster")
	require.Len(t, status.Notes, 1)
	require.Contains(t, status.Notes[0], "policy default/dns has been changed, or deleted, since the rollout began")
	requireNothingEnforced(t, hub)
	began := map[string]int{}
	for _, enforcement := range hub.Enforcements() {
		if enforcement.Began {
			began[enforcement.Cluster+" "+enforcement.Policy]++
		}
	}
	require.Equal(t, map[string]int{"core-1 default.clock": 1, "core-1 default.dns": 1, "core-2 default.clock": 1, "core-2 default.dns": 1}, began, "each policy is enforced once on each cluster")
	requireNoHubObjects(t, "in-place")
}

// awaitNonCompliant waits until each policy has the compliance status of that many clusters, all NonCompliant.
func awaitNonCompliant(t *testing.T, clusters int, policies ...string) {
	t.Helper()
	hub, err := client.New(theFleet.Hub.Config, client.Options{})
	require.NoError(t, err)
	for _, name := range policies {
		policy := &unstructured.Unstructured{}
		policy.SetAPIVersion("policy.open-cluster-management.io/v1")
		policy.SetKind("Policy")
		require.Eventually(t, func() bool {
			if hub.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: name}, policy) != nil {
				return false
			}
			statuses, _, _ := unstructured.NestedSlice(policy.Object, "status", "status")
			return len(statuses) == clusters && !slices.ContainsFunc(statuses, func(s any) bool { return s.(map[string]any)["compliant"] != "NonCompliant" })
		}, stateLimit, 50*time.Millisecond, "policy %s", name)
	}
}

// requireNothingEnforced waits until no policy is enforced.
func requireNothingEnforced(t *testing.T, hub *propagator.Propagator) {
	t.Helper()
	require.Eventually(t, func() bool { return len(hub.Enforced()) == 0 }, stateLimit, 50*time.Millisecond, "no policy is enforced")
}

// awaitNotEnforced waits until no policy is enforced on clusters: what drifts on them would comply again at once.
func awaitNotEnforced(t *testing.T, hub *propagator.Propagator, clusters ...string) {
	t.Helper()
	require.Eventually(t, func() bool {
		enforced := hub.Enforced()
		return !slices.ContainsFunc(clusters, func(cluster string) bool { return len(enforced[cluster]) > 0 })
	}, stateLimit, 20*time.Millisecond)
}

func clusterOf(status ranv1.ClusterGroupUpgradeStatus, name string) ranv1.ClusterStatus {
	for _, cluster := range status.Clusters {
		if cluster.Name == name {
			return cluster
		}
	}
	return ranv1.ClusterStatus{}
}

// requireNoHubObjects requires that the hub has no objects of a rollout.
func requireNoHubObjects(t *testing.T, rollout string) {
	t.Helper()
	hub, err := client.New(theFleet.Hub.Config, client.Options{})
	require.NoError(t, err)
	for _, kind := range []string{"policy.open-cluster-management.io/v1/Policy", "policy.open-cluster-management.io/v1/PlacementBinding", "apps.open-cluster-management.io/v1/PlacementRule", "cluster.open-cluster-management.io/v1beta1/Placement"} {
		group, name := kind[:strings.LastIndex(kind, "/")], kind[strings.LastIndex(kind, "/")+1:]
		list := &unstructured.UnstructuredList{}
		list.SetAPIVersion(group)
		list.SetKind(name + "List")
		require.NoError(t, hub.List(t.Context(), list, client.InNamespace("default"), client.MatchingLabels{"openshift-cluster-group-upgrades/clusterGroupUpgrade": rollout}))
		require.Empty(t, list.Items, fmt.Sprintf("%s of rollout %s", kind, rollout))
	}
}
