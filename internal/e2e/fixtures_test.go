package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	toolswatch "k8s.io/client-go/tools/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/devstack"
	"drydock.dev/drydock/internal/devstack/devstacktest"
	"drydock.dev/drydock/internal/devstack/fleet"
	"drydock.dev/drydock/internal/kube"
	planning "drydock.dev/drydock/internal/rollout"
	"drydock.dev/drydock/internal/temporal"
)

// rollout returns a manifest that drains every node of the clusters, one cluster after the other.
func rollout(name, extra string, timeoutMinutes int, clusters ...string) string {
	return fmt.Sprintf(`
apiVersion: ran.openshift.io/v1alpha1
kind: ClusterGroupUpgrade
metadata: {name: %s, namespace: default}
spec:
  clusters: [%s]
  remediationStrategy: {maxConcurrency: 1, timeout: %d}
  nodeMaintenance:
    drainSpec: {timeoutSeconds: 0}
    action:
      type: job
      job:
        namespace: drydock-jobs
        template: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: work, image: registry.example.com/work:1.0}]}}}}
  %s
`, name, strings.Join(clusters, ", "), timeoutMinutes, extra)
}

// rolloutWithJob returns a rollout whose Job ends with that exit code.
func rolloutWithJob(name, exitCode string, clusters ...string) string {
	manifest := rollout(name, "", 60, clusters...)
	job := fmt.Sprintf(`{spec: {backoffLimit: 0, template: {metadata: {annotations: {%q: %q}}, spec:`, devstack.AnnotationExitCode, exitCode)
	return strings.Replace(manifest, "{spec: {template: {spec:", job, 1)
}

// changesSince returns the changes of objects since that version of their list, until the context ends. It resumes a watch that the API server ends.
// If that is impossible, the last change is an error.
func changesSince(ctx context.Context, t *testing.T, version string, watching cache.WatchFuncWithContext) <-chan watch.Event {
	t.Helper()
	watcher, err := toolswatch.NewRetryWatcherWithContext(ctx, version, &cache.ListWatch{WatchFuncWithContext: watching})
	require.NoError(t, err)
	return watcher.ResultChan()
}

// withCanary adds a canary to the rollout.
func withCanary(manifest, canary string) string {
	return strings.Replace(manifest, "remediationStrategy: {", "remediationStrategy: {canaries: ["+canary+"], ", 1)
}

// register creates a ManagedCluster that no worker of the fleet knows, and deletes it after the test.
func register(t *testing.T, name string, annotations map[string]string) {
	t.Helper()
	object := &unstructured.Unstructured{}
	object.SetAPIVersion("cluster.open-cluster-management.io/v1")
	object.SetKind("ManagedCluster")
	object.SetName(name)
	object.SetLabels(map[string]string{"name": name})
	object.SetAnnotations(annotations)
	hub, err := client.New(theFleet.Hub.Config, client.Options{})
	require.NoError(t, err)
	require.NoError(t, hub.Create(t.Context(), object))
	t.Cleanup(func() { require.NoError(t, hub.Delete(context.Background(), object)) })
}

// savedStatus is the final status of a rollout that is saved on the hub.
func savedStatus(t *testing.T, name string) ranv1.ClusterGroupUpgradeStatus {
	t.Helper()
	saved, err := theFleet.Hub.Client.CoreV1().ConfigMaps(kube.SystemNamespace).Get(t.Context(), planning.SavedName("default", name), metav1.GetOptions{})
	require.NoError(t, err)
	var object ranv1.ClusterGroupUpgrade
	require.NoError(t, yaml.UnmarshalStrict([]byte(saved.Data[planning.SavedKey]), &object))
	return object.Status
}

func actionsOf(t *testing.T, spoke *devstack.Cluster) []fleet.Action {
	t.Helper()
	return fleet.ActionsOf(devstacktest.AuditEvents(t, spoke))
}

// initiatorActions omits the actions of lock controllers, which have work without a rollout.
func initiatorActions(t *testing.T, spoke *devstack.Cluster) []fleet.Action {
	t.Helper()
	return slices.DeleteFunc(actionsOf(t, spoke), fleet.Action.ByLockController)
}

