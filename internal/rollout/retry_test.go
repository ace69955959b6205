package rollout_test

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/rollout"
)

// ended is the status of a rollout that has ended, with one cluster a batch.
func ended(states ...ranv1.ClusterState) ranv1.ClusterGroupUpgradeStatus {
	status := ranv1.ClusterGroupUpgradeStatus{ComputedMaxConcurrency: 1, Conditions: []metav1.Condition{
		{Type: ranv1.ConditionClustersSelected, Status: "True"},
		{Type: ranv1.ConditionValidated, Status: "True"},
		{Type: ranv1.ConditionProgressing, Status: "False"},
		{Type: ranv1.ConditionSucceeded, Status: "False", Reason: ranv1.ReasonFailed},
	}}
	for i, state := range states {
		name := fmt.Sprintf("c%d", i)
		cluster := ranv1.ClusterStatus{Name: name, State: state, Batch: int32(i + 1), Reason: "Because", StartedAt: ago(0)}
		if state == ranv1.ClusterSkipped {
			cluster.Batch = 0
		} else {
			status.RemediationPlan = append(status.RemediationPlan, []string{name})
		}
		status.Clusters = append(status.Clusters, cluster)
	}
	return status
}

func TestARetryRepeatsFailedClustersWithTheSamePlan(t *testing.T) {
	over := ended(ranv1.ClusterComplete, ranv1.ClusterFailed, ranv1.ClusterTimedOut, ranv1.ClusterCancelled, ranv1.ClusterPending, ranv1.ClusterSkipped)
	for _, tt := range []struct {
		name       string
		unfinished bool
		want       []ranv1.ClusterState
	}{
		{"failed and timed out", false, []ranv1.ClusterState{"complete", "pending", "pending", "cancelled", "cancelled", "skipped"}},
		{"all unfinished clusters", true, []ranv1.ClusterState{"complete", "pending", "pending", "pending", "pending", "skipped"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			next, err := rollout.Retry(over, nil, rollout.RetryRequest{Unfinished: tt.unfinished})
			require.NoError(t, err)
			require.Equal(t, over.RemediationPlan, next.RemediationPlan)
			var states []ranv1.ClusterState
			for _, cluster := range next.Clusters {
				states = append(states, cluster.State)
				if cluster.State == ranv1.ClusterPending {
					require.Empty(t, cluster.Reason, "the retry starts without a reason")
					require.Nil(t, cluster.StartedAt)
				}
			}
			require.Equal(t, tt.want, states)
			require.Len(t, next.Conditions, 2, "it is planned but not started")
		})
	}
}

func TestARetryKeepsThePlanAndResetsProgress(t *testing.T) {
	pinned := []string{
		"Conditions", "ComputedMaxConcurrency", "ComputedMaxFailures", "RemediationPlan", "ManagedPoliciesForUpgrade",
		"ManagedPoliciesCompliantBeforeUpgrade", "ManagedPoliciesNs", "ManagedPoliciesContent", "PolicyEnforcement", "Precaching", "Backup", "Clusters", "AfterCompletion",
	}
	var over ranv1.ClusterGroupUpgradeStatus
	fields := reflect.ValueOf(&over).Elem()
	for i := range fields.NumField() {
		setNonZero(fields.Field(i))
	}
	given := ended(ranv1.ClusterFailed)
	over.Conditions, over.Clusters, over.RemediationPlan, over.Outcomes = given.Conditions, given.Clusters, given.RemediationPlan, nil
	next, err := rollout.Retry(over, nil, rollout.RetryRequest{})
	require.NoError(t, err)
	kept := reflect.ValueOf(next)
	for i := range kept.NumField() {
		name := kept.Type().Field(i).Name
		require.Equal(t, slices.Contains(pinned, name), !kept.Field(i).IsZero(), name)
	}
}

// setNonZero sets a value to something other than its zero value.
func setNonZero(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.Zero(v.Type().Key()), reflect.Zero(v.Type().Elem()))
	case reflect.Struct:
		setNonZero(v.Field(0))
	case reflect.String:
		v.SetString("given")
	case reflect.Bool:
		v.SetBool(true)
	default:
		v.SetInt(1)
	}
}

