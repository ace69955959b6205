// Package views reads and changes objects on the clusters of a hub through the agents of the clusters: ManagedClusterViews and ManagedClusterActions in the
// namespaces of the clusters. Every function is pure.
package views

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"drydock.dev/drydock/internal/policies"
	"drydock.dev/drydock/internal/safename"
)

// Kinds of the hub.
var (
	Views   = schema.GroupVersionKind{Group: "view.open-cluster-management.io", Version: "v1beta1", Kind: "ManagedClusterView"}
	Actions = schema.GroupVersionKind{Group: "action.open-cluster-management.io", Version: "v1beta1", Kind: "ManagedClusterAction"}
)

// Ours selects the views and actions of rollouts.
const Ours = policies.LabelManagedBy + "=" + policies.ManagedBy

// Object names an object on a cluster.
type Object struct {
	Kind            schema.GroupVersionKind
	Namespace, Name string
}

// ObjectOf names an object.
func ObjectOf(object *unstructured.Unstructured) Object {
	return Object{Kind: object.GroupVersionKind(), Namespace: object.GetNamespace(), Name: object.GetName()}
}

// String is the kind, namespace and name.
func (o Object) String() string {
	if o.Namespace == "" {
		return o.Kind.Kind + " " + o.Name
	}
	return o.Kind.Kind + " " + o.Namespace + "/" + o.Name
}

// fieldInterval is the field of the scope of a view that says how often the agent reads the object.
const fieldInterval = "updateIntervalSeconds"

// scope is the scope of a view of the object, without its interval.
func (o Object) scope() map[string]any {
	return map[string]any{"apiGroup": o.Kind.Group, "version": o.Kind.Version, "kind": o.Kind.Kind, "namespace": o.Namespace, "name": o.Name}
}

const (
	// minInterval and maxInterval limit the interval at which an agent reads an object again. Each read is a request to the hub: viewsPerSecond limits their sum.
	minInterval    = 10 * time.Second
	maxInterval    = 5 * time.Minute
	viewsPerSecond = 20
)

// Interval is how often the agents read again the objects of that many views.
func Interval(views int) time.Duration {
	return min(max(minInterval, time.Duration(views/viewsPerSecond)*time.Second), maxInterval)
}

// View returns the view of an object on a cluster, without owner. The agent of the cluster reads the object at that interval.
func View(rollout types.NamespacedName, cluster string, object Object, interval time.Duration) *unstructured.Unstructured {
	made := newObject(Views, rollout, cluster, object)
	scope := object.scope()
	scope[fieldInterval] = int64(interval / time.Second)
	made.Object["spec"] = map[string]any{"scope": scope}
	return made
}

// newObject returns a view or an action for an object. Its name is the same for every attempt.
func newObject(kind schema.GroupVersionKind, rollout types.NamespacedName, cluster string, object Object) *unstructured.Unstructured {
	made := &unstructured.Unstructured{Object: map[string]any{}}
	made.SetGroupVersionKind(kind)
	made.SetNamespace(cluster)
	made.SetName(safename.Unique(63, []string{rollout.Namespace, object.Kind.Group, object.Namespace}, rollout.Name, object.Kind.Kind, object.Name))
	made.SetLabels(policies.RolloutLabels(rollout))
	return made
}

// Name names the view, or the action, of a rollout for an object.
func Name(kind schema.GroupVersionKind, rollout types.NamespacedName, cluster string, object Object) types.NamespacedName {
	made := newObject(kind, rollout, cluster, object)
	return types.NamespacedName{Namespace: made.GetNamespace(), Name: made.GetName()}
}

// Viewed is what a view shows of its object.
type Viewed struct {
	// Object is the object as the agent last read it; nil: it is not known.
	Object *unstructured.Unstructured
	// Missing: the object does not exist.
	Missing bool
	// Problem is why the agent cannot read the object; empty: it can, or has not answered yet.
	Problem string
}

// Read reads the view of an object. It trusts neither a view that another user has created for another object, nor its result.
func Read(view *unstructured.Unstructured, object Object) Viewed {
	condition := conditionOf(view, "Processing")
	switch {
	case !reflect.DeepEqual(scopeOf(view), object.scope()):
		return Viewed{Problem: fmt.Sprintf("ManagedClusterView %s/%s is not of this object: delete it", view.GetNamespace(), view.GetName())}
	case condition == nil:
		return Viewed{}
	case condition.Status != metav1.ConditionTrue && condition.Reason == "GetResourceFailed" && strings.HasSuffix(condition.Message, "not found"):
		return Viewed{Missing: true}
	case condition.Status != metav1.ConditionTrue:
		return Viewed{Problem: condition.Message}
	}
	fields, found, _ := unstructured.NestedMap(view.Object, "status", "result")
	if !found {
		return Viewed{}
	}
	result := &unstructured.Unstructured{Object: fields}
	if shown := ObjectOf(result); shown != object {
		return Viewed{Problem: fmt.Sprintf("ManagedClusterView %s/%s shows %s", view.GetNamespace(), view.GetName(), shown)}
	}
	return Viewed{Object: result}
}

// scopeOf is the scope of a view, without its interval.
func scopeOf(view *unstructured.Unstructured) map[string]any {
	scope, _, _ := unstructured.NestedMap(view.Object, "spec", "scope")
	delete(scope, fieldInterval)
	return scope
}

// conditionOf returns the condition of that type; nil: there is none.
func conditionOf(object *unstructured.Unstructured, kind string) *metav1.Condition {
	listed, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, one := range listed {
		text, err := json.Marshal(one)
		var condition metav1.Condition
		if err == nil && json.Unmarshal(text, &condition) == nil && condition.Type == kind {
			return &condition
		}
	}
	return nil
}
