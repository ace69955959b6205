package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/jsonmergepatch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// serveAction carries out an action, once, and deletes it after a while. Only updates are simulated.
func (a *Agents) serveAction(ctx context.Context, action *unstructured.Unstructured, cluster client.Client) (time.Duration, error) {
	conditions, _, _ := unstructured.NestedSlice(action.Object, "status", "conditions")
	if len(conditions) > 0 { // it was carried out
		fields := conditions[0].(map[string]any)
		at, _ := time.Parse(time.RFC3339, fields["lastTransitionTime"].(string))
		if left := keepsActions - time.Since(at); left > 0 {
			return left, nil
		}
		return usualInterval, client.IgnoreNotFound(a.hub.Delete(ctx, action))
	}
	kind, _, _ := unstructured.NestedString(action.Object, "spec", "actionType")
	template, _, _ := unstructured.NestedMap(action.Object, "spec", "kube", "template")
	namespace, _, _ := unstructured.NestedString(action.Object, "spec", "kube", "namespace")
	done := metav1.Condition{Type: "Completed", Status: metav1.ConditionTrue, Reason: "ActionDone", Message: "Resource action is done."}
	err := a.options.Refuse(action.GetNamespace())
	if errors.Is(err, ErrNotBegun) {
		return usualInterval, nil
	}
	if err == nil {
		err = update(ctx, cluster, namespace, &unstructured.Unstructured{Object: template})
	}
	if err != nil {
		done.Status, done.Reason, done.Message = metav1.ConditionFalse, "UpdateResourceFailed", fmt.Sprintf("failed to handle %s action with err: %v", kind, err)
	}
	if err := a.updateStatus(ctx, action, done); err != nil {
		return usualInterval, err
	}
	if err == nil {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.actions = append(a.actions, fmt.Sprintf("%s %s %s/%s", action.GetNamespace(), template["kind"], namespace, (&unstructured.Unstructured{Object: template}).GetName()))
	}
	return keepsActions, nil
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
