package harbor

import (
	"context"
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	goharborv1 "drydock.dev/drydock/internal/apis/goharbor/v1beta1"
	"drydock.dev/drydock/internal/harbor"
	"drydock.dev/drydock/internal/kube"
)

// metadataOf returns an object to read only metadata into.
func metadataOf(kind schema.GroupVersionKind, namespace, name string) *metav1.PartialObjectMetadata {
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(kind)
	object.SetNamespace(namespace)
	object.SetName(name)
	return object
}

// ownByLabel reads an object. If the HarborCluster owns it by an owner reference, which the Harbor operator sets, it replaces the reference by a label.
// Otherwise the garbage collector would delete the object and its data with the HarborCluster, even with deletionPolicy Retain.
func ownByLabel(ctx context.Context, c client.Client, hc *goharborv1.HarborCluster, object *metav1.PartialObjectMetadata) error {
	return kube.RetryOnConflict(func() error {
		if err := c.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
			return err
		}
		owners, owned := harbor.OtherOwners(object, hc.Name)
		if !owned || !harbor.Belongs(object, hc.Name) {
			return nil
		}
		return patchExactly(ctx, c, object, map[string]any{"ownerReferences": owners, "labels": map[string]string{harbor.LabelCluster: hc.Name}})
	})
}

// patchExactly changes only the metadata of an object: fields that our types lack stay. A write of another client since it was read is a conflict, and so is
// another object of the name.
func patchExactly(ctx context.Context, c client.Client, object client.Object, metadata map[string]any) error {
	metadata["uid"], metadata["resourceVersion"] = object.GetUID(), object.GetResourceVersion()
	patch, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		return err
	}
	return c.Patch(ctx, object, client.RawPatch(types.MergePatchType, patch))
}
