package chaos

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drydock.dev/drydock/internal/allow"
	lcmv1 "drydock.dev/drydock/internal/apis/lcm/v1alpha1"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/devstack"
	"drydock.dev/drydock/internal/kube"
)

// All objects that scenarios create have the label. clear removes them.
const (
	fixtureLabel = "chaos"
	// podNamespace has the pods of scenarios. The worker may run Jobs in jobNamespace.
	podNamespace = "shop"
	jobNamespace = allow.NamespaceJobs
	// forever is longer than any scenario.
	forever = "1000h"
)

// barePod creates a pod without a controller on a node, so that no other node gets a replacement after its eviction.
func (s *scenarioRun) barePod(t *testing.T, at target, annotations map[string]string) string {
	t.Helper()
	name := s.name + "-" + at.node
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: podNamespace, Labels: map[string]string{fixtureLabel: name}, Annotations: annotations},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "app", Image: "registry.example.com/app:1.0"}}, Affinity: onNode(at.node),
			Tolerations: []corev1.Toleration{{Effect: corev1.TaintEffectNoSchedule, Operator: corev1.TolerationOpExists}},
		},
	}
	_, err := at.spoke.Client.CoreV1().Pods(podNamespace).Create(t.Context(), pod, metav1.CreateOptions{})
	require.NoError(t, err)
	require.NoError(t, s.Await(t.Context(), at.spoke, name+" runs", []client.Object{pod}, func(ctx context.Context, reader client.Reader) (bool, error) {
		var found corev1.Pod
		err := reader.Get(ctx, client.ObjectKeyFromObject(pod), &found)
		return found.Spec.NodeName != "" && (found.Status.Phase == corev1.PodRunning || annotations[devstack.AnnotationReadyAfter] != ""), client.IgnoreNotFound(err)
	}))
	return name
}

// onNode is the affinity of a pod to a node.
func onNode(node string) *corev1.Affinity {
	return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchFields: []corev1.NodeSelectorRequirement{{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{node}}},
		}},
	}}}
}

// unannotate removes an annotation of the local stack from pods, so that the action that it delayed continues.
func unannotate(t *testing.T, spoke *devstack.Cluster, namespace, annotation string, which metav1.ListOptions) {
	t.Helper()
	ctx := context.Background()
	pods, err := spoke.Client.CoreV1().Pods(namespace).List(ctx, which)
	require.NoError(t, err)
	require.NotEmpty(t, pods.Items, "pods with %s", annotation)
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:null}}}`, annotation)
	for _, pod := range pods.Items {
		_, err := spoke.Client.CoreV1().Pods(namespace).Patch(ctx, pod.Name, types.MergePatchType, patch, metav1.PatchOptions{})
		require.NoError(t, client.IgnoreNotFound(err))
	}
}

// endTermination lets a pod terminate.
func endTermination(t *testing.T, at target, pod string) {
	t.Helper()
	unannotate(t, at.spoke, podNamespace, devstack.AnnotationLeaveAfter, metav1.ListOptions{LabelSelector: fixtureLabel + "=" + pod})
}

// completeJob lets the Job on a node complete.
func completeJob(t *testing.T, at target) {
	t.Helper()
	unannotate(t, at.spoke, jobNamespace, devstack.AnnotationCompleteAfter, metav1.ListOptions{FieldSelector: "spec.nodeName=" + at.node})
}

// removePod deletes a pod as its owner does.
func removePod(t *testing.T, at target, name string) {
	t.Helper()
	require.NoError(t, at.spoke.Client.CoreV1().Pods(podNamespace).Delete(context.Background(), name, metav1.DeleteOptions{}))
}

// setReady makes a node ready or not ready.
func (s *scenarioRun) setReady(t *testing.T, at target, ready bool) {
	t.Helper()
	message := `"injected fault"`
	if ready {
		message = "null"
	}
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%s}}}`, devstack.AnnotationNotReady, message)
	_, err := at.spoke.Client.CoreV1().Nodes().Patch(context.Background(), at.node, types.MergePatchType, patch, metav1.PatchOptions{})
	require.NoError(t, err)
}

