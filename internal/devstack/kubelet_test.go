package devstack_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	watchtools "k8s.io/client-go/tools/watch"
	"k8s.io/utils/ptr"

	"drydock.dev/drydock/internal/devstack"
	"drydock.dev/drydock/internal/devstack/devstacktest"
)

// waitTimeout is long enough for a busy machine.
const waitTimeout = 5 * time.Minute

// forever is longer than any test: the delayed action happens only when the test removes the annotation.
const forever = "1000h"

func TestACluster(t *testing.T) {
	cluster := devstacktest.Start(t, devstack.Options{
		Clusters: []devstack.ClusterOptions{{Name: "spoke", CRDs: []string{"deploy/crds"}, Nodes: devstack.Nodes(1, 1)}},
	}).Cluster("spoke")
	tests := []struct {
		name string
		test func(*testing.T, *devstack.Cluster)
	}{
		{"runs a pod on a worker and evicts it", runsAPodAndEvictsIt},
		{"delays the readiness of a pod", delaysReadiness},
		{"delays the termination of a pod", delaysTermination},
		{"completes a Job", completesAJob},
		{"fails a Job whose pod exits with a code other than 0", failsAJob},
		{"makes a node not ready and ready again, and keeps its other conditions", togglesNodeReadiness},
		{"applies objects from files", appliesObjectsFromFiles},
		{"applies RBAC to a ServiceAccount, and logs its requests", appliesRBAC},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) { test.test(t, cluster) })
	}
}

func runsAPodAndEvictsIt(t *testing.T, cluster *devstack.Cluster) {
	namespace := devstacktest.Namespace(t, cluster)
	createPod(t, cluster, namespace, nil)
	running := awaitPod(t, cluster, namespace, "", ready)
	require.Equal(t, "worker-1", running.Spec.NodeName, "the control-plane node runs no workload")

	eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: podName, Namespace: namespace}}
	require.NoError(t, cluster.Client.CoreV1().Pods(namespace).EvictV1(t.Context(), eviction))

	awaitPod(t, cluster, namespace, running.ResourceVersion, gone)
}

func delaysReadiness(t *testing.T, cluster *devstack.Cluster) {
	namespace := devstacktest.Namespace(t, cluster)
	createPod(t, cluster, namespace, map[string]string{devstack.AnnotationReadyAfter: forever})
	scheduled := awaitPod(t, cluster, namespace, "", func(event watch.Event) bool {
		return event.Object.(*corev1.Pod).Spec.NodeName != ""
	})
	require.Equal(t, corev1.PodPending, scheduled.Status.Phase)

	unannotatePod(t, cluster, namespace, devstack.AnnotationReadyAfter)

	awaitPod(t, cluster, namespace, "", ready)
}

func delaysTermination(t *testing.T, cluster *devstack.Cluster) {
	namespace := devstacktest.Namespace(t, cluster)
	createPod(t, cluster, namespace, map[string]string{devstack.AnnotationLeaveAfter: forever})
	awaitPod(t, cluster, namespace, "", ready)
	require.NoError(t, cluster.Client.CoreV1().Pods(namespace).Delete(t.Context(), podName, metav1.DeleteOptions{}))
	terminating, err := cluster.Client.CoreV1().Pods(namespace).Get(t.Context(), podName, metav1.GetOptions{})
	require.NoError(t, err)
	require.NotNil(t, terminating.DeletionTimestamp)

	unannotatePod(t, cluster, namespace, devstack.AnnotationLeaveAfter)

	awaitPod(t, cluster, namespace, terminating.ResourceVersion, gone)
}

func completesAJob(t *testing.T, cluster *devstack.Cluster) {
	condition := runJob(t, cluster, nil)
	require.Equal(t, batchv1.JobComplete, condition)
}

func failsAJob(t *testing.T, cluster *devstack.Cluster) {
	condition := runJob(t, cluster, map[string]string{devstack.AnnotationExitCode: "1"})
	require.Equal(t, batchv1.JobFailed, condition)
}

// runJob runs a Job and returns its final condition.
func runJob(t *testing.T, cluster *devstack.Cluster, annotations map[string]string) batchv1.JobConditionType {
	t.Helper()
	jobs := cluster.Client.BatchV1().Jobs(devstacktest.Namespace(t, cluster))
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "reboot"}}
	job.Spec.BackoffLimit = ptr.To[int32](0)
	job.Spec.Template.Annotations = annotations
	job.Spec.Template.Spec = podSpec()
	job.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
	created, err := jobs.Create(t.Context(), job, metav1.CreateOptions{})
	require.NoError(t, err)
	var end batchv1.JobConditionType
	await(t, jobs, created.Name, created.ResourceVersion, func(event watch.Event) bool {
		for _, condition := range event.Object.(*batchv1.Job).Status.Conditions {
			if condition.Type == batchv1.JobComplete || condition.Type == batchv1.JobFailed {
				end = condition.Type
			}
		}
		return end != ""
	})
	return end
}

func togglesNodeReadiness(t *testing.T, cluster *devstack.Cluster) {
	nodes := cluster.Client.CoreV1().Nodes()
	mark := `{"status":{"conditions":[{"type":"Example","status":"True"}]}}`
	_, err := nodes.PatchStatus(t.Context(), "worker-1", []byte(mark))
	require.NoError(t, err)

	patchAnnotation(t, nodes, "worker-1", devstack.AnnotationNotReady, `"rebooting"`)
	await(t, nodes, "worker-1", "", func(event watch.Event) bool {
		node := event.Object.(*corev1.Node)
		return conditionOf(node, corev1.NodeReady) == corev1.ConditionFalse && hasTaint(node, corev1.TaintNodeNotReady)
	})

	patchAnnotation(t, nodes, "worker-1", devstack.AnnotationNotReady, "null")
	up := await(t, nodes, "worker-1", "", func(event watch.Event) bool {
		node := event.Object.(*corev1.Node)
		return conditionOf(node, corev1.NodeReady) == corev1.ConditionTrue && !hasTaint(node, corev1.TaintNodeNotReady)
	})
	require.Equal(t, corev1.ConditionTrue, conditionOf(up.(*corev1.Node), "Example"))
}

