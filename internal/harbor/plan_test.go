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

// watched is a HarborCluster that is kept and as it should be: nothing is due.
type watched struct {
	*kept
	known harbor.Known
}

func newWatched(t *testing.T) *watched {
	w := &watched{kept: newKept(t, up())}
	w.apply()
	w.hc.UID, w.hc.Finalizers = uid, []string{harbor.Finalizer}
	w.known = harbor.Known{Applied: w.applied}
	w.write()
	require.False(t, w.look().Due())
	return w
}

func (w *watched) look() harbor.Plan { return harbor.PlanFor(w.hc, w.seen, uid, w.known, w.now) }

// write takes in and writes the status as it is.
func (w *watched) write() {
	status, at := w.look().Status, w.now
	w.hc.Status, w.known.Status, w.known.StatusWritten = status, status, &at
}

// pass lets time pass.
func (w *watched) pass(time time.Duration) { w.now = w.now.Add(time) }

func TestNothingIsDueWithoutAChange(t *testing.T) {
	w := newWatched(t)
	w.pass(time.Hour)
	look := w.look()
	require.False(t, look.Due())
	require.Nil(t, look.Again())
	require.Equal(t, goharborv1.StatusHealthy, look.Status.Status)
}

func TestAStatusChangedByAnotherClientIsWrittenAgainAfterAPause(t *testing.T) {
	w := newWatched(t)
	theirs := goharborv1.HarborClusterStatus{Status: goharborv1.StatusCreating}
	w.hc.Status = theirs
	look := w.look()
	require.False(t, look.Due(), "who writes it all the time is not answered at once each time")
	require.Equal(t, w.now.Add(2*time.Second), *look.Again())
	w.pass(2 * time.Second)
	look = w.look()
	require.True(t, look.Outdated)
	require.Equal(t, goharborv1.StatusHealthy, look.Status.Status, "what is remembered counts")
	require.True(t, look.Doubtful(), "it may be what a watch does not show yet")

	w.write()
	w.hc.Status = theirs
	w.seen.Tenant = tenant("Initialized", 1, "PoolInitialized")
	look = w.look()
	require.True(t, look.Outdated, "what is news is said at once")
	require.Equal(t, goharborv1.StatusUnhealthy, look.Status.Status)
	require.False(t, look.Doubtful())
}

func TestAStatusThatIsProvisioningIsCreating(t *testing.T) {
	w := newWatched(t)
	w.seen.Harbor = nil
	w.hc.Status, w.known.Status = goharborv1.HarborClusterStatus{}, goharborv1.HarborClusterStatus{}
	w.write()
	require.Equal(t, goharborv1.StatusCreating, w.hc.Status.Status)
	w.hc.Status.Status = goharborv1.StatusProvisioning
	w.pass(time.Hour)
	require.False(t, w.look().Due(), "the Harbor operator's word for it is as good as ours")
	w.hc.Status.Status = goharborv1.StatusHealthy
	require.True(t, w.look().Outdated)
}

func TestARemovedFinalizerIsAddedAgainAfterAPause(t *testing.T) {
	w := newWatched(t)
	w.hc.Finalizers = []string{"theirs"}
	require.True(t, w.look().NoFinalizer, "at once for the first time")
	at := w.now
	w.known.FinalizerWritten = &at
	look := w.look()
	require.False(t, look.Due())
	require.Equal(t, w.now.Add(2*time.Second), *look.Again())
	w.pass(2 * time.Second)
	require.True(t, w.look().NoFinalizer)
}

func TestARecreatedObjectStartsWithoutARecord(t *testing.T) {
	w := newWatched(t)
	before := w.hc.Status
	w.hc.UID = "uid-2"
	look := w.look()
	require.True(t, look.Due())
	require.True(t, look.Doubtful(), "a cache may show the one before")
	require.Len(t, look.Parts, 3, "nothing was applied for it")
	require.Equal(t, harbor.ConditionOf(before, goharborv1.CacheReady).FirstReadyTime, harbor.ConditionOf(look.Status, goharborv1.CacheReady).FirstReadyTime,
		"but what its status remembers")

	first := harbor.PlanFor(w.hc, w.seen, "", harbor.Known{}, w.now)
	require.False(t, first.Doubtful(), "nothing was known")
}

func TestADeletionIsConfirmedWithTheAPIServer(t *testing.T) {
	w := newWatched(t)
	gone := harbor.PlanFor(nil, harbor.Seen{}, uid, w.known, w.now)
	require.True(t, gone.Gone && gone.Due() && gone.Doubtful())

	w.hc.DeletionTimestamp = &metav1.Time{Time: w.now}
	deleting := w.look()
	require.True(t, deleting.Deleting && deleting.Due() && deleting.Doubtful())
	require.Empty(t, deleting.Parts)

	w = newWatched(t)
	w.hc.Generation--
	require.True(t, w.look().Doubtful(), "it is older than what was seen")
}

func TestAPartBeingAppliedIsNotDue(t *testing.T) {
	w := newWatched(t)
	*w.hc.Spec.Cache.Spec.RedisFailover.Server.Replicas = 2
	w.hc.Spec.Database.Spec.Zalando.Version = "16"
	w.known.Applying = []harbor.Part{harbor.PartCache}
	look := w.look()
	require.Len(t, look.Parts, 1)
	require.Equal(t, harbor.PartDatabase, look.Parts[0].Part)
	require.Equal(t, harbor.ReasonNotApplied, harbor.ConditionOf(look.Status, goharborv1.CacheReady).Reason)
	w.hc.UID = "uid-2"
	for _, due := range w.look().Parts {
		require.NotEqual(t, harbor.PartCache, due.Part, "not of another object either")
	}
}

