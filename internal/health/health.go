// Package health decides whether what users care about is well: conditions of objects, workloads, pods, nodes, what
// addresses answer. It is pure: it judges what others have read and never looks for itself.
//
// Evidence is worth something only when it is newer than the step it judges. Two rules keep stale status from opening a gate. What a
// controller reported about an earlier generation of an object does not count. And a Gate counts only looks that happen after the step
// began. Whoever looks may wait on caches that a watch keeps current, but should open a gate only on what the API server says then: a cache
// does not tell how far it is behind.
package health

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
)

// Object is a Kubernetes object, typed or unstructured.
type Object interface {
	metav1.Object
	runtime.Object
}

// Objects are what checks are judged on: a cluster's cache, or a file. What they return is not modified.
type Objects interface {
	// List returns the objects of a kind in a namespace, or in all of the cluster when namespace is "". The error wraps
	// ErrNotServed or ErrForbidden when the cluster does not show the kind.
	List(kind schema.GroupVersionKind, namespace string) ([]Object, error)
	// Node returns the node of that name, or nil when there is none.
	Node(name string) (*corev1.Node, error)
	// PodsOn returns the pods that are bound to a node.
	PodsOn(node string) ([]*corev1.Pod, error)
	// Fetch asks an address by HTTP GET, within bounds of time and size. An error says why there is no answer; it wraps ErrNotAsked when
	// nobody asked.
	Fetch(address string) (Answer, error)
	// Harbor returns how a HarborCluster is by its services as they are now, or nil when there is none. The error wraps ErrNotServed or
	// ErrForbidden when the cluster does not show what it is judged by.
	Harbor(namespace, name string) (*HarborStanding, error)
}

// Answers of a cluster about a kind that a check wants to see. They make the check unhealthy, not impossible: the CRD, or the
// permission, may still come.
var (
	ErrNotServed = errors.New("the cluster does not serve the kind")
	ErrForbidden = errors.New("reading the kind is forbidden")
)

// ErrInvalid says that a check itself is wrong; the message names the field. No look can change that.
var ErrInvalid = errors.New("cannot be judged")

// Reasons of results that are not healthy, and of their blockers.
const (
	ReasonKindNotServed          = "KindNotServed"
	ReasonForbidden              = "Forbidden"
	ReasonNothingFound           = "NothingFound"
	ReasonGenerationNotObserved  = "GenerationNotObserved"
	ReasonConditionMissing       = "ConditionMissing"
	ReasonConditionNotMet        = "ConditionNotMet"
	ReasonWorkloadNotAvailable   = "WorkloadNotAvailable"
	ReasonProgressDeadlinePassed = "ProgressDeadlinePassed"
	ReasonNodeMissing            = "NodeMissing"
	ReasonNodeNotReady           = "NodeNotReady"
	ReasonDaemonSetPodMissing    = "DaemonSetPodMissing"
	ReasonDaemonSetPodNotReady   = "DaemonSetPodNotReady"
	ReasonPodNotReady            = "PodNotReady"
	ReasonExpressionFalse        = "ExpressionFalse"
	ReasonExpressionFailed       = "ExpressionFailed"
	ReasonUnreachable            = "Unreachable"
	ReasonUnexpectedAnswer       = "UnexpectedAnswer"
	ReasonUnexpectedSample       = "UnexpectedSample"
	ReasonNotAsked               = "NotAsked"
	ReasonHarborUnhealthy        = "HarborUnhealthy"
	ReasonHarborUnknown          = "HarborUnknown"
)

// maxBlockers is how many blockers a result names; its message counts them all.
const maxBlockers = 20

// Result is what one look showed.
type Result struct {
	Healthy bool
	// Reason is one of the reasons above; empty when healthy.
	Reason string
	// Message says what was seen.
	Message string
	// Blockers are the objects that are not well.
	Blockers []drydockv1.Blocker
}

// Evaluate judges one check. Node is the node under maintenance, or "" when the check is about a whole cluster. Errors name the check
// and wrap ErrInvalid, or what kept the objects from being read.
func Evaluate(check drydockv1.HealthCheck, node string, objects Objects) (Result, error) {
	result, err := evaluate(check, node, objects)
	if err != nil {
		return Result{}, fmt.Errorf("health check %q: %w", check.Name, err)
	}
	return result, nil
}

func evaluate(check drydockv1.HealthCheck, node string, objects Objects) (Result, error) {
	switch {
	case check.Condition != nil:
		return evaluateCondition(*check.Condition, objects)
	case check.Workload != nil:
		return evaluateWorkload(*check.Workload, objects)
	case check.Pods != nil:
		return evaluatePods(*check.Pods, objects)
	case check.Node != nil:
		return evaluateNodes(*check.Node, node, objects)
	case check.CEL != nil:
		return evaluateCEL(*check.CEL, objects)
	case check.Prometheus != nil:
		return evaluatePrometheus(*check.Prometheus, objects)
	case check.HTTP != nil:
		return evaluateHTTP(*check.HTTP, objects)
	case check.HarborCluster != nil:
		return evaluateHarbor(*check.HarborCluster, objects)
	}
	return Result{}, errNoCheck()
}