func appliesObjectsFromFiles(t *testing.T, cluster *devstack.Cluster) {
	namespace := devstacktest.Namespace(t, cluster)
	dir := t.TempDir()
	for name, value := range map[string]string{"first.yaml": "1", "second.yaml": "2"} {
		content := "# a comment\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings, namespace: " + namespace + "}\ndata: {value: \"" + value + "\"}\n"
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644))
	}

	require.NoError(t, cluster.Apply(t.Context(), dir))

	settings, err := cluster.Client.CoreV1().ConfigMaps(namespace).Get(t.Context(), "settings", metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, "2", settings.Data["value"], "files apply in the order of their names")

	broken := filepath.Join(dir, "broken.yaml")
	require.NoError(t, os.WriteFile(broken, []byte("apiVersion: v1\nkind: Nonsense\nmetadata: {name: settings}\n"), 0o644))
	err = cluster.Apply(t.Context(), broken)
	require.ErrorContains(t, err, "apply "+broken+" to cluster spoke: Nonsense /settings")
}

func appliesRBAC(t *testing.T, cluster *devstack.Cluster) {
	namespace := devstacktest.Namespace(t, cluster)
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "worker"}}
	_, err := cluster.Client.CoreV1().ServiceAccounts(namespace).Create(t.Context(), account, metav1.CreateOptions{})
	require.NoError(t, err)
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "worker"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "view"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: "worker"}},
	}
	_, err = cluster.Client.RbacV1().RoleBindings(namespace).Create(t.Context(), binding, metav1.CreateOptions{})
	require.NoError(t, err)

	config, err := cluster.ServiceAccountConfig(t.Context(), namespace, "worker")
	require.NoError(t, err)
	client, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)

	require.Eventually(t, func() bool { // the API server applies a binding with a delay
		_, err := client.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{})
		return err == nil
	}, waitTimeout, 20*time.Millisecond)
	err = client.CoreV1().Pods(namespace).Delete(t.Context(), podName, metav1.DeleteOptions{})
	require.True(t, apierrors.IsForbidden(err), "%v", err)

	require.Eventually(t, func() bool {
		events, err := cluster.AuditEvents()
		if err != nil {
			return false
		}
		for _, event := range events {
			if event.User.Username == "system:serviceaccount:"+namespace+":worker" && event.Verb == "delete" {
				return event.ResponseStatus.Code == 403
			}
		}
		return false
	}, waitTimeout, 20*time.Millisecond)
}

const podName = "web"

func createPod(t *testing.T, cluster *devstack.Cluster, namespace string, annotations map[string]string) {
	t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: podName, Annotations: annotations}, Spec: podSpec()}
	_, err := cluster.Client.CoreV1().Pods(namespace).Create(t.Context(), pod, metav1.CreateOptions{})
	require.NoError(t, err)
}

func podSpec() corev1.PodSpec {
	return corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "none"}}}
}

func unannotatePod(t *testing.T, cluster *devstack.Cluster, namespace, annotation string) {
	t.Helper()
	patchAnnotation(t, cluster.Client.CoreV1().Pods(namespace), podName, annotation, "null")
}

// patcher is the client of one kind of objects.
type patcher[T any] interface {
	Patch(context.Context, string, types.PatchType, []byte, metav1.PatchOptions, ...string) (T, error)
}

func patchAnnotation[T any](t *testing.T, objects patcher[T], name, annotation, value string) {
	t.Helper()
	patch := `{"metadata":{"annotations":{"` + annotation + `":` + value + `}}}`
	_, err := objects.Patch(t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	require.NoError(t, err)
}

func ready(event watch.Event) bool {
	return event.Object.(*corev1.Pod).Status.Phase == corev1.PodRunning
}

func gone(event watch.Event) bool { return event.Type == watch.Deleted }

func conditionOf(node *corev1.Node, kind corev1.NodeConditionType) corev1.ConditionStatus {
	for _, condition := range node.Status.Conditions {
		if condition.Type == kind {
			return condition.Status
		}
	}
	return ""
}

func hasTaint(node *corev1.Node, key string) bool {
	for _, taint := range node.Spec.Taints {
		if taint.Key == key {
			return true
		}
	}
	return false
}

func awaitPod(t *testing.T, cluster *devstack.Cluster, namespace, after string, condition func(watch.Event) bool) *corev1.Pod {
	t.Helper()
	return await(t, cluster.Client.CoreV1().Pods(namespace), podName, after, condition).(*corev1.Pod)
}

// watcher is the client of one kind of objects.
type watcher interface {
	Watch(context.Context, metav1.ListOptions) (watch.Interface, error)
}

// await returns the object of the first event after a resource version that satisfies the condition. Without a version it starts with the current
// object.
func await(t *testing.T, objects watcher, name, after string, condition func(watch.Event) bool) any {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waitTimeout)
	defer cancel()
	events, err := objects.Watch(ctx, metav1.ListOptions{
		ResourceVersion: after,
		FieldSelector:   fields.OneTermEqualSelector("metadata.name", name).String(),
	})
	require.NoError(t, err)
	event, err := watchtools.UntilWithoutRetry(ctx, events, func(event watch.Event) (bool, error) { return condition(event), nil })
	require.NoError(t, err)
	return event.Object
}
