package drain

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// ReasonDeadlock: a pod waits for a budget that lacks pods which only nodes being drained could run, and their drains wait too. A person must act.
const ReasonDeadlock Reason = "Deadlock"

// slowStart is how long a pod that is not ready counts as starting.
const slowStart = time.Minute

// waitGraph has the objects from which a deadlock is found.
type waitGraph struct {
	// draining are the nodes being drained that are not empty yet.
	draining []*corev1.Node
	// away are nodes out of service that are not being drained: they are expected to return.
	away []*corev1.Node
	// pods are guarded by budgets that allow no disruption, on any node.
	pods    []corev1.Pod
	budgets budgets
	now     time.Time
}

// deadlock is a budget that the drain of a node waits for forever.
type deadlock struct {
	// lacks are the pods that the budget needs and that cannot become ready, as namespace/name.
	lacks []string
	// nodes are the only ones that could run them, all of them being drained.
	nodes []string
	// waits are, by node, the budgets that the drains of the other nodes wait for.
	waits map[string][]string
}

func (d deadlock) message(budget, state string) string {
	message := fmt.Sprintf("PodDisruptionBudget %s (%s) lacks pod %s, which no node but %s takes", budget, state, shorten(d.lacks), shorten(d.nodes))
	var others []string
	for _, node := range slices.Sorted(maps.Keys(d.waits)) {
		others = append(others, fmt.Sprintf("%s waits for PodDisruptionBudget %s", node, shorten(d.waits[node])))
	}
	if len(others) == 0 {
		return message + ", which is being drained: cancel the maintenance, or add a node"
	}
	return message + "; these are being drained, and " + strings.Join(others, ", ") + ": cancel one of the maintenances, or add a node"
}

// shorten lists the first few names.
func shorten(listed []string) string {
	const shown = 3
	if more := len(listed) - shown; more > 0 {
		listed = append(slices.Clone(listed[:shown]), fmt.Sprintf("%d more", more))
	}
	return strings.Join(listed, ", ")
}

// deadlocks returns, by key, the budgets in a deadlock that the drain of the node waits for. A drain waits for all its budgets; a budget waits for
// any of the pods that it lacks. A drain that can still finish is not in a deadlock. If in doubt, there is none.
func (s waitGraph) deadlocks(node string) map[string]deadlock {
	shut := s.shutBudgets()
	ends := map[string]bool{}
	for more := true; more; {
		more = false
		for _, drained := range s.draining {
			if !ends[drained.Name] && s.canEnd(drained.Name, shut, ends) {
				ends[drained.Name], more = true, true
			}
		}
	}
	found := map[string]deadlock{}
	for key, budget := range shut {
		if budget.waiting[node] && !budget.opens(ends) {
			found[key] = budget.deadlock(node, shut, ends)
		}
	}
	return found
}

// isStuck reports whether the drain of the node waits for a budget whose missing pods need nodes that are being drained.
func (s waitGraph) isStuck(node string) bool {
	for _, budget := range s.shutBudgets() {
		if budget.waiting[node] && !budget.opens(nil) {
			return true
		}
	}
	return false
}

func (s waitGraph) canEnd(node string, shut map[string]*shutBudget, ends map[string]bool) bool {
	for _, budget := range shut {
		if budget.waiting[node] && !budget.opens(ends) {
			return false
		}
	}
	return true
}

// shutBudget is a budget that allows no disruption now.
type shutBudget struct {
	budget
	// waiting are the nodes being drained that have pods which wait for it.
	waiting map[string]bool
	// lacking are the pods that cannot become ready by themselves, each with the nodes being drained of which one must return to service.
	lacking []lackingPod
	members int
	// mayRecover: the budget may allow a disruption again without the end of a drain.
	mayRecover bool
}

type lackingPod struct {
	key   string
	nodes []string
}

// opens reports whether the budget can allow a disruption after the drains of these nodes end.
func (b *shutBudget) opens(ends map[string]bool) bool {
	recovering := b.recovering(func(node string) bool { return ends[node] })
	return b.mayRecover || recovering >= b.needed() || b.recovering(func(string) bool { return true }) < b.needed()
}

// needed is how many more pods must be healthy.
func (b *shutBudget) needed() int { return int(b.Status.DesiredHealthy - b.Status.CurrentHealthy + 1) }

