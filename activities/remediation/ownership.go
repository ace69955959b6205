package remediation

import (
	"cmp"
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drydock.dev/drydock/activities/activitykit"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/temporal"
)

// CreateOrAdopt creates an object, or updates that of an earlier run of the same workflow. It rejects an object with another owner.
func CreateOrAdopt(ctx context.Context, hub *kube.Cluster, object *unstructured.Unstructured, owner string) error {
	existing := &metav1.PartialObjectMetadata{}
	existing.SetGroupVersionKind(object.GroupVersionKind())
	err := hub.Client.Get(ctx, client.ObjectKeyFromObject(object), existing)
	ours, _ := kube.OwnerWorkflow(owner)
	holder, _ := kube.OwnerWorkflow(kube.Owner(existing))
	switch {
	case apierrors.IsNotFound(err):
	case err != nil:
		return activitykit.Explain(hub, "read "+activitykit.ObjectName(object), err)
	case holder != ours:
		return temporal.Error(temporal.ErrInvalidSpec, fmt.Sprintf("%s exists and is not of this rollout (it belongs to %s): delete it, or give the rollout another name",
			activitykit.ObjectName(object), cmp.Or(holder, "an unknown owner")), nil)
	case existing.DeletionTimestamp != nil:
		return BeingDeletedError{fmt.Sprintf("%s is still being deleted: one of its finalizers %v holds it", activitykit.ObjectName(object), existing.Finalizers)}
	}
	return ApplyOwned(ctx, hub, object, owner)
}

// BeingDeletedError: an object of that name is still being deleted.
type BeingDeletedError struct{ Message string }

func (b BeingDeletedError) Error() string { return b.Message }

// ApplyOwned applies an object with the ownership mark.
func ApplyOwned(ctx context.Context, hub *kube.Cluster, object *unstructured.Unstructured, owner string) error {
	annotations := object.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[kube.AnnotationOwner] = owner
	object.SetAnnotations(annotations)
	return activitykit.Explain(hub, "apply "+activitykit.ObjectName(object), hub.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), client.ForceOwnership))
}
