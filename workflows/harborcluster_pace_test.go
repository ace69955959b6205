package workflows

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
)

func TestWhoUndoesAllThatIsWrittenOfTheObjectIsNotAnsweredEachTimeAtOnce(t *testing.T) {
	h := newHarborWorld(t)
	h.undone = true
	h.RegisterDelayedCallback(func() {
		require.Equal(t, goharborv1.StatusHealthy, statusOf[HarborClusterStatus](h.world).Harbor.Status, "that it is well is seen all the same")
		h.change(func() { h.undone = false })
	}, time.Minute)
	h.after(2*time.Minute, func() {
		require.True(t, h.held)
		require.Equal(t, goharborv1.StatusHealthy, h.object.Status.Status, "what was undone last is written again")
	})
	h.keep(3 * time.Minute)
	for _, written := range []string{"WriteHarborStatus", "HoldHarborCluster"} {
		times := len(h.inputsOf(written))
		require.Greater(t, times, 20, written)
		require.Less(t, times, 40, written)
	}
}

func TestWhatDoesNotGoIsSaidWhileItIsWaitedFor(t *testing.T) {
	h := newHarborWorld(t)
	h.slow[harbor.PartDatabase], h.slow[harbor.PartStorage] = true, true
	deleted := time.Minute
	h.after(deleted, func() { h.object.DeletionTimestamp = &metav1.Time{Time: h.Now()} })
	waits := func() drydockv1.Wait { return *statusOf[HarborClusterStatus](h.world).Wait }
	going := func(part harbor.Part, kind, name string) {
		object := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{Kind: kind}}
		object.Namespace, object.Name, object.Finalizers = "registry", name, []string{"theirs"}
		h.SignalWorkflow(temporal.SignalObserved, temporal.Observation{Activity: "RemoveHarborPart", Part: string(part), Wait: harbor.Going(object)})
	}
	h.RegisterDelayedCallback(func() {
		require.Equal(t, harbor.ReasonRemoving, waits().Reason)
		require.Equal(t, "what is removed: database, storage", waits().Message)
		said := statusOf[HarborClusterStatus](h.world).Harbor
		require.Equal(t, goharborv1.StatusUnhealthy, said.Status, "Harbor is gone")
		require.Equal(t, harbor.ReasonRemoving, harbor.ConditionOf(said, goharborv1.ServiceReady).Reason)
		require.Equal(t, metav1.ConditionTrue, harbor.ConditionOf(said, goharborv1.DatabaseReady).Status, "as it was seen last")
		going(harbor.PartStorage, "Tenant", "minio-main")
	}, deleted+time.Second)
	h.RegisterDelayedCallback(func() {
		require.Equal(t, "Tenant registry/minio-main is being deleted; its finalizers hold it: theirs", waits().Message)
		going(harbor.PartDatabase, "postgresql", "db")
		going(harbor.PartCache, "RedisFailover", "main-redis") // it is late: the cache is gone
	}, deleted+2*time.Second)
	h.RegisterDelayedCallback(func() {
		require.Contains(t, waits().Message, "postgresql registry/db is being deleted")
		require.Len(t, waits().Blockers, 2)
		require.WithinDuration(t, h.Now(), waits().Since.Time, time.Minute)
	}, deleted+3*time.Second)
	h.ExecuteWorkflow(HarborCluster, theHarborCluster())
	status := requireResult[HarborClusterStatus](h.world)
	require.Equal(t, HarborDeleted, status.State)
	require.Nil(t, status.Wait)
}

func TestAllThatGoesWrongAtOnceIsSaid(t *testing.T) {
	h := newHarborWorld(t)
	h.fail["HoldHarborCluster"] = always(sdktemporal.NewApplicationError("no finalizers today", temporal.ErrClusterUnreachable))
	h.fail["WriteHarborStatus"] = always(sdktemporal.NewApplicationError("no status today", temporal.ErrClusterUnreachable))
	h.RegisterDelayedCallback(func() {
		require.Contains(t, statusOf[HarborClusterStatus](h.world).Wait.Message, "no finalizers today")
		require.Contains(t, statusOf[HarborClusterStatus](h.world).Wait.Message, "no status today")
		clear(h.fail)
	}, 2*time.Second)
	h.after(time.Minute, func() {
		h.refused[harbor.PartDatabase] = temporal.Error(temporal.ErrInvalidSpec, "the database stays", nil)
		h.refused[harbor.PartStorage] = temporal.Error(temporal.ErrInvalidSpec, "the storage stays", nil)
		h.object.DeletionTimestamp = &metav1.Time{Time: h.Now()}
	})
	h.ExecuteWorkflow(HarborCluster, theHarborCluster())
	status := requireFailure[HarborClusterStatus](h.world, temporal.ErrInvalidSpec)
	require.Equal(t, []string{"the database stays; the storage stays"}, status.Notes)
	require.Contains(t, h.removed, harbor.PartCache, "what fails stops no other")
	require.True(t, h.held, "it is not let go")
}

func TestAnObjectIsNotMadeAnewByTheRunThatRemovesTheFormerWhichWouldNotKeepIt(t *testing.T) {
	// A release was carried out, and its answer is lost.
	h := newHarborWorld(t)
	wanted := *h.object
	var said *string
	ask := func() { said = answerTo(h, temporal.UpdateApply, HarborApplyRequest{Object: wanted}) }
	h.fail["ReleaseHarborCluster"] = func(call int) error {
		if call > 1 {
			return nil
		}
		h.object = nil
		h.RegisterDelayedCallback(ask, firstRetry/2)
		return errors.New("no answer")
	}
	h.after(time.Minute, func() { h.object.DeletionTimestamp = &metav1.Time{Time: h.Now()} })
	h.ExecuteWorkflow(HarborCluster, theHarborCluster())
	require.Equal(t, HarborDeleted, requireResult[HarborClusterStatus](h.world).State)
	require.Contains(t, *said, "rejected: the workflow is about to end: try again")
	require.Nil(t, h.object)

	// Somebody has taken the finalizer away while the removal goes on.
	h = newHarborWorld(t)
	h.slow[harbor.PartDatabase] = true
	h.after(time.Minute, func() { h.object.DeletionTimestamp = &metav1.Time{Time: h.Now()} })
	h.after(2*time.Minute, func() { h.object = nil })
	h.RegisterDelayedCallback(ask, 3*time.Minute)
	h.ExecuteWorkflow(HarborCluster, theHarborCluster())
	require.Equal(t, HarborDeleted, requireResult[HarborClusterStatus](h.world).State)
	require.Contains(t, *said, "rejected: cluster c1: HarborCluster registry/main is being deleted: apply it again when that is over")
	require.Nil(t, h.object)
}

func TestWhatIsLeftOfAnObjectThatWentBeforeItsTimeIsNotSaidToBeRemoved(t *testing.T) {
	h := newHarborWorld(t)
	h.slow[harbor.PartHarbor] = true
	h.after(time.Minute, func() { h.object.DeletionTimestamp = &metav1.Time{Time: h.Now()} })
	h.after(2*time.Minute, func() { h.object = nil })
	h.ExecuteWorkflow(HarborCluster, theHarborCluster())
	status := requireResult[HarborClusterStatus](h.world)
	require.Equal(t, HarborDeleted, status.State)
	require.Equal(t, []string{"somebody let the object go before all was removed; left as it is: cache, database, storage"}, status.Notes)
}
