package chaos

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	historypb "go.temporal.io/api/history/v1"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/devstack"
)

// outages are scenarios in which Temporal or all workers are down.
func outages() []scenario {
	return []scenario{
		{name: "Temporal stops during a drain and restarts", short: true, run: temporalDownDuringDrain((*devstack.Process).Stop)},
		{name: "Temporal is killed during a drain and restarts", run: temporalDownDuringDrain((*devstack.Process).Kill)},
		{name: "Temporal stops during a batch and restarts", run: temporalDownDuringBatch},
		{name: "workers are down past the timeout of a batch whose cluster finishes", run: workersDownWhileAClusterFinishes},
		{name: "workers are down past the timeout of a batch whose cluster is unfinished", run: workersDownWithWorkLeft},
		{name: "workers are down for a part of a batch, which does not count", run: workersDownMeanwhile},
	}
}

// temporalDownDuringDrain: pods terminate while Temporal is down, so that workers cannot report it.
func temporalDownDuringDrain(end func(*devstack.Process) error) func(*testing.T, *scenarioRun) {
	return func(t *testing.T, s *scenarioRun) {
		at := s.targets(t, 1)[0]
		r := draining().reach(t, s, at)
		require.NoError(t, end(s.Temporal.Process))
		r.unblock()
		require.NoError(t, s.Temporal.Process.Start(t.Context()))
	}
}

// temporalDownDuringBatch: one of two clusters drains, and another batch follows.
func temporalDownDuringBatch(t *testing.T, s *scenarioRun) {
	at := target{s.Spokes[1], "worker-1"}
	pod := s.barePod(t, at, map[string]string{devstack.AnnotationLeaveAfter: forever})
	w := s.rollOut(t, shape{clusters: []*devstack.Cluster{s.Spokes[1], s.Spokes[2], s.Spokes[0]}, nodes: []string{controlPlane, "worker-1", "worker-2"}, maxConcurrency: 2}, nil)
	s.awaitWaiting(t, s.awaitMaintenance(t, w, at), "Drain")
	require.NoError(t, s.Temporal.Process.Stop())
	endTermination(t, at, pod)
	require.NoError(t, s.Temporal.Process.Start(t.Context()))
}

// oneMinute sets the timeout of a rollout.
func oneMinute(spec *ranv1.ClusterGroupUpgradeSpec) { spec.RemediationStrategy.Timeout = 1 }

// stopWorkerPastTimeout stops the worker until the one-minute timeout of a rollout has passed, with a margin for the clock of its history.
func (s *scenarioRun) stopWorkerPastTimeout(t *testing.T, w *work, meanwhile func()) {
	t.Helper()
	require.NoError(t, s.Worker.Stop())
	meanwhile()
	over := s.startEvent(t, w.workflow).EventTime.AsTime().Add(time.Minute + 15*time.Second)
	<-time.After(time.Until(over))
	require.NoError(t, s.Worker.Start(t.Context()))
}

func workersDownWhileAClusterFinishes(t *testing.T, s *scenarioRun) {
	at := target{s.Spokes[1], "worker-1"}
	w := s.rollOut(t, shape{clusters: s.Spokes[1:2], nodes: []string{at.node}, maxConcurrency: 1}, func(spec *ranv1.ClusterGroupUpgradeSpec) {
		oneMinute(spec)
		spec.NodeMaintenance.Action = job(map[string]string{devstack.AnnotationCompleteAfter: forever})
	})
	s.awaitWaiting(t, s.awaitMaintenance(t, w, at), "RunJob")
	s.stopWorkerPastTimeout(t, w, func() { completeJob(t, at) })
}

// workersDownWithWorkLeft: when a worker runs again, a drain, a Job and the maintenance of another node remain.
func workersDownWithWorkLeft(t *testing.T, s *scenarioRun) {
	at := target{s.Spokes[1], "worker-1"}
	pod := s.barePod(t, at, map[string]string{devstack.AnnotationLeaveAfter: forever})
	w := s.rollOut(t, shape{clusters: s.Spokes[1:2], nodes: []string{at.node, "worker-2"}, maxConcurrency: 1}, oneMinute)
	s.awaitWaiting(t, s.awaitMaintenance(t, w, at), "Drain")
	s.stopWorkerPastTimeout(t, w, func() {})
	endTermination(t, at, pod)
}

// workersDownMeanwhile: the time without workers ends long before the deadline of the batch, which is then later.
func workersDownMeanwhile(t *testing.T, s *scenarioRun) {
	at := target{s.Spokes[1], "worker-1"}
	w, unblock := s.slowDrain(t, at, at.node)
	deadline := func() time.Time {
		parsed, err := time.Parse(time.RFC3339, s.drydock(t, "upgrade", "status", w.name, "-n", namespace, "-o", "jsonpath={.status.status.currentBatchDeadline}"))
		require.NoError(t, err)
		return parsed
	}
	s.awaitWaiting(t, s.awaitMaintenance(t, w, at), "Drain")
	before := deadline()
	require.NoError(t, s.Worker.Stop())
	const away = 90 * time.Second
	<-time.After(away) // no event ends this time
	require.NoError(t, s.Worker.Start(t.Context()))
	s.awaitEvent(t, w.workflow, "the time without workers is reported", func(event *historypb.HistoryEvent) bool {
		return strings.Contains(resultText(event), "workersAway")
	})
	later := deadline().Sub(before)
	require.GreaterOrEqual(t, later, away-10*time.Second)
	require.Less(t, later, away+time.Minute)
	unblock()
}

// resultText is the result of an activity; empty for another event.
func resultText(event *historypb.HistoryEvent) string {
	var text string
	for _, payload := range event.GetActivityTaskCompletedEventAttributes().GetResult().GetPayloads() {
		text += string(payload.GetData())
	}
	return text
}
