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

// newHangingHarbor returns a Harbor whose database takes that long to apply.
func newHangingHarbor(t *testing.T, takes time.Duration) *workflowtest.HarborWorld {
	h := workflowtest.NewHarborWorld(t)
	h.Hangs[harbor.PartDatabase] = takes
	return h
}

func TestASlowPartDoesNotDelayTheOthers(t *testing.T) {
	h := newHangingHarbor(t, 16*time.Second)
	h.Refused[harbor.PartDatabase] = temporal.Error(temporal.ErrClusterUnreachable, "no answer", nil)
	h.RequireConditionAfter(4*time.Second, goharborv1.CacheReady, metav1.ConditionTrue)
	h.RequireConditionAfter(4*time.Second, goharborv1.StorageReady, metav1.ConditionTrue) // the bucket is created in the meantime
	h.RequireConditionAfter(4*time.Second, goharborv1.DatabaseReady, metav1.ConditionUnknown)
	h.ChangeAfter(5*time.Second, func() { h.NotReady[harbor.PartCache] = true })
	h.RequireConditionAfter(9*time.Second, goharborv1.CacheReady, metav1.ConditionFalse)
	h.ChangeAfter(10*time.Second, func() { clear(h.NotReady) })
	h.RequireConditionAfter(14*time.Second, goharborv1.CacheReady, metav1.ConditionTrue)
	h.ChangeAfter(time.Minute, func() { clear(h.Refused); clear(h.Hangs) })
	require.Equal(t, goharborv1.StatusHealthy, h.RunFor(time.Hour).Harbor.Status)
	require.Equal(t, 1, workflowtest.Count(h.Started, harbor.PartCache))
	require.Equal(t, 1, workflowtest.Count(h.Started, harbor.PartHarbor))
	require.Less(t, workflowtest.Count(h.Started, harbor.PartDatabase), 6)
}

func TestTheResultOfASlowPartIsWrittenToTheStatus(t *testing.T) {
	h := newHangingHarbor(t, 8*time.Second)
	h.Refused[harbor.PartDatabase] = temporal.Error(temporal.ErrInvalidSpec, "a webhook hangs", nil)
	h.RequireConditionAfter(7*time.Second, goharborv1.DatabaseReady, metav1.ConditionUnknown)
	h.RequireConditionAfter(12*time.Second, goharborv1.DatabaseReady, metav1.ConditionFalse)
	h.ChangeAfter(time.Minute, func() { clear(h.Refused) })
	h.RequireConditionAfter(3*time.Minute, goharborv1.DatabaseReady, metav1.ConditionTrue) // although applying still takes long
	require.Equal(t, goharborv1.StatusHealthy, h.RunFor(time.Hour).Harbor.Status)
}

func TestAPartIsNotRemovedWhileItIsApplied(t *testing.T) {
	h := newHangingHarbor(t, 16*time.Second)
	h.ChangeAfter(5*time.Second, func() { h.Object.DeletionTimestamp = &metav1.Time{Time: h.Now()} })
	h.RegisterDelayedCallback(func() {
		require.NotContains(t, h.Finished, harbor.PartDatabase)
		require.Empty(t, h.Removed)
	}, 15*time.Second)
	h.ExecuteWorkflow(harborworkflow.HarborCluster, workflowtest.HarborInput())
	require.Equal(t, harborworkflow.Deleted, workflowtest.RequireResult[harborworkflow.Status](h.World).State)
	require.Contains(t, h.Finished, harbor.PartDatabase)
	require.Len(t, h.Removed, 4)
}

func TestAPartOfADeletedObjectDoesNotCountForItsSuccessor(t *testing.T) {
	h := newHangingHarbor(t, 16*time.Second)
	h.ChangeAfter(5*time.Second, func() {
		h.Object.UID, h.Object.Status = "uid-2", goharborv1.HarborClusterStatus{}
		clear(h.Applied)
	})
	require.Equal(t, goharborv1.StatusHealthy, h.RunFor(time.Hour).Harbor.Status)
	require.Equal(t, 2, workflowtest.Count(h.Started, harbor.PartDatabase), "once for each object")
}

func TestTheNextRunKnowsTheAppliedParts(t *testing.T) {
	h := newHangingHarbor(t, 16*time.Second)
	h.RegisterDelayedCallback(func() {
		h.SetContinueAsNewSuggested(true)
		h.Change(func() { h.NotReady[harbor.PartCache] = true })
	}, 5*time.Second)
	h.ExecuteWorkflow(harborworkflow.HarborCluster, workflowtest.HarborInput())
	next := workflowtest.NextRunInput[harborworkflow.Input](h.World)
	require.NotNil(t, next)
	require.Contains(t, next.Carried.Known.Applied, harbor.PartDatabase)
}
