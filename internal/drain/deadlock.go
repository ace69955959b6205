package drain

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// ReasonDeadlock is why a pod waits for a budget that only nodes could free which are being drained, too, and wait in turn. Nothing changes
// until somebody gives way.
const ReasonDeadlock Reason = "Deadlock"

// slowStart is for how long a pod that is not ready is taken to be starting.
const slowStart = time.Minute

// standstill is what a deadlock is found from.
type standstill struct {
	// draining are the nodes that are being drained, and not yet empty.
	draining []*corev1.Node
	// away are nodes that are out of service and not being drained: they come back, as far as we know.
	away []*corev1.Node
	// pods that are guarded by budgets which allow nothing, wherever they are.
	pods    []corev1.Pod
	budgets budgets
	now     time.Time
}

// deadlock is a budget that the drain of a node waits for in vain.
type deadlock struct {
	// lacks are the pods that the budget needs and that cannot become ready, as namespace/name.
	lacks []string
	// nodes on which they could, all of them being drained.
	nodes []string
	// waits are the budgets that the drains of the other nodes wait for in turn.
	waits map[string][]string
}

func (d deadlock) message(budget, state string) string {
	message := fmt.Sprintf("PodDisruptionBudget %s (%s) lacks pod %s, which no node but %s takes", budget, state, shorten(d.lacks), shorten(d.nodes))
	var turns []string
	for _, node := range slices.Sorted(maps.Keys(d.waits)) {
		turns = append(turns, fmt.Sprintf("%s waits in turn for PodDisruptionBudget %s", node, shorten(d.waits[node])))
	}
	if len(turns) == 0 {
		return message + ", which is being drained: cancel the maintenance, or add a node"
	}
	return message + "; these are being drained, and " + strings.Join(turns, ", ") + ": cancel one of the maintenances, or add a node"
}

// shorten lists names for a person: the first few.
func shorten(listed []string) string {
	const shown = 3
	if more := len(listed) - shown; more > 0 {
		listed = append(slices.Clone(listed[:shown]), fmt.Sprintf("%d more", more))
	}
	return strings.Join(listed, ", ")
}

// deadlocks returns the budgets that the drain of the node waits for in vain, by their keys. A drain waits for all its budgets, a budget for any of
// the pods that it lacks: whatever can still come to its end, step by step, is no deadlock. In doubt there is none.
func (s standstill) deadlocks(node string) map[string]deadlock {
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

// isStuck reports whether the drain of the node waits for a budget that lacks what only nodes being drained could give it.
func (s standstill) isStuck(node string) bool {
	for _, budget := range s.shutBudgets() {
		if budget.waiting[node] && !budget.opens(nil) {
			return true
		}
	}
	return false
}

func (s standstill) canEnd(node string, shut map[string]*shutBudget, ends map[string]bool) bool {
	for _, budget := range shut {
		if budget.waiting[node] && !budget.opens(ends) {
			return false
		}
	}
	return true
}

// shutBudget is a budget that allows nothing now.
type shutBudget struct {
	budget
	// waiting are the nodes being drained that have pods which wait for it.
	waiting map[string]bool
	// lacking are pods that cannot become ready by themselves, each with the nodes being drained of which one would have to be returned.
	lacking []lackingPod
	members int
	// moves: something is happening already, or may happen, that has nothing to do with drains.
	moves bool
}

type lackingPod struct {
	key   string
	nodes []string
}

// opens reports whether the budget can come to allow a disruption when the drains of these nodes end.
func (b *shutBudget) opens(ends map[string]bool) bool {
	coming := b.coming(func(node string) bool { return ends[node] })
	return b.moves || coming >= b.needed() || b.coming(func(string) bool { return true }) < b.needed()
}

// needed is how many more pods must be healthy.
func (b *shutBudget) needed() int { return int(b.Status.DesiredHealthy - b.Status.CurrentHealthy + 1) }

// coming counts the pods that become healthy when these nodes are returned. If all nodes together are not enough, drains are not the reason.
func (b *shutBudget) coming(returned func(string) bool) (count int) {
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
		comes := slices.ContainsFunc(pod.nodes, func(node string) bool { return ends[node] })
		if len(pod.nodes) > 0 && !comes {
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

// shutBudgets finds the budgets that allow nothing now but might later, and what each waits for.
func (s standstill) shutBudgets() map[string]*shutBudget {
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
				known.moves = !guarding.current() || guarding.syncFailure() != "" || len(guarding.Status.DisruptedPods) > 0
				shut[guarding.key()] = known
			}
			s.add(known, pod)
		}
	}
	for _, budget := range shut {
		budget.moves = budget.moves || budget.members < int(budget.Status.ExpectedPods)
	}
	return shut
}

// add says what a pod means for a budget of its.
func (s standstill) add(budget *shutBudget, pod *corev1.Pod) {
	budget.members++
	drained := slices.ContainsFunc(s.draining, func(node *corev1.Node) bool { return node.Name == pod.Spec.NodeName })
	ready := conditionOf(pod, corev1.PodReady)
	switch {
	case !pod.DeletionTimestamp.IsZero():
		budget.moves = true // what replaces it may become ready
	case ready != nil && ready.Status == corev1.ConditionTrue:
		if drained && !ownedByDaemonSet(pod) && !isMirror(pod) {
			budget.waiting[pod.Spec.NodeName] = true
		}
	case pod.Spec.NodeName == "":
		s.addUnscheduled(budget, pod)
	case !drained, pod.Status.Phase == corev1.PodPending, budget.letsUnhealthyGo(pod), ready == nil, s.now.Before(ready.LastTransitionTime.Add(slowStart)):
		budget.moves = true // it may become ready, or is evicted and comes back elsewhere
	default:
		budget.waiting[pod.Spec.NodeName] = true
		budget.lacking = append(budget.lacking, lackingPod{nameOf(pod).String(), []string{pod.Spec.NodeName}})
	}
}

// addUnscheduled: if the scheduler has found no node for the pod, only one that comes back helps.
func (s standstill) addUnscheduled(budget *shutBudget, pod *corev1.Pod) {
	scheduled := conditionOf(pod, corev1.PodScheduled)
	comesBack := slices.ContainsFunc(s.away, func(node *corev1.Node) bool { return wouldTake(node, pod) })
	if scheduled == nil || scheduled.Reason != corev1.PodReasonUnschedulable || comesBack {
		budget.moves = true
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
