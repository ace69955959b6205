package chaos

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/devstack/faultproxy"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/temporal"
)

// twoWorkers are scenarios with two workers, or in which a worker replaces a frozen one.
func twoWorkers() []scenario {
	var ofNodes []state
	for _, r := range nodeRequests() {
		ofNodes = append(ofNodes, r.lost())
	}
	return []scenario{
		{name: "two workers share a rollout", short: true, run: shared},
		{name: "a worker freezes while a node drains", run: freezesIn(draining())},
		{name: "a worker freezes while a Job runs", run: freezesIn(jobRunning())},
		{name: "a worker freezes while it watches nodes for the scheduler", run: freezesIn(slotTaken())},
		{name: "a worker freezes while it requests a slot", run: freezesDuringSlotRequest},
		{name: "a worker freezes while requests for nodes are in flight", run: func(t *testing.T, s *scenarioRun) {
			targets := s.targets(t, len(ofNodes))
			s.freezeAt(t, targets, func(release func()) { s.requireUnchanged(t, targets, release) }, ofNodes...)
		}},
		{name: "a worker freezes while requests for clusters are in flight", run: func(t *testing.T, s *scenarioRun) {
			s.freezeAt(t, s.oneNodePerSpoke(), releaseNow, clusterRequest("create", false), clusterRequest("delete", false), changing(true))
		}},
		{name: "a worker freezes while the last requests for clusters are in flight", run: func(t *testing.T, s *scenarioRun) {
			s.freezeAt(t, s.oneNodePerSpoke(), releaseNow, returningFirst(), changing(false))
		}},
	}
}

// shared: each node is maintained once, although both workers run activities.
func shared(t *testing.T, s *scenarioRun) {
	s.withSecondWorker(t)
	s.rollOut(t, shape{clusters: s.Spokes, nodes: []string{controlPlane, "worker-1"}, maxConcurrency: 3}, nil)
	s.requireEnd(t, s.works[0])
}

// withSecondWorker starts another worker for the test.
func (s *scenarioRun) withSecondWorker(t *testing.T) {
	t.Helper()
	require.NoError(t, s.second.Start(t.Context()))
	t.Cleanup(func() { require.NoError(t, s.second.Stop()) })
}

// freezesIn is a scenario in which a worker freezes in a state for longer than its heartbeat timeout, and resumes when another has finished the work.
func freezesIn(in state) func(*testing.T, *scenarioRun) {
	return func(t *testing.T, s *scenarioRun) {
		arrived := in.reach(t, s, s.oneNodePerSpoke()[0])
		require.NoError(t, s.Worker.Freeze())
		s.startSecondWorker(t)
		arrived.unblock()
		s.requireEnds(t)
		s.thaw(t)
	}
}

// freezesDuringSlotRequest: a worker freezes while it requests a slot, and its request reaches the scheduler after all work has ended.
func freezesDuringSlotRequest(t *testing.T, s *scenarioRun) {
	for _, at := range s.targets(t, workers*(spokes-1)) {
		injection := stopRequest(s, at, nodeRequest("the planned condition").match(s, at))
		w := s.maintain(t, at, maintenancev1.NodeMaintenanceSpec{DrainSpec: drainAll(), Action: job(nil)})
		stopped := awaitStopped(t, injection)
		injection.Remove()
		stopped.Release()
		s.awaitScheduled(t, w.workflow, "AcceptMaintenance")
		require.NoError(t, s.Worker.Freeze())
		if slices.Contains(s.pending(t, w.workflow), "AcceptMaintenance") {
			s.startSecondWorker(t)
			s.requireEnds(t)
			s.thaw(t)
			return
		}
		require.NoError(t, s.Worker.Thaw()) // the request was too fast
		s.requireEnd(t, w)
	}
	require.Fail(t, "the worker never froze during its request")
}

// returningFirst: the first node of a rollout is about to be returned.
func returningFirst() state {
	return clusterState(ranv1.StepWorkers, "a node about to be returned", "NodeMaintenance: ReturnNode", func(t *testing.T, s *scenarioRun, at target) reached {
		injection := stopUncordon(s, at)
		w := s.smallRollout(t, at, nil, at.node, "worker-2")
		awaitStopped(t, injection)
		return reached{workflow: w.ofCluster(at.spoke), injection: injection}
	})
}

