package rollout_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/rollout"
)

func TestOnlyTimeoutsCanBeEditedInAnEnabledRollout(t *testing.T) {
	timeout := func(minutes int32) func(*ranv1.ClusterGroupUpgradeSpec) {
		return func(spec *ranv1.ClusterGroupUpgradeSpec) { spec.RemediationStrategy.Timeout = minutes }
	}
	abort := func(spec *ranv1.ClusterGroupUpgradeSpec) { spec.BatchTimeoutAction = ranv1.BatchTimeoutAbort }
	enabled := func(spec *ranv1.ClusterGroupUpgradeSpec) { spec.Enable = new(true) }
	clusters := []string{"c1", "c2"}
	tests := []struct {
		name    string
		after   *ranv1.ClusterGroupUpgrade
		enabled bool
		used    time.Duration
		changed []string
		refusal string
	}{
		{"nothing", rolloutOf(1, clusters), true, 0, nil, ""},
		{"any field before it is enabled", rolloutOf(2, []string{"c3"}, canaries("c3")), false, 0, []string{"spec.clusters", "spec.remediationStrategy.canaries", "spec.remediationStrategy.maxConcurrency"}, ""},
		{"the timeout and its action", rolloutOf(1, clusters, timeout(90), abort), true, time.Hour, []string{"spec.batchTimeoutAction", "spec.remediationStrategy.timeout"}, ""},
		{"enable, which is already set", rolloutOf(1, clusters, enabled), true, 0, nil, ""},
		{"an empty list equals an absent one", rolloutOf(1, clusters, canaries([]string{}...)), true, 0, nil, ""},
		{"the clusters and the strategy", rolloutOf(2, []string{"c1"}, timeout(90)), true, 0, nil, "spec.clusters, spec.remediationStrategy.maxConcurrency: cannot be changed once the rollout is enabled (only spec.batchTimeoutAction and spec.remediationStrategy.timeout can)"},
		{"a timeout shorter than the used time", rolloutOf(1, clusters, timeout(60)), true, time.Hour, nil, "spec.remediationStrategy.timeout: 1h0m0s have been used already"},
		{"its action, in the time to catch up", rolloutOf(1, clusters, abort), true, 5 * time.Hour, []string{"spec.batchTimeoutAction"}, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			changed, err := rollout.CheckEdit(rolloutOf(1, clusters).Spec, test.after.Spec, test.enabled, test.used)
			if test.refusal != "" {
				require.ErrorContains(t, err, test.refusal)
				return
			}
			require.NoError(t, err)
			require.Equal(t, test.changed, changed)
		})
	}
}

func TestAContradictoryStrategyIsRefusedWithItsField(t *testing.T) {
	cgu := rolloutOf(1, []string{"c1"})
	cgu.Spec.RemediationStrategy.Timeout, cgu.Spec.RemediationStrategy.ClusterTimeout = 60, 90
	cgu.Spec.RemediationStrategy.Rollout = ranv1.Rolling
	cgu.Spec.Approvals = &ranv1.Approvals{BeforeCanaries: true, AfterCanaries: true, BeforeEachBatch: true}
	var paths []string
	for _, problem := range rollout.CheckStrategy(&cgu.Spec) {
		paths = append(paths, problem.Field)
	}
	require.Equal(t, []string{"spec.remediationStrategy.clusterTimeout", "spec.approvals.beforeCanaries", "spec.approvals.afterCanaries", "spec.approvals.beforeEachBatch"}, paths)

	cgu = rolloutOf(1, []string{"c1"}, canaries("c1"))
	cgu.Spec.Approvals = &ranv1.Approvals{BeforeCanaries: true, AfterCanaries: true, BeforeEachBatch: true}
	require.Empty(t, rollout.CheckStrategy(&cgu.Spec))
}
