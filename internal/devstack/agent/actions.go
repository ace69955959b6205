package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/jsonmergepatch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// serveAction carries out an action until it has succeeded: it tries a failed one again whenever the action changes, and so after its own report of the failure. The
// hub deletes an action that is over after a while.
func (a *Agents) serveAction(ctx context.Context, action *unstructured.Unstructured, cluster client.Client) (time.Duration, error) {
	conditions, _, _ := unstructured.NestedSlice(action.Object, "status", "conditions")
	if len(conditions) > 0 {
		fields := conditions[0].(map[string]any)
		at, _ := time.Parse(time.RFC3339, fields["lastTransitionTime"].(string))
		left := keepsActions - time.Since(at)
		if left <= 0 {
			return usualInterval, client.IgnoreNotFound(a.hub.Delete(ctx, action))
		}
		if fields["status"] == "True" || a.tried[string(action.GetUID())] == action.GetResourceVersion() {
			return left, nil
		}
	}
	kind, _, _ := unstructured.NestedString(action.Object, "spec", "actionType")
	done := metav1.Condition{Type: "Completed", Status: metav1.ConditionTrue, Reason: "ActionDone", Message: "Resource action is done."}
	err := a.options.Refuse(action.GetNamespace())
	if errors.Is(err, ErrNotBegun) {
		return usualInterval, nil
	}
	if err == nil {
		err = carryOut(ctx, cluster, kind, action)
	}
	if err != nil {
		reason := kind + "ResourceFailed"
		if errors.Is(err, errInvalidType) {
			reason = "ActionTypeInvalid"
		}
		done.Status, done.Reason, done.Message = metav1.ConditionFalse, reason, fmt.Sprintf("failed to handle %s action with err: %v", kind, err)
	}
	a.tried[string(action.GetUID())] = action.GetResourceVersion()
	if a.options.Forgets(action.GetNamespace()) {
		return restarts, nil
	}
	if err := a.updateStatus(ctx, action, done); err != nil {
		return usualInterval, err
	}
	if err == nil {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.actions = append(a.actions, described(action, kind))
	}
	return keepsActions, nil
}

// described is <cluster> <kind> <namespace>/<name> of an update, and that with the type of another action.
func described(action *unstructured.Unstructured, does string) string {
	text := func(field string) string {
		value, _, _ := unstructured.NestedString(action.Object, "spec", "kube", field)
		return value
	}
	name := text("namespace") + "/" + text("name")
	if does != "Update" {
		return action.GetNamespace() + " " + does + " " + text("resource") + " " + name
	}
	kind, _, _ := unstructured.NestedString(action.Object, "spec", "kube", "template", "kind")
	return action.GetNamespace() + " " + kind + " " + name
}

var errInvalidType = errors.New("invalid action type")

// carryOut does on a cluster what an action says.
func carryOut(ctx context.Context, cluster client.Client, does string, action *unstructured.Unstructured) error {
	work, _, _ := unstructured.NestedMap(action.Object, "spec", "kube")
	namespace, _ := work["namespace"].(string)
	template, _ := work["template"].(map[string]any)
	object := &unstructured.Unstructured{Object: template}
	switch does {
	case "Create":
		if namespace != "" {
			object.SetNamespace(namespace)
		}
		return cluster.Create(ctx, object)
	case "Update":
		return update(ctx, cluster, namespace, object)
	case "Delete":
		resource, _ := work["resource"].(string)
		kind, err := cluster.RESTMapper().KindFor(schema.GroupVersionResource{Resource: resource})
		if err != nil {
			return err
		}
		object = newObject(kind)
		object.SetNamespace(namespace)
		object.SetName(work["name"].(string))
		return cluster.Delete(ctx, object, client.PropagationPolicy(metav1.DeletePropagationForeground))
	}
	return errInvalidType
}

// update merges a template into an object. Fields that the template omits are removed.
func update(ctx context.Context, cluster client.Client, namespace string, template *unstructured.Unstructured) error {
	current := newObject(template.GroupVersionKind())
	if err := cluster.Get(ctx, client.ObjectKey{Namespace: namespace, Name: template.GetName()}, current); err != nil {
		return err
	}
	now, err := json.Marshal(current.Object)
	if err != nil {
		return err
	}
	wanted, err := json.Marshal(template.Object)
	if err != nil {
		return err
	}
	patch, err := jsonmergepatch.CreateThreeWayJSONMergePatch(now, wanted, now)
	if err != nil || string(patch) == "{}" {
		return err
	}
	return cluster.Patch(ctx, current, client.RawPatch(types.MergePatchType, patch))
}
