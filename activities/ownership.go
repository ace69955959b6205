package activities

import (
	"cmp"
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/temporal"
)

// takeOver makes an object, or updates that of an earlier run of the same workflow. It refuses an object with another owner.
func takeOver(ctx context.Context, hub *kube.Cluster, object *unstructured.Unstructured, owner string) error {
	existing := &metav1.PartialObjectMetadata{}
	existing.SetGroupVersionKind(object.GroupVersionKind())
	err := hub.Client.Get(ctx, client.ObjectKeyFromObject(object), existing)
	ours, _ := kube.OwnerWorkflow(owner)
	holder, _ := kube.OwnerWorkflow(kube.Owner(existing))
	switch {
	case apierrors.IsNotFound(err):
	case err != nil:
		return explain(hub, "read "+nameOf(object), err)
	case holder != ours:
		return temporal.Error(temporal.ErrInvalidSpec, fmt.Sprintf("%s exists and is not of this rollout (it belongs to %s): delete it, or give the rollout another name",
			nameOf(object), cmp.Or(holder, "an unknown owner")), nil)
	case existing.DeletionTimestamp != nil:
		return beingDeleted{fmt.Sprintf("%s is still being deleted: one of its finalizers %v holds it", nameOf(object), existing.Finalizers)}
	}
	return applyOurs(ctx, hub, object, owner)
}

// beingDeleted: an object cannot be made before the one of that name is deleted.
type beingDeleted struct{ message string }

func (b beingDeleted) Error() string { return b.message }

// applyOurs creates or updates an object with our ownership mark.
func applyOurs(ctx context.Context, hub *kube.Cluster, object *unstructured.Unstructured, owner string) error {
	annotations := object.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[kube.AnnotationOwner] = owner
	object.SetAnnotations(annotations)
	return explain(hub, "apply "+nameOf(object), hub.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), client.ForceOwnership))
}
