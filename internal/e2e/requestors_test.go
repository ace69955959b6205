package e2e

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/devstack"
	"drydock.dev/drydock/internal/devstack/fleet"
	"drydock.dev/drydock/internal/temporal"
)

// lookAtNode asks for the status of a maintenance once.
func lookAtNode(t *testing.T, spoke *devstack.Cluster, name string) (status maintenancev1.NodeMaintenanceStatus) {
	t.Helper()
	var answered struct {
		Status maintenancev1.NodeMaintenanceStatus `json:"status"`
	}
	require.NoError(t, json.Unmarshal([]byte(must(t, "node", "status", name, "--cluster", spoke.Name, "-o", "json")), &answered))
	return answered.Status
}

func TestASecondRequestorJoinsAndTheNodeIsReturnedWhenTheLastIsDone(t *testing.T) {
	spoke := theFleet.Cluster("spoke-1")
	before := len(deedsOf(t, spoke))
	must(t, "node", "maintain", "worker-1", "--cluster", spoke.Name, "--requestor", "driver.example.com", "--name", "driver", "--wait")
	must(t, "node", "maintain", "worker-1", "--cluster", spoke.Name, "--requestor", "firmware.example.com", "--name", "firmware", "--wait", "--timeout", "1m")
	require.Equal(t, "node/"+spoke.Name+"/default/driver", lookAtNode(t, spoke, "firmware").JoinedTo)

	must(t, "node", "done", "driver", "--cluster", spoke.Name)
	require.Eventually(t, func() bool {
		status := lookAtNode(t, spoke, "driver")
		return status.State == maintenancev1.NodeReady && len(status.Requestors) == 2 && status.Requestors[0].State == maintenancev1.RequestorDone
	}, time.Minute, 200*time.Millisecond)
	require.True(t, node(t, spoke, "worker-1").Spec.Unschedulable, "the other has it still")

	must(t, "node", "done", "firmware", "--cluster", spoke.Name)
	for _, name := range []string{"driver", "firmware"} {
		must(t, "node", "status", name, "--cluster", spoke.Name, "--watch")
	}
	require.NoError(t, theFleet.AwaitNothingLeft(t.Context(), spoke))
	deeds := deedsOf(t, spoke)[before:]
	count := fleet.Count(nil, deeds)
	require.Equal(t, 1, count[fleet.DeedCordon], "cordoned once")
	require.Equal(t, 1, count[fleet.DeedUncordon], "returned once")
	requireNoPodEvictedTwice(t, deeds)
}

func TestAJoinedRequestorWhoseHostIsTerminatedGetsTheNodeForItself(t *testing.T) {
	spoke := theFleet.Cluster("spoke-2")
	must(t, "node", "maintain", "worker-2", "--cluster", spoke.Name, "--requestor", "driver.example.com", "--name", "host", "--wait")
	must(t, "node", "maintain", "worker-2", "--cluster", spoke.Name, "--requestor", "firmware.example.com", "--name", "guest", "--wait", "--timeout", "1m")
	terminate(t, temporal.NodeMaintenanceID(spoke.Name, "default", "host"))
	require.Eventually(t, func() bool {
		status := lookAtNode(t, spoke, "guest")
		return status.State == maintenancev1.NodeReady && status.JoinedTo == ""
	}, 3*time.Minute, 200*time.Millisecond, "the sweeper returns the node, and the guest takes it out of service itself")
	must(t, "node", "done", "guest", "--cluster", spoke.Name)
	must(t, "node", "status", "guest", "--cluster", spoke.Name, "--watch")
	require.NoError(t, theFleet.AwaitNothingLeft(t.Context(), spoke))
}

func TestARolloutIsDoneWithANodeWhenTheMaintenanceThatItJoinedHasReturnedIt(t *testing.T) {
	spoke := theFleet.Cluster("spoke-1")
	allow(t, spoke, 2)
	before := len(deedsOf(t, spoke))
	must(t, "node", "maintain", "worker-1", "--cluster", spoke.Name, "--requestor", "driver.example.com", "--name", "before", "--wait")
	drainOnly, _, _ := strings.Cut(rollout("joins", "", 60, spoke.Name), "    action:")
	startRollout(t, drainOnly)
	require.Eventually(t, func() bool {
		requestors := lookAtNode(t, spoke, "before").Requestors
		return len(requestors) == 2 && requestors[1].State == maintenancev1.RequestorDone
	}, time.Minute, 200*time.Millisecond, "it holds nobody up")
	require.Equal(t, "node/"+spoke.Name+"/default/before", lookAtNode(t, spoke, "joins-worker-1").JoinedTo)
	awaitDone(t, "before", spoke)
	_, code := end(t, "joins")
	require.Zero(t, code)
	require.NoError(t, theFleet.AwaitNothingLeft(t.Context(), spoke))

	deeds := deedsOf(t, spoke)[before:]
	count := fleet.Count(nil, deeds)
	require.Equal(t, workers+1, count[fleet.DeedCordon], "every node once")
	require.Equal(t, workers+1, count[fleet.DeedUncordon])
	requireNoPodEvictedTwice(t, deeds)
}
