package views

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// ActionType is what an action does.
type ActionType string

// The types of actions.
const (
	TypeCreate ActionType = "Create"
	TypeUpdate ActionType = "Update"
	TypeDelete ActionType = "Delete"
)

// Update returns the action that updates a viewed object on a cluster, without owner. Change changes the object. The action fails if the object is no longer the
// viewed version. The agent removes each field that the template omits, so that is the whole object.
func Update(rollout types.NamespacedName, cluster string, viewed *unstructured.Unstructured, change func(*unstructured.Unstructured) error) (*unstructured.Unstructured, error) {
	template := viewed.DeepCopy()
	unstructured.RemoveNestedField(template.Object, "status")
	template.SetManagedFields(nil)
	if err := change(template); err != nil {
		return nil, err
	}
	return newAction(TypeUpdate, rollout, cluster, ObjectOf(viewed), template), nil
}

// Create returns the action that creates an object on a cluster, without owner.
func Create(rollout types.NamespacedName, cluster string, object *unstructured.Unstructured) *unstructured.Unstructured {
	return newAction(TypeCreate, rollout, cluster, ObjectOf(object), object.DeepCopy())
}

// Delete returns the action that deletes an object on a cluster, without owner.
func Delete(rollout types.NamespacedName, cluster string, object Object) *unstructured.Unstructured {
	return newAction(TypeDelete, rollout, cluster, object, nil)
}

// newAction returns an action on an object. Actions of all types on one object have the same name, so at most one exists.
func newAction(does ActionType, rollout types.NamespacedName, cluster string, object Object, template *unstructured.Unstructured) *unstructured.Unstructured {
	made := newObject(Actions, rollout, cluster, object)
	work := map[string]any{"resource": strings.ToLower(object.Kind.Kind), "name": object.Name}
	if object.Namespace != "" {
		work["namespace"] = object.Namespace
	}
	if template != nil {
		work["template"] = template.Object
	}
	made.Object["spec"] = map[string]any{"actionType": string(does), "kube": work}
	return made
}

// TypeOf is the type of an action.
func TypeOf(action *unstructured.Unstructured) ActionType {
	does, _, _ := unstructured.NestedString(action.Object, "spec", "actionType")
	return ActionType(does)
}

// Outcome is the outcome of an action.
type Outcome struct {
	// Done: the action has succeeded, or the cluster is as if it had: the object to create exists, or the object to delete does not.
	Done bool
	// Failure is why the action failed; empty: it has not. The agent tries a failed action again when it restarts.
	Failure string
	// Version is the resource version of the object that the action updates.
	Version string
}

// OutcomeOf reads an action.
func OutcomeOf(action *unstructured.Unstructured) Outcome {
	version, _, _ := unstructured.NestedString(action.Object, "spec", "kube", "template", "metadata", "resourceVersion")
	outcome := Outcome{Version: version}
	condition := conditionOf(action, "Completed")
	switch {
	case condition == nil:
	case condition.Status == metav1.ConditionTrue, superfluous(TypeOf(action), condition.Message):
		outcome.Done = true
	case condition.Message == "":
		outcome.Failure = condition.Reason
	default:
		outcome.Failure = condition.Message
	}
	return outcome
}

// superfluous reports whether an action failed because nothing was to be done. An agent that could not report its success finds that at the next attempt.
func superfluous(does ActionType, failure string) bool {
	switch does {
	case TypeCreate:
		return strings.HasSuffix(failure, "already exists") && !strings.Contains(failure, "object is being deleted")
	case TypeDelete:
		return strings.HasSuffix(failure, "not found")
	}
	return false
}
