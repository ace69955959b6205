package snapshot_test

import (
	"bytes"
	"compress/gzip"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"drydock.dev/drydock/internal/rollout"
	"drydock.dev/drydock/internal/snapshot"
)

// FuzzSavedRollout reads the state of a rollout that the hub keeps: an error, or a rollout of that name.
func FuzzSavedRollout(f *testing.F) {
	const text = "metadata: {name: june, namespace: ztp}\nstatus: {outcomes: [{clusters: -1}], clusters: [{name: a, batch: 9}]}\n"
	var compressed bytes.Buffer
	writer := gzip.NewWriter(&compressed)
	_, err := writer.Write([]byte(text))
	require.NoError(f, err)
	require.NoError(f, writer.Close())
	f.Add([]byte(text), false)
	f.Add(compressed.Bytes(), true)
	f.Add([]byte("status: []"), false)
	f.Fuzz(func(t *testing.T, content []byte, compressed bool) {
		name := types.NamespacedName{Namespace: "ztp", Name: "june"}
		saved := &corev1.ConfigMap{Data: map[string]string{rollout.SavedKey: string(content)}}
		if compressed {
			saved = &corev1.ConfigMap{BinaryData: map[string][]byte{rollout.SavedCompressedKey: content}}
		}
		object, err := snapshot.SavedRollout(saved, name)
		if err == nil && object != nil {
			require.Equal(t, name, types.NamespacedName{Namespace: object.Namespace, Name: object.Name})
		}
	})
}