// freezeAt freezes a worker while its requests are stopped. releaseLate releases them after another worker has finished.
func (s *scenarioRun) freezeAt(t *testing.T, targets []target, releaseLate func(release func()), states ...state) {
	t.Helper()
	arrived := s.reachAll(t, targets, states...)
	pending := s.freezeWith(t, arrived)
	for _, cluster := range s.Clusters() {
		s.Proxy(cluster).RemoveAll()
	}
	s.startSecondWorker(t)
	for _, at := range arrived {
		if at.unblock != nil {
			at.unblock()
		}
	}
	s.requireEnds(t)
	releaseLate(func() {
		for _, stopped := range pending {
			stopped.Release()
			<-stopped.Ended()
		}
	})
	s.thaw(t)
}

// releaseNow releases the requests.
func releaseNow(release func()) { release() }

// requireUnchanged releases requests while another requestor has all nodes, and requires that they change nothing.
func (s *scenarioRun) requireUnchanged(t *testing.T, targets []target, release func()) {
	t.Helper()
	var next []*work
	for _, w := range s.works {
		w.maintainedAgain = true
	}
	for _, at := range targets {
		next = append(next, s.maintainFor(t, at, "next.example.com", maintenancev1.NodeMaintenanceSpec{}))
	}
	for _, w := range next {
		s.awaitPhase(t, w.workflow, string(maintenancev1.NodeReady))
	}
	before := s.ours(t, targets)
	release()
	require.Equal(t, before, s.ours(t, targets))
	for _, w := range next {
		s.signal(t, w.workflow, temporal.SignalDone)
	}
	s.requireEnds(t)
}

// ours returns the fields of nodes that Drydock may change, by node.
func (s *scenarioRun) ours(t *testing.T, targets []target) map[string]corev1.Node {
	t.Helper()
	nodes := map[string]corev1.Node{}
	for _, at := range targets {
		node, err := at.spoke.Client.CoreV1().Nodes().Get(t.Context(), at.node, metav1.GetOptions{})
		require.NoError(t, err)
		ours := corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: node.Labels, Annotations: node.Annotations}, Spec: corev1.NodeSpec{Unschedulable: node.Spec.Unschedulable}}
		for _, condition := range kube.NodeConditions() {
			if found := kube.FindNodeCondition(node, condition); found != nil {
				ours.Status.Conditions = append(ours.Status.Conditions, *found)
			}
		}
		nodes[at.String()] = ours
	}
	return nodes
}

// freezeWith freezes the worker while all requests are stopped in the proxies. A request whose client gives up is sent again.
func (s *scenarioRun) freezeWith(t *testing.T, arrived []reached) (pending []*faultproxy.Stopped) {
	t.Helper()
	for {
		for _, at := range arrived {
			if at.injection.Pending() == nil {
				awaitStopped(t, at.injection)
			}
		}
		require.NoError(t, s.Worker.Freeze())
		pending = nil
		for _, at := range arrived {
			if stopped := at.injection.Pending(); stopped != nil {
				pending = append(pending, stopped)
			}
		}
		if len(pending) == len(arrived) {
			return pending
		}
		require.NoError(t, s.Worker.Thaw())
	}
}

// startSecondWorker starts another worker, which continues without the frozen one.
func (s *scenarioRun) startSecondWorker(t *testing.T) {
	t.Helper()
	t.Cleanup(func() { _ = s.Worker.Thaw() }) // it may be running
	s.withSecondWorker(t)
}

func (s *scenarioRun) requireEnds(t *testing.T) {
	t.Helper()
	for _, w := range s.works {
		s.requireEnd(t, w)
	}
}

// thaw resumes the frozen worker, and requires that it still works.
func (s *scenarioRun) thaw(t *testing.T) {
	t.Helper()
	require.NoError(t, s.Worker.Thaw())
	require.NoError(t, s.second.Stop())
	for _, spoke := range s.Spokes[1:] {
		s.maintain(t, target{spoke, controlPlane}, maintenancev1.NodeMaintenanceSpec{DrainSpec: drainAll(), Action: job(nil)})
	}
	s.requireEnds(t)
	// A stopped worker has finished its tasks.
	require.NoError(t, s.Worker.Stop())
	require.NoError(t, s.Worker.Start(t.Context()))
}
