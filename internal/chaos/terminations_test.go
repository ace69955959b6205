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
		crashOnNodes("the worker is killed while the sweeper takes a node back", killed, sweeping()),
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
		reach: func(t *testing.T, s *scene, at place) reached {
			drain := draining().reach(t, s, at)
			injection := stopRequest(s, at, faultproxy.Match{Verbs: []string{"patch"}, Resource: "nodes", Name: at.node, Body: `"unschedulable":null`})
			w := s.workOf(t, drain.workflow)
			w.end, w.terminated = terminated, true
			require.NoError(t, s.temporal.TerminateWorkflow(t.Context(), w.workflow, "", s.name))
			awaitStopped(t, injection)
			return reached{workflow: temporal.SweeperID(at.spoke.Name), heal: drain.heal}
		},
	}
}

// terminateOnNodes terminates maintenances of single nodes in those states.
func terminateOnNodes(states ...state) func(*testing.T, *scene) {
	return func(t *testing.T, s *scene) { s.terminate(t, s.places(t, len(states)), states...) }
}

// terminateOnSpokes terminates rollouts, or clusters of theirs, in those states, each on a spoke of its own.
func terminateOnSpokes(states ...state) func(*testing.T, *scene) {
	return func(t *testing.T, s *scene) {
		s.terminate(t, s.onePlaceEach(), states...)
	}
}

// terminate brings work into each of the states at the same time, and terminates its workflows. Their requests arrive after the termination.
func (s *scene) terminate(t *testing.T, places []place, states ...state) {
	t.Helper()
	arrived := s.reachAll(t, places, states...)
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
		s.Proxy(cluster).Heal()
	}
	for _, at := range arrived {
		if at.heal != nil {
			at.heal()
		}
	}
}

// reachAll brings a work into each of the states, each in a place of its own.
func (s *scene) reachAll(t *testing.T, places []place, states ...state) []reached {
	t.Helper()
	require.LessOrEqual(t, len(states), len(places), "a place for each state")
	arrived := make([]reached, len(states))
	var reaching sync.WaitGroup
	for i, state := range states {
		reaching.Go(func() { arrived[i] = state.reach(t, s, places[i]) })
	}
	reaching.Wait()
	if t.Failed() {
		t.FailNow()
	}
	return arrived
}
