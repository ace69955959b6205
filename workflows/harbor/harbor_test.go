package harbor_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	sdktemporal "go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	goharborv1 "drydock.dev/drydock/internal/apis/goharbor/v1beta1"
	"drydock.dev/drydock/internal/emergency"
	"drydock.dev/drydock/internal/harbor"
	"drydock.dev/drydock/internal/temporal"
	harborworkflow "drydock.dev/drydock/workflows/harbor"
	"drydock.dev/drydock/workflows/workflowtest"
)

func TestHarborIsAppliedAfterItsServicesAndStaysAfterACancel(t *testing.T) {
	h := workflowtest.NewHarborWorld(t)
	status := h.RunFor(time.Hour)
	require.Equal(t, goharborv1.StatusHealthy, status.Harbor.Status)
	require.Equal(t, []goharborv1.ClusterStatus{goharborv1.StatusCreating, goharborv1.StatusHealthy}, h.Statuses)
	require.ElementsMatch(t, []harbor.Part{harbor.PartDatabase, harbor.PartCache, harbor.PartStorage}, h.Started[:3])
	require.Equal(t, []harbor.Part{harbor.PartBucket, harbor.PartHarbor}, h.Started[3:], "once each")
	require.Empty(t, h.Removed)
	require.False(t, h.HasFinalizer, "its deletion need not wait for the workflow")
	require.Equal(t, harborworkflow.Unmanaged, status.State)
	require.Equal(t, []string{"cancelled by ann: the HarborCluster is no longer managed"}, status.Notes)
	require.ElementsMatch(t, []string{
		"Harbor enters a phase cluster=c1 harbor=registry/main phase=Managed",
		"Harbor enters a phase cluster=c1 harbor=registry/main phase=creating",
		"Harbor part applied cluster=c1 harbor=registry/main part=database why=never applied",
		"Harbor part applied cluster=c1 harbor=registry/main part=cache why=never applied",
		"Harbor part applied cluster=c1 harbor=registry/main part=storage why=never applied",
		"Harbor part applied cluster=c1 harbor=registry/main part=bucket why=never applied",
		"Harbor part applied cluster=c1 harbor=registry/main part=harbor why=never applied",
		"Harbor enters a phase cluster=c1 harbor=registry/main phase=healthy",
		"Harbor note cluster=c1 harbor=registry/main",
		"Harbor enters a phase cluster=c1 harbor=registry/main phase=Unmanaged",
	}, h.Log.Lines("cluster", "harbor", "phase", "part", "why"))
}

func TestASlowOrRejectedServiceDoesNotDelayTheOthers(t *testing.T) {
	h := workflowtest.NewHarborWorld(t)
	h.Slow[harbor.PartCache], h.Slow[harbor.PartStorage] = true, true
	h.Refused[harbor.PartDatabase] = temporal.Error(temporal.ErrInvalidSpec, "postgresql is refused", nil)
	h.Refused[harbor.PartStorage] = errors.New("the server is full")
	h.RegisterDelayedCallback(func() {
		status := workflowtest.StatusOf[harborworkflow.Status](h.World)
		require.Contains(t, status.Failures, "database: postgresql is refused")
		require.Contains(t, status.Failures, "storage: the server is full")
	}, 3*time.Second)
	h.RegisterDelayedCallback(func() {
		status := workflowtest.StatusOf[harborworkflow.Status](h.World)
		require.Equal(t, goharborv1.StatusUnhealthy, status.Harbor.Status)
		require.Equal(t, metav1.ConditionFalse, workflowtest.ConditionIn(status, goharborv1.DatabaseReady).Status)
		require.Contains(t, workflowtest.ConditionIn(status, goharborv1.DatabaseReady).Message, "postgresql is refused")
		require.Equal(t, metav1.ConditionTrue, workflowtest.ConditionIn(status, goharborv1.CacheReady).Status, "the conditions of the others stay")
		require.NotContains(t, h.Started, harbor.PartHarbor)
	}, time.Minute)
	h.ChangeAfter(2*time.Minute, func() {
		clear(h.Refused)
		h.Object.Spec.Database.Spec.Zalando.Version = "16"
		h.Object.Spec.Storage.Spec.MinIO.VolumesPerServer = 8
		h.Object.Generation++
	})
	require.Equal(t, goharborv1.StatusHealthy, h.RunFor(time.Hour).Harbor.Status)
	require.ElementsMatch(t, []harbor.Part{harbor.PartDatabase, harbor.PartCache, harbor.PartStorage}, h.Started[:3])
	require.Equal(t, harbor.PartDatabase, h.Finished[0], "a failure cancels no other part")
	for _, a := range h.Started[:3] {
		for _, b := range h.Started[:3] {
			require.False(t, h.Times[a][0].After(h.Times[b][1]), "%s started after %s had finished", a, b)
		}
	}
	require.Equal(t, time.Second, h.Times[harbor.PartCache][1].Sub(h.Times[harbor.PartCache][0]))
}

