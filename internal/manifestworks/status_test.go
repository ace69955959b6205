package manifestworks_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/manifestworks"
)

// unlimited is more than any status of a test needs.
const unlimited = 1 << 20

// condition is a condition as agents write them.
func condition(kind, status string) string {
	return fmt.Sprintf(`{type: %s, status: %q, reason: Seen, message: as seen, lastTransitionTime: "2026-11-27T06:00:00Z"}`, kind, status)
}

func statusOf(t *testing.T, manifests string, limit int) *ranv1.ManifestResourceStatus {
	t.Helper()
	return manifestworks.StatusOf(parse(t, "status: {resourceStatus: {manifests: ["+manifests+"]}}"), limit)
}

func TestTheStatusOfAWorkIsShortened(t *testing.T) {
	const feedback = `statusFeedback: {values: [{name: done, fieldValue: {type: String, string: "False"}}, {name: count, fieldValue: {type: Integer, integer: 3}}]}`
	ready := "{resourceMeta: {ordinal: 0, group: apps, version: v1, kind: Deployment, resource: deployments, namespace: default, name: web}, conditions: [" +
		strings.Join([]string{condition("Applied", "True"), condition("Available", "True"), condition("StatusFeedbackSynced", "True")}, ", ") + "], " + feedback + "}"
	failed := "{resourceMeta: {ordinal: 1, kind: ConfigMap, name: os}, conditions: [" + condition("Applied", "False") + ", " + condition("Available", "False") + "], " + feedback + "}"
	status := statusOf(t, ready+", "+failed, unlimited)
	text, err := yaml.Marshal(status)
	require.NoError(t, err)
	require.YAMLEq(t, `
manifests:
- resourceMeta: {ordinal: 0, group: apps, version: v1, kind: Deployment, resource: deployments, namespace: default, name: web}
  conditions:
  - `+condition("Applied", "True")+`
  `+feedback+`
- resourceMeta: {ordinal: 1, kind: ConfigMap, name: os}
  conditions:
  - `+condition("Applied", "False")+`
  - `+condition("Available", "False")+`
  statusFeedback: {}
`, string(text))
	require.Nil(t, manifestworks.StatusOf(parse(t, "status: {}"), unlimited), "no status yet")
	require.Nil(t, manifestworks.StatusOf(parse(t, "status: {resourceStatus: {manifests: 3}}"), unlimited), "an unreadable one")
}

func TestTheStatusOfAWorkHasALimit(t *testing.T) {
	manifest := func(ordinal int, applied string) string {
		return fmt.Sprintf("{resourceMeta: {ordinal: %d}, conditions: [%s, %s, %s]}", ordinal, condition("Applied", applied), condition("Available", "True"), condition("StatusFeedbackSynced", "True"))
	}
	manifests := strings.Join([]string{manifest(0, "True"), manifest(1, "False"), manifest(2, "False"), manifest(3, "True")}, ", ")
	ordinals := func(limit int) (kept []int32) {
		status := statusOf(t, manifests, limit)
		require.LessOrEqual(t, manifestworks.StatusSize(status), limit)
		if status != nil {
			for _, m := range status.Manifests {
				kept = append(kept, m.ResourceMeta.Ordinal)
			}
		}
		return kept
	}
	whole := manifestworks.StatusSize(statusOf(t, manifests, unlimited))
	require.Equal(t, []int32{0, 1, 2, 3}, ordinals(whole))
	require.Equal(t, []int32{0, 1, 2}, ordinals(whole-1), "a manifest that is as it should be goes first")
	require.Equal(t, []int32{1, 2}, ordinals(whole-300))
	require.Equal(t, []int32{1}, ordinals(whole-500))
	require.Empty(t, ordinals(100))

	long := statusOf(t, `{resourceMeta: {ordinal: 0}, conditions: [`+strings.Replace(condition("Applied", "False"), "as seen", strings.Repeat("é", 1000), 1)+`]}`, unlimited)
	require.Len(t, long.Manifests[0].Conditions[0].Message, 511, "no letter is cut")
}

// The hub's CRD of ManifestWork may be another one than that of the operator.
func TestTheStatusOfAWorkHasOnlyWhatAClusterGroupUpgradeAccepts(t *testing.T) {
	status := statusOf(t, `{resourceMeta: {ordinal: 0}, conditions: [{type: Applied, status: "True"}, `+condition("Available", "False")+`, `+condition("Available", "True")+`]},
		{resourceMeta: {ordinal: 1}}`, unlimited)
	require.Len(t, status.Manifests[0].Conditions, 1, "one without reason and time, and one of a type that is there, are dropped")
	require.Equal(t, "False", string(status.Manifests[0].Conditions[0].Status))
	require.NotNil(t, status.Manifests[1].Conditions, "the field is required")

	values := statusOf(t, `{resourceMeta: {ordinal: 0}, conditions: [`+condition("Applied", "True")+`, `+condition("Available", "True")+`, `+condition("StatusFeedbackSynced", "True")+`],
		statusFeedback: {values: [{name: a, fieldValue: {type: Float}}, {name: b, fieldValue: {type: Boolean, boolean: true}}, {name: b, fieldValue: {type: Boolean, boolean: false}}]}}`, unlimited)
	require.Len(t, values.Manifests[0].StatusFeedback.Values, 1)
	require.True(t, *values.Manifests[0].StatusFeedback.Values[0].FieldValue.Boolean)
}
