package activitykit

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drydock.dev/drydock/internal/kube"
)

// DeleteOwned deletes an object if it is there and bears the mark that ours does. One with a UID does. What names it in errors.
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
	if meta.IsNoMatchError(err) {
		return nil // the kind is gone, and all of its objects with it
	}
	return Explain(cluster, "delete "+what, err)
}

func ObjectName(object client.Object) string {
	return object.GetObjectKind().GroupVersionKind().Kind + " " + client.ObjectKeyFromObject(object).String()
}

// ListIfServed lists nothing of a kind that the cluster no longer serves: its locks are gone with it. The items are not to be changed.
func ListIfServed(ctx context.Context, reader client.Reader, list client.ObjectList) error {
	err := reader.List(ctx, list, client.UnsafeDisableDeepCopy)
	if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// MaxParallelRequests is how many objects are read or written at the same time.
const MaxParallelRequests = 16

// OrNull removes what is empty: in a merge patch null does.
func OrNull(value string) any {
	if value == "" {
		return nil
	}
	return value
}

func NullUnless(fact bool, value any) any {
	if !fact {
		return nil
	}
	return value
}

// The label of the ConfigMaps with saved rollouts.
const (
	LabelManagedBy = "app.kubernetes.io/managed-by"
	ManagedBy      = "drydock"
)
