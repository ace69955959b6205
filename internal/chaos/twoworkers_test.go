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
		{name: "a worker freezes while requests for nodes are in flight", run: func(t *testing.T, s *scene) {
			places := s.places(t, len(ofNodes))
			s.freezeAt(t, places, func(release func()) { s.requireUnchanged(t, places, release) }, ofNodes...)
		}},
		{name: "a worker freezes while requests for clusters are in flight", run: func(t *testing.T, s *scene) {
			s.freezeAt(t, s.onePlaceEach(), releaseNow, clusterRequest("create", false), clusterRequest("delete", false), changing(true))
		}},
		{name: "a worker freezes while the last requests for clusters are in flight", run: func(t *testing.T, s *scene) {
			s.freezeAt(t, s.onePlaceEach(), releaseNow, returningFirst(), changing(false))
		}},
	}
}

// shared: each node is maintained once, whichever worker runs the activities.
func shared(t *testing.T, s *scene) {
	s.withSecondWorker(t)
	s.rollOut(t, shape{clusters: s.Spokes, nodes: []string{controlPlane, "worker-1"}, maxConcurrency: 3}, nil)
	s.requireEnd(t, s.works[0])
}

// withSecondWorker starts another worker for the test.
func (s *scene) withSecondWorker(t *testing.T) {
	t.Helper()
	require.NoError(t, s.second.Start(t.Context()))
	t.Cleanup(func() { require.NoError(t, s.second.Stop()) })
}

// freezesIn is a scenario in which a worker freezes in a state beyond its heartbeat timeout, and resumes when another has finished.
func freezesIn(in state) func(*testing.T, *scene) {
	return func(t *testing.T, s *scene) {
		arrived := in.reach(t, s, s.onePlaceEach()[0])
		require.NoError(t, s.Worker.Freeze())
		s.startSecondWorker(t)
		arrived.heal()
		s.requireEnds(t)
		s.thaw(t)
	}
}

// freezesDuringSlotRequest is a scenario in which a worker freezes during its request to the scheduler, which arrives after all work has ended.
func freezesDuringSlotRequest(t *testing.T, s *scene) {
	for _, at := range s.places(t, workers*(spokes-1)) {
		injection := stopRequest(s, at, nodeRequest("its mark as planned").match(s, at))
		w := s.maintain(t, at, maintenancev1.NodeMaintenanceSpec{DrainSpec: drainAll(), Action: job(nil)})
		stopped := awaitStopped(t, injection)
		injection.Remove()
		stopped.Release()
		s.awaitScheduled(t, w.workflow, "RequestSlots")
		require.NoError(t, s.Worker.Freeze())
		if slices.Contains(s.pending(t, w.workflow), "RequestSlots") {
			s.startSecondWorker(t)
			s.requireEnds(t)
			s.thaw(t)
			return
		}
		require.NoError(t, s.Worker.Thaw()) // it was too fast
		s.requireEnd(t, w)
	}
	require.Fail(t, "the worker never froze during its request")
}

// returningFirst: the first node of a rollout is about to be returned.
func returningFirst() state {
	return clusterState(ranv1.StepWorkers, "a node about to be returned", "NodeMaintenance: ReturnNode", func(t *testing.T, s *scene, at place) reached {
		injection := stopUncordon(s, at)
		w := s.smallRollout(t, at, nil, at.node, "worker-2")
		awaitStopped(t, injection)
		return reached{workflow: w.ofCluster(at.spoke), late: injection}
	})
}

// freezeAt freezes a worker after it has sent the requests that keep work in those states. late releases them after another worker has
// finished.
func (s *scene) freezeAt(t *testing.T, places []place, late func(release func()), states ...state) {
	t.Helper()
	arrived := s.reachAll(t, places, states...)
	standing := s.freezeWith(t, arrived)
	for _, cluster := range s.Clusters() {
		s.Proxy(cluster).Heal()
	}
	s.startSecondWorker(t)
	for _, at := range arrived {
		if at.heal != nil {
			at.heal()
		}
	}
	s.requireEnds(t)
	late(func() {
		for _, stopped := range standing {
			stopped.Release()
			<-stopped.Ended()
		}
	})
	s.thaw(t)
}

// releaseNow releases the requests.
func releaseNow(release func()) { release() }

// requireUnchanged releases requests while another owner has all nodes, and requires that they change nothing.
func (s *scene) requireUnchanged(t *testing.T, places []place, release func()) {
	t.Helper()
	var next []*work
	for _, w := range s.works {
		w.followed = true
	}
	for _, at := range places {
		next = append(next, s.maintainFor(t, at, "next.example.com", maintenancev1.NodeMaintenanceSpec{}))
	}
	for _, w := range next {
		s.awaitPhase(t, w.workflow, string(maintenancev1.NodeReady))
	}
	before := s.ours(t, places)
	release()
	require.Equal(t, before, s.ours(t, places))
	for _, w := range next {
		s.signal(t, w.workflow, temporal.SignalDone)
	}
	s.requireEnds(t)
}

// ours returns the fields of nodes that Drydock may change, by place.
func (s *scene) ours(t *testing.T, places []place) map[string]corev1.Node {
	t.Helper()
	nodes := map[string]corev1.Node{}
	for _, at := range places {
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
func (s *scene) freezeWith(t *testing.T, arrived []reached) (standing []*faultproxy.Stopped) {
	t.Helper()
	for {
		for _, at := range arrived {
			if at.late.Standing() == nil {
				awaitStopped(t, at.late)
			}
		}
		require.NoError(t, s.Worker.Freeze())
		standing = nil
		for _, at := range arrived {
			if stopped := at.late.Standing(); stopped != nil {
				standing = append(standing, stopped)
			}
		}
		if len(standing) == len(arrived) {
			return standing
		}
		require.NoError(t, s.Worker.Thaw())
	}
}

// startSecondWorker starts another worker, which continues without the frozen one.
func (s *scene) startSecondWorker(t *testing.T) {
	t.Helper()
	t.Cleanup(func() { _ = s.Worker.Thaw() }) // the test may have done so
	s.withSecondWorker(t)
}

func (s *scene) requireEnds(t *testing.T) {
	t.Helper()
	for _, w := range s.works {
		s.requireEnd(t, w)
	}
}

// thaw resumes the frozen worker, and requires that it still works.
func (s *scene) thaw(t *testing.T) {
	t.Helper()
	require.NoError(t, s.Worker.Thaw())
	require.NoError(t, s.second.Stop())
	for _, spoke := range s.Spokes[1:] {
		s.maintain(t, place{spoke, controlPlane}, maintenancev1.NodeMaintenanceSpec{DrainSpec: drainAll(), Action: job(nil)})
	}
	s.requireEnds(t)
	// A stopped worker has finished its tasks.
	require.NoError(t, s.Worker.Stop())
	require.NoError(t, s.Worker.Start(t.Context()))
}
