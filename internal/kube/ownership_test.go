package kube_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/drydock/internal/kube"
)

func annotated(annotations map[string]string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Annotations: annotations}}
}

func TestOwnershipFollowsTheMarkAndAnEmptyMarkOwnsNothing(t *testing.T) {
	ours := annotated(map[string]string{kube.AnnotationOwner: "node/c/default/n/run"})
	require.True(t, kube.OwnedBy(ours, "node/c/default/n/run"))
	require.False(t, kube.OwnedBy(ours, "node/c/default/n/another-run"))
	require.False(t, kube.OwnedBy(annotated(nil), ""))
}

func TestAnOwnershipMarkMayContainSlashesInTheWorkflowID(t *testing.T) {
	workflow, run := kube.OwnerWorkflow("node/c/default/n/run")
	require.Equal(t, "node/c/default/n", workflow)
	require.Equal(t, "run", run)
	workflow, run = kube.OwnerWorkflow("written-by-hand")
	require.Equal(t, "written-by-hand", workflow)
	require.Empty(t, run)
}

func TestKeepCordonedAppliesUnlessItsValueIsFalse(t *testing.T) {
	require.False(t, kube.KeepCordoned(annotated(nil)))
	require.False(t, kube.KeepCordoned(annotated(map[string]string{kube.AnnotationKeepCordoned: "false"})))
	for _, value := range []string{"true", "", "until the disk is replaced"} {
		require.True(t, kube.KeepCordoned(annotated(map[string]string{kube.AnnotationKeepCordoned: value})), value)
	}
}
