package lockcontroller

import (
	"context"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/client"

	lcmv1 "drydock.dev/drydock/internal/apis/lcm/v1alpha1"
	"drydock.dev/drydock/internal/locks"
)

func TestAFrozenWriterCannotUseAnEndedPermit(t *testing.T) {
	r := newRace(t.Context(), t, 1)
	r.setRequest("n1", true, 1)
	r.addView()
	frozen := r.startNow()
	r.stepUntil(frozen, "patch status of tf-n1")

	r.setRequest("n1", false, 0)
	r.setRequest("n2", true, 2)
	r.addView()
	r.finish(r.startNow())
	require.Equal(t, []string{"n2"}, r.inactive())
	r.finish(frozen)
	require.Equal(t, []string{"n2"}, r.inactive())
}

// A lock without a state whose node has a permit was deleted while it was inactive. A new lock must never look like that.
func TestACrashBeforeANewLockIsReleasedLeavesNoPermit(t *testing.T) {
	for requests := 0; ; requests++ {
		r := newRace(t.Context(), t, 1)
		require.NoError(t, r.api.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n4"}}))
		r.setPod("n4", true)
		r.setRequest("n4", true, 1)
		r.addView()
		dead := r.startNow()
		for range requests {
			r.step(dead)
		}
		if slices.Contains(r.inactive(), "n4") {
			require.Greater(t, requests, 3, "the lock was created, active and had a permit")
			return
		}
		r.setPod("n4", false)
		r.addView()
		r.finish(r.startNow())
		require.Empty(t, r.inactive(), "after %d requests", requests)
		r.setRequest("n4", false, 0)
		r.addView()
		r.finish(r.startNow())
		require.Empty(t, r.inactive(), "after %d requests", requests)
	}
}

func TestAFrozenWriterCannotHoldANodeRequestedSince(t *testing.T) {
	r := newRace(t.Context(), t, 1)
	r.setRequest("n1", true, 1)
	r.addView()
	r.finish(r.startNow())
	r.setRequest("n1", false, 0)
	r.addView()
	frozen := r.startNow()
	r.stepUntil(frozen, "patch status of tf-n1") // it is about to activate the lock

	r.setRequest("n1", true, 2)
	r.setRequest("n2", true, 1)
	r.addView()
	r.finish(r.startNow())
	for frozen.next != "" {
		r.step(frozen)
		require.Equal(t, []string{"n1"}, r.inactive())
	}
}

func TestWritersThatStartAndEndAPermitAreOrdered(t *testing.T) {
	r := newRace(t.Context(), t, 1)
	r.setRequest("n1", true, 1)
	r.addView()
	dead := r.startNow()
	r.stepUntil(dead, "patch status of tf-n1") // the turn is recorded, and then the controller stops
	r.addView()
	withTurn := len(r.views) - 1

	r.setRequest("n2", true, 2)
	r.setPod("n1", false)
	r.addView()
	ender := r.startNow()
	r.stepUntil(ender, "patch tf") // n1's lock reports a pod that is not ready; the end of its turn is not recorded yet
	r.setPod("n1", true)
	taker := r.start(withTurn)
	r.stepUntil(taker, "patch status of tf-n1")
	r.step(taker) // without another write of the cluster's lock
	require.Equal(t, []string{"n1"}, r.inactive())
	r.finish(ender)
	require.Equal(t, []string{"n1"}, r.inactive())
}

// A requester treats a deleted lock as inactive.
func TestAFrozenWriterCannotDeleteTheLockOfAReturnedNode(t *testing.T) {
	r := newRace(t.Context(), t, 1)
	node := func() *corev1.Node { return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}} }
	require.NoError(t, r.api.Delete(t.Context(), node()))
	r.addView()
	frozen := r.startNow()
	r.stepUntil(frozen, "delete tf-n1")

	require.NoError(t, r.api.Create(t.Context(), node()))
	r.setPod("n1", false)
	r.setRequest("n1", true, 1)
	r.addView()
	r.finish(r.startNow()) // it writes the reason of the active lock
	for frozen.next != "" {
		r.step(frozen)
		require.Equal(t, lcmv1.LockActive, r.state("n1"))
	}
}

func TestALockDeletedDuringAMaintenanceIsRecreatedAsInactive(t *testing.T) {
	r := newRace(t.Context(), t, 1)
	r.setRequest("n1", true, 1)
	r.addView()
	r.finish(r.startNow())
	r.setPod("n1", false)
	r.setRequest("n2", true, 2)
	require.NoError(t, r.api.Delete(t.Context(), &lcmv1.NodeWorkloadLock{ObjectMeta: metav1.ObjectMeta{Name: "tf-n1"}}))
	delete(r.served, "n1") // its lock was deleted
	r.addView()
	r.finish(r.startNow())
	require.Equal(t, []string{"n1"}, r.inactive())
}