// lock creates a lock of a node for an application of the scenario. The returned function deletes it.
func (s *scenarioRun) lock(t *testing.T, at target, state lcmv1.LockState) (unlock func()) {
	t.Helper()
	lock := &lcmv1.NodeWorkloadLock{
		ObjectMeta: metav1.ObjectMeta{Name: s.name + "-" + at.node, Labels: map[string]string{fixtureLabel: s.name}},
		Spec:       lcmv1.NodeWorkloadLockSpec{ControllerName: s.name, NodeName: at.node},
	}
	status := lcmv1.WorkloadLockStatus{State: state}
	return s.createWithStatus(t, at.spoke, lock, func() { lock.Status = status })
}

// lockCluster is lock for a whole cluster.
func (s *scenarioRun) lockCluster(t *testing.T, spoke *devstack.Cluster) (unlock func()) {
	t.Helper()
	lock := &lcmv1.ClusterWorkloadLock{
		ObjectMeta: metav1.ObjectMeta{Name: s.name, Labels: map[string]string{fixtureLabel: s.name}},
		Spec:       lcmv1.ClusterWorkloadLockSpec{ControllerName: s.name},
	}
	return s.createWithStatus(t, spoke, lock, func() { lock.Status.State = lcmv1.LockActive })
}

// createWithStatus creates an object and its status, and returns the function that deletes it.
func (s *scenarioRun) createWithStatus(t *testing.T, spoke *devstack.Cluster, object client.Object, setStatus func()) (remove func()) {
	t.Helper()
	watched, err := s.Watch(t.Context(), spoke)
	require.NoError(t, err)
	require.NoError(t, watched.Client.Create(t.Context(), object))
	setStatus()
	require.NoError(t, watched.Client.Status().Update(t.Context(), object))
	return func() { require.NoError(t, watched.Client.Delete(context.Background(), object)) }
}

// clear removes the objects of scenarios from a spoke.
func (s *scenarioRun) clear(t *testing.T, spoke *devstack.Cluster) {
	ctx := context.Background()
	watched, err := s.Watch(ctx, spoke)
	require.NoError(t, err)
	for _, kind := range []client.Object{&corev1.Pod{}, &batchv1.Job{}} {
		for _, namespace := range []string{podNamespace, jobNamespace} {
			require.NoError(t, watched.Client.DeleteAllOf(ctx, kind, client.InNamespace(namespace), client.HasLabels{fixtureLabel}, client.GracePeriodSeconds(0)))
		}
	}
	for _, list := range []client.ObjectList{&lcmv1.NodeWorkloadLockList{}, &lcmv1.ClusterWorkloadLockList{}} {
		require.NoError(t, watched.Client.List(ctx, list, client.HasLabels{fixtureLabel}))
		// Delete one by one: the audit event of a collection does not name the objects.
		require.NoError(t, meta.EachListItem(list, func(lock runtime.Object) error { return watched.Client.Delete(ctx, lock.(client.Object)) }))
	}
	var nodes corev1.NodeList
	require.NoError(t, watched.Client.List(ctx, &nodes))
	for _, node := range nodes.Items {
		if _, notReady := node.Annotations[devstack.AnnotationNotReady]; notReady {
			s.setReady(t, target{spoke, node.Name}, true)
		}
		if kube.Owner(&node) == foreignOwner {
			s.annotate(t, target{spoke, node.Name}, kube.AnnotationOwner, "null")
		}
	}
}

// drainAll drains all pods, including those without a controller, without a timeout.
func drainAll() *maintenancev1.DrainSpec {
	return &maintenancev1.DrainSpec{Force: true, TimeoutSeconds: new(int32(0))}
}

// job is an action of type Job. The annotations control its simulated pod.
func job(annotations map[string]string) *maintenancev1.Action {
	labels := map[string]string{fixtureLabel: "job"}
	return &maintenancev1.Action{Type: maintenancev1.ActionJob, Job: &maintenancev1.JobAction{
		Namespace: jobNamespace,
		Template: batchv1.JobTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: annotations},
				Spec:       corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "work", Image: "registry.example.com/work:1.0"}}},
			}},
		},
	}}
}