func indexOf(actions []fleet.Action, what string) int {
	return slices.IndexFunc(actions, func(d fleet.Action) bool { return d.What == what })
}

// deploySlowPod runs a pod on the node that terminates slowly, and returns the name of its Deployment. It is deleted after the test.
func deploySlowPod(t *testing.T, spoke *devstack.Cluster, node string, annotations map[string]string) string {
	t.Helper()
	slowPod := deployment("slow-pod", 1, annotations)
	slowPod.Spec.Template.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{Weight: 100, Preference: corev1.NodeSelectorTerm{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{node}}},
		}}},
	}}
	deploy(t, spoke, slowPod)
	// The scheduler may not know yet that the node was uncordoned after another test.
	pods := spoke.Client.CoreV1().Pods(slowPod.Namespace)
	require.NoError(t, theFleet.Await(t.Context(), spoke, slowPod.Name+" is on "+node, []client.Object{&corev1.Pod{}}, func(ctx context.Context, reader client.Reader) (bool, error) {
		var list corev1.PodList
		if err := reader.List(ctx, &list, client.InNamespace(slowPod.Namespace), client.MatchingLabels{"app": slowPod.Name}); err != nil {
			return false, err
		}
		for _, pod := range list.Items {
			switch {
			case pod.DeletionTimestamp != nil, pod.Spec.NodeName == "":
			case pod.Spec.NodeName == node:
				return podReady(&pod), nil
			default:
				err := pods.Delete(ctx, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0)), Preconditions: metav1.NewUIDPreconditions(string(pod.UID))})
				return false, client.IgnoreNotFound(err)
			}
		}
		return false, nil
	}))
	return slowPod.Name
}

// deployBlocked runs three pods with a budget that needs two healthy ones. One is not ready, so none may be evicted until release makes it ready.
func deployBlocked(t *testing.T, spoke *devstack.Cluster) (release func()) {
	t.Helper()
	guarded := deployment("guarded", 2, nil)
	deploy(t, spoke, guarded)
	require.NoError(t, theFleet.AwaitWorkloads(t.Context(), spoke))
	late := deployment("late", 1, map[string]string{devstack.AnnotationReadyAfter: "1000h"})
	late.Spec.Template.Labels["tier"] = guarded.Spec.Template.Labels["tier"]
	deploy(t, spoke, late)

	two := intstr.FromInt32(2)
	budgets := spoke.Client.PolicyV1().PodDisruptionBudgets("shop")
	_, err := budgets.Create(t.Context(), &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: "guarded"},
		Spec:       policyv1.PodDisruptionBudgetSpec{MinAvailable: &two, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "guarded"}}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, budgets.Delete(context.Background(), "guarded", metav1.DeleteOptions{})) })
	require.NoError(t, theFleet.Await(t.Context(), spoke, "the budget has counted its pods", []client.Object{&policyv1.PodDisruptionBudget{}},
		func(ctx context.Context, reader client.Reader) (bool, error) {
			var budget policyv1.PodDisruptionBudget
			err := reader.Get(ctx, client.ObjectKey{Namespace: "shop", Name: "guarded"}, &budget)
			return budget.Status.ExpectedPods == 3 && budget.Status.CurrentHealthy == 2, client.IgnoreNotFound(err)
		}))
	return func() {
		patch := fmt.Appendf(nil, `{"spec":{"template":{"metadata":{"annotations":{%q:null}}}}}`, devstack.AnnotationReadyAfter)
		_, err := spoke.Client.AppsV1().Deployments("shop").Patch(t.Context(), late.Name, types.MergePatchType, patch, metav1.PatchOptions{})
		require.NoError(t, err)
	}
}

func deployment(name string, replicas int32, annotations map[string]string) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "shop"},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": name, "tier": name}, Annotations: annotations},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "registry.example.com/" + name + ":1.0"}}},
			},
		},
	}
}

