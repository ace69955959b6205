package locks_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/utils/ptr"

	lcmv1 "drydock.dev/drydock/internal/apis/lcm/v1alpha1"
	"drydock.dev/drydock/internal/locks"
)

func TestANodeLockIsReleasedInOrderAndHeldAgainWithItsPod(t *testing.T) {
	const waits = "waits for n1 (at most 1 inactive at once)"
	since := func(seconds, missing string) string {
		return "the maintenance is over, but since 2026-11-20T10:" + seconds + "Z the application is not back: " + missing
	}
	const notReady = "pod tf/vrouter-n1: container agent is not ready"
	maintained := func(w *world) { w.request("n1"); w.settle() }
	later := func(w *world, d time.Duration) { w.now = w.now.Add(d) }
	for _, rule := range []rule{
		{
			name: "a requested node with a ready pod is released", setup: func(w *world) { w.request("n1") },
			node: "n1", from: active, to: inactive, action: locks.Update, reason: locks.PodReady,
		},
		{
			name: "a request for one node does not affect others", setup: func(w *world) { w.request("n1") },
			node: "n2", from: active, to: active, action: locks.Keep, reason: locks.NoRequest,
		},
		{
			name: "a requested node whose pod is not ready stays active", setup: func(w *world) { w.setPod("n1", false); w.request("n1") },
			node: "n1", from: active, to: active, action: locks.Update, reason: locks.PodNotReady, message: notReady,
		},
		{
			name: "it is released when the pod becomes ready",
			setup: func(w *world) {
				w.setPod("n1", false)
				maintained(w)
				w.setPod("n1", true)
			},
			node: "n1", from: active, to: inactive, reason: locks.PodReady,
		},
		{
			name: "once inactive it stays inactive while the request exists, because the pod stops with the node", setup: func(w *world) { maintained(w); w.removePod("n1") },
			node: "n1", from: inactive, to: inactive, action: locks.Keep, reason: locks.RequestStands,
		},
		{
			name: "while another node is inactive, the lock is held", setup: func(w *world) { maintained(w); w.request("n2") },
			node: "n2", from: active, to: active, reason: locks.MaxInactiveNodes, message: waits,
		},
		{
			name: "the older of two requests is served first", setup: func(w *world) { w.request("n2"); later(w, time.Second); w.request("n1") },
			node: "n2", from: active, to: inactive, reason: locks.PodReady,
		},
		{
			name: "two requests of the same second are served by name", setup: func(w *world) { w.request("n2"); w.request("n1") },
			node: "n2", from: active, to: active, reason: locks.MaxInactiveNodes, message: waits,
		},
		{
			name: "the name of the request counts, not that of its node", setup: func(w *world) { w.request("n1"); w.request("n2"); w.snapshot.NodeRequests[0].Name = "z" },
			node: "n1", from: active, to: active, reason: locks.MaxInactiveNodes, message: "waits for n2 (at most 1 inactive at once)",
		},
		{
			name: "a node that is not ready does not delay the nodes after it", setup: func(w *world) { w.setPod("n1", false); w.request("n1"); w.request("n2") },
			node: "n2", from: active, to: inactive, reason: locks.PodReady,
		},
		{
			name: "the policy sets how many may be inactive at once",
			setup: func(w *world) {
				w.policy.MaxInactiveNodes = ptr.To[int32](2)
				maintained(w)
				w.request("n2")
			},
			node: "n2", from: active, to: inactive, reason: locks.PodReady,
		},
		{
			name: "when the request is deleted and the pod ready, it becomes active", setup: func(w *world) { maintained(w); w.withdraw("n1") },
			node: "n1", from: inactive, to: active, reason: locks.RequestGone,
		},
		{
			name: "the next is released when it is active again", setup: func(w *world) { maintained(w); w.request("n2"); w.withdraw("n1") },
			node: "n2", from: active, to: inactive, reason: locks.PodReady,
		},
		{
			name: "when the request is deleted and the pod not ready, it stays inactive and reports the start of the wait", setup: func(w *world) { maintained(w); w.setPod("n1", false); w.withdraw("n1") },
			node: "n1", from: inactive, to: inactive, action: locks.Update, reason: locks.PodNotBack, message: since("00:00", notReady),
		},
		{
			name: "the start of the wait does not change",
			setup: func(w *world) {
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
			setup: func(w *world) {
				maintained(w)
				w.request("n2")
				w.removePod("n1")
				w.withdraw("n1")
			},
			node: "n2", from: active, to: active, reason: locks.MaxInactiveNodes, message: waits,
		},
		{
			name: "a pod that becomes ready makes it active",
			setup: func(w *world) {
				maintained(w)
				w.removePod("n1")
				w.withdraw("n1")
				w.settle()
				w.addPod("n1", true)
			},
			node: "n1", from: inactive, to: active, reason: locks.RequestGone,
		},
		{
			name: "two requests for a node count until both are deleted",
			setup: func(w *world) {
				w.request("n1")
				maintained(w)
				w.snapshot.NodeRequests = w.snapshot.NodeRequests[1:]
			},
			node: "n1", from: inactive, to: inactive, action: locks.Keep, reason: locks.RequestStands,
		},
		{
			name: "a request created during the first is served when the first is deleted",
			setup: func(w *world) {
				maintained(w)
				w.request("n1")
				w.settle()
				w.snapshot.NodeRequests = w.snapshot.NodeRequests[1:]
				w.request("n2")
			},
			node: "n1", from: inactive, to: inactive, reason: locks.RequestStands,
		},
		{
			name: "a request that was deleted and created again queues behind older ones",
			setup: func(w *world) {
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
			name: "a new request that finds the lock inactive keeps it, because its owner may have started",
			setup: func(w *world) {
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
			name: "so does a request that arrives while the pod is not back",
			setup: func(w *world) {
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
			name: "it keeps the lock even if the pod becomes ready and others were requested earlier",
			setup: func(w *world) {
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
			setup: func(w *world) {
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
			setup: func(w *world) {
				maintained(w)
				w.removePod("n1")
				w.request("n2")
				w.unlock("n1")
			},
			node: "n1", from: none, to: inactive, action: locks.Create, reason: locks.RequestStands,
		},
		{
			name: "a lock that was deleted during the maintenance excludes others until its pod is back",
			setup: func(w *world) {
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
			setup: func(w *world) { maintained(w); w.request("n2"); w.node("n1").Labels = nil },
			node:  "n2", from: active, to: inactive, reason: locks.PodReady,
		},
		{
			name: "a request for a node without the role is ignored", setup: func(w *world) { w.addNode("n0"); w.node("n0").Labels = nil; w.request("n0"); w.request("n1") },
			node: "n1", from: active, to: inactive, reason: locks.PodReady,
		},
		{
			name: "a lock that another client made inactive excludes others", setup: func(w *world) { w.lock("n1").Status.State = inactive; w.request("n1"); w.request("n2") },
			node: "n2", from: active, to: active, reason: locks.MaxInactiveNodes, message: waits,
		},
		{
			name: "a lock that another client made inactive without a request is made active", setup: func(w *world) { w.lock("n1").Status.State = inactive },
			node: "n1", from: inactive, to: active, reason: locks.RequestGone,
		},
		{
			name: "a new lock of a requested node is released in order", setup: func(w *world) { w.addNode("n0"); w.addPod("n0", true); w.request("n0") },
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
			name: "with a request and a ready pod, it is released", setup: func(w *world) { mark(w); w.request("n1") },
			node: "n1", from: failed, to: inactive, reason: locks.PodReady,
		},
		{
			name: "with a request and a pod that is not ready it keeps the person's message", setup: func(w *world) { mark(w); w.setPod("n1", false); w.request("n1") },
			node: "n1", from: failed, to: failed, reason: locks.MarkedFailed, message: "disk is being replaced",
		},
		{
			name: "it does not overtake older requests", setup: func(w *world) { mark(w); w.request("n0"); w.addNode("n0"); w.addPod("n0", true); w.request("n1") },
			node: "n1", from: failed, to: failed, reason: locks.MaxInactiveNodes, message: "disk is being replaced",
		},
		{
			name: "without a request and with a ready pod it is active", setup: func(w *world) { mark(w) },
			node: "n1", from: failed, to: active, reason: locks.NoRequest,
		},
		{
			name: "during the maintenance it excludes others while its pod is not ready",
			setup: func(w *world) {
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
			setup: func(w *world) {
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
	require.Equal(t, t0.Add(time.Hour+10*time.Minute), decision.RecheckAt.UTC())

	w.now = w.now.Add(10*time.Minute - time.Second)
	require.True(t, w.decide().Settled(), "a second before the deadline")
	w.now = w.now.Add(time.Second)
	decision = w.settle()
	require.Equal(t, failed, of(decision, "n1").To)
	require.Equal(t, locks.PodDeadlinePassed, of(decision, "n1").Reason)
	require.Equal(t, "the maintenance is over, but the application has not been back since 2026-11-20T11:00:00Z: "+noPod, of(decision, "n1").Message)
	require.Nil(t, decision.RecheckAt)
	require.Equal(t, locks.PodDeadlinePassed, of(w.decide(), "n1").Reason, "no person marked it")
	w.addPod("n1", false)
	require.Equal(t, locks.PodDeadlinePassed, of(w.settle(), "n1").Reason)
	require.Contains(t, w.lock("n1").Status.ErrorMessage, "not been back since 2026-11-20T11:00:00Z: pod tf/vrouter-n1: container agent is not ready")
	w.lock("n1").Status.ErrorMessage = "disk is being replaced"
	require.Equal(t, locks.MarkedFailed, of(w.decide(), "n1").Reason, "the message was changed by a person")
	w.removePod("n1")

	w.request("n2")
	require.Equal(t, locks.MaxInactiveNodes, of(w.settle(), "n2").Reason, "a failed node still counts as inactive")
	w.addPod("n1", true)
	decision = w.settle()
	require.Equal(t, active, of(decision, "n1").To, "a late pod makes the lock active")
	require.Equal(t, inactive, of(decision, "n2").To)
}

func TestARecordedPermitIsKeptUntilItsRequestEndsOrMayNotBeServed(t *testing.T) {
	recorded := func(t *testing.T) *world {
		w := newWorld(t, "n1", "n2")
		w.settle()
		w.request("n2")
		w.record(w.decide().Permits) // and then the controller crashed
		require.Equal(t, active, w.state("n2"))
		return w
	}
	t.Run("it is kept while its request exists", func(t *testing.T) {
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
	t.Run("it ends when the pod is no longer ready", func(t *testing.T) {
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

// Each change of the inactive lock concerns only the nodes that come next.
func TestManyWaitingNodesAreNotWrittenAgainWhenTheTurnMovesOn(t *testing.T) {
	var names []string
	for i := range 100 {
		names = append(names, fmt.Sprintf("n%03d", i))
	}
	w := newWorld(t, names...)
	w.settle()
	for _, name := range names {
		w.request(name)
	}
	w.settle()
	require.Equal(t, "waits for n000 (at most 1 inactive at once)", w.lock("n001").Status.ErrorMessage)
	require.Equal(t, "waits for nodes that were requested earlier (at most 1 inactive at once)", w.lock("n099").Status.ErrorMessage)
	w.withdraw("n000")
	var written []string
	for _, change := range w.settle().Changes() {
		if change.Kind == locks.NodeLockKind {
			written = append(written, change.Node)
		}
	}
	require.Equal(t, []string{"n000", "n001", "n002"}, written)
	require.Equal(t, "waits for n001 (at most 1 inactive at once)", w.lock("n002").Status.ErrorMessage)
}
