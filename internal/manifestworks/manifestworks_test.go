package manifestworks_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"drydock.dev/drydock/internal/manifestworks"
	"drydock.dev/drydock/internal/policies"
)

func parse(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	object := &unstructured.Unstructured{}
	encoded, err := yaml.YAMLToJSON([]byte("apiVersion: v1\nkind: X\n" + text))
	require.NoError(t, err)
	require.NoError(t, object.UnmarshalJSON(encoded))
	return object
}

const expecting = `
metadata:
  generation: 2
  annotations: {openshift-cluster-group-upgrades/expectedValues: '[{"manifestIndex":1,"name":"isUpgradeCompleted","value":"True"}]'}
`

func TestAWorkIsCompliantWhenAppliedAvailableAndWithExpectedFeedback(t *testing.T) {
	const done = `
  conditions: [{type: Applied, status: "True", observedGeneration: 2}, {type: Available, status: "True", observedGeneration: 2}]`
	feedback := func(ordinal, synced, value string) string {
		return expecting + "status:" + done + `
  resourceStatus:
    manifests:
    - resourceMeta: {ordinal: 0}
    - resourceMeta: {ordinal: ` + ordinal + `}
      conditions: [{type: Applied, status: "True"}, {type: Available, status: "True"}, {type: StatusFeedbackSynced, status: "` + synced + `"}]
      statusFeedback: {values: [{name: isUpgradeCompleted, fieldValue: ` + value + `}]}`
	}
	tests := []struct {
		name, text string
		want       policies.Compliance
	}{
		{"no status yet", "metadata: {generation: 1}", policies.Pending},
		{"applied, not available", "status: {conditions: [{type: Applied, status: \"True\"}, {type: Available, status: \"False\"}]}", policies.Pending},
		{"applied and available", "metadata: {generation: 2}\nstatus:" + done, policies.Compliant},
		{"applied and available for an older generation", "metadata: {generation: 3}\nstatus:" + done, policies.Pending},
		{"no feedback", expecting + "status:" + done, policies.NonCompliant},
		{"the expected feedback", feedback("1", "True", "{type: String, string: \"True\"}"), policies.Compliant},
		{"another feedback value", feedback("1", "True", "{type: String, string: \"False\"}"), policies.NonCompliant},
		{"feedback for another manifest", feedback("2", "True", "{type: String, string: \"True\"}"), policies.NonCompliant},
		{"outdated feedback", feedback("1", "False", "{type: String, string: \"True\"}"), policies.NonCompliant},
		{"a boolean is not the string", feedback("1", "True", "{type: Boolean, boolean: true}"), policies.NonCompliant},
		{"invalid expectations are not met", "metadata: {generation: 2, annotations: {openshift-cluster-group-upgrades/expectedValues: x}}\nstatus:" + done, policies.NonCompliant},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			work := parse(t, test.text)
			require.Equal(t, test.want, manifestworks.ComplianceOf(work))
			work.SetDeletionTimestamp(&metav1.Time{Time: time.Now()})
			require.Equal(t, policies.Unknown, manifestworks.ComplianceOf(work), "a work that is being deleted has unknown compliance")
		})
	}
	require.Equal(t, policies.Unknown, manifestworks.ComplianceOf(nil))
}

func TestExpectedValuesAreReadStrictly(t *testing.T) {
	read := func(text string) error {
		_, err := manifestworks.ExpectedValues(map[string]string{manifestworks.AnnotationExpectedValues: text})
		return err
	}
	require.NoError(t, read(""))
	require.NoError(t, read(`[{"manifestIndex":0,"name":"a","value":"1"}]`))
	require.ErrorContains(t, read(`{}`), "annotation openshift-cluster-group-upgrades/expectedValues: must be a list of {manifestIndex, name, value}")
	require.ErrorContains(t, read(`[{"value":"1"}]`), "annotation openshift-cluster-group-upgrades/expectedValues[0].name: is missing")
	require.ErrorContains(t, read(`[{"manifestIndex":-1,"name":"a","value":"1"}]`), "expectedValues[0].manifestIndex: is -1: the first manifest is 0")
}

func TestAWorkHasTheManifestsOfItsTemplate(t *testing.T) {
	rollout := types.NamespacedName{Namespace: "ops", Name: "june"}
	template := parse(t, "metadata: {namespace: ops, name: os, annotations: {a: b, openshift-cluster-group-upgrades/expectedValues: '[]'}}\n"+
		"spec: {placementRefs: [{name: x}], manifestWorkTemplate: {workload: {manifests: [{kind: ConfigMap}]}}}")
	work, err := manifestworks.Work(rollout, template, "c1")
	require.NoError(t, err)
	require.Equal(t, "c1", work.GetNamespace())
	require.Equal(t, manifestworks.WorkName(rollout, "os"), work.GetName())
	require.Equal(t, map[string]any{"workload": map[string]any{"manifests": []any{map[string]any{"kind": "ConfigMap"}}}}, work.Object["spec"])
	require.Equal(t, map[string]string{manifestworks.AnnotationExpectedValues: "[]"}, work.GetAnnotations())
	require.NotEqual(t, manifestworks.WorkName(rollout, "os"), manifestworks.WorkName(types.NamespacedName{Namespace: "elsewhere", Name: "june"}, "os"), "rollouts share the namespaces of clusters")

	_, err = manifestworks.Work(rollout, parse(t, "metadata: {name: os}"), "c1")
	require.ErrorContains(t, err, "spec.manifestWorkTemplate is missing")
}

// An annotation does not change the generation, so without the pin later clusters would have other expectations than earlier ones.
func TestAPinChangesWithTheSpecAndTheExpectedValues(t *testing.T) {
	template := &unstructured.Unstructured{Object: map[string]any{}}
	template.SetUID("8d2a")
	template.SetGeneration(3)
	pins := []string{manifestworks.Pin(template)}
	for _, change := range []func(){
		func() { template.SetAnnotations(map[string]string{manifestworks.AnnotationExpectedValues: "[]"}) },
		func() {
			template.SetAnnotations(map[string]string{manifestworks.AnnotationExpectedValues: `[{"manifestIndex":0,"name":"done","value":"True"}]`})
		},
		func() { template.SetGeneration(4) },
		func() { template.SetUID("9e3b") },
	} {
		change()
		require.NotContains(t, pins, manifestworks.Pin(template))
		pins = append(pins, manifestworks.Pin(template))
	}
	template.SetAnnotations(map[string]string{manifestworks.AnnotationExpectedValues: `[{"manifestIndex":0,"name":"done","value":"True"}]`, "note": "seen"})
	require.Equal(t, pins[len(pins)-1], manifestworks.Pin(template), "other annotations do not change the pin")
}
