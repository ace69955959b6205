package snapshot

import (
	"bytes"
	"compress/gzip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/rollout"
)

const blockingRollouts = `
apiVersion: v1
kind: ConfigMap
metadata: {namespace: drydock-system, name: rollout.ops.kept}
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

func TestTheObjectOfARolloutCountsAsForTheWorker(t *testing.T) {
	file, err := Open("-", strings.NewReader(blockingRollouts+`
---
apiVersion: ran.openshift.io/v1alpha1
kind: ClusterGroupUpgrade
metadata: {namespace: ops, name: kept}
spec: {clusters: [c1], remediationStrategy: {maxConcurrency: 1}}
status: {conditions: [{type: Succeeded, status: "True", reason: Completed, message: done, lastTransitionTime: "2026-11-20T12:00:00Z"}]}
`))
	require.NoError(t, err)
	top := &ranv1.ClusterGroupUpgrade{}
	top.Spec.BlockingCRs = []ranv1.BlockingCR{{Namespace: "ops", Name: "kept"}}
	known, err := Rollouts(t.Context(), file, top)
	require.NoError(t, err)
	require.Empty(t, rollout.Blocked(top, known).Incomplete)
}

func TestAConfigMapWithoutARolloutIsNamed(t *testing.T) {
	file, err := Open("-", strings.NewReader("apiVersion: v1\nkind: ConfigMap\nmetadata: {namespace: drydock-system, name: rollout.ops.kept}\ndata: {mine: x}\n"))
	require.NoError(t, err)
	top := &ranv1.ClusterGroupUpgrade{}
	top.Spec.BlockingCRs = []ranv1.BlockingCR{{Namespace: "ops", Name: "kept"}}
	_, err = Rollouts(t.Context(), file, top)
	require.ErrorContains(t, err, "ConfigMap drydock-system/rollout.ops.kept is not Drydock's")
}

// A small text may contain a huge one.
func TestASavedRolloutIsReadToALimit(t *testing.T) {
	var bomb bytes.Buffer
	writer := gzip.NewWriter(&bomb)
	chunk := bytes.Repeat([]byte(" "), 1<<20)
	for range maxSaved>>20 + 1 {
		_, err := writer.Write(chunk)
		require.NoError(t, err)
	}
	require.NoError(t, writer.Close())
	saved := &corev1.ConfigMap{BinaryData: map[string][]byte{rollout.SavedCompressedKey: bomb.Bytes()}}
	_, err := SavedRollout(saved, types.NamespacedName{Namespace: "ops", Name: "kept"})
	require.ErrorContains(t, err, "it has more than 16 MiB: correct or delete it")
}

func TestTheRolloutOfAnotherNamespaceIsAnother(t *testing.T) {
	saved := &corev1.ConfigMap{Data: map[string]string{rollout.SavedKey: "metadata: {namespace: theirs, name: kept}"}}
	object, err := SavedRollout(saved, types.NamespacedName{Namespace: "ops", Name: "kept"})
	require.NoError(t, err)
	require.Nil(t, object)
}
