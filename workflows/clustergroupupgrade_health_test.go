package workflows

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/drydock/activities"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/temporal"
)

// withHealthChecks lets a rollout go on only where the registry is well, for which it waits for a minute.
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

// looksAt are the clusters whose health was looked at, in order.
func looksAt(w *world) []string {
	var clusters []string
	for _, in := range w.inputsOf("AwaitClusterHealthy") {
		clusters = append(clusters, in.(activities.AwaitClusterHealthyInput).Cluster)
	}
	return clusters
}

func TestARolloutBeginsOnlyWhenEveryClusterIsHealthyAndEachMustBeAgainWhenItIsDone(t *testing.T) {
	for _, remediation := range everyRemediation() {
		t.Run(remediation.name, func(t *testing.T) {
			w := remediation.world(t, nil, []string{"c1"}, []string{"c2", "c3"})
			w.ExecuteWorkflow(ClusterGroupUpgrade, ClusterGroupUpgradeInput{Object: withHealthChecks(remediation.object())})
			status := requireResult[groupStatus](w.world)
			for _, cluster := range status.Clusters {
				require.Equal(t, ranv1.ClusterComplete, cluster.State)
			}
			looks := looksAt(w.world)
			require.Len(t, looks, 6)
			require.ElementsMatch(t, []string{"c1", "c2", "c3"}, looks[:3], "before the first batch")
			require.Equal(t, "c1", looks[3])
			require.ElementsMatch(t, []string{"c2", "c3"}, looks[4:])
			first := w.inputsOf("AwaitClusterHealthy")[0].(activities.AwaitClusterHealthyInput)
			last := w.inputsOf("AwaitClusterHealthy")[5].(activities.AwaitClusterHealthyInput)
			require.Equal(t, withHealthChecks(remediation.object()).Spec.HealthChecks, first.Checks)
			require.True(t, last.Since.After(first.Since), "what was seen before the work was done does not count")
		})
	}
}

func TestWhereAClusterIsUnhealthyNothingIsBegun(t *testing.T) {
	w, c := newGroupWorld(t, []string{"c1"}, []string{"c2"})
	w.fail["AwaitClusterHealthy"] = func(call int) error {
		if in := w.inputsOf("AwaitClusterHealthy")[call-1].(activities.AwaitClusterHealthyInput); in.Cluster == "c2" {
			return unhealthyRegistry("c2")
		}
		return nil
	}
	w.ExecuteWorkflow(ClusterGroupUpgrade, ClusterGroupUpgradeInput{Object: withHealthChecks(aRollout())})
	status := requireFailure[groupStatus](w, temporal.ErrHealthGateFailed)
	require.Empty(t, c.events)
	require.Contains(t, w.GetWorkflowError().Error(), "before the first batch: health gate of cluster c2 failed: registry: HarborCluster registry/main is unhealthy")
	require.NotContains(t, w.GetWorkflowError().Error(), "c1 failed")
	require.Equal(t, ranv1.ClusterPending, status.Clusters[0].State)
}

func TestAClusterThatIsUnhealthyAfterTheWorkHasFailed(t *testing.T) {
	w, _ := newGroupWorld(t, []string{"c1"}, []string{"c2"})
	w.fail["AwaitClusterHealthy"] = func(call int) error {
		if call > 2 && slices.Contains(looksAt(w)[2:call], "c1") && looksAt(w)[call-1] == "c1" {
			return unhealthyRegistry("c1")
		}
		return nil
	}
	w.ExecuteWorkflow(ClusterGroupUpgrade, ClusterGroupUpgradeInput{Object: withHealthChecks(aRollout())})
	status := requireFailure[groupStatus](w, ranv1.ReasonFailed)
	states := clusterStates(status)
	require.Equal(t, ranv1.ClusterFailed, states["c1"])
	require.Equal(t, ranv1.ClusterComplete, states["c2"])
	require.Equal(t, temporal.ErrHealthGateFailed, status.Clusters[0].Reason)
	require.Contains(t, status.Clusters[0].Message, "registry: HarborCluster registry/main is unhealthy")
}

