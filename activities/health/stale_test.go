package health

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drydock.dev/drydock/activities/activitytest"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	"drydock.dev/drydock/internal/temporal"
)

func TestAGateDoesNotOpenOnStaleCacheData(t *testing.T) {
	workload := checkedWorkload(t)
	workload.says(true)
	namespace := workload.check.Workload.Namespace
	f := activitytest.NewFaultyClusters(t)
	seen, err := f.Clusters.Cluster(t.Context(), activitytest.HubName)
	require.NoError(t, err)
	cached := func() int32 {
		t.Helper()
		var found appsv1.DeploymentList
		require.NoError(t, seen.Cache.List(t.Context(), &found, client.InNamespace(namespace)))
		require.Len(t, found.Items, 1)
		return found.Items[0].Status.AvailableReplicas
	}
	require.EqualValues(t, 2, cached())
	f.LoseWatch(t, seen, namespace, "deployments")
	workload.says(false)
	workload.check.Name, workload.check.TimeoutSeconds = "shop", new(int32(1))
	err = (&Activities{Clusters: f.Clusters}).AwaitClusterHealthy(t.Context(), AwaitClusterHealthyInput{
		Cluster: activitytest.HubName, Since: time.Now(), Checks: []drydockv1.HealthCheck{workload.check},
	})
	require.Equal(t, temporal.ErrHealthGateFailed, temporal.ErrorType(err), "%v", err)
	require.ErrorContains(t, err, "1 of 2")
	require.EqualValues(t, 2, cached())
}
