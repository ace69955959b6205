package policies_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/policies"
)

var (
	june  = types.NamespacedName{Namespace: "ops", Name: "june"}
	aName = policies.Ref{Namespace: "policies", Name: "kernel"}
)

func parse(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	object := &unstructured.Unstructured{}
	require.NoError(t, yaml.Unmarshal([]byte(text), &object.Object))
	return object
}

func TestNamesFitAreUniqueAndDeterministic(t *testing.T) {
	label := rapid.StringMatching(`[a-z0-9]([-a-z0-9]{0,60}[a-z0-9])?`)
	rapid.Check(t, func(t *rapid.T) {
		namespace := rapid.StringMatching(`[a-z]([-a-z0-9]{0,48}[a-z0-9])?`).Draw(t, "namespace")
		rollout := types.NamespacedName{Namespace: namespace, Name: label.Draw(t, "rollout")}
		policy := policies.Ref{Namespace: label.Draw(t, "policy namespace"), Name: label.Draw(t, "policy")}
		names, err := policies.NamesFor(rollout, policy, ranv1.EnforceCopy)
		require.NoError(t, err)
		again, err := policies.NamesFor(rollout, policy, ranv1.EnforceCopy)
		require.NoError(t, err)
		require.Equal(t, names, again)
		require.Equal(t, namespace, names.Namespace)
		require.Empty(t, validation.IsValidLabelValue(policies.Ref{Namespace: namespace, Name: names.Copy}.Replica()), "the replicas have it as a label")
		require.Empty(t, validation.IsDNS1123Label(names.Placement))

		other, err := policies.NamesFor(types.NamespacedName{Namespace: namespace, Name: rollout.Name + "-" + policy.Name}, policy, ranv1.EnforceCopy)
		require.NoError(t, err)
		require.NotEqual(t, names.Copy, other.Copy)
		require.NotEqual(t, names.Placement, other.Placement)
	})
}

func TestATooLongNamespaceIsRefusedUnlessPoliciesAreOverridden(t *testing.T) {
	rollout := types.NamespacedName{Namespace: strings.Repeat("n", 51), Name: "june"}
	_, err := policies.NamesFor(rollout, aName, ranv1.EnforceCopy)
	require.ErrorContains(t, err, "is too long for copies of policies")
	names, err := policies.NamesFor(rollout, aName, ranv1.EnforceOverride)
	require.NoError(t, err)
	require.Equal(t, "policies", names.Namespace, "the objects of an override are in the namespace of the policy")
}

func TestACopyEnforcesThePolicyUnderItsOwnNames(t *testing.T) {
	policy := parse(t, `
metadata:
  namespace: policies
  name: kernel
  labels: {argocd.argoproj.io/instance: fleet}
  annotations: {policy.open-cluster-management.io/standards: NIST, argocd.argoproj.io/tracking-id: x}
spec:
  remediationAction: inform
  disabled: false
  dependencies: [{kind: Policy, name: base, namespace: policies, compliance: Compliant}]
  policy-templates:
  - objectDefinition:
      kind: ConfigurationPolicy
      metadata: {name: kernel-config}
      spec: {remediationAction: inform, object-templates: [{complianceType: musthave, objectDefinition: {kind: ConfigMap}}]}
status: {compliant: NonCompliant}`)
	before := policy.DeepCopy()
	made, err := policies.Copy(june, policy, "june-kernel-12345678")
	require.NoError(t, err)
	require.Equal(t, before, policy, "the policy is unchanged")

	require.Equal(t, policies.Policies, made.GroupVersionKind())
	require.Equal(t, "ops", made.GetNamespace())
	require.Equal(t, map[string]string{
		policies.LabelManagedBy: "drydock", policies.LabelRollout: "june", policies.LabelRolloutNamespace: "ops", policies.LabelCopyOf: "kernel",
	}, made.GetLabels(), "labels of other programs are not copied")
	require.Equal(t, map[string]string{"policy.open-cluster-management.io/standards": "NIST"}, made.GetAnnotations())
	require.NotContains(t, made.Object, "status")
	spec := made.Object["spec"].(map[string]any)
	require.Equal(t, "enforce", spec["remediationAction"])
	template := spec["policy-templates"].([]any)[0].(map[string]any)["objectDefinition"].(map[string]any)
	require.Regexp(t, `^june-kernel-config-[0-9a-f]{8}$`, template["metadata"].(map[string]any)["name"])

	spec["remediationAction"] = "inform"
	template["metadata"] = map[string]any{"name": "kernel-config"}
	require.Equal(t, before.Object["spec"], made.Object["spec"], "nothing else differs")
}

