package locks_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/utils/ptr"

	lcmv1 "drydock.dev/drydock/internal/apis/lcm/v1alpha1"
	"drydock.dev/drydock/internal/locks"
)

const noPod = "no pod of the application is on the node"

// withoutPod is a world in which the first node has no pod, and the deadline for pods is ten minutes.
func withoutPod(t *testing.T) *world {
	w := newWorld(t, "n1", "n2")
	w.policy.NodePodDeadlineSeconds = ptr.To[int32](600)
	w.settle()
	w.removePod("n1")
	return w
}

func (w *world) later(d time.Duration) { w.now = w.now.Add(d) }

func TestAPodThatMissesItsDeadlineWhileItsNodeIsRequestedFailsTheLock(t *testing.T) {
	w := withoutPod(t)
	decision := w.settle()
	require.Equal(t, locks.NoRequest, of(decision, "n1").Reason)
	require.Nil(t, decision.RecheckAt, "without a request there is no deadline")

	w.later(time.Hour)
	w.request("n1")
	decision = w.settle()
	require.Equal(t, active, of(decision, "n1").To)
	require.Equal(t, locks.PodNotReady, of(decision, "n1").Reason)
	require.Equal(t, t0.Add(time.Hour+10*time.Minute), decision.RecheckAt.UTC())
	w.request("n2")
	require.Equal(t, inactive, of(w.settle(), "n2").To, "other nodes do not wait for it")

	w.later(10*time.Minute - time.Second)
	require.True(t, w.decide().Settled(), "a second before the deadline")
	w.later(time.Second)
	require.True(t, of(w.decide(), "n1").Grave(), "a stale decision must not write it")
	decision = w.settle()
	require.Equal(t, failed, of(decision, "n1").To)
	require.Equal(t, locks.PodDeadlinePassed, of(decision, "n1").Reason)
	require.Equal(t, "cannot release the node: the application is not ready since 2026-11-20T11:00:00Z: "+noPod, of(decision, "n1").Message)
	require.Nil(t, decision.RecheckAt)
	require.Equal(t, []string{"n2"}, w.inactive(), "its node stays in service")

	w.withdraw("n1")
	require.Equal(t, locks.PodDeadlinePassed, of(w.settle(), "n1").Reason, "no person marked it")
	w.request("n1")
	w.addPod("n1", false)
	w.settle()
	require.Equal(t, failed, w.state("n1"), "the next request does not wait for the deadline again")
	require.Contains(t, w.lock("n1").Status.ErrorMessage, "since 2026-11-20T11:00:00Z: pod tf/vrouter-n1: container agent is not ready")

	w.setPod("n1", true)
	decision = w.settle()
	require.Equal(t, active, of(decision, "n1").To, "its pod is ready")
	require.Equal(t, locks.MaxInactiveNodes, of(decision, "n1").Reason)
	w.withdraw("n2")
	require.Equal(t, inactive, of(w.settle(), "n1").To)
}

func TestThePodDeadlineCountsOnlyWhileTheNodeIsRequestedAndThePodNotReady(t *testing.T) {
	for name, between := range map[string]func(*world){
		"the request was withdrawn in between":                         func(w *world) { w.withdraw("n1"); w.settle(); w.request("n1") },
		"it was deleted, and another created before the next decision": func(w *world) { w.withdraw("n1"); w.request("n1") },
		"the pod was ready in between": func(w *world) {
			w.request("n2") // older, by its name
			w.snapshot.NodeRequests[1].Name = "a"
			w.settle()
			w.setPod("n1", true)
			w.settle()
			w.removePod("n1")
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := withoutPod(t)
			w.request("n1")
			w.settle()
			w.later(9 * time.Minute)
			between(w)
			require.Equal(t, t0.Add(19*time.Minute), w.settle().RecheckAt.UTC())
			w.later(9 * time.Minute)
			require.True(t, w.decide().Settled())
			w.later(time.Minute)
			require.Equal(t, failed, of(w.settle(), "n1").To)
		})
	}
	t.Run("one of two requests was withdrawn in between", func(t *testing.T) {
		w := withoutPod(t)
		w.request("n1")
		w.settle()
		w.later(5 * time.Minute)
		w.request("n1")
		w.settle()
		w.snapshot.NodeRequests = w.snapshot.NodeRequests[1:]
		w.settle()
		w.later(5 * time.Minute)
		require.Equal(t, failed, of(w.settle(), "n1").To, "the other request remained")
	})
	t.Run("the policy has no deadline", func(t *testing.T) {
		w := withoutPod(t)
		w.policy.NodePodDeadlineSeconds = nil
		w.request("n1")
		require.Nil(t, w.settle().RecheckAt)
		w.later(1000 * time.Hour)
		require.True(t, w.decide().Settled())
	})
}

