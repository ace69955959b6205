package activitytest

import (
	"bufio"
	"context"
	"encoding/json"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drydock.dev/drydock/internal/devstack/devstacktest"
)

// Tenant is a namespace with an object that controls pods, as an operator's custom resource does: its pods are not recreated.
type Tenant struct {
	Namespace  string
	controller metav1.OwnerReference
}

func NewTenant(t *testing.T) Tenant {
	t.Helper()
	namespace := devstacktest.Namespace(t, Stack.Cluster(SpokeName))
	owner := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "operator"}}
	require.NoError(t, TestCluster(t).Client.Create(t.Context(), owner))
	return Tenant{namespace, metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: owner.Name, UID: owner.UID, Controller: ptr.To(true)}}
}

// Pod creates a pod on a node and returns it once it is ready.
func (n Tenant) Pod(t *testing.T, node, name string, changes ...func(*corev1.Pod)) *corev1.Pod {
	t.Helper()
	pod := n.Create(t, node, name, changes...)
	n.AwaitReady(t, pod)
	return pod
}

func (n Tenant) Create(t *testing.T, node, name string, changes ...func(*corev1.Pod)) *corev1.Pod {
	t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: n.Namespace, Name: name, Labels: map[string]string{"app": "web"}, OwnerReferences: []metav1.OwnerReference{n.controller},
		},
		Spec: corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "main", Image: "registry.k8s.io/pause:3.10"}}},
	}
	for _, change := range changes {
		change(pod)
	}
	require.NoError(t, TestCluster(t).Client.Create(t.Context(), pod))
	return pod
}

// AwaitReady returns when the caches of the activities have the pod as ready.
func (n Tenant) AwaitReady(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	cluster, err := Clusters.Cluster(t.Context(), SpokeName)
	require.NoError(t, err)
	require.NoError(t, cluster.Await(t.Context(), []client.Object{pod.DeepCopy()}, func(ctx context.Context) (bool, error) {
		err := cluster.Cache.Get(ctx, client.ObjectKeyFromObject(pod), pod)
		return err == nil && PodReady(pod), client.IgnoreNotFound(err)
	}))
}

func PodReady(pod *corev1.Pod) bool {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

// Budget creates a budget for the pods with app=web, and returns it when the caches of the activities have it with its counts.
func (n Tenant) Budget(t *testing.T, name string, minAvailable, pods int32) *policyv1.PodDisruptionBudget {
	t.Helper()
	budget := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: n.Namespace, Name: name},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MinAvailable: ptr.To(intstr.FromInt32(minAvailable)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
		},
	}
	require.NoError(t, TestCluster(t).Client.Create(t.Context(), budget))
	cluster, err := Clusters.Cluster(t.Context(), SpokeName)
	require.NoError(t, err)
	require.NoError(t, cluster.Await(t.Context(), []client.Object{budget.DeepCopy()}, func(ctx context.Context) (bool, error) {
		err := cluster.Cache.Get(ctx, client.ObjectKeyFromObject(budget), budget)
		return err == nil && budget.Status.CurrentHealthy == pods, client.IgnoreNotFound(err)
	}))
	return budget
}

// Lower lowers the required pods of a budget.
func Lower(t *testing.T, budget *policyv1.PodDisruptionBudget, minAvailable int32) {
	t.Helper()
	patch := client.MergeFrom(budget.DeepCopy())
	budget.Spec.MinAvailable = ptr.To(intstr.FromInt32(minAvailable))
	require.NoError(t, TestCluster(t).Client.Patch(t.Context(), budget, patch))
}

// Left returns the names of the pods of the namespace that are not terminating.
func (n Tenant) Left(t *testing.T) []string {
	t.Helper()
	var pods corev1.PodList
	require.NoError(t, TestCluster(t).Client.List(t.Context(), &pods, client.InNamespace(n.Namespace)))
	var names []string
	for _, pod := range pods.Items {
		if pod.DeletionTimestamp.IsZero() {
			names = append(names, pod.Name)
		}
	}
	return names
}

// RequireEvictions requires that the audit log has exactly one eviction of each of these pods.
func (n Tenant) RequireEvictions(t *testing.T, pods ...string) {
	t.Helper()
	slices.Sort(pods)
	var accepted []string
	// The log is written after the response.
	require.Eventually(t, func() bool {
		accepted = n.Evictions(t)
		return len(accepted) >= len(pods)
	}, time.Minute, 50*time.Millisecond, "only %v were evicted", &accepted)
	require.Equal(t, pods, accepted)
}

// Evictions returns, from the audit log, a pod of the namespace for each accepted eviction.
func (n Tenant) Evictions(t *testing.T) (accepted []string) {
	t.Helper()
	file, err := os.Open(Stack.Cluster(SpokeName).AuditLogFile)
	require.NoError(t, err)
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var event auditv1.Event
		if json.Unmarshal(lines.Bytes(), &event) != nil || event.ObjectRef == nil || event.ResponseStatus == nil {
			continue // the last line may be half written
		}
		if event.ObjectRef.Namespace == n.Namespace && event.ObjectRef.Subresource == "eviction" && event.ResponseStatus.Code == 201 {
			accepted = append(accepted, event.ObjectRef.Name)
		}
	}
	require.NoError(t, lines.Err())
	slices.Sort(accepted)
	return accepted
}

func WithAnnotation(key, value string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { metav1.SetMetaDataAnnotation(&pod.ObjectMeta, key, value) }
}

func WithLabel(key, value string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Labels[key] = value }
}

func WithoutController(pod *corev1.Pod) { pod.OwnerReferences = nil }
