package workflows

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	goharborv1 "drydock.dev/drydock/internal/apis/goharbor/v1beta1"
	"drydock.dev/drydock/internal/harbor"
	"drydock.dev/drydock/internal/temporal"
)

// newHangingHarbor is one whose database takes that long to be applied, each time.
func newHangingHarbor(t *testing.T, takes time.Duration) *harborWorld {
	h := newHarborWorld(t)
	h.hangs[harbor.PartDatabase] = takes
	return h
}

// says requires after so long that a condition is so.
func (h *harborWorld) says(after time.Duration, kind goharborv1.ConditionType, status metav1.ConditionStatus) {
	h.RegisterDelayedCallback(func() {
		require.Equal(h.t, status, conditionIn(statusOf[HarborClusterStatus](h.world), kind).Status, "%s after %s", kind, after)
	}, after)
}

func TestAPartThatHangsHidesNothingOfTheOthers(t *testing.T) {
	h := newHangingHarbor(t, 16*time.Second)
	h.refused[harbor.PartDatabase] = temporal.Error(temporal.ErrClusterUnreachable, "no answer", nil)
	h.says(4*time.Second, goharborv1.CacheReady, metav1.ConditionTrue)
	h.says(4*time.Second, goharborv1.StorageReady, metav1.ConditionTrue) // the bucket is made meanwhile
	h.says(4*time.Second, goharborv1.DatabaseReady, metav1.ConditionUnknown)
	h.after(5*time.Second, func() { h.down[harbor.PartCache] = true })
	h.says(9*time.Second, goharborv1.CacheReady, metav1.ConditionFalse)
	h.after(10*time.Second, func() { clear(h.down) })
	h.says(14*time.Second, goharborv1.CacheReady, metav1.ConditionTrue)
	h.after(time.Minute, func() { clear(h.refused); clear(h.hangs) })
	require.Equal(t, goharborv1.StatusHealthy, h.keep(time.Hour).Harbor.Status)
	require.Equal(t, 1, count(h.begun, harbor.PartCache))
	require.Equal(t, 1, count(h.begun, harbor.PartHarbor))
	require.Less(t, count(h.begun, harbor.PartDatabase), 6)
}

func TestWhatCameOfAPartThatHungIsSaidThoughNothingElseChanges(t *testing.T) {
	h := newHangingHarbor(t, 8*time.Second)
	h.refused[harbor.PartDatabase] = temporal.Error(temporal.ErrInvalidSpec, "a webhook hangs", nil)
	h.says(7*time.Second, goharborv1.DatabaseReady, metav1.ConditionUnknown)
	h.says(12*time.Second, goharborv1.DatabaseReady, metav1.ConditionFalse)
	h.after(time.Minute, func() { clear(h.refused) })
	h.says(3*time.Minute, goharborv1.DatabaseReady, metav1.ConditionTrue) // though it takes long still
	require.Equal(t, goharborv1.StatusHealthy, h.keep(time.Hour).Harbor.Status)
}

func TestWhatIsBeingAppliedIsNotRemovedBeforeThatIsOver(t *testing.T) {
	h := newHangingHarbor(t, 16*time.Second)
	h.after(5*time.Second, func() { h.object.DeletionTimestamp = &metav1.Time{Time: h.Now()} })
	h.RegisterDelayedCallback(func() {
		require.NotContains(t, h.ended, harbor.PartDatabase)
		require.Empty(t, h.removed)
	}, 15*time.Second)
	h.ExecuteWorkflow(HarborCluster, theHarborCluster())
	require.Equal(t, HarborDeleted, requireResult[HarborClusterStatus](h.world).State)
	require.Contains(t, h.ended, harbor.PartDatabase)
	require.Len(t, h.removed, 4)
}

func TestWhatIsBeingAppliedOfAnObjectThatIsGoneCountsForNoOther(t *testing.T) {
	h := newHangingHarbor(t, 16*time.Second)
	h.after(5*time.Second, func() {
		h.object.UID, h.object.Status = "uid-2", goharborv1.HarborClusterStatus{}
		clear(h.there)
	})
	require.Equal(t, goharborv1.StatusHealthy, h.keep(time.Hour).Harbor.Status)
	require.Equal(t, 2, count(h.begun, harbor.PartDatabase), "once for each of the two")
}

func TestARunThatContinuesAsNewKnowsWhatItHasApplied(t *testing.T) {
	h := newHangingHarbor(t, 16*time.Second)
	h.RegisterDelayedCallback(func() {
		h.SetContinueAsNewSuggested(true)
		h.change(func() { h.down[harbor.PartCache] = true })
	}, 5*time.Second)
	h.ExecuteWorkflow(HarborCluster, theHarborCluster())
	next := handedOn[HarborClusterInput](h.world)
	require.NotNil(t, next)
	require.Contains(t, next.Carried.Known.Applied, harbor.PartDatabase)
}
