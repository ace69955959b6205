package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubeclient "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	lcmv1 "drydock.dev/drydock/internal/apis/lcm/v1alpha1"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/devstack"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/sweeper"
)

// jobNamespace has the Jobs of maintenances.
const jobNamespace = "drydock-jobs"

// temporalConnection is a connection to Temporal as the user ann, which all tests share.
var temporalConnection = sync.OnceValues(func() (client.Client, error) {
	return client.Dial(client.Options{HostPort: theFleet.Temporal.Address, Namespace: theFleet.Temporal.Namespace, Identity: "ann"})
})

func temporalClient(t *testing.T) client.Client {
	t.Helper()
	connected, err := temporalConnection()
	require.NoError(t, err)
	return connected
}

func terminate(t *testing.T, workflowID string) {
	t.Helper()
	require.NoError(t, temporalClient(t).TerminateWorkflow(t.Context(), workflowID, "", "by hand"))
}

// startMaintenance starts the maintenance of a node. Without an action in its spec, a requestor works on the node.
func startMaintenance(t *testing.T, at target, spec maintenancev1.NodeMaintenanceSpec) {
	t.Helper()
	spec.NodeName, spec.RequestorID = at.node, "ann.example.com"
	object := maintenancev1.NodeMaintenance{
		TypeMeta:   metav1.TypeMeta{APIVersion: maintenancev1.GroupVersion.String(), Kind: "NodeMaintenance"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: at.name()}, Spec: spec,
	}
	text, err := yaml.Marshal(object)
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "maintenance.yaml")
	require.NoError(t, os.WriteFile(path, text, 0o600))
	succeeds(t, "node", "maintain", "-f", path, "--cluster", at.Name)
}

// ask queries the status of a workflow until it satisfies a condition.
func ask[S any](t *testing.T, workflowID string, matches func(S) bool) S {
	t.Helper()
	connected := temporalClient(t)
	var status S
	var err error
	if !assert.Eventually(t, func() bool {
		var value converter.EncodedValue
		if value, err = connected.QueryWorkflow(t.Context(), workflowID, "", temporal.QueryStatus); err != nil {
			return false
		}
		status = *new(S)
		err = value.Get(&status)
		return err == nil && matches(status)
	}, stateLimit, 200*time.Millisecond) {
		t.Fatalf("the last status of %s: %+v, %v", workflowID, status, err)
	}
	return status
}

func awaitNodeState(t *testing.T, workflowID string, state maintenancev1.NodeState) {
	t.Helper()
	ask(t, workflowID, func(s maintenancev1.NodeMaintenanceStatus) bool { return s.State == state })
}

func awaitReason(reason string) func(*testing.T, target) {
	return func(t *testing.T, at target) {
		t.Helper()
		ask(t, at.workflowID(), func(s maintenancev1.NodeMaintenanceStatus) bool { return s.Wait != nil && s.Wait.Reason == reason })
	}
}

// awaitCleanedUp waits until the sweeper has cleaned up that many marks of a workflow, and returns its findings.
func awaitCleanedUp(t *testing.T, spoke *devstack.Cluster, workflowID string, marks int) []sweeper.Finding {
	t.Helper()
	cleanedUp := func(s sweeper.Status) []sweeper.Finding {
		return slices.DeleteFunc(slices.Clone(s.Findings), func(f sweeper.Finding) bool {
			return f.Workflow != workflowID || f.State != sweeper.FindingCleanedUp
		})
	}
	status := ask(t, temporal.SweeperID(spoke.Name), func(s sweeper.Status) bool { return len(cleanedUp(s)) >= marks })
	return cleanedUp(status)
}

