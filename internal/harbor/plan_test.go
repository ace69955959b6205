package harbor_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	goharborv1 "drydock.dev/drydock/internal/apis/goharbor/v1beta1"
	"drydock.dev/drydock/internal/harbor"
)

const uid = "uid-1"

// steady is a managed HarborCluster with nothing due.
type steady struct {
	*managed
	known harbor.Known
}

func newSteady(t *testing.T) *steady {
	w := &steady{managed: newManaged(t, up())}
	w.apply()
	w.hc.UID, w.hc.Finalizers = uid, []string{harbor.Finalizer}
	w.known = harbor.Known{Applied: w.applied}
	w.write()
	require.False(t, w.plan().Due())
	return w
}

func (w *steady) plan() harbor.Plan { return harbor.PlanFor(w.hc, w.seen, uid, w.known, w.now) }

// write records and writes the current status.
func (w *steady) write() {
	status, at := w.plan().Status, w.now
	w.hc.Status, w.known.Status, w.known.StatusWritten = status, status, &at
}

// pass lets time pass.
func (w *steady) pass(time time.Duration) { w.now = w.now.Add(time) }

func TestNothingIsDueWithoutAChange(t *testing.T) {
	w := newSteady(t)
	w.pass(time.Hour)
	plan := w.plan()
	require.False(t, plan.Due())
	require.Nil(t, plan.Again())
	require.Equal(t, goharborv1.StatusHealthy, plan.Status.Status)
}

func TestAStatusChangedByAnotherClientIsWrittenAgainAfterAPause(t *testing.T) {
	w := newSteady(t)
	theirs := goharborv1.HarborClusterStatus{Status: goharborv1.StatusCreating}
	w.hc.Status = theirs
	plan := w.plan()
	require.False(t, plan.Due(), "repeated changes are reverted only after a pause")
	require.Equal(t, w.now.Add(2*time.Second), *plan.Again())
	w.pass(2 * time.Second)
	plan = w.plan()
	require.True(t, plan.Outdated)
	require.Equal(t, goharborv1.StatusHealthy, plan.Status.Status, "the record counts")
	require.True(t, plan.Doubtful(), "the cache may be stale")

	w.write()
	w.hc.Status = theirs
	w.seen.Tenant = tenant("Initialized", 1, "PoolInitialized")
	plan = w.plan()
	require.True(t, plan.Outdated, "a new condition is written immediately")
	require.Equal(t, goharborv1.StatusUnhealthy, plan.Status.Status)
	require.False(t, plan.Doubtful())
}

func TestAStatusThatIsProvisioningIsCreating(t *testing.T) {
	w := newSteady(t)
	w.seen.Harbor = nil
	w.hc.Status, w.known.Status = goharborv1.HarborClusterStatus{}, goharborv1.HarborClusterStatus{}
	w.write()
	require.Equal(t, goharborv1.StatusCreating, w.hc.Status.Status)
	w.hc.Status.Status = goharborv1.StatusProvisioning
	w.pass(time.Hour)
	require.False(t, w.plan().Due(), "the Harbor operator's status means the same")
	w.hc.Status.Status = goharborv1.StatusHealthy
	require.True(t, w.plan().Outdated)
}

func TestARemovedFinalizerIsAddedAgainAfterAPause(t *testing.T) {
	w := newSteady(t)
	w.hc.Finalizers = []string{"theirs"}
	require.True(t, w.plan().NoFinalizer, "the first repair is immediate")
	at := w.now
	w.known.FinalizerWritten = &at
	plan := w.plan()
	require.False(t, plan.Due())
	require.Equal(t, w.now.Add(2*time.Second), *plan.Again())
	w.pass(2 * time.Second)
	require.True(t, w.plan().NoFinalizer)
}

