package rollout_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/drydock/activities/health"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/rollout"
	"drydock.dev/drydock/workflows/workflowtest"
)

// withHealthChecks adds a check of the registry with a timeout of a minute.
func withHealthChecks(object ranv1.ClusterGroupUpgrade) ranv1.ClusterGroupUpgrade {
	object.Spec.HealthChecks = []drydockv1.HealthCheck{{
		Name: "registry", TimeoutSeconds: new(int32(60)), HarborCluster: &drydockv1.HarborClusterCheck{Namespace: "registry", Name: "main"},
	}}
	return object
}

func unhealthyRegistry(cluster string) error {
	return temporal.Error(temporal.ErrHealthGateFailed, "health gate of cluster "+cluster+" failed: registry: HarborCluster registry/main is unhealthy", nil,
		drydockv1.Blocker{Kind: "HarborCluster", Namespace: "registry", Name: "main"})
}

// checkedClusters returns the clusters whose health was checked, in order.
func checkedClusters(w *workflowtest.World) []string {
	var clusters []string
	for _, in := range w.InputsOf("AwaitClusterHealthy") {
		clusters = append(clusters, in.(health.AwaitClusterHealthyInput).Cluster)
	}
	return clusters
}

func TestClustersAreCheckedBeforeTheRolloutAndAfterTheirWork(t *testing.T) {
	for _, remediation := range workflowtest.AllRemediations() {
		t.Run(remediation.Name, func(t *testing.T) {
			w := remediation.World(t, nil, []string{"c1"}, []string{"c2", "c3"})
			w.ExecuteWorkflow(rollout.ClusterGroupUpgrade, rollout.Input{Object: withHealthChecks(remediation.Object())})
			status := workflowtest.RequireResult[workflowtest.GroupStatus](w.World)
			for _, cluster := range status.Clusters {
				require.Equal(t, ranv1.ClusterComplete, cluster.State)
			}
			checks := checkedClusters(w.World)
			require.Len(t, checks, 6)
			require.ElementsMatch(t, []string{"c1", "c2", "c3"}, checks[:3], "before the first batch")
			require.Equal(t, "c1", checks[3])
			require.ElementsMatch(t, []string{"c2", "c3"}, checks[4:])
			first := w.InputsOf("AwaitClusterHealthy")[0].(health.AwaitClusterHealthyInput)
			last := w.InputsOf("AwaitClusterHealthy")[5].(health.AwaitClusterHealthyInput)
			require.Equal(t, withHealthChecks(remediation.Object()).Spec.HealthChecks, first.Checks)
			require.True(t, last.Since.After(first.Since), "observations from before the work do not count")
		})
	}
}

func TestAnUnhealthyClusterFailsTheRolloutBeforeItStarts(t *testing.T) {
	w, c := workflowtest.NewGroupWorld(t, []string{"c1"}, []string{"c2"})
	w.Fail["AwaitClusterHealthy"] = func(call int) error {
		if in := w.InputsOf("AwaitClusterHealthy")[call-1].(health.AwaitClusterHealthyInput); in.Cluster == "c2" {
			return unhealthyRegistry("c2")
		}
		return nil
	}
	w.ExecuteWorkflow(rollout.ClusterGroupUpgrade, rollout.Input{Object: withHealthChecks(workflowtest.ARollout())})
	status := workflowtest.RequireFailure[workflowtest.GroupStatus](w, temporal.ErrHealthGateFailed)
	require.Empty(t, c.Events)
	require.Contains(t, w.GetWorkflowError().Error(), "before the first batch: health gate of cluster c2 failed: registry: HarborCluster registry/main is unhealthy")
	require.NotContains(t, w.GetWorkflowError().Error(), "c1 failed")
	require.Equal(t, ranv1.ClusterPending, status.Clusters[0].State)
}

func TestAClusterThatIsUnhealthyAfterTheWorkHasFailed(t *testing.T) {
	w, _ := workflowtest.NewGroupWorld(t, []string{"c1"}, []string{"c2"})
	w.Fail["AwaitClusterHealthy"] = func(call int) error {
		if call > 2 && slices.Contains(checkedClusters(w)[2:call], "c1") && checkedClusters(w)[call-1] == "c1" {
			return unhealthyRegistry("c1")
		}
		return nil
	}
	w.ExecuteWorkflow(rollout.ClusterGroupUpgrade, rollout.Input{Object: withHealthChecks(workflowtest.ARollout())})
	status := workflowtest.RequireFailure[workflowtest.GroupStatus](w, ranv1.ReasonFailed)
	states := workflowtest.ClusterStates(status)
	require.Equal(t, ranv1.ClusterFailed, states["c1"])
	require.Equal(t, ranv1.ClusterComplete, states["c2"])
	require.Equal(t, temporal.ErrHealthGateFailed, status.Clusters[0].Reason)
	require.Contains(t, status.Clusters[0].Message, "registry: HarborCluster registry/main is unhealthy")
}