// marksOf returns the objects with the mark of a maintenance, as the sweeper names them.
func marksOf(t *testing.T, at target) []string {
	t.Helper()
	ours := func(owner string) bool {
		workflow, _ := kube.OwnerWorkflow(owner)
		return workflow == at.workflowID()
	}
	var marks []string
	found := node(t, at.Cluster, at.node)
	marked := ours(kube.Owner(found))
	for _, condition := range found.Status.Conditions {
		marked = marked || slices.ContainsFunc(kube.ConditionOwners(condition), ours)
	}
	if marked {
		marks = append(marks, "Node "+at.node)
	}
	watched, err := theFleet.Watch(t.Context(), at.Cluster)
	require.NoError(t, err)
	var requests lcmv1.NodeMaintenanceRequestList
	require.NoError(t, watched.Client.List(t.Context(), &requests))
	for i := range requests.Items {
		if ours(kube.Owner(&requests.Items[i])) {
			marks = append(marks, "NodeMaintenanceRequest "+requests.Items[i].Name)
		}
	}
	var clusterRequests lcmv1.ClusterMaintenanceRequestList
	require.NoError(t, watched.Client.List(t.Context(), &clusterRequests))
	for i := range clusterRequests.Items {
		if ours(kube.Owner(&clusterRequests.Items[i])) {
			marks = append(marks, "ClusterMaintenanceRequest "+clusterRequests.Items[i].Name)
		}
	}
	var jobs batchv1.JobList
	require.NoError(t, watched.Client.List(t.Context(), &jobs))
	for i := range jobs.Items {
		if ours(kube.Owner(&jobs.Items[i])) {
			marks = append(marks, "Job "+jobs.Items[i].Namespace+"/"+jobs.Items[i].Name)
		}
	}
	return marks
}

// barePod runs a pod without a controller on a node, and deletes it after the test.
func barePod(t *testing.T, at target, annotations map[string]string) {
	t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "bare-pod-" + at.node, Namespace: "shop", Labels: map[string]string{testLabel: "bare-pod", "app": "bare-pod"}, Annotations: annotations},
		Spec: corev1.PodSpec{
			Containers:  []corev1.Container{{Name: "app", Image: "registry.example.com/app:1.0"}},
			NodeName:    at.node,
			Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
		},
	}
	pods := at.Client.CoreV1().Pods(pod.Namespace)
	_, err := pods.Create(t.Context(), pod, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() {
		now := metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}
		require.NoError(t, kubeclient.IgnoreNotFound(pods.Delete(context.Background(), pod.Name, now)))
	})
}

// lockNode creates a lock of another application for a node, until the end of the test.
func lockNode(t *testing.T, at target) {
	t.Helper()
	putLock(t, at.Cluster, &lcmv1.NodeWorkloadLock{
		ObjectMeta: metav1.ObjectMeta{Name: testLabel + "-" + at.node, Labels: map[string]string{testLabel: ""}},
		Spec:       lcmv1.NodeWorkloadLockSpec{ControllerName: testLabel, NodeName: at.node},
	})
}

// unlock deletes the locks that lockNode has created.
func unlock(t *testing.T, spoke *devstack.Cluster) {
	t.Helper()
	watched, err := theFleet.Watch(t.Context(), spoke)
	require.NoError(t, err)
	require.NoError(t, watched.Client.DeleteAllOf(t.Context(), &lcmv1.NodeWorkloadLock{}, kubeclient.MatchingLabels{testLabel: ""}))
}

func lockCluster(t *testing.T, spoke *devstack.Cluster) {
	t.Helper()
	putLock(t, spoke, &lcmv1.ClusterWorkloadLock{
		ObjectMeta: metav1.ObjectMeta{Name: testLabel}, Spec: lcmv1.ClusterWorkloadLockSpec{ControllerName: testLabel},
	})
}

func putLock(t *testing.T, spoke *devstack.Cluster, lock kubeclient.Object) {
	t.Helper()
	watched, err := theFleet.Watch(t.Context(), spoke)
	require.NoError(t, err)
	require.NoError(t, watched.Client.Create(t.Context(), lock))
	t.Cleanup(func() {
		require.NoError(t, kubeclient.IgnoreNotFound(watched.Client.Delete(context.Background(), lock)))
	})
	status := lcmv1.WorkloadLockStatus{State: lcmv1.LockActive}
	switch lock := lock.(type) {
	case *lcmv1.NodeWorkloadLock:
		lock.Status = status
	case *lcmv1.ClusterWorkloadLock:
		lock.Status = status
	}
	require.NoError(t, watched.Client.Status().Update(t.Context(), lock))
}

// occupy starts another maintenance of the node.
func occupy(t *testing.T, at target) {
	t.Helper()
	succeeds(t, "node", "maintain", at.node, "--cluster", at.Name, "--name", "first", "--drain=false", "--wait")
}

// stillOccupied requires that the other maintenance keeps the node after the cleanup, and ends it.
func stillOccupied(t *testing.T, at target) {
	t.Helper()
	awaitCleanedUp(t, at.Cluster, at.workflowID(), 1)
	require.Equal(t, temporal.NodeMaintenanceID(at.Name, "default", "first"), ownerOf(node(t, at.Cluster, at.node)))
	succeeds(t, "node", "done", "first", "--cluster", at.Name)
}