func TestARecreatedObjectStartsWithoutARecord(t *testing.T) {
	w := newSteady(t)
	before := w.hc.Status
	w.hc.UID = "uid-2"
	plan := w.plan()
	require.True(t, plan.Due())
	require.True(t, plan.Doubtful(), "the cache may have the previous object")
	require.Len(t, plan.Parts, 3, "nothing was applied for it")
	require.Equal(t, harbor.ConditionOf(before, goharborv1.CacheReady).FirstReadyTime, harbor.ConditionOf(plan.Status, goharborv1.CacheReady).FirstReadyTime,
		"only the history in its status counts")

	first := harbor.PlanFor(w.hc, w.seen, "", harbor.Known{}, w.now)
	require.False(t, first.Doubtful(), "there is no record")
}

func TestADeletionIsConfirmedWithTheAPIServer(t *testing.T) {
	w := newSteady(t)
	gone := harbor.PlanFor(nil, harbor.Seen{}, uid, w.known, w.now)
	require.True(t, gone.Gone && gone.Due() && gone.Doubtful())

	w.hc.DeletionTimestamp = &metav1.Time{Time: w.now}
	deleting := w.plan()
	require.True(t, deleting.Deleting && deleting.Due() && deleting.Doubtful())
	require.Empty(t, deleting.Parts)

	w = newSteady(t)
	w.hc.Generation--
	require.True(t, w.plan().Doubtful(), "the observation is older than the record")
}

func TestAPartBeingAppliedIsNotDue(t *testing.T) {
	w := newSteady(t)
	*w.hc.Spec.Cache.Spec.RedisFailover.Server.Replicas = 2
	w.hc.Spec.Database.Spec.Zalando.Version = "16"
	w.known.Applying = []harbor.Part{harbor.PartCache}
	plan := w.plan()
	require.Len(t, plan.Parts, 1)
	require.Equal(t, harbor.PartDatabase, plan.Parts[0].Part)
	require.Equal(t, harbor.ReasonNotApplied, harbor.ConditionOf(plan.Status, goharborv1.CacheReady).Reason)
	w.hc.UID = "uid-2"
	for _, due := range w.plan().Parts {
		require.NotEqual(t, harbor.PartCache, due.Part, "also if the object was recreated")
	}
}

func TestDriftIsConfirmedWithTheAPIServer(t *testing.T) {
	w := newSteady(t)
	w.hc.Spec.Version = "2.6.0"
	w.hc.Generation++
	changed := w.plan()
	require.Len(t, changed.Parts, 1)
	require.False(t, changed.Doubtful(), "no part was applied after the observation")
	w.write()
	w.applied[harbor.PartHarbor] = harbor.Applied{Wanted: changed.Parts[0].Wanted, Versions: map[string]string{"harbor": "2"}, At: w.now}
	before := w.plan()
	require.Equal(t, goharborv1.StatusHealthy, before.Status.Status, "Harbor is still healthy")
	require.True(t, before.Due() && before.Doubtful())
	w.seen.Versions["harbor"] = "2"
	require.True(t, w.plan().Due())
	require.False(t, w.plan().Doubtful())
	w.write()

	w.seen.Versions["cache"] = "theirs"
	require.False(t, w.plan().Due())
	w.pass(2 * time.Second)
	repair := w.plan()
	require.Len(t, repair.Parts, 1)
	require.True(t, repair.Doubtful(), "the cache may be stale")
}

func TestAMissingSecretIsConfirmedWithTheAPIServer(t *testing.T) {
	w := newSteady(t)
	secrets := w.seen.Secrets
	w.seen.Secrets = map[string]bool{}
	plan := w.plan()
	require.Equal(t, harbor.ReasonSecretMissing, harbor.ConditionOf(plan.Status, goharborv1.DatabaseReady).Reason)
	require.True(t, plan.Doubtful())
	w.known.Status = plan.Status
	w.seen.Secrets = secrets
	require.False(t, w.plan().Doubtful())
}