func TestAFailureEndsWhenItsPartIsNoLongerWanted(t *testing.T) {
	h := workflowtest.NewHarborWorld(t)
	h.Refused[harbor.PartCache] = temporal.Error(temporal.ErrInvalidSpec, "RedisFailover is refused", nil)
	h.ChangeAfter(time.Minute, func() {
		h.Object.Spec.Cache = goharborv1.Cache{
			Kind: goharborv1.ExternalRedis, Spec: goharborv1.CacheSpec{Redis: &runtime.RawExtension{Raw: []byte(`{"host":"redis","port":6379}`)}},
		}
		h.Object.Generation++
	})
	status := h.RunFor(time.Hour)
	require.Equal(t, goharborv1.StatusHealthy, status.Harbor.Status)
	require.Empty(t, status.Failures)
}

func TestTheStatusFollowsTheServicesAndHarborIsObservedBeforeItIsApplied(t *testing.T) {
	h := workflowtest.NewHarborWorld(t)
	h.ChangeAfter(time.Minute, func() { h.NotReady[harbor.PartDatabase] = true })
	h.ChangeAfter(2*time.Minute, func() {
		h.NotReady[harbor.PartHarbor] = true
		h.Object.Spec.Version = "2.6.0"
		h.Object.Generation++
	})
	h.RegisterDelayedCallback(func() {
		status := workflowtest.StatusOf[harborworkflow.Status](h.World)
		require.Equal(t, "Broken", workflowtest.ConditionIn(status, goharborv1.ServiceReady).Reason)
		require.Equal(t, int64(2), workflowtest.ConditionIn(status, goharborv1.ServiceReady).ObservedGeneration)
		require.Equal(t, 1, workflowtest.Count(h.Started, harbor.PartHarbor), "it is not applied while the database is down")
	}, 3*time.Minute)
	h.ChangeAfter(4*time.Minute, func() { clear(h.NotReady) })
	status := h.RunFor(time.Hour)
	require.Equal(t, []goharborv1.ClusterStatus{"creating", "healthy", "unhealthy", "creating", "healthy"}, h.Statuses, "not healthy before the new version is applied")
	require.Equal(t, goharborv1.StatusHealthy, status.Harbor.Status)
	require.Equal(t, 2, workflowtest.Count(h.Started, harbor.PartHarbor))
}

func TestManualChangesAreCorrected(t *testing.T) {
	h := workflowtest.NewHarborWorld(t)
	h.ChangeAfter(time.Minute, func() { h.Edits[harbor.PartCache] = "theirs" })
	h.ChangeAfter(2*time.Minute, func() { h.Object.Status = goharborv1.HarborClusterStatus{} })
	h.ChangeAfter(3*time.Minute, func() { h.HasFinalizer = false })
	h.RegisterDelayedCallback(func() { require.True(t, h.HasFinalizer) }, 4*time.Minute)
	h.RunFor(time.Hour)
	require.Equal(t, 2, workflowtest.Count(h.Started, harbor.PartCache))
	require.Equal(t, 1, workflowtest.Count(h.Started, harbor.PartDatabase))
	require.Equal(t, goharborv1.StatusHealthy, h.Object.Status.Status)
}

