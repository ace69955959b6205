package locks_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/utils/ptr"

	lcmv1 "drydock.dev/drydock/internal/apis/lcm/v1alpha1"
	"drydock.dev/drydock/internal/locks"
)

func TestANodeLockIsReleasedInOrderAndHeldAgainWithItsPod(t *testing.T) {
	const waits = "waits for n1 (at most 1 inactive at once)"
	since := func(seconds string, what string) string {
		return "the maintenance is over, but since 2026-11-20T10:" + seconds + "Z the application is not back: " + what
	}
	const notReady = "pod tf/vrouter-n1: container agent is not ready"
	maintained := func(w *world) { w.request("n1"); w.settle() }
	later := func(w *world, d time.Duration) { w.now = w.now.Add(d) }
	for _, rule := range []rule{
		{
			name: "a request and a ready pod: it is released", story: func(w *world) { w.request("n1") },
			node: "n1", from: active, to: inactive, action: locks.Update, reason: locks.PodReady,
		},
		{
			name: "a request for one node does not affect others", story: func(w *world) { w.request("n1") },
			node: "n2", from: active, to: active, action: locks.Keep, reason: locks.NoRequest,
		},
		{
			name: "a request and a pod that is not ready: it stays active", story: func(w *world) { w.setPod("n1", false); w.request("n1") },
			node: "n1", from: active, to: active, action: locks.Update, reason: locks.PodNotReady, message: notReady,
		},
		{
			name: "it is released when the pod becomes ready",
			story: func(w *world) {
				w.setPod("n1", false)
				maintained(w)
				w.setPod("n1", true)
			},
			node: "n1", from: active, to: inactive, reason: locks.PodReady,
		},
		{
			name: "once inactive it stays so while the request stands: the pod goes down with the node", story: func(w *world) { maintained(w); w.removePod("n1") },
			node: "n1", from: inactive, to: inactive, action: locks.Keep, reason: locks.RequestStands,
		},
		{
			name: "while another node is inactive, the lock is held", story: func(w *world) { maintained(w); w.request("n2") },
			node: "n2", from: active, to: active, reason: locks.MaxInactiveNodes, message: waits,
		},
		{
			name: "of two requests at once the older one is first", story: func(w *world) { w.request("n2"); later(w, time.Second); w.request("n1") },
			node: "n2", from: active, to: inactive, reason: locks.PodReady,
		},
		{
			name: "of two requests of the same second the first by name is first", story: func(w *world) { w.request("n2"); w.request("n1") },
			node: "n2", from: active, to: active, reason: locks.MaxInactiveNodes, message: waits,
		},
		{
			name: "by the name of the request, whatever that of its node", story: func(w *world) { w.request("n1"); w.request("n2"); w.snapshot.NodeRequests[0].Name = "z" },
			node: "n1", from: active, to: active, reason: locks.MaxInactiveNodes, message: "waits for n2 (at most 1 inactive at once)",
		},
		{
			name: "a node that is not ready does not hold up those after it", story: func(w *world) { w.setPod("n1", false); w.request("n1"); w.request("n2") },
			node: "n2", from: active, to: inactive, reason: locks.PodReady,
		},
		{
			name: "the policy sets how many may be inactive at once",
			story: func(w *world) {
				w.policy.MaxInactiveNodes = ptr.To[int32](2)
				maintained(w)
				w.request("n2")
			},
			node: "n2", from: active, to: inactive, reason: locks.PodReady,
		},
		{
			name: "the request is gone and the pod ready: it is active", story: func(w *world) { maintained(w); w.withdraw("n1") },
			node: "n1", from: inactive, to: active, reason: locks.RequestGone,
		},
		{
			name: "the next is released when it is active again", story: func(w *world) { maintained(w); w.request("n2"); w.withdraw("n1") },
			node: "n2", from: active, to: inactive, reason: locks.PodReady,
		},
		{
			name: "the request is gone and the pod not ready: it stays inactive and reports since when", story: func(w *world) { maintained(w); w.setPod("n1", false); w.withdraw("n1") },
			node: "n1", from: inactive, to: inactive, action: locks.Update, reason: locks.PodNotBack, message: since("00:00", notReady),
		},
		{
			name: "since when does not change with time",
			story: func(w *world) {
				maintained(w)
				w.setPod("n1", false)
				w.withdraw("n1")
				w.settle()
				later(w, time.Hour)
			},
			node: "n1", from: inactive, to: inactive, action: locks.Keep, reason: locks.PodNotBack, message: since("00:00", notReady),
		},
		{
			name: "while its pod is not back, it still excludes others",
			story: func(w *world) {
				maintained(w)
				w.request("n2")
				w.removePod("n1")
				w.withdraw("n1")
			},
			node: "n2", from: active, to: active, reason: locks.MaxInactiveNodes, message: waits,
		},
		{
			name: "a pod that comes back makes it active",
			story: func(w *world) {
				maintained(w)
				w.removePod("n1")
				w.withdraw("n1")
				w.settle()
				w.addPod("n1", true)
			},
			node: "n1", from: inactive, to: active, reason: locks.RequestGone,
		},
		{
			name: "two requests for a node count until both are gone",
			story: func(w *world) {
				w.request("n1")
				maintained(w)
				w.snapshot.NodeRequests = w.snapshot.NodeRequests[1:]
			},
			node: "n1", from: inactive, to: inactive, action: locks.Keep, reason: locks.RequestStands,
		},
		{
			name: "a request created during the first is served when the first is deleted",
			story: func(w *world) {
				maintained(w)
				w.request("n1")
				w.settle()
				w.snapshot.NodeRequests = w.snapshot.NodeRequests[1:]
				w.request("n2")
			},
			node: "n1", from: inactive, to: inactive, reason: locks.RequestStands,
		},
		{
			name: "a request that was deleted and created again is a new one: it queues behind older ones",
			story: func(w *world) {
				maintained(w)
				later(w, time.Second)
				w.request("n2")
				w.withdraw("n1")
				w.settle()
				later(w, time.Second)
				w.request("n1")
			},
			node: "n1", from: active, to: active, reason: locks.MaxInactiveNodes, message: "waits for n2 (at most 1 inactive at once)",
		},
		{
			name: "a request that finds the lock inactive has it: its owner may use it already",
			story: func(w *world) {
				maintained(w)
				later(w, time.Second)
				w.request("n2")
				w.settle()
				w.withdraw("n1")
				later(w, time.Second)
				w.request("n1")
			},
			node: "n1", from: inactive, to: inactive, action: locks.Update, reason: locks.RequestStands,
		},
		{
			name: "and so does one that finds the pod not back",
			story: func(w *world) {
				w.policy.NodePodDeadlineSeconds = ptr.To[int32](600)
				maintained(w)
				w.removePod("n1")
				w.withdraw("n1")
				w.settle()
				w.request("n1")
				w.settle()
				later(w, time.Hour) // no request waits for it to return
			},
			node: "n1", from: inactive, to: inactive, action: locks.Keep, reason: locks.RequestStands,
		},
		{
			name: "it also has it when the pod becomes ready during its maintenance and others were requested before",
			story: func(w *world) {
				maintained(w)
				w.removePod("n1")
				w.withdraw("n1")
				w.settle()
				later(w, time.Second)
				w.request("n2")
				w.settle()
				later(w, time.Second)
				w.request("n1")
				w.settle()
				w.setPod("n1", true)
			},
			node: "n1", from: inactive, to: inactive, action: locks.Keep, reason: locks.RequestStands,
		},
		{
			name: "the wait for the pod starts again after each maintenance",
			story: func(w *world) {
				maintained(w)
				w.removePod("n1")
				w.withdraw("n1")
				w.settle()
				w.request("n1")
				w.settle()
				later(w, time.Minute)
				w.withdraw("n1")
			},
			node: "n1", from: inactive, to: inactive, reason: locks.PodNotBack, message: since("01:00", "no pod of the application is on the node"),
		},
		{
			name: "a lock that was deleted during the maintenance is still released",
			story: func(w *world) {
				maintained(w)
				w.removePod("n1")
				w.request("n2")
				w.unlock("n1")
			},
			node: "n1", from: none, to: inactive, action: locks.Create, reason: locks.RequestStands,
		},
		{
			name: "and excludes others until its pod is back",
			story: func(w *world) {
				maintained(w)
				w.removePod("n1")
				w.request("n2")
				w.withdraw("n1")
				w.unlock("n1")
			},
			node: "n2", from: active, to: active, reason: locks.MaxInactiveNodes, message: waits,
		},
		{
			name:  "a node that lost the role while it was inactive no longer excludes others",
			story: func(w *world) { maintained(w); w.request("n2"); w.node("n1").Labels = nil },
			node:  "n2", from: active, to: inactive, reason: locks.PodReady,
		},
		{
			name: "a request for a node without the role is ignored", story: func(w *world) { w.addNode("n0"); w.node("n0").Labels = nil; w.request("n0"); w.request("n1") },
			node: "n1", from: active, to: inactive, reason: locks.PodReady,
		},
		{
			name: "a lock that another client made inactive excludes others", story: func(w *world) { w.lock("n1").Status.State = inactive; w.request("n1"); w.request("n2") },
			node: "n2", from: active, to: active, reason: locks.MaxInactiveNodes, message: waits,
		},
		{
			name: "a lock that another client made inactive without a request is made active", story: func(w *world) { w.lock("n1").Status.State = inactive },
			node: "n1", from: inactive, to: active, reason: locks.RequestGone,
		},
		{
			name: "a new lock of a requested node is released in order", story: func(w *world) { w.addNode("n0"); w.addPod("n0", true); w.request("n0") },
			node: "n0", from: none, to: inactive, action: locks.Create, reason: locks.PodReady,
		},
	} {
		t.Run(rule.name, rule.run)
	}
}

