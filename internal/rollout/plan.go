// Package rollout holds the decisions of group upgrades: which clusters, in which batches, with how much time, what they wait for, and how they end.
// Every function is pure and gets everything it needs as arguments, including the time.
package rollout

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/conditions"
	"drydock.dev/drydock/internal/precache"
)

// Plan has the clusters of a rollout in batches. `drydock upgrade plan -o json` prints it.
type Plan struct {
	// ComputedMaxConcurrency is maxConcurrency as a number of clusters, at most the number of selected clusters.
	ComputedMaxConcurrency int32 `json:"computedMaxConcurrency"`
	// ComputedMaxFailures is maxFailures as a number of clusters; 0 without a limit.
	ComputedMaxFailures int32 `json:"computedMaxFailures,omitempty"`
	// RemediationPlan is the clusters of each batch: canaries first, one a batch.
	RemediationPlan [][]string `json:"remediationPlan"`
	// ManagedPoliciesForUpgrade are enforced, in this order. Every selected cluster complies with ManagedPoliciesCompliantBeforeUpgrade already.
	ManagedPoliciesForUpgrade             []string `json:"managedPoliciesForUpgrade"`
	ManagedPoliciesCompliantBeforeUpgrade []string `json:"managedPoliciesCompliantBeforeUpgrade"`
	// PolicyNamespaces are the namespaces of ManagedPoliciesForUpgrade, by name.
	PolicyNamespaces map[string]string `json:"-"`
	// PolicyContent lists the Subscriptions of ManagedPoliciesForUpgrade as JSON, by the name of the policy.
	PolicyContent map[string]string `json:"-"`
	// PolicyEnforcement is how the policies are enforced; nil: the rollout has none, or the plan is made from a file without the CRD of PlacementBindings.
	PolicyEnforcement *ranv1.EnforcementStatus `json:"policyEnforcement,omitempty"`
	// NotBound lists by cluster the indexes of the policies for the upgrade that are not bound to it.
	NotBound map[string][]int `json:"-"`
	// StartPolicyIndex has for each cluster of the plan the index in ManagedPoliciesForUpgrade of its first policy that is not Compliant. It is empty
	// if the rollout has no policies.
	StartPolicyIndex map[string]int `json:"startPolicyIndex"`
	// Precaching is the precached content, if the rollout asks for precaching. PreCacheImage is the image of the Jobs; empty: the default of the
	// workers.
	Precaching    *ranv1.PrecachingSpec `json:"precaching,omitempty"`
	PreCacheImage string                `json:"preCacheImage,omitempty"`
	// PrecachingSources are the objects that set the fields of Precaching, and PreCacheImage.
	PrecachingSources map[precache.Field]string `json:"precachingSources,omitempty"`
	// Release is the release whose image is precached, if an update graph has it. Without an image and a problem, the rollout looks it up.
	Release *precache.LookedUp `json:"release,omitempty"`
	// Offline are the clusters of the plan whose ManagedClusters are not Available at the moment.
	Offline []string `json:"offline,omitempty"`
	// Conditions are ClustersSelected; if it is True, Validated; and then PrecacheSpecValid, if the rollout asks for precaching.
	Conditions []metav1.Condition `json:"conditions"`
	// Skipped clusters were selected but need no work.
	Skipped []SkippedCluster `json:"skipped"`
}

// SkippedCluster was selected but is not worked on.
type SkippedCluster struct {
	Cluster string `json:"cluster"`
	// Reason is a CamelCase word.
	Reason string `json:"reason"`
	// Message explains the reason.
	Message string `json:"message,omitempty"`
}

// Reasons of clusters without work.
const (
	// ReasonRelapsed: the cluster was complete, or complied already, and no longer complies.
	ReasonRelapsed = "Relapsed"
	// ReasonAlreadyCompliant: the cluster complies already, or the rollout has nothing to remediate. It is done.
	ReasonAlreadyCompliant = "AlreadyCompliant"
	// ReasonNotBound: no policy of the rollout is bound to the cluster. It is not done: its compliance is unknown.
	ReasonNotBound = "NotBound"
	// ReasonAlreadyEnforced: the cluster does not comply with policies that enforce already, which are not the rollout's work. It is not done.
	ReasonAlreadyEnforced = "AlreadyEnforced"
)

