package rollout

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/precache"
)

// PreCachingConfigOf is the name of the PreCachingConfig of a rollout; false: the rollout needs none, or names none.
func PreCachingConfigOf(cgu *ranv1.ClusterGroupUpgrade) (types.NamespacedName, bool) {
	ref := cgu.Spec.PreCachingConfigRef
	if !cgu.Spec.PreCaching || ref == nil || ref.Name == "" {
		return types.NamespacedName{}, false
	}
	name := types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name}
	if name.Namespace == "" {
		name.Namespace = cgu.Namespace
	}
	return name, true
}

// readPrecaching sets the precached content, and reports whether planning continues.
func (p *Plan) readPrecaching(cgu *ranv1.ClusterGroupUpgrade, inventory Inventory, now time.Time) bool {
	if !cgu.Spec.PreCaching {
		return true
	}
	name, named := PreCachingConfigOf(cgu)
	switch {
	case !named:
		return p.JudgePrecaching(field.Required(field.NewPath("spec", "preCachingConfigRef", "name"), "the configuration of preCaching").Error(), now)
	case inventory.PreCachingConfig == nil:
		return p.JudgePrecaching(fmt.Sprintf("failed to get PreCachingConfig resource due to PreCachingConfig.ran.openshift.io %q not found; namespace: %s", name.Name, name.Namespace), now)
	}
	spec, invalid := precache.SpecOf(inventory.PreCachingConfig)
	if len(invalid) > 0 {
		var problems []string
		for _, problem := range invalid {
			problems = append(problems, problem.Error())
		}
		return p.JudgePrecaching(fmt.Sprintf("PreCachingConfig %s: %s", name, strings.Join(problems, "; ")), now)
	}
	p.Precaching, p.PreCacheImage = &spec, inventory.PreCachingConfig.Overrides.PreCacheImage
	return p.JudgePrecaching("", now)
}

// JudgePrecaching sets the condition PrecacheSpecValid. An empty problem means that it is valid.
func (p *Plan) JudgePrecaching(problem string, now time.Time) bool {
	v := verdict{
		condition: ranv1.ConditionPrecacheSpecValid, reason: ranv1.ReasonPrecacheSpecIsWellFormed,
		message: "Precaching spec is valid and consistent", good: true,
	}
	if problem != "" {
		v.reason, v.message, v.good = ranv1.ReasonPrecacheSpecIncomplete, "Precaching spec is incomplete: "+problem, false
	}
	return p.judge(v, now)
}

// RemoveFromPlan removes clusters from the plan of a status. It drops empty batches.
func RemoveFromPlan(status *ranv1.ClusterGroupUpgradeStatus, left []string) {
	plan := [][]string{}
	for _, batch := range status.RemediationPlan {
		batch = slices.DeleteFunc(slices.Clone(batch), func(cluster string) bool { return slices.Contains(left, cluster) })
		if len(batch) > 0 {
			plan = append(plan, batch)
		}
	}
	setPlan(status, plan)
}

// AddToPlan adds pending clusters that are in no batch: canaries first, with one batch each, the others in batches at the end, before the catch-up batch.
func AddToPlan(status *ranv1.ClusterGroupUpgradeStatus, canaries []string) {
	var back []string
	for i := range status.Clusters {
		if c := &status.Clusters[i]; c.Batch == 0 && c.State == ranv1.ClusterPending {
			back = append(back, c.Name)
		}
	}
	if len(back) == 0 {
		return
	}
	first := canaryBatches(status.RemediationPlan, canaries)
	going := map[string]bool{}
	for _, cluster := range slices.Concat(slices.Concat(status.RemediationPlan[:first]...), back) {
		going[cluster] = true
	}
	plan := batches(nil, going, canaries, 1)
	planned := PlannedBatches(status)
	plan = append(plan, status.RemediationPlan[first:planned]...)
	rest := slices.DeleteFunc(back, func(cluster string) bool { return slices.Contains(canaries, cluster) })
	plan = slices.AppendSeq(plan, slices.Chunk(rest, max(int(status.ComputedMaxConcurrency), 1)))
	if status.Status.CatchUpBatch > 0 {
		plan = append(plan, status.RemediationPlan[planned])
		status.Status.CatchUpBatch = int32(len(plan))
	}
	setPlan(status, plan)
}

// setPlan sets the plan of a status, and the batches of its clusters.
func setPlan(status *ranv1.ClusterGroupUpgradeStatus, plan [][]string) {
	number := map[string]int32{}
	for i, batch := range plan {
		for _, cluster := range batch {
			number[cluster] = int32(i + 1)
		}
	}
	status.RemediationPlan = plan
	for i := range status.Clusters {
		status.Clusters[i].Batch = number[status.Clusters[i].Name]
	}
	sortByBatch(status.Clusters)
}

// sortByBatch sorts clusters by batch. Those in no batch come last.
func sortByBatch(clusters []ranv1.ClusterStatus) {
	slices.SortStableFunc(clusters, func(a, b ranv1.ClusterStatus) int { return cmp.Compare(uint32(a.Batch)-1, uint32(b.Batch)-1) })
}
