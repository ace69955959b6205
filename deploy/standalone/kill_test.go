package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	kubeclient "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"drydock.dev/drydock/internal/allow"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/chaos/invariants"
	"drydock.dev/drydock/internal/devstack"
	"drydock.dev/drydock/internal/devstack/devstacktest"
	"drydock.dev/drydock/internal/devstack/faultproxy"
	"drydock.dev/drydock/internal/devstack/fleet"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/temporal"
)

// killedNodes are maintained while the process is killed: the first by a NodeMaintenance, the second by a rollout.
var killedNodes = []string{"worker-1", "worker-2"}

// killed is a process that a test kills and starts again.
type killed struct {
	*standalone
	data, clustersFile string
	proxy              *faultproxy.Proxy
	// hub and spoke are clients of the administrator.
	hub, spoke kubeclient.Client
	// lost are the moments of the kills. The answers to requests that were in flight are lost.
	lost []invariants.Interval
}

// TestWorkContinuesAfterKillsAtEachStep kills the process while slots are granted, during drains, during Jobs and while nodes return to service. After one of
// the kills, another process continues with a copy of the directory, as after the loss of a machine whose volume is left. The audit log of the API server shows
// that each step is done once.
func TestWorkContinuesAfterKillsAtEachStep(t *testing.T) {
	hub, spoke := clusters(t)
	k := &killed{data: filepath.Join(t.TempDir(), "data"), hub: administrator(t, hub), spoke: administrator(t, spoke)}
	t.Cleanup(func() {
		deleteCRDs(t, k.hub)
		deleteCRDs(t, k.spoke) // the next test needs clusters without any
	})
	var err error
	k.proxy, err = faultproxy.Start(spoke.Config)
	require.NoError(t, err)
	k.clustersFile = clustersFileOf(t, k.proxy, hub, spoke)
	k.standalone = startWith(t, k.data, "--clusters", k.clustersFile)
	k.prepareWork(t)
	began := time.Now()
	cordons := k.proxy.Inject(faultproxy.Rule{Match: faultproxy.Match{Verbs: []string{"patch"}, Resource: "nodes", Body: `"unschedulable":true`}, Fault: faultproxy.Stop()})
	maintenance, rollout := k.startWork(t)

	awaitStopped(t, cordons, func(*faultproxy.Stopped) {}) // the slots are granted
	k.killAndRestart(t)
	k.awaitPods(t, "default", "is evicted", func(pod corev1.Pod) bool { return pod.DeletionTimestamp != nil })
	k.killAndRestart(t)
	k.unannotate(t, "default", devstack.AnnotationLeaveAfter)
	k.awaitPods(t, allow.NamespaceJobs, "runs", func(pod corev1.Pod) bool { return pod.Status.Phase == corev1.PodRunning })

	k.killNow(t)
	copied := filepath.Join(t.TempDir(), "copy")
	require.NoError(t, os.CopyFS(copied, os.DirFS(k.data)))
	k.data = copied
	uncordons := k.proxy.Inject(faultproxy.Rule{Match: faultproxy.Match{Verbs: []string{"patch"}, Resource: "nodes", Body: `"unschedulable":null`}, Fault: faultproxy.Stop()})
	k.restart(t)
	k.unannotate(t, allow.NamespaceJobs, devstack.AnnotationCompleteAfter)
	awaitStopped(t, uncordons, func(s *faultproxy.Stopped) { s.Forward() })
	k.killAndRestart(t)

	server := k.dial()
	for _, workflow := range []string{
		temporal.NodeMaintenanceID(spoke.Name, maintenance.GetNamespace(), maintenance.GetName()), temporal.ClusterGroupUpgradeID(rollout.GetNamespace(), rollout.GetName()),
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		require.NoError(t, server.GetWorkflow(ctx, workflow, "").Get(ctx, nil), workflow)
		cancel()
	}
	require.NoError(t, k.spoke.Delete(t.Context(), maintenance))
	require.NoError(t, k.hub.Delete(t.Context(), rollout))
	awaitGone(t, k.spoke, maintenance)
	awaitGone(t, k.hub, rollout)
	violations := invariants.Cluster{
		Name: spoke.Name, Actions: fleet.ActionsOf(devstacktest.AuditEvents(t, spoke)), Since: began, MaxOutOfService: len(killedNodes),
		Maintained: killedNodes, WithJob: killedNodes, AnswersLost: k.lost,
	}.Violations()
	require.Empty(t, violations)
	k.stop()
}