func TestALockMarkedFailedIsTreatedAsActive(t *testing.T) {
	mark := func(w *world) {
		w.lock("n1").Status = lcmv1.WorkloadLockStatus{State: failed, ErrorMessage: "disk is being replaced"}
	}
	for _, rule := range []rule{
		{
			name: "with a request and a ready pod, it is released", story: func(w *world) { mark(w); w.request("n1") },
			node: "n1", from: failed, to: inactive, reason: locks.PodReady,
		},
		{
			name: "with a request and a pod that is not ready it stays, with the person's message", story: func(w *world) { mark(w); w.setPod("n1", false); w.request("n1") },
			node: "n1", from: failed, to: failed, reason: locks.MarkedFailed, message: "disk is being replaced",
		},
		{
			name: "it does not overtake", story: func(w *world) { mark(w); w.request("n0"); w.addNode("n0"); w.addPod("n0", true); w.request("n1") },
			node: "n1", from: failed, to: failed, reason: locks.MaxInactiveNodes, message: "disk is being replaced",
		},
		{
			name: "without a request and with a ready pod it is active", story: func(w *world) { mark(w) },
			node: "n1", from: failed, to: active, reason: locks.NoRequest,
		},
		{
			name: "during the maintenance it excludes others while its pod is not ready",
			story: func(w *world) {
				w.request("n1")
				w.settle()
				mark(w)
				w.setPod("n1", false)
				w.request("n2")
			},
			node: "n2", from: active, to: active, reason: locks.MaxInactiveNodes, message: "waits for n1 (at most 1 inactive at once)",
		},
		{
			name: "during the maintenance it is released again when its pod is ready",
			story: func(w *world) {
				w.request("n1")
				w.settle()
				mark(w)
			},
			node: "n1", from: failed, to: inactive, reason: locks.PodReady,
		},
	} {
		t.Run(rule.name, rule.run)
	}
}

