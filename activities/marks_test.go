package activities

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drydock.dev/drydock/internal/temporal"
)

func TestAWriterInBetweenMakesUsWorkOutTheChangeAnew(t *testing.T) {
	ref := testNode(t)
	cluster := testCluster(t)
	interruptions := 0
	err := changeNode(t.Context(), cluster, ref.Node, func(node *corev1.Node) (client.Patch, error) {
		if interruptions < 2 {
			interruptions++
			changed(t, ref.Node, annotated("interruption", time.Now().String()))
		}
		change, _ := cordonChange(node, CordonInput{NodeRef: ref, Cordon: true})
		return change.patch(node)
	})
	require.NoError(t, err)
	require.Equal(t, 2, interruptions)
	require.True(t, getNode(t, ref.Node).Spec.Unschedulable)

	err = changeNode(t.Context(), cluster, ref.Node, func(node *corev1.Node) (client.Patch, error) {
		changed(t, ref.Node, annotated("interruption", time.Now().String()))
		return nodeChange{}.patch(node)
	})
	require.Empty(t, temporal.ErrorType(explainNode(cluster, ref.Node, "return", err)), "a conflict that lasts is retried")
	require.ErrorContains(t, err, "the object has been modified")
}

func TestANodeThatWasReplacedInBetweenIsLookedAtAnew(t *testing.T) {
	cluster := bareNodes(t, "replaced")
	looks := 0
	err := changeNode(t.Context(), cluster, "replaced", func(node *corev1.Node) (client.Patch, error) {
		if looks++; looks == 1 {
			require.NoError(t, cluster.Client.Delete(t.Context(), node.DeepCopy()))
			require.NoError(t, cluster.Client.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "replaced"}}))
		}
		return nodeChange{owner: "node/hub/default/n/run"}.patch(node)
	})
	require.NoError(t, err)
	require.Equal(t, 2, looks)
}
