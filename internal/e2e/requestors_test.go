package e2e

import (
	"context"
	"encoding/json"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/devstack"
	"drydock.dev/drydock/internal/devstack/fleet"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/temporal"
)

// awaitNodeStatus looks at a maintenance until it is as wanted. A look that is not answered says nothing: workers may be busy.
func awaitNodeStatus(t *testing.T, spoke *devstack.Cluster, name, what string, wanted func(maintenancev1.NodeMaintenanceStatus) bool) maintenancev1.NodeMaintenanceStatus {
	t.Helper()
	var answered struct {
		Status maintenancev1.NodeMaintenanceStatus `json:"status"`
	}
	require.Eventually(t, func() bool {
		answered.Status = maintenancev1.NodeMaintenanceStatus{}
		a := drydock(t, "node", "status", name, "--cluster", spoke.Name, "-o", "json")
		return json.Unmarshal([]byte(a.out), &answered) == nil && wanted(answered.Status)
	}, 3*time.Minute, 200*time.Millisecond, what)
	return answered.Status
}

// joinedTo is for awaitNodeStatus.
func joinedTo(workflowID string) func(maintenancev1.NodeMaintenanceStatus) bool {
	return func(s maintenancev1.NodeMaintenanceStatus) bool { return s.JoinedTo == workflowID }
}

// Each on a spoke of its own.
func TestRequestorsThatShareANode(t *testing.T) {
	t.Run("have it until the last is done", joinAndBeDone)
	t.Run("have it for themselves when the host is terminated", outliveTheHost)
	t.Run("keep it for the one whose work has failed when the other is collected", failBesideACollected)
	t.Run("may be a rollout, which is done with the node when the maintenance that it joined has returned it", joinWithARollout)
}

func joinAndBeDone(t *testing.T) {
	t.Parallel()
	spoke := theFleet.Cluster("spoke-1")
	before := len(actionsOf(t, spoke))
	must(t, "node", "maintain", "worker-1", "--cluster", spoke.Name, "--requestor", "driver.example.com", "--name", "driver", "--wait")
	must(t, "node", "maintain", "worker-1", "--cluster", spoke.Name, "--requestor", "firmware.example.com", "--name", "firmware", "--wait", "--timeout", "1m")
	awaitNodeStatus(t, spoke, "firmware", "it shares the node", joinedTo("node/"+spoke.Name+"/default/driver"))
	require.Nil(t, kube.FindNodeCondition(node(t, spoke, "worker-1"), kube.ConditionMaintenancePlanned), "nobody waits for the node any more")

	must(t, "node", "done", "driver", "--cluster", spoke.Name)
	awaitNodeStatus(t, spoke, "driver", "it waits for the other", func(s maintenancev1.NodeMaintenanceStatus) bool {
		return s.State == maintenancev1.NodeReady && len(s.Requestors) == 2 && s.Requestors[0].State == maintenancev1.RequestorDone
	})
	require.True(t, node(t, spoke, "worker-1").Spec.Unschedulable, "the other has it still")

	must(t, "node", "done", "firmware", "--cluster", spoke.Name)
	for _, name := range []string{"driver", "firmware"} {
		must(t, "node", "status", name, "--cluster", spoke.Name, "--watch")
	}
	require.NoError(t, theFleet.AwaitNothingLeft(t.Context(), spoke))
	actions := actionsOf(t, spoke)[before:]
	count := fleet.Count(nil, actions)
	require.Equal(t, 1, count[fleet.ActionCordon], "cordoned once")
	require.Equal(t, 1, count[fleet.ActionUncordon], "returned once")
	requireNoPodEvictedTwice(t, actions)
}

func outliveTheHost(t *testing.T) {
	t.Parallel()
	spoke := theFleet.Cluster("spoke-2")
	must(t, "node", "maintain", "worker-2", "--cluster", spoke.Name, "--requestor", "driver.example.com", "--name", "host", "--wait")
	must(t, "node", "maintain", "worker-2", "--cluster", spoke.Name, "--requestor", "firmware.example.com", "--name", "guest", "--wait", "--timeout", "1m")
	terminate(t, temporal.NodeMaintenanceID(spoke.Name, "default", "host"))
	t.Cleanup(func() { // a maintenance that is left running would block the tests that follow
		_ = theFleet.Run(context.Background(), io.Discard, "node", "cancel", "guest", "--cluster", spoke.Name)
	})
	awaitNodeStatus(t, spoke, "guest", "the sweeper returns the node, and the guest takes it out of service itself", func(s maintenancev1.NodeMaintenanceStatus) bool {
		return s.State == maintenancev1.NodeReady && s.JoinedTo == ""
	})
	must(t, "node", "done", "guest", "--cluster", spoke.Name)
	must(t, "node", "status", "guest", "--cluster", spoke.Name, "--watch")
	require.NoError(t, theFleet.AwaitNothingLeft(t.Context(), spoke))
}

