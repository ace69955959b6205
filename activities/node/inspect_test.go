package node_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/drydock/activities/activitytest"
	"drydock.dev/drydock/activities/node"
	lcmv1 "drydock.dev/drydock/internal/apis/lcm/v1alpha1"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/rollout"
	"drydock.dev/drydock/internal/temporal"
)

func TestInspectionFindsControlPlaneWorkersAndSkippedNodes(t *testing.T) {
	cluster := activitytest.BareNodes(t, "w1", "w2", "w3")
	activitytest.Create(t, cluster, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "cp", Labels: map[string]string{"node-role.kubernetes.io/control-plane": ""}}})
	activitytest.Create(t, cluster, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "skipped", Annotations: map[string]string{lcmv1.AnnotationSkipMaintenance: "true"}}})
	require.Eventually(t, func() bool {
		plan, err := (&node.Activities{Clusters: activitytest.Clusters}).InspectCluster(t.Context(), node.InspectClusterInput{
			Cluster: activitytest.HubName, Remediation: ranv1.NodeMaintenanceRemediation{SkipNodes: []string{"w2"}},
		})
		return err == nil && len(plan.Skipped) == 2 && plan.Skipped[0] == rollout.SkippedNode{Name: "skipped", Reason: rollout.ReasonSkipMaintenance} &&
			plan.Skipped[1].Name == "w2" && len(plan.ControlPlane) == 1 && plan.Workers[0] == "w1" && plan.Workers[1] == "w3"
	}, activitytest.EventTimeout, 20*time.Millisecond)

	_, err := (&node.Activities{Clusters: activitytest.Clusters}).InspectCluster(t.Context(), node.InspectClusterInput{
		Cluster: activitytest.HubName, Remediation: ranv1.NodeMaintenanceRemediation{NodeSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"a b": ""}}},
	})
	require.Equal(t, temporal.ErrInvalidSpec, temporal.ErrorType(err))
}
