package rollout_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"drydock.dev/drydock/internal/policies"
	"drydock.dev/drydock/internal/rollout"
)

func TestReadPolicy(t *testing.T) {
	const templates = `
  policy-templates:
  - objectDefinition:
      kind: ConfigurationPolicy
      spec: {object-templates: [{objectDefinition: {kind: ConfigMap, data: {status: ok}}}]}`
	tests := []struct {
		name, text string
		want       rollout.Policy
	}{
		{
			name: "a cluster with an entry is bound, and compliant only if the entry is Compliant",
			text: "spec:" + templates + `
status:
  status:
  - {clustername: c1, clusternamespace: c1, compliant: Compliant}
  - {clustername: c2, clusternamespace: c2, compliant: NonCompliant}
  - {clustername: c3, clusternamespace: c3, compliant: Pending}
  - {clustername: c4, clusternamespace: c4}`,
			want: rollout.Policy{Compliant: compliance{"c1": true, "c2": false, "c3": false, "c4": false}},
		},
		{
			name: "a cluster with several entries is compliant only if all are Compliant",
			text: "spec:" + templates + `
status:
  status:
  - {clustername: c1, compliant: NonCompliant}
  - {clustername: c1, compliant: Compliant}
  - {clustername: c2, compliant: Compliant}
  - {clustername: c2}
  - {clustername: c3, compliant: Compliant}
  - {clustername: c3, compliant: Compliant}`,
			want: rollout.Policy{Compliant: compliance{"c1": false, "c2": false, "c3": true}},
		},
		{
			name: "null equals absent",
			text: "spec: {remediationAction: null, dependencies: null, policy-templates: null}\nstatus: {status: null}",
			want: rollout.Policy{Compliant: compliance{}},
		},
		{
			name: "templates with nulls",
			text: "spec: {policy-templates: [{extraDependencies: null, objectDefinition: {spec: {remediationAction: null}}}]}\nstatus: null",
			want: rollout.Policy{Compliant: compliance{}},
		},
		{
			name: "Subscriptions of Operator Lifecycle Manager, and no others",
			text: `spec:
  policy-templates:
  - objectDefinition:
      kind: ConfigurationPolicy
      spec:
        object-templates:
        - {objectDefinition: {apiVersion: operators.coreos.com/v1alpha1, kind: Subscription, metadata: {namespace: openshift-logging, name: logging}, spec: {channel: stable, installPlanApproval: Manual}}}
        - {complianceType: MustNotHave, objectDefinition: {apiVersion: operators.coreos.com/v1alpha1, kind: Subscription, metadata: {namespace: openshift-logging, name: elasticsearch}}}
        - {objectDefinition: {apiVersion: messaging.knative.dev/v1, kind: Subscription, metadata: {namespace: shop, name: orders}}}
        - {objectDefinition: {apiVersion: v1, kind: ConfigMap}}`,
			want: rollout.Policy{Compliant: compliance{}, Subscriptions: []rollout.Subscription{
				{
					Kind: "Subscription", Name: "logging", APIVersion: "operators.coreos.com/v1alpha1", Namespace: "openshift-logging",
					Spec: map[string]string{"channel": "stable", "installPlanApproval": "Manual"},
				},
			}},
		},
		{name: "the policy's own action enforces", text: "spec:\n  remediationAction: Enforce" + templates, want: rollout.Policy{Enforces: true, Compliant: compliance{}}},
		{
			name: "the policy's own action overrides those of its templates",
			text: "spec: {remediationAction: inform, policy-templates: [{objectDefinition: {spec: {remediationAction: enforce}}}]}",
			want: rollout.Policy{Compliant: compliance{}},
		},
		{
			name: "a policy without an action enforces if all its templates do",
			text: "spec: {policy-templates: [{objectDefinition: {spec: {remediationAction: enforce}}}]}",
			want: rollout.Policy{Enforces: true, Compliant: compliance{}},
		},
		{
			name: "a policy without an action does not enforce if one of its templates does not",
			text: "spec: {policy-templates: [{objectDefinition: {spec: {remediationAction: enforce}}}, {objectDefinition: {spec: {}}}]}",
			want: rollout.Policy{Compliant: compliance{}},
		},
		{
			name: "a template that reads the status of an object",
			text: "spec: {policy-templates: [{objectDefinition: {kind: ConfigurationPolicy, spec: {object-templates: [{objectDefinition: {status: {phase: Ready}}}]}}}]}",
			want: rollout.Policy{ReadsStatus: true, Compliant: compliance{}},
		},
		{
			name: "a raw template that reads a status",
			text: "spec: {policy-templates: [{objectDefinition: {kind: ConfigurationPolicy, spec: {object-templates-raw: 'status: {phase: Ready}'}}}]}",
			want: rollout.Policy{ReadsStatus: true, Compliant: compliance{}},
		},
		{
			name: "a JSON template that reads a status",
			text: `spec: {policy-templates: [{objectDefinition: {kind: ConfigurationPolicy, spec: {object-templates-raw: '[{"objectDefinition": {"status" : {"phase": "Ready"}}}]'}}}]}`,
			want: rollout.Policy{ReadsStatus: true, Compliant: compliance{}},
		},
		{
			name: "a raw template with quoted keys that reads a status",
			text: `spec: {policy-templates: [{objectDefinition: {kind: ConfigurationPolicy, spec: {object-templates-raw: "'status': {phase: Ready}"}}}]}`,
			want: rollout.Policy{ReadsStatus: true, Compliant: compliance{}},
		},
		{
			name: "a raw template that only mentions the word status",
			text: `spec: {policy-templates: [{objectDefinition: {kind: ConfigurationPolicy, spec: {object-templates-raw: "data: {is: status, of: all}"}}}]}`,
			want: rollout.Policy{Compliant: compliance{}},
		},
		{
			name: "a raw template beside objects that are null",
			text: "spec: {policy-templates: [{objectDefinition: {kind: ConfigurationPolicy, spec: {object-templates: null, object-templates-raw: 'data: {}'}}}]}",
			want: rollout.Policy{Compliant: compliance{}},
		},
		{
			name: "a template without a definition",
			text: "spec: {policy-templates: [{objectDefinition: {spec: {}}}, {}]}",
			want: rollout.Policy{Invalid: "spec.policy-templates[1]: objectDefinition is missing", Compliant: compliance{}},
		},
		{
			name: "a definition without a spec",
			text: "spec: {policy-templates: [{objectDefinition: {}}]}",
			want: rollout.Policy{Invalid: "spec.policy-templates[0]: objectDefinition.spec is missing", Compliant: compliance{}},
		},
		{
			name: "a configuration policy without objects",
			text: "spec: {policy-templates: [{objectDefinition: {kind: ConfigurationPolicy, spec: {}}}]}",
			want: rollout.Policy{Invalid: "spec.policy-templates[0]: objectDefinition.spec.object-templates is missing", Compliant: compliance{}},
		},
		{
			name: "a configuration policy whose objects are not a list",
			text: "spec: {policy-templates: [{objectDefinition: {kind: ConfigurationPolicy, spec: {object-templates: {}}}}]}",
			want: rollout.Policy{Invalid: "spec.policy-templates[0]: objectDefinition.spec.object-templates: must be a list", Compliant: compliance{}},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := rollout.ReadPolicy(parsePolicy(t, test.text))
			require.NoError(t, err)
			test.want.Namespace, test.want.Name = "default", "p"
			require.Equal(t, test.want, got)
		})
	}
}