func TestARecreatedObjectIsAppliedAgain(t *testing.T) {
	h := workflowtest.NewHarborWorld(t)
	h.ChangeAfter(time.Minute, func() {
		h.Object.UID, h.Object.Status = "uid-2", goharborv1.HarborClusterStatus{}
		clear(h.Applied)
	})
	status := h.RunFor(time.Hour)
	require.Equal(t, 2, workflowtest.Count(h.Started, harbor.PartDatabase))
	require.Equal(t, []goharborv1.ClusterStatus{"creating", "healthy", "creating", "healthy"}, h.Statuses, "never unhealthy: nothing was ready before")
	require.Equal(t, goharborv1.StatusHealthy, status.Harbor.Status)
}

// answerTo sends an update to the workflow and records its answer.
func answerTo(h *workflowtest.HarborWorld, update string, payload any) *string {
	answer := "no answer"
	h.UpdateWorkflow(update, "", &testsuite.TestUpdateCallback{
		OnAccept: func() {},
		OnReject: func(err error) { answer = "rejected: " + err.Error() },
		OnComplete: func(_ any, err error) {
			answer = "done"
			if err != nil {
				answer = temporal.ErrorMessage(err)
			}
		},
	}, payload)
	return &answer
}

func TestAHarborClusterIsAppliedChangedAndDeletedByUpdates(t *testing.T) {
	h := workflowtest.NewHarborWorld(t)
	object := *h.Object
	h.Object = nil
	var made, wrong, changed, deleted *string
	h.RegisterDelayedCallback(func() {
		made = answerTo(h, temporal.UpdateApply, harborworkflow.ApplyRequest{Actor: "ann", Reason: "new site", Object: object})
	}, 0)
	h.RegisterDelayedCallback(func() {
		other := *object.DeepCopy()
		other.Name = "other"
		wrong = answerTo(h, temporal.UpdateApply, harborworkflow.ApplyRequest{Object: other})
		other = *object.DeepCopy()
		other.Spec.Version = "2.6.0"
		changed = answerTo(h, temporal.UpdateApply, harborworkflow.ApplyRequest{Actor: "bob", Reason: "CVE-2026-1", Object: other})
	}, time.Minute)
	h.RegisterDelayedCallback(func() { deleted = answerTo(h, temporal.UpdateDelete, temporal.SignalRequest{Actor: "ann"}) }, time.Hour)
	h.ExecuteWorkflow(harborworkflow.HarborCluster, workflowtest.HarborInput())
	status := workflowtest.RequireResult[harborworkflow.Status](h.World)

	require.Equal(t, []string{"done", "done", "done"}, []string{*made, *changed, *deleted})
	require.Contains(t, *wrong, "rejected: object: is HarborCluster registry/other, not registry/main")
	require.Equal(t, 2, workflowtest.Count(h.Started, harbor.PartHarbor))
	require.Equal(t, harbor.PartHarbor, h.Removed[0], "Harbor is removed before its services")
	require.ElementsMatch(t, []harbor.Part{harbor.PartDatabase, harbor.PartCache, harbor.PartStorage}, h.Removed[1:])
	require.False(t, h.HasFinalizer)
	require.Equal(t, harborworkflow.Deleted, status.State)
	require.Equal(t, []string{"applied by bob: CVE-2026-1", "deleted by ann", "its resources are removed; data policy: Retain"}, status.Notes)
}