func TestAHealthGateShowsItsWaitAndStopsOnCancel(t *testing.T) {
	w, _ := workflowtest.NewGroupWorld(t, []string{"c1"})
	w.Blocked["AwaitClusterHealthy"] = true
	wait := &drydockv1.Wait{Reason: "HarborUnhealthy", Message: "registry: condition CacheReady is False", Since: metav1.NewTime(w.Now())}
	w.RegisterDelayedCallback(func() {
		w.SignalWorkflow(temporal.SignalObserved, temporal.Observation{Activity: "AwaitClusterHealthy", Cluster: "c1", Wait: wait})
	}, 10*time.Second)
	w.RegisterDelayedCallback(func() {
		status := workflowtest.StatusOf[workflowtest.GroupStatus](w)
		require.NotNil(t, status.Wait)
		require.Equal(t, "cluster c1: registry: condition CacheReady is False", status.Wait.Message)
		w.SignalWorkflow(temporal.SignalCancel, nil)
	}, 20*time.Second)
	w.ExecuteWorkflow(rollout.ClusterGroupUpgrade, rollout.Input{Object: withHealthChecks(workflowtest.ARollout())})
	workflowtest.RequireCancelled[workflowtest.GroupStatus](w)

	w, _ = workflowtest.NewGroupWorld(t, []string{"c1"}, []string{"c2"})
	w.Fail["AwaitClusterHealthy"] = func(call int) error {
		w.Mu.Lock()
		defer w.Mu.Unlock()
		w.Blocked["AwaitClusterHealthy"] = call >= 2
		return nil
	}
	w.RegisterDelayedCallback(func() {
		w.SignalWorkflow(temporal.SignalObserved, temporal.Observation{Activity: "AwaitClusterHealthy", Cluster: "c1", Wait: wait})
	}, 10*time.Second)
	w.RegisterDelayedCallback(func() {
		c1 := workflowtest.StatusOf[workflowtest.GroupStatus](w).Clusters[0]
		require.Equal(t, ranv1.ClusterRunning, c1.State)
		require.Equal(t, "HealthChecks: HarborUnhealthy: registry: condition CacheReady is False", c1.Step+": "+c1.Reason+": "+c1.Message)
		w.SignalWorkflow(temporal.SignalCancel, nil)
	}, 20*time.Second)
	w.ExecuteWorkflow(rollout.ClusterGroupUpgrade, rollout.Input{Object: withHealthChecks(workflowtest.ARollout())})
	status := workflowtest.RequireCancelled[workflowtest.GroupStatus](w)
	require.Equal(t, ranv1.ClusterCancelled, workflowtest.ClusterStates(status)["c1"], "its health is unknown")
}

func TestTheHealthGateContinuesAsNew(t *testing.T) {
	var batch []string
	for i := range 60 {
		batch = append(batch, fmt.Sprintf("c%d", i))
	}
	w, c := workflowtest.NewGroupWorld(t, batch)
	w.Fail["AwaitClusterHealthy"] = func(call int) error {
		if call == rollout.MaxHealthChecks {
			w.SetContinueAsNewSuggested(true)
		}
		return nil
	}
	w.ExecuteWorkflow(rollout.ClusterGroupUpgrade, rollout.Input{Object: withHealthChecks(workflowtest.ARollout())})
	next := workflowtest.NextRunInput[rollout.Input](w)
	require.NotNil(t, next)
	require.Equal(t, rollout.MaxHealthChecks, next.PreviousRun.HealthyClusters)
	require.Empty(t, c.Events)

	second, _ := workflowtest.NewGroupWorld(t, batch)
	second.ExecuteWorkflow(rollout.ClusterGroupUpgrade, *next)
	workflowtest.RequireResult[workflowtest.GroupStatus](second)
	require.Len(t, checkedClusters(second), 10+60)
}

func TestHealthChecksAfterTheWorkAreLimitedInNumber(t *testing.T) {
	var batch []string
	for i := range rollout.MaxHealthChecks + 10 {
		batch = append(batch, fmt.Sprintf("c%d", i))
	}
	w, _ := workflowtest.NewGroupWorld(t, batch)
	w.Fail["AwaitClusterHealthy"] = func(call int) error {
		if call > len(batch) {
			return temporal.Error(temporal.ErrClusterUnreachable, "no answer", nil)
		}
		return nil
	}
	w.ExecuteWorkflow(rollout.ClusterGroupUpgrade, rollout.Input{Object: withHealthChecks(workflowtest.ARollout())})
	workflowtest.RequireFailure[workflowtest.GroupStatus](w, ranv1.ReasonFailed)
	since := map[string]time.Time{}
	first, later := time.Time{}, 0
	for _, check := range w.InputsOf("AwaitClusterHealthy")[len(batch):] {
		in := check.(health.AwaitClusterHealthyInput)
		if first.IsZero() {
			first = in.Since
		}
		if _, seen := since[in.Cluster]; !seen && in.Since.Sub(first) > time.Minute {
			later++
		}
		since[in.Cluster] = in.Since
	}
	require.Len(t, since, len(batch))
	require.Equal(t, 10, later, "each check has its full timeout from its start")
}
