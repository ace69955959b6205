package drain

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"

	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
)

// Completion says which pods of a node are left to end by themselves before it is drained.
type Completion struct {
	selector labels.Selector
	// everyPod is set without a selector: pods that never end are then not meant.
	everyPod bool
}

// NewCompletion reads what a request says about it. Error: InvalidSpec, naming the field.
func NewCompletion(spec maintenancev1.WaitForPodCompletionSpec) (Completion, error) {
	path := field.NewPath("waitForPodCompletion")
	selector, problems := parseSelector(spec.PodSelector, path.Child("podSelector"))
	problems = append(problems, atLeastZero(&spec.TimeoutSeconds, path.Child("timeoutSeconds"))...)
	return Completion{selector: selector, everyPod: spec.PodSelector == ""}, invalid(problems)
}

// CheckCompletion reports whether the selector of a request cannot be used: what no schema can find.
func CheckCompletion(spec maintenancev1.WaitForPodCompletionSpec, path *field.Path) field.ErrorList {
	_, problems := parseSelector(spec.PodSelector, path.Child("podSelector"))
	return problems
}

// Awaits reports whether the pod is waited for: it is picked and has neither succeeded nor failed. Without a selector every pod is
// picked, except those of DaemonSets and static pods.
func (c Completion) Awaits(pod *corev1.Pod) bool {
	if isFinished(pod) || c.everyPod && (ownedByDaemonSet(pod) || isMirror(pod)) {
		return false
	}
	return c.selector.Matches(labels.Set(pod.Labels))
}
