package activities

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drydock.dev/drydock/internal/kube"
)

func nodes() *Nodes { return &Nodes{Clusters: clusters} }

// changed writes to a node as a person would.
func changed(t *testing.T, name string, change func(*corev1.Node)) {
	t.Helper()
	node := getNode(t, name)
	patch := client.MergeFrom(node.DeepCopy())
	change(node)
	require.NoError(t, testCluster(t).Client.Patch(t.Context(), node, patch, client.FieldOwner("kubectl")))
}

func cordoned(node *corev1.Node) { node.Spec.Unschedulable = true }

func uncordoned(node *corev1.Node) { node.Spec.Unschedulable = false }

func annotated(key, value string) func(*corev1.Node) {
	return func(node *corev1.Node) { metav1.SetMetaDataAnnotation(&node.ObjectMeta, key, value) }
}

func unannotated(key string) func(*corev1.Node) {
	return func(node *corev1.Node) { delete(node.Annotations, key) }
}

func cordon(t *testing.T, ref NodeRef) CordonResult {
	t.Helper()
	result, err := nodes().Cordon(t.Context(), CordonInput{NodeRef: ref, Cordon: true})
	require.NoError(t, err)
	return result
}

func planMaintenance(ctx context.Context, ref NodeRef) error {
	_, err := nodes().PlanMaintenance(ctx, PlanMaintenanceInput{NodeRef: ref})
	return err
}

func giveBack(t *testing.T, ref NodeRef) ReturnNodeResult {
	t.Helper()
	result, err := nodes().ReturnNode(t.Context(), ReturnNodeInput{NodeRef: ref})
	require.NoError(t, err)
	return result
}

// requireNoTrace holds a node to bear nothing of ours.
func requireNoTrace(t *testing.T, name string) {
	t.Helper()
	node := getNode(t, name)
	require.NotContains(t, node.Annotations, kube.AnnotationOwner)
	require.NotContains(t, node.Annotations, kube.AnnotationFormerState)
	require.NotContains(t, node.Annotations, kube.AnnotationKeepOnFailure)
	require.NotContains(t, node.Labels, kube.LabelMaintenance)
	for _, conditionType := range kube.NodeConditions() {
		require.Nil(t, kube.FindNodeCondition(node, conditionType), conditionType)
	}
}
