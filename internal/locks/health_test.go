package locks_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	"drydock.dev/drydock/internal/health"
	"drydock.dev/drydock/internal/locks"
)

// newStableWorld has an application that releases the cluster when its database has been healthy for a minute.
func newStableWorld(t *testing.T) *world {
	w := newWorld(t, "n1")
	w.policy.ClusterHealth = []drydockv1.HealthCheck{{Name: "database", StableSeconds: 60}, {Name: "control"}}
	w.settle()
	return w
}

// pass is one pass of the controller, with the time since the pass before.
func (w *world) pass(after time.Duration, databaseHealthy bool) locks.LockDecision {
	w.now = w.now.Add(after)
	w.snapshot.Health = []locks.CheckResult{{Check: "database", Healthy: databaseHealthy, Message: "1 of 3 replicas"}, {Check: "control", Healthy: true}}
	return ofCluster(w.settle())
}

func TestAStableCheckReleasesAfterItHeldLongEnough(t *testing.T) {
	w := newStableWorld(t)
	w.pass(time.Hour, true)
	require.Empty(t, w.permits().HealthySince, "health counts only while a request exists")

	w.requestCluster()
	held := w.pass(500*time.Millisecond, true)
	require.Equal(t, active, held.To)
	require.Equal(t, locks.ClusterNotHealthy, held.Reason)
	require.Equal(t, "database: healthy since 2026-11-20T11:00:01Z, must stay so for 1m0s", held.Message)
	require.Equal(t, t0.Add(time.Hour+61*time.Second), w.decide().RecheckAt.UTC())

	require.Equal(t, active, w.pass(60*time.Second, true).To)
	require.Equal(t, inactive, w.pass(500*time.Millisecond, true).To)
	require.Empty(t, w.permits().HealthySince, "the times are no longer needed")
	require.Equal(t, inactive, w.pass(time.Second, false).To, "once released it stays released")
}

func TestAStableCheckStartsAgainAfterAFailure(t *testing.T) {
	w := newStableWorld(t)
	w.requestCluster()
	w.pass(0, true)
	require.Equal(t, "database: 1 of 3 replicas", w.pass(59*time.Second, false).Message)
	require.Equal(t, active, w.pass(time.Second, true).To)
	require.Equal(t, active, w.pass(59*time.Second, true).To)
	require.Equal(t, inactive, w.pass(2*time.Second, true).To)
}

func TestHealthDuringAnEarlierRequestDoesNotCount(t *testing.T) {
	w := newStableWorld(t)
	w.requestCluster()
	w.pass(0, true)
	w.withdrawCluster()
	w.pass(30*time.Second, true)
	w.requestCluster()
	require.Equal(t, active, w.pass(31*time.Second, true).To)
}

func TestARestartedControllerKeepsTheTimeOfAStableCheck(t *testing.T) {
	w := newStableWorld(t)
	w.requestCluster()
	w.pass(0, true)
	w.now = w.now.Add(time.Hour)
	decision := w.decide()
	require.Equal(t, inactive, ofCluster(decision).To)
	w.record(decision.Permits)
	require.Equal(t, inactive, ofCluster(w.settle()).To)
}

func (w *world) permits() locks.Permits {
	permits, err := locks.ReadPermits(w.clusterLock())
	require.NoError(w.t, err)
	return permits
}

func TestWithoutStableSecondsNoTimeIsRecorded(t *testing.T) {
	w := newStableWorld(t)
	w.policy.ClusterHealth = w.policy.ClusterHealth[1:]
	w.requestCluster()
	require.Equal(t, inactive, w.pass(0, true).To)
	require.Equal(t, map[string]metav1.Time(nil), w.permits().HealthySince)
}

// countingObjects are objects that count how often they are read.
type countingObjects struct {
	health.Objects
	reads int
}

func (n *countingObjects) Fetch(string, *drydockv1.HealthCheckSecret) (health.Answer, error) {
	n.reads++
	return health.Answer{Status: 503}, nil
}

func TestHealthIsEvaluatedOnlyWhenItMatters(t *testing.T) {
	w := newWorld(t, "n1")
	w.policy.ClusterHealth = []drydockv1.HealthCheck{{Name: "shop", HTTP: &drydockv1.HTTPCheck{URL: "http://shop.example.com/ready"}}}
	objects := &countingObjects{}
	examine := func() int {
		objects.reads = 0
		require.NoError(t, w.snapshot.Examine(t.Context(), w.policy, objects))
		return objects.reads
	}
	require.Zero(t, examine(), "not requested")
	w.requestCluster()
	require.Equal(t, 1, examine())
	require.Equal(t, "shop: http://shop.example.com/ready answers 503, not 200", ofCluster(w.settle()).Message)

	w.snapshot.Health[0].Healthy = true
	w.settle()
	require.Equal(t, inactive, w.clusterLock().Status.State)
	require.Zero(t, examine(), "it is released regardless of health")
	w.settle()
	require.Equal(t, inactive, w.clusterLock().Status.State)

	w.withdrawCluster()
	w.requestCluster()
	require.Equal(t, 1, examine(), "the request is a new one")
}

func TestChecksWithoutEventsAreEvaluatedPeriodically(t *testing.T) {
	w := newStableWorld(t)
	w.policy.ClusterHealth[0].HTTP = &drydockv1.HTTPCheck{URL: "http://shop.example.com/ready"}
	w.requestCluster()
	w.pass(time.Second, false)
	require.Equal(t, t0.Add(5*time.Second), w.decide().RecheckAt.UTC())
	w.now = w.now.Add(3 * time.Second)
	require.Equal(t, t0.Add(5*time.Second), w.decide().RecheckAt.UTC(), "every pass computes the same time, or each would schedule another")
	w.pass(time.Second, true)
	require.Equal(t, t0.Add(10*time.Second), w.decide().RecheckAt.UTC(), "it must stay healthy")
}
