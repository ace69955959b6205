package e2e

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/devstack"
	"drydock.dev/drydock/internal/devstack/fleet"
)

func TestAManualMaintenanceFromRequestToReturn(t *testing.T) {
	reserve(t, "spoke-1")
	spoke := theFleet.Cluster("spoke-1")
	before := len(actionsOf(t, spoke))
	succeeds(t, "node", "maintain", "worker-1", "--cluster", spoke.Name, "--requestor", "ann.example.com", "--name", "by-hand", "--wait")
	require.True(t, node(t, spoke, "worker-1").Spec.Unschedulable)
	require.Empty(t, evictable(t, spoke, "worker-1"), "the node is ready without pods")

	succeeds(t, "node", "done", "by-hand", "--cluster", spoke.Name)
	succeeds(t, "node", "status", "by-hand", "--cluster", spoke.Name, "--watch")
	require.NoError(t, theFleet.AwaitCleanup(t.Context(), spoke))
	actions := actionsOf(t, spoke)[before:]
	require.Equal(t, []string{"worker-1"}, fleet.Cordoned(actions))
	require.Contains(t, actions[indexOf(actions, fleet.ActionUncordon)].Object, "worker-1")
	requireEventsOnce(t, spoke, "worker-1", "by-hand", "Pending", "Cordon", "Drained", "Ready", "Completed")
}

func TestACordonOfAnotherOwnerStays(t *testing.T) {
	reserve(t, "spoke-1")
	spoke := theFleet.Cluster("spoke-1")
	cordon(t, spoke, "worker-2", true)
	before := len(actionsOf(t, spoke))
	succeeds(t, "node", "maintain", "worker-2", "--cluster", spoke.Name, "--name", "foreign", "--wait")
	succeeds(t, "node", "done", "foreign", "--cluster", spoke.Name)
	succeeds(t, "node", "status", "foreign", "--cluster", spoke.Name, "--watch")

	require.True(t, node(t, spoke, "worker-2").Spec.Unschedulable)
	require.Equal(t, -1, indexOf(actionsOf(t, spoke)[before:], fleet.ActionUncordon))
	cordon(t, spoke, "worker-2", false)
	require.NoError(t, theFleet.AwaitCleanup(t.Context(), spoke))
}

func TestAMaintenanceSurvivesAKilledWorker(t *testing.T) {
	alone(t)
	spoke := theFleet.Cluster("spoke-2")
	slowPod := deploySlowPod(t, spoke, "worker-1", map[string]string{devstack.AnnotationLeaveAfter: "1000h"})
	before := len(actionsOf(t, spoke))
	succeeds(t, "node", "maintain", "worker-1", "--cluster", spoke.Name, "--name", "killed", "--drain-timeout", "0")
	t.Cleanup(func() { // a running maintenance would block the next tests
		_ = theFleet.Run(context.Background(), io.Discard, "node", "cancel", "killed", "--cluster", spoke.Name)
	})
	awaitEviction(t, spoke, slowPod)
	require.Eventually(t, func() bool { // without a worker, the command knows the state that Temporal lists
		return strings.Contains(drydock(t, "node", "list", "--cluster", spoke.Name, "-o", "json").out, string(maintenancev1.NodeDraining))
	}, stateLimit, 200*time.Millisecond)
	require.NoError(t, theFleet.Worker.Kill())
	early := drydock(t, "node", "done", "killed", "--cluster", spoke.Name)
	require.Contains(t, early.err, "killed in cluster spoke-2 is Draining: wait until it is Ready", "the command reads the state without a worker, and does not cancel the maintenance")
	require.NoError(t, theFleet.Worker.Start(t.Context()))
	endSlowTermination(t, spoke, slowPod)

	awaitEmpty(t, spoke, "worker-1")
	awaitDone(t, "killed", spoke)
	succeeds(t, "node", "status", "killed", "--cluster", spoke.Name, "--watch")
	require.NoError(t, theFleet.AwaitCleanup(t.Context(), spoke))
	actions := actionsOf(t, spoke)[before:]
	require.Equal(t, 1, fleet.Count(nil, actions)[fleet.ActionCordon], "cordoned once")
	requireNoPodEvictedTwice(t, actions)
	requireEventsOnce(t, spoke, "worker-1", "killed", "Pending", "Cordon", "Drained", "Ready", "Completed")
}

// awaitEmpty waits until only DaemonSet pods are on the node.
func awaitEmpty(t *testing.T, spoke *devstack.Cluster, node string) {
	t.Helper()
	require.NoError(t, theFleet.Await(t.Context(), spoke, node+" is empty", []client.Object{&corev1.Pod{}},
		func(context.Context, client.Reader) (bool, error) { return len(evictable(t, spoke, node)) == 0, nil }))
}

// awaitDone sends done until it is accepted, because a drained node becomes ready a moment later.
func awaitDone(t *testing.T, name string, spoke *devstack.Cluster) {
	t.Helper()
	require.Eventually(t, func() bool { return drydock(t, "node", "done", name, "--cluster", spoke.Name).code == 0 }, stateLimit, 200*time.Millisecond)
}

func requireNoPodEvictedTwice(t *testing.T, actions []fleet.Action) {
	t.Helper()
	evicted := map[types.UID]string{} // by UID: pods of a StatefulSet keep their names
	for _, action := range actions {
		if action.What == fleet.ActionEviction {
			require.NotContains(t, evicted, action.UID, "%s is evicted twice", action.Object)
			evicted[action.UID] = action.Object
		}
	}
	require.NotEmpty(t, evicted)
}

func node(t *testing.T, spoke *devstack.Cluster, name string) *corev1.Node {
	t.Helper()
	found, err := spoke.Client.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
	require.NoError(t, err)
	return found
}

// evictable returns the pods on a node without those of DaemonSets.
func evictable(t *testing.T, spoke *devstack.Cluster, node string) []string {
	t.Helper()
	pods, err := spoke.Client.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{FieldSelector: "spec.nodeName=" + node})
	require.NoError(t, err)
	var names []string
	for _, pod := range pods.Items {
		if !slices.ContainsFunc(pod.OwnerReferences, func(o metav1.OwnerReference) bool { return o.Kind == "DaemonSet" }) {
			names = append(names, pod.Name)
		}
	}
	return names
}

// cordon cordons or uncordons a node as a user of kubectl.
func cordon(t *testing.T, spoke *devstack.Cluster, name string, unschedulable bool) {
	t.Helper()
	patch := `{"spec":{"unschedulable":true}}`
	if !unschedulable {
		patch = strings.Replace(patch, "true", "null", 1)
	}
	_, err := spoke.Client.CoreV1().Nodes().Patch(t.Context(), name, types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{})
	require.NoError(t, err)
	require.NoError(t, theFleet.Await(t.Context(), spoke, fmt.Sprintf("%s is unschedulable: %t", name, unschedulable), []client.Object{&corev1.Node{}},
		func(ctx context.Context, reader client.Reader) (bool, error) {
			var node corev1.Node
			err := reader.Get(ctx, client.ObjectKey{Name: name}, &node)
			return node.Spec.Unschedulable == unschedulable, err
		}))
}
