package harbor_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	sdktemporal "go.temporal.io/sdk/temporal"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	goharborv1 "drydock.dev/drydock/internal/apis/goharbor/v1beta1"
	"drydock.dev/drydock/internal/harbor"
	"drydock.dev/drydock/internal/temporal"
	harborworkflow "drydock.dev/drydock/workflows/harbor"
	"drydock.dev/drydock/workflows/kit"
	"drydock.dev/drydock/workflows/workflowtest"
)

func TestRevertedWritesAreRepeatedWithPauses(t *testing.T) {
	h := workflowtest.NewHarborWorld(t)
	h.Reverted = true
	h.RegisterDelayedCallback(func() {
		require.Equal(t, goharborv1.StatusHealthy, workflowtest.StatusOf[harborworkflow.Status](h.World).Harbor.Status, "the status is observed although it cannot be written")
		h.Change(func() { h.Reverted = false })
	}, time.Minute)
	h.ChangeAfter(2*time.Minute, func() {
		require.True(t, h.HasFinalizer)
		require.Equal(t, goharborv1.StatusHealthy, h.Object.Status.Status, "the last reverted write is repeated")
	})
	h.RunFor(3 * time.Minute)
	for _, written := range []string{"WriteHarborStatus", "AddHarborFinalizer"} {
		times := len(h.InputsOf(written))
		require.Greater(t, times, 20, written)
		require.Less(t, times, 40, written)
	}
}

func TestTheStatusShowsTheBlockersOfARemoval(t *testing.T) {
	h := workflowtest.NewHarborWorld(t)
	h.Slow[harbor.PartDatabase], h.Slow[harbor.PartStorage] = true, true
	deleted := time.Minute
	h.ChangeAfter(deleted, func() { h.Object.DeletionTimestamp = &metav1.Time{Time: h.Now()} })
	waits := func() drydockv1.Wait { return *workflowtest.StatusOf[harborworkflow.Status](h.World).Wait }
	report := func(part harbor.Part, kind, name string) {
		object := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{Kind: kind}}
		object.Namespace, object.Name, object.Finalizers = "registry", name, []string{"theirs"}
		h.SignalWorkflow(temporal.SignalObserved, temporal.Observation{Activity: "RemoveHarborPart", Part: string(part), Wait: harbor.DeletionWait(object)})
	}
	h.RegisterDelayedCallback(func() {
		require.Equal(t, harbor.ReasonRemoving, waits().Reason)
		require.Equal(t, "removing: database, storage", waits().Message)
		answer := workflowtest.StatusOf[harborworkflow.Status](h.World).Harbor
		require.Equal(t, goharborv1.StatusUnhealthy, answer.Status, "Harbor is removed")
		require.Equal(t, harbor.ReasonRemoving, harbor.ConditionOf(answer, goharborv1.ServiceReady).Reason)
		require.Equal(t, metav1.ConditionTrue, harbor.ConditionOf(answer, goharborv1.DatabaseReady).Status, "as last observed")
		report(harbor.PartStorage, "Tenant", "minio-main")
	}, deleted+time.Second)
	h.RegisterDelayedCallback(func() {
		require.Equal(t, "Tenant registry/minio-main is being deleted; it waits for finalizers: theirs", waits().Message)
		report(harbor.PartDatabase, "postgresql", "db")
		report(harbor.PartCache, "RedisFailover", "main-redis") // a late report: the cache is already removed
	}, deleted+2*time.Second)
	h.RegisterDelayedCallback(func() {
		require.Contains(t, waits().Message, "postgresql registry/db is being deleted")
		require.Len(t, waits().Blockers, 2)
		require.WithinDuration(t, h.Now(), waits().Since.Time, time.Minute)
	}, deleted+3*time.Second)
	h.ExecuteWorkflow(harborworkflow.HarborCluster, workflowtest.HarborInput())
	status := workflowtest.RequireResult[harborworkflow.Status](h.World)
	require.Equal(t, harborworkflow.Deleted, status.State)
	require.Nil(t, status.Wait)
}

