package e2e

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/devstack/propagator"
)

// edge-1 is complete, and loses compliance while edge-2 runs.
func TestACompleteClusterThatNoLongerCompliesIsRemediatedAgain(t *testing.T) {
	reserve(t, policyHub, edges)
	clusters := []string{"edge-1", "edge-2"}
	for _, edge := range clusters {
		register(t, edge, nil)
	}
	var repaired atomic.Bool
	hub, err := propagator.Start(t.Context(), theFleet.Hub.Config, propagator.Options{Takes: func(cluster, _ string) time.Duration {
		if cluster == "edge-2" && !repaired.Load() {
			return -1
		}
		return 200 * time.Millisecond
	}})
	require.NoError(t, err)
	t.Cleanup(hub.Stop)
	createOnHub(t, informPolicy("ntp", "", clusters...))
	awaitNonCompliant(t, len(clusters), "ntp")
	r := applyRollout(t, `
apiVersion: ran.openshift.io/v1alpha1
kind: ClusterGroupUpgrade
metadata: {namespace: default, name: relapse}
spec:
  clusters: [edge-1, edge-2]
  managedPolicies: [ntp]
  remediationStrategy: {maxConcurrency: 1, timeout: 60}
`)
	awaitStatus(t, "relapse", func(s ranv1.ClusterGroupUpgradeStatus) bool {
		return clusterOf(s, "edge-1").State == ranv1.ClusterComplete && clusterOf(s, "edge-2").State == ranv1.ClusterRunning
	})
	awaitNotEnforced(t, hub, "edge-1")
	hub.Drift("edge-1", "default", "ntp")
	named := awaitStatus(t, "relapse", func(s ranv1.ClusterGroupUpgradeStatus) bool { return clusterOf(s, "edge-1").Reason == "Relapsed" })
	require.Equal(t, "policy ntp is no longer Compliant, but NonCompliant", clusterOf(named, "edge-1").Message)
	repaired.Store(true)
	hub.Evaluate()
	status, code := awaitEnd(t, "relapse")
	require.Zero(t, code, "%v", status.Conditions)
	require.EqualValues(t, len(clusters), status.Counts.Complete)
	require.Equal(t, []string{"clusters that no longer comply, although they were complete: edge-1"}, status.Notes)
	var began []string
	for _, enforcement := range hub.Enforcements() {
		if enforcement.Began && strings.Contains(enforcement.Policy, "ntp") {
			began = append(began, enforcement.Cluster)
		}
	}
	require.Equal(t, []string{"edge-1", "edge-2", "edge-1"}, began)
	require.Equal(t, map[string]any{"edge-1": "complete", "edge-2": "complete"}, shownClusters(r.awaitCondition("Succeeded", "True Completed")))
	requireNothingEnforced(t, hub)
	requireNoHubObjects(t, "relapse")
}
