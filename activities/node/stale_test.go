package node_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drydock.dev/drydock/activities/activitytest"
	nodeactivities "drydock.dev/drydock/activities/node"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/scheduling"
)

func TestAMaintenanceIsStaleByDeadlineOrClusterSetting(t *testing.T) {
	cluster := activitytest.BareCluster(t)
	in := nodeactivities.AwaitStaleInput{Cluster: activitytest.HubName, ReadySince: time.Now()}
	await := func() chan nodeactivities.Readiness {
		found := make(chan nodeactivities.Readiness, 1)
		known := in
		go func() {
			readiness, err := (&nodeactivities.Activities{Clusters: activitytest.Clusters}).AwaitStale(t.Context(), known)
			if err == nil {
				found <- readiness
			}
		}()
		return found
	}
	limited := await()
	require.Never(t, func() bool { return len(limited) > 0 }, 300*time.Millisecond, 20*time.Millisecond, "no limit without budgets")
	config := activitytest.Budgets(t, cluster, maintenancev1.MaintenanceOperatorConfigSpec{MaxNodeMaintenanceTimeSeconds: 2})
	in.Known = <-limited
	require.Equal(t, scheduling.Staleness{Stale: true, LimitSeconds: 2}, in.Known.Staleness)
	require.GreaterOrEqual(t, time.Since(in.ReadySince), 2*time.Second, "not before the limit")

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
	require.False(t, in.Known.Stale, "the longer limit applies")

	again := await()
	change(maintenancev1.MaintenanceOperatorConfigSpec{MaxNodeMaintenanceTimeSeconds: 1})
	in.Known = <-again
	require.True(t, in.Known.Stale)
	unlimited := await()
	require.NoError(t, cluster.Client.Delete(t.Context(), config))
	in.Known = <-unlimited
	require.False(t, in.Known.Stale, "without a configuration there is no limit")

	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "handed-over"}, Spec: corev1.NodeSpec{Unschedulable: true}}
	require.NoError(t, cluster.Client.Create(t.Context(), node))
	t.Cleanup(func() { require.NoError(t, cluster.Client.Delete(context.Background(), node)) })
	in.CordonedNode = node.Name
	for _, cordoned := range []bool{false, true} {
		found := await()
		patch := client.MergeFrom(node.DeepCopy())
		node.Spec.Unschedulable = cordoned
		require.NoError(t, cluster.Client.Patch(t.Context(), node, patch))
		in.Known = <-found
		require.Equal(t, nodeactivities.Readiness{Uncordoned: !cordoned}, in.Known)
	}
}