func TestAllFailuresAreReported(t *testing.T) {
	h := workflowtest.NewHarborWorld(t)
	h.Fail["AddHarborFinalizer"] = workflowtest.Always(sdktemporal.NewApplicationError("finalizers are forbidden", temporal.ErrForbidden))
	h.Fail["WriteHarborStatus"] = workflowtest.Always(sdktemporal.NewApplicationError("status writes are forbidden", temporal.ErrForbidden))
	h.RegisterDelayedCallback(func() {
		require.Contains(t, workflowtest.StatusOf[harborworkflow.Status](h.World).Wait.Message, "finalizers are forbidden")
		require.Contains(t, workflowtest.StatusOf[harborworkflow.Status](h.World).Wait.Message, "status writes are forbidden")
		clear(h.Fail)
	}, 2*time.Second)
	h.ChangeAfter(time.Minute, func() {
		h.Refused[harbor.PartDatabase] = temporal.Error(temporal.ErrInvalidSpec, "the database is in use", nil)
		h.Refused[harbor.PartStorage] = temporal.Error(temporal.ErrInvalidSpec, "the storage is in use", nil)
		h.Object.DeletionTimestamp = &metav1.Time{Time: h.Now()}
	})
	h.ExecuteWorkflow(harborworkflow.HarborCluster, workflowtest.HarborInput())
	status := workflowtest.RequireFailure[harborworkflow.Status](h.World, temporal.ErrInvalidSpec)
	require.Equal(t, []string{"the database is in use; the storage is in use"}, status.Notes)
	require.Contains(t, h.Removed, harbor.PartCache, "a failure stops no other part")
	require.True(t, h.HasFinalizer, "the finalizer stays")
}

func TestARunThatRemovesAnObjectDoesNotRecreateIt(t *testing.T) {
	// The finalizer was removed, but the reply is lost.
	h := workflowtest.NewHarborWorld(t)
	object := *h.Object
	var answer *string
	apply := func() { answer = answerTo(h, temporal.UpdateApply, harborworkflow.ApplyRequest{Object: object}) }
	h.Fail["RemoveHarborFinalizer"] = func(call int) error {
		if call > 1 {
			return nil
		}
		h.Object = nil
		h.RegisterDelayedCallback(apply, kit.FirstRetry/2)
		return errors.New("no answer")
	}
	h.ChangeAfter(time.Minute, func() { h.Object.DeletionTimestamp = &metav1.Time{Time: h.Now()} })
	h.ExecuteWorkflow(harborworkflow.HarborCluster, workflowtest.HarborInput())
	require.Equal(t, harborworkflow.Deleted, workflowtest.RequireResult[harborworkflow.Status](h.World).State)
	require.Contains(t, *answer, "rejected: the workflow is about to end; try again")
	require.Nil(t, h.Object)

	// A person has removed the finalizer during the removal.
	h = workflowtest.NewHarborWorld(t)
	h.Slow[harbor.PartDatabase] = true
	h.ChangeAfter(time.Minute, func() { h.Object.DeletionTimestamp = &metav1.Time{Time: h.Now()} })
	h.ChangeAfter(2*time.Minute, func() { h.Object = nil })
	h.RegisterDelayedCallback(apply, 3*time.Minute)
	h.ExecuteWorkflow(harborworkflow.HarborCluster, workflowtest.HarborInput())
	require.Equal(t, harborworkflow.Deleted, workflowtest.RequireResult[harborworkflow.Status](h.World).State)
	require.Contains(t, *answer, "rejected: cluster c1: HarborCluster registry/main is being deleted; apply it again after the deletion")
	require.Nil(t, h.Object)
}

func TestPartsThatRemainAfterAnEarlyDeletionAreReported(t *testing.T) {
	h := workflowtest.NewHarborWorld(t)
	h.Slow[harbor.PartHarbor] = true
	h.ChangeAfter(time.Minute, func() { h.Object.DeletionTimestamp = &metav1.Time{Time: h.Now()} })
	h.ChangeAfter(2*time.Minute, func() { h.Object = nil })
	h.ExecuteWorkflow(harborworkflow.HarborCluster, workflowtest.HarborInput())
	status := workflowtest.RequireResult[harborworkflow.Status](h.World)
	require.Equal(t, harborworkflow.Deleted, status.State)
	require.Equal(t, []string{"the finalizer was removed before all resources were; not removed: cache, database, storage"}, status.Notes)
}
