package chaos

import (
	"testing"

	"github.com/stretchr/testify/require"

	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/devstack/faultproxy"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/temporal"
)

// clusterLocksForNode: the maintenance of a single node waits for the locks of the whole cluster.
func clusterLocksForNode() state {
	return nodeWait(maintenancev1.NodeScheduled, "AwaitClusterLocks", func(t *testing.T, s *scenarioRun, at target) reached {
		unlock := s.lockCluster(t, at.spoke)
		w := s.maintain(t, at, maintenancev1.NodeMaintenanceSpec{Action: job(nil)})
		return reached{workflow: w.workflow, unblock: unlock}
	})
}

// foreignOwner is the mark of a maintenance that Temporal does not know, such as one of another Drydock.
const foreignOwner = "node/elsewhere/default/theirs/01a1f8f8-e90e-79c1-91aa-26fe2c78668f"

// nodeBusy: a maintenance that the scheduler does not know marks the node just before the cordon.
func nodeBusy() state {
	return nodeWait(maintenancev1.NodePending, "AwaitNodeFree", func(t *testing.T, s *scenarioRun, at target) reached {
		injection := stopRequest(s, at, nodeRequest("the maintenance request").match(s, at))
		w := s.maintain(t, at, maintenancev1.NodeMaintenanceSpec{Action: job(nil)})
		stopped := awaitStopped(t, injection)
		s.annotate(t, at, kube.AnnotationOwner, `"`+foreignOwner+`"`)
		injection.Remove()
		stopped.Release()
		return reached{workflow: w.workflow, unblock: func() { s.annotate(t, at, kube.AnnotationOwner, "null") }}
	})
}

// stopUncordon stops the requests that uncordon a node.
func stopUncordon(s *scenarioRun, at target) *faultproxy.Injection {
	return stopRequest(s, at, nodeRequest("the uncordon").match(s, at))
}

// leftToSweeper: the maintenance of a rollout's only node was terminated, and the rollout keeps its request for the cluster until the sweeper has
// returned the node.
func leftToSweeper() state {
	return clusterState(ranv1.StepCleaningUp, "waiting for the sweeper to return its node", "AwaitNodeFree", func(t *testing.T, s *scenarioRun, at target) reached {
		w, unblock := s.slowDrain(t, at, at.node)
		w.end, w.terminated = ranv1.ReasonFailed, true
		stopUncordon(s, at)
		require.NoError(t, s.temporal.TerminateWorkflow(t.Context(), w.ofNode(at), "", s.name))
		s.awaitWaiting(t, w.ofCluster(at.spoke), "AwaitNodeFree")
		return reached{workflow: w.ofCluster(at.spoke), unblock: unblock}
	})
}

// ownerTerminated: a maintenance waits for a node whose owner was terminated, until the sweeper has returned the node.
func ownerTerminated() state {
	return state{
		workflow: temporal.NodeMaintenance, state: string(maintenancev1.NodePending), moment: "the owner of its node was terminated",
		reach: func(t *testing.T, s *scenarioRun, at target) reached {
			arrived := waitsForNode().reach(t, s, at)
			owner := s.workOf(t, temporal.NodeMaintenanceID(at.spoke.Name, namespace, s.name+"-"+at.spoke.Name+"-"+at.node))
			owner.end, owner.terminated = terminated, true
			stopUncordon(s, at)
			require.NoError(t, s.temporal.TerminateWorkflow(t.Context(), owner.workflow, "", s.name))
			return reached{workflow: arrived.workflow}
		},
	}
}