// recovering counts the pods that become healthy when these nodes return. If all nodes together are not enough, drains are not the cause.
func (b *shutBudget) recovering(returned func(string) bool) (count int) {
	for _, pod := range b.lacking {
		if slices.ContainsFunc(pod.nodes, returned) {
			count++
		}
	}
	return count
}

func (b *shutBudget) deadlock(node string, shut map[string]*shutBudget, ends map[string]bool) deadlock {
	d := deadlock{waits: map[string][]string{}}
	for _, pod := range b.lacking {
		returns := slices.ContainsFunc(pod.nodes, func(node string) bool { return ends[node] })
		if len(pod.nodes) > 0 && !returns {
			d.lacks = append(d.lacks, pod.key)
			d.nodes = append(d.nodes, pod.nodes...)
		}
	}
	slices.Sort(d.lacks)
	slices.Sort(d.nodes)
	d.nodes = slices.Compact(d.nodes)
	for _, other := range d.nodes {
		for _, key := range slices.Sorted(maps.Keys(shut)) {
			if other != node && shut[key].waiting[other] && !shut[key].opens(ends) {
				d.waits[other] = append(d.waits[other], key)
			}
		}
	}
	return d
}

// shutBudgets finds the budgets that allow no disruption now but might later, with their waits.
func (s waitGraph) shutBudgets() map[string]*shutBudget {
	shut := map[string]*shutBudget{}
	for i := range s.pods {
		pod := &s.pods[i]
		if isFinished(pod) {
			continue
		}
		for _, guarding := range s.budgets.of(pod) {
			if guarding.allowed() > 0 || guarding.never() {
				continue
			}
			known, ok := shut[guarding.key()]
			if !ok {
				known = &shutBudget{budget: guarding, waiting: map[string]bool{}}
				known.mayRecover = !guarding.current() || guarding.syncFailure() != "" || len(guarding.Status.DisruptedPods) > 0
				shut[guarding.key()] = known
			}
			s.add(known, pod)
		}
	}
	for _, budget := range shut {
		budget.mayRecover = budget.mayRecover || budget.members < int(budget.Status.ExpectedPods)
	}
	return shut
}

// add takes a pod of the budget into account.
func (s waitGraph) add(budget *shutBudget, pod *corev1.Pod) {
	budget.members++
	drained := slices.ContainsFunc(s.draining, func(node *corev1.Node) bool { return node.Name == pod.Spec.NodeName })
	ready := conditionOf(pod, corev1.PodReady)
	switch {
	case !pod.DeletionTimestamp.IsZero():
		budget.mayRecover = true // its replacement may become ready
	case ready != nil && ready.Status == corev1.ConditionTrue:
		if drained && !ownedByDaemonSet(pod) && !isMirror(pod) {
			budget.waiting[pod.Spec.NodeName] = true
		}
	case pod.Spec.NodeName == "":
		s.addUnscheduled(budget, pod)
	case !drained, pod.Status.Phase == corev1.PodPending, budget.letsUnhealthyGo(pod), ready == nil, s.now.Before(ready.LastTransitionTime.Add(slowStart)):
		budget.mayRecover = true // it may become ready, or is evicted and replaced elsewhere
	default:
		budget.waiting[pod.Spec.NodeName] = true
		budget.lacking = append(budget.lacking, lackingPod{nameOf(pod).String(), []string{pod.Spec.NodeName}})
	}
}

// addUnscheduled handles a pod that the scheduler found no node for: only a node that returns helps.
func (s waitGraph) addUnscheduled(budget *shutBudget, pod *corev1.Pod) {
	scheduled := conditionOf(pod, corev1.PodScheduled)
	comesBack := slices.ContainsFunc(s.away, func(node *corev1.Node) bool { return wouldTake(node, pod) })
	if scheduled == nil || scheduled.Reason != corev1.PodReasonUnschedulable || comesBack {
		budget.mayRecover = true
		return
	}
	lacking := lackingPod{key: nameOf(pod).String()}
	for _, node := range s.draining {
		if wouldTake(node, pod) {
			lacking.nodes = append(lacking.nodes, node.Name)
		}
	}
	budget.lacking = append(budget.lacking, lacking)
}

func conditionOf(pod *corev1.Pod, kind corev1.PodConditionType) *corev1.PodCondition {
	i := slices.IndexFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == kind })
	if i < 0 {
		return nil
	}
	return &pod.Status.Conditions[i]
}
