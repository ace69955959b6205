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
	// state says why the budget allows no disruption, for the message of a drain that waits for it. advice is how to change it; empty: wait.
	state, advice string
	// unhealthy are the pods that the budget lacks, and why; empty: unknown.
	unhealthy string
}

// budgets finds the PodDisruptionBudgets of pods.
type budgets struct {
	byNamespace map[string][]*policyv1.PodDisruptionBudget
	// parsed has the selectors of the namespaces that were needed: a cluster has many more budgets than a node has pods.
	parsed map[string][]budget
	// unhealthy are, by budget, the pods that it lacks.
	unhealthy map[string]string
}

type budget struct {
	*policyv1.PodDisruptionBudget
	selector labels.Selector
	// unhealthy are the pods that it lacks, and why; empty: unknown.
	unhealthy string
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
			found := budget{PodDisruptionBudget: candidate, selector: selector}
			found.unhealthy = b.unhealthy[found.key()]
			parsed = append(parsed, found)
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
		decision.Message = fmt.Sprintf("PodDisruptionBudgets %s select it, and no pod under more than one is evicted", strings.Join(decision.Budgets, " and "))
		return decision
	}
	only := guarding[0]
	if only.letsUnhealthyGo(decision.pod) {
		return decision
	}
	decision.budget.counted = true
	decision.budget.allowed = only.allowed()
	decision.budget.state, decision.budget.unhealthy = only.state(), only.lacking()
	switch {
	case decision.budget.allowed > 0:
		return decision
	case only.never():
		decision.Action, decision.Reason = Block, ReasonDisruptionBudgetNever
		decision.budget.state, decision.budget.unhealthy, decision.budget.advice = only.cause(), "", only.advice()
		decision.Message = fmt.Sprintf("PodDisruptionBudget %s never allows a disruption (%s)", only.key(), only.cause())
	default:
		decision.Reason = ReasonDisruptionBudget
		decision.Message = fmt.Sprintf("PodDisruptionBudget %s allows no disruption now (%s%s)", only.key(), only.state(), only.lacking())
		if !podReady(decision.pod) {
			decision.Message += "; the pod is not ready itself: repair it, or let unhealthy pods leave with " + only.patch(`{"unhealthyPodEvictionPolicy":"AlwaysAllow"}`)
		}
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
	if podReady(pod) {
		return false
	}
	if policy := b.Spec.UnhealthyPodEvictionPolicy; policy != nil && *policy == policyv1.AlwaysAllow {
		return true
	}
	return b.Status.CurrentHealthy >= b.Status.DesiredHealthy && b.Status.DesiredHealthy > 0
}

// podReady reports whether a running pod is ready. One without the condition counts as ready: kubelets always set it.
func podReady(pod *corev1.Pod) bool {
	ready := conditionOf(pod, corev1.PodReady)
	return ready == nil || ready.Status == corev1.ConditionTrue
}

// never reports whether a budget requires every pod, so that it can never allow a disruption unless it or its workload changes.
func (b budget) never() bool {
	if demandsAll(b.Spec) {
		return true
	}
	counted := b.syncFailure() == "" && b.current() && b.Status.ExpectedPods > 0
	return counted && b.Status.DesiredHealthy >= b.Status.ExpectedPods
}

// cause is the setting by which a budget can never allow a disruption, e.g. "its maxUnavailable is 0".
func (b budget) cause() string {
	switch {
	case b.Spec.MaxUnavailable != nil && demandsAll(b.Spec):
		return "its maxUnavailable is " + b.Spec.MaxUnavailable.String()
	case b.Spec.MinAvailable != nil && demandsAll(b.Spec):
		return "its minAvailable is " + b.Spec.MinAvailable.String()
	case b.Spec.MinAvailable != nil:
		return fmt.Sprintf("its minAvailable is %s, and it selects %s", b.Spec.MinAvailable.String(), pods(b.Status.ExpectedPods))
	}
	return fmt.Sprintf("it needs %d healthy pods, and selects %s", b.Status.DesiredHealthy, pods(b.Status.ExpectedPods))
}

func pods(number int32) string {
	if number == 1 {
		return "1 pod"
	}
	return fmt.Sprintf("%d pods", number)
}

// advice is how to change a budget that can never allow a disruption.
func (b budget) advice() string {
	least := b.Spec.MinAvailable
	switch {
	case b.Spec.MaxUnavailable != nil && demandsAll(b.Spec):
		return "set it to 1 or more with " + b.patch(`{"maxUnavailable":1}`)
	case least != nil && demandsAll(b.Spec):
		return "replace it with " + b.patch(`{"minAvailable":null,"maxUnavailable":1}`)
	case least != nil && least.Type == intstr.Int:
		return "add replicas, or lower it with " + b.patch(fmt.Sprintf(`{"minAvailable":%d}`, max(0, b.Status.ExpectedPods-1)))
	}
	return "add replicas, or change it with " + b.patch(`{"minAvailable":null,"maxUnavailable":1}`)
}

// patch is the command that changes the spec of the budget.
func (b budget) patch(spec string) string {
	return fmt.Sprintf("`kubectl patch pdb %s -n %s --type=merge -p '{\"spec\":%s}'`", b.Name, b.Namespace, spec)
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

// unobserved says what to do if the status of a budget stays wrong.
const unobserved = "if that lasts, check that the disruption controller (kube-controller-manager) runs"

// state describes a budget that allows no disruption now, e.g. "0 of 3 may be disrupted; 2 of 3 healthy, needs 2".
func (b budget) state() string {
	status := b.Status
	if failure := b.syncFailure(); failure != "" {
		return "its status cannot be computed: " + failure
	}
	counts := fmt.Sprintf("%d of %d may be disrupted; %d of %d healthy, needs %d",
		status.DisruptionsAllowed, status.ExpectedPods, status.CurrentHealthy, status.ExpectedPods, status.DesiredHealthy)
	settled := len(status.DisruptedPods) == 0 // during evictions, the healthy pods that are leaving count
	switch {
	case !b.current():
		return "the disruption controller has not seen its latest change yet; " + unobserved
	case status.ExpectedPods == 0:
		return "its status counts no pods yet; " + unobserved
	case settled && status.DisruptionsAllowed == 0 && status.CurrentHealthy > status.DesiredHealthy:
		return counts + "; its status is outdated: " + unobserved
	}
	return counts
}

// lacking names the pods that the budget lacks, e.g. "; not healthy: shop/web-1 on worker-2 (container web: CrashLoopBackOff)".
func (b budget) lacking() string {
	if b.unhealthy == "" || b.Status.CurrentHealthy >= b.Status.ExpectedPods {
		return ""
	}
	return "; not healthy: " + b.unhealthy
}
