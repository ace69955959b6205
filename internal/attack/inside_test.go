package attack

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
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

	used, refused := answering.methods()
	require.ElementsMatch(t, []string{
		"GetSystemInfo", "DescribeNamespace", "PollActivityTaskQueue", "RecordActivityTaskHeartbeat", "RespondActivityTaskCompleted",
		"RespondActivityTaskFailed", "RespondActivityTaskCanceled",
	}, used, "docs/how-to/restrict-temporal.md lists these methods")
	require.Equal(t, []string{"ShutdownWorker"}, refused, "when it was stopped; it tries nothing else")
}