func ownerOf(node *corev1.Node) string {
	workflow, _ := kube.OwnerWorkflow(kube.Owner(node))
	return workflow
}

func awaitPlanned(t *testing.T, at target) {
	t.Helper()
	require.NoError(t, theFleet.Await(t.Context(), at.Cluster, at.node+" has the mark of the waiting maintenance", []kubeclient.Object{&corev1.Node{}},
		func(context.Context, kubeclient.Reader) (bool, error) { return len(marksOf(t, at)) > 0, nil }))
}

func signalDone(t *testing.T, at target) {
	t.Helper()
	awaitNodeState(t, at.workflowID(), maintenancev1.NodeReady)
	awaitDone(t, at.name(), at.Cluster)
}

func signalFailed(t *testing.T, at target) {
	t.Helper()
	awaitNodeState(t, at.workflowID(), maintenancev1.NodeReady)
	succeeds(t, "node", "fail", at.name(), "--cluster", at.Name)
}

// refuseCordon releases the lock of the node when an admission policy refuses its cordon.
func refuseCordon(t *testing.T, at target) {
	t.Helper()
	awaitReason("WorkloadLocksHeld")(t, at)
	meta := metav1.ObjectMeta{Name: "no-cordon"}
	admission := at.Client.AdmissionregistrationV1()
	_, err := admission.ValidatingAdmissionPolicies().Create(t.Context(), &admissionv1.ValidatingAdmissionPolicy{ObjectMeta: meta, Spec: admissionv1.ValidatingAdmissionPolicySpec{
		MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{
			ResourceNames: []string{at.node},
			RuleWithOperations: admissionv1.RuleWithOperations{
				Operations: []admissionv1.OperationType{admissionv1.Update},
				Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"nodes"}},
			},
		}}},
		Validations: []admissionv1.Validation{{
			Expression: "!has(object.spec.unschedulable) || !object.spec.unschedulable", Reason: new(metav1.StatusReasonForbidden),
		}},
	}}, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = admission.ValidatingAdmissionPolicyBindings().Create(t.Context(), &admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: meta, Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
		PolicyName: meta.Name, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
	}}, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx := context.Background()
		require.NoError(t, admission.ValidatingAdmissionPolicyBindings().Delete(ctx, meta.Name, metav1.DeleteOptions{}))
		require.NoError(t, admission.ValidatingAdmissionPolicies().Delete(ctx, meta.Name, metav1.DeleteOptions{}))
	})
	require.Eventually(t, func() bool {
		try := metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}}
		_, err := at.Client.CoreV1().Nodes().Patch(t.Context(), at.node, types.MergePatchType, []byte(`{"spec":{"unschedulable":true}}`), try)
		return apierrors.IsForbidden(err)
	}, stateLimit, 50*time.Millisecond, "the admission policy applies")
	unlock(t, at.Cluster)
}

// cancelWhileTheJobRuns cancels the maintenance. The pod of the Job terminates slowly, and the cleanup waits for it.
func cancelWhileTheJobRuns(t *testing.T, at target) {
	t.Helper()
	awaitReason("JobRunning")(t, at)
	succeeds(t, "node", "cancel", at.name(), "--cluster", at.Name)
}

// endJobTermination lets the pod of the Job terminate when the sweeper waits for it.
func endJobTermination(t *testing.T, at target) {
	t.Helper()
	ask(t, temporal.SweeperID(at.Name), func(s sweeper.Status) bool {
		return slices.ContainsFunc(s.Findings, func(f sweeper.Finding) bool {
			return f.Workflow == at.workflowID() && f.State == sweeper.FindingInProgress
		})
	})
	pods, err := at.Client.CoreV1().Pods(jobNamespace).List(t.Context(), metav1.ListOptions{FieldSelector: "spec.nodeName=" + at.node})
	require.NoError(t, err)
	require.Len(t, pods.Items, 1)
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:null}}}`, devstack.AnnotationLeaveAfter)
	_, err = at.Client.CoreV1().Pods(jobNamespace).Patch(t.Context(), pods.Items[0].Name, types.MergePatchType, patch, metav1.PatchOptions{})
	require.NoError(t, err)
}

// jobAction is an action of type Job whose pod has these annotations.
func jobAction(annotations map[string]string) *maintenancev1.Action {
	return &maintenancev1.Action{Type: maintenancev1.ActionJob, Job: &maintenancev1.JobAction{
		Namespace: jobNamespace,
		Template: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Annotations: annotations},
			Spec:       corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "work", Image: "registry.example.com/work:1.0"}}},
		}}},
	}}
}
