package activitykit

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drydock.dev/drydock/internal/kube"
)

// DeleteOwned deletes an object if it exists and has the same ownership mark as the given one. If that has a UID, the mark is not checked. what names it in errors.
func DeleteOwned(ctx context.Context, cluster *kube.Cluster, what string, ours client.Object) error {
	if ours.GetUID() == "" {
		owner := kube.Owner(ours)
		err := cluster.Client.Get(ctx, client.ObjectKeyFromObject(ours), ours)
		if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) || err == nil && !kube.OwnedBy(ours, owner) {
			return nil
		}
		if err != nil {
			return Explain(cluster, "read "+what, err)
		}
	}
	err := kube.DeleteExactly(ctx, cluster.Client, ours)
	if err == nil {
		OwnerLogger(ctx, cluster.Name, kube.Owner(ours)).Info("Deleted " + what)
	}
	if meta.IsNoMatchError(err) {
		return nil // the kind is gone, and all of its objects with it
	}
	return Explain(cluster, "delete "+what, err)
}

// ObjectName returns the kind, namespace and name of an object, for messages.
func ObjectName(object client.Object) string {
	return object.GetObjectKind().GroupVersionKind().Kind + " " + client.ObjectKeyFromObject(object).String()
}

// ListIfServed lists objects, and none of a kind that the cluster does not serve. The items are shared: do not change them.
func ListIfServed(ctx context.Context, reader client.Reader, list client.ObjectList) error {
	err := reader.List(ctx, list, client.UnsafeDisableDeepCopy)
	if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// MaxParallelRequests limits the concurrent reads or writes of an activity.
const MaxParallelRequests = 16

// OrNull returns a value for a merge patch: null, which removes the field, for an empty string.
func OrNull(value string) any {
	if value == "" {
		return nil
	}
	return value
}

// NullUnless returns the value for a merge patch if the condition holds, or null.
func NullUnless(fact bool, value any) any {
	if !fact {
		return nil
	}
	return value
}

// LabelManagedBy has the value ManagedBy on the ConfigMaps that Drydock writes.
const (
	LabelManagedBy = "app.kubernetes.io/managed-by"
	ManagedBy      = "drydock"
)