// administrator returns a client of the administrator of a cluster.
func administrator(t *testing.T, cluster *devstack.Cluster) kubeclient.Client {
	t.Helper()
	scheme, err := kube.NewScheme()
	require.NoError(t, err)
	objects, err := kubeclient.New(cluster.Config, kubeclient.Options{Scheme: scheme})
	require.NoError(t, err)
	return objects
}

// clustersFileOf writes a clusters file with a ServiceAccount on each cluster, so that the audit log distinguishes the process from the test. Requests to the
// spoke pass the proxy.
func clustersFileOf(t *testing.T, proxy *faultproxy.Proxy, hub, spoke *devstack.Cluster) string {
	t.Helper()
	const account = "drydock-initiator"
	contextOf := func(cluster *devstack.Cluster) kube.KubeconfigContext {
		objects := administrator(t, cluster)
		binding := &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "kill-test"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: kube.SystemNamespace, Name: account}},
		}
		for _, object := range []kubeclient.Object{
			&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: kube.SystemNamespace}}, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: allow.NamespaceJobs}},
			&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: kube.SystemNamespace, Name: account}}, binding,
		} {
			require.NoError(t, kubeclient.IgnoreAlreadyExists(objects.Create(t.Context(), object)))
		}
		t.Cleanup(func() { require.NoError(t, objects.Delete(context.Background(), binding)) })
		config, err := cluster.ServiceAccountConfig(t.Context(), kube.SystemNamespace, account)
		require.NoError(t, err)
		if cluster == spoke {
			config = proxy.Config(config)
		}
		path := filepath.Join(t.TempDir(), "kubeconfig")
		require.NoError(t, devstack.WriteKubeconfig(path, cluster.Name, config))
		return kube.KubeconfigContext{Kubeconfig: path, Context: cluster.Name}
	}
	content, err := yaml.Marshal(kube.ClustersFile{
		Hub: new(contextOf(hub)), Clusters: []kube.ClusterEntry{{Name: spoke.Name, KubeconfigContext: contextOf(spoke)}},
		Allow: allow.List{Jobs: []allow.Job{{Images: []string{"registry.example.com/*"}}}},
	})
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "clusters.yaml")
	require.NoError(t, os.WriteFile(path, content, 0o600))
	return path
}

// prepareWork waits until the process has prepared the clusters, allows the maintenance of all nodes at once, and creates a pod on each that does not leave it.
func (k *killed) prepareWork(t *testing.T) {
	t.Helper()
	k.awaitReady()
	require.EventuallyWithT(t, func(c *assert.CollectT) { // the last CRDs are installed
		assert.NoError(c, k.spoke.List(t.Context(), &maintenancev1.NodeMaintenanceList{}))
		assert.NoError(c, k.hub.List(t.Context(), &ranv1.ClusterGroupUpgradeList{}))
	}, 2*time.Minute, 100*time.Millisecond)
	for _, node := range killedNodes {
		require.NoError(t, k.spoke.Create(t.Context(), &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "app-" + node, Annotations: map[string]string{devstack.AnnotationLeaveAfter: "1000h"}},
			Spec: corev1.PodSpec{
				NodeSelector: map[string]string{corev1.LabelHostname: node}, Containers: []corev1.Container{{Name: "app", Image: "registry.example.com/app:1"}},
			},
		}))
	}
	k.awaitPods(t, "default", "runs", func(pod corev1.Pod) bool { return pod.Status.Phase == corev1.PodRunning })
	require.NoError(t, k.spoke.Create(t.Context(), &maintenancev1.MaintenanceOperatorConfig{
		ObjectMeta: metav1.ObjectMeta{Namespace: kube.SystemNamespace, Name: "kill-test"},
		Spec:       maintenancev1.MaintenanceOperatorConfigSpec{MaxParallelOperations: new(intstr.FromInt(len(killedNodes)))},
	}))
	managed := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "spoke-1"}, "spec": map[string]any{"hubAcceptsClient": true}}}
	managed.SetAPIVersion("cluster.open-cluster-management.io/v1")
	managed.SetKind("ManagedCluster")
	require.NoError(t, k.hub.Create(t.Context(), managed))
	t.Cleanup(func() { require.NoError(t, k.hub.Delete(context.Background(), managed)) })
}

