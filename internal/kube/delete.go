package kube

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// DeleteExactly deletes an object as it was read, and never a later one with its name. It succeeds if the object is gone. Errors: a lasting conflict
// that has another cause.
func DeleteExactly(ctx context.Context, c client.Client, object client.Object, options ...client.DeleteOption) error {
	uid := object.GetUID()
	options = append(options, client.Preconditions{UID: &uid})
	return RetryOnConflict(func() error {
		err := client.IgnoreNotFound(c.Delete(ctx, object, options...))
		if !apierrors.IsConflict(err) {
			return err
		}
		// The API server reports another UID as a conflict, as it does other causes.
		there, readErr := uidOf(ctx, c, object)
		switch {
		case readErr != nil:
			return readErr
		case there != uid:
			return nil
		}
		return err
	})
}

// uidOf returns the UID of the object with that name; empty: none.
func uidOf(ctx context.Context, c client.Client, object client.Object) (types.UID, error) {
	kind, err := c.GroupVersionKindFor(object)
	if err != nil {
		return "", err
	}
	found := &metav1.PartialObjectMetadata{}
	found.SetGroupVersionKind(kind)
	err = c.Get(ctx, client.ObjectKeyFromObject(object), found)
	return found.UID, client.IgnoreNotFound(err)
}