func TestAHeldHarborClusterIsReportedButNotChanged(t *testing.T) {
	w := newSteady(t)
	w.known.Held = true
	w.pass(time.Minute)
	w.seen.Versions["cache"] = "2"
	require.False(t, w.plan().Due())
	w.hc.Status = goharborv1.HarborClusterStatus{}
	plan := w.plan()
	require.True(t, plan.Outdated)
	require.Empty(t, plan.Parts)
}

func TestTheStatusIsWrittenAfterTheDueParts(t *testing.T) {
	w := newSteady(t)
	harborUp := w.seen.Harbor
	w.seen.Harbor, w.hc.Spec.Version = nil, "2.6.0"
	w.write() // unhealthy: Harbor is gone
	delete(w.known.Applied, harbor.PartHarbor)
	w.seen.Secrets["theirs"] = true
	w.hc.Status.Conditions[0].Message = "old"
	plan := w.plan()
	require.Len(t, plan.Parts, 1)
	require.True(t, plan.Deferred)
	require.False(t, plan.Outdated, "the status changes again when Harbor is applied")
	w.apply()
	w.known.StatusWritten = nil
	plan = w.plan()
	require.True(t, plan.Outdated, "written immediately")
	require.False(t, plan.Doubtful(), "the status was never written")

	delete(w.known.Applied, harbor.PartHarbor)
	w.seen.Harbor = harborUp
	w.hc.Status.Conditions[3].Status = unknown
	plan = w.plan()
	require.Len(t, plan.Parts, 1)
	require.False(t, plan.Deferred)
	require.True(t, plan.Outdated, "a change of the overall status is written immediately")
}

func TestConditionsOfOtherProgramsAreKept(t *testing.T) {
	w := newSteady(t)
	theirs := goharborv1.HarborClusterCondition{Type: "Scanned", Status: yes}
	own := goharborv1.HarborClusterStatus{Conditions: []goharborv1.HarborClusterCondition{theirs, {Type: goharborv1.CacheReady, Status: no}}}
	written := harbor.WithOthers(w.known.Status, own)
	require.Len(t, written.Conditions, 6)
	require.Equal(t, theirs, harbor.ConditionOf(written, theirs.Type))
	require.Equal(t, yes, harbor.ConditionOf(written, goharborv1.CacheReady).Status)
	require.True(t, harbor.SameStatus(written, w.known.Status))
	require.Len(t, w.known.Status.Conditions, 5, "the record is unchanged")
}

// If other clients change the status or the finalizer, Drydock writes neither twice within the pause unless it has something new to report. In the
// end both are correct.
func TestChangesOfOtherWritersAreRevertedOnlyAfterAPause(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		w := newSteady(t)
		var statuses, finalizers []time.Time
		for range rapid.IntRange(1, 40).Draw(r, "steps") {
			w.pass(time.Duration(rapid.IntRange(0, 1500).Draw(r, "milliseconds")) * time.Millisecond)
			if rapid.Bool().Draw(r, "status") {
				w.hc.Status = goharborv1.HarborClusterStatus{}
			}
			if rapid.Bool().Draw(r, "finalizer") {
				w.hc.Finalizers = nil
			}
			plan := w.plan()
			if plan.Outdated {
				statuses = append(statuses, w.now)
				w.write()
			}
			if plan.NoFinalizer {
				at := w.now
				finalizers = append(finalizers, at)
				w.hc.Finalizers, w.known.FinalizerWritten = []string{harbor.Finalizer}, &at
			}
		}
		for _, written := range [][]time.Time{statuses, finalizers} {
			for i := range written[:max(0, len(written)-1)] {
				require.GreaterOrEqual(r, written[i+1].Sub(written[i]), 2*time.Second)
			}
		}
		w.pass(2 * time.Second)
		plan := w.plan()
		require.Equal(r, len(w.hc.Finalizers) == 0, plan.NoFinalizer)
		require.Equal(r, w.hc.Status.Status == "", plan.Outdated)
	})
}