// The hub looks up a dependency without a namespace in the namespace of the dependent policy.
func TestACopyHasTheDependenciesOfThePolicy(t *testing.T) {
	policy := parse(t, `
metadata: {namespace: policies, name: kernel}
spec:
  dependencies:
  - {kind: Policy, name: base, compliance: Compliant}
  - {kind: Policy, name: base, namespace: elsewhere, compliance: Compliant}
  - {kind: PolicySet, name: basics, namespace: "", compliance: Compliant}
  - {kind: ConfigurationPolicy, name: on-the-cluster, compliance: Compliant}
  policy-templates:
  - extraDependencies: [{kind: Policy, name: firmware, compliance: NonCompliant}]
    objectDefinition: {kind: ConfigurationPolicy, metadata: {name: kernel-config}}`)
	before := policy.DeepCopy()
	made, err := policies.Copy(june, policy, "june-kernel-12345678")
	require.NoError(t, err)
	require.Equal(t, before, policy, "the policy is unchanged")
	spec := made.Object["spec"].(map[string]any)
	require.Equal(t, []any{
		map[string]any{"kind": "Policy", "name": "base", "namespace": "policies", "compliance": "Compliant"},
		map[string]any{"kind": "Policy", "name": "base", "namespace": "elsewhere", "compliance": "Compliant"},
		map[string]any{"kind": "PolicySet", "name": "basics", "namespace": "policies", "compliance": "Compliant"},
		map[string]any{"kind": "ConfigurationPolicy", "name": "on-the-cluster", "compliance": "Compliant"},
	}, spec["dependencies"])
	require.Equal(t, []any{map[string]any{"kind": "Policy", "name": "firmware", "namespace": "policies", "compliance": "NonCompliant"}},
		spec["policy-templates"].([]any)[0].(map[string]any)["extraDependencies"])
}

func TestAPolicyWhoseTemplateHasNoNameCannotBeCopied(t *testing.T) {
	_, err := policies.Copy(june, parse(t, `
metadata: {namespace: policies, name: kernel}
spec: {policy-templates: [{objectDefinition: {kind: ConfigurationPolicy}}]}`), "x")
	require.ErrorContains(t, err, "policy policies/kernel: spec.policy-templates[0].objectDefinition.metadata.name is missing")
}

var (
	override    = ranv1.EnforcementStatus{By: ranv1.EnforceOverride, Placements: ranv1.KindPlacement}
	copying     = ranv1.EnforcementStatus{By: ranv1.EnforceCopy, Placements: ranv1.KindPlacement}
	copyAndRule = ranv1.EnforcementStatus{By: ranv1.EnforceCopy, Placements: ranv1.KindPlacementRule}
)

func TestAPlacementRuleWithoutClustersSelectsNone(t *testing.T) {
	names, err := policies.NamesFor(june, aName, ranv1.EnforceCopy)
	require.NoError(t, err)
	none := policies.Placement(june, names, "kernel", copyAndRule, nil)
	require.Equal(t, map[string]any{"clusterReplicas": int64(0)}, none.Object["spec"])
	some := policies.Placement(june, names, "kernel", copyAndRule, []string{"c1", "c2"})
	require.Equal(t, map[string]any{"clusters": []any{map[string]any{"name": "c1"}, map[string]any{"name": "c2"}}}, some.Object["spec"])
	require.Equal(t, "kernel", some.GetLabels()[policies.LabelForPolicy])

	binding := policies.Binding(june, names, "kernel", copyAndRule)
	require.Equal(t, names.Copy, binding.Object["subjects"].([]any)[0].(map[string]any)["name"])
	require.Equal(t, "PlacementRule", binding.Object["placementRef"].(map[string]any)["kind"])
	require.NotContains(t, binding.Object, "bindingOverrides")
}

func TestACopyIsBoundByAPlacementWhereTheHubServesThem(t *testing.T) {
	names, err := policies.NamesFor(june, aName, ranv1.EnforceCopy)
	require.NoError(t, err)
	placement, binding := policies.Placement(june, names, "kernel", copying, []string{"c1"}), policies.Binding(june, names, "kernel", copying)
	require.Equal(t, policies.Placements, placement.GroupVersionKind())
	require.Equal(t, map[string]any{"apiGroup": "cluster.open-cluster-management.io", "kind": "Placement", "name": placement.GetName()}, binding.Object["placementRef"])
	require.Equal(t, names.Copy, binding.Object["subjects"].([]any)[0].(map[string]any)["name"])
	require.NotContains(t, binding.Object, "bindingOverrides")
}

func TestAnOverrideEnforcesThePolicyItselfOnSomeOfItsClusters(t *testing.T) {
	names, err := policies.NamesFor(june, aName, ranv1.EnforceOverride)
	require.NoError(t, err)
	binding := policies.Binding(june, names, "kernel", override)
	require.Equal(t, "policies", binding.GetNamespace())
	require.Equal(t, "restricted", binding.Object["subFilter"])
	require.Equal(t, map[string]any{"remediationAction": "enforce"}, binding.Object["bindingOverrides"])
	require.Equal(t, "kernel", binding.Object["subjects"].([]any)[0].(map[string]any)["name"])

	none := policies.Placement(june, names, "kernel", override, nil)
	require.Equal(t, int64(0), none.Object["spec"].(map[string]any)["numberOfClusters"])
	some := policies.Placement(june, names, "kernel", override, []string{"c1"})
	require.NotContains(t, some.Object["spec"], "numberOfClusters")
}