func TestARetryWithoutWorkIsRefusedWithTheReason(t *testing.T) {
	running := ended(ranv1.ClusterFailed)
	running.Conditions = running.Conditions[:3]
	unplanned := ended()
	unsaved := ended(ranv1.ClusterFailed)
	unsaved.Notes = []string{rollout.NotSaved + ": the hub is down"}
	cut := ended(ranv1.ClusterFailed, ranv1.ClusterFailed)
	cut.Clusters = cut.Clusters[:1]
	negative, huge := *cut.DeepCopy(), *cut.DeepCopy()
	negative.Outcomes = []ranv1.Outcome{{State: ranv1.ClusterFailed, Clusters: -1}}
	huge.Outcomes = []ranv1.Outcome{{State: ranv1.ClusterComplete, Clusters: math.MaxInt32}}
	huge.Clusters = nil
	for _, tt := range []struct {
		name   string
		status ranv1.ClusterGroupUpgradeStatus
		want   string
	}{
		{"it has not ended", running, "the status of its last run is not saved"},
		{"its status is not saved on the hub", unsaved, "the status of its last run is not saved on the hub"},
		{"it had no plan", unplanned, "had no valid plan"},
		{"every cluster is complete", ended(ranv1.ClusterComplete, ranv1.ClusterSkipped), "every cluster is complete"},
		{"it was cancelled before anything failed", ended(ranv1.ClusterComplete, ranv1.ClusterPending), "cancelled or not started: 1, retry those with --unfinished"},
		{"a negative number of clusters", negative, "its outcomes have -1 clusters in state failed"},
		{"more clusters than planned", huge, "every cluster is complete"},
		{"the state of a cluster is not saved", cut, "the status of cluster c1 is not saved"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := rollout.Retry(tt.status, nil, rollout.RetryRequest{})
			require.ErrorContains(t, err, tt.want)
		})
	}
}

func TestAShortenedStatusKeepsTheStatesOfAllClusters(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		states := rapid.SliceOfN(rapid.SampledFrom([]ranv1.ClusterState{
			ranv1.ClusterComplete, ranv1.ClusterFailed, ranv1.ClusterTimedOut, ranv1.ClusterCancelled, ranv1.ClusterPending,
		}), 1, 40).Draw(t, "states")
		over := ended(append([]ranv1.ClusterState{ranv1.ClusterFailed}, states...)...)
		for i := range rapid.IntRange(0, 10).Draw(t, "left the plan") {
			over.Clusters = append(over.Clusters, ranv1.ClusterStatus{Name: fmt.Sprintf("left%d", i), State: ranv1.ClusterFailed})
		}
		over.Clusters = append(over.Clusters, ranv1.ClusterStatus{Name: "skipped", State: ranv1.ClusterSkipped})
		over.Precaching, over.Backup = &ranv1.PrecachingStatus{Image: "pull:1", Status: drawPreparation(t, over.Clusters)}, &ranv1.BackupStatus{Status: drawPreparation(t, over.Clusters)}
		whole, err := rollout.Retry(over, nil, rollout.RetryRequest{})
		require.NoError(t, err)

		short := rollout.Shorten(over, rapid.IntRange(1, len(over.Clusters)).Draw(t, "listed"))
		again, err := rollout.Retry(short, nil, rollout.RetryRequest{})
		require.NoError(t, err)
		comparable := func(states []string) []string { // an unlisted skipped cluster may be missing
			return slices.DeleteFunc(states, func(state string) bool { return state == "skipped/0: skipped" })
		}
		require.Equal(t, comparable(statesOf(whole.Clusters)), comparable(statesOf(again.Clusters)))
		require.Equal(t, whole.RemediationPlan, again.RemediationPlan)
		require.Equal(t, over.Precaching, again.Precaching, "nothing is precached twice")
		require.Equal(t, over.Backup, again.Backup)
	})
}

// drawPreparation draws the preparation states of clusters; some have none.
func drawPreparation(t *rapid.T, clusters []ranv1.ClusterStatus) map[string]ranv1.PreparationState {
	states := map[string]ranv1.PreparationState{}
	for _, cluster := range clusters {
		state := rapid.SampledFrom([]ranv1.PreparationState{"", ranv1.PreparationSucceeded, ranv1.PrecacheTimeout}).Draw(t, "preparation of "+cluster.Name)
		if state != "" && cluster.State != ranv1.ClusterSkipped {
			states[cluster.Name] = state
		}
	}
	return states
}

// An object on the hub may have 1 MiB, and a payload in Temporal 2 MB.
func TestTheSavedStatusOfTenThousandClustersFitsIntoAnObject(t *testing.T) {
	whole := ended(slices.Repeat([]ranv1.ClusterState{ranv1.ClusterFailed}, 10_000)...)
	whole.Precaching = &ranv1.PrecachingStatus{Status: map[string]ranv1.PreparationState{}}
	for _, cluster := range whole.Clusters {
		whole.Precaching.Status[cluster.Name] = ranv1.PreparationSucceeded
	}
	left := whole
	left.RemediationPlan, left.Clusters = nil, slices.Clone(whole.Clusters)
	for i := range left.Clusters {
		left.Clusters[i].Batch = 0
	}
	size := func(status ranv1.ClusterGroupUpgradeStatus) int {
		text, err := yaml.Marshal(rollout.Shorten(status, 500))
		require.NoError(t, err)
		return len(text)
	}
	require.LessOrEqual(t, size(left), size(whole), "a removed cluster needs no more space than one in the plan")
	require.Less(t, size(left), 300_000)
}

func statesOf(clusters []ranv1.ClusterStatus) []string {
	var states []string
	for _, cluster := range clusters {
		states = append(states, fmt.Sprintf("%s/%d: %s", cluster.Name, cluster.Batch, cluster.State))
	}
	slices.Sort(states)
	return states
}
