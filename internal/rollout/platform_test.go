package rollout_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/rollout"
)

// requesting is a policy with one template: a ClusterVersion with that spec.
func requesting(t *testing.T, name, spec string) rollout.Policy {
	return templating(t, name, "object-templates: [{complianceType: musthave, objectDefinition: {apiVersion: config.openshift.io/v1, kind: ClusterVersion, spec: "+spec+"}}]")
}

func templating(t *testing.T, name, templates string) rollout.Policy {
	object := parsePolicy(t, "spec: {policy-templates: [{objectDefinition: {kind: ConfigurationPolicy, spec: {"+templates+"}}}]}")
	object.SetName(name)
	read, err := rollout.ReadPolicy(object)
	require.NoError(t, err)
	read.Compliant = compliance{"c1": false}
	return read
}

func TestPoliciesMustDetermineOneRelease(t *testing.T) {
	const (
		graph = "{upstream: 'https://updates.example.com/graph', channel: stable-4.18, desiredUpdate: {version: 4.18.3}}"
		image = "{desiredUpdate: {image: 'registry.example.com/release:4.18.3'}}"
	)
	requests := func(name, spec string) rollout.Policy { return requesting(t, name, spec) }
	const more = "platform image defined more than once with conflicting "
	const incomplete = "policy with ClusterVersion must have upstream, channel, and version when image is not provided: "
	tests := []struct {
		name     string
		policies []rollout.Policy
		message  string
	}{
		{"upstream, channel and version are enough", []rollout.Policy{requests("p1", graph)}, ""},
		{"an image is enough", []rollout.Policy{requests("p1", image)}, ""},
		{"the same values twice, in parts", []rollout.Policy{requests("p1", graph), requests("p2", "{channel: stable-4.18, desiredUpdate: {force: true}}")}, ""},
		{"an image in one policy, the version in another", []rollout.Policy{requests("p1", image), requests("p2", "{desiredUpdate: {version: 4.18.3}}")}, ""},
		{
			"two versions",
			[]rollout.Policy{requests("p1", graph), requests("p2", "{desiredUpdate: {version: 4.18.4}}")},
			more + "version values: 4.18.3 in policy default/p1, 4.18.4 in policy default/p2",
		},
		{
			"all conflicting values are reported",
			[]rollout.Policy{requests("p1", image), requests("p2", "{channel: a, desiredUpdate: {image: 'registry.example.com/release:4.18.4'}}"), requests("p3", "{channel: b}")},
			more + "channel values: a in policy default/p2, b in policy default/p3; " +
				more + "image values: registry.example.com/release:4.18.3 in policy default/p1, registry.example.com/release:4.18.4 in policy default/p2",
		},
		{
			"channel and version without upstream",
			[]rollout.Policy{requests("p1", "{channel: stable-4.18}"), requests("p2", "{desiredUpdate: {version: 4.18.3}}")},
			incomplete + "default/p1, default/p2 without upstream",
		},
		{"an empty field is not set", []rollout.Policy{requests("p1", "{upstream: '', desiredUpdate: {image: ''}}")}, incomplete + "default/p1 without upstream, channel, version"},
		{
			"an invalid image name",
			[]rollout.Policy{requests("p1", "{desiredUpdate: {image: no image}}")},
			`invalid ClusterVersion in policy default/p1: spec.desiredUpdate.image: Invalid value: "no image": must be the name of an image, such as registry.example.com/release:4.18.3 or one with a digest`,
		},
		{
			"fields of the wrong type",
			[]rollout.Policy{requests("p1", "{channel: 4.18, desiredUpdate: 4.18.3}")},
			"invalid ClusterVersion in policy default/p1: spec.channel must be a string; " +
				"invalid ClusterVersion in policy default/p1: spec.desiredUpdate.version must be a string; " +
				"invalid ClusterVersion in policy default/p1: spec.desiredUpdate.image must be a string",
		},
		{
			"templates are not compared, and count as an image",
			[]rollout.Policy{
				requests("p1", "{channel: '{{hub .ManagedClusterName hub}}', desiredUpdate: {image: '{{ fromConfigMap \"a\" \"b\" \"image\" }}'}}"),
				requests("p2", "{channel: stable-4.18}"), requests("p3", image),
			},
			"",
		},
		{
			"a template between two values hides no conflict",
			[]rollout.Policy{requests("p1", graph), requests("p2", "{channel: '{{hub .ManagedClusterName hub}}'}"), requests("p3", "{channel: fast-4.18}")},
			more + "channel values: stable-4.18 in policy default/p1, {{hub .ManagedClusterName hub}} in policy default/p2, fast-4.18 in policy default/p3",
		},
		{
			"raw text is read",
			[]rollout.Policy{templating(t, "p1", "object-templates-raw: '[{objectDefinition: {apiVersion: config.openshift.io/v1, kind: ClusterVersion, spec: {channel: a}}}]'")},
			incomplete + "default/p1 without upstream, version",
		},
		{"raw text with templates is ignored", []rollout.Policy{templating(t, "p1", "object-templates-raw: '{{ range }}[{objectDefinition: {apiVersion: config.openshift.io/v1, kind: ClusterVersion, spec: {channel: a}}}]'")}, ""},
		{"invalid raw text is ignored", []rollout.Policy{templating(t, "p1", "object-templates-raw: ': : :'")}, ""},
		{"a ClusterVersion without a spec only reads", []rollout.Policy{templating(t, "p1", "object-templates: [{objectDefinition: {apiVersion: config.openshift.io/v1, kind: ClusterVersion, status: {}}}]")}, ""},
		{"MustNotHave requests no release", []rollout.Policy{templating(t, "p1", "object-templates: [{complianceType: MustNotHave, objectDefinition: {apiVersion: config.openshift.io/v1, kind: ClusterVersion, spec: {channel: a}}}]")}, ""},
		{"another kind of that name", []rollout.Policy{templating(t, "p1", "object-templates: [{objectDefinition: {apiVersion: apps.example.com/v1, kind: ClusterVersion, spec: {channel: a}}}]")}, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			plan := rollout.NewPlan(rolloutOf(1, []string{"c1"}, managing("p1", "p2", "p3")), withAll(test.policies), noon)
			require.Equal(t, test.message == "", plan.Valid(), plan.Problems())
			if test.message != "" {
				require.Equal(t, ranv1.ReasonInvalidPlatformImage, plan.Conditions[1].Reason)
				require.Equal(t, test.message, plan.Conditions[1].Message)
				require.Empty(t, plan.RemediationPlan)
			}
		})
	}
}

