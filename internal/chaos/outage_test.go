package chaos

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/devstack"
)

// outages are the scenarios in which Temporal is away, or all workers are, for a long time.
func outages() []scenario {
	return []scenario{
		{name: "Temporal stops during a drain and restarts", short: true, run: temporalDownDuringDrain((*devstack.Process).Stop)},
		{name: "Temporal is killed during a drain and restarts", run: temporalDownDuringDrain((*devstack.Process).Kill)},
		{name: "Temporal stops during a batch and restarts", run: temporalDownDuringBatch},
		{name: "workers are down past the timeout of a batch whose cluster finishes", run: workersDownWhileAClusterFinishes},
		{name: "workers are down past the timeout of a batch whose cluster is unfinished", run: workersDownWithWorkLeft},
	}
}

// temporalDownDuringDrain: pods leave while nobody can be told.
func temporalDownDuringDrain(goes func(*devstack.Process) error) func(*testing.T, *scene) {
	return func(t *testing.T, s *scene) {
		at := s.places(t, 1)[0]
		r := draining().reach(t, s, at)
		require.NoError(t, goes(s.Temporal.Process))
		r.heal()
		require.NoError(t, s.Temporal.Process.Start(t.Context()))
	}
}

// temporalDownDuringBatch: one of two clusters drains, and another batch is to follow.
func temporalDownDuringBatch(t *testing.T, s *scene) {
	at := place{s.Spokes[1], "worker-1"}
	guest := s.guest(t, at, map[string]string{devstack.AnnotationLeaveAfter: forever})
	w := s.rollOut(t, shape{clusters: []*devstack.Cluster{s.Spokes[1], s.Spokes[2], s.Spokes[0]}, nodes: []string{controlPlane, "worker-1", "worker-2"}, maxConcurrency: 2}, nil)
	s.awaitWaiting(t, s.awaitMaintenance(t, w, at), "Drain")
	require.NoError(t, s.Temporal.Process.Stop())
	endTermination(t, at, guest)
	require.NoError(t, s.Temporal.Process.Start(t.Context()))
}

// minute is the whole time of a rollout.
func minute(spec *ranv1.ClusterGroupUpgradeSpec) { spec.RemediationStrategy.Timeout = 1 }

// awayBeyondTheBatch ends the worker until the minute that a rollout has is over by the clock of its history, and by as much as a late look
// at the clock.
func (s *scene) awayBeyondTheBatch(t *testing.T, w *work, meanwhile func()) {
	t.Helper()
	require.NoError(t, s.Worker.Stop())
	meanwhile()
	over := s.begun(t, w.workflow).EventTime.AsTime().Add(time.Minute + 15*time.Second)
	<-time.After(time.Until(over))
	require.NoError(t, s.Worker.Start(t.Context()))
}

func workersDownWhileAClusterFinishes(t *testing.T, s *scene) {
	at := place{s.Spokes[1], "worker-1"}
	w := s.rollOut(t, shape{clusters: s.Spokes[1:2], nodes: []string{at.node}, maxConcurrency: 1}, func(spec *ranv1.ClusterGroupUpgradeSpec) {
		minute(spec)
		spec.NodeMaintenance.Action = job(map[string]string{devstack.AnnotationCompleteAfter: forever})
	})
	s.awaitWaiting(t, s.awaitMaintenance(t, w, at), "RunJob")
	s.awayBeyondTheBatch(t, w, func() { completeJob(t, at) })
}

// workersDownWithWorkLeft: when a worker is back, pods have to leave, a Job to run, and another node to be maintained.
func workersDownWithWorkLeft(t *testing.T, s *scene) {
	at := place{s.Spokes[1], "worker-1"}
	guest := s.guest(t, at, map[string]string{devstack.AnnotationLeaveAfter: forever})
	w := s.rollOut(t, shape{clusters: s.Spokes[1:2], nodes: []string{at.node, "worker-2"}, maxConcurrency: 1}, minute)
	s.awaitWaiting(t, s.awaitMaintenance(t, w, at), "Drain")
	s.awayBeyondTheBatch(t, w, func() {})
	endTermination(t, at, guest)
}