func TestAHeldClusterIsNotChangedAndTheStatusShowsTheHold(t *testing.T) {
	h := workflowtest.NewHarborWorld(t)
	stop := emergency.State{Number: 2, Holds: []drydockv1.Hold{{Scope: drydockv1.HoldAll, By: "ann", Reason: "flood"}}}
	h.RegisterDelayedCallback(func() { h.SignalWorkflow(temporal.SignalHeld, stop) }, time.Minute)
	h.ChangeAfter(2*time.Minute, func() {
		h.Edits[harbor.PartCache] = "theirs"
		h.NotReady[harbor.PartDatabase] = true
	})
	h.RegisterDelayedCallback(func() {
		status := workflowtest.StatusOf[harborworkflow.Status](h.World)
		require.Equal(t, "flood", status.Held.Reason)
		require.Equal(t, goharborv1.StatusUnhealthy, status.Harbor.Status, "it is still observed")
		require.Equal(t, goharborv1.StatusUnhealthy, h.Object.Status.Status)
		require.Equal(t, 1, workflowtest.Count(h.Started, harbor.PartCache))
		h.SignalWorkflow(temporal.SignalHeld, emergency.State{Number: 3})
	}, 10*time.Minute)
	h.RegisterDelayedCallback(func() {
		require.Equal(t, 2, workflowtest.Count(h.Started, harbor.PartCache))
		require.Nil(t, workflowtest.StatusOf[harborworkflow.Status](h.World).Held)
		stop.Number = 4
		h.SignalWorkflow(temporal.SignalHeld, stop)
	}, 20*time.Minute)
	h.ChangeAfter(30*time.Minute, func() { h.Object.DeletionTimestamp = &metav1.Time{Time: h.Now()} })
	h.RegisterDelayedCallback(func() {
		require.Empty(t, h.Removed)
		require.Equal(t, emergency.ReasonHeld, workflowtest.StatusOf[harborworkflow.Status](h.World).Wait.Reason)
		h.SignalWorkflow(temporal.SignalHeld, emergency.State{Number: 5})
	}, 40*time.Minute)
	h.ExecuteWorkflow(harborworkflow.HarborCluster, workflowtest.HarborInput())
	require.Equal(t, harborworkflow.Deleted, workflowtest.RequireResult[harborworkflow.Status](h.World).State)
	require.Len(t, h.Removed, 4)
}

func TestAPartThatAHoldRefusesIsAppliedAfterTheRelease(t *testing.T) {
	h := workflowtest.NewHarborWorld(t)
	h.ChangeAfter(time.Minute, func() { h.Slow[harbor.PartCache], h.Edits[harbor.PartCache] = true, "theirs" })
	h.RegisterDelayedCallback(func() {
		h.Refused[harbor.PartCache] = temporal.Error(temporal.ErrHeld, "held by ann: flood", nil)
		h.SignalWorkflow(temporal.SignalHeld, emergency.State{Number: 2, Holds: []drydockv1.Hold{{Scope: drydockv1.HoldAll, By: "ann", Reason: "flood"}}})
	}, time.Minute+time.Second/2)
	h.RegisterDelayedCallback(func() {
		status := workflowtest.StatusOf[harborworkflow.Status](h.World)
		require.Equal(t, goharborv1.StatusHealthy, status.Harbor.Status)
		require.Empty(t, status.Failures)
		require.Nil(t, status.Wait)
		require.Equal(t, 2, workflowtest.Count(h.Started, harbor.PartCache))
		clear(h.Refused)
		h.SignalWorkflow(temporal.SignalHeld, emergency.State{Number: 3})
	}, 10*time.Minute)
	h.RunFor(time.Hour)
	require.Equal(t, 3, workflowtest.Count(h.Started, harbor.PartCache))
	require.Equal(t, []goharborv1.ClusterStatus{"creating", "healthy"}, h.Statuses)
}

func TestForeignResourcesAreNotRemovedAndNoted(t *testing.T) {
	h := workflowtest.NewHarborWorld(t)
	h.Foreign = map[harbor.Part]string{harbor.PartCache: "RedisFailover registry/main-redis"}
	h.ChangeAfter(time.Minute, func() { h.Object.DeletionTimestamp = &metav1.Time{Time: h.Now()} })
	h.ExecuteWorkflow(harborworkflow.HarborCluster, workflowtest.HarborInput())
	require.Equal(t, "RedisFailover registry/main-redis does not belong to this HarborCluster: it was not removed, nor were the Secrets and claims of the cache",
		workflowtest.RequireResult[harborworkflow.Status](h.World).Notes[0])
}