func TestAPodThatMissesItsDeadlineAfterAMaintenanceFailsTheLock(t *testing.T) {
	w := newWorld(t, "n1", "n2")
	w.policy.NodePodDeadlineSeconds = ptr.To[int32](600)
	w.settle()
	w.request("n1")
	w.settle()
	w.now = w.now.Add(time.Hour) // the maintenance itself may take longer
	w.removePod("n1")
	w.withdraw("n1")
	decision := w.settle()
	require.Equal(t, locks.PodNotBack, of(decision, "n1").Reason)
	require.Equal(t, t0.Add(time.Hour+10*time.Minute), decision.NextLook.UTC())

	w.now = w.now.Add(10*time.Minute - time.Second)
	require.True(t, w.decide().Settled(), "a second before the deadline")
	w.now = w.now.Add(time.Second)
	decision = w.settle()
	require.Equal(t, failed, of(decision, "n1").To)
	require.Equal(t, locks.PodDeadlinePassed, of(decision, "n1").Reason)
	require.Equal(t, "the maintenance is over, but the application has not been back since 2026-11-20T11:00:00Z: "+noPod, of(decision, "n1").Message)
	require.Nil(t, decision.NextLook)
	require.Equal(t, locks.PodDeadlinePassed, of(w.decide(), "n1").Reason, "no person marked it")
	w.addPod("n1", false)
	require.Equal(t, locks.PodDeadlinePassed, of(w.settle(), "n1").Reason)
	require.Contains(t, w.lock("n1").Status.ErrorMessage, "not been back since 2026-11-20T11:00:00Z: pod tf/vrouter-n1: container agent is not ready")
	w.lock("n1").Status.ErrorMessage = "disk is being replaced"
	require.Equal(t, locks.MarkedFailed, of(w.decide(), "n1").Reason, "a person has")
	w.removePod("n1")

	w.request("n2")
	require.Equal(t, locks.MaxInactiveNodes, of(w.settle(), "n2").Reason, "a node without its application still counts as inactive")
	w.addPod("n1", true)
	decision = w.settle()
	require.Equal(t, active, of(decision, "n1").To, "a pod that comes back after all makes the lock active")
	require.Equal(t, inactive, of(decision, "n2").To)
}

