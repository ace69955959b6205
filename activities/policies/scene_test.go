package policies

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"drydock.dev/drydock/activities/activitytest"
	"drydock.dev/drydock/activities/remediation"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/devstack/devstacktest"
	"drydock.dev/drydock/internal/devstack/propagator"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/policies"
)

// policyScene is a hub with a simulated policy propagator. Some policies are bound to all clusters of the scene, with remediation inform.
type policyScene struct {
	t          *testing.T
	hub        *kube.Cluster
	propagator *propagator.Propagator
	activities *Activities
	rollout    Rollout
	clusters   []string
}

// The ways to enforce policies, from today's hubs to old ones.
var (
	byOverride    = ranv1.EnforcementStatus{By: ranv1.EnforceOverride, Placements: ranv1.KindPlacement}
	byCopy        = ranv1.EnforcementStatus{By: ranv1.EnforceCopy, Placements: ranv1.KindPlacement}
	byCopyAndRule = ranv1.EnforcementStatus{By: ranv1.EnforceCopy, Placements: ranv1.KindPlacementRule}
)

// newPolicyScene creates a scene with two policies.
func newPolicyScene(t *testing.T, enforcement ranv1.EnforcementStatus, takes func(cluster, policy string) time.Duration) *policyScene {
	t.Helper()
	simulated, err := propagator.Start(t.Context(), activitytest.Stack.Cluster(activitytest.HubName).Config, propagator.Options{Takes: takes})
	require.NoError(t, err)
	t.Cleanup(simulated.Stop)
	namespace := devstacktest.Namespace(t, activitytest.Stack.Cluster(activitytest.HubName))
	s := &policyScene{
		t: t, hub: activitytest.BareCluster(t), propagator: simulated, activities: &Activities{Clusters: activitytest.Clusters},
		rollout: Rollout{
			Namespace: namespace, Name: "june", Owner: "cgu/" + namespace + "/june/first-run", Enforcement: enforcement,
			Policies: []policies.Ref{{Namespace: namespace, Name: "kernel"}, {Namespace: namespace, Name: "network"}},
		},
	}
	grantRollouts(t, namespace)
	for i := range 3 {
		s.clusters = append(s.clusters, fmt.Sprintf("%s-c%d", namespace, i+1))
		s.create("apiVersion: cluster.open-cluster-management.io/v1\nkind: ManagedCluster\nmetadata: {name: " + s.clusters[i] + ", labels: {name: " + s.clusters[i] + "}}")
	}
	if enforcement.Placements == ranv1.KindPlacement {
		activitytest.BindAllClusters(t, namespace)
	}
	for _, policy := range s.rollout.Policies {
		s.create(informing(policy, ""))
		s.bind(policy, s.clusters...)
	}
	s.awaitCompliance("NN", s.clusters...)
	return s
}

// grantRollouts grants the hub's account the role of deploy/rbac for namespaces of rollouts.
func grantRollouts(t *testing.T, namespace string) {
	t.Helper()
	grant(t, namespace, "drydock-rollouts")
	devstacktest.Granted(t, activitytest.Stack.Cluster(activitytest.HubName), devstacktest.ServiceAccount("drydock-hub"),
		authorizationv1.ResourceAttributes{Namespace: namespace, Verb: "create", Group: policies.PlacementBindings.Group, Resource: "placementbindings"})
}

// grant binds roles of deploy/rbac to the hub's account in a namespace.
func grant(t *testing.T, namespace string, roles ...string) {
	t.Helper()
	for _, role := range roles {
		binding := &unstructured.Unstructured{}
		require.NoError(t, yaml.Unmarshal([]byte(`
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: `+role+`, namespace: `+namespace+`}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: `+role+`}
subjects: [{kind: ServiceAccount, namespace: drydock-system, name: drydock-hub}]`), &binding.Object))
		require.NoError(t, activitytest.BareCluster(t).Client.Create(t.Context(), binding))
	}
}

