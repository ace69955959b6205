package node_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drydock.dev/drydock/activities/activitykit"
	"drydock.dev/drydock/activities/activitytest"
	"drydock.dev/drydock/activities/marks"
	nodeactivities "drydock.dev/drydock/activities/node"
	"drydock.dev/drydock/internal/temporal"
)

func TestAConflictingWriteIsRetriedOnTheNewNode(t *testing.T) {
	ref := activitytest.TestNode(t)
	cluster := activitytest.TestCluster(t)
	interruptions := 0
	err := marks.Update(t.Context(), cluster, ref.Node, func(node *corev1.Node) (client.Patch, error) {
		if interruptions < 2 {
			interruptions++
			activitytest.Changed(t, ref.Node, activitytest.Annotated("interruption", time.Now().String()))
		}
		change, _ := nodeactivities.CordonChange(node, nodeactivities.CordonInput{NodeRef: ref, Cordon: true})
		return change.Patch(node)
	})
	require.NoError(t, err)
	require.Equal(t, 2, interruptions)
	require.True(t, activitytest.GetNode(t, ref.Node).Spec.Unschedulable)

	err = marks.Update(t.Context(), cluster, ref.Node, func(node *corev1.Node) (client.Patch, error) {
		activitytest.Changed(t, ref.Node, activitytest.Annotated("interruption", time.Now().String()))
		return marks.Marks{}.Patch(node)
	})
	require.Empty(t, temporal.ErrorType(activitykit.ExplainNode(cluster, ref.Node, "return", err)), "a conflict that lasts is retried")
	require.ErrorContains(t, err, "the object has been modified")
}

func TestANodeReplacedDuringAWriteIsReadAgain(t *testing.T) {
	cluster := activitytest.BareNodes(t, "replaced")
	reads := 0
	err := marks.Update(t.Context(), cluster, "replaced", func(node *corev1.Node) (client.Patch, error) {
		if reads++; reads == 1 {
			require.NoError(t, cluster.Client.Delete(t.Context(), node.DeepCopy()))
			require.NoError(t, cluster.Client.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "replaced"}}))
		}
		return marks.Marks{Owner: "node/hub/default/n/run"}.Patch(node)
	})
	require.NoError(t, err)
	require.Equal(t, 2, reads)
}
