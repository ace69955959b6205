package chaos

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/devstack/faultproxy"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/sweeper"
)

// terminations are scenarios in which workflows are terminated in every state, without a chance to clean up. The sweeper cleans up.
func terminations() []scenario {
	var inFlight []state
	for _, r := range nodeRequests() {
		inFlight = append(inFlight, r.lost())
	}
	all := []scenario{
		{name: "maintenances are terminated while they wait", run: terminateOnNodes(nodeWaits()...)},
		{name: "maintenances are terminated while their requests are in flight", run: terminateOnNodes(inFlight...)},
		crashOnNodes("the worker is killed while the sweeper returns a node", killed, sweeping()),
	}
	for _, m := range rolloutMoments() {
		all = append(all, scenario{name: "work is terminated while " + m.when, run: terminateOnSpokes(m.states...)})
	}
	return all
}

// sweeping: a maintenance was terminated during its drain, and the sweeper is about to return the node.
func sweeping() state {
	return state{
		workflow: temporal.Sweeper, state: string(sweeper.CleaningUp), activity: "ReturnNode",
		reach: func(t *testing.T, s *scenarioRun, at target) reached {
			drain := draining().reach(t, s, at)
			injection := stopRequest(s, at, faultproxy.Match{Verbs: []string{"patch"}, Resource: "nodes", Name: at.node, Body: `"unschedulable":null`})
			w := s.workOf(t, drain.workflow)
			w.end, w.terminated = terminated, true
			require.NoError(t, s.temporal.TerminateWorkflow(t.Context(), w.workflow, "", s.name))
			awaitStopped(t, injection)
			return reached{workflow: temporal.SweeperID(at.spoke.Name), unblock: drain.unblock}
		},
	}
}

// terminateOnNodes terminates maintenances of single nodes in those states.
func terminateOnNodes(states ...state) func(*testing.T, *scenarioRun) {
	return func(t *testing.T, s *scenarioRun) { s.terminate(t, s.targets(t, len(states)), states...) }
}

// terminateOnSpokes terminates rollouts, or the upgrades of their clusters, in those states, each on its own spoke.
func terminateOnSpokes(states ...state) func(*testing.T, *scenarioRun) {
	return func(t *testing.T, s *scenarioRun) {
		s.terminate(t, s.oneNodePerSpoke(), states...)
	}
}

// terminate brings work into all states at the same time and terminates its workflows. Stopped requests arrive after the termination.
func (s *scenarioRun) terminate(t *testing.T, targets []target, states ...state) {
	t.Helper()
	arrived := s.reachAll(t, targets, states...)
	for i, at := range arrived {
		t.Logf("terminated in %s; pending: %q", states[i], s.pending(t, at.workflow))
		require.NoError(t, s.temporal.TerminateWorkflow(t.Context(), at.workflow, "", s.name))
		w := s.workOf(t, at.workflow)
		w.end, w.terminated = terminated, true
		if at.workflow != w.workflow {
			w.end = ranv1.ReasonFailed // a rollout whose cluster was terminated
		}
	}
	for _, cluster := range s.Clusters() {
		s.Proxy(cluster).RemoveAll()
	}
	for _, at := range arrived {
		if at.unblock != nil {
			at.unblock()
		}
	}
}

// reachAll brings work into all states, each on its own node.
func (s *scenarioRun) reachAll(t *testing.T, targets []target, states ...state) []reached {
	t.Helper()
	require.LessOrEqual(t, len(states), len(targets), "one node for each state")
	arrived := make([]reached, len(states))
	var reaching sync.WaitGroup
	for i, state := range states {
		reaching.Go(func() { arrived[i] = state.reach(t, s, targets[i]) })
	}
	reaching.Wait()
	if t.Failed() {
		t.FailNow()
	}
	return arrived
}
