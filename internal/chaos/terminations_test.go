package chaos

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
)

// terminations are the scenarios in which somebody terminates workflows, in every state. They have no chance to clean up; the sweeper does.
func terminations() []scenario {
	var onTheWay []state
	for _, r := range nodeRequests() {
		onTheWay = append(onTheWay, r.lost())
	}
	return []scenario{
		{name: "maintenances are terminated while they wait", run: terminateOnNodes(nodeWaits()...)},
		{name: "maintenances are terminated with their requests on the way out", run: terminateOnNodes(onTheWay...)},
		{name: "a cluster is terminated while it is inspected", run: terminateOnSpokes(inspecting())},
		{name: "clusters are terminated while they wait", run: terminateOnSpokes(clusterLocks(), controlPlaneNodes(), workerNodes())},
		{
			name: "clusters are terminated at their beginning and their end",
			run:  terminateOnSpokes(clusterHealth(), clusterRequest("create", false), clusterRequest("delete", false)),
		},
	}
}

// terminateOnNodes terminates maintenances of single nodes in those states.
func terminateOnNodes(states ...state) func(*testing.T, *scene) {
	return func(t *testing.T, s *scene) { s.terminate(t, s.places(t, len(states)), states...) }
}

// terminateOnSpokes terminates the clusters of rollouts in those states, each on a spoke of its own.
func terminateOnSpokes(states ...state) func(*testing.T, *scene) {
	return func(t *testing.T, s *scene) {
		s.terminate(t, []place{{s.Spokes[1], "worker-1"}, {s.Spokes[2], "worker-1"}, {s.Spokes[0], "worker-1"}}, states...)
	}
}

// terminate brings a work into each of the states, all at the same time and each in a place of its own, and terminates the workflows that
// are in them. Requests that are on the way then arrive after their workflow's end.
func (s *scene) terminate(t *testing.T, places []place, states ...state) {
	t.Helper()
	arrived := s.reachAll(t, places, states...)
	for i, at := range arrived {
		t.Logf("terminated in %s; pending: %q", states[i], s.pending(t, at.workflow))
		require.NoError(t, s.temporal.TerminateWorkflow(t.Context(), at.workflow, "", s.name))
	}
	for _, w := range s.works {
		w.end, w.terminated = ranv1.ReasonFailed, true // a rollout whose cluster was terminated
		if !w.rollout {
			w.end = terminated
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