func TestUpdatesAreRejectedWhileTheRunEnds(t *testing.T) {
	for _, together := range []bool{false, true} {
		h := workflowtest.NewHarborWorld(t)
		h.Fail["RemoveHarborFinalizer"] = func(call int) error {
			if call < 3 {
				return errors.New("conflict")
			}
			return nil
		}
		cancel := h.SignalWorkflow
		if together {
			cancel = h.SignalWorkflowSkippingWorkflowTask
		}
		var answer *string
		h.RegisterDelayedCallback(func() {
			cancel(temporal.SignalCancel, nil)
			answer = answerTo(h, temporal.UpdateDelete, temporal.SignalRequest{})
		}, time.Minute)
		h.ExecuteWorkflow(harborworkflow.HarborCluster, workflowtest.HarborInput())
		workflowtest.RequireCancelled[harborworkflow.Status](h.World)
		require.Contains(t, *answer, "the workflow is about to end; try again")
		require.Nil(t, h.Object.DeletionTimestamp)
	}
}

func TestUpdatesOfAnUnknownClusterAreRejected(t *testing.T) {
	h := workflowtest.NewHarborWorld(t)
	h.Fail["LocateCluster"] = workflowtest.Always(temporal.Error(temporal.ErrNotFound, "there is no cluster spoke-9", nil))
	var answer *string
	h.RegisterDelayedCallback(func() {
		answer = answerTo(h, temporal.UpdateApply, harborworkflow.ApplyRequest{Object: *h.Object.DeepCopy()})
	}, 0)
	h.ExecuteWorkflow(harborworkflow.HarborCluster, workflowtest.HarborInput())
	workflowtest.RequireFailure[harborworkflow.Status](h.World, temporal.ErrNotFound)
	require.Equal(t, "there is no cluster spoke-9", *answer)

	h = workflowtest.NewHarborWorld(t)
	h.Fail["LocateCluster"] = workflowtest.Always(errors.New("the hub is unreachable"))
	h.RegisterDelayedCallback(func() {
		answer = answerTo(h, temporal.UpdateApply, harborworkflow.ApplyRequest{Object: *h.Object.DeepCopy()})
	}, 0)
	h.RegisterDelayedCallback(func() { h.SignalWorkflow(temporal.SignalCancel, nil) }, time.Minute)
	h.ExecuteWorkflow(harborworkflow.HarborCluster, workflowtest.HarborInput())
	workflowtest.RequireCancelled[harborworkflow.Status](h.World)
	require.Equal(t, "the workflow is about to end; try again", *answer)
}

func TestAnApplyWithoutTheRightToItLeavesNothingRunning(t *testing.T) {
	h := workflowtest.NewHarborWorld(t)
	object := *h.Object
	h.Object = nil
	forbidden := workflowtest.Always(temporal.Error(temporal.ErrForbidden, "bind the ClusterRole", nil))
	h.Fail["ApplyHarborCluster"], h.Fail["AwaitHarborDue"] = forbidden, forbidden
	var made *string
	h.RegisterDelayedCallback(func() { made = answerTo(h, temporal.UpdateApply, harborworkflow.ApplyRequest{Object: object}) }, 0)
	h.ExecuteWorkflow(harborworkflow.HarborCluster, workflowtest.HarborInput())
	require.Equal(t, "bind the ClusterRole", *made)
	workflowtest.RequireFailure[harborworkflow.Status](h.World, temporal.ErrForbidden)
}

func TestTheWorkflowEndsWithoutAnObject(t *testing.T) {
	h := workflowtest.NewHarborWorld(t)
	object := *h.Object
	h.Object = nil
	h.Fail["ApplyHarborCluster"] = workflowtest.Always(temporal.Error(temporal.ErrInvalidSpec, "spec.version: invalid", nil))
	var made *string
	h.RegisterDelayedCallback(func() { made = answerTo(h, temporal.UpdateApply, harborworkflow.ApplyRequest{Object: object}) }, 0)
	h.ExecuteWorkflow(harborworkflow.HarborCluster, workflowtest.HarborInput())
	require.Equal(t, "spec.version: invalid", *made)
	require.Equal(t, harborworkflow.Failed, workflowtest.RequireFailure[harborworkflow.Status](h.World, temporal.ErrNotFound).State)

	h = workflowtest.NewHarborWorld(t)
	h.ChangeAfter(time.Minute, func() { h.Object = nil })
	h.ExecuteWorkflow(harborworkflow.HarborCluster, workflowtest.HarborInput())
	require.Contains(t, workflowtest.RequireResult[harborworkflow.Status](h.World).Notes[0], "its resources were not removed")
	require.Empty(t, h.Removed)
}

