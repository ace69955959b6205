package drain

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/temporal"
)

// Decide returns what a drain of the node does with each of its pods now. The drain, its dry run and the dry run on a file of objects all use it.
// Errors: InvalidSpec, with each invalid field; NotFound when the snapshot has no such node.
func Decide(ctx context.Context, nodeName string, snapshot Snapshot, spec maintenancev1.DrainSpec, now time.Time) (Preview, error) {
	rules, err := newRules(spec)
	if err != nil {
		return Preview{}, err
	}
	if snapshot.Node == nil || snapshot.Node.Name != nodeName {
		return Preview{}, temporal.Error(temporal.ErrNotFound, fmt.Sprintf("node %s not found", nodeName), nil)
	}
	return rules.decide(ctx, snapshot, now), nil
}

// rules are a validated drain specification.
type rules struct {
	spec    maintenancev1.DrainSpec
	filters filters
}

func newRules(spec maintenancev1.DrainSpec) (rules, error) {
	filters, problems := parseSpec(spec, field.NewPath("drainSpec"))
	return rules{spec: spec, filters: filters}, invalid(problems)
}

// decide decides about every pod of the snapshot's node.
func (r rules) decide(ctx context.Context, snapshot Snapshot, now time.Time) Preview {
	preview := Preview{Pods: []Decision{}, Drainable: true}
	var concerned []corev1.Pod
	for i := range snapshot.Pods {
		pod := &snapshot.Pods[i]
		if pod.Spec.NodeName != snapshot.Node.Name {
			continue
		}
		if reason, message := r.spares(pod); reason != "" {
			preview.Pods = append(preview.Pods, r.decisionOn(pod).as(Skip, reason, message))
			continue
		}
		concerned = append(concerned, *pod)
	}
	verdicts := newKubectlRules(r.spec, snapshot.DaemonSets).verdicts(ctx, concerned)
	budgets := newBudgets(snapshot.Budgets)
	budgets.unhealthy = snapshot.Unhealthy
	for i := range concerned {
		decision := r.decidePod(&concerned[i], verdicts[nameOf(&concerned[i])], budgets, now)
		preview.Pods = append(preview.Pods, decision)
		preview.Drainable = preview.Drainable && decision.Action != Block
	}
	hold(preview.Pods)
	slices.SortFunc(preview.Pods, func(a, b Decision) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return preview
}

// decidePod applies the rules in order; the first that matches wins. The order matters: a pod that has ended needs no permission, and budgets apply
// only to pods that may leave.
func (r rules) decidePod(pod *corev1.Pod, kubectl verdict, budgets budgets, now time.Time) Decision {
	decision := r.decisionOn(pod)
	if kubectl.action == Skip {
		return decision.as(Skip, kubectl.reason, kubectlMessage(kubectl.reason))
	}
	if !pod.DeletionTimestamp.IsZero() {
		return r.decideTerminating(decision, now)
	}
	if kubectl.action == Block {
		return decision.as(Block, kubectl.reason, kubectlMessage(kubectl.reason))
	}
	if isFinished(pod) {
		return decision.as(Evict, ReasonFinished, "it has run to its end; evicting it only removes it")
	}
	decision.Message = r.warning(pod)
	return applyBudgets(decision, budgets.of(pod))
}

func (r rules) decisionOn(pod *corev1.Pod) Decision {
	return Decision{Namespace: pod.Namespace, Name: pod.Name, Action: Evict, Owner: ownerOf(pod), Order: r.filters.orderOf(pod), pod: pod}
}

func (d Decision) as(action Action, reason Reason, message string) Decision {
	d.Action, d.Reason, d.Message = action, reason, message
	return d
}

// spares returns why the specification does not apply to the pod; empty: it does.
func (r rules) spares(pod *corev1.Pod) (Reason, string) {
	if !r.filters.selects(pod) {
		return ReasonSelector, fmt.Sprintf("podSelector %q does not select it", r.spec.PodSelector)
	}
	if !r.filters.picks(pod) {
		return ReasonResourceFilter, "it requests no resource in podEvictionFilters"
	}
	return "", ""
}

// decideTerminating decides about a pod that is being deleted: the drain waits for it, unless the specification says otherwise. It does not block
// even where kubectl would not delete it, because nothing is left to protect.
func (r rules) decideTerminating(decision Decision, now time.Time) Decision {
	if r.passesOver(decision.pod, now) {
		return decision.as(Skip, ReasonTerminating, fmt.Sprintf("it has been terminating for longer than skipWaitForDeleteSeconds (%d s)", *r.spec.SkipWaitForDeleteSeconds))
	}
	return decision.as(Evict, ReasonTerminating, "it is terminating already")
}

// passesOver reports whether a pod has been terminating for so long that the drain no longer waits for it.
func (r rules) passesOver(pod *corev1.Pod, now time.Time) bool {
	over, ok := r.awaitedUntil(pod)
	return ok && !now.Before(over)
}

// awaitedUntil is when the drain stops waiting for a terminating pod; false: never. As in kubectl, the time counts from the end of the pod's grace
// period, which is the deletionTimestamp.
func (r rules) awaitedUntil(pod *corev1.Pod) (time.Time, bool) {
	if pod.DeletionTimestamp.IsZero() || r.spec.SkipWaitForDeleteSeconds == nil {
		return time.Time{}, false
	}
	return pod.DeletionTimestamp.Add(time.Duration(*r.spec.SkipWaitForDeleteSeconds) * time.Second), true
}

// warning returns the data or pod that a permitted eviction loses, or why it may not help.
func (r rules) warning(pod *corev1.Pod) string {
	switch {
	case ownedByDaemonSet(pod):
		return "its DaemonSet does not exist; force evicts it, and nothing recreates it"
	case metav1.GetControllerOf(pod) == nil:
		return "no controller recreates it; force evicts it anyway"
	case refusedBy(pod, maintenancev1.DrainSpec{}) == ReasonLocalStorage:
		return "its emptyDir data is lost, as deleteEmptyDir permits"
	case toleratesCordon(pod):
		return "it tolerates the cordon: its controller may put it back on this node"
	}
	return ""
}

func kubectlMessage(reason Reason) string {
	switch reason {
	case ReasonDaemonSet:
		return "its DaemonSet would recreate it at once"
	case ReasonMirror:
		return "it is a static pod, which only the kubelet starts and stops"
	case ReasonLocalStorage:
		return "its emptyDir data would be lost; deleteEmptyDir evicts it anyway"
	case ReasonNoController:
		return "no controller would recreate it; force evicts it anyway"
	case ReasonDaemonSetGone:
		return "its DaemonSet does not exist, so it would not be recreated; force evicts it anyway"
	}
	return ""
}

func ownerOf(pod *corev1.Pod) string {
	controller := metav1.GetControllerOf(pod)
	if controller == nil {
		return ""
	}
	return controller.Kind + "/" + controller.Name
}
