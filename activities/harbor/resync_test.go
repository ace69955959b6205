package harbor

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drydock.dev/drydock/activities/activitytest"
	goharborv1 "drydock.dev/drydock/internal/apis/goharbor/v1beta1"
	"drydock.dev/drydock/internal/devstack/operators"
	"drydock.dev/drydock/internal/harbor"
)

// harborResync loses the events of watches: the cache is stale, and only the API server has the current state.
func harborResync(t *testing.T, simulated *operators.Operators) {
	r := newRegistry(t, simulated, "incluster.yaml")
	require.Equal(t, time.Minute, r.harbor().resyncEvery())
	through := activitytest.NewFaultyClusters(t)
	r.clusters = through.Clusters
	r.untilIs(goharborv1.StatusHealthy)
	cluster, err := through.Clusters.Cluster(t.Context(), activitytest.HubName)
	require.NoError(t, err)
	await := func() harbor.Plan {
		due, err := (&Activities{Clusters: r.clusters, Resync: 200 * time.Millisecond}).AwaitHarborDue(t.Context(), AwaitDueInput{Ref: r.ref, Known: r.known})
		require.NoError(t, err)
		return due
	}

	through.LoseWatch(t, cluster, r.ref.Namespace, "harborclusters")
	r.patch(r.harborCluster(), `{"spec":{"version":"2.6.0"}}`)
	changed := await()
	require.Equal(t, int64(2), changed.Generation)
	require.Equal(t, harbor.PartHarbor, changed.Parts[0].Part)
	cached, err := readHarborCluster(t.Context(), cluster.Cache, r.ref)
	require.NoError(t, err)
	require.Equal(t, int64(1), cached.Generation, "the watch has missed it")

	r.known.Status = changed.Status
	through.LoseWatch(t, cluster, r.ref.Namespace, "postgresqls")
	simulated.Simulate(operators.Postgresql, r.ref.Namespace, r.postgres(), operators.Behaviour{Absent: true})
	r.reports(harbor.Postgresql, r.postgres(), `{"PostgresClusterStatus":"SyncFailed"}`)
	for failed := changed; harbor.ConditionOf(failed.Status, goharborv1.DatabaseReady).Reason != "SyncFailed"; r.known.Status = failed.Status {
		failed = await()
	}
}

// harborIgnoresOldHealth changes Harbor without an event of the watch: the cached health is older than the change.
func harborIgnoresOldHealth(t *testing.T, simulated *operators.Operators) {
	r := newRegistry(t, simulated, "incluster.yaml")
	through := activitytest.NewFaultyClusters(t)
	r.clusters = through.Clusters
	r.untilIs(goharborv1.StatusHealthy)
	cluster, err := through.Clusters.Cluster(t.Context(), activitytest.HubName)
	require.NoError(t, err)
	simulated.Simulate(operators.Harbor, r.ref.Namespace, "main-harbor", operators.Behaviour{Absent: true})
	through.LoseWatch(t, cluster, r.ref.Namespace, "harbors")
	r.patch(r.harborCluster(), `{"spec":{"version":"2.6.0"}}`)
	r.until(func(s goharborv1.HarborClusterStatus) bool {
		return s.ObservedGeneration == 2 && harbor.ConditionOf(s, goharborv1.ConfigurationReady).Status == yes
	})
	require.Equal(t, int64(2), r.object(harbor.Harbor, "main-harbor").GetGeneration())
	require.Equal(t, harbor.ReasonGenerationNotObserved, harbor.ConditionOf(r.known.Status, goharborv1.ServiceReady).Reason)
	require.Equal(t, goharborv1.StatusCreating, r.known.Status.Status)
	cached := r.object(harbor.Harbor, "main-harbor")
	require.NoError(t, cluster.Cache.Get(t.Context(), client.ObjectKeyFromObject(cached), cached))
	require.Equal(t, int64(1), cached.GetGeneration(), "the watch has missed it")
}
