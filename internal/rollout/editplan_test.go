package rollout_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/rollout"
)

func TestPlansAreComparedByCluster(t *testing.T) {
	before := &ranv1.ClusterGroupUpgradeStatus{RemediationPlan: [][]string{{"c1"}, {"c2", "c3"}}}
	spec := &ranv1.ClusterGroupUpgradeSpec{}
	plan := rollout.Plan{RemediationPlan: [][]string{{"c2"}, {"c3", "c4"}}}
	require.Equal(t, rollout.PlanChange{Leave: []string{"c1"}, Join: []string{"c4"}, Move: []string{"c2"}}, rollout.ComparePlans(before, spec, spec, plan))
	plan.Conditions = []metav1.Condition{{Type: ranv1.ConditionValidated, Status: metav1.ConditionFalse, Message: "policy p is missing"}}
	require.Equal(t, rollout.PlanChange{Problems: []string{"policy p is missing"}}, rollout.ComparePlans(before, spec, spec, plan))
}

func TestAnEditSaysWhatHappensToPrecaching(t *testing.T) {
	on := func(minutes int32) *ranv1.ClusterGroupUpgradeSpec {
		spec := &ranv1.ClusterGroupUpgradeSpec{PreCaching: true}
		spec.RemediationStrategy.Timeout = minutes
		return spec
	}
	off := &ranv1.ClusterGroupUpgradeSpec{}
	content := &ranv1.PrecachingSpec{PlatformImage: "registry.example.com/release:4.18"}
	done := &ranv1.ClusterGroupUpgradeStatus{Precaching: &ranv1.PrecachingStatus{Spec: content, Image: "precache:1"}}
	same := rollout.Plan{Precaching: content, PreCacheImage: "precache:1"}
	for _, tt := range []struct {
		name     string
		before   *ranv1.ClusterGroupUpgradeStatus
		old, now *ranv1.ClusterGroupUpgradeSpec
		plan     rollout.Plan
		change   rollout.PrecachingChange
	}{
		{"it stays off", &ranv1.ClusterGroupUpgradeStatus{}, off, off, rollout.Plan{}, ""},
		{"it is turned on", &ranv1.ClusterGroupUpgradeStatus{}, off, on(60), same, rollout.PrecachingStarts},
		{"it is turned off", done, on(60), off, rollout.Plan{}, rollout.PrecachingStops},
		{"nothing changes for it", done, on(60), on(60), same, ""},
		{"another image", done, on(60), on(60), rollout.Plan{Precaching: content, PreCacheImage: "precache:2"}, rollout.PrecachingRestarts},
		{"other content", done, on(60), on(60), rollout.Plan{Precaching: &ranv1.PrecachingSpec{}, PreCacheImage: "precache:1"}, rollout.PrecachingRestarts},
		{"another time limit", done, on(60), on(90), same, rollout.PrecachingRestarts},
	} {
		t.Run(tt.name, func(t *testing.T) {
			require.Equal(t, tt.change, rollout.ComparePlans(tt.before, tt.old, tt.now, tt.plan).Precaching)
		})
	}
}

func TestAnEditOfAnObjectIgnoresWhatIsFixed(t *testing.T) {
	before, after := rolloutOf(1, []string{"c1"}).Spec, rolloutOf(1, []string{"c2"}).Spec
	after.RemediationStrategy.Timeout = 300
	preview := rollout.PreviewEdit(before, after, true, true, time.Minute)
	require.Empty(t, preview.Refused)
	require.Equal(t, []string{"spec.clusters"}, preview.Ignored)
	require.Equal(t, []string{"spec.remediationStrategy.timeout"}, preview.Changed)
	require.Equal(t, []string{"the rollout times out after 5h0m0s instead of 4h0m0s, of which 1m0s are used; the batch in progress gets its share of the rest"}, preview.Effects)
	require.False(t, preview.Replanned)
	require.Contains(t, rollout.PreviewEdit(before, after, false, true, time.Minute).Refused, "spec.clusters: cannot be changed once the rollout is enabled")
	require.True(t, rollout.PreviewEdit(before, after, false, false, 0).Replanned)
}
