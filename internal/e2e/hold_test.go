package e2e

import (
	"context"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/devstack"
	"drydock.dev/drydock/internal/devstack/fleet"
	planning "drydock.dev/drydock/internal/rollout"
	"drydock.dev/drydock/internal/temporal"
)

// reasonHeld is the reason in the status of held work.
const reasonHeld = "Held"

func TestAHoldDuringADrainFinishesTheEvictionAndStartsNothing(t *testing.T) {
	reserve(t, "spoke-4")
	spoke := theFleet.Cluster("spoke-4")
	slowPod := deploySlowPod(t, spoke, "worker-1", map[string]string{devstack.AnnotationLeaveAfter: "1000h"})
	before := len(actionsOf(t, spoke))
	startRollout(t, rollout("held", "", 60, spoke.Name))
	awaitEviction(t, spoke, slowPod)

	require.Contains(t, succeeds(t, "hold", "--cluster", spoke.Name, "--reason", "flood in hall 2"), "flood in hall 2")
	t.Cleanup(func() { _ = theFleet.Run(context.Background(), io.Discard, "release", "--cluster", spoke.Name) })
	ask(t, temporal.NodeMaintenanceID(spoke.Name, "default", planning.NodeMaintenanceName("held", "worker-1")),
		func(s maintenancev1.NodeMaintenanceStatus) bool { return s.Held != nil })
	releasePods(t, spoke, slowPod)
	held := awaitStatus(t, "held", func(s ranv1.ClusterGroupUpgradeStatus) bool {
		return clusterAt(s, 0).Reason == reasonHeld && clusterAt(s, 0).Held != nil && s.Held != nil && s.Status.CurrentBatchDeadline == nil
	})
	require.Equal(t, "worker-1: Draining", held.Clusters[0].Step)
	require.Equal(t, "flood in hall 2", held.Held.Reason)
	require.Equal(t, "flood in hall 2", held.Clusters[0].Held.Reason)

	require.Empty(t, evictable(t, spoke, "worker-1"), "the drain is complete")
	actions := actionsOf(t, spoke)[before:]
	require.Equal(t, []string{"control-plane-1", "worker-1"}, fleet.Cordoned(actions))
	require.Equal(t, 1, fleet.Count(nil, actions)[fleet.ActionJob], "only the control plane has had its Job")
	require.True(t, node(t, spoke, "worker-1").Spec.Unschedulable, "the node stays cordoned")

	succeeds(t, "release", "--cluster", spoke.Name)
	succeeds(t, "upgrade", "status", "held", "--watch")
	require.NoError(t, theFleet.AwaitCleanup(t.Context(), spoke))
	after := actionsOf(t, spoke)[before:]
	require.Equal(t, actions, after[:len(actions)])
	require.Equal(t, fleet.ActionJob, after[len(actions)].What, "the maintenance resumes with the Job")
	require.Len(t, fleet.Cordoned(after), workers+1)
	requireNoPodEvictedTwice(t, after)
}

func TestWorkflowsStartedDuringAHoldOnlyWait(t *testing.T) {
	alone(t)
	spoke := theFleet.Cluster("spoke-3")
	before := len(actionsOf(t, spoke))
	succeeds(t, "hold", "--all", "--reason", "change freeze")
	t.Cleanup(func() { _ = theFleet.Run(context.Background(), io.Discard, "release", "--all") })
	startRollout(t, rollout("frozen", "", 60, spoke.Name))
	succeeds(t, "node", "maintain", "worker-1", "--cluster", spoke.Name, "--name", "frozen")

	frozen := awaitStatus(t, "frozen", func(s ranv1.ClusterGroupUpgradeStatus) bool { return s.Wait != nil && s.Wait.Reason == reasonHeld })
	require.Contains(t, frozen.Wait.Message, "change freeze")
	require.Contains(t, conditionMessage(frozen, ranv1.ConditionProgressing), "True InProgress: Held; ")
	require.Equal(t, ranv1.ClusterPending, frozen.Clusters[0].State)
	require.Equal(t, reasonHeld, awaitNode(t, "frozen", spoke).Wait.Reason)
	require.EventuallyWithT(t, func(c *assert.CollectT) { // a busy worker may not answer in time
		found := drydock(t, "doctor")
		assert.Zero(c, found.code, found.out)
		assert.Contains(c, found.out, "every cluster is held since")
	}, stateLimit, 200*time.Millisecond)
	require.Len(t, actionsOf(t, spoke), before)

	// A cancel works during a hold, and changes nothing on the cluster.
	succeeds(t, "node", "cancel", "frozen", "--cluster", spoke.Name)
	require.Equal(t, 1, drydock(t, "node", "status", "frozen", "--cluster", spoke.Name, "--watch").code)
	require.Len(t, actionsOf(t, spoke), before)

	succeeds(t, "release", "--all")
	succeeds(t, "upgrade", "status", "frozen", "--watch")
	require.Len(t, fleet.Cordoned(actionsOf(t, spoke)[before:]), workers+1)
}

