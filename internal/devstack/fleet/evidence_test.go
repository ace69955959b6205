package fleet

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/drydock/internal/kube"
)

func TestDrydocksMarksOnANodeAreLeftovers(t *testing.T) {
	for _, tt := range []struct {
		name string
		node corev1.Node
		left []string
	}{
		{"a new node", corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{corev1.LabelHostname: "n1"}}}, nil},
		{"a cordoned node", corev1.Node{Spec: corev1.NodeSpec{Unschedulable: true}}, []string{"node n1 is cordoned"}},
		{
			"an annotation of Drydock",
			corev1.Node{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{kube.AnnotationOwner: "x"}}},
			[]string{"node n1 has annotation drydock.dev/owner"},
		},
		{
			"a label of Drydock",
			corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{kube.LabelMaintenance: "x"}}},
			[]string{"node n1 has label drydock.dev/maintenance"},
		},
		{
			"a condition of Drydock",
			corev1.Node{Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: kube.NodeConditions()[0]}}}},
			[]string{"node n1 has condition " + string(kube.NodeConditions()[0])},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.node.Name = "n1"
			require.Equal(t, tt.left, leftoversOf(&tt.node))
		})
	}
}
