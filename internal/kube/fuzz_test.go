package kube

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// FuzzNodeMarks reads conditions and owners of nodes as anybody may have written them.
func FuzzNodeMarks(f *testing.F) {
	f.Add("waits (a/b/c) (d/e/f)", "a/b/c", "MaintenancePlanned")
	f.Add(" (", ")", "Drained")
	f.Add(" (a) (b) (a)", "a", "MaintenancePlanned")
	f.Add(" ( (a)a)", "a", "MaintenancePlanned")
	f.Add("() (/) (//) (é/\x00)", "node/c/n/x/run", "DrainInProgress")
	f.Fuzz(func(t *testing.T, message, owner, kind string) {
		condition := corev1.NodeCondition{Type: corev1.NodeConditionType(kind), Reason: conditionReason, Message: message, Status: corev1.ConditionTrue}
		for _, of := range ConditionOwners(condition) {
			require.False(t, slices.Contains(ConditionOwners(withoutOwner(condition, of)), of), "%q stays in %q", of, message)
		}
		node := &corev1.Node{Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{condition}}}
		conditionPatch(node, owner, metav1.Now(), []corev1.NodeCondition{
			NodeCondition(condition.Type, corev1.ConditionTrue, message), NoNodeCondition(ConditionMaintenancePlanned),
		})
		OwnerWorkflow(owner)
		require.LessOrEqual(t, len(MaintenanceLabel(owner)), 63)
	})
}

// FuzzClustersFile decodes a clusters file: an error, or clusters with valid names.
func FuzzClustersFile(f *testing.F) {
	for _, seed := range []string{
		"clusters:\n- name: a\n  kubeconfig: x\n", "hub: {}\n", "clusters: [{name: a, inClusterWorker: true}, {name: a}]", "clusters: [null]", "{", "hub: null\nclusters: []\nx: 1",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		file, err := decode(content)
		if err != nil {
			require.NotEmpty(t, err.Error())
			return
		}
		for _, entry := range file.Clusters {
			require.NoError(t, ValidateName(entry.Name))
		}
		file.source("clusters.yaml")
	})
}
