package activities

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/client"

	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/scheduling"
)

func TestAMaintenanceIsStaleWhenItsTimeIsOverOrItsClusterSaysSo(t *testing.T) {
	cluster := bareCluster(t)
	in := AwaitStaleInput{Cluster: hubName, ReadySince: time.Now()}
	await := func() chan scheduling.Staleness {
		found := make(chan scheduling.Staleness, 1)
		known := in
		go func() {
			staleness, err := (&Clusters{Clusters: clusters}).AwaitStale(t.Context(), known)
			if err == nil {
				found <- staleness
			}
		}()
		return found
	}
	limited := await()
	require.Never(t, func() bool { return len(limited) > 0 }, 300*time.Millisecond, 20*time.Millisecond, "no budgets, no limit")
	config := budgets(t, cluster, maintenancev1.MaintenanceOperatorConfigSpec{MaxNodeMaintenanceTimeSeconds: 2})
	in.Known = <-limited
	require.Equal(t, scheduling.Staleness{Stale: true, LimitSeconds: 2}, in.Known)
	require.GreaterOrEqual(t, time.Since(in.ReadySince), 2*time.Second, "not before its time is over")

	change := func(spec maintenancev1.MaintenanceOperatorConfigSpec) {
		patch := client.MergeFrom(config.DeepCopy())
		config.Spec = spec
		require.NoError(t, cluster.Client.Patch(t.Context(), config, patch))
	}
	collected := await()
	change(maintenancev1.MaintenanceOperatorConfigSpec{MaxNodeMaintenanceTimeSeconds: 1, GarbageCollect: true})
	in.Known = <-collected
	require.True(t, in.Known.Collect)

	longer := await()
	change(maintenancev1.MaintenanceOperatorConfigSpec{MaxNodeMaintenanceTimeSeconds: 3600})
	in.Known = <-longer
	require.False(t, in.Known.Stale, "it has time again")

	again := await()
	change(maintenancev1.MaintenanceOperatorConfigSpec{MaxNodeMaintenanceTimeSeconds: 1})
	in.Known = <-again
	require.True(t, in.Known.Stale)
	unlimited := await()
	require.NoError(t, cluster.Client.Delete(t.Context(), config))
	require.False(t, (<-unlimited).Stale, "without a configuration there is no limit")
}