// informing returns a policy that requires a ConfigMap of its name.
func informing(policy policies.Ref, annotations string) string {
	return fmt.Sprintf(`
apiVersion: policy.open-cluster-management.io/v1
kind: Policy
metadata: {namespace: %s, name: %s, annotations: {%s}}
spec:
  disabled: false
  remediationAction: inform
  policy-templates:
  - objectDefinition:
      apiVersion: policy.open-cluster-management.io/v1
      kind: ConfigurationPolicy
      metadata: {name: %s-config}
      spec:
        remediationAction: inform
        object-templates: [{complianceType: musthave, objectDefinition: {apiVersion: v1, kind: ConfigMap, metadata: {name: %s-%s}}}]
`, policy.Namespace, policy.Name, annotations, policy.Name, policy.Namespace, policy.Name)
}

func (s *policyScene) create(text string) *unstructured.Unstructured {
	s.t.Helper()
	object := &unstructured.Unstructured{}
	require.NoError(s.t, yaml.Unmarshal([]byte(text), &object.Object))
	require.NoError(s.t, s.hub.Client.Create(s.t.Context(), object))
	s.t.Cleanup(func() {
		require.NoError(s.t, client.IgnoreNotFound(s.hub.Client.Delete(context.Background(), object)))
	})
	return object
}

// bind binds a policy to clusters, like a person.
func (s *policyScene) bind(policy policies.Ref, clusters ...string) {
	s.t.Helper()
	listed := ""
	for _, cluster := range clusters {
		listed += "{name: " + cluster + "},"
	}
	s.create(fmt.Sprintf("apiVersion: apps.open-cluster-management.io/v1\nkind: PlacementRule\nmetadata: {namespace: %s, name: %s}\nspec: {clusters: [%s]}", policy.Namespace, policy.Name, listed))
	s.create(fmt.Sprintf(`
apiVersion: policy.open-cluster-management.io/v1
kind: PlacementBinding
metadata: {namespace: %s, name: %s}
placementRef: {apiGroup: apps.open-cluster-management.io, kind: PlacementRule, name: %s}
subjects: [{apiGroup: policy.open-cluster-management.io, kind: Policy, name: %s}]`, policy.Namespace, policy.Name, policy.Name, policy.Name))
}

// bindByPlacement binds a policy to clusters with a Placement.
func (s *policyScene) bindByPlacement(policy policies.Ref, clusters ...string) {
	s.t.Helper()
	s.create(fmt.Sprintf(`
apiVersion: cluster.open-cluster-management.io/v1beta1
kind: Placement
metadata: {namespace: %s, name: %s}
spec: {predicates: [{requiredClusterSelector: {labelSelector: {matchExpressions: [{key: name, operator: In, values: [%s]}]}}}]}`,
		policy.Namespace, policy.Name, strings.Join(clusters, ", ")))
	s.create(fmt.Sprintf(`
apiVersion: policy.open-cluster-management.io/v1
kind: PlacementBinding
metadata: {namespace: %s, name: %s}
placementRef: {apiGroup: cluster.open-cluster-management.io, kind: Placement, name: %s}
subjects: [{apiGroup: policy.open-cluster-management.io, kind: Policy, name: %s}]`, policy.Namespace, policy.Name, policy.Name, policy.Name))
}

// restartPropagator starts the policy engine of the hub again after it was stopped.
func (s *policyScene) restartPropagator(takes func(cluster, policy string) time.Duration) {
	s.t.Helper()
	simulated, err := propagator.Start(s.t.Context(), activitytest.Stack.Cluster(activitytest.HubName).Config, propagator.Options{Takes: takes})
	require.NoError(s.t, err)
	s.t.Cleanup(simulated.Stop)
	s.propagator = simulated
}

// compliance returns the compliance status of clusters from the API server.
func (s *policyScene) compliance(clusters ...string) map[string]policies.ComplianceStatus {
	s.t.Helper()
	read, err := s.activities.ReadCompliance(s.t.Context(), ReadComplianceInput{Enforced: Enforced{Rollout: s.rollout}, Clusters: clusters})
	require.NoError(s.t, err)
	found := map[string]policies.ComplianceStatus{}
	for _, one := range read {
		found[one.Cluster] = one.Status
	}
	return found
}