func TestARecordedPermitIsKeptOrEndedButNeverForgotten(t *testing.T) {
	recorded := func(t *testing.T) *world {
		w := newWorld(t, "n1", "n2")
		w.settle()
		w.request("n2")
		w.record(w.decide().Permits) // and then the controller crashed
		require.Equal(t, active, w.state("n2"))
		return w
	}
	t.Run("it is kept while its request stands", func(t *testing.T) {
		w := recorded(t)
		w.request("n1") // of the same second, and first by name
		w.settle()
		require.Equal(t, []string{"n2"}, w.inactive())
	})
	t.Run("it ends with its request, and the lock is written before others get the permit", func(t *testing.T) {
		w := recorded(t)
		w.request("n1")
		w.withdraw("n2")
		decision := w.settle()
		require.Equal(t, locks.Update, of(decision, "n2").Action)
		require.True(t, of(decision, "n2").EndsPermit)
		require.Equal(t, inactive, of(decision, "n1").To)
	})
	t.Run("it ends when the pod is not ready any more", func(t *testing.T) {
		w := recorded(t)
		w.request("n1")
		w.setPod("n2", false)
		decision := w.settle()
		require.True(t, of(decision, "n2").EndsPermit)
		require.Equal(t, []string{"n1"}, w.inactive())
	})
	t.Run("it ends when the policy allows fewer", func(t *testing.T) {
		w := newWorld(t, "n1", "n2")
		w.policy.MaxInactiveNodes = ptr.To[int32](2)
		w.settle()
		w.request("n1")
		w.request("n2")
		w.record(w.decide().Permits)
		w.policy.MaxInactiveNodes = nil
		decision := w.settle()
		require.Equal(t, []string{"n1"}, w.inactive())
		require.True(t, of(decision, "n2").EndsPermit)
	})
}