// Watches of different kinds are not synchronised: the request of a released lock may be seen later than an earlier request.
func TestAPermitIsNotGivenToADeletedRequest(t *testing.T) {
	r := newRace(t.Context(), t, 1)
	request := func(name string) *lcmv1.NodeMaintenanceRequest {
		return &lcmv1.NodeMaintenanceRequest{
			ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}, Spec: lcmv1.NodeMaintenanceRequestSpec{NodeName: "n1"},
		}
	}
	require.NoError(t, r.api.Create(t.Context(), request("first")))
	r.addView()
	first := r.views[len(r.views)-1].NodeRequests
	require.NoError(t, r.api.Delete(t.Context(), request("first")))
	require.NoError(t, r.api.Create(t.Context(), request("second")))
	r.addView()
	r.finish(r.startNow())
	for _, seen := range [][]lcmv1.NodeMaintenanceRequest{first, nil} {
		r.addView()
		r.views[len(r.views)-1].NodeRequests = seen
		r.finish(r.startNow())
		require.Equal(t, []string{"n1"}, r.inactive())
	}
}

func TestANewControllerResumesAfterACrashAtAnyRequest(t *testing.T) {
	for requests := 0; ; requests++ {
		r := newRace(t.Context(), t, 1)
		r.setRequest("n1", true, 1)
		r.addView()
		dead := r.startNow()
		for i := 0; i < requests && dead.next != ""; i++ {
			r.step(dead)
		}
		if dead.next == "" {
			require.Greater(t, requests, 4)
			return
		}
		r.addView()
		r.finish(r.startNow())
		require.Equal(t, []string{"n1"}, r.inactive(), "dead before %q", dead.next)
	}
}

func TestANodeIsRecordedAsUpdatedBeforeItsLockIsActiveAgain(t *testing.T) {
	r := newRace(t.Context(), t, 1)
	r.setRequest("n1", true, 1)
	r.addView()
	r.finish(r.startNow())
	r.requestCluster(0)
	lock := &lcmv1.NodeWorkloadLock{}
	require.NoError(t, r.api.Get(r.ctx, client.ObjectKey{Name: "tf-n1"}, lock))
	lock.Annotations, r.maintenance = nil, false // the controller died before it wrote this; what it reported does not count
	require.NoError(t, r.api.Update(r.ctx, lock))
	r.setRequest("n1", false, 0)
	r.addView()
	dead := r.startNow()
	for len(r.inactive()) > 0 {
		r.step(dead)
	}
	r.addView()
	r.finish(r.startNow())
	require.Equal(t, 33, int(r.reported()))
}

func TestAnOverlappingWriterDoesNotReportTheProgressThatItFoundEarlier(t *testing.T) {
	r := newRace(t.Context(), t, 1)
	r.requestCluster(0)
	r.setRequest("n1", true, 1)
	r.addView()
	slow := r.startNow()
	r.setRequest("n1", false, 0)
	r.setRequest("n2", true, 2)
	r.addView()
	r.finish(r.startNow())
	require.Equal(t, 33, int(r.reported()))
	r.setRequest("n1", true, 1)
	r.stepUntil(slow, "get tf-n2") // it has read n1, and all locks, because it knew of less progress

	r.setRequest("n2", false, 0)
	r.addView()
	r.finish(r.startNow())
	require.Equal(t, 66, int(r.reported()))
	r.finish(slow)
	require.Equal(t, 66, int(r.reported()))
}

func TestAFrozenWriterDoesNotForgetAMaintenance(t *testing.T) {
	r := newRace(t.Context(), t, 1)
	r.requestCluster(0)
	r.setRequest("n1", true, 1)
	r.addView()
	r.finish(r.startNow())
	r.setRequest("n1", true, 2)
	r.addView()
	frozen := r.startNow()
	r.requestCluster(1)
	require.Equal(t, 33, int(r.reported()))
	r.finish(frozen)
	require.Equal(t, 33, int(r.reported()))
	require.Empty(t, r.writes(), "locks and permits have the present request for the cluster")
}

// The watches of requests and of locks are not synchronised: a writer may see the record of a maintenance, and not its request yet.
func TestAMaintenanceThatAnotherWriterHasJustRecordedIsNotForgotten(t *testing.T) {
	r := newRace(t.Context(), t, 1)
	r.requestCluster(0)
	r.setRequest("n1", true, 1)
	r.addView()
	r.finish(r.startNow())
	r.addView()
	earlier := r.views[len(r.views)-1].ClusterRequests
	require.Equal(t, "maintenance-0", r.updatedFor("n1"))

	r.replaceClusterRequest(1)
	other := r.startNow()
	r.stepUntil(other, "patch tf-n1")
	r.step(other)
	require.Equal(t, "maintenance-1", r.updatedFor("n1"))
	require.Equal(t, "patch tf", other.next, "it has not recorded the maintenance on the lock of the cluster")
	r.addView()
	r.views[len(r.views)-1].ClusterRequests = earlier
	behind := r.startNow()
	for behind.next != "" {
		r.step(behind)
		require.Equal(t, "maintenance-1", r.updatedFor("n1"))
	}
	r.finish(other)
	require.Equal(t, "maintenance-1", r.updatedFor("n1"))
	require.Empty(t, r.writes(), "locks and permits have the present request for the cluster")
}