// Two share a node for longer than their cluster allows, and the work of one has failed: the other is collected, and the node is kept until that is made good.
func failBesideACollected(t *testing.T) {
	t.Parallel()
	spoke := theFleet.Cluster("spoke-3")
	cancelled := func(s maintenancev1.NodeMaintenanceStatus) bool { return s.State == maintenancev1.NodeCancelled }
	for host, tt := range map[string]struct {
		guest, fails, collected string
		kept                    maintenancev1.NodeState
	}{
		"failing-host": {guest: "stale-guest", fails: "failing-host", collected: "stale-guest", kept: maintenancev1.NodeRequestorFailed},
		"stale-host":   {guest: "failing-guest", fails: "failing-guest", collected: "", kept: maintenancev1.NodeReady},
	} {
		t.Run(host, func(t *testing.T) {
			maintain := func(name, requestor string) {
				must(t, "node", "maintain", "worker-1", "--cluster", spoke.Name, "--requestor", requestor, "--name", name, "--wait", "--timeout", "1m")
				t.Cleanup(func() { // one that is left running would block the tests that follow
					_ = theFleet.Run(context.Background(), io.Discard, "node", "cancel", name, "--cluster", spoke.Name)
				})
			}
			maintain(host, "driver.example.com")
			maintain(tt.guest, "firmware.example.com")
			must(t, "node", "fail", tt.fails, "--cluster", spoke.Name)
			awaitNodeStatus(t, spoke, host, "the failure is known", func(s maintenancev1.NodeMaintenanceStatus) bool {
				return slices.ContainsFunc(s.Requestors, func(r maintenancev1.RequestorStatus) bool { return r.State == maintenancev1.RequestorFailed })
			})
			configure(t, spoke, maintenancev1.MaintenanceOperatorConfigSpec{MaxNodeMaintenanceTimeSeconds: 1, GarbageCollect: true})
			if tt.collected != "" {
				awaitNodeStatus(t, spoke, tt.collected, "it is collected", cancelled)
			}
			kept := awaitNodeStatus(t, spoke, host, "the other has left", func(s maintenancev1.NodeMaintenanceStatus) bool {
				return slices.ContainsFunc(s.Requestors, func(r maintenancev1.RequestorStatus) bool { return r.State == maintenancev1.RequestorLeft })
			})
			require.Equal(t, tt.kept, kept.State)
			require.True(t, node(t, spoke, "worker-1").Spec.Unschedulable)
			failed := awaitNodeStatus(t, spoke, tt.fails, "it holds the node", func(maintenancev1.NodeMaintenanceStatus) bool { return true })
			require.Equal(t, maintenancev1.NodeRequestorFailed, failed.State)
			require.True(t, failed.HandedOver)

			must(t, "node", "recover", tt.fails, "--cluster", spoke.Name)
			for _, name := range []string{host, tt.guest} {
				awaitNodeStatus(t, spoke, name, "it is collected when that is made good", cancelled)
			}
			require.NoError(t, theFleet.AwaitNothingLeft(t.Context(), spoke))
		})
	}
}

func joinWithARollout(t *testing.T) {
	t.Parallel()
	spoke := theFleet.Cluster("spoke-4")
	allow(t, spoke, 2)
	before := len(actionsOf(t, spoke))
	must(t, "node", "maintain", "worker-1", "--cluster", spoke.Name, "--requestor", "driver.example.com", "--name", "before", "--wait")
	drainOnly, _, _ := strings.Cut(rollout("joins", "", 60, spoke.Name), "    action:")
	startRollout(t, drainOnly)
	awaitNodeStatus(t, spoke, "before", "the rollout holds nobody up", func(s maintenancev1.NodeMaintenanceStatus) bool {
		return len(s.Requestors) == 2 && s.Requestors[1].State == maintenancev1.RequestorDone
	})
	awaitNodeStatus(t, spoke, "joins-worker-1", "it shares the node", joinedTo("node/"+spoke.Name+"/default/before"))
	awaitDone(t, "before", spoke)
	_, code := end(t, "joins")
	require.Zero(t, code)
	require.NoError(t, theFleet.AwaitNothingLeft(t.Context(), spoke))

	actions := actionsOf(t, spoke)[before:]
	count := fleet.Count(nil, actions)
	require.Equal(t, workers+1, count[fleet.ActionCordon], "every node once")
	require.Equal(t, workers+1, count[fleet.ActionUncordon])
	requireNoPodEvictedTwice(t, actions)
}