func TestAHealthGateSaysWhatItWaitsForAndIsWithdrawnWithItsRollout(t *testing.T) {
	w, _ := newGroupWorld(t, []string{"c1"})
	w.blocked["AwaitClusterHealthy"] = true
	wait := &drydockv1.Wait{Reason: "HarborUnhealthy", Message: "registry: condition CacheReady is False", Since: metav1.NewTime(w.Now())}
	w.RegisterDelayedCallback(func() {
		w.SignalWorkflow(temporal.SignalObserved, temporal.Observation{Activity: "AwaitClusterHealthy", Cluster: "c1", Wait: wait})
	}, 10*time.Second)
	w.RegisterDelayedCallback(func() {
		status := statusOf[groupStatus](w)
		require.NotNil(t, status.Wait)
		require.Equal(t, "cluster c1: registry: condition CacheReady is False", status.Wait.Message)
		w.SignalWorkflow(temporal.SignalCancel, nil)
	}, 20*time.Second)
	w.ExecuteWorkflow(ClusterGroupUpgrade, ClusterGroupUpgradeInput{Object: withHealthChecks(aRollout())})
	requireCancelled[groupStatus](w)

	w, _ = newGroupWorld(t, []string{"c1"}, []string{"c2"})
	w.fail["AwaitClusterHealthy"] = func(call int) error {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.blocked["AwaitClusterHealthy"] = call >= 2
		return nil
	}
	w.RegisterDelayedCallback(func() {
		w.SignalWorkflow(temporal.SignalObserved, temporal.Observation{Activity: "AwaitClusterHealthy", Cluster: "c1", Wait: wait})
	}, 10*time.Second)
	w.RegisterDelayedCallback(func() {
		c1 := statusOf[groupStatus](w).Clusters[0]
		require.Equal(t, ranv1.ClusterRunning, c1.State)
		require.Equal(t, "HealthChecks: HarborUnhealthy: registry: condition CacheReady is False", c1.Step+": "+c1.Reason+": "+c1.Message)
		w.SignalWorkflow(temporal.SignalCancel, nil)
	}, 20*time.Second)
	w.ExecuteWorkflow(ClusterGroupUpgrade, ClusterGroupUpgradeInput{Object: withHealthChecks(aRollout())})
	status := requireCancelled[groupStatus](w)
	require.Equal(t, ranv1.ClusterCancelled, clusterStates(status)["c1"], "nobody knows whether it is well")
}

func TestTheHealthOfManyClustersIsAwaitedInManyRuns(t *testing.T) {
	var batch []string
	for i := range 60 {
		batch = append(batch, fmt.Sprintf("c%d", i))
	}
	w, c := newGroupWorld(t, batch)
	w.fail["AwaitClusterHealthy"] = func(call int) error {
		if call == gatesAtOnce {
			w.SetContinueAsNewSuggested(true)
		}
		return nil
	}
	w.ExecuteWorkflow(ClusterGroupUpgrade, ClusterGroupUpgradeInput{Object: withHealthChecks(aRollout())})
	next := handedOn[ClusterGroupUpgradeInput](w)
	require.NotNil(t, next)
	require.Equal(t, gatesAtOnce, next.Carried.Gated)
	require.Empty(t, c.events)

	second, _ := newGroupWorld(t, batch)
	second.ExecuteWorkflow(ClusterGroupUpgrade, *next)
	requireResult[groupStatus](second)
	require.Len(t, looksAt(second), 10+60)
}

func TestClustersThatAreDoneTogetherAreLookedAtSomeAtATimeAndEachHasItsTime(t *testing.T) {
	var batch []string
	for i := range gatesAtOnce + 10 {
		batch = append(batch, fmt.Sprintf("c%d", i))
	}
	w, _ := newGroupWorld(t, batch)
	w.fail["AwaitClusterHealthy"] = func(call int) error {
		if call > len(batch) {
			return temporal.Error(temporal.ErrClusterUnreachable, "no answer", nil)
		}
		return nil
	}
	w.ExecuteWorkflow(ClusterGroupUpgrade, ClusterGroupUpgradeInput{Object: withHealthChecks(aRollout())})
	requireFailure[groupStatus](w, ranv1.ReasonFailed)
	since := map[string]time.Time{}
	first, later := time.Time{}, 0
	for _, look := range w.inputsOf("AwaitClusterHealthy")[len(batch):] {
		in := look.(activities.AwaitClusterHealthyInput)
		if first.IsZero() {
			first = in.Since
		}
		if _, seen := since[in.Cluster]; !seen && in.Since.Sub(first) > time.Minute {
			later++
		}
		since[in.Cluster] = in.Since
	}
	require.Len(t, since, len(batch))
	require.Equal(t, 10, later, "they were let in when others were done, and have their time from then on")
}
