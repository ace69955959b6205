package activities

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	lcmv1 "drydock.dev/drydock/internal/apis/lcm/v1alpha1"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/rollout"
	"drydock.dev/drydock/internal/temporal"
)

// bareCluster is an administrator's access to the hub, used as a cluster: all its nodes are the test's.
func bareCluster(t *testing.T) *kube.Cluster {
	t.Helper()
	cluster, err := admin.Cluster(t.Context(), hubName)
	require.NoError(t, err)
	return cluster
}

// create creates an object for the time of a test.
func create[O client.Object](t *testing.T, cluster *kube.Cluster, object O) O {
	t.Helper()
	require.NoError(t, cluster.Client.Create(t.Context(), object))
	t.Cleanup(func() {
		require.NoError(t, client.IgnoreNotFound(cluster.Client.Delete(context.Background(), object)))
	})
	return object
}

// bareNodes creates nodes that are Ready.
func bareNodes(t *testing.T, names ...string) *kube.Cluster {
	t.Helper()
	cluster := bareCluster(t)
	for _, name := range names {
		node := create(t, cluster, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		require.NoError(t, cluster.Client.Status().Update(t.Context(), node))
		settled(t, hubName, node)
	}
	return cluster
}

func budgets(t *testing.T, cluster *kube.Cluster, spec maintenancev1.MaintenanceOperatorConfigSpec) *maintenancev1.MaintenanceOperatorConfig {
	t.Helper()
	config := create(t, cluster, &maintenancev1.MaintenanceOperatorConfig{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", GenerateName: "config-"}, Spec: spec,
	})
	settled(t, hubName, config)
	return config
}

func TestInspectionTellsControlPlaneWorkersAndSkippedNodes(t *testing.T) {
	cluster := bareNodes(t, "w1", "w2", "w3")
	create(t, cluster, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "cp", Labels: map[string]string{"node-role.kubernetes.io/control-plane": ""}}})
	create(t, cluster, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "kept", Annotations: map[string]string{lcmv1.AnnotationSkipMaintenance: "true"}}})
	require.Eventually(t, func() bool {
		plan, err := (&Clusters{Clusters: clusters}).InspectCluster(t.Context(), InspectClusterInput{
			Cluster: hubName, Remediation: ranv1.NodeMaintenanceRemediation{SkipNodes: []string{"w2"}},
		})
		return err == nil && len(plan.Skipped) == 2 && plan.Skipped[0] == rollout.SkippedNode{Name: "kept", Reason: rollout.ReasonSkipMaintenance} &&
			plan.Skipped[1].Name == "w2" && len(plan.ControlPlane) == 1 && plan.Workers[0] == "w1" && plan.Workers[1] == "w3"
	}, newsLimit, 20*time.Millisecond)

	_, err := (&Clusters{Clusters: clusters}).InspectCluster(t.Context(), InspectClusterInput{
		Cluster: hubName, Remediation: ranv1.NodeMaintenanceRemediation{NodeSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"a b": ""}}},
	})
	require.Equal(t, temporal.ErrInvalidSpec, temporal.ErrorType(err))
}
