package kube_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"drydock.dev/drydock/internal/devstack/devstacktest"
	"drydock.dev/drydock/internal/kube"
)

// runningPod is a pod that a budget can protect.
func runningPod(t *testing.T, cluster *kube.Cluster) *corev1.Pod {
	t.Helper()
	namespace := devstacktest.Namespace(t, stack.Cluster("spoke"))
	require.NoError(t, cluster.Client.Create(t.Context(), serviceAccount(namespace)))
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web", Labels: map[string]string{"app": "web"}},
		Spec:       corev1.PodSpec{NodeName: "node-a", Containers: []corev1.Container{{Name: "c", Image: "i"}}, TerminationGracePeriodSeconds: new(int64(0))},
	}
	require.NoError(t, cluster.Client.Create(t.Context(), pod))
	pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}
	require.NoError(t, cluster.Client.Status().Update(t.Context(), pod))
	return pod
}

func evict(t *testing.T, cluster *kube.Cluster, pod *corev1.Pod, uid types.UID) error {
	t.Helper()
	return cluster.Evictions.Evict(t.Context(), &policyv1.Eviction{
		ObjectMeta:    metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name},
		DeleteOptions: &metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(uid))},
	})
}

func TestARefusedEvictionIsNotRepeated(t *testing.T) {
	pod := runningPod(t, spoke(t))
	evictions := &asked{path: "/api/v1/namespaces/" + pod.Namespace + "/pods/" + pod.Name + "/eviction"}
	config := rest.CopyConfig(stack.Cluster("spoke").Config)
	config.Wrap(func(inner http.RoundTripper) http.RoundTripper {
		evictions.RoundTripper = inner
		return evictions
	})
	clusters := kube.New(kube.FromConfigs(nil, map[string]*rest.Config{"spoke": config}), kube.Options{})
	t.Cleanup(clusters.Close)
	cluster, err := clusters.Cluster(t.Context(), "spoke")
	require.NoError(t, err)
	require.NoError(t, cluster.Client.Create(t.Context(), &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: "web"},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: pod.Labels}},
	}))
	err = evict(t, cluster, pod, pod.UID)
	require.True(t, apierrors.IsTooManyRequests(err), "%v", err)
	require.True(t, apierrors.HasStatusCause(err, policyv1.DisruptionBudgetCause), "%v", err)
	seconds, asked := apierrors.SuggestsClientDelay(err)
	require.True(t, asked, "the API server asks for a delay")
	require.Positive(t, seconds)
	require.Len(t, evictions.sent(), 1, "the client does not wait for the delay")
}

func TestAnEvictionDoesNotAffectAPodWithTheSameName(t *testing.T) {
	cluster := spoke(t)
	pod := runningPod(t, cluster)
	require.True(t, apierrors.IsConflict(evict(t, cluster, pod, "another")))
	require.NoError(t, evict(t, cluster, pod, pod.UID))
	require.True(t, apierrors.IsNotFound(evict(t, cluster, pod, pod.UID)))
}
