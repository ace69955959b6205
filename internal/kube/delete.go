package kube

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// DeleteExactly deletes an object as it was read, and never another one that has its name meanwhile. It is no error that the object is gone
// already. Errors: a conflict that is not about that, and does not pass.
func DeleteExactly(ctx context.Context, c client.Client, object client.Object, options ...client.DeleteOption) error {
	uid := object.GetUID()
	options = append(options, client.Preconditions{UID: &uid})
	return RetryOnConflict(func() error {
		err := client.IgnoreNotFound(c.Delete(ctx, object, options...))
		if !apierrors.IsConflict(err) {
			return err
		}
		// The API server says so of another UID, but not of that alone.
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

// uidOf returns the UID of what has an object's name; empty: nothing has.
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
