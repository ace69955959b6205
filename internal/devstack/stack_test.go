package devstack_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	watchtools "k8s.io/client-go/tools/watch"

	"drydock.dev/drydock/internal/devstack"
	"drydock.dev/drydock/internal/devstack/devstacktest"
)

// waitTimeout bounds what takes milliseconds on an idle machine.
const waitTimeout = 30 * time.Second

func TestAStackRunsPodsAndEvictsThem(t *testing.T) {
	stack := devstacktest.Start(t, devstack.Options{
		Clusters: []devstack.ClusterOptions{{Name: "spoke", Nodes: devstack.Nodes(1, 1)}},
		Temporal: &devstack.TemporalOptions{},
	})
	cluster := stack.Cluster("spoke")
	namespace := devstacktest.Namespace(t, cluster)
	pods := cluster.Client.CoreV1().Pods(namespace)

	_, err := pods.Create(t.Context(), pod("web", nil), metav1.CreateOptions{})
	require.NoError(t, err)
	running := awaitPod(t, cluster, namespace, "web", "", func(event watch.Event) bool {
		return event.Object.(*corev1.Pod).Status.Phase == corev1.PodRunning
	})
	require.Equal(t, "worker-1", running.Spec.NodeName, "control planes take no workload")

	eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: namespace}}
	require.NoError(t, pods.EvictV1(t.Context(), eviction))
	awaitPod(t, cluster, namespace, "web", running.ResourceVersion, func(event watch.Event) bool { return event.Type == watch.Deleted })
}

func pod(name string, annotations map[string]string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "none"}}},
	}
}

// awaitPod returns the pod of the first event after a resource version that the condition holds for. Without a version
// it begins with the pod as it is.
func awaitPod(t *testing.T, cluster *devstack.Cluster, namespace, name, after string, condition func(watch.Event) bool) *corev1.Pod {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waitTimeout)
	defer cancel()
	events, err := cluster.Client.CoreV1().Pods(namespace).Watch(ctx, metav1.ListOptions{
		ResourceVersion: after,
		FieldSelector:   fields.OneTermEqualSelector("metadata.name", name).String(),
	})
	require.NoError(t, err)
	event, err := watchtools.UntilWithoutRetry(ctx, events, func(event watch.Event) (bool, error) { return condition(event), nil })
	require.NoError(t, err)
	return event.Object.(*corev1.Pod)
}
