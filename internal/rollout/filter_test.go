package rollout_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/rollout"
)

// with adds clusters to an ended rollout.
func with(cgu *ranv1.ClusterGroupUpgrade, clusters ...ranv1.ClusterStatus) *ranv1.ClusterGroupUpgrade {
	begun(cgu).Status.Clusters = clusters
	return cgu
}

func in(name string, state ranv1.ClusterState) ranv1.ClusterStatus {
	return ranv1.ClusterStatus{Name: name, State: state, Batch: 1}
}

func TestOnlyClustersThatAreCompleteInEveryBlockerGoOn(t *testing.T) {
	b := with(blockedBy("b", "False"), in("c1", ranv1.ClusterComplete), in("c2", ranv1.ClusterTimedOut), in("c3", ranv1.ClusterComplete),
		ranv1.ClusterStatus{Name: "c4", State: ranv1.ClusterSkipped, Reason: rollout.ReasonAlreadyCompliant},
		ranv1.ClusterStatus{Name: "c5", State: ranv1.ClusterSkipped, Reason: rollout.ReasonNotCompleteInBlockers})
	c := with(blockedBy("c", "True"), in("c4", ranv1.ClusterComplete), in("c3", ranv1.ClusterComplete), in("c9", ranv1.ClusterComplete))
	require.Equal(t, []string{"c1", "c3", "c4"}, rollout.CompleteInBlockers(blockedBy("a", "", "b"), known(b)), "one that complied before is complete, one that was left out is not")
	require.Equal(t, []string{"c3", "c4"}, rollout.CompleteInBlockers(blockedBy("a", "", "b", "c"), known(b, c)))
	require.Empty(t, rollout.CompleteInBlockers(blockedBy("a", "", "b", "gone"), known(b)))
	saved := with(blockedBy("b", "False"))
	saved.Status = rollout.Compact(b.Status)
	require.Equal(t, []string{"c1", "c3", "c4"}, rollout.CompleteInBlockers(blockedBy("a", "", "b"), known(saved)))
}

func TestClustersAreFilteredOnlyAfterAnyEndOfTheBlockers(t *testing.T) {
	filtering := func(cgu *ranv1.ClusterGroupUpgrade, value string) *ranv1.ClusterGroupUpgrade {
		metav1.SetMetaDataAnnotation(&cgu.ObjectMeta, "ran.openshift.io/blocking-cgu-cluster-filtering", value)
		return cgu
	}
	require.True(t, rollout.FiltersClusters(filtering(partial(blockedBy("a", "", "b")), "true")))
	require.False(t, rollout.FiltersClusters(filtering(partial(blockedBy("a", "", "b")), "yes")))
	require.False(t, rollout.FiltersClusters(filtering(blockedBy("a", "", "b"), "true")), "all clusters of a blocker that succeeded are complete")
	require.False(t, rollout.FiltersClusters(filtering(partial(blockedBy("a", "")), "true")))
	require.False(t, rollout.FiltersClusters(partial(blockedBy("a", "", "b"))))
}

func TestClustersThatAreLeftOutMakeRoomInTheBatches(t *testing.T) {
	failures := intstr.FromString("50%")
	strategy := &ranv1.RemediationStrategy{Canaries: []string{"c2", "c3"}, MaxFailures: &failures}
	status := ranv1.ClusterGroupUpgradeStatus{
		ComputedMaxConcurrency: 2, ComputedMaxFailures: 4, RemediationPlan: [][]string{{"c2"}, {"c3"}, {"c1", "c4"}, {"c5", "c6"}},
		Clusters: []ranv1.ClusterStatus{
			{Name: "c2", Batch: 1, State: ranv1.ClusterPending},
			{Name: "c3", Batch: 2, State: ranv1.ClusterPending},
			{Name: "c1", Batch: 3, State: ranv1.ClusterPending},
			{Name: "c4", Batch: 3, State: ranv1.ClusterPending},
			{Name: "c5", Batch: 4, State: ranv1.ClusterFailed, Reason: "BackupFailed"},
			{Name: "c6", Batch: 4, State: ranv1.ClusterPending},
			{Name: "c7", State: ranv1.ClusterSkipped, Reason: rollout.ReasonAlreadyCompliant},
			{Name: "c8", State: ranv1.ClusterSkipped, Reason: rollout.ReasonAlreadyCompliant},
		},
	}
	require.Equal(t, []string{"c2", "c1", "c8"}, rollout.LeaveOut(&status, strategy, []string{"c3", "c4", "c6", "c7", "c99"}))
	require.Equal(t, [][]string{{"c3"}, {"c4", "c5"}, {"c6"}}, status.RemediationPlan)
	require.EqualValues(t, 2, status.ComputedMaxFailures, "half of the others")
	require.Equal(t, []string{"c7"}, rollout.DoneBefore(status.Clusters))
	require.Equal(t, status.RemediationPlan, rollout.Expand(rollout.Compact(status)).RemediationPlan)
	require.False(t, rollout.NoneLeft(status.Clusters))

	before := *status.DeepCopy()
	require.Empty(t, rollout.LeaveOut(&before, strategy, rollout.NamesOf(status.Clusters)))
	require.Equal(t, status, before, "nothing is left out")

	status.Clusters = status.Clusters[:1]
	require.True(t, rollout.NoneLeft(status.Clusters))
}

func TestARolloutThatLeavesOutEveryClusterFails(t *testing.T) {
	result := rollout.Outcome(rollout.ManagedPolicies, []ranv1.ClusterStatus{{Name: "c1", State: ranv1.ClusterSkipped, Reason: rollout.ReasonNotCompleteInBlockers}}, rollout.EndNoneLeft)
	require.Equal(t, rollout.Result{
		Succeeded: metav1.ConditionFalse, Reason: ranv1.ReasonFailed,
		Message: "No clusters available for remediation after filtering out non-completed clusters from blocking CGUs",
	}, result)
}
