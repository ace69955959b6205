package kube_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drydock.dev/drydock/internal/kube"
)

// idling opens the stack's cluster with informers that end soon after their last use, and waits that do not check by themselves.
func idling(t *testing.T) *kube.Cluster {
	t.Helper()
	cluster, err := open(t, kube.Options{IdleTimeout: 100 * time.Millisecond, SafetyInterval: time.Hour}).Cluster(t.Context(), "spoke")
	require.NoError(t, err)
	return cluster
}

// requireEnds reads a kind once, and returns when its informer has ended.
func requireEnds(t *testing.T, cluster *kube.Cluster, kind client.Object) {
	t.Helper()
	informer, err := cluster.Cache.GetInformer(t.Context(), kind)
	require.NoError(t, err)
	require.Eventually(t, informer.IsStopped, 5*time.Minute, time.Millisecond)
}

func TestAnInformerThatNothingUsesEndsUntilItsNextUse(t *testing.T) {
	cluster := idling(t)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "idle", GenerateName: "p-"},
		Spec:       corev1.PodSpec{NodeName: "idle-node", Containers: []corev1.Container{{Name: "c", Image: "i"}}, AutomountServiceAccountToken: new(false)},
	}
	require.NoError(t, cluster.Client.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "idle"}}))
	require.NoError(t, cluster.Client.Create(t.Context(), serviceAccount("idle")))
	requireEnds(t, cluster, pod)
	require.NoError(t, cluster.Client.Create(t.Context(), pod))
	for range 3 {
		var pods corev1.PodList
		require.NoError(t, cluster.Cache.List(t.Context(), &pods, client.MatchingFields{kube.IndexNodeName: "idle-node"}))
		require.Len(t, pods.Items, 1, "the next informer has all objects and the index")
		requireEnds(t, cluster, pod)
	}
}

func TestAWaitKeepsItsInformer(t *testing.T) {
	cluster := idling(t)
	node := newNode(t, cluster)
	var due atomic.Bool
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	checks, result := awaiting(ctx, cluster, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node.Name}}, due.Load)
	require.Eventually(t, func() bool { return checks.Load() == 1 }, 5*time.Minute, time.Millisecond)
	for range 3 { // the idle timeout passes as often
		requireEnds(t, cluster, &corev1.Namespace{})
	}
	due.Store(true)
	label(t, cluster, node, "changed")
	require.NoError(t, <-result)
	requireEnds(t, cluster, &corev1.Node{})
}
