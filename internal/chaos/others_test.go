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
	return nodeWait(maintenancev1.NodeScheduled, "AwaitClusterLocks", func(t *testing.T, s *scene, at place) reached {
		unlock := s.lockCluster(t, at.spoke)
		w := s.maintain(t, at, maintenancev1.NodeMaintenanceSpec{Action: job(nil)})
		return reached{workflow: w.workflow, heal: unlock}
	})
}

// stranger is the mark of a maintenance that Temporal does not know: somebody else's, or of another Drydock.
const stranger = "node/elsewhere/default/theirs/01a1f8f8-e90e-79c1-91aa-26fe2c78668f"

// nodeBusy: somebody whom the scheduler does not know takes the node in the last moment.
func nodeBusy() state {
	return nodeWait(maintenancev1.NodePending, "AwaitNodeFree", func(t *testing.T, s *scene, at place) reached {
		injection := stopRequest(s, at, nodeRequest("the request to its locks").match(s, at))
		w := s.maintain(t, at, maintenancev1.NodeMaintenanceSpec{Action: job(nil)})
		stopped := awaitStopped(t, injection)
		s.annotate(t, at, kube.AnnotationOwner, `"`+stranger+`"`)
		injection.Remove()
		stopped.Release()
		return reached{workflow: w.workflow, heal: func() { s.annotate(t, at, kube.AnnotationOwner, "null") }}
	})
}

// stopUncordon stops whoever is about to return a node.
func stopUncordon(s *scene, at place) *faultproxy.Injection {
	return stopRequest(s, at, nodeRequest("the uncordon").match(s, at))
}

// leftToSweeper: the maintenance of a rollout's only node was terminated, and the locks of the cluster hold until the sweeper has returned it.
func leftToSweeper() state {
	return clusterState(ranv1.StepCleaningUp, "its node left to the sweeper", "AwaitNodeFree", func(t *testing.T, s *scene, at place) reached {
		w, unblock := s.slowDrain(t, at, at.node)
		w.end, w.terminated = ranv1.ReasonFailed, true
		stopUncordon(s, at)
		require.NoError(t, s.temporal.TerminateWorkflow(t.Context(), w.ofNode(at), "", s.name))
		s.awaitWaiting(t, w.ofCluster(at.spoke), "AwaitNodeFree")
		return reached{workflow: w.ofCluster(at.spoke), heal: unblock}
	})
}

// holderLost: a maintenance waits for a node whose maintenance was terminated, until the sweeper has returned the node.
func holderLost() state {
	return state{
		workflow: temporal.NodeMaintenance, state: string(maintenancev1.NodePending), moment: "the one that has its node terminated",
		reach: func(t *testing.T, s *scene, at place) reached {
			arrived := waitsForNode().reach(t, s, at)
			holder := s.workOf(t, temporal.NodeMaintenanceID(at.spoke.Name, namespace, s.name+"-"+at.spoke.Name+"-"+at.node))
			holder.end, holder.terminated = terminated, true
			stopUncordon(s, at)
			require.NoError(t, s.temporal.TerminateWorkflow(t.Context(), holder.workflow, "", s.name))
			return reached{workflow: arrived.workflow}
		},
	}
}
