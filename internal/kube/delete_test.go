package kube_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drydock.dev/drydock/internal/devstack/devstacktest"
	"drydock.dev/drydock/internal/kube"
)

// conflicting refuses the first deletions with a conflict, as an admission webhook may.
type conflicting struct {
	client.Client
	conflicts int
}

func (c *conflicting) Delete(ctx context.Context, object client.Object, options ...client.DeleteOption) error {
	if c.conflicts > 0 {
		c.conflicts--
		return apierrors.NewConflict(schema.GroupResource{Resource: "configmaps"}, object.GetName(), errors.New("something else"))
	}
	return c.Client.Delete(ctx, object, options...)
}

func newConfigMap(t *testing.T, c client.Client, namespace string) *corev1.ConfigMap {
	t.Helper()
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "ours"}}
	require.NoError(t, c.Create(t.Context(), object))
	return object
}

func TestAConflictingDeletionIsRetriedUnlessTheObjectWasReplaced(t *testing.T) {
	tests := []struct {
		name      string
		conflicts int
		// replaced: another object has the name when ours is deleted; gone: no object has it.
		replaced, gone bool
		fails, left    bool
	}{
		{name: "without a conflict"},
		{name: "a temporary conflict", conflicts: 2},
		{name: "a lasting conflict", conflicts: 100, fails: true, left: true},
		{name: "another object has the name", replaced: true, left: true},
		{name: "a conflict, and another object has the name", conflicts: 100, replaced: true, left: true},
		{name: "the object is gone", gone: true},
		{name: "a conflict, and the object is gone", conflicts: 100, gone: true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c, namespace := spoke(t).Client, devstacktest.Namespace(t, stack.Cluster("spoke"))
			ours := newConfigMap(t, c, namespace)
			if test.replaced || test.gone {
				require.NoError(t, c.Delete(t.Context(), ours.DeepCopy()))
			}
			if test.replaced {
				newConfigMap(t, c, namespace)
			}
			err := kube.DeleteExactly(t.Context(), &conflicting{Client: c, conflicts: test.conflicts}, ours)
			require.Equal(t, test.fails, apierrors.IsConflict(err), "%v", err)
			if !test.fails {
				require.NoError(t, err)
			}
			err = c.Get(t.Context(), client.ObjectKeyFromObject(ours), &corev1.ConfigMap{})
			require.Equal(t, !test.left, apierrors.IsNotFound(err), "%v", err)
		})
	}
}
