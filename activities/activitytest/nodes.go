package activitytest

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drydock.dev/drydock/activities/activitykit"
	"drydock.dev/drydock/activities/node"
	"drydock.dev/drydock/internal/kube"
)

func Nodes() *node.Activities { return &node.Activities{Clusters: Clusters} }

// Changed changes a node, like a person.
func Changed(t *testing.T, name string, change func(*corev1.Node)) {
	t.Helper()
	node := GetNode(t, name)
	patch := client.MergeFrom(node.DeepCopy())
	change(node)
	require.NoError(t, TestCluster(t).Client.Patch(t.Context(), node, patch, client.FieldOwner("kubectl")))
}

func Cordoned(node *corev1.Node) { node.Spec.Unschedulable = true }

func Uncordoned(node *corev1.Node) { node.Spec.Unschedulable = false }

func Annotated(key, value string) func(*corev1.Node) {
	return func(node *corev1.Node) { metav1.SetMetaDataAnnotation(&node.ObjectMeta, key, value) }
}

func Unannotated(key string) func(*corev1.Node) {
	return func(node *corev1.Node) { delete(node.Annotations, key) }
}

func Cordon(t *testing.T, ref activitykit.NodeRef) node.CordonResult {
	t.Helper()
	result, err := Nodes().Cordon(t.Context(), node.CordonInput{NodeRef: ref, Cordon: true})
	require.NoError(t, err)
	return result
}

func PlanMaintenance(ctx context.Context, ref activitykit.NodeRef) error {
	_, err := Nodes().PlanMaintenance(ctx, node.PlanMaintenanceInput{NodeRef: ref})
	return err
}

func ReturnNode(t *testing.T, ref activitykit.NodeRef) node.ReturnNodeResult {
	t.Helper()
	result, err := Nodes().ReturnNode(t.Context(), node.ReturnNodeInput{NodeRef: ref})
	require.NoError(t, err)
	return result
}

// RequireNoTrace requires that a node has no mark or condition of Drydock.
func RequireNoTrace(t *testing.T, name string) {
	t.Helper()
	node := GetNode(t, name)
	require.NotContains(t, node.Annotations, kube.AnnotationOwner)
	require.NotContains(t, node.Annotations, kube.AnnotationFormerState)
	require.NotContains(t, node.Annotations, kube.AnnotationKeepOnFailure)
	require.NotContains(t, node.Labels, kube.LabelMaintenance)
	for _, conditionType := range kube.NodeConditions() {
		require.Nil(t, kube.FindNodeCondition(node, conditionType), conditionType)
	}
}
