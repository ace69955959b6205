package e2e

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/devstack"
	"drydock.dev/drydock/internal/devstack/fleet"
	"drydock.dev/drydock/internal/scheduling"
	"drydock.dev/drydock/internal/temporal"
)

// awaitNodeStatus queries the status of a maintenance until it matches.
func awaitNodeStatus(t *testing.T, spoke *devstack.Cluster, name string, matches func(maintenancev1.NodeMaintenanceStatus) bool) maintenancev1.NodeMaintenanceStatus {
	t.Helper()
	return ask(t, temporal.NodeMaintenanceID(spoke.Name, "default", name), matches)
}

func TestSeveralRequestorsShareOneNode(t *testing.T) {
	shared(t)
	t.Run("a requestor joins a maintenance, and the node stays until all are done", joinMaintenance)
	t.Run("a requestor waits for a node whose maintenance is terminated", waitForTerminatedOwner)
	t.Run("a rollout waits for a node", waitWithRollout)
}

func joinMaintenance(t *testing.T) {
	reserve(t, "spoke-1")
	spoke := theFleet.Cluster("spoke-1")
	const worker = "worker-1"
	deployTenants(t, spoke, 2*workers)
	before := len(actionsOf(t, spoke))
	succeeds(t, "node", "maintain", worker, "--cluster", spoke.Name, "--requestor", "driver.example.com", "--name", "driver", "--wait")
	joined := succeeds(t, "node", "join", "driver", "--cluster", spoke.Name, "--requestor", "firmware.example.com")
	require.Contains(t, joined, "firmware.example.com joined; the node is ready")

	succeeds(t, "node", "done", "driver", "--cluster", spoke.Name)
	awaitNodeStatus(t, spoke, "driver", func(s maintenancev1.NodeMaintenanceStatus) bool {
		return s.State == maintenancev1.NodeReady && len(s.Requestors) == 2 && s.Requestors[0].State == maintenancev1.RequestorDone
	})
	require.True(t, node(t, spoke, worker).Spec.Unschedulable, "the node stays cordoned for the other requestor")

	succeeds(t, "node", "done", "driver", "--requestor", "firmware.example.com", "--cluster", spoke.Name)
	succeeds(t, "node", "status", "driver", "--cluster", spoke.Name, "--watch")
	require.NoError(t, theFleet.AwaitCleanup(t.Context(), spoke))
	actions := actionsOf(t, spoke)[before:]
	count := fleet.Count(nil, actions)
	require.Equal(t, 1, count[fleet.ActionCordon], "cordoned once")
	require.Equal(t, 1, count[fleet.ActionUncordon], "returned once")
	requireNoPodEvictedTwice(t, actions)
	require.Contains(t, drydock(t, "node", "join", "driver", "--cluster", spoke.Name, "--requestor", "late.example.com").err, "has already ended")
}

// waitsForNode reports whether a maintenance waits for another owner of its node.
func waitsForNode(s maintenancev1.NodeMaintenanceStatus) bool {
	return s.State == maintenancev1.NodePending && s.Wait != nil && s.Wait.Reason == string(scheduling.NodeBusy)
}

func waitForTerminatedOwner(t *testing.T) {
	reserve(t, "spoke-2")
	spoke := theFleet.Cluster("spoke-2")
	succeeds(t, "node", "maintain", "worker-2", "--cluster", spoke.Name, "--requestor", "driver.example.com", "--name", "owner", "--wait")
	succeeds(t, "node", "maintain", "worker-2", "--cluster", spoke.Name, "--requestor", "firmware.example.com", "--name", "waiting")
	t.Cleanup(func() { // a running maintenance would block the next tests
		_ = theFleet.Run(context.Background(), io.Discard, "node", "cancel", "waiting", "--cluster", spoke.Name)
	})
	waiting := awaitNodeStatus(t, spoke, "waiting", waitsForNode)
	require.Contains(t, waiting.Wait.Message, "driver.example.com (default/owner)")
	terminate(t, temporal.NodeMaintenanceID(spoke.Name, "default", "owner"))
	awaitNodeStatus(t, spoke, "waiting", func(s maintenancev1.NodeMaintenanceStatus) bool {
		return s.State == maintenancev1.NodeReady
	})
	succeeds(t, "node", "done", "waiting", "--cluster", spoke.Name)
	succeeds(t, "node", "status", "waiting", "--cluster", spoke.Name, "--watch")
	require.NoError(t, theFleet.AwaitCleanup(t.Context(), spoke))
}

func waitWithRollout(t *testing.T) {
	reserve(t, "spoke-4")
	spoke := theFleet.Cluster("spoke-4")
	allow(t, spoke, 2)
	before := len(actionsOf(t, spoke))
	succeeds(t, "node", "maintain", "worker-1", "--cluster", spoke.Name, "--requestor", "driver.example.com", "--name", "before", "--wait")
	drainOnly, _, _ := strings.Cut(rollout("waits", "", 60, spoke.Name), "    action:")
	startRollout(t, drainOnly)
	require.Eventually(t, func() bool {
		return strings.Contains(drydock(t, "node", "list", "--cluster", spoke.Name, "-o", "json").out, string(scheduling.NodeBusy))
	}, stateLimit, 200*time.Millisecond, "the rollout waits for the node")
	awaitDone(t, "before", spoke)
	_, code := awaitEnd(t, "waits")
	require.Zero(t, code)
	require.NoError(t, theFleet.AwaitCleanup(t.Context(), spoke))

	count := fleet.Count(nil, actionsOf(t, spoke)[before:])
	require.Equal(t, workers+2, count[fleet.ActionCordon], "two maintenances for worker-1, one for each other node")
	require.Equal(t, workers+2, count[fleet.ActionUncordon])
}
