package lockcontroller

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drydock.dev/drydock/activities/activitytest"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	lcmv1 "drydock.dev/drydock/internal/apis/lcm/v1alpha1"
	"drydock.dev/drydock/internal/devstack/devstacktest"
	"drydock.dev/drydock/internal/devstack/faultproxy"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/locks"
	"drydock.dev/drydock/internal/temporal"
)

// bareApplication returns an application in the bare cluster. Tests create its nodes and pods.
func bareApplication(t *testing.T) Input {
	t.Helper()
	hub := activitytest.BareCluster(t)
	app := devstacktest.Namespace(t, activitytest.Stack.Cluster(activitytest.HubName))
	t.Cleanup(func() {
		ctx := context.Background()
		lock := &lcmv1.ClusterWorkloadLock{ObjectMeta: metav1.ObjectMeta{Name: app}}
		require.NoError(t, client.IgnoreNotFound(hub.Client.Delete(ctx, lock)))
		var nodes lcmv1.NodeWorkloadLockList
		require.NoError(t, hub.Client.List(ctx, &nodes))
		for i := range nodes.Items {
			if nodes.Items[i].Spec.ControllerName == app {
				require.NoError(t, client.IgnoreNotFound(hub.Client.Delete(ctx, &nodes.Items[i])))
			}
		}
	})
	return Input{Cluster: activitytest.HubName, Owner: "locks/" + activitytest.HubName + "/" + app + "/run", Policy: drydockv1.WorkloadLockPolicySpec{
		ControllerName: app, NodeSelector: metav1.LabelSelector{MatchLabels: map[string]string{app: "enabled"}},
		Namespace: app, NodePodSelector: metav1.LabelSelector{MatchLabels: map[string]string{"app": "vrouter"}},
	}}
}

func TestALockDoesNotFailForAPodThatTheWatchMisses(t *testing.T) {
	in := bareApplication(t)
	_, seen, ref := activitytest.StaleLocks(t, "stale-7", "pods", &corev1.PodList{})
	hub, app := activitytest.BareCluster(t), in.Policy.ControllerName
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: ref.Node}}
	enable := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"`+app+`":"enabled"}}}`))
	require.NoError(t, hub.Client.Patch(t.Context(), node, enable))
	request := activitytest.Create(t, hub, &lcmv1.NodeMaintenanceRequest{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "stale-"}, Spec: lcmv1.NodeMaintenanceRequestSpec{NodeName: ref.Node},
	})
	require.NoError(t, seen.Await(t.Context(), []client.Object{&corev1.Node{}, &lcmv1.NodeMaintenanceRequest{}}, func(ctx context.Context) (bool, error) {
		err := errors.Join(seen.Cache.Get(ctx, client.ObjectKeyFromObject(node), node), seen.Cache.Get(ctx, client.ObjectKeyFromObject(request), request))
		return err == nil && node.Labels[app] == "enabled", nil
	}))
	in.Policy.NodePodDeadlineSeconds = new(int32(-1)) // it has passed when the pod is found missing

	activitytest.Create(t, hub, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: app, Name: "default"}})
	pod := activitytest.Create(t, hub, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: app, GenerateName: "vrouter-", Labels: map[string]string{"app": "vrouter"}},
		Spec:       corev1.PodSpec{NodeName: ref.Node, Containers: []corev1.Container{{Name: "agent", Image: "vrouter"}}},
	})
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "agent", Ready: true}}
	require.NoError(t, hub.Client.Status().Update(t.Context(), pod))
	writer, err := activitytest.Clusters.Cluster(t.Context(), activitytest.HubName)
	require.NoError(t, err)
	c := &controller{cluster: &kube.Cluster{Name: activitytest.HubName, Cache: seen.Cache, Client: seen.Client, LockController: writer.LockController}, in: in}
	require.NoError(t, c.read(t.Context()))
	report, err := c.keep(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, report.Total)
	require.Equal(t, 1, report.Inactive, "%+v", report.Nodes)
	require.Error(t, seen.Cache.Get(t.Context(), client.ObjectKeyFromObject(pod), pod), "the cache does not have it")
}

func TestLocksAreReportedUnmanagedWhileTheAPIServerIsDown(t *testing.T) {
	in := bareApplication(t)
	kept, err := (&Activities{Clusters: activitytest.Clusters}).ApplyWorkloadLocks(t.Context(), in)
	require.NoError(t, err)

	f := activitytest.NewFaultyClusters(t)
	controller := &Activities{Clusters: f.Clusters}
	again, err := controller.ApplyWorkloadLocks(t.Context(), in)
	require.NoError(t, err)
	require.Equal(t, kept, again)
	require.Equal(t, string(locks.NoMaintenance), again.Wait().Reason)
	f.Proxy.Inject(faultproxy.Rule{Fault: faultproxy.HangUp()})
	_, err = controller.ApplyWorkloadLocks(t.Context(), in)
	require.Equal(t, temporal.ErrClusterUnreachable, temporal.ErrorType(err), "nothing is due according to the cache")
	f.Proxy.RemoveAll()
	_, err = controller.ApplyWorkloadLocks(t.Context(), in)
	require.NoError(t, err)
}
