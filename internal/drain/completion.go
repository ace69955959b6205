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

// ReasonPodsRunning: a pod that should end by itself is running or has not started.
const ReasonPodsRunning Reason = "PodsRunning"

// Completion selects the pods of a node that should end by themselves before the drain.
type Completion struct {
	selector labels.Selector
	// everyPod is set without a selector: then pods that never end do not count.
	everyPod bool
	// drain is the drain that follows; it does not wait for every terminating pod either.
	drain rules
}

// NewCompletion reads a request's wait for pods and the drain that follows; nil: none. Error: InvalidSpec, with the field.
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

// CheckCompletion returns the errors of a request's selector that a schema cannot express.
func CheckCompletion(spec maintenancev1.WaitForPodCompletionSpec, path *field.Path) field.ErrorList {
	_, problems := parseSelector(spec.PodSelector, path.Child("podSelector"))
	return problems
}

// Awaits reports whether the wait includes the pod: it is selected, has not ended, and has not been terminating for so long that the drain would skip
// it. Without a selector it includes all pods, except those of DaemonSets and static pods.
func (c Completion) Awaits(pod *corev1.Pod, now time.Time) bool {
	if isFinished(pod) || c.drain.passesOver(pod, now) || c.everyPod && (ownedByDaemonSet(pod) || isMirror(pod)) {
		return false
	}
	return c.selector.Matches(labels.Set(pod.Labels))
}

// Awaited is the state of the wait at one moment.
type Awaited struct {
	// Pods that have not ended, as namespace/name, sorted.
	Pods []string
	// Wait is why they have not ended; nil: the wait is over.
	Wait *drydockv1.Wait
	// RecheckAt is when to check again without a change; the zero time: never.
	RecheckAt time.Time
}

// Inspect returns the pods that a node waits for, and why they have not ended. While a node that was cordoned for the wait is uncordoned, the wait
// continues: another pod may arrive at any moment.
func (c Completion) Inspect(node *corev1.Node, uncordoned bool, pods []corev1.Pod, now time.Time) Awaited {
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
			found.RecheckAt = earliest(found.RecheckAt, until)
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
