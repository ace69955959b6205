package attack

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	lcmv1 "drydock.dev/drydock/internal/apis/lcm/v1alpha1"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/devstack"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/scheduling"
	"drydock.dev/drydock/internal/temporal"
)

// A worker inside a cluster does all its work with the right to poll its own task queue and to answer its tasks: long waits with heartbeats report what they wait
// for, a cancellation reaches them, slots are granted by the state of the nodes, and the marks of a terminated workflow are cleaned up.
func workerInsideOnlyPollsAndAnswers(t *testing.T) {
	spoke := insideSpoke()
	guard := guardPod(t, spoke)
	first := maintain(t, spoke, guard.node, nil)
	blocked := first.await(func(s maintenancev1.NodeMaintenanceStatus) bool {
		return s.Wait != nil && len(s.Wait.Blockers) > 0 && s.Drain != nil
	})
	require.Equal(t, maintenancev1.NodeDraining, blocked.State)
	require.Contains(t, blocked.Wait.Message, "guard")
	since := blocked.Wait.Since

	other := "worker-1"
	if guard.node == other {
		other = "worker-2"
	}
	second := maintain(t, spoke, other, nil)
	second.await(func(s maintenancev1.NodeMaintenanceStatus) bool {
		return s.State == maintenancev1.NodePending && s.Wait != nil && s.Wait.Reason == string(scheduling.NoSlot)
	})

	t.Run("another worker continues a drain", func(t *testing.T) {
		require.NoError(t, insideWorker.Stop())
		require.NoError(t, insideWorker.Start(t.Context()))
		first.await(func(s maintenancev1.NodeMaintenanceStatus) bool { return s.Wait != nil && len(s.Wait.Blockers) > 0 })
		require.Equal(t, since, first.status().Wait.Since, "it is the same wait")
	})
	guard.release()
	first.awaitState(maintenancev1.NodeReady)
	first.signal(temporal.SignalDone)
	first.awaitState(maintenancev1.NodeCompleted)

	second.awaitState(maintenancev1.NodeReady)
	second.signal(temporal.SignalDone)
	second.awaitState(maintenancev1.NodeCompleted)

	t.Run("a cancelled drain", func(t *testing.T) {
		guard := guardPod(t, spoke)
		cancelled := maintain(t, spoke, guard.node, nil)
		cancelled.await(func(s maintenancev1.NodeMaintenanceStatus) bool { return s.Wait != nil && len(s.Wait.Blockers) > 0 })
		cancelled.signal(temporal.SignalCancel)
		cancelled.awaitState(maintenancev1.NodeCancelled)
		requireInService(t, spoke.Client, guard.node)
	})
	t.Run("a terminated drain", func(t *testing.T) {
		guard := guardPod(t, spoke)
		terminated := maintain(t, spoke, guard.node, nil)
		terminated.await(func(s maintenancev1.NodeMaintenanceStatus) bool { return s.Wait != nil && len(s.Wait.Blockers) > 0 })
		require.NoError(t, theTemporal(t).TerminateWorkflow(t.Context(), terminated.id, "", "attack"))
		require.NoError(t, theFleet.Await(t.Context(), spoke, "the sweeper returns the node", []client.Object{&corev1.Node{}},
			func(ctx context.Context, reader client.Reader) (bool, error) {
				var node corev1.Node
				err := reader.Get(ctx, client.ObjectKey{Name: guard.node}, &node)
				return !node.Spec.Unschedulable && kube.Owner(&node) == "", err
			}))
	})
	t.Run("a lock controller", func(t *testing.T) { lockControllerInside(t, spoke) })

	used, refused := answering.methods()
	require.ElementsMatch(t, []string{
		"GetSystemInfo", "DescribeNamespace", "PollActivityTaskQueue", "RecordActivityTaskHeartbeat", "RespondActivityTaskCompleted",
		"RespondActivityTaskFailed", "RespondActivityTaskCanceled",
	}, used, "docs/how-to/restrict-temporal.md lists these methods")
	require.Equal(t, []string{"ShutdownWorker"}, refused, "when it was stopped; it tries nothing else")
}

// lockControllerInside keeps the lock of an application, releases it for a maintenance, and takes it back.
func lockControllerInside(t *testing.T, spoke *devstack.Cluster) {
	guard := guardPod(t, spoke, map[string]string{corev1.LabelHostname: "worker-1"})
	admin := clientOf(t, spoke.Config)
	policy := fmt.Sprintf("apiVersion: drydock.dev/v1alpha1\nkind: WorkloadLockPolicy\nmetadata: {name: guard}\nspec:\n  controllerName: guard\n  namespace: %s\n"+
		"  nodeSelector: {matchLabels: {kubernetes.io/hostname: %s}}\n  nodePodSelector: {matchLabels: {app: %s}}\n", tenantNamespace, guard.node, guard.name)
	succeeds(t, "lock", "controller", "start", "--cluster", spoke.Name, "-f", file(t, policy))
	t.Cleanup(func() {
		ctx := context.Background()
		_, _ = theFleet.Command(ctx, "lock", "controller", "cancel", "guard", "--cluster", spoke.Name).CombinedOutput()
		_ = theTemporal(t).GetWorkflow(ctx, temporal.WorkloadLockControllerID(spoke.Name, "guard"), "").Get(ctx, nil)
		_ = admin.DeleteAllOf(ctx, &lcmv1.NodeWorkloadLock{})
		_ = admin.DeleteAllOf(ctx, &lcmv1.ClusterWorkloadLock{})
	})
	awaitLock(t, spoke, guard.node, lcmv1.LockActive)
	maintained := maintain(t, spoke, guard.node, nil)
	awaitLock(t, spoke, guard.node, lcmv1.LockInactive)
	maintained.awaitState(maintenancev1.NodeDraining)
	guard.release()
	maintained.awaitState(maintenancev1.NodeReady)
	maintained.signal(temporal.SignalDone)
	maintained.awaitState(maintenancev1.NodeCompleted)
	awaitLock(t, spoke, guard.node, lcmv1.LockActive)
}

// awaitLock waits until the only lock of a node is in a state.
func awaitLock(t *testing.T, spoke *devstack.Cluster, node string, state lcmv1.LockState) {
	t.Helper()
	require.NoError(t, theFleet.Await(t.Context(), spoke, "the lock of "+node+" is "+string(state), []client.Object{&lcmv1.NodeWorkloadLock{}},
		func(ctx context.Context, reader client.Reader) (bool, error) {
			var locks lcmv1.NodeWorkloadLockList
			err := reader.List(ctx, &locks)
			return len(locks.Items) == 1 && locks.Items[0].Spec.NodeName == node && locks.Items[0].Status.State == state, err
		}))
}
