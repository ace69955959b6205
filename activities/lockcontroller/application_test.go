package lockcontroller

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drydock.dev/drydock/activities/activitytest"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	lcmv1 "drydock.dev/drydock/internal/apis/lcm/v1alpha1"
	"drydock.dev/drydock/internal/devstack"
	"drydock.dev/drydock/internal/devstack/devstacktest"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/locks"
	"drydock.dev/drydock/internal/temporal"
)

// application is an application in the shared cluster with a pod on each of its nodes and its own locks.
type application struct {
	t       testing.TB
	cluster *kube.Cluster
	in      Input
	nodes   []string
}

func newApplication(t testing.TB, nodes int) *application {
	namespace := devstacktest.Namespace(t, activitytest.Stack.Cluster(activitytest.SpokeName))
	a := &application{t: t, cluster: activitytest.TestCluster(t), in: Input{
		Cluster: activitytest.SpokeName, Owner: "locks/" + activitytest.SpokeName + "/" + namespace + "/run", Policy: drydockv1.WorkloadLockPolicySpec{
			ControllerName:  namespace,
			NodeSelector:    metav1.LabelSelector{MatchLabels: map[string]string{namespace: "enabled"}},
			Namespace:       namespace,
			NodePodSelector: metav1.LabelSelector{MatchLabels: map[string]string{"app": "vrouter"}},
		},
	}}
	for range nodes {
		ref := activitytest.TestNode(t, func(n *devstack.Node) { n.Labels = map[string]string{namespace: "enabled"} })
		a.nodes = append(a.nodes, ref.Node)
		node := &corev1.Node{}
		require.NoError(t, a.cluster.Client.Get(t.Context(), client.ObjectKey{Name: ref.Node}, node))
		activitytest.Settled(t, activitytest.SpokeName, node)
		a.addPod(ref.Node)
	}
	t.Cleanup(a.removeLocks)
	return a
}

// removeLocks deletes the locks of the application, which would block other tests.
func (a *application) removeLocks() {
	ctx := context.Background()
	lock := &lcmv1.ClusterWorkloadLock{ObjectMeta: metav1.ObjectMeta{Name: a.in.Policy.ControllerName}}
	require.NoError(a.t, client.IgnoreNotFound(a.cluster.Client.Delete(ctx, lock)))
	var list lcmv1.NodeWorkloadLockList
	require.NoError(a.t, a.cluster.Client.List(ctx, &list))
	for i := range list.Items {
		if list.Items[i].Spec.ControllerName == a.in.Policy.ControllerName {
			require.NoError(a.t, client.IgnoreNotFound(a.cluster.Client.Delete(ctx, &list.Items[i])))
		}
	}
}

// addPod starts the application on a node and returns when the caches of the activities have its pod, which is ready.
func (a *application) addPod(node string) {
	a.t.Helper()
	pod := activitytest.Created(a.t, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: a.in.Policy.Namespace, GenerateName: "vrouter-", Labels: map[string]string{"app": "vrouter"}},
		Spec: corev1.PodSpec{
			NodeName: node, TerminationGracePeriodSeconds: ptr.To[int64](0),
			Containers: []corev1.Container{{Name: "agent", Image: "vrouter"}},
		},
	})
	cluster, err := activitytest.Clusters.Cluster(a.t.Context(), activitytest.SpokeName)
	require.NoError(a.t, err)
	ctx, cancel := context.WithTimeout(a.t.Context(), activitytest.EventTimeout)
	defer cancel()
	require.NoError(a.t, cluster.Await(ctx, []client.Object{&corev1.Pod{}}, func(ctx context.Context) (bool, error) {
		var found corev1.Pod
		err := cluster.Cache.Get(ctx, client.ObjectKeyFromObject(pod), &found)
		return err == nil && len(found.Status.ContainerStatuses) == 1 && found.Status.ContainerStatuses[0].Ready, nil
	}))
}

