package chaos

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"drydock.dev/drydock/internal/devstack"
	"drydock.dev/drydock/internal/devstack/devstacktest"
)

// TestRolloutsSurviveRestartsOnPostgreSQL: the worker, each service of Temporal, and PostgreSQL restart while rollouts run.
func TestRolloutsSurviveRestartsOnPostgreSQL(t *testing.T) {
	if !devstacktest.OnPostgreSQL() {
		t.Skip("make e2e-postgres runs it")
	}
	for i, scenario := range []scenario{
		{name: "the worker is killed", run: func(t *testing.T, s *scenarioRun) { s.crashWorker(t, killed, s.targets(t, 1), draining()) }},
		{name: "each server is killed", run: temporalServersRestart((*devstack.Process).Kill)},
		{name: "each server stops", run: temporalServersRestart((*devstack.Process).Stop)},
	} {
		t.Run(scenario.name, func(t *testing.T) { runScenario(t, scenario, fmt.Sprintf("p%d", i), systematicSeed) })
	}
	useFleet(t).requireEntityInvariants(t)
}

// temporalServersRestart ends one server after the other. Before each, one rollout waits in a drain, whose pod terminates while the server is down, and another
// has just begun.
func temporalServersRestart(end func(*devstack.Process) error) func(*testing.T, *scenarioRun) {
	return func(t *testing.T, s *scenarioRun) {
		for i, server := range append(slices.Clone(s.Temporal.Behind), s.Temporal.Process) {
			at := target{s.Spokes[1], fmt.Sprintf("worker-%d", i+1)}
			pod := s.barePod(t, at, map[string]string{devstack.AnnotationLeaveAfter: forever})
			waiting := s.rollOut(t, shape{name: "-waits-" + server.Name, clusters: []*devstack.Cluster{at.spoke}, nodes: []string{at.node}, maxConcurrency: 1}, nil)
			s.awaitWaiting(t, s.awaitMaintenance(t, waiting, at), "Drain")
			busy := s.rollOut(t, shape{name: "-runs-" + server.Name, clusters: []*devstack.Cluster{s.Spokes[2], s.Spokes[0]}, nodes: []string{at.node}, maxConcurrency: 2}, nil)

			require.NoError(t, end(server))
			endTermination(t, at, pod)
			require.NoError(t, server.Start(t.Context()))
			s.requireEnd(t, waiting)
			s.requireEnd(t, busy)
		}
	}
}