// withAll has three policies, p1 to p3. Those that are not given need work and request no release.
func withAll(given []rollout.Policy) rollout.Inventory {
	inventory := rollout.Inventory{Clusters: fleet(), Policies: given}
	for _, name := range []string{"p1", "p2", "p3"}[len(given):] {
		inventory.Policies = append(inventory.Policies, policy(name, compliance{"c1": false}))
	}
	return inventory
}

func TestOnlyReleasesOfEnforcedPoliciesCount(t *testing.T) {
	older, newer := requesting(t, "p1", "{desiredUpdate: {image: 'release:1'}}"), requesting(t, "p2", "{desiredUpdate: {image: 'release:2'}}")
	cgu := rolloutOf(1, []string{"c1"}, managing("p1", "p2"))
	planned := func(policies ...rollout.Policy) rollout.Plan {
		return rollout.NewPlan(cgu, rollout.Inventory{Clusters: fleet(), Policies: policies}, noon)
	}
	done := older
	done.Compliant = compliance{"c1": true}
	require.True(t, planned(done, newer).Valid(), "a policy that every cluster complies with is left out")
	done = older
	done.Enforces = true
	require.True(t, planned(done, newer).Valid(), "a policy that enforces already is left out")

	plan := planned(older)
	require.Equal(t, ranv1.ReasonNotAllManagedPoliciesExist, plan.Conditions[1].Reason, "missing policies are reported first")
	missing := requesting(t, "p1", "{channel: a}")
	require.Equal(t, []string{"Missing managed policies: [p2]; policy with ClusterVersion must have upstream, channel, and version when image is not provided: " +
		"default/p1 without upstream, version"}, planned(missing).Problems(), "missing fields are reported too")
}