func TestAWorkerThatStopsAtAnyStepDoesNotFailTheHarbor(t *testing.T) {
	for _, step := range []string{"AddHarborFinalizer", "WriteHarborStatus"} {
		h := workflowtest.NewHarborWorld(t)
		h.Fail[step] = func(call int) error {
			if call <= 3 {
				return sdktemporal.NewApplicationError("the worker stops", temporal.ErrWorkerShutdown)
			}
			return nil
		}
		require.Equal(t, goharborv1.StatusHealthy, h.RunFor(time.Hour).Harbor.Status)
		require.Equal(t, []goharborv1.ClusterStatus{"creating", "healthy"}, h.Statuses)
	}
	for _, errType := range []string{temporal.ErrWorkerShutdown, emergency.ReasonUnknown} {
		for _, part := range []harbor.Part{harbor.PartDatabase, harbor.PartBucket, harbor.PartHarbor} {
			h := workflowtest.NewHarborWorld(t)
			h.Refused[part] = sdktemporal.NewApplicationError("the worker stops, or the holds are unknown", errType)
			h.ChangeAfter(time.Minute, func() { clear(h.Refused) })
			require.Equal(t, goharborv1.StatusHealthy, h.RunFor(time.Hour).Harbor.Status)
			require.NotContains(t, h.Statuses, goharborv1.StatusUnhealthy)
			require.Less(t, workflowtest.Count(h.Started, part), 30, "it is retried with pauses")
		}
	}
}

func TestAFailedStatusWriteIsReportedAndRetriedWithPauses(t *testing.T) {
	h := workflowtest.NewHarborWorld(t)
	h.Fail["WriteHarborStatus"] = workflowtest.Always(temporal.Error(temporal.ErrForbidden, "its API server forbids the request", nil))
	h.RegisterDelayedCallback(func() {
		status := workflowtest.StatusOf[harborworkflow.Status](h.World)
		require.Equal(t, goharborv1.StatusHealthy, status.Harbor.Status)
		require.Equal(t, temporal.ErrForbidden, status.Wait.Reason)
	}, 2*time.Minute)
	h.RunFor(5 * time.Minute)
	require.Less(t, len(h.InputsOf("WriteHarborStatus")), 150)
}

func TestAHarborInManyRunsHasTheSameResult(t *testing.T) {
	in := workflowtest.HarborInput()
	before, runs := workflowtest.NewHarborWorld(t), 0
	for more := true; more; {
		runs++
		h := workflowtest.NewHarborWorld(t)
		h.Object, h.Applied, h.Edits, h.HasFinalizer, h.Statuses, h.Started = before.Object, before.Applied, before.Edits, before.HasFinalizer, before.Statuses, before.Started
		if runs < 6 {
			h.RegisterDelayedCallback(func() {
				h.SetContinueAsNewSuggested(true)
				h.Change(func() { h.NotReady[harbor.PartDatabase] = true })
			}, time.Minute)
		} else {
			h.RegisterDelayedCallback(func() { h.SignalWorkflow(temporal.SignalCancel, nil) }, time.Hour)
		}
		h.ExecuteWorkflow(harborworkflow.HarborCluster, in)
		next := workflowtest.NextRunInput[harborworkflow.Input](h.World)
		if more = next != nil; more {
			in, before = *next, h
			continue
		}
		status := workflowtest.RequireCancelled[harborworkflow.Status](h.World)
		require.Equal(t, goharborv1.StatusHealthy, status.Harbor.Status)
		require.Len(t, h.Started, 5, "a new run applies nothing again: %v", h.Started)
	}
	require.Equal(t, 6, runs)
}
