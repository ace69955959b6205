package snapshot

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/rollout"
)

const blockingRollouts = `
apiVersion: v1
kind: ConfigMap
metadata: {namespace: ops, name: drydock-kept}
data:
  clustergroupupgrade.yaml: |
    metadata: {namespace: ops, name: kept}
    spec: {blockingCRs: [{namespace: ops, name: object}]}
---
apiVersion: ran.openshift.io/v1alpha1
kind: ClusterGroupUpgrade
metadata: {namespace: ops, name: object}
spec:
  clusters: [c1]
  remediationStrategy: {maxConcurrency: 1}
  blockingCRs: [{namespace: ops, name: top}]
`

func TestBlockingRolloutsAreReadFromConfigMapsOrObjects(t *testing.T) {
	file, err := Open("-", strings.NewReader(blockingRollouts))
	require.NoError(t, err)
	top := &ranv1.ClusterGroupUpgrade{}
	top.Namespace, top.Name = "ops", "top"
	top.Spec.BlockingCRs = []ranv1.BlockingCR{{Namespace: "ops", Name: "kept"}, {Namespace: "ops", Name: "missing"}}
	known, err := Rollouts(t.Context(), file, top)
	require.NoError(t, err)
	blocking := rollout.Blocked(top, known)
	require.Equal(t, []types.NamespacedName{{Namespace: "ops", Name: "missing"}}, blocking.Missing)
	require.Equal(t, []types.NamespacedName{{Namespace: "ops", Name: "kept"}}, blocking.Incomplete)
	require.Contains(t, blocking.CycleMessage(), "ops/top -> ops/kept -> ops/object -> ops/top")
}

func TestAConfigMapWithoutARolloutIsNamed(t *testing.T) {
	file, err := Open("-", strings.NewReader("apiVersion: v1\nkind: ConfigMap\nmetadata: {namespace: ops, name: drydock-kept}\ndata: {mine: x}\n"))
	require.NoError(t, err)
	top := &ranv1.ClusterGroupUpgrade{}
	top.Spec.BlockingCRs = []ranv1.BlockingCR{{Namespace: "ops", Name: "kept"}}
	_, err = Rollouts(t.Context(), file, top)
	require.ErrorContains(t, err, "ConfigMap ops/drydock-kept is not Drydock's")
}
