package drain_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"drydock.dev/drydock/activities/activitytest"
	"drydock.dev/drydock/activities/drain"
	"drydock.dev/drydock/activities/locks"
	"drydock.dev/drydock/internal/devstack/devstacktest"
	"drydock.dev/drydock/internal/kube"
)

// Each retry of the blocked eviction is another check of the drain.
func TestALongWaitDoesNotReadTheAPIServer(t *testing.T) {
	const user = "waiter"
	theirs := clustersOf(t, user)
	ref, shop := activitytest.TestNode(t), activitytest.NewTenant(t)
	activitytest.Mark(t, ref)
	shop.Pod(t, ref.Node, "web")
	shop.Budget(t, "web", 1, 1)
	activitytest.HeldNode(t, "ceph", ref.Node)

	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 2)
	go func() {
		_, err := (&drain.Activities{Clusters: theirs}).Drain(ctx, drain.Input{NodeRef: ref, Attempt: 1})
		ended <- err
	}()
	go func() {
		ended <- (&locks.Activities{Clusters: theirs}).AwaitNodeLocks(ctx, locks.NodeLockInput{NodeRef: ref})
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
		<-ended
	})

	// On a slow machine it takes longer until the caches are filled.
	var early, late []string
	for requests := 2; requests <= 10; requests += 2 {
		early, late = shop.ReadsUntilEvictionRequests(t, user, requests), shop.ReadsUntilEvictionRequests(t, user, requests+2)
		if len(early) == len(late) {
			break
		}
	}
	require.NotEmpty(t, early, "the caches are filled")
	require.Equal(t, early, late)
	require.Empty(t, ended, "both drains wait")
}

// clustersOf returns the clusters with the access of a user with all permissions.
func clustersOf(t *testing.T, user string) *kube.Clusters {
	t.Helper()
	config, err := activitytest.Stack.Cluster(activitytest.SpokeName).UserConfig(user)
	require.NoError(t, err)
	_, err = activitytest.TestCluster(t).Clientset.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: user},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, Name: user}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	devstacktest.Granted(t, activitytest.Stack.Cluster(activitytest.SpokeName), user, authorizationv1.ResourceAttributes{Verb: "patch", Resource: "nodes"})
	theirs := kube.New(kube.FromConfigs(nil, map[string]*rest.Config{activitytest.SpokeName: config}), kube.Options{})
	t.Cleanup(theirs.Close)
	return theirs
}
