package kube_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"drydock.dev/drydock/internal/kube"
)

func awaitWatching(t *testing.T, changes *kube.Changes) {
	t.Helper()
	require.Eventually(t, func() bool {
		_, watching := changes.Take()
		return watching
	}, patience, 10*time.Millisecond)
}

func TestChangesTellOfRelevantChangesOnly(t *testing.T) {
	cluster := spoke(t)
	seen := make(chan string, 10)
	changes := cluster.WatchChanges(t.Context(), corev1.SchemeGroupVersion.WithResource("limitranges"), func(change watch.EventType, object *metav1.PartialObjectMetadata) bool {
		seen <- string(change) + " " + object.Name
		return object.Name == "relevant"
	})
	awaitWatching(t, changes)
	taken := func() bool {
		changed, _ := changes.Take()
		return changed
	}
	other := &corev1.LimitRange{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "other"}}
	relevant := &corev1.LimitRange{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "relevant"}}
	require.NoError(t, cluster.Client.Create(t.Context(), other))
	require.Equal(t, "ADDED other", <-seen)
	require.NoError(t, cluster.Client.Delete(t.Context(), other))
	require.Equal(t, "DELETED other", <-seen)
	require.False(t, taken())
	require.NoError(t, cluster.Client.Create(t.Context(), relevant))
	require.Eventually(t, taken, patience, time.Millisecond)
	require.False(t, taken(), "a change is taken once")
	require.NoError(t, cluster.Client.Delete(t.Context(), relevant))
	require.Eventually(t, taken, patience, time.Millisecond)
}

func TestAwaitAnyReturnsWithTheFirstObject(t *testing.T) {
	cluster := spoke(t)
	quotas := corev1.SchemeGroupVersion.WithResource("resourcequotas")
	found := make(chan struct{})
	go func() {
		defer close(found)
		cluster.AwaitAny(t.Context(), quotas)
	}()
	awaitWatching(t, cluster.WatchChanges(t.Context(), quotas, func(watch.EventType, *metav1.PartialObjectMetadata) bool { return true }))
	select {
	case <-found:
		t.Fatal("there is none yet")
	default:
	}
	object := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "first"}}
	require.NoError(t, cluster.Client.Create(t.Context(), object))
	t.Cleanup(func() { require.NoError(t, cluster.Client.Delete(context.Background(), object)) })
	<-found
	cluster.AwaitAny(t.Context(), quotas) // one that exists is found, too

	ended, end := context.WithCancel(t.Context())
	end()
	cluster.AwaitAny(ended, corev1.SchemeGroupVersion.WithResource("limitranges"))
}
