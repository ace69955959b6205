// Package views reads and changes objects on clusters through their agents, for activities without credentials for the clusters.
package views

import (
	"context"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drydock.dev/drydock/activities/activitykit"
	"drydock.dev/drydock/activities/remediation"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/policies"
	"drydock.dev/drydock/internal/views"
)

// Owner is the rollout that owns views and actions.
type Owner struct {
	types.NamespacedName
	// Mark is the ownership mark of its workflow.
	Mark string
}

// Kinds are the kinds to watch for changes of views and actions.
func Kinds() []client.Object {
	return []client.Object{kube.IfServed(newObject(views.Views)), kube.IfServed(newObject(views.Actions))}
}

func newObject(kind schema.GroupVersionKind) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(kind)
	return object
}

// Get reads the view, or the action, of an object on a cluster; nil: it does not exist.
func Get(ctx context.Context, reader client.Reader, kind schema.GroupVersionKind, owner Owner, cluster string, object views.Object) (*unstructured.Unstructured, error) {
	found := newObject(kind)
	err := reader.Get(ctx, views.Name(kind, owner.NamespacedName, cluster, object), found)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return found, err
}

// Create creates a view or an action. It adopts that of an earlier run. Errors: InvalidSpec if it has another owner.
func Create(ctx context.Context, hub *kube.Cluster, object *unstructured.Unstructured, owner Owner) error {
	return remediation.CreateOrAdopt(ctx, hub, object, owner.Mark)
}

// Delete deletes a view or an action; nil: there is none.
func Delete(ctx context.Context, hub *kube.Cluster, object *unstructured.Unstructured, owner Owner) error {
	if object == nil || !owner.has(object) {
		return nil
	}
	return activitykit.DeleteOwned(ctx, hub, activitykit.ObjectName(object), object)
}

// has reports whether a run of the owner's workflow created an object.
func (o Owner) has(object client.Object) bool {
	ours, _ := kube.OwnerWorkflow(o.Mark)
	theirs, _ := kube.OwnerWorkflow(kube.Owner(object))
	return ours == theirs
}

// RemoveAll deletes the views and actions of an owner on the clusters that remove selects. An action that an agent has not begun would take effect later. It does
// nothing where the hub has no views, or the worker no right to them.
func RemoveAll(ctx context.Context, hub *kube.Cluster, owner Owner, remove func(cluster string) bool) error {
	var deletes errgroup.Group // a failure does not stop the others
	deletes.SetLimit(activitykit.MaxParallelRequests)
	for _, kind := range []schema.GroupVersionKind{views.Actions, views.Views} {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		err := hub.Client.List(ctx, list, client.MatchingLabels(policies.RolloutLabels(owner.NamespacedName)))
		if apierrors.IsForbidden(err) || apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
			continue
		}
		if err != nil {
			return activitykit.Explain(hub, "list "+kind.Kind+"s", err)
		}
		for i := range list.Items {
			if object := &list.Items[i]; remove(object.GetNamespace()) {
				deletes.Go(func() error { return Delete(ctx, hub, object, owner) })
			}
		}
	}
	return deletes.Wait()
}
