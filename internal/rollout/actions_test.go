package rollout_test

import (
	"maps"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"pgregory.net/rapid"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/rollout"
)

// apply applies a change as the API server does.
func apply(change map[string]*string, to map[string]string) map[string]string {
	after := maps.Clone(to)
	for key, value := range change {
		if value == nil {
			delete(after, key)
			continue
		}
		after[key] = *value
	}
	return after
}

func TestActionsChangeLabelsAndAnnotationsOfACluster(t *testing.T) {
	before := map[string]string{"kept": "1", "old": "1"}
	tests := []struct {
		name   string
		before ranv1.BeforeEnable
		want   map[string]string
	}{
		{"without actions nothing changes", ranv1.BeforeEnable{}, before},
		{"a label is added, even with an empty value", ranv1.BeforeEnable{AddClusterLabels: map[string]string{"new": ""}}, map[string]string{"kept": "1", "old": "1", "new": ""}},
		{"an existing label gets the value", ranv1.BeforeEnable{AddClusterLabels: map[string]string{"old": "2"}}, map[string]string{"kept": "1", "old": "2"}},
		{"a label is removed", ranv1.BeforeEnable{RemoveClusterLabels: []string{"old", "absent"}}, map[string]string{"kept": "1"}},
		{"deleteClusterLabels ignores the value", ranv1.BeforeEnable{DeleteClusterLabels: map[string]string{"old": "other"}}, map[string]string{"kept": "1"}},
		{"a label that is added and removed is removed", ranv1.BeforeEnable{AddClusterLabels: map[string]string{"old": "2"}, RemoveClusterLabels: []string{"old"}}, map[string]string{"kept": "1"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			change := rollout.ChangeBefore(&ranv1.Actions{BeforeEnable: &test.before})
			require.Equal(t, test.want, apply(change.Labels, before))
			require.Empty(t, change.Annotations)
			annotations := ranv1.AfterCompletion{AddClusterAnnotations: test.before.AddClusterLabels, RemoveClusterAnnotations: test.before.RemoveClusterLabels}
			for key := range test.before.DeleteClusterLabels {
				annotations.RemoveClusterAnnotations = append(annotations.RemoveClusterAnnotations, key)
			}
			after := rollout.ChangeAfter(&ranv1.Actions{AfterCompletion: &annotations})
			require.Equal(t, test.want, apply(after.Annotations, before), "annotations follow the same rule")
		})
	}
	require.True(t, rollout.ChangeBefore(&ranv1.Actions{}).Empty())
	require.True(t, rollout.ChangeAfter(&ranv1.Actions{AfterCompletion: &ranv1.AfterCompletion{DeleteObjects: new(true)}}).Empty())
}

func TestAChangeIsIdempotent(t *testing.T) {
	marks := rapid.MapOf(rapid.SampledFrom([]string{"a", "b", "c", "d"}), rapid.SampledFrom([]string{"", "1", "2"}))
	rapid.Check(t, func(t *rapid.T) {
		change := rollout.ChangeAfter(&ranv1.Actions{AfterCompletion: &ranv1.AfterCompletion{
			AddClusterLabels:    marks.Draw(t, "add"),
			RemoveClusterLabels: rapid.SliceOf(rapid.SampledFrom([]string{"a", "b", "c", "d"})).Draw(t, "remove"),
			DeleteClusterLabels: marks.Draw(t, "delete"),
		}}).Labels
		once := apply(change, marks.Draw(t, "before"))
		require.Equal(t, once, apply(change, once))
	})
}

func TestAllInvalidLabelsAndAnnotationsAreReported(t *testing.T) {
	invalid := rollout.CheckActions(&ranv1.Actions{
		BeforeEnable: &ranv1.BeforeEnable{
			AddClusterLabels: map[string]string{"ok": "no good"}, RemoveClusterLabels: []string{"fine", "not/a/label"}, DeleteClusterLabels: map[string]string{"-": "value does not matter !"},
		},
		AfterCompletion: &ranv1.AfterCompletion{AddClusterAnnotations: map[string]string{"": "x"}, RemoveClusterAnnotations: []string{"a b"}},
	}, field.NewPath("spec", "actions"))
	var fields []string
	for _, problem := range invalid {
		fields = append(fields, problem.Field)
	}
	require.Subset(t, fields, []string{
		"spec.actions.beforeEnable.addClusterLabels", "spec.actions.beforeEnable.removeClusterLabels[1]", "spec.actions.beforeEnable.deleteClusterLabels",
		"spec.actions.afterCompletion.addClusterAnnotations", "spec.actions.afterCompletion.removeClusterAnnotations[0]",
	})
	require.Len(t, invalid.ToAggregate().Errors(), len(invalid))
	require.Empty(t, rollout.CheckActions(&ranv1.Actions{AfterCompletion: &ranv1.AfterCompletion{AddClusterLabels: map[string]string{"ztp-done": ""}}}, nil))
}

func TestBeforeEnableAppliesToClustersThatNeedWork(t *testing.T) {
	clusters := []ranv1.ClusterStatus{
		{Name: "c1", State: ranv1.ClusterPending},
		{Name: "c2", State: ranv1.ClusterComplete},
		{Name: "c3", State: ranv1.ClusterPending},
		{Name: "c4", State: ranv1.ClusterFailed},
		{Name: "c5", State: ranv1.ClusterSkipped},
	}
	require.Equal(t, []string{"c1", "c3"}, rollout.ClustersToChange(rollout.NodeMaintenance, clusters), "complete clusters are not changed")
	require.Equal(t, []string{"c5"}, rollout.ClustersToChange(rollout.Nothing, clusters[4:]), "a rollout without remediation changes all clusters")
}
