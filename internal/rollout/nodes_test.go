package rollout_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/manifest"
	"drydock.dev/drydock/internal/rollout"
)

func labelledNode(name string, labels ...string) corev1.Node {
	node := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}}}
	for _, label := range labels {
		key, value, _ := strings.Cut(label, "=")
		node.Labels[key] = value
	}
	return node
}

func TestPlanNodes(t *testing.T) {
	const controlPlane, master = "node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master"
	annotated := labelledNode("w4", "pool=a")
	annotated.Annotations = map[string]string{"lcm.mirantis.com/skip-maintenance": "true"}
	nodes := []corev1.Node{
		labelledNode("w3", "pool=b"), labelledNode("cp2", master), labelledNode("w1", "pool=a"), labelledNode("cp1", controlPlane), labelledNode("w2", "pool=a"), annotated,
	}
	skipsItself := rollout.SkippedNode{Name: "w4", Reason: rollout.ReasonSkipMaintenance}
	tests := []struct {
		name string
		spec ranv1.NodeMaintenanceRemediation
		want rollout.NodePlan
	}{
		{
			name: "control-plane nodes and workers are separate, each sorted by name",
			want: rollout.NodePlan{ControlPlane: []string{"cp1", "cp2"}, Workers: []string{"w1", "w2", "w3"}, Skipped: []rollout.SkippedNode{skipsItself}},
		},
		{
			name: "control-plane nodes count as workers if they need not be first",
			spec: ranv1.NodeMaintenanceRemediation{ControlPlaneFirst: new(false)},
			want: rollout.NodePlan{ControlPlane: []string{}, Workers: []string{"cp1", "cp2", "w1", "w2", "w3"}, Skipped: []rollout.SkippedNode{skipsItself}},
		},
		{
			name: "nodes that are excluded or not selected are skipped with a reason",
			spec: ranv1.NodeMaintenanceRemediation{SkipNodes: []string{"w1", "elsewhere"}, NodeSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"pool": "a"}}},
			want: rollout.NodePlan{ControlPlane: []string{}, Workers: []string{"w2"}, Skipped: []rollout.SkippedNode{
				{Name: "cp1", Reason: rollout.ReasonNodeSelector},
				{Name: "cp2", Reason: rollout.ReasonNodeSelector},
				{Name: "w1", Reason: rollout.ReasonSkipNodes},
				{Name: "w3", Reason: rollout.ReasonNodeSelector},
				skipsItself,
			}},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			plan, err := rollout.PlanNodes(nodes, test.spec)
			require.NoError(t, err)
			require.Equal(t, test.want, plan)
		})
	}
}

func TestAnInvalidNodeSelectorIsAnError(t *testing.T) {
	_, err := rollout.PlanNodes(nil, ranv1.NodeMaintenanceRemediation{
		NodeSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Is"}}},
	})
	require.EqualError(t, err, `spec.nodeMaintenance.nodeSelector: "Is" is not a valid label selector operator`)
}

func TestLongNamesAreShortenedAndStayUnique(t *testing.T) {
	require.Equal(t, "os-update-worker-1", rollout.NodeMaintenanceName("os-update", "worker-1"))
	require.Equal(t, "os-update.prod.cgu", rollout.RequestorID(types.NamespacedName{Namespace: "prod", Name: "os-update"}))

	long := strings.Repeat("a-very-long-name.", 5)
	one, other := rollout.NodeMaintenanceName(long, "worker-1"), rollout.NodeMaintenanceName(long, "worker-2")
	require.NotEqual(t, one, other)
	for _, name := range []string{one, other, rollout.RequestorID(types.NamespacedName{Namespace: "prod", Name: long})} {
		require.LessOrEqual(t, len(name), 63)
		require.Regexp(t, `[a-z0-9]-[0-9a-f]{8}$`, name)
	}
}

func TestTheMaintenanceOfANodeHasTheFieldsOfTheRemediation(t *testing.T) {
	remediation := ranv1.NodeMaintenanceRemediation{
		DrainSpec:      &maintenancev1.DrainSpec{Force: true, TimeoutSeconds: new(int32(60))},
		OnDrainTimeout: maintenancev1.DrainTimeoutRetry,
		OnFailure:      maintenancev1.FailureKeepCordoned,
	}
	request := rollout.NodeMaintenanceFor(types.NamespacedName{Namespace: "prod", Name: strings.Repeat("long.", 20) + "x"}, remediation, "worker-1")
	require.NoError(t, manifest.Complete(&request))
	require.Equal(t, "prod", request.Namespace)
	require.Equal(t, "worker-1", request.Spec.NodeName)
	require.True(t, *request.Spec.Cordon)
	require.Equal(t, remediation.DrainSpec, request.Spec.DrainSpec)
	require.Equal(t, remediation.OnDrainTimeout, request.Spec.OnDrainTimeout)
	require.Equal(t, remediation.OnFailure, request.Spec.OnFailure)
}