func (s *policyScene) awaitCompliance(want policies.ComplianceStatus, clusters ...string) {
	s.t.Helper()
	require.EventuallyWithT(s.t, func(c *assert.CollectT) {
		read, err := s.activities.ReadCompliance(s.t.Context(), ReadComplianceInput{Enforced: Enforced{Rollout: s.rollout}, Clusters: clusters})
		assert.NoError(c, err)
		for _, one := range read {
			assert.Equal(c, want, one.Status, one.Cluster)
		}
		var known []policies.KnownCluster
		for _, cluster := range clusters {
			known = append(known, policies.KnownCluster{Cluster: cluster})
		}
		seen, err := s.activities.AwaitCompliance(s.t.Context(), AwaitComplianceInput{Enforced: Enforced{Rollout: s.rollout}, Clusters: known})
		assert.NoError(c, err)
		for _, one := range seen {
			assert.Equal(c, want, one.Status, "the watch of %s", one.Cluster)
		}
	}, activitytest.EventTimeout, 20*time.Millisecond)
}

func (s *policyScene) prepare() []Prepared {
	s.t.Helper()
	prepared, err := s.activities.PreparePolicies(s.t.Context(), s.rollout)
	require.NoError(s.t, err)
	return prepared
}

func (s *policyScene) place(policy int, clusters ...string) {
	s.t.Helper()
	s.enforce(policies.DesiredPlacement{Item: policy, Clusters: clusters})
}

// enforce places policies on these clusters only.
func (s *policyScene) enforce(desired ...policies.DesiredPlacement) remediation.PlacementResult {
	s.t.Helper()
	placed, err := s.activities.PlacePolicies(s.t.Context(), PlacePoliciesInput{Rollout: s.rollout, Desired: desired})
	require.NoError(s.t, err)
	return placed
}

// cleanUp removes the created objects, and returns the changed policies.
func (s *policyScene) cleanUp() []int {
	s.t.Helper()
	changed, err := s.activities.CleanUpPolicies(s.t.Context(), s.rollout)
	require.NoError(s.t, err)
	return changed
}

// pin records the prepared generations of the policies in the rollout.
func (s *policyScene) pin() {
	s.t.Helper()
	s.rollout.Pins = nil
	for _, one := range s.prepare() {
		s.rollout.Pins = append(s.rollout.Pins, one.Pin)
	}
}

func (s *policyScene) patch(ref policies.Ref, patch string) {
	s.t.Helper()
	policy := &unstructured.Unstructured{}
	policy.SetGroupVersionKind(policies.Policies)
	policy.SetNamespace(ref.Namespace)
	policy.SetName(ref.Name)
	require.NoError(s.t, s.hub.Client.Patch(s.t.Context(), policy, client.RawPatch(types.JSONPatchType, []byte(patch))))
}

// evaluatedAt sets when the agent of a cluster last evaluated the template of the first policy.
func (s *policyScene) evaluatedAt(cluster string, at time.Time) {
	s.t.Helper()
	replica := &unstructured.Unstructured{}
	replica.SetGroupVersionKind(policies.Policies)
	replica.SetNamespace(cluster)
	replica.SetName(s.rollout.Policies[0].Replica())
	status := fmt.Sprintf(`{"status":{"details":[{"history":[{"lastTimestamp":%q,"message":"Compliant"}]}]}}`, at.UTC().Format(time.RFC3339))
	require.NoError(s.t, s.hub.Client.Status().Patch(s.t.Context(), replica, client.RawPatch(types.MergePatchType, []byte(status))))
}

// created returns the objects of the rollout.
func (s *policyScene) created() []unstructured.Unstructured {
	s.t.Helper()
	var created []unstructured.Unstructured
	for _, kind := range []schema.GroupVersionKind{policies.Policies, policies.PlacementRules, policies.Placements, policies.PlacementBindings} {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind)
		require.NoError(s.t, s.hub.Client.List(s.t.Context(), list, client.InNamespace(s.rollout.Namespace), client.MatchingLabels(policies.RolloutLabels(s.rollout.name()))))
		created = append(created, list.Items...)
	}
	return created
}

// enforced returns the clusters of the scene on which a policy is enforced.
func (s *policyScene) enforced() []string {
	var found []string
	enforced := s.propagator.Enforced()
	for _, cluster := range s.clusters {
		if len(enforced[cluster]) > 0 {
			found = append(found, cluster)
		}
	}
	return found
}