// After a restore from a backup, workflows know the hold before a worker runs: the drain ends while none does, and its Job is due as soon as one runs.
func TestRestoredWorkIsHeldBeforeItContinues(t *testing.T) {
	alone(t)
	spoke := theFleet.Cluster("spoke-3")
	slowPod := deploySlowPod(t, spoke, "worker-1", map[string]string{devstack.AnnotationLeaveAfter: "1000h"})
	before := len(actionsOf(t, spoke))
	succeeds(t, "hold", "--cluster", "spoke-4", "--reason", "hall 4")
	t.Cleanup(func() { _ = theFleet.Run(context.Background(), io.Discard, "release", "--cluster", "spoke-4") })
	startRollout(t, rollout("restored", "", 60, spoke.Name))
	awaitEviction(t, spoke, slowPod)
	require.NoError(t, theFleet.Worker.Kill())
	releasePods(t, spoke, slowPod)

	require.Contains(t, drydock(t, "hold", "--cluster", spoke.Name, "--restored").err, "--restored is for all clusters: set --all")
	require.Regexp(t, `every cluster is held: \d+ workflows are notified`, succeeds(t, "hold", "--all", "--restored", "--reason", "back from tape"))
	t.Cleanup(func() { _ = theFleet.Run(context.Background(), io.Discard, "release", "--all") })
	require.NoError(t, theFleet.Worker.Start(t.Context()))
	awaitStatus(t, "restored", func(s ranv1.ClusterGroupUpgradeStatus) bool {
		return s.Held != nil && s.Held.Reason == "back from tape" && clusterAt(s, 0).Reason == reasonHeld
	})
	require.Equal(t, 1, fleet.Count(nil, actionsOf(t, spoke)[before:])[fleet.ActionJob], "only the control plane has had its Job")
	require.Contains(t, succeeds(t, "hold", "status"), "hall 4", "the hub has it")

	succeeds(t, "release", "--all")
	succeeds(t, "upgrade", "status", "restored", "--watch")
	require.Len(t, fleet.Cordoned(actionsOf(t, spoke)[before:]), workers+1)
}

// releasePods lets the pods of a Deployment terminate, and scales it down.
func releasePods(t *testing.T, spoke *devstack.Cluster, app string) {
	t.Helper()
	_, err := spoke.Client.AppsV1().Deployments("shop").Patch(t.Context(), app, types.MergePatchType, []byte(`{"spec":{"replicas":0}}`), metav1.PatchOptions{})
	require.NoError(t, err)
	require.NoError(t, theFleet.Await(t.Context(), spoke, "the pods of "+app+" are gone", []client.Object{&corev1.Pod{}},
		func(ctx context.Context, reader client.Reader) (bool, error) {
			var pods corev1.PodList
			if err := reader.List(ctx, &pods, client.MatchingLabels{"app": app}); err != nil || len(pods.Items) == 0 {
				return err == nil, err
			}
			endSlowTermination(t, spoke, app)
			return false, nil
		}))
}

// awaitNode waits until a maintenance waits, and returns its status.
func awaitNode(t *testing.T, name string, spoke *devstack.Cluster) maintenancev1.NodeMaintenanceStatus {
	t.Helper()
	return awaitNodeStatus(t, spoke, name, func(s maintenancev1.NodeMaintenanceStatus) bool {
		return s.Wait != nil && s.Wait.Reason != "AwaitingAcceptance"
	})
}
