package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	goharborv1 "drydock.dev/drydock/internal/apis/goharbor/v1beta1"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/devstack"
	"drydock.dev/drydock/internal/devstack/fleet"
	"drydock.dev/drydock/internal/devstack/operators"
	"drydock.dev/drydock/internal/health"
)

func TestARolloutRequiresAHealthyHarborBeforeAndAfter(t *testing.T) {
	reserve(t, "spoke-2")
	spoke := newHarborSpoke(t, theFleet.Spokes[1])
	const namespace = "harbor-gate"
	require.NoError(t, theFleet.AddHarborNamespace(t.Context(), spoke.Cluster, namespace))
	spoke.apply(t, namespace)
	spoke.becomes(t, namespace, "healthy", healthyHarbor)
	storageIs := func(behaviour operators.Behaviour, status goharborv1.ClusterStatus) {
		spoke.operators.Simulate(operators.Tenant, namespace, "minio-main", behaviour)
		spoke.becomes(t, namespace, string(status), func(s goharborv1.HarborClusterStatus) bool { return s.Status == status })
	}
	start := func(name string, timeout int) {
		checks := fmt.Sprintf("healthChecks: [{name: registry, timeoutSeconds: %d, harborCluster: {namespace: %s, name: main}}]", timeout, namespace)
		startRollout(t, rollout(name, checks, 60, spoke.Name))
	}
	const down = "registry: HarborCluster harbor-gate/main: condition StorageReady is False: ReplicasNotReady"

	storageIs(operators.Behaviour{Down: true}, goharborv1.StatusUnhealthy)
	before := len(actionsOf(t, spoke.Cluster))
	start("harbor-gate-before", 2)
	status, code := awaitEnd(t, "harbor-gate-before")
	require.Equal(t, 1, code)
	requireSucceededFalse(t, status, ranv1.ReasonFailed)
	require.Contains(t, meta.FindStatusCondition(status.Conditions, ranv1.ConditionSucceeded).Message, "health gate of cluster "+spoke.Name+" failed: "+down)
	require.Empty(t, actionsOf(t, spoke.Cluster)[before:], "Drydock does nothing before the gate")

	storageIs(operators.Behaviour{}, goharborv1.StatusHealthy)
	start("harbor-gate-passes", 1200)
	status, code = awaitEnd(t, "harbor-gate-passes")
	require.Zero(t, code)
	require.Equal(t, ranv1.ClusterComplete, status.Clusters[0].State)
	require.Len(t, fleet.Cordoned(actionsOf(t, spoke.Cluster)[before:]), workers+1)

	spoke.becomes(t, namespace, "healthy", healthyHarbor)
	before = len(actionsOf(t, spoke.Cluster))
	slowPod := deploySlowPod(t, spoke.Cluster, "worker-1", map[string]string{devstack.AnnotationLeaveAfter: "1000h"})
	start("harbor-gate-after", 1200)
	awaitEviction(t, spoke.Cluster, slowPod) // between the gates
	storageIs(operators.Behaviour{Down: true}, goharborv1.StatusUnhealthy)
	releasePods(t, spoke.Cluster, slowPod)
	awaitStatus(t, "harbor-gate-after", func(s ranv1.ClusterGroupUpgradeStatus) bool {
		// A drained pod of the cache may be unhealthy for a moment, too.
		return clusterAt(s, 0).Reason == health.ReasonHarborUnhealthy && strings.Contains(clusterAt(s, 0).Message, "condition StorageReady is False")
	})
	require.Len(t, fleet.Cordoned(actionsOf(t, spoke.Cluster)[before:]), workers+1, "all nodes are maintained")
	spoke.operators.Simulate(operators.Tenant, namespace, "minio-main", operators.Behaviour{})
	status, code = awaitEnd(t, "harbor-gate-after")
	require.Zero(t, code)
	require.Equal(t, ranv1.ClusterComplete, status.Clusters[0].State)

	// The services of Harbor would block drains of later tests.
	hc := &goharborv1.HarborCluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "main"}}
	require.NoError(t, spoke.api.Patch(t.Context(), hc, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"deletionPolicy":"Delete"}}`))))
	succeeds(t, "harbor", "delete", "main", "-n", namespace, "--cluster", spoke.Name, "--wait")
}