func TestDriftIsConfirmedWithTheAPIServer(t *testing.T) {
	w := newWatched(t)
	w.hc.Spec.Version = "2.6.0"
	w.hc.Generation++
	changed := w.look()
	require.Len(t, changed.Parts, 1)
	require.False(t, changed.Doubtful(), "nothing that is wanted now was applied later")
	w.write()
	w.applied[harbor.PartHarbor] = harbor.Applied{Wanted: changed.Parts[0].Wanted, Versions: map[string]string{"harbor": "2"}, At: w.now}
	before := w.look()
	require.Equal(t, goharborv1.StatusHealthy, before.Status.Status, "Harbor is well as it was before")
	require.True(t, before.Due() && before.Doubtful())
	w.seen.Versions["harbor"] = "2"
	require.True(t, w.look().Due())
	require.False(t, w.look().Doubtful())
	w.write()

	w.seen.Versions["cache"] = "theirs"
	require.False(t, w.look().Due())
	w.pass(2 * time.Second)
	repair := w.look()
	require.Len(t, repair.Parts, 1)
	require.True(t, repair.Doubtful(), "it may have been put right already")
}

func TestASecretThatOneWatchHasBeforeAnotherIsNotMissed(t *testing.T) {
	w := newWatched(t)
	secrets := w.seen.Secrets
	w.seen.Secrets = map[string]bool{}
	look := w.look()
	require.Equal(t, harbor.ReasonSecretMissing, harbor.ConditionOf(look.Status, goharborv1.DatabaseReady).Reason)
	require.True(t, look.Doubtful())
	w.known.Status = look.Status
	w.seen.Secrets = secrets
	require.False(t, w.look().Doubtful())
}

func TestAHeldHarborClusterIsReportedButNotChanged(t *testing.T) {
	w := newWatched(t)
	w.known.Held = true
	w.pass(time.Minute)
	w.seen.Versions["cache"] = "2"
	require.False(t, w.look().Due())
	w.hc.Status = goharborv1.HarborClusterStatus{}
	look := w.look()
	require.True(t, look.Outdated)
	require.Empty(t, look.Parts)
}

func TestTheStatusIsWrittenAfterTheDueParts(t *testing.T) {
	w := newWatched(t)
	harborUp := w.seen.Harbor
	w.seen.Harbor, w.hc.Spec.Version = nil, "2.6.0"
	w.write() // unhealthy: Harbor is gone
	delete(w.known.Applied, harbor.PartHarbor)
	w.seen.Secrets["theirs"] = true
	w.hc.Status.Conditions[0].Message = "as it was"
	look := w.look()
	require.Len(t, look.Parts, 1)
	require.True(t, look.Deferred)
	require.False(t, look.Outdated, "it says nothing else, and will be written when Harbor is applied")
	w.apply()
	w.known.StatusWritten = nil
	look = w.look()
	require.True(t, look.Outdated, "at once")
	require.False(t, look.Doubtful(), "nobody has written it")

	delete(w.known.Applied, harbor.PartHarbor)
	w.seen.Harbor = harborUp
	w.hc.Status.Conditions[3].Status = unknown
	look = w.look()
	require.Len(t, look.Parts, 1)
	require.False(t, look.Deferred)
	require.True(t, look.Outdated, "what is bad, or is not any more, cannot wait")
}

func TestConditionsOfOtherProgramsAreKept(t *testing.T) {
	w := newWatched(t)
	theirs := goharborv1.HarborClusterCondition{Type: "Scanned", Status: yes}
	own := goharborv1.HarborClusterStatus{Conditions: []goharborv1.HarborClusterCondition{theirs, {Type: goharborv1.CacheReady, Status: no}}}
	written := harbor.WithOthers(w.known.Status, own)
	require.Len(t, written.Conditions, 6)
	require.Equal(t, theirs, harbor.ConditionOf(written, theirs.Type))
	require.Equal(t, yes, harbor.ConditionOf(written, goharborv1.CacheReady).Status)
	require.True(t, harbor.SameStatus(written, w.known.Status))
	require.Len(t, w.known.Status.Conditions, 5, "what is remembered is not changed")
}

// Whoever else writes the status or the finalizer, and however often: neither is written twice within the pause unless there is news, and in the end both are as
// they should be.
func TestConflictingWritersAreAnsweredOnlyAfterAPause(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		w := newWatched(t)
		var statuses, finalizers []time.Time
		for range rapid.IntRange(1, 40).Draw(r, "steps") {
			w.pass(time.Duration(rapid.IntRange(0, 1500).Draw(r, "milliseconds")) * time.Millisecond)
			if rapid.Bool().Draw(r, "status") {
				w.hc.Status = goharborv1.HarborClusterStatus{}
			}
			if rapid.Bool().Draw(r, "finalizer") {
				w.hc.Finalizers = nil
			}
			look := w.look()
			if look.Outdated {
				statuses = append(statuses, w.now)
				w.write()
			}
			if look.NoFinalizer {
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
		look := w.look()
		require.Equal(r, len(w.hc.Finalizers) == 0, look.NoFinalizer)
		require.Equal(r, w.hc.Status.Status == "", look.Outdated)
	})
}