// NewPlan selects the clusters of a rollout and divides those that need work into batches. An invalid plan has no batches, and a False condition that
// names every problem.
func NewPlan(cgu *ranv1.ClusterGroupUpgrade, inventory Inventory, now time.Time) Plan {
	plan := Plan{
		RemediationPlan:                       [][]string{},
		ManagedPoliciesForUpgrade:             []string{},
		ManagedPoliciesCompliantBeforeUpgrade: []string{},
		StartPolicyIndex:                      map[string]int{},
		Skipped:                               []SkippedCluster{},
	}
	selected, problems := selectClusters(&cgu.Spec, inventory.Clusters)
	if !plan.judge(selectionVerdict(selected, problems), now) {
		return plan
	}
	policies := choosePolicies(cgu, selected, inventory)
	plan.PolicyEnforcement = PolicyEnforcement(cgu, inventory.Hub)
	precaches, release := cgu.Spec.PreCaching && policies.hasWork(cgu, selected), precachedRelease{}
	if precaches && derivesRelease(cgu, inventory) {
		release = policies.release(inventory.Release)
		plan.Release, policies.platform = release.lookedUp, release.problems
	}
	if !plan.judge(plan.validationVerdict(cgu, selected, policies, inventory).withCycle(cgu, inventory.Rollouts), now) {
		return plan
	}
	if precaches && !plan.setPrecaching(cgu, inventory, policies.derived(release), now) {
		return plan
	}
	plan.ManagedPoliciesForUpgrade = append(plan.ManagedPoliciesForUpgrade, names(policies.forUpgrade)...)
	plan.PolicyNamespaces, plan.PolicyContent = namespacesOf(policies.forUpgrade), contentOf(policies.forUpgrade)
	plan.ManagedPoliciesCompliantBeforeUpgrade = append(plan.ManagedPoliciesCompliantBeforeUpgrade, names(policies.compliantBefore)...)
	strategy := cgu.Spec.RemediationStrategy
	plan.ComputedMaxConcurrency = shareOf(strategy.MaxConcurrency, len(selected))
	if strategy.MaxFailures != nil {
		plan.ComputedMaxFailures = shareOf(*strategy.MaxFailures, len(selected))
	}

	working := plan.divideWork(cgu, selected, policies)
	plan.NotBound = NotBound(policies.forUpgrade, slices.Collect(maps.Keys(plan.StartPolicyIndex)))
	plan.RemediationPlan = append(plan.RemediationPlan,
		batches(selected, working, strategy.Canaries, int(plan.ComputedMaxConcurrency))...)
	plan.Offline = offlineAmong(inventory.Clusters, working)
	return plan
}

// ManagedPolicies returns the policies for the upgrade with their namespaces.
func (p Plan) ManagedPolicies() []ranv1.ManagedPolicy {
	var managed []ranv1.ManagedPolicy
	for _, name := range p.ManagedPoliciesForUpgrade {
		managed = append(managed, ranv1.ManagedPolicy{Name: name, Namespace: p.PolicyNamespaces[name]})
	}
	return managed
}

// PlanConditions are the types of the conditions of a plan.
func PlanConditions() []string {
	return []string{ranv1.ConditionClustersSelected, ranv1.ConditionValidated, ranv1.ConditionPrecacheSpecValid}
}

// Problems returns the messages of the False conditions of the plan.
func (p Plan) Problems() []string {
	var problems []string
	for _, condition := range p.Conditions {
		if condition.Status != metav1.ConditionTrue {
			problems = append(problems, condition.Message)
		}
	}
	return problems
}

// Valid reports whether the plan is valid, even if it has no clusters.
func (p Plan) Valid() bool { return len(p.Problems()) == 0 }

// verdict is the result of a planning step, as a condition.
type verdict struct {
	condition, reason, message string
	good                       bool
}

// judge records a verdict and reports whether planning continues.
func (p *Plan) judge(v verdict, now time.Time) bool {
	status := metav1.ConditionFalse
	if v.good {
		status = metav1.ConditionTrue
	}
	p.SetCondition(v.condition, status, v.reason, v.message, now)
	return v.good
}