// startWork applies a NodeMaintenance of the first node, and a rollout to the second one. Their Jobs do not complete by themselves.
func (k *killed) startWork(t *testing.T) (maintenance *maintenancev1.NodeMaintenance, rollout *ranv1.ClusterGroupUpgrade) {
	t.Helper()
	drain := &maintenancev1.DrainSpec{Force: true, TimeoutSeconds: new(int32(0))}
	action := &maintenancev1.Action{Type: maintenancev1.ActionJob, Job: &maintenancev1.JobAction{Namespace: allow.NamespaceJobs, Template: batchv1.JobTemplateSpec{
		Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{devstack.AnnotationCompleteAfter: "1000h"}},
			Spec:       corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "work", Image: "registry.example.com/work:1"}}},
		}},
	}}}
	maintenance = &maintenancev1.NodeMaintenance{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "killed"},
		Spec:       maintenancev1.NodeMaintenanceSpec{RequestorID: "test.example.com", NodeName: killedNodes[0], DrainSpec: drain, Action: action},
	}
	rollout = &ranv1.ClusterGroupUpgrade{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "killed"},
		Spec: ranv1.ClusterGroupUpgradeSpec{
			Clusters: []string{"spoke-1"}, RemediationStrategy: ranv1.RemediationStrategy{MaxConcurrency: intstr.FromInt(1), Timeout: 60},
			NodeMaintenance: &ranv1.NodeMaintenanceRemediation{SkipNodes: killedNodes[:1], DrainSpec: drain, Action: action},
		},
	}
	require.NoError(t, k.spoke.Create(t.Context(), maintenance))
	require.NoError(t, k.hub.Create(t.Context(), rollout))
	return maintenance, rollout
}

// awaitStopped waits until a request for each node is stopped, and calls a function for each.
func awaitStopped(t *testing.T, injection *faultproxy.Injection, each func(*faultproxy.Stopped)) {
	t.Helper()
	limit := time.NewTimer(2 * time.Minute)
	defer limit.Stop()
	for nodes := map[string]bool{}; len(nodes) < len(killedNodes); {
		select {
		case stopped := <-injection.Stopped():
			each(stopped)
			nodes[stopped.Name] = true
		case <-limit.C:
			require.Fail(t, "no request is stopped", "only for %v", nodes)
		}
	}
}

func (k *killed) killAndRestart(t *testing.T) {
	t.Helper()
	k.killNow(t)
	k.restart(t)
}

// killNow kills the process. Requests that are stopped do not reach the API server.
func (k *killed) killNow(t *testing.T) {
	t.Helper()
	k.kill()
	now := time.Now()
	k.lost = append(k.lost, invariants.Interval{From: now, To: now})
	k.proxy.RemoveAll()
}

// restart starts the process on clusters that are prepared: it would apply the CRDs again.
func (k *killed) restart(t *testing.T) {
	t.Helper()
	k.standalone = startWith(t, k.data, "--clusters", k.clustersFile, "--setup=false")
	k.awaitReady()
}

// awaitPods waits until a pod on each node is as described.
func (k *killed) awaitPods(t *testing.T, namespace, what string, is func(corev1.Pod) bool) {
	t.Helper()
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		var pods corev1.PodList
		assert.NoError(c, k.spoke.List(t.Context(), &pods, kubeclient.InNamespace(namespace)))
		nodes := map[string]bool{}
		for _, pod := range pods.Items {
			if is(pod) {
				nodes[pod.Spec.NodeName] = true
			}
		}
		assert.Len(c, nodes, len(killedNodes), "a pod in namespace %s on each node %s", namespace, what)
	}, 2*time.Minute, 100*time.Millisecond)
}

// unannotate removes an annotation of the local stack from pods, so that the action that it delays continues.
func (k *killed) unannotate(t *testing.T, namespace, annotation string) {
	t.Helper()
	var pods corev1.PodList
	require.NoError(t, k.spoke.List(t.Context(), &pods, kubeclient.InNamespace(namespace)))
	patch := kubeclient.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"annotations":{%q:null}}}`, annotation))
	for _, pod := range pods.Items {
		require.NoError(t, kubeclient.IgnoreNotFound(k.spoke.Patch(t.Context(), &pod, patch)))
	}
}