// deploy creates a Deployment, and deletes it after the test.
func deploy(t *testing.T, spoke *devstack.Cluster, deployment *appsv1.Deployment) {
	t.Helper()
	_, err := spoke.Client.AppsV1().Deployments(deployment.Namespace).Create(t.Context(), deployment, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() { remove(t, spoke, deployment.Name) })
}

// remove deletes a Deployment, and ends the slow termination of its pods.
func remove(t *testing.T, spoke *devstack.Cluster, name string) {
	ctx := context.Background()
	require.NoError(t, spoke.Client.AppsV1().Deployments("shop").Delete(ctx, name, metav1.DeleteOptions{}))
	endSlowTermination(t, spoke, name)
}

// endSlowTermination lets the pods of a Deployment terminate.
func endSlowTermination(t *testing.T, spoke *devstack.Cluster, app string) {
	ctx := context.Background()
	pods, err := spoke.Client.CoreV1().Pods("shop").List(ctx, metav1.ListOptions{LabelSelector: "app=" + app})
	require.NoError(t, err)
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:null}}}`, devstack.AnnotationLeaveAfter)
	for _, pod := range pods.Items {
		_, err := spoke.Client.CoreV1().Pods("shop").Patch(ctx, pod.Name, types.MergePatchType, patch, metav1.PatchOptions{})
		require.NoError(t, client.IgnoreNotFound(err))
	}
}

// awaitEviction waits until a pod of the Deployment is being deleted.
func awaitEviction(t *testing.T, spoke *devstack.Cluster, app string) {
	t.Helper()
	require.NoError(t, theFleet.Await(t.Context(), spoke, "a pod of "+app+" is evicted", []client.Object{&corev1.Pod{}},
		func(ctx context.Context, reader client.Reader) (bool, error) {
			var pods corev1.PodList
			err := reader.List(ctx, &pods, client.MatchingLabels{"app": app})
			return slices.ContainsFunc(pods.Items, func(p corev1.Pod) bool { return p.DeletionTimestamp != nil }), err
		}))
}

// awaitStatus waits until the status of a rollout satisfies a condition.
func awaitStatus(t *testing.T, name string, matches func(ranv1.ClusterGroupUpgradeStatus) bool) ranv1.ClusterGroupUpgradeStatus {
	t.Helper()
	return ask(t, temporal.ClusterGroupUpgradeID("default", name), matches)
}

// clusterAt is the status of a cluster of a rollout, by its index; the zero value before the rollout is planned.
func clusterAt(s ranv1.ClusterGroupUpgradeStatus, index int) ranv1.ClusterStatus {
	if index >= len(s.Clusters) {
		return ranv1.ClusterStatus{}
	}
	return s.Clusters[index]
}

func awaitPhase(t *testing.T, name, reason string) ranv1.ClusterGroupUpgradeStatus {
	t.Helper()
	return awaitStatus(t, name, func(s ranv1.ClusterGroupUpgradeStatus) bool {
		progressing := meta.FindStatusCondition(s.Conditions, ranv1.ConditionProgressing)
		return progressing != nil && progressing.Reason == reason
	})
}

// allow sets how many nodes of a cluster may be in maintenance at once, during the test.
func allow(t *testing.T, spoke *devstack.Cluster, nodes int) {
	t.Helper()
	configure(t, spoke, maintenancev1.MaintenanceOperatorConfigSpec{MaxParallelOperations: new(intstr.FromInt(nodes))})
}

// configure sets the configuration of a cluster during the test.
func configure(t *testing.T, spoke *devstack.Cluster, spec maintenancev1.MaintenanceOperatorConfigSpec) {
	t.Helper()
	watched, err := theFleet.Watch(t.Context(), spoke)
	require.NoError(t, err)
	config := &maintenancev1.MaintenanceOperatorConfig{ObjectMeta: metav1.ObjectMeta{Name: "budgets", Namespace: kube.SystemNamespace}, Spec: spec}
	require.NoError(t, watched.Client.Create(t.Context(), config))
	t.Cleanup(func() { require.NoError(t, watched.Client.Delete(context.Background(), config)) })
}
