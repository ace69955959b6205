package rollout_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/manifestworks"
	"drydock.dev/drydock/internal/policies"
	"drydock.dev/drydock/internal/rollout"
)

// FuzzHubObjects reads objects of the hub as the API server may return them: the schemas of other projects allow almost anything.
func FuzzHubObjects(f *testing.F) {
	f.Add([]byte(`{"metadata":{"name":"p","namespace":"n","annotations":{"a":"b"}},"spec":{"dependencies":[{"name":"x","kind":"Policy","compliance":"Compliant"}],"policy-templates":[{"objectDefinition":{"spec":{"object-templates":[{"objectDefinition":{"kind":"Subscription"}}]}},"extraDependencies":[]}]},"status":{"status":[{"clustername":"a","compliant":"Compliant"}],"compliant":"x","details":[{"history":[{"message":"x","lastTimestamp":"y"}]}]}}`))
	f.Add([]byte(`{"metadata":{"name":"june"},"spec":{"clusters":["a"],"remediationStrategy":{"canaries":["b"],"maxConcurrency":-3}},"status":{"conditions":[{"type":"Succeeded","status":"False","reason":"x"}],"remediationPlan":[["a"],[]],"clusters":[{"name":"a","state":"failed","batch":7}],"outcomes":[{"state":"failed","clusters":3}],"leftPlan":["q"],"currentBatch":9}}`))
	f.Add([]byte(`{"status":{"conditions":"x","resourceStatus":{"manifests":[{"statusFeedback":{"values":[{"name":1}]}}]},"outcomes":[{"clusters":-1},{"clusters":2000000000}],"decisions":[{"clusterName":3}]}}`))
	f.Fuzz(func(_ *testing.T, text []byte) {
		object := map[string]any{}
		if yaml.Unmarshal(text, &object) == nil && object != nil {
			read := func() *unstructured.Unstructured { return (&unstructured.Unstructured{Object: object}).DeepCopy() }
			_, _ = rollout.ReadPolicy(read())
			_, _ = policies.TrimObject(read())
			_, _ = policies.TrimManagedCluster(read())
			_ = policies.ComplianceOf(read())
			_ = policies.PlacedClusters(read())
			_, _ = policies.Soak(read().GetAnnotations())
			_, _ = manifestworks.TrimObject(read())
			_ = manifestworks.ComplianceOf(read())
			_, _ = manifestworks.ExpectedValues(read().GetAnnotations())
			_ = rollout.ToOnboard(read())
			_ = policies.Offline(read())
			_, _ = rollout.OnboardingPolicies([]unstructured.Unstructured{*read()})
		}
		var cgu ranv1.ClusterGroupUpgrade
		if yaml.Unmarshal(text, &cgu) == nil {
			if status, err := rollout.Retry(cgu.Status, cgu.Spec.RemediationStrategy.Canaries, rollout.RetryRequest{Unfinished: true}); err == nil {
				_ = rollout.NamesOf(rollout.Compact(status).Clusters)
			}
			rollout.Blockers(&cgu)
		}
	})
}