func TestALockDoesNotFailBeforeItsPodIsSeen(t *testing.T) {
	// The node is maintained, and the time since which its pod is missing is recorded.
	away := func(t *testing.T) *race {
		r := newRace(t.Context(), t, 1)
		r.setRequest("n1", true, 1)
		r.addView()
		r.finish(r.startNow())
		r.setPod("n1", false)
		r.setRequest("n1", false, 0)
		r.addView()
		r.finish(r.startNow())
		require.NotNil(t, r.turn("n1").AwaitedSince)
		r.policy.NodePodDeadlineSeconds = new(int32(-1)) // it has passed
		return r
	}
	for name, seen := range map[string]func(r *race){
		"the pod is missing":            func(r *race) { r.removePod("n1"); r.addView() },
		"its predecessor was not ready": func(r *race) { r.addView(); r.removePod("n1") },
		"its predecessor was ready":     func(r *race) { r.setPod("n1", true); r.addView(); r.removePod("n1") },
	} {
		t.Run(name, func(t *testing.T) {
			r := away(t)
			seen(r)
			r.addPod("n1", "successor", true)
			one := r.startNow()
			r.stepUntil(one, "patch status of tf-n1")
			r.finish(one)
			require.Equal(t, lcmv1.LockActive, r.state("n1"))
			require.Empty(t, r.writes())
		})
	}
	t.Run("no pod", func(t *testing.T) {
		r := away(t)
		r.setPod("n1", true)
		r.addView()
		r.removePod("n1")
		r.finish(r.startNow())
		require.Equal(t, lcmv1.LockFailed, r.state("n1"))
	})
}

func TestUnchangedLocksAreNotWritten(t *testing.T) {
	r := newRace(t.Context(), t, 1)
	require.Empty(t, r.writes())
	r.requestCluster(0)
	require.Empty(t, r.writes())
	r.setRequest("n1", true, 1)
	require.Equal(t, []string{"patch tf", "patch status of tf-n1", "patch tf-n1", "patch status of tf"}, r.writes(), "permit, state, record of the update, progress")
	require.Empty(t, r.writes())
	r.setRequest("n1", false, 0)
	require.Equal(t, []string{"patch status of tf-n1", "patch tf"}, r.writes(), "state, end of the permit; the progress remains")
	r.maintenance = false
	require.NoError(t, r.api.Delete(t.Context(), &lcmv1.ClusterMaintenanceRequest{ObjectMeta: metav1.ObjectMeta{Name: "maintenance"}}))
	require.Equal(t, []string{"patch status of tf", "patch tf"}, r.writes(), "state and progress together, end of the permit")
	require.Zero(t, r.reported())
}

func TestOverlappingWritersKeepLocksInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		r := newRace(ctx, t, rapid.Int32Range(1, 2).Draw(t, "maxInactiveNodes"))
		if rapid.Bool().Draw(t, "maintenance") {
			r.requestCluster(0)
		}
		for serial := range rapid.IntRange(1, 60).Draw(t, "events") {
			node := rapid.SampledFrom(r.nodes).Draw(t, "node")
			switch event := rapid.SampledFrom([]string{"request", "withdraw", "pod", "view", "start", "step", "step", "step", "maintenance"}).Draw(t, "event"); {
			case event == "maintenance" && r.maintenance:
				r.requestCluster(serial)
			case event == "request" || event == "withdraw":
				r.setRequest(node, event == "request", serial)
				r.addView()
			case event == "pod":
				r.setPod(node, rapid.Bool().Draw(t, "ready"))
				r.addView()
			case event == "view":
				r.addView()
			case event == "start" && len(r.controllers) < 3:
				r.start(rapid.IntRange(max(0, len(r.views)-4), len(r.views)-1).Draw(t, "view"))
			case event == "step" && len(r.controllers) > 0:
				one := r.controllers[rapid.IntRange(0, len(r.controllers)-1).Draw(t, "controller")]
				for range rapid.IntRange(1, 10).Draw(t, "requests") {
					if one.next != "" {
						r.step(one)
					}
				}
			}
		}
		for len(r.controllers) > 0 {
			r.finish(r.controllers[0])
		}
		r.addView()
		r.finish(r.startNow())
		r.addView()
		now := r.views[len(r.views)-1]
		require.Equal(t, locks.ProgressOf("tf", now.ClusterRequests, now.NodeLocks).Percentage, r.reported())
	})
}
