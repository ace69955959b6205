package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	sdktemporal "go.temporal.io/sdk/temporal"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubeclient "sigs.k8s.io/controller-runtime/pkg/client"

	lcmv1 "drydock.dev/drydock/internal/apis/lcm/v1alpha1"
	"drydock.dev/drydock/internal/devstack"
	"drydock.dev/drydock/internal/temporal"
)

const (
	// router and storage are the applications with locks. The demo deploys the router.
	router, storage = "vrouter", "storage"
	// testTaint keeps pods of other tests away from the nodes that a test has added.
	testTaint = "e2e.drydock.dev/locks"
)

// storagePolicy is the policy of an application on all workers.
const storagePolicy = `
apiVersion: drydock.dev/v1alpha1
kind: WorkloadLockPolicy
metadata: {name: storage}
spec:
  controllerName: storage
  namespace: storage
  nodeSelector: {matchExpressions: [{key: node-role.kubernetes.io/control-plane, operator: DoesNotExist}]}
  nodePodSelector: {matchLabels: {app: storage}}
`

// deployStorage deploys a second application with one pod on every worker of a spoke and locks that Drydock manages, and removes it after the test. A
// drain evicts the pod of a node; a new pod starts after the uncordon and becomes ready a moment later.
func deployStorage(t *testing.T, spoke *devstack.Cluster, workers int) {
	t.Helper()
	namespaces := spoke.Client.CoreV1().Namespaces()
	_, err := namespaces.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: storage}}, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, namespaces.Delete(context.Background(), storage, metav1.DeleteOptions{})) })
	pods := deployment(storage, int32(workers), map[string]string{devstack.AnnotationReadyAfter: "500ms"})
	pods.Namespace = storage
	pods.Spec.Template.Spec.NodeSelector = map[string]string{"node-role.kubernetes.io/worker": ""}
	pods.Spec.Template.Spec.Tolerations = []corev1.Toleration{{Key: testTaint, Operator: corev1.TolerationOpExists}}
	pods.Spec.Template.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{TopologyKey: corev1.LabelHostname, LabelSelector: pods.Spec.Selector}},
	}}
	_, err = spoke.Client.AppsV1().Deployments(storage).Create(t.Context(), pods, metav1.CreateOptions{})
	require.NoError(t, err)
	require.NoError(t, theFleet.AwaitWorkloads(t.Context(), spoke))
	connected := temporalClient(t)
	policy := filepath.Join(t.TempDir(), "policy.yaml")
	require.NoError(t, os.WriteFile(policy, []byte(storagePolicy), 0o600))
	succeeds(t, "lock", "controller", "start", "--cluster", spoke.Name, "-f", policy)
	t.Cleanup(func() { removeStorageLocks(t, connected, spoke) })
	require.NoError(t, theFleet.AwaitLocks(t.Context(), spoke, 2*workers))
}

// removeStorageLocks cancels the lock controller and deletes its locks, which would hold the spoke for other tests.
func removeStorageLocks(t *testing.T, connected client.Client, spoke *devstack.Cluster) {
	ctx := context.Background()
	require.NoError(t, theFleet.Run(ctx, os.Stderr, "lock", "controller", "cancel", storage, "--cluster", spoke.Name))
	require.True(t, sdktemporal.IsCanceledError(connected.GetWorkflow(ctx, temporal.WorkloadLockControllerID(spoke.Name, storage), "").Get(ctx, nil)))
	watched, err := theFleet.Watch(ctx, spoke)
	require.NoError(t, err)
	var locks lcmv1.NodeWorkloadLockList
	require.NoError(t, watched.Client.List(ctx, &locks))
	for i := range locks.Items {
		if locks.Items[i].Spec.ControllerName == storage {
			require.NoError(t, kubeclient.IgnoreNotFound(watched.Client.Delete(ctx, &locks.Items[i])))
		}
	}
	require.NoError(t, kubeclient.IgnoreNotFound(watched.Client.Delete(ctx, &lcmv1.ClusterWorkloadLock{ObjectMeta: metav1.ObjectMeta{Name: storage}})))
}

// addTaintedWorkers adds workers to a spoke that run only pods of the test, and removes them with their locks after the test.
func addTaintedWorkers(t *testing.T, spoke *devstack.Cluster, names ...string) {
	t.Helper()
	var nodes []devstack.Node
	for _, name := range names {
		nodes = append(nodes, devstack.Node{Name: name, Taints: []corev1.Taint{{Key: testTaint, Effect: corev1.TaintEffectNoSchedule}}})
	}
	require.NoError(t, spoke.AddNodes(t.Context(), nodes...))
	t.Cleanup(func() {
		for _, name := range names {
			require.NoError(t, spoke.Client.CoreV1().Nodes().Delete(context.Background(), name, metav1.DeleteOptions{}))
		}
		require.NoError(t, theFleet.AwaitLocks(context.Background(), spoke, workers))
	})
	require.NoError(t, theFleet.AwaitLocks(t.Context(), spoke, workers+len(names)))
}

// deployTenants deploys pods on the added workers.
func deployTenants(t *testing.T, spoke *devstack.Cluster, pods int32) {
	t.Helper()
	tenants := deployment("tenant", pods, nil)
	tenants.Spec.Template.Spec.Tolerations = []corev1.Toleration{{Key: testTaint, Operator: corev1.TolerationOpExists}}
	tenants.Spec.Template.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
		MaxSkew: 1, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.ScheduleAnyway, LabelSelector: tenants.Spec.Selector,
	}}
	deploy(t, spoke, tenants)
	require.NoError(t, theFleet.AwaitWorkloads(t.Context(), spoke))
}

