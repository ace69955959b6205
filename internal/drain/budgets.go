package drain

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// guard is the state of a pod's budgets.
type guard struct {
	// key identifies the set of budgets; empty without any. Pods with the same key wait for the same budgets.
	key string
	// allowed is how many of the guarded pods may leave now. Counted: the eviction of this pod uses one of them.
	allowed int
	counted bool
	// version changes whenever the pod or one of its budgets does.
	version string
	// state describes the budget for the message of a drain that waits for it.
	state string
}

// budgets finds the PodDisruptionBudgets of pods.
type budgets struct {
	byNamespace map[string][]*policyv1.PodDisruptionBudget
	// parsed has the selectors of the namespaces that were needed: a cluster has many more budgets than a node has pods.
	parsed map[string][]budget
}

type budget struct {
	*policyv1.PodDisruptionBudget
	selector labels.Selector
}

func newBudgets(list []policyv1.PodDisruptionBudget) budgets {
	b := budgets{byNamespace: map[string][]*policyv1.PodDisruptionBudget{}, parsed: map[string][]budget{}}
	for i := range list {
		b.byNamespace[list[i].Namespace] = append(b.byNamespace[list[i].Namespace], &list[i])
	}
	return b
}

func (b budgets) in(namespace string) []budget {
	parsed, ok := b.parsed[namespace]
	if ok {
		return parsed
	}
	for _, candidate := range b.byNamespace[namespace] {
		// As in the API server, a budget with an invalid selector selects no pod.
		if selector, err := metav1.LabelSelectorAsSelector(candidate.Spec.Selector); err == nil {
			parsed = append(parsed, budget{candidate, selector})
		}
	}
	b.parsed[namespace] = parsed
	return parsed
}

// of returns the budgets that select a pod, sorted by name.
func (b budgets) of(pod *corev1.Pod) []budget {
	var guarding []budget
	for _, candidate := range b.in(pod.Namespace) {
		if candidate.selector.Matches(labels.Set(pod.Labels)) {
			guarding = append(guarding, candidate)
		}
	}
	slices.SortFunc(guarding, func(x, y budget) int { return strings.Compare(x.Name, y.Name) })
	return guarding
}

// applyBudgets decides about a pod as the eviction API does (k8s.io/kubernetes, pkg/registry/core/pod/storage/eviction.go).
func applyBudgets(decision Decision, guarding []budget) Decision {
	decision.Budgets = budgetNames(guarding)
	decision.budget = guard{key: strings.Join(decision.Budgets, ","), version: version(decision.pod, guarding)}
	switch {
	case len(guarding) == 0, decision.pod.Status.Phase == corev1.PodPending:
		// A pod that has not started yet is evicted regardless of its budgets.
		return decision
	case len(guarding) > 1:
		decision.Action, decision.Reason = Block, ReasonMultipleBudgets
		decision.Message = fmt.Sprintf("PodDisruptionBudgets %s select it, and no pod under more than one is evicted; narrow their selectors",
			strings.Join(decision.Budgets, " and "))
		return decision
	}
	only := guarding[0]
	if only.letsUnhealthyGo(decision.pod) {
		return decision
	}
	decision.budget.counted = true
	decision.budget.allowed = only.allowed()
	decision.budget.state = only.state()
	switch {
	case decision.budget.allowed > 0:
		return decision
	case only.never():
		decision.Action, decision.Reason = Block, ReasonDisruptionBudgetNever
		decision.Message = fmt.Sprintf("PodDisruptionBudget %s can never allow a disruption (%s); change it, or add replicas", only.key(), only.state())
	default:
		decision.Reason = ReasonDisruptionBudget
		decision.Message = fmt.Sprintf("PodDisruptionBudget %s allows no disruption now (%s)", only.key(), only.state())
	}
	return decision
}

func budgetNames(guarding []budget) []string {
	var names []string
	for _, b := range guarding {
		names = append(names, b.key())
	}
	return names
}

func version(pod *corev1.Pod, guarding []budget) string {
	versions := []string{pod.ResourceVersion}
	for _, b := range guarding {
		versions = append(versions, b.ResourceVersion)
	}
	return strings.Join(versions, ",")
}

func (b budget) key() string { return b.Namespace + "/" + b.Name }

// current reports whether the budget's status reflects its spec.
func (b budget) current() bool { return b.Status.ObservedGeneration >= b.Generation }

func (b budget) allowed() int {
	if !b.current() {
		return 0
	}
	return max(0, int(b.Status.DisruptionsAllowed))
}

// letsUnhealthyGo reports whether the pod is not ready and its eviction uses none of the budget.
func (b budget) letsUnhealthyGo(pod *corev1.Pod) bool {
	// A running pod without the condition counts as ready: kubelets always set it.
	ready := slices.IndexFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady })
	if ready < 0 || pod.Status.Conditions[ready].Status == corev1.ConditionTrue {
		return false
	}
	if policy := b.Spec.UnhealthyPodEvictionPolicy; policy != nil && *policy == policyv1.AlwaysAllow {
		return true
	}
	return b.Status.CurrentHealthy >= b.Status.DesiredHealthy && b.Status.DesiredHealthy > 0
}

// never reports whether a budget can never allow a disruption unless it or its workload changes: it requires every pod, or it allows none although
// all are healthy.
func (b budget) never() bool {
	if demandsAll(b.Spec) {
		return true
	}
	status := b.Status
	if b.syncFailure() != "" || !b.current() || status.ExpectedPods == 0 {
		return false
	}
	// While evictions are in progress, the count includes the healthy pods that are leaving.
	settled := len(status.DisruptedPods) == 0
	return status.DesiredHealthy >= status.ExpectedPods || settled && status.CurrentHealthy >= status.ExpectedPods
}

func demandsAll(spec policyv1.PodDisruptionBudgetSpec) bool {
	const pods = 100
	if spec.MaxUnavailable != nil {
		maxUnavailable, err := intstr.GetScaledValueFromIntOrPercent(spec.MaxUnavailable, pods, true)
		return err == nil && maxUnavailable == 0
	}
	if spec.MinAvailable != nil && spec.MinAvailable.Type == intstr.String {
		least, err := intstr.GetScaledValueFromIntOrPercent(spec.MinAvailable, pods, true)
		return err == nil && least >= pods
	}
	return false
}

// syncFailure is why the disruption controller cannot compute the budget's status; empty: it can.
func (b budget) syncFailure() string {
	condition := meta.FindStatusCondition(b.Status.Conditions, policyv1.DisruptionAllowedCondition)
	if condition == nil || condition.Reason != policyv1.SyncFailedReason {
		return ""
	}
	return condition.Message
}

// state describes the budget, e.g. "0 of 3 may be disrupted; 2 of 3 healthy, needs 3".
func (b budget) state() string {
	status := b.Status
	if failure := b.syncFailure(); failure != "" {
		return "its status cannot be computed: " + failure
	}
	if !b.current() {
		return "the disruption controller has not seen its latest change yet"
	}
	return fmt.Sprintf("%d of %d may be disrupted; %d of %d healthy, needs %d",
		status.DisruptionsAllowed, status.ExpectedPods, status.CurrentHealthy, status.ExpectedPods, status.DesiredHealthy)
}
