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

func TestWritesThatAreUndoneAreRepeatedWithPauses(t *testing.T) {
	h := workflowtest.NewHarborWorld(t)
	h.Reverted = true
	h.RegisterDelayedCallback(func() {
		require.Equal(t, goharborv1.StatusHealthy, workflowtest.StatusOf[harborworkflow.Status](h.World).Harbor.Status, "that it is well is seen all the same")
		h.Change(func() { h.Reverted = false })
	}, time.Minute)
	h.ChangeAfter(2*time.Minute, func() {
		require.True(t, h.HasFinalizer)
		require.Equal(t, goharborv1.StatusHealthy, h.Object.Status.Status, "what was undone last is written again")
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
	going := func(part harbor.Part, kind, name string) {
		object := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{Kind: kind}}
		object.Namespace, object.Name, object.Finalizers = "registry", name, []string{"theirs"}
		h.SignalWorkflow(temporal.SignalObserved, temporal.Observation{Activity: "RemoveHarborPart", Part: string(part), Wait: harbor.Going(object)})
	}
	h.RegisterDelayedCallback(func() {
		require.Equal(t, harbor.ReasonRemoving, waits().Reason)
		require.Equal(t, "removing: database, storage", waits().Message)
		said := workflowtest.StatusOf[harborworkflow.Status](h.World).Harbor
		require.Equal(t, goharborv1.StatusUnhealthy, said.Status, "Harbor is gone")
		require.Equal(t, harbor.ReasonRemoving, harbor.ConditionOf(said, goharborv1.ServiceReady).Reason)
		require.Equal(t, metav1.ConditionTrue, harbor.ConditionOf(said, goharborv1.DatabaseReady).Status, "as it was seen last")
		going(harbor.PartStorage, "Tenant", "minio-main")
	}, deleted+time.Second)
	h.RegisterDelayedCallback(func() {
		require.Equal(t, "Tenant registry/minio-main is being deleted; it waits for finalizers: theirs", waits().Message)
		going(harbor.PartDatabase, "postgresql", "db")
		going(harbor.PartCache, "RedisFailover", "main-redis") // it is late: the cache is gone
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
	h.Fail["AddHarborFinalizer"] = workflowtest.Always(sdktemporal.NewApplicationError("no finalizers today", temporal.ErrClusterUnreachable))
	h.Fail["WriteHarborStatus"] = workflowtest.Always(sdktemporal.NewApplicationError("no status today", temporal.ErrClusterUnreachable))
	h.RegisterDelayedCallback(func() {
		require.Contains(t, workflowtest.StatusOf[harborworkflow.Status](h.World).Wait.Message, "no finalizers today")
		require.Contains(t, workflowtest.StatusOf[harborworkflow.Status](h.World).Wait.Message, "no status today")
		clear(h.Fail)
	}, 2*time.Second)
	h.ChangeAfter(time.Minute, func() {
		h.Refused[harbor.PartDatabase] = temporal.Error(temporal.ErrInvalidSpec, "the database stays", nil)
		h.Refused[harbor.PartStorage] = temporal.Error(temporal.ErrInvalidSpec, "the storage stays", nil)
		h.Object.DeletionTimestamp = &metav1.Time{Time: h.Now()}
	})
	h.ExecuteWorkflow(harborworkflow.HarborCluster, workflowtest.HarborInput())
	status := workflowtest.RequireFailure[harborworkflow.Status](h.World, temporal.ErrInvalidSpec)
	require.Equal(t, []string{"the database stays; the storage stays"}, status.Notes)
	require.Contains(t, h.Removed, harbor.PartCache, "what fails stops no other")
	require.True(t, h.HasFinalizer, "it is not let go")
}

func TestARunThatRemovesAnObjectDoesNotRecreateIt(t *testing.T) {
	// The finalizer was removed, but the answer is lost.
	h := workflowtest.NewHarborWorld(t)
	wanted := *h.Object
	var said *string
	ask := func() { said = answerTo(h, temporal.UpdateApply, harborworkflow.ApplyRequest{Object: wanted}) }
	h.Fail["RemoveHarborFinalizer"] = func(call int) error {
		if call > 1 {
			return nil
		}
		h.Object = nil
		h.RegisterDelayedCallback(ask, kit.FirstRetry/2)
		return errors.New("no answer")
	}
	h.ChangeAfter(time.Minute, func() { h.Object.DeletionTimestamp = &metav1.Time{Time: h.Now()} })
	h.ExecuteWorkflow(harborworkflow.HarborCluster, workflowtest.HarborInput())
	require.Equal(t, harborworkflow.Deleted, workflowtest.RequireResult[harborworkflow.Status](h.World).State)
	require.Contains(t, *said, "rejected: the workflow is about to end; try again")
	require.Nil(t, h.Object)

	// A person has removed the finalizer during the removal.
	h = workflowtest.NewHarborWorld(t)
	h.Slow[harbor.PartDatabase] = true
	h.ChangeAfter(time.Minute, func() { h.Object.DeletionTimestamp = &metav1.Time{Time: h.Now()} })
	h.ChangeAfter(2*time.Minute, func() { h.Object = nil })
	h.RegisterDelayedCallback(ask, 3*time.Minute)
	h.ExecuteWorkflow(harborworkflow.HarborCluster, workflowtest.HarborInput())
	require.Equal(t, harborworkflow.Deleted, workflowtest.RequireResult[harborworkflow.Status](h.World).State)
	require.Contains(t, *said, "rejected: cluster c1: HarborCluster registry/main is being deleted; apply it again after the deletion")
	require.Nil(t, h.Object)
}

func TestPartsOfAnObjectThatWasGoneEarlyAreReportedAsNotRemoved(t *testing.T) {
	h := workflowtest.NewHarborWorld(t)
	h.Slow[harbor.PartHarbor] = true
	h.ChangeAfter(time.Minute, func() { h.Object.DeletionTimestamp = &metav1.Time{Time: h.Now()} })
	h.ChangeAfter(2*time.Minute, func() { h.Object = nil })
	h.ExecuteWorkflow(harborworkflow.HarborCluster, workflowtest.HarborInput())
	status := workflowtest.RequireResult[harborworkflow.Status](h.World)
	require.Equal(t, harborworkflow.Deleted, status.State)
	require.Equal(t, []string{"the finalizer was removed before all resources were; not removed: cache, database, storage"}, status.Notes)
}
