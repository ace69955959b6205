package rollout_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/rollout"
)

func TestAPlanListsThePrecachedImagesOrTheError(t *testing.T) {
	inventory := rollout.Inventory{Clusters: []rollout.Cluster{{Name: "c1"}}}
	config := &ranv1.PreCachingConfigSpec{Overrides: ranv1.PlatformPreCachingSpec{PlatformImage: "release:1", PreCacheImage: "pull:1"}}
	named := func(spec *ranv1.ClusterGroupUpgradeSpec) {
		spec.PreCaching, spec.PreCachingConfigRef = true, &ranv1.ObjectRef{Name: "telco"}
	}
	tests := []struct {
		name    string
		change  func(*ranv1.ClusterGroupUpgradeSpec)
		config  *ranv1.PreCachingConfigSpec
		reason  string
		message string
	}{
		{"without precaching there is no such condition", func(*ranv1.ClusterGroupUpgradeSpec) {}, nil, "", ""},
		{"a complete configuration", named, config, "PrecacheSpecIsWellFormed", "Precaching spec is valid and consistent"},
		{
			"nothing to pull", func(spec *ranv1.ClusterGroupUpgradeSpec) { spec.PreCaching = true }, nil, "PrecacheSpecIncomplete",
			"Precaching spec is incomplete: inconsistent precaching configuration: no software spec provided: no policy of the rollout has a release, or a catalog with packages; " +
				"set overrides or additionalImages in a PreCachingConfig",
		},
		{
			"a missing configuration", named, nil, "PrecacheSpecIncomplete",
			`Precaching spec is incomplete: failed to get PreCachingConfig resource due to PreCachingConfig.ran.openshift.io "telco" not found; namespace: prod`,
		},
		{
			"an invalid configuration", named, &ranv1.PreCachingConfigSpec{SpaceRequired: "x", AdditionalImages: []string{"A B"}}, "PrecacheSpecIncomplete",
			`Precaching spec is incomplete: PreCachingConfig prod/telco: spec.spaceRequired: Invalid value: "x": must be a size such as 40 GiB or 45 GB; ` +
				`PreCachingConfig prod/telco: spec.additionalImages[0]: Invalid value: "A B": must be the name of an image, such as registry.example.com/release:4.18.3 or one with a digest`,
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			inventory.PreCachingConfig = test.config
			plan := rollout.NewPlan(rolloutOf(1, []string{"c1"}, test.change), inventory, noon)
			condition := meta.FindStatusCondition(plan.Conditions, ranv1.ConditionPrecacheSpecValid)
			if test.reason == "" {
				require.Nil(t, condition)
				return
			}
			require.Equal(t, []string{test.reason, test.message}, []string{condition.Reason, condition.Message})
			good := condition.Status == metav1.ConditionTrue
			require.Equal(t, good, plan.Valid())
			require.Equal(t, good, len(plan.RemediationPlan) > 0)
			if good {
				require.Equal(t, "pull:1", plan.PreCacheImage)
				require.Equal(t, "35", plan.Precaching.SpaceRequired)
			}
		})
	}
}

func TestThePreCachingConfigDefaultsToTheNamespaceOfTheRollout(t *testing.T) {
	cgu := rolloutOf(1, []string{"c1"}, func(spec *ranv1.ClusterGroupUpgradeSpec) {
		spec.PreCaching, spec.PreCachingConfigRef = true, &ranv1.ObjectRef{Name: "telco"}
	})
	name, named := rollout.PreCachingConfigOf(cgu)
	require.True(t, named)
	require.Equal(t, "prod/telco", name.String())
	cgu.Spec.PreCachingConfigRef.Namespace = "shared"
	name, _ = rollout.PreCachingConfigOf(cgu)
	require.Equal(t, "shared/telco", name.String())
	cgu.Spec.PreCaching = false
	_, named = rollout.PreCachingConfigOf(cgu)
	require.False(t, named, "without precaching it is not read")
}

func TestRemovingClustersKeepsTheOrderOfThePlan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.SliceOfDistinct(rapid.StringMatching("[a-z]{1,3}"), rapid.ID).Draw(t, "clusters")
		var plan [][]string
		for batch := range slices.Chunk(names, rapid.IntRange(1, 3).Draw(t, "size")) {
			plan = append(plan, batch)
		}
		removed := slices.DeleteFunc(slices.Clone(names), func(string) bool { return rapid.Bool().Draw(t, "left") })
		status := &ranv1.ClusterGroupUpgradeStatus{RemediationPlan: plan}
		for i, name := range names {
			status.Clusters = append(status.Clusters, ranv1.ClusterStatus{Name: name, State: ranv1.ClusterPending, Batch: int32(i + 1)})
		}
		status.Clusters = append(status.Clusters, ranv1.ClusterStatus{Name: "-", State: ranv1.ClusterSkipped})
		rollout.RemoveFromPlan(status, removed)
		rest := slices.Concat(status.RemediationPlan...)
		require.ElementsMatch(t, names, slices.Concat(removed, rest))
		require.True(t, slices.IsSortedFunc(rest, func(a, b string) int { return slices.Index(names, a) - slices.Index(names, b) }))
		require.ElementsMatch(t, names, slices.Concat(plan...), "the given plan is unchanged")
		for i, cluster := range status.Clusters {
			if i >= len(rest) {
				require.Zero(t, cluster.Batch, "clusters without a batch come last")
				continue
			}
			require.Equal(t, rest[i], cluster.Name)
			require.Contains(t, status.RemediationPlan[cluster.Batch-1], cluster.Name)
		}
	})
}

