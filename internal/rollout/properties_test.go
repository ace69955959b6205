package rollout_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/rollout"
)

// drawn is a valid rollout: every named cluster exists, every canary is selected.
type drawn struct {
	cgu       *ranv1.ClusterGroupUpgrade
	inventory rollout.Inventory
	selected  []string
}

func drawRollout(t *rapid.T) drawn {
	var d drawn
	var listed []string
	zones := []string{"a", "b", "c"}
	for i := range rapid.IntRange(1, 12).Draw(t, "clusters") {
		cluster := rollout.Cluster{Name: fmt.Sprintf("c%d", i), Labels: map[string]string{"zone": rapid.SampledFrom(zones).Draw(t, "zone")}}
		d.inventory.Clusters = append(d.inventory.Clusters, cluster)
		if rapid.Bool().Draw(t, "listed") {
			listed = append(listed, cluster.Name)
		}
	}
	listed = rapid.Permutation(listed).Draw(t, "order")
	zone := rapid.SampledFrom(append(zones, "none")).Draw(t, "selected zone")
	d.selected = slices.Clone(listed)
	var picked []string
	for _, cluster := range d.inventory.Clusters {
		if cluster.Labels["zone"] == zone && !slices.Contains(listed, cluster.Name) {
			picked = append(picked, cluster.Name)
		}
	}
	slices.Sort(picked)
	d.selected = append(d.selected, picked...)

	d.cgu = rolloutOf(drawConcurrency(t), listed, labelled(map[string]string{"zone": zone}))
	if len(d.selected) > 0 {
		d.cgu.Spec.RemediationStrategy.Canaries = rapid.SliceOfN(rapid.SampledFrom(d.selected), 0, 4).Draw(t, "canaries")
	}
	if rapid.Bool().Draw(t, "policies") {
		d.drawPolicies(t)
	}
	return d
}

func drawConcurrency(t *rapid.T) any {
	if rapid.Bool().Draw(t, "percent") {
		return fmt.Sprintf("%d%%", rapid.IntRange(1, 100).Draw(t, "concurrency"))
	}
	return rapid.IntRange(1, 15).Draw(t, "concurrency")
}

func (d *drawn) drawPolicies(t *rapid.T) {
	var names []string
	for i := range rapid.IntRange(1, 3).Draw(t, "policies") {
		name := fmt.Sprintf("p%d", i)
		bound := compliance{}
		for _, cluster := range d.inventory.Clusters {
			switch rapid.IntRange(0, 2).Draw(t, "compliance") {
			case 0:
				bound[cluster.Name] = true
			case 1:
				bound[cluster.Name] = false
			}
		}
		isBound := func(cluster string) bool { _, is := bound[cluster]; return is }
		if len(d.selected) > 0 && !slices.ContainsFunc(d.selected, isBound) { // or the plan would be invalid
			bound[d.selected[0]] = false
		}
		names = append(names, name)
		d.inventory.Policies = append(d.inventory.Policies, policy(name, bound))
	}
	managing(names...)(&d.cgu.Spec)
}

// needsWork restates the rule: a policy is bound to the cluster and not compliant; without policies there is always work.
func (d drawn) needsWork(cluster string) bool {
	if d.cgu.Spec.NodeMaintenance != nil {
		return true
	}
	for _, policy := range d.inventory.Policies {
		if compliant, bound := policy.Compliant[cluster]; bound && !compliant {
			return true
		}
	}
	return false
}

func TestEveryClusterThatNeedsWorkIsInExactlyOneBatch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawRollout(t)
		plan := rollout.NewPlan(d.cgu, d.inventory, noon)
		require.True(t, plan.Valid(), plan.Problems())
		var working, idle, skipped []string
		for _, cluster := range d.selected {
			if d.needsWork(cluster) {
				working = append(working, cluster)
			} else {
				idle = append(idle, cluster)
			}
		}
		for _, cluster := range plan.Skipped {
			skipped = append(skipped, cluster.Cluster)
		}
		require.ElementsMatch(t, working, slices.Concat(plan.RemediationPlan...))
		require.Equal(t, idle, skipped)
	})
}

