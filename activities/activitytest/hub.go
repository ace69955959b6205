package activitytest

import (
	"context"
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drydock.dev/drydock/activities/activitykit"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/policies"
)

// BareCluster returns an administrator's access to the hub, used as a cluster whose nodes all belong to tests.
func BareCluster(t *testing.T) *kube.Cluster {
	t.Helper()
	cluster, err := Admin.Cluster(t.Context(), HubName)
	require.NoError(t, err)
	return cluster
}

// Create creates an object, and deletes it after the test.
func Create[O client.Object](t *testing.T, cluster *kube.Cluster, object O) O {
	t.Helper()
	require.NoError(t, cluster.Client.Create(t.Context(), object))
	t.Cleanup(func() {
		require.NoError(t, client.IgnoreNotFound(cluster.Client.Delete(context.Background(), object)))
	})
	return object
}

// BareNodes creates nodes that are Ready.
func BareNodes(t *testing.T, names ...string) *kube.Cluster {
	t.Helper()
	cluster := BareCluster(t)
	for _, name := range names {
		node := Create(t, cluster, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		require.NoError(t, cluster.Client.Status().Update(t.Context(), node))
		Settled(t, HubName, node)
	}
	return cluster
}

func Budgets(t *testing.T, cluster *kube.Cluster, spec maintenancev1.MaintenanceOperatorConfigSpec) *maintenancev1.MaintenanceOperatorConfig {
	t.Helper()
	config := &maintenancev1.MaintenanceOperatorConfig{ObjectMeta: metav1.ObjectMeta{Namespace: kube.SystemNamespace, GenerateName: "config-"}, Spec: spec}
	t.Cleanup(func() { forgotten(t, HubName, config) }) // after its deletion, so that the next test does not get it
	Create(t, cluster, config)
	Settled(t, HubName, config)
	return config
}

func ManagedCluster(t *testing.T, name string, annotations map[string]string) {
	t.Helper()
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(activitykit.ManagedClusterKind)
	object.SetName(name)
	object.SetLabels(map[string]string{"name": name})
	object.SetAnnotations(annotations)
	Create(t, BareCluster(t), object)
}

// BindAllClusters lets Placements of a namespace of the hub select all clusters.
func BindAllClusters(t *testing.T, namespace string) {
	t.Helper()
	binding := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"clusterSet": policies.GlobalSet}}}
	binding.SetGroupVersionKind(policies.SetBindings)
	binding.SetNamespace(namespace)
	binding.SetName(policies.GlobalSet)
	Create(t, BareCluster(t), binding)
}

// SetAvailable sets the condition of a ManagedCluster that says whether the hub reaches its agent.
func SetAvailable(t *testing.T, name string, available metav1.ConditionStatus) {
	t.Helper()
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(activitykit.ManagedClusterKind)
	object.SetName(name)
	status := fmt.Sprintf(`{"status":{"conditions":[{"type":"ManagedClusterConditionAvailable","status":%q,"reason":"Test","message":"","lastTransitionTime":"2026-01-10T12:00:00Z"}]}}`, available)
	require.NoError(t, BareCluster(t).Client.Status().Patch(t.Context(), object, client.RawPatch(types.MergePatchType, []byte(status))))
}

func NodeRollout(clusters ...string) ranv1.ClusterGroupUpgrade {
	return ranv1.ClusterGroupUpgrade{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "nodes"}, Spec: ranv1.ClusterGroupUpgradeSpec{
		Clusters:            clusters,
		NodeMaintenance:     &ranv1.NodeMaintenanceRemediation{},
		RemediationStrategy: ranv1.RemediationStrategy{MaxConcurrency: intstr.FromInt32(2)},
	}}
}

func GetSaved(t *testing.T, name string) *corev1.ConfigMap {
	t.Helper()
	kept := &corev1.ConfigMap{}
	require.NoError(t, BareCluster(t).Client.Get(t.Context(), client.ObjectKey{Namespace: kube.SystemNamespace, Name: name}, kept))
	return kept
}