func TestRejoiningClustersGoToTheEndOfThePlan(t *testing.T) {
	over := ranv1.ClusterGroupUpgradeStatus{
		ComputedMaxConcurrency: 2, RemediationPlan: [][]string{{"c1"}},
		Conditions: []metav1.Condition{{Type: ranv1.ConditionSucceeded, Status: metav1.ConditionFalse, Reason: ranv1.ReasonFailed}},
		Backup:     &ranv1.BackupStatus{Image: "backup:1", Status: map[string]ranv1.PreparationState{"c1": "Succeeded", "c2": "BackupTimeout"}},
		Clusters: []ranv1.ClusterStatus{
			{Name: "c1", Batch: 1, State: ranv1.ClusterComplete},
			{Name: "c2", State: ranv1.ClusterFailed},
			{Name: "c3", State: ranv1.ClusterFailed},
			{Name: "c4", State: ranv1.ClusterFailed},
			{Name: "c5", State: ranv1.ClusterSkipped},
		},
	}
	next, err := rollout.Retry(over, nil, rollout.RetryRequest{})
	require.NoError(t, err)
	require.Equal(t, [][]string{{"c1"}, {"c2", "c3"}, {"c4"}}, next.RemediationPlan)
	require.Equal(t, over.Backup, next.Backup, "the previous backup is kept")
	var batches []int32
	for _, cluster := range next.Clusters {
		batches = append(batches, cluster.Batch)
	}
	require.Equal(t, []int32{1, 2, 2, 3, 0}, batches)
	require.Equal(t, [][]string{{"c1"}}, over.RemediationPlan)

	over.RemediationPlan, over.Clusters, over.Counts.Failed = nil, over.Clusters[1:3], 2
	next, err = rollout.Retry(over, nil, rollout.RetryRequest{})
	require.NoError(t, err, "no cluster could be prepared")
	require.Equal(t, [][]string{{"c2", "c3"}}, next.RemediationPlan)
}

func TestRejoiningCanariesGoFirstInBatchesOfOne(t *testing.T) {
	const failed, complete = ranv1.ClusterFailed, ranv1.ClusterComplete
	canaries := []string{"c1", "c2", "c3", "c2"}
	for _, tt := range []struct {
		name     string
		plan     [][]string
		clusters []ranv1.ClusterStatus
		want     [][]string
	}{
		{
			"only the first canary rejoins",
			[][]string{{"c2"}, {"a", "b"}},
			[]ranv1.ClusterStatus{
				{Name: "c2", Batch: 1, State: complete}, {Name: "a", Batch: 2, State: failed}, {Name: "b", Batch: 2, State: complete}, {Name: "c1", State: failed},
			},
			[][]string{{"c1"}, {"c2"}, {"a", "b"}},
		},
		{
			"canaries and others rejoin",
			[][]string{{"c1"}, {"a"}},
			[]ranv1.ClusterStatus{
				{Name: "c1", Batch: 1, State: complete},
				{Name: "a", Batch: 2, State: complete},
				{Name: "x", State: failed},
				{Name: "c3", State: failed},
				{Name: "y", State: failed},
				{Name: "c2", State: failed},
				{Name: "z", State: failed},
			},
			[][]string{{"c1"}, {"c2"}, {"c3"}, {"a"}, {"x", "y"}, {"z"}},
		},
		{
			"all clusters rejoin", nil,
			[]ranv1.ClusterStatus{{Name: "c1", State: failed}, {Name: "c2", State: failed}, {Name: "a", State: failed}},
			[][]string{{"c1"}, {"c2"}, {"a"}},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			over := ended()
			over.ComputedMaxConcurrency, over.RemediationPlan, over.Clusters, over.Counts.Failed = 2, tt.plan, tt.clusters, 1
			next, err := rollout.Retry(over, canaries, rollout.RetryRequest{})
			require.NoError(t, err)
			require.Equal(t, tt.want, next.RemediationPlan)
			for i, name := range slices.Concat(tt.want...) {
				require.Equal(t, name, next.Clusters[i].Name, "in the order of the plan")
				require.Contains(t, tt.want[next.Clusters[i].Batch-1], name)
			}
		})
	}
}