func TestNoBatchIsLargerThanTheConcurrencyAndOnlyTheLastIsSmaller(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawRollout(t)
		plan := rollout.NewPlan(d.cgu, d.inventory, noon)
		require.LessOrEqual(t, int(plan.ComputedMaxConcurrency), len(d.selected))
		for i, batch := range plan.RemediationPlan {
			require.NotEmpty(t, batch)
			require.LessOrEqual(t, len(batch), int(plan.ComputedMaxConcurrency))
			isCanary := slices.Contains(d.cgu.Spec.RemediationStrategy.Canaries, batch[0])
			if !isCanary && i < len(plan.RemediationPlan)-1 {
				require.Len(t, batch, int(plan.ComputedMaxConcurrency))
			}
		}
	})
}

func TestCanariesComeFirstInBatchesOfOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawRollout(t)
		plan := rollout.NewPlan(d.cgu, d.inventory, noon)
		var want [][]string
		for i, canary := range d.cgu.Spec.RemediationStrategy.Canaries {
			if d.needsWork(canary) && !slices.Contains(d.cgu.Spec.RemediationStrategy.Canaries[:i], canary) {
				want = append(want, []string{canary})
			}
		}
		require.Equal(t, want, append([][]string(nil), plan.RemediationPlan[:len(want)]...))
		var others []string
		for _, cluster := range d.selected {
			if d.needsWork(cluster) && !slices.Contains(d.cgu.Spec.RemediationStrategy.Canaries, cluster) {
				others = append(others, cluster)
			}
		}
		require.Equal(t, others, slices.Concat(plan.RemediationPlan[len(want):]...))
	})
}

func TestEveryClusterOfAPolicyPlanHasAFirstPolicy(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawRollout(t)
		plan := rollout.NewPlan(d.cgu, d.inventory, noon)
		if d.cgu.Spec.NodeMaintenance != nil {
			require.Empty(t, plan.StartPolicyIndex)
			return
		}
		planned := slices.Concat(plan.RemediationPlan...)
		require.Len(t, plan.StartPolicyIndex, len(planned))
		for _, cluster := range planned {
			name := plan.ManagedPoliciesForUpgrade[plan.StartPolicyIndex[cluster]]
			index := slices.Index(d.cgu.Spec.ManagedPolicies, name)
			require.False(t, d.inventory.Policies[index].Compliant[cluster])
			require.True(t, d.inventory.Policies[index].BoundTo(cluster))
		}
	})
}

func TestThePlanDoesNotDependOnTheOrderOfTheInventoryOrOfSelectors(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawRollout(t)
		d.cgu.Spec.ClusterSelector = []string{"zone=a", "zone=b"}[:rapid.IntRange(0, 2).Draw(t, "old selectors")]
		before := rollout.NewPlan(d.cgu, d.inventory, noon)
		shuffled := rollout.Inventory{
			Clusters: rapid.Permutation(d.inventory.Clusters).Draw(t, "shuffled clusters"),
			Policies: rapid.Permutation(d.inventory.Policies).Draw(t, "shuffled policies"),
		}
		slices.Reverse(d.cgu.Spec.ClusterSelector)
		require.Equal(t, before, rollout.NewPlan(d.cgu, shuffled, noon))
	})
}

func TestBatchBudgetsAddUpToTheTimeout(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		timeout := time.Duration(rapid.Int64Range(1, int64(1000*time.Hour)).Draw(t, "timeout"))
		batches := rapid.IntRange(1, 50).Draw(t, "batches")
		var used time.Duration
		for left := batches; left > 0; left-- {
			budget := rollout.BatchTimeout(timeout, used, left)
			require.GreaterOrEqual(t, budget, time.Duration(0))
			used += budget
		}
		require.Equal(t, timeout, used)
	})
}

func TestUnusedTimeOfABatchGoesToLaterBatches(t *testing.T) {
	require.Equal(t, 60*time.Minute, rollout.BatchTimeout(4*time.Hour, 0, 4))
	require.Equal(t, 70*time.Minute, rollout.BatchTimeout(4*time.Hour, 30*time.Minute, 3))
	require.Equal(t, 10*time.Minute, rollout.BatchTimeout(4*time.Hour, 230*time.Minute, 1))
	require.Zero(t, rollout.BatchTimeout(4*time.Hour, 5*time.Hour, 2))
}