func TestAMarkByAPersonOnALockWithoutReadyPodStays(t *testing.T) {
	for name, before := range map[string]func(*world){
		"before the request":           func(*world) {},
		"during the request":           func(w *world) { w.request("n1"); w.settle(); w.later(time.Minute) },
		"after the deadline failed it": func(w *world) { w.request("n1"); w.settle(); w.later(time.Hour); w.settle() },
	} {
		t.Run(name, func(t *testing.T) {
			w := withoutPod(t)
			before(w)
			w.lock("n1").Status = lcmv1.WorkloadLockStatus{State: failed, ErrorMessage: "disk is being replaced"}
			w.request("n1")
			w.settle()
			w.later(time.Hour)
			require.Equal(t, locks.MarkedFailed, of(w.settle(), "n1").Reason)
			require.Equal(t, "disk is being replaced", w.lock("n1").Status.ErrorMessage)

			w.lock("n1").Status = lcmv1.WorkloadLockStatus{State: active}
			require.Equal(t, locks.PodNotReady, of(w.settle(), "n1").Reason, "the deadline starts when the mark is removed")
		})
	}
}

func TestADeadlineFailureIsNeverTakenForAMarkByAPerson(t *testing.T) {
	for name, deadline := range map[string]*int32{"raised": ptr.To[int32](100_000), "removed": nil} {
		t.Run(name+" while its node is requested", func(t *testing.T) {
			w := withoutPod(t)
			w.request("n1")
			w.settle()
			w.later(10 * time.Minute)
			w.settle()
			w.policy.NodePodDeadlineSeconds = deadline
			require.Equal(t, locks.PodDeadlinePassed, of(w.settle(), "n1").Reason)
			w.addPod("n1", false)
			require.Contains(t, of(w.settle(), "n1").Message, "since 2026-11-20T10:00:00Z: pod tf/vrouter-n1: container agent is not ready")

			w.request("n2")
			w.settle()
			w.setPod("n1", true)
			decision := w.settle()
			require.Equal(t, active, of(decision, "n1").To, "it waits in order")
			require.Equal(t, locks.MaxInactiveNodes, of(decision, "n1").Reason)
		})
		t.Run(name+" after its maintenance", func(t *testing.T) {
			w := withoutPod(t)
			w.addPod("n1", true)
			w.request("n1")
			w.settle()
			w.removePod("n1")
			w.withdraw("n1")
			w.settle()
			w.later(10 * time.Minute)
			require.Equal(t, locks.PodDeadlinePassed, of(w.settle(), "n1").Reason)
			w.policy.NodePodDeadlineSeconds = deadline
			require.Equal(t, locks.PodDeadlinePassed, of(w.settle(), "n1").Reason)
			require.Contains(t, w.lock("n1").Status.ErrorMessage, "since 2026-11-20T10:00:00Z: "+noPod)
			w.request("n1")
			w.settle()
			w.addPod("n1", false)
			require.Equal(t, locks.PodDeadlinePassed, of(w.settle(), "n1").Reason, "no person marked it")
		})
	}
}

func TestAPersonMayMarkALockFailedWithoutAMessage(t *testing.T) {
	w := withoutPod(t)
	w.addPod("n1", true)
	w.request("n1")
	w.settle()
	w.removePod("n1")
	w.withdraw("n1")
	w.settle()
	w.lock("n1").Status.State = failed // its message stays
	require.Equal(t, locks.MarkedFailed, of(w.settle(), "n1").Reason)
	w.later(time.Hour)
	require.Equal(t, locks.MarkedFailed, of(w.settle(), "n1").Reason, "the deadline had not passed")
}
