// Package health evaluates health checks: conditions of objects, workloads, pods, nodes, and answers of addresses. It is pure: callers read the
// objects.
//
// A result counts only if it is newer than the step that it judges. Two rules keep stale status from opening a gate. What a controller reported about
// an earlier generation of an object does not count. And a Gate counts only results from after the start of the step. A caller may wait on caches,
// but should confirm with the API server before it opens a gate, because a cache may be stale.
package health

import (
	"cmp"
	"context"
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

// Objects are the input of checks: a cluster's cache, or a file. Callers do not modify what it returns.
type Objects interface {
	// List returns the objects of a kind in a namespace, or in the whole cluster if namespace is "". The error wraps ErrNotServed or ErrForbidden
	// when the cluster does not return the kind.
	List(kind schema.GroupVersionKind, namespace string) ([]Object, error)
	// Node returns the node with that name, or nil.
	Node(name string) (*corev1.Node, error)
	// PodsOn returns the pods that are bound to a node.
	PodsOn(node string) ([]*corev1.Pod, error)
	// Fetch sends an HTTP GET to an address, with the user and password in a Secret, if there is one, and limits of time and size. The error wraps ErrNoRequest
	// when no request was sent, and ErrNoCredentials when the Secret cannot be used.
	Fetch(address string, secret *drydockv1.HealthCheckSecret) (Answer, error)
	// Harbor returns the current health of a HarborCluster, or nil if there is none. The error wraps ErrNotServed or ErrForbidden when the cluster
	// does not return the objects that decide it.
	Harbor(namespace, name string) (*HarborHealth, error)
}

// Errors for a kind that a check needs. They make the check unhealthy, not invalid: the CRD, or the permission, may come later.
var (
	ErrNotServed = errors.New("the cluster does not serve the kind")
	ErrForbidden = errors.New("reading the kind is forbidden")
)

// ErrInvalid: a check is invalid, regardless of the cluster; the message names the field.
var ErrInvalid = errors.New("invalid check")

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
	ReasonNoRequest              = "NoRequest"
	ReasonNoCredentials          = "NoCredentials"
	ReasonHarborUnhealthy        = "HarborUnhealthy"
	ReasonHarborUnknown          = "HarborUnknown"
)

// maxBlockers limits the blockers of a result; its message counts them all.
const maxBlockers = 20

// Result is the result of one evaluation.
type Result struct {
	Healthy bool
	// Reason is one of the reasons above; empty when healthy.
	Reason string
	// Message is the observation.
	Message string
	// Blockers are the objects that are not healthy.
	Blockers []drydockv1.Blocker
}

// Evaluate evaluates one check. Node is the node under maintenance, or "" when the check is about a whole cluster. Errors name the check and wrap
// ErrInvalid, the failed read, or the end of the context.
func Evaluate(ctx context.Context, check drydockv1.HealthCheck, node string, objects Objects) (Result, error) {
	result, err := evaluate(ctx, check, node, objects)
	if err != nil {
		return Result{}, fmt.Errorf("health check %q: %w", check.Name, err)
	}
	return result, nil
}

func evaluate(ctx context.Context, check drydockv1.HealthCheck, node string, objects Objects) (Result, error) {
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
		return evaluateCEL(ctx, *check.CEL, objects)
	case check.Prometheus != nil:
		return evaluatePrometheus(*check.Prometheus, objects)
	case check.HTTP != nil:
		return evaluateHTTP(*check.HTTP, objects)
	case check.HarborCluster != nil:
		return evaluateHarbor(*check.HarborCluster, objects)
	}
	return Result{}, errNoCheck()
}

// Watch selects the objects that a check depends on: those of a kind, in one namespace and with one name if these are set.
type Watch struct {
	Kind      schema.GroupVersionKind
	Namespace string
	Name      string
}

// Watches returns the watches whose events can change the results of the checks; addresses cannot be watched. The error names the check and wraps
// ErrInvalid.
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
	case needsRequest(check):
		return nil, nil
	}
	return nil, errNoCheck()
}

func errNoCheck() error {
	return fmt.Errorf("%w: exactly one of condition, workload, pods, node, cel, prometheus, http and harborCluster must be set", ErrInvalid)
}

// All is healthy if every result is. Otherwise it has the reason and message of the first unhealthy one, and the blockers of all.
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

// judged returns a result with the blockers; without blockers it is healthy.
func judged(healthy string, blockers []drydockv1.Blocker) Result {
	if len(blockers) == 0 {
		return Result{Healthy: true, Message: healthy}
	}
	message := fmt.Sprintf("%s: %s", blockers[0], blockers[0].Message)
	if others := len(blockers) - 1; others > 0 {
		message += fmt.Sprintf("; and %d more", others)
	}
	return Result{Reason: blockers[0].Reason, Message: message, Blockers: blockers[:min(len(blockers), maxBlockers)]}
}

// blocker describes why an object blocks.
func blocker(kind string, object metav1.Object, reason, message string, since metav1.Time) drydockv1.Blocker {
	b := drydockv1.Blocker{Kind: kind, Namespace: object.GetNamespace(), Name: object.GetName(), Reason: reason, Message: message}
	if !since.IsZero() {
		b.Since = &since
	}
	return b
}

// blocking is a blocker whose start is unknown.
func blocking(kind string, object metav1.Object, why unavailable) *drydockv1.Blocker {
	b := blocker(kind, object, why.reason, why.message, metav1.Time{})
	return &b
}

// selected returns the objects that match the selector, all if it is nil, sorted by name: a cache has no order, and the result must not change
// without a change of the objects.
func selected(objects []Object, selector *metav1.LabelSelector) ([]Object, error) {
	picks := labels.Everything()
	if selector != nil {
		var err error
		if picks, err = metav1.LabelSelectorAsSelector(selector); err != nil {
			return nil, fmt.Errorf("%w: selector: %w", ErrInvalid, err)
		}
	}
	var selected []Object
	for _, object := range objects {
		if picks.Matches(labels.Set(object.GetLabels())) {
			selected = append(selected, object)
		}
	}
	slices.SortFunc(selected, func(a, b Object) int {
		return cmp.Or(cmp.Compare(a.GetNamespace(), b.GetNamespace()), cmp.Compare(a.GetName(), b.GetName()))
	})
	return selected, nil
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