func TestReadPolicyReadsItsEnforcement(t *testing.T) {
	object := parsePolicy(t, `
spec:
  dependencies:
  - {kind: Policy, name: base, compliance: Compliant}
  - {kind: Policy, name: other, namespace: elsewhere, compliance: Compliant}
  - {kind: ConfigurationPolicy, name: local, compliance: Compliant}
  policy-templates:
  - extraDependencies:
    - {kind: Policy, name: extra, compliance: Compliant}
    - {kind: ConfigurationPolicy, name: local, compliance: Compliant}
    objectDefinition:
      kind: ConfigurationPolicy
      spec: {object-templates: [{objectDefinition: {data: {a: '{{hub .ManagedClusterName hub}}', b: 'x {{hub fromConfigMap "" "sizes" "b" hub}}'}}}]}`)
	policy, err := rollout.ReadPolicy(object)
	require.NoError(t, err)
	require.Equal(t, policies.HubReads{ConfigMaps: []string{"sizes"}}, policy.HubReads)
	require.Equal(t, []types.NamespacedName{
		{Namespace: "default", Name: "base"}, {Namespace: "elsewhere", Name: "other"}, {Namespace: "default", Name: "extra"},
	}, policy.DependsOn)

	for value, problem := range map[string]string{
		"60": "", "0": "",
		"1h": `annotation ran.openshift.io/soak-seconds is "1h": it must be a whole number of seconds, 0 or more`,
		"-1": `annotation ran.openshift.io/soak-seconds is "-1": it must be a whole number of seconds, 0 or more`,
	} {
		object.SetAnnotations(map[string]string{"ran.openshift.io/soak-seconds": value})
		policy, err := rollout.ReadPolicy(object)
		require.NoError(t, err)
		require.Equal(t, problem, policy.Invalid)
	}
}

func TestFieldsOfTheWrongTypeInAPolicyAreReported(t *testing.T) {
	for text, message := range map[string]string{
		"spec: {remediationAction: 1}":      "policy default/p: spec.remediationAction: must be text",
		"spec: 7":                           "policy default/p: spec: must be an object",
		"spec: {dependencies: [base]}":      "policy default/p: spec.dependencies[0]: must be an object",
		"spec: {dependencies: [{name: 1}]}": "policy default/p: spec.dependencies[0].name: must be text",
		"spec: {policy-templates: [{extraDependencies: [base], objectDefinition: {spec: {}}}]}": "policy default/p: spec.policy-templates[0].extraDependencies[0]: must be an object",
		"status: {status: {}}":                   "policy default/p: status.status: must be a list",
		"status: {status: [c1]}":                 "policy default/p: status.status[0]: must be an object",
		"status: {status: [{clustername: [a]}]}": "policy default/p: status.status[0].clustername: must be text",
	} {
		_, err := rollout.ReadPolicy(parsePolicy(t, text))
		require.EqualError(t, err, message)
	}
}

func parsePolicy(t *testing.T, text string) *unstructured.Unstructured {
	policy := &unstructured.Unstructured{Object: map[string]any{}}
	require.NoError(t, yaml.Unmarshal([]byte(text), &policy.Object))
	policy.SetNamespace("default")
	policy.SetName("p")
	return policy
}
