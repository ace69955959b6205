package locks_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drydock.dev/drydock/activities/activitytest"
	lcmv1 "drydock.dev/drydock/internal/apis/lcm/v1alpha1"
)

// accountOf returns the access of an account of deploy/rbac on the spoke.
func accountOf(t *testing.T, account string) *rest.Config {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", activitytest.KubeconfigOf(activitytest.Stack.Cluster(activitytest.SpokeName), account))
	require.NoError(t, err)
	config.QPS = -1 // it sends many requests in parallel
	return config
}

// The two roles of workload locks must not write each other's objects: the initiator could release the locks of an application, and the
// controller of an application could create requests.
func TestEachRoleOfWorkloadLocksWritesOnlyItsObjects(t *testing.T) {
	requests := []string{"clustermaintenancerequests", "nodemaintenancerequests"}
	locks := []string{"clusterworkloadlocks", "nodeworkloadlocks", "clusterworkloadlocks/status", "nodeworkloadlocks/status"}
	for _, side := range []struct {
		account     string
		own, others []string
		// writes are the permissions for its own objects.
		writes []string
	}{
		{"drydock-initiator", requests, slices.Concat(locks, []string{"clustermaintenancerequests/status", "nodemaintenancerequests/status"}), []string{"create", "delete"}},
		{"drydock-lock-controller", locks[:2], requests, []string{"create", "patch", "delete"}},
	} {
		t.Run(side.account, func(t *testing.T) {
			access, err := kubernetes.NewForConfig(accountOf(t, side.account))
			require.NoError(t, err)
			may := func(verb, resource string) bool {
				name, subresource, _ := strings.Cut(resource, "/")
				review, err := access.AuthorizationV1().SelfSubjectAccessReviews().Create(t.Context(), &authorizationv1.SelfSubjectAccessReview{
					Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
						Group: lcmv1.GroupVersion.Group, Version: lcmv1.GroupVersion.Version, Resource: name, Subresource: subresource, Verb: verb,
					}},
				}, metav1.CreateOptions{})
				require.NoError(t, err)
				return review.Status.Allowed
			}
			for _, verb := range []string{"create", "update", "patch", "delete", "deletecollection"} {
				for _, resource := range side.others {
					require.False(t, may(verb, resource), "%s %s", verb, resource)
				}
				for _, resource := range side.own {
					require.Equal(t, slices.Contains(side.writes, verb), may(verb, resource), "%s %s", verb, resource)
				}
			}
		})
	}
}

func TestAWriteToObjectsOfTheOtherRoleIsRefused(t *testing.T) {
	ref := activitytest.TestNode(t)
	lock := activitytest.HeldNode(t, "tf", ref.Node)
	request := activitytest.Created(t, &lcmv1.NodeMaintenanceRequest{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "theirs-"}, Spec: lcmv1.NodeMaintenanceRequestSpec{NodeName: ref.Node},
	})
	cluster, err := activitytest.Clusters.Cluster(t.Context(), activitytest.SpokeName)
	require.NoError(t, err)
	inactivate := client.RawPatch("application/merge-patch+json", []byte(`{"status":{"state":"inactive"}}`))
	require.True(t, apierrors.IsForbidden(cluster.Client.Status().Patch(t.Context(), lock.DeepCopy(), inactivate)))
	require.True(t, apierrors.IsForbidden(cluster.Client.Delete(t.Context(), lock.DeepCopy())))
	require.True(t, apierrors.IsForbidden(cluster.LockController.Delete(t.Context(), request.DeepCopy())))
	require.True(t, apierrors.IsForbidden(cluster.LockController.Create(t.Context(), &lcmv1.NodeMaintenanceRequest{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "ours-"}, Spec: lcmv1.NodeMaintenanceRequestSpec{NodeName: ref.Node},
	})))
}
