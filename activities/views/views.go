// Package views reads and changes objects on clusters through their agents, for activities without credentials for the clusters.
package views

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drydock.dev/drydock/activities/activitykit"
	"drydock.dev/drydock/activities/remediation"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/policies"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/internal/views"
)

// Activities removes views and actions.
type Activities struct {
	Clusters *kube.Clusters
}

// RemoveViewsInput names the clusters whose views and actions are removed.
type RemoveViewsInput struct {
	// Owner is the mark of the rollout's workflow.
	Owner string `json:"owner"`
	// Clusters; none: all.
	Clusters []string `json:"clusters,omitempty"`
}

// RemoveViews deletes the ManagedClusterViews and ManagedClusterActions of a rollout.
func (a *Activities) RemoveViews(ctx context.Context, in RemoveViewsInput) error {
	hub, err := a.Clusters.Hub(ctx)
	if err != nil {
		return err
	}
	return RemoveAll(ctx, hub, OwnerOf(in.Owner), in.Clusters)
}

// Owner is the rollout that owns views and actions.
type Owner struct {
	types.NamespacedName
	// Mark is the ownership mark of its workflow.
	Mark string
}

// OwnerOf is the rollout of an ownership mark.
func OwnerOf(mark string) Owner {
	namespace, name, _ := strings.Cut(temporal.RolloutOf(mark), "/")
	return Owner{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}, Mark: mark}
}

// Kinds are the kinds to watch for changes of the views and actions of a cluster, or of all.
func Kinds(cluster string) []client.Object {
	var kinds []client.Object
	for _, kind := range []schema.GroupVersionKind{views.Views, views.Actions} {
		object := newObject(kind)
		object.SetNamespace(cluster)
		kinds = append(kinds, kube.IfServed(object))
	}
	return kinds
}

// Missing is the kind that a hub does not serve, without which its agents cannot be used; "": it serves all.
func Missing(ctx context.Context, hub *kube.Cluster) (kind string, err error) {
	for _, kind := range []schema.GroupVersionKind{views.Views, views.Actions} {
		if served, err := hub.Serves(ctx, kind); err != nil || !served {
			return kind.Kind, err
		}
	}
	return "", nil
}

func newObject(kind schema.GroupVersionKind) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(kind)
	return object
}

// Get reads the view, or the action, of an object on a cluster; nil: it does not exist. Errors: InvalidSpec if it has another owner: anyone who can create views
// could name another object in it.
func Get(ctx context.Context, reader client.Reader, kind schema.GroupVersionKind, owner Owner, cluster string, object views.Object) (*unstructured.Unstructured, error) {
	return owner.get(ctx, reader, kind, views.Name(kind, owner.NamespacedName, cluster, object))
}

func (owner Owner) get(ctx context.Context, reader client.Reader, kind schema.GroupVersionKind, name types.NamespacedName) (*unstructured.Unstructured, error) {
	found := newObject(kind)
	err := reader.Get(ctx, name, found)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, err
	case !owner.has(found):
		holder, _ := kube.OwnerWorkflow(kube.Owner(found))
		return nil, temporal.Error(temporal.ErrInvalidSpec, fmt.Sprintf("%s is not of this rollout (it belongs to %s): delete it, or give the rollout another name",
			activitykit.ObjectName(found), cmp.Or(holder, "an unknown owner")), nil)
	}
	return found, nil
}

// Create creates a view or an action. It adopts that of an earlier run. Errors: InvalidSpec if it has another owner.
func Create(ctx context.Context, hub *kube.Cluster, object *unstructured.Unstructured, owner Owner) error {
	return remediation.CreateOrAdopt(ctx, hub, object, owner.Mark)
}

// Delete deletes a view or an action; nil: there is none.
func Delete(ctx context.Context, hub *kube.Cluster, object *unstructured.Unstructured) error {
	if object == nil {
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

// RemoveAll deletes the views and actions of an owner on these clusters; none: on all. An action that an agent has not begun would take effect later. It does nothing
// where the hub has no views, or the worker no right to them.
func RemoveAll(ctx context.Context, hub *kube.Cluster, owner Owner, clusters []string) error {
	if len(clusters) == 0 {
		clusters = []string{metav1.NamespaceAll}
	}
	var removals errgroup.Group // a failure does not stop the others
	removals.SetLimit(activitykit.MaxParallelRequests)
	for _, cluster := range clusters {
		removals.Go(func() error { return removeIn(ctx, hub, owner, cluster) })
	}
	return removals.Wait()
}

// removeIn deletes the views and actions of an owner in a namespace. It reads only their metadata: a view has a whole object.
func removeIn(ctx context.Context, hub *kube.Cluster, owner Owner, namespace string) error {
	var deletions errgroup.Group
	deletions.SetLimit(activitykit.MaxParallelRequests)
	for _, kind := range []schema.GroupVersionKind{views.Actions, views.Views} {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		err := hub.Client.List(ctx, list, client.InNamespace(namespace), client.MatchingLabels(policies.RolloutLabels(owner.NamespacedName)))
		if apierrors.IsForbidden(err) || apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
			continue
		}
		if err != nil {
			return activitykit.Explain(hub, "list "+kind.Kind+"s", err)
		}
		for i := range list.Items {
			object := &list.Items[i]
			object.SetGroupVersionKind(kind)
			if owner.has(object) {
				deletions.Go(func() error { return activitykit.DeleteOwned(ctx, hub, activitykit.ObjectName(object), object) })
			}
		}
	}
	return deletions.Wait()
}