// SetCondition sets a condition of the plan. They have the order of PlanConditions.
func (p *Plan) SetCondition(conditionType string, status metav1.ConditionStatus, reason, message string, now time.Time) {
	conditions.Set(&p.Conditions, conditionType, status, reason, message, now)
	slices.SortStableFunc(p.Conditions, func(a, b metav1.Condition) int {
		return slices.Index(PlanConditions(), a.Type) - slices.Index(PlanConditions(), b.Type)
	})
}

// divideWork returns the clusters that need work, and lists the others as skipped.
func (p *Plan) divideWork(cgu *ranv1.ClusterGroupUpgrade, selected []string, policies policyChoice) map[string]bool {
	working := map[string]bool{}
	for _, cluster := range selected {
		if RemediationOf(cgu) == NodeMaintenance || RemediationOf(cgu) == ManifestWorks {
			working[cluster] = true
			continue
		}
		start := firstPolicyToEnforce(cluster, policies.forUpgrade)
		switch {
		case start >= 0:
			working[cluster] = true
			p.StartPolicyIndex[cluster] = start
		case RemediationOf(cgu) == Nothing:
			p.skip(cluster, ReasonAlreadyCompliant, "the rollout has nothing to remediate")
		default:
			reason, message := policies.reasonNoWork(cluster)
			p.skip(cluster, reason, message)
		}
	}
	return working
}

func (p *Plan) skip(cluster, reason, message string) {
	p.Skipped = append(p.Skipped, SkippedCluster{Cluster: cluster, Reason: reason, Message: message})
}

// shareOf converts a number or a percentage to a number of clusters, from 1 to the number of selected clusters. A percentage is rounded down.
func shareOf(value intstr.IntOrString, selected int) int32 {
	computed, err := intstr.GetScaledValueFromIntOrPercent(&value, selected, false)
	if err != nil {
		computed = 1
	}
	return int32(min(max(computed, 1), selected))
}

// batches puts each canary that needs work into a batch of its own, and then the others into batches of size, in the order of selection.
func batches(selected []string, working map[string]bool, canaries []string, size int) [][]string {
	var plan [][]string
	planned := map[string]bool{}
	for _, canary := range canaries {
		if working[canary] && !planned[canary] {
			planned[canary] = true
			plan = append(plan, []string{canary})
		}
	}
	var batch []string
	for _, cluster := range selected {
		if !working[cluster] || planned[cluster] {
			continue
		}
		batch = append(batch, cluster)
		if len(batch) == size {
			plan = append(plan, batch)
			batch = nil
		}
	}
	if len(batch) > 0 {
		plan = append(plan, batch)
	}
	return plan
}

func (p *Plan) validationVerdict(cgu *ranv1.ClusterGroupUpgrade, selected []string, policies policyChoice, inventory Inventory) verdict {
	v := policies.verdict(selected)
	problems := templateProblems(cgu, inventory.ManifestWorkTemplates)
	if v.good && len(problems) > 0 {
		return verdict{
			condition: ranv1.ConditionValidated, reason: ranv1.ReasonNotAllManifestTemplatesExist, message: strings.Join(problems, "; "),
		}
	}
	if problems := p.unplaceable(cgu, selected, policies.forUpgrade, inventory); v.good && len(problems) > 0 {
		return verdict{condition: ranv1.ConditionValidated, reason: ranv1.ReasonWaitingForPlacement, message: strings.Join(problems, "; ")}
	}
	return v
}

// templateProblems names the manifest work templates of the rollout that do not exist in its namespace, and those that are invalid.
func templateProblems(cgu *ranv1.ClusterGroupUpgrade, existing []Template) []string {
	var missing, invalid, problems []string
	for _, name := range cgu.Spec.ManifestWorkTemplates {
		at := slices.IndexFunc(existing, func(t Template) bool { return t.Namespace == cgu.Namespace && t.Name == name })
		switch {
		case at < 0:
			missing = append(missing, name)
		case existing[at].Invalid != "":
			invalid = append(invalid, name)
			problems = append(problems, fmt.Sprintf("manifest template %s: %s", existing[at], existing[at].Invalid))
		}
	}
	if len(invalid) > 0 {
		problems = slices.Insert(problems, 0, fmt.Sprintf("Invalid manifest templates: %s", invalid))
	}
	if len(missing) > 0 {
		problems = slices.Insert(problems, 0, fmt.Sprintf("Missing manifest templates: %s", missing))
	}
	return problems
}
