package drain

import (
	"cmp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
)

// ReasonPodsRunning is why a pod is waited for that may end by itself: it runs, or has not started.
const ReasonPodsRunning Reason = "PodsRunning"

// Completion says which pods of a node are left to end by themselves before it is drained.
type Completion struct {
	selector labels.Selector
	// everyPod is set without a selector: pods that never end are then not meant.
	everyPod bool
	// drain that follows, which does not wait for every pod that terminates, either.
	drain rules
}

// NewCompletion reads what a request says about it, and about the drain that follows; nil is none. Error: InvalidSpec, naming the field.
func NewCompletion(spec maintenancev1.WaitForPodCompletionSpec, drainSpec *maintenancev1.DrainSpec) (Completion, error) {
	path := field.NewPath("waitForPodCompletion")
	selector, problems := parseSelector(spec.PodSelector, path.Child("podSelector"))
	problems = append(problems, atLeastZero(&spec.TimeoutSeconds, path.Child("timeoutSeconds"))...)
	completion := Completion{selector: selector, everyPod: spec.PodSelector == ""}
	if drainSpec != nil {
		completion.drain.spec = *drainSpec
	}
	return completion, invalid(problems)
}

// CheckCompletion reports whether the selector of a request cannot be used: what no schema can find.
func CheckCompletion(spec maintenancev1.WaitForPodCompletionSpec, path *field.Path) field.ErrorList {
	_, problems := parseSelector(spec.PodSelector, path.Child("podSelector"))
	return problems
}

// Awaits reports whether the pod is waited for: it is picked, has neither succeeded nor failed, and does not terminate for so long that the drain would pass
// it over. Without a selector every pod is picked, except those of DaemonSets and static pods.
func (c Completion) Awaits(pod *corev1.Pod, now time.Time) bool {
	if isFinished(pod) || c.drain.passesOver(pod, now) || c.everyPod && (ownedByDaemonSet(pod) || isMirror(pod)) {
		return false
	}
	return c.selector.Matches(labels.Set(pod.Labels))
}

// Awaited is what is waited for at one look at a node.
type Awaited struct {
	// Pods that have not ended, as namespace/name, in order.
	Pods []string
	// Wait says what keeps them; nil: the wait is over.
	Wait *drydockv1.Wait
	// Again is when to look once more although nothing has changed; the zero time: never.
	Again time.Time
}

// Look says what of a node is waited for, and why it has not ended. While a node that was cordoned for it is uncordoned, the wait is not over: another pod may
// come the next moment.
func (c Completion) Look(node *corev1.Node, uncordoned bool, pods []corev1.Pod, now time.Time) Awaited {
	var found Awaited
	var obstacles []obstacle
	for i := range pods {
		pod := &pods[i]
		if !c.Awaits(pod, now) {
			continue
		}
		o := obstacle{decision: Decision{Namespace: pod.Namespace, Name: pod.Name, pod: pod}}
		o.reason, o.message = notEnded(pod, node)
		obstacles = append(obstacles, o)
		if until, ok := c.drain.awaitedUntil(pod); ok {
			found.Again = earliest(found.Again, until)
		}
	}
	slices.SortFunc(obstacles, func(a, b obstacle) int { return cmp.Compare(a.decision.key(), b.decision.key()) })
	for _, o := range obstacles {
		found.Pods = append(found.Pods, o.decision.key())
	}
	found.Wait = completionWait(obstacles, node, uncordoned)
	return found
}

func completionWait(obstacles []obstacle, node *corev1.Node, uncordoned bool) *drydockv1.Wait {
	named := blockers(gravestFirst(obstacles)[:min(listed, len(obstacles))])
	wait := &drydockv1.Wait{Reason: string(gravestReason(obstacles)), Message: summarize(obstacles), Blockers: named}
	switch {
	case uncordoned:
		open := uncordonedNode(node.Name, "pods may come to it")
		wait.Reason, wait.Blockers = open.Reason, slices.Insert(named, 0, *open)
		wait.Message = strings.TrimSuffix(open.Message+"; "+wait.Message, "; ")
	case len(obstacles) == 0:
		return nil
	}
	return wait
}