// awaitReleased waits until an application has released a node.
func awaitReleased(t *testing.T, spoke *devstack.Cluster, application, node string) {
	t.Helper()
	require.NoError(t, theFleet.Await(t.Context(), spoke, application+" has released "+node, []kubeclient.Object{&lcmv1.NodeWorkloadLock{}},
		func(ctx context.Context, reader kubeclient.Reader) (bool, error) {
			var locks lcmv1.NodeWorkloadLockList
			err := reader.List(ctx, &locks)
			return slices.ContainsFunc(locks.Items, func(l lcmv1.NodeWorkloadLock) bool {
				return l.Spec.ControllerName == application && l.Spec.NodeName == node && l.Status.State == lcmv1.LockInactive
			}), err
		}))
}

// awaitRequested waits until a node is requested, or is no longer requested.
func awaitRequested(t *testing.T, spoke *devstack.Cluster, node string, requested bool) {
	t.Helper()
	require.NoError(t, theFleet.Await(t.Context(), spoke, fmt.Sprintf("%s is requested: %t", node, requested), []kubeclient.Object{&lcmv1.NodeMaintenanceRequest{}},
		func(ctx context.Context, reader kubeclient.Reader) (bool, error) {
			var requests lcmv1.NodeMaintenanceRequestList
			err := reader.List(ctx, &requests)
			return slices.ContainsFunc(requests.Items, func(r lcmv1.NodeMaintenanceRequest) bool { return r.Spec.NodeName == node }) == requested, err
		}))
}

// awaitRequests waits until that many nodes are requested.
func awaitRequests(t *testing.T, spoke *devstack.Cluster, count int) {
	t.Helper()
	require.NoError(t, theFleet.Await(t.Context(), spoke, fmt.Sprintf("%d nodes are requested", count), []kubeclient.Object{&lcmv1.NodeMaintenanceRequest{}},
		func(ctx context.Context, reader kubeclient.Reader) (bool, error) {
			var requests lcmv1.NodeMaintenanceRequestList
			err := reader.List(ctx, &requests)
			return len(requests.Items) == count, err
		}))
}

// delayStorage keeps the application's next pod on a node from becoming ready.
func delayStorage(t *testing.T, spoke *devstack.Cluster, node string) {
	t.Helper()
	delayed := ""
	require.NoError(t, theFleet.Await(t.Context(), spoke, "a new pod of storage is on "+node, []kubeclient.Object{&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: storage}}},
		func(ctx context.Context, reader kubeclient.Reader) (bool, error) {
			var pods corev1.PodList
			err := reader.List(ctx, &pods, kubeclient.InNamespace(storage))
			for _, pod := range pods.Items {
				// Before the uncordon it has no node: it becomes ready soon after it has one.
				if (pod.Spec.NodeName == node || pod.Spec.NodeName == "") && pod.DeletionTimestamp == nil && !podReady(&pod) {
					delayed = pod.Name
				}
			}
			return delayed != "", err
		}))
	setReadyAfter(t, spoke, delayed, fmt.Sprintf("%q", longer))
}

// disturbStorage makes the application's pod on a node not ready, until completeStorage.
func disturbStorage(t *testing.T, spoke *devstack.Cluster, node string) {
	t.Helper()
	pods := spoke.Client.CoreV1().Pods(storage)
	found, err := pods.List(t.Context(), metav1.ListOptions{FieldSelector: "spec.nodeName=" + node})
	require.NoError(t, err)
	require.Len(t, found.Items, 1)
	setReadyAfter(t, spoke, found.Items[0].Name, fmt.Sprintf("%q", longer))
	patch := []byte(`{"status":{"phase":"Pending","conditions":[{"type":"Ready","status":"False"},{"type":"ContainersReady","status":"False"}]}}`)
	_, err = pods.Patch(t.Context(), found.Items[0].Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	require.NoError(t, err)
}

// completeStorage makes the application's pod on a node ready.
func completeStorage(t *testing.T, spoke *devstack.Cluster, node string) {
	t.Helper()
	pods, err := spoke.Client.CoreV1().Pods(storage).List(t.Context(), metav1.ListOptions{FieldSelector: "spec.nodeName=" + node})
	require.NoError(t, err)
	for _, pod := range pods.Items {
		setReadyAfter(t, spoke, pod.Name, "null")
	}
}

func setReadyAfter(t *testing.T, spoke *devstack.Cluster, pod, value string) {
	t.Helper()
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%s}}}`, devstack.AnnotationReadyAfter, value)
	_, err := spoke.Client.CoreV1().Pods(storage).Patch(t.Context(), pod, types.MergePatchType, patch, metav1.PatchOptions{})
	require.NoError(t, err)
}

// setState sets the state of a lock as a foreign controller does.
func setState(t *testing.T, spoke *devstack.Cluster, lock kubeclient.Object, state lcmv1.LockState) {
	t.Helper()
	watched, err := theFleet.Watch(t.Context(), spoke)
	require.NoError(t, err)
	patch := fmt.Appendf(nil, `{"status":{"state":%q}}`, state)
	require.NoError(t, watched.Client.Status().Patch(t.Context(), lock, kubeclient.RawPatch(types.MergePatchType, patch)))
}
