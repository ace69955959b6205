package devstacktest

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"drydock.dev/drydock/internal/devstack"
)

// Granted returns when the API server permits a user what a new binding grants.
func Granted(t testing.TB, cluster *devstack.Cluster, user string, right authorizationv1.ResourceAttributes) {
	t.Helper()
	require.NoError(t, AwaitRight(t.Context(), cluster, user, right))
}

// AwaitRight waits until the API server permits a user something. It learns of roles and bindings by a watch.
func AwaitRight(ctx context.Context, cluster *devstack.Cluster, user string, right authorizationv1.ResourceAttributes) error {
	return wait.PollUntilContextTimeout(ctx, 10*time.Millisecond, 2*time.Minute, true, func(ctx context.Context) (bool, error) {
		review, err := cluster.Client.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{
			Spec: authorizationv1.SubjectAccessReviewSpec{User: user, ResourceAttributes: &right},
		}, metav1.CreateOptions{})
		return err == nil && review.Status.Allowed, err
	})
}

// ServiceAccount is the user name of one of Drydock's accounts.
func ServiceAccount(name string) string { return "system:serviceaccount:drydock-system:" + name }
