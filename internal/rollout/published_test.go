package rollout_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/rollout"
)

func TestThePublishedStatusOfARunningRollout(t *testing.T) {
	soaked := metav1.NewTime(noon.Add(time.Minute))
	cgu := &ranv1.ClusterGroupUpgrade{ObjectMeta: metav1.ObjectMeta{Namespace: "ops", Name: "june"}, Status: ranv1.ClusterGroupUpgradeStatus{
		Conditions:                []metav1.Condition{{Type: ranv1.ConditionProgressing, Status: metav1.ConditionTrue}},
		ManagedPoliciesForUpgrade: []ranv1.ManagedPolicy{{Name: "kernel", Namespace: "policies"}, {Name: "network", Namespace: "policies"}},
		SafeResourceNames: map[string]string{
			"june-kernel": "june-kernel-x1", "june-kernel-placement": "june-kernel-placement-x1",
			"june-network": "june-network-x1", "june-network-placement": "june-network-placement-x1",
		},
		Status: ranv1.RunStatus{StartedAt: new(metav1.NewTime(noon)), CurrentBatch: 2, Estimate: &ranv1.Estimate{}},
		Clusters: []ranv1.ClusterStatus{
			{Name: "c1", State: ranv1.ClusterComplete, Batch: 1, CurrentPolicy: &ranv1.PolicyStatus{Name: "network"}},
			{Name: "c2", State: ranv1.ClusterTimedOut, Batch: 1, CurrentPolicy: &ranv1.PolicyStatus{Name: "kernel", Status: "NonCompliant"}},
			{Name: "c3", State: ranv1.ClusterRunning, Batch: 2, Reason: ranv1.ReasonSoaking, Since: &soaked, CurrentPolicy: &ranv1.PolicyStatus{Name: "network"}},
			{Name: "c4", State: ranv1.ClusterPending, Batch: 2},
			{Name: "c5", State: ranv1.ClusterComplete, Batch: 2},
			{Name: "c6", State: ranv1.ClusterPending, Batch: 3},
			{Name: "c7", State: ranv1.ClusterSkipped, Reason: rollout.ReasonAlreadyCompliant},
			{Name: "c8", State: ranv1.ClusterSkipped, Reason: "Other"},
		},
	}}
	status := rollout.Published(cgu, 4)
	require.EqualValues(t, 4, status.Conditions[0].ObservedGeneration)
	require.Equal(t, []ranv1.ClusterStatus{
		{Name: "c1", State: ranv1.ClusterComplete, Batch: 1},
		{Name: "c2", State: ranv1.ClusterTimedOut, Batch: 1, CurrentPolicy: &ranv1.PolicyStatus{Name: "kernel", Status: "NonCompliant"}},
		{Name: "c5", State: ranv1.ClusterComplete, Batch: 2},
		{Name: "c7", State: ranv1.ClusterComplete},
	}, status.Clusters)
	require.Equal(t, map[string]*ranv1.RemediationProgress{
		"c3": {State: ranv1.RemediationInProgress, PolicyIndex: new(int32(1)), FirstCompliantAt: &soaked},
		"c4": {State: ranv1.RemediationNotStarted},
		"c5": {State: ranv1.RemediationCompleted},
	}, status.Status.CurrentBatchRemediationProgress)
	require.Equal(t, []string{"june-kernel-placement-x1", "june-network-placement-x1"}, status.Placements)
	require.Equal(t, status.Placements, status.PlacementBindings)
	require.Equal(t, []string{"june-kernel-x1", "june-network-x1"}, status.CopiedPolicies)
	require.Equal(t, "june-kernel-x1", status.SafeResourceNames["ops/june-kernel"])
	require.Nil(t, status.Status.Estimate, "it changes with the time")
	require.Zero(t, cgu.Status.Conditions[0].ObservedGeneration, "the status of the rollout stays")

	cgu.Status.Status.CompletedAt = &soaked
	status = rollout.Published(cgu, 4)
	require.Zero(t, status.Status.CurrentBatch)
	require.Empty(t, status.Status.CurrentBatchRemediationProgress)
	require.Empty(t, status.Placements)
	require.Empty(t, status.SafeResourceNames)
}

func TestAnEditOfAnEnabledRolloutKeepsWhatFixesThePlan(t *testing.T) {
	before := rolloutOf(2, []string{"c1"}).Spec
	after := *before.DeepCopy()
	after.Clusters, after.BatchTimeoutAction, after.Enable = []string{"c2"}, ranv1.BatchTimeoutAbort, new(false)
	spec, ignored := rollout.Editable(before, after, false)
	require.Equal(t, after, spec)
	require.Empty(t, ignored)

	spec, ignored = rollout.Editable(before, after, true)
	require.Equal(t, []string{"spec.clusters"}, ignored)
	require.Equal(t, []string{"c1"}, spec.Clusters)
	require.Equal(t, ranv1.BatchTimeoutAbort, spec.BatchTimeoutAction)
	require.Equal(t, before.Enable, spec.Enable)
}
