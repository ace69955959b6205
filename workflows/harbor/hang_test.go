package harbor_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	goharborv1 "drydock.dev/drydock/internal/apis/goharbor/v1beta1"
	"drydock.dev/drydock/internal/harbor"
	"drydock.dev/drydock/internal/temporal"
	harborworkflow "drydock.dev/drydock/workflows/harbor"
	"drydock.dev/drydock/workflows/workflowtest"
)

// newHangingHarbor is a Harbor whose database takes that long to apply, each time.
func newHangingHarbor(t *testing.T, takes time.Duration) *workflowtest.HarborWorld {
	h := workflowtest.NewHarborWorld(t)
	h.Hangs[harbor.PartDatabase] = takes
	return h
}

func TestASlowPartDoesNotDelayTheOthers(t *testing.T) {
	h := newHangingHarbor(t, 16*time.Second)
	h.Refused[harbor.PartDatabase] = temporal.Error(temporal.ErrClusterUnreachable, "no answer", nil)
	h.Says(4*time.Second, goharborv1.CacheReady, metav1.ConditionTrue)
	h.Says(4*time.Second, goharborv1.StorageReady, metav1.ConditionTrue) // the bucket is made meanwhile
	h.Says(4*time.Second, goharborv1.DatabaseReady, metav1.ConditionUnknown)
	h.After(5*time.Second, func() { h.Down[harbor.PartCache] = true })
	h.Says(9*time.Second, goharborv1.CacheReady, metav1.ConditionFalse)
	h.After(10*time.Second, func() { clear(h.Down) })
	h.Says(14*time.Second, goharborv1.CacheReady, metav1.ConditionTrue)
	h.After(time.Minute, func() { clear(h.Refused); clear(h.Hangs) })
	require.Equal(t, goharborv1.StatusHealthy, h.Keep(time.Hour).Harbor.Status)
	require.Equal(t, 1, workflowtest.Count(h.Begun, harbor.PartCache))
	require.Equal(t, 1, workflowtest.Count(h.Begun, harbor.PartHarbor))
	require.Less(t, workflowtest.Count(h.Begun, harbor.PartDatabase), 6)
}

func TestTheResultOfASlowPartIsWrittenToTheStatus(t *testing.T) {
	h := newHangingHarbor(t, 8*time.Second)
	h.Refused[harbor.PartDatabase] = temporal.Error(temporal.ErrInvalidSpec, "a webhook hangs", nil)
	h.Says(7*time.Second, goharborv1.DatabaseReady, metav1.ConditionUnknown)
	h.Says(12*time.Second, goharborv1.DatabaseReady, metav1.ConditionFalse)
	h.After(time.Minute, func() { clear(h.Refused) })
	h.Says(3*time.Minute, goharborv1.DatabaseReady, metav1.ConditionTrue) // though it takes long still
	require.Equal(t, goharborv1.StatusHealthy, h.Keep(time.Hour).Harbor.Status)
}

func TestAPartIsNotRemovedWhileItIsApplied(t *testing.T) {
	h := newHangingHarbor(t, 16*time.Second)
	h.After(5*time.Second, func() { h.Object.DeletionTimestamp = &metav1.Time{Time: h.Now()} })
	h.RegisterDelayedCallback(func() {
		require.NotContains(t, h.Ended, harbor.PartDatabase)
		require.Empty(t, h.Removed)
	}, 15*time.Second)
	h.ExecuteWorkflow(harborworkflow.HarborCluster, workflowtest.TheHarborCluster())
	require.Equal(t, harborworkflow.Deleted, workflowtest.RequireResult[harborworkflow.Status](h.World).State)
	require.Contains(t, h.Ended, harbor.PartDatabase)
	require.Len(t, h.Removed, 4)
}

func TestAPartOfADeletedObjectDoesNotCountForItsSuccessor(t *testing.T) {
	h := newHangingHarbor(t, 16*time.Second)
	h.After(5*time.Second, func() {
		h.Object.UID, h.Object.Status = "uid-2", goharborv1.HarborClusterStatus{}
		clear(h.There)
	})
	require.Equal(t, goharborv1.StatusHealthy, h.Keep(time.Hour).Harbor.Status)
	require.Equal(t, 2, workflowtest.Count(h.Begun, harbor.PartDatabase), "once for each of the two")
}

func TestTheNextRunKnowsTheAppliedParts(t *testing.T) {
	h := newHangingHarbor(t, 16*time.Second)
	h.RegisterDelayedCallback(func() {
		h.SetContinueAsNewSuggested(true)
		h.Change(func() { h.Down[harbor.PartCache] = true })
	}, 5*time.Second)
	h.ExecuteWorkflow(harborworkflow.HarborCluster, workflowtest.TheHarborCluster())
	next := workflowtest.HandedOn[harborworkflow.Input](h.World)
	require.NotNil(t, next)
	require.Contains(t, next.Carried.Known.Applied, harbor.PartDatabase)
}