// Watch says which objects a check depends on: those of a kind, in one namespace and of one name when these are set.
type Watch struct {
	Kind      schema.GroupVersionKind
	Namespace string
	Name      string
}

// Watches returns what must be watched to see the results of the checks change; addresses cannot be. The error names the check and wraps ErrInvalid.
func Watches(checks ...drydockv1.HealthCheck) ([]Watch, error) {
	var watches []Watch
	for _, check := range checks {
		watched, err := watchesOf(check)
		if err != nil {
			return nil, fmt.Errorf("health check %q: %w", check.Name, err)
		}
		watches = append(watches, watched...)
	}
	return watches, nil
}

func watchesOf(check drydockv1.HealthCheck) ([]Watch, error) {
	switch {
	case check.Condition != nil:
		watch, err := conditionChoice(*check.Condition).watch()
		return []Watch{watch}, err
	case check.Workload != nil:
		kinds, err := workloadKinds(*check.Workload)
		var watches []Watch
		for _, kind := range kinds {
			watches = append(watches, Watch{Kind: workloadKind(kind), Namespace: check.Workload.Namespace})
		}
		return watches, err
	case check.Pods != nil:
		return []Watch{{Kind: podKind, Namespace: check.Pods.Namespace}}, nil
	case check.Node != nil:
		return []Watch{{Kind: nodeKind}}, nil
	case check.CEL != nil:
		watch, err := celChoice(*check.CEL).watch()
		return []Watch{watch}, err
	case check.HarborCluster != nil:
		return []Watch{{Kind: harborKind, Namespace: check.HarborCluster.Namespace, Name: check.HarborCluster.Name}}, nil
	case asks(check):
		return nil, nil
	}
	return nil, errNoCheck()
}

func errNoCheck() error {
	return fmt.Errorf("%w: exactly one of condition, workload, pods, node, cel, prometheus, http and harborCluster must be set", ErrInvalid)
}

// All is healthy when every result is. Otherwise it has the reason and message of the first that is not, and the blockers of all.
func All(results ...Result) Result {
	all := Result{Healthy: true}
	for _, result := range results {
		if result.Healthy {
			continue
		}
		if all.Healthy {
			all.Healthy, all.Reason, all.Message = false, result.Reason, result.Message
		}
		all.Blockers = append(all.Blockers, result.Blockers...)
	}
	all.Blockers = all.Blockers[:min(len(all.Blockers), maxBlockers)]
	return all
}

// judged makes a result of the blockers that were found; none is healthy.
func judged(seen string, blockers []drydockv1.Blocker) Result {
	if len(blockers) == 0 {
		return Result{Healthy: true, Message: seen}
	}
	message := fmt.Sprintf("%s: %s", blockers[0], blockers[0].Message)
	if others := len(blockers) - 1; others > 0 {
		message += fmt.Sprintf("; and %d more", others)
	}
	return Result{Reason: blockers[0].Reason, Message: message, Blockers: blockers[:min(len(blockers), maxBlockers)]}
}

// blocker names an object and says how it blocks.
func blocker(kind string, object metav1.Object, reason, message string, since metav1.Time) drydockv1.Blocker {
	b := drydockv1.Blocker{Kind: kind, Namespace: object.GetNamespace(), Name: object.GetName(), Reason: reason, Message: message}
	if !since.IsZero() {
		b.Since = &since
	}
	return b
}

// blocking is a blocker for a reason without a beginning.
func blocking(kind string, object metav1.Object, why unavailable) *drydockv1.Blocker {
	b := blocker(kind, object, why.reason, why.message, metav1.Time{})
	return &b
}

// selected returns the objects that the selector picks, all when it is nil, in the order of their names: a cache has no order, and a
// result must not change while the objects do not.
func selected(objects []Object, selector *metav1.LabelSelector) ([]Object, error) {
	picks := labels.Everything()
	if selector != nil {
		var err error
		if picks, err = metav1.LabelSelectorAsSelector(selector); err != nil {
			return nil, fmt.Errorf("%w: selector: %w", ErrInvalid, err)
		}
	}
	var chosen []Object
	for _, object := range objects {
		if picks.Matches(labels.Set(object.GetLabels())) {
			chosen = append(chosen, object)
		}
	}
	slices.SortFunc(chosen, func(a, b Object) int {
		return cmp.Or(cmp.Compare(a.GetNamespace(), b.GetNamespace()), cmp.Compare(a.GetName(), b.GetName()))
	})
	return chosen, nil
}

// typed returns the object as a T, converting it when it is unstructured.
func typed[T any](object Object) (*T, error) {
	if already, ok := any(object).(*T); ok {
		return already, nil
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return nil, fmt.Errorf("read %s/%s: %w", object.GetNamespace(), object.GetName(), err)
	}
	converted := new(T)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content, converted); err != nil {
		return nil, fmt.Errorf("read %s/%s: %w", object.GetNamespace(), object.GetName(), err)
	}
	return converted, nil
}
