package e2e

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drydock.dev/drydock/activities/activitykit"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/devstack/propagator"
)

// setAvailable sets the condition of a ManagedCluster that says whether the hub reaches its agent.
func setAvailable(t *testing.T, cluster, available string) {
	t.Helper()
	status := fmt.Sprintf(`{"status":{"conditions":[{"type":"ManagedClusterConditionAvailable","status":%q,"reason":"Test","message":"","lastTransitionTime":"2026-01-10T12:00:00Z"}]}}`, available)
	require.NoError(t, hubClient(t).Status().Patch(t.Context(), activitykit.ManagedCluster(cluster), client.RawPatch(types.MergePatchType, []byte(status))))
}

// The first of two clusters is offline when its batch comes, and comes back after the other is complete.
func TestAnOfflineClusterIsRemediatedWhenItIsBack(t *testing.T) {
	reserve(t, policyHub, edges)
	clusters := []string{"edge-1", "edge-2"}
	for _, edge := range clusters {
		register(t, edge, nil)
		setAvailable(t, edge, "True")
	}
	hub, err := propagator.Start(t.Context(), theFleet.Hub.Config, propagator.Options{Takes: func(string, string) time.Duration { return 200 * time.Millisecond }})
	require.NoError(t, err)
	t.Cleanup(hub.Stop)
	createOnHub(t, informPolicy("dns", "", clusters...))
	awaitNonCompliant(t, len(clusters), "dns")
	const manifest = `
apiVersion: ran.openshift.io/v1alpha1
kind: ClusterGroupUpgrade
metadata: {namespace: default, name: offline}
spec:
  enable: false
  clusters: [edge-1, edge-2]
  managedPolicies: [dns]
  remediationStrategy: {maxConcurrency: 1, timeout: 60, maxFailures: 1}
  actions: {afterCompletion: {addClusterLabels: {dns: set}}}
`
	r := applyRollout(t, manifest)
	r.awaitCondition("Progressing", "False NotEnabled")
	setAvailable(t, "edge-1", "Unknown")
	planned := awaitStatus(t, "offline", func(s ranv1.ClusterGroupUpgradeStatus) bool {
		return clusterOf(s, "edge-1").Reason == ranv1.ReasonClusterOffline
	})
	require.Equal(t, [][]string{{"edge-1"}, {"edge-2"}}, planned.RemediationPlan, "the rollout is planned again, and may find it back")
	require.Contains(t, succeeds(t, "upgrade", "plan", "-f", rolloutFile(t, manifest)), "offline now")

	succeeds(t, "upgrade", "enable", "offline")
	waiting := awaitStatus(t, "offline", func(s ranv1.ClusterGroupUpgradeStatus) bool {
		return clusterOf(s, "edge-2").State == ranv1.ClusterComplete && s.Wait != nil && s.Wait.Reason == ranv1.ReasonClustersOffline
	})
	require.Equal(t, [][]string{{"edge-2"}, {"edge-1"}}, waiting.RemediationPlan)
	require.Equal(t, ranv1.ClusterOffline, clusterOf(waiting, "edge-1").State)
	require.Empty(t, hub.Enforced()["edge-1"])
	shown := succeeds(t, "upgrade", "status", "offline")
	require.Contains(t, shown, "1 of 2 clusters complete, 1 offline")
	require.Contains(t, shown, "end unknown: edge-1 is offline; the rollout times out at ")

	setAvailable(t, "edge-1", "True")
	status, code := awaitEnd(t, "offline")
	require.Zero(t, code, "%v", status.Conditions)
	requireSucceeded(t, status)
	require.Equal(t, map[string]any{"edge-1": "complete", "edge-2": "complete"}, shownClusters(r.awaitCondition("Succeeded", "True Completed")))
	for _, edge := range clusters {
		managed := activitykit.ManagedCluster(edge)
		require.NoError(t, hubClient(t).Get(t.Context(), client.ObjectKeyFromObject(managed), managed))
		require.Equal(t, "set", managed.GetLabels()["dns"], edge)
	}
	requireNothingEnforced(t, hub)
	requireNoHubObjects(t, "offline")
}

// After the rollout has ended, its object names the cluster, and a retry takes it.
func TestARetryTakesAClusterThatStayedOffline(t *testing.T) {
	reserve(t, policyHub, edges)
	register(t, "edge-1", nil)
	setAvailable(t, "edge-1", "False")
	hub, err := propagator.Start(t.Context(), theFleet.Hub.Config, propagator.Options{Takes: func(string, string) time.Duration { return 200 * time.Millisecond }})
	require.NoError(t, err)
	t.Cleanup(hub.Stop)
	createOnHub(t, informPolicy("dns", "", "edge-1"))
	awaitNonCompliant(t, 1, "dns")
	withTimeout := func(minutes int) string {
		return fmt.Sprintf(`
apiVersion: ran.openshift.io/v1alpha1
kind: ClusterGroupUpgrade
metadata: {namespace: default, name: stays-offline}
spec:
  enable: false
  clusters: [edge-1]
  managedPolicies: [dns]
  remediationStrategy: {maxConcurrency: 1, timeout: %d}
`, minutes)
	}
	startRollout(t, withTimeout(60))
	awaitStatus(t, "stays-offline", func(s ranv1.ClusterGroupUpgradeStatus) bool {
		return clusterOf(s, "edge-1").Reason == ranv1.ReasonClusterOffline
	})
	succeeds(t, "upgrade", "enable", "stays-offline")
	awaitStatus(t, "stays-offline", func(s ranv1.ClusterGroupUpgradeStatus) bool {
		return s.Wait != nil && s.Wait.Reason == ranv1.ReasonClustersOffline
	})
	shortenTimeout(t, withTimeout)
	ended, code := awaitEnd(t, "stays-offline")
	require.Equal(t, 1, code)
	requireSucceededFalse(t, ended, ranv1.ReasonClustersOffline)
	require.Equal(t, "False ClustersOffline: Complete on all clusters but 1; offline: edge-1", conditionMessage(ended, ranv1.ConditionSucceeded))
	require.Empty(t, hub.Enforcements())

	setAvailable(t, "edge-1", "True")
	succeeds(t, "upgrade", "retry", "stays-offline")
	editRollout(t, withTimeout(60))
	ended, code = awaitEnd(t, "stays-offline")
	require.Zero(t, code, "%v", ended.Conditions)
	requireSucceeded(t, ended)
}
