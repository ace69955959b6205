package chaos

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"drydock.dev/drydock/internal/devstack"
	"drydock.dev/drydock/internal/devstack/faultproxy"
	"drydock.dev/drydock/internal/temporal"
)

// apiServers are scenarios in which an API server is down, slow, or refuses requests.
func apiServers() []scenario {
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "objects"}, "any", nil)
	return []scenario{
		{name: "a spoke's API server is killed during a drain", short: true, run: apiServerRestartsDuringDrain},
		{name: "a spoke's API server is down during a drain until the status shows it", run: apiServerDownDuringDrain},
		{name: "the hub's API server is down during the planning of a rollout", run: hubDownDuringPlanning},
		{name: "the hub's API server is down during a batch", run: hubDownDuringBatch},
		{name: "API servers are slow", run: withFault(faultproxy.Rule{Fault: faultproxy.Delay(300 * time.Millisecond)})},
		{name: "one write in three is refused with 429", run: withFault(writes(3, faultproxy.Refuse(apierrors.NewTooManyRequests("too many", 1))))},
		{name: "one write in three is refused with 500", run: withFault(writes(3, faultproxy.Refuse(apierrors.NewInternalError(context.DeadlineExceeded))))},
		{name: "one write in three is refused with 409", run: withFault(writes(3, faultproxy.Refuse(conflict)))},
		{name: "one write in four is lost with its connection", run: withFault(writes(4, faultproxy.HangUp()))},
		{name: "the answer to one write in four is lost", run: withFault(writes(4, faultproxy.LoseAnswer()))},
	}
}

func writes(oneIn int, fault faultproxy.Fault) faultproxy.Rule {
	return faultproxy.Rule{Match: faultproxy.Match{Verbs: faultproxy.Writes()}, OneIn: oneIn, Fault: fault}
}

// apiServerRestartsDuringDrain: the pod terminates after the restart.
func apiServerRestartsDuringDrain(t *testing.T, s *scenarioRun) {
	at := s.targets(t, 1)[0]
	arrived := draining().reach(t, s, at)
	require.NoError(t, at.spoke.APIServer.Kill())
	require.NoError(t, at.spoke.APIServer.Start(t.Context()))
	arrived.unblock()
}

// apiServerDownDuringDrain: the status shows the outage, and the maintenance continues after it.
func apiServerDownDuringDrain(t *testing.T, s *scenarioRun) {
	at := s.targets(t, 1)[0]
	arrived := draining().reach(t, s, at)
	require.NoError(t, at.spoke.APIServer.Stop())
	s.awaitReason(t, arrived.workflow, temporal.ErrClusterUnreachable)
	require.NoError(t, at.spoke.APIServer.Start(t.Context()))
	arrived.unblock()
}

func hubDownDuringPlanning(t *testing.T, s *scenarioRun) {
	require.NoError(t, s.Hub.APIServer.Stop())
	w := s.rollOut(t, shape{clusters: s.Spokes[1:], nodes: []string{"worker-1"}, maxConcurrency: 1}, nil)
	s.awaitScheduled(t, w.workflow, "PlanRollout")
	require.NoError(t, s.Hub.APIServer.Start(t.Context()))
}

// hubDownDuringBatch: running clusters continue.
func hubDownDuringBatch(t *testing.T, s *scenarioRun) {
	at := target{s.Spokes[1], "worker-1"}
	pod := s.barePod(t, at, map[string]string{devstack.AnnotationLeaveAfter: forever})
	w := s.rollOut(t, shape{clusters: s.Spokes[1:], nodes: []string{at.node}, maxConcurrency: 1}, nil)
	s.awaitWaiting(t, s.awaitMaintenance(t, w, at), "Drain")
	require.NoError(t, s.Hub.APIServer.Stop())
	endTermination(t, at, pod)
	s.awaitMaintenance(t, w, target{s.Spokes[2], at.node})
	require.NoError(t, s.Hub.APIServer.Start(t.Context()))
}

// withFault is a scenario in which a fault affects a whole rollout over all spokes.
func withFault(rule faultproxy.Rule) func(*testing.T, *scenarioRun) {
	return func(t *testing.T, s *scenarioRun) {
		var injections []*faultproxy.Injection
		for _, cluster := range s.Clusters() {
			injections = append(injections, s.inject(cluster, rule))
		}
		w := s.rollOut(t, shape{clusters: s.Spokes, nodes: []string{controlPlane, "worker-1"}, maxConcurrency: 3}, nil)
		s.requireEnd(t, w)
		for _, injection := range injections[1:] {
			require.NotZero(t, injection.Injected())
		}
	}
}
