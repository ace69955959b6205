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

// look is one pass of the controller, with the time since the pass before.
func (w *world) look(after time.Duration, databaseHealthy bool) locks.LockDecision {
	w.now = w.now.Add(after)
	w.snapshot.Health = []locks.CheckResult{{Check: "database", Healthy: databaseHealthy, Message: "1 of 3 replicas"}, {Check: "control", Healthy: true}}
	return ofCluster(w.settle())
}

func TestAStableCheckReleasesAfterItHeldLongEnough(t *testing.T) {
	w := newStableWorld(t)
	w.look(time.Hour, true)
	require.Empty(t, w.permits().HealthySince, "without a request it does not matter")

	w.requestCluster()
	held := w.look(500*time.Millisecond, true)
	require.Equal(t, active, held.To)
	require.Equal(t, locks.ClusterNotHealthy, held.Reason)
	require.Equal(t, "database: healthy since 2026-11-20T11:00:01Z, must stay so for 1m0s", held.Message)
	require.Equal(t, t0.Add(time.Hour+61*time.Second), w.decide().NextLook.UTC())

	require.Equal(t, active, w.look(60*time.Second, true).To)
	require.Equal(t, inactive, w.look(500*time.Millisecond, true).To)
	require.Empty(t, w.permits().HealthySince, "it has done its duty")
	require.Equal(t, inactive, w.look(time.Second, false).To, "once released it stays released")
}

func TestAStableCheckStartsAgainAfterAFailure(t *testing.T) {
	w := newStableWorld(t)
	w.requestCluster()
	w.look(0, true)
	require.Equal(t, "database: 1 of 3 replicas", w.look(59*time.Second, false).Message)
	require.Equal(t, active, w.look(time.Second, true).To)
	require.Equal(t, active, w.look(59*time.Second, true).To)
	require.Equal(t, inactive, w.look(2*time.Second, true).To)
}

func TestHealthSeenForAnEarlierRequestDoesNotCount(t *testing.T) {
	w := newStableWorld(t)
	w.requestCluster()
	w.look(0, true)
	w.withdrawCluster()
	w.look(30*time.Second, true)
	w.requestCluster()
	require.Equal(t, active, w.look(31*time.Second, true).To)
}

func TestARestartedControllerKeepsTheTimeOfAStableCheck(t *testing.T) {
	w := newStableWorld(t)
	w.requestCluster()
	w.look(0, true)
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
	require.Equal(t, inactive, w.look(0, true).To)
	require.Equal(t, map[string]metav1.Time(nil), w.permits().HealthySince)
}

// noted are objects that count how often they are read.
type noted struct {
	health.Objects
	asked int
}

func (n *noted) Fetch(string) (health.Answer, error) {
	n.asked++
	return health.Answer{Status: 503}, nil
}

func TestHealthIsEvaluatedOnlyWhenItMatters(t *testing.T) {
	w := newWorld(t, "n1")
	w.policy.ClusterHealth = []drydockv1.HealthCheck{{Name: "shop", HTTP: &drydockv1.HTTPCheck{URL: "http://shop.example.com/ready"}}}
	objects := &noted{}
	examine := func() int {
		objects.asked = 0
		require.NoError(t, w.snapshot.Examine(w.policy, objects))
		return objects.asked
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
	require.Equal(t, 1, examine(), "that is a new request")
}

func TestChecksWithoutEventsAreEvaluatedPeriodically(t *testing.T) {
	w := newStableWorld(t)
	w.policy.ClusterHealth[0].HTTP = &drydockv1.HTTPCheck{URL: "http://shop.example.com/ready"}
	w.requestCluster()
	w.look(time.Second, false)
	require.Equal(t, t0.Add(5*time.Second), w.decide().NextLook.UTC())
	w.now = w.now.Add(3 * time.Second)
	require.Equal(t, t0.Add(5*time.Second), w.decide().NextLook.UTC(), "the same time for every pass, or each pass would schedule another")
	w.look(time.Second, true)
	require.Equal(t, t0.Add(10*time.Second), w.decide().NextLook.UTC(), "it must stay healthy")
}