func (a *application) removePod(node string) {
	a.t.Helper()
	var pods corev1.PodList
	require.NoError(a.t, a.cluster.Client.List(a.t.Context(), &pods, client.InNamespace(a.in.Policy.Namespace)))
	for i := range pods.Items {
		if pods.Items[i].Spec.NodeName == node {
			require.NoError(a.t, a.cluster.Client.Delete(a.t.Context(), &pods.Items[i], client.GracePeriodSeconds(0)))
		}
	}
}

func (a *application) request(node string) *lcmv1.NodeMaintenanceRequest {
	a.t.Helper()
	return activitytest.Created(a.t, &lcmv1.NodeMaintenanceRequest{
		ObjectMeta: metav1.ObjectMeta{Name: "request-" + node}, Spec: lcmv1.NodeMaintenanceRequestSpec{NodeName: node},
	})
}

func (a *application) withdraw(object client.Object) {
	a.t.Helper()
	require.NoError(a.t, a.cluster.Client.Delete(a.t.Context(), object))
}

// step waits until a change is due and applies it, like the workflow.
func (a *application) step() locks.Report {
	a.t.Helper()
	ctx, cancel := context.WithTimeout(a.t.Context(), activitytest.EventTimeout)
	defer cancel()
	controller := &Activities{Clusters: activitytest.Clusters}
	due, err := controller.ObserveWorkloadLocks(ctx, a.in)
	require.NoError(a.t, err)
	a.t.Logf("due: %+v", due.Changes)
	report, err := controller.ApplyWorkloadLocks(ctx, a.in)
	for temporal.ErrorType(err) == temporal.ErrClusterUnreachable && ctx.Err() == nil { // a busy server
		report, err = controller.ApplyWorkloadLocks(ctx, a.in)
	}
	require.NoError(a.t, err)
	return report
}

// stepUntil runs steps until the report is as expected.
func (a *application) stepUntil(expected func(locks.Report) bool) {
	a.t.Helper()
	for !expected(a.step()) {
	}
}

// run runs steps until the end of the test.
func (a *application) run() {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() {
		controller := &Activities{Clusters: activitytest.Clusters}
		for {
			if _, err := controller.ObserveWorkloadLocks(ctx, a.in); err != nil {
				ended <- err
				return
			}
			if _, err := controller.ApplyWorkloadLocks(ctx, a.in); err != nil {
				ended <- err
				return
			}
		}
	}()
	a.t.Cleanup(func() {
		cancel()
		require.ErrorIs(a.t, <-ended, context.Canceled)
	})
}

// lock reads a node's lock from the API server.
func (a *application) lock(node string) *lcmv1.NodeWorkloadLock {
	a.t.Helper()
	lock := &lcmv1.NodeWorkloadLock{}
	require.NoError(a.t, a.cluster.Client.Get(a.t.Context(), client.ObjectKey{Name: a.in.Policy.ControllerName + "-" + node}, lock))
	return lock
}

func (a *application) clusterLock() *lcmv1.ClusterWorkloadLock {
	a.t.Helper()
	lock := &lcmv1.ClusterWorkloadLock{}
	require.NoError(a.t, a.cluster.Client.Get(a.t.Context(), client.ObjectKey{Name: a.in.Policy.ControllerName}, lock))
	return lock
}

func (a *application) awaitState(node string, state lcmv1.LockState) {
	a.t.Helper()
	require.Eventually(a.t, func() bool { return a.lock(node).Status.State == state }, activitytest.EventTimeout, 5*time.Millisecond, "%s to be %s", node, state)
}

// awayUntilReady serves a node whose pod is missing when the request is withdrawn, until the pod is ready again.
func (a *application) awayUntilReady() {
	a.t.Helper()
	request := a.request(a.nodes[0])
	a.awaitState(a.nodes[0], lcmv1.LockInactive)
	a.removePod(a.nodes[0])
	a.withdraw(request)
	require.Eventually(a.t, func() bool { return strings.Contains(a.lock(a.nodes[0]).Status.ErrorMessage, "is not back") }, activitytest.EventTimeout, 5*time.Millisecond)
	a.addPod(a.nodes[0])
}

// control returns a workload that determines the health of the application.
func control(namespace string) *appsv1.Deployment {
	labels := map[string]string{"app": "control"}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "control", Labels: labels},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "control", Image: "control"}}},
			},
		},
	}
}
