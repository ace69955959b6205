package chaos

import (
	"testing"

	"github.com/stretchr/testify/require"

	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/devstack/faultproxy"
)

// twoWorkers are the scenarios in which two workers are at work, or one takes over from another that stands still and does not know it.
func twoWorkers() []scenario {
	return []scenario{
		{name: "two workers share a rollout", short: true, run: shared},
		{name: "a worker freezes while a node drains", run: freezes(draining())},
		{name: "a worker freezes while a job is at work", run: freezes(jobAtWork())},
		{name: "a worker freezes with its cordon on the way out", run: freezesAt("the cordon")},
		{name: "a worker freezes with an eviction on the way out", run: freezesAt("an eviction")},
		{name: "a worker freezes with its uncordon on the way out", run: freezesAt("the uncordon")},
		{name: "a worker freezes with its mark on the way out", run: freezesAt("its mark as planned")},
		{name: "a worker freezes with its request to the locks on the way out", run: freezesAt("the request to its locks")},
		{name: "a worker freezes with the creation of its job on the way out", run: freezesAt("the creation of the job")},
	}
}

// shared: each node is maintained once, whoever does what.
func shared(t *testing.T, s *scene) {
	s.withSecondWorker(t)
	s.rollOut(t, shape{clusters: s.Spokes, nodes: []string{controlPlane, "worker-1"}, maxConcurrency: 3}, nil)
	s.requireEnd(t, s.works[0])
}

// withSecondWorker starts another worker, which is gone after the test.
func (s *scene) withSecondWorker(t *testing.T) {
	t.Helper()
	require.NoError(t, s.second.Start(t.Context()))
	t.Cleanup(func() { require.NoError(t, s.second.Stop()) })
}

// freezes is a scenario in which a worker stands still in a state beyond its heartbeat timeout, and moves again when another has finished.
func freezes(in state) func(*testing.T, *scene) {
	return func(t *testing.T, s *scene) {
		arrived := in.reach(t, s, s.places(t, 1)[0])
		s.freeze(t)
		arrived.heal()
		s.requireEnd(t, s.works[0])
		s.thaw(t)
	}
}

// freezesAt is a scenario in which a worker stands still right after it has sent a request, and the request comes to the API server when
// another worker has finished the maintenance.
func freezesAt(what string) func(*testing.T, *scene) {
	return func(t *testing.T, s *scene) {
		at := s.places(t, 1)[0]
		var late request
		for _, r := range nodeRequests() {
			if r.what == what {
				late = r
			}
		}
		late.slow = false
		injection := s.Proxy(at.spoke).Inject(faultproxy.Rule{Match: late.match(s, at), Fault: faultproxy.Stop(), Times: 1})
		late.reach(t, s, at)
		stopped := awaitStopped(t, injection)
		s.freeze(t)
		s.requireEnd(t, s.works[0])
		stopped.Release()
		<-stopped.Ended()
		s.thaw(t)
	}
}

// freeze stops the worker where it is. Another one, which has just begun, has to go on without it.
func (s *scene) freeze(t *testing.T) {
	t.Helper()
	require.NoError(t, s.Worker.Freeze())
	t.Cleanup(func() { _ = s.Worker.Thaw() }) // the test may have done so
	s.withSecondWorker(t)
}

// thaw lets the frozen worker move again, and do what it had begun and what it was given while it slept; and shows that it can still work.
func (s *scene) thaw(t *testing.T) {
	t.Helper()
	require.NoError(t, s.Worker.Thaw())
	require.NoError(t, s.second.Stop())
	at := s.places(t, 2)[1]
	w := s.maintain(t, at, maintenancev1.NodeMaintenanceSpec{DrainSpec: drainAll(), Action: job(nil)})
	s.requireEnd(t, w)
	// A worker that ends has done all that it would.
	require.NoError(t, s.Worker.Stop())
	require.NoError(t, s.Worker.Start(t.Context()))
}
