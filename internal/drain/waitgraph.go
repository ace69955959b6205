package drain

import (
	"context"
	"fmt"
	"reflect"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	schedulinghelpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// patience is how long a drain makes no progress before it searches for a deadlock, and the interval of further searches. A deadlock is permanent and
// most waits are shorter; a search has to read the drains of other nodes.
const patience = 8 * time.Second

// searchDeadlock finds out whether a drain that only waits for budgets can ever continue.
func (r *run) searchDeadlock(ctx context.Context) error {
	now := time.Now()
	if r.Draining == nil || now.Before(r.deadlockSearched.Add(patience)) && r.progress.stalled(now) {
		return nil
	}
	var found map[string]deadlock
	if r.progress.stalled(now) {
		var err error
		if found, err = r.findDeadlocks(ctx, now); err != nil {
			return err
		}
		r.deadlockSearched = now
	}
	if !reflect.DeepEqual(found, r.progress.deadlocks) {
		r.progress.deadlocks = found
		r.wake()
	}
	return nil
}

// stalled reports whether pods have waited for budgets for a while, and none is leaving.
func (p *progress) stalled(now time.Time) bool {
	waits := false
	for _, o := range p.obstacles {
		switch o.reason {
		case ReasonEvicting, ReasonTerminating:
			return false
		case ReasonDeadlock:
			waits = true
		case ReasonDisruptionBudget:
			if now.Before(o.since.Add(patience)) {
				return false
			}
			waits = true
		}
	}
	return waits
}

// findDeadlocks evaluates the budgets that this drain waits for, and, if these could be in a deadlock, those of other drains.
func (r *run) findDeadlocks(ctx context.Context, now time.Time) (map[string]deadlock, error) {
	draining, away, err := r.nodesOutOfService(ctx)
	if err != nil {
		return nil, err
	}
	var pods []corev1.Pod
	for _, o := range r.progress.obstacles {
		pods = append(pods, *o.decision.pod)
	}
	own, err := readWaitGraph(ctx, r.Cache, pods)
	own.draining, own.away, own.now = draining, away, now
	if err != nil || !own.isStuck(r.Node) {
		return nil, err
	}
	pods = nil
	for _, node := range draining {
		snapshot, err := readNode(ctx, r.Cache, node.Name)
		if err != nil {
			return nil, err
		}
		pods = append(pods, snapshot.Pods...)
	}
	whole, err := readWaitGraph(ctx, r.Cache, pods)
	if err != nil {
		return nil, err
	}
	whole.draining, whole.away, whole.now = draining, away, now
	return whole.deadlocks(r.Node), nil
}

// nodesOutOfService returns the nodes being drained, and those that are out of service for other reasons.
func (r *run) nodesOutOfService(ctx context.Context) (draining, away []*corev1.Node, err error) {
	var nodes corev1.NodeList
	if err := r.Cache.List(ctx, &nodes, client.UnsafeDisableDeepCopy); err != nil {
		return nil, nil, fmt.Errorf("list nodes: %w", err)
	}
	for i := range nodes.Items {
		node := &nodes.Items[i]
		switch {
		case r.Draining(node):
			draining = append(draining, node)
		case node.Spec.Unschedulable || !ready(node):
			away = append(away, node)
		}
	}
	return draining, away, nil
}

// readWaitGraph reads from a cache the budgets that select these pods and allow no disruption, with all pods that they select.
func readWaitGraph(ctx context.Context, cache client.Reader, pods []corev1.Pod) (waitGraph, error) {
	guarded := Snapshot{Pods: pods}
	if err := guarded.readRules(ctx, cache, guarded.namespaces()...); err != nil {
		return waitGraph{}, err
	}
	found := waitGraph{budgets: newBudgets(guarded.Budgets)}
	read, seen := map[string]bool{}, map[types.UID]bool{}
	for i := range pods {
		for _, budget := range found.budgets.of(&pods[i]) {
			if read[budget.key()] || budget.allowed() > 0 || budget.never() {
				continue
			}
			read[budget.key()] = true
			var members corev1.PodList
			selected := client.MatchingLabelsSelector{Selector: budget.selector}
			if err := cache.List(ctx, &members, client.InNamespace(budget.Namespace), selected, client.UnsafeDisableDeepCopy); err != nil {
				return waitGraph{}, fmt.Errorf("list the pods of PodDisruptionBudget %s: %w", budget.key(), err)
			}
			for _, member := range members.Items {
				if !seen[member.UID] {
					seen[member.UID] = true
					found.pods = append(found.pods, member)
				}
			}
		}
	}
	return found, nil
}

// wouldTake reports whether a pod may run on the node after it returns. Capacity is not checked: the node had enough before.
func wouldTake(node *corev1.Node, pod *corev1.Pod) bool {
	matches, err := nodeaffinity.GetRequiredNodeAffinity(pod).Match(node)
	if err != nil || !matches {
		return false
	}
	ofTheNodeItself := func(taint *corev1.Taint) bool {
		switch taint.Key {
		case corev1.TaintNodeUnschedulable, corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable:
			return false
		}
		return taint.Effect != corev1.TaintEffectPreferNoSchedule
	}
	_, untolerated := schedulinghelpers.FindMatchingUntoleratedTaint(klog.Background(), node.Spec.Taints, pod.Spec.Tolerations, ofTheNodeItself, false)
	return !untolerated
}
