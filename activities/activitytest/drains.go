package activitytest

import (
	"context"
	"slices"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/testsuite"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drydock.dev/drydock/activities/activitykit"
	"drydock.dev/drydock/activities/drain"
	"drydock.dev/drydock/activities/node"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/devstack"
	"drydock.dev/drydock/internal/devstack/devstacktest"
	"drydock.dev/drydock/internal/temporal"
)

// Drained is the result of a drain.
type Drained struct {
	Status maintenancev1.DrainStatus
	Err    error
}

// StartDrain runs the activity in the background, as a worker does.
func StartDrain(t *testing.T, in drain.Input, workflow activitykit.Signaller, before *maintenancev1.DrainStatus) chan Drained {
	t.Helper()
	Mark(t, in.NodeRef)
	var suite testsuite.WorkflowTestSuite
	environment := suite.NewTestActivityEnvironment()
	drains := &drain.Activities{Clusters: Clusters, Waits: activitykit.Waits{Temporal: workflow}}
	environment.RegisterActivity(drains)
	if before != nil {
		environment.SetHeartbeatDetails(temporal.Observation{Drain: before})
	}
	ended := make(chan Drained, 1)
	go func() {
		var result Drained
		value, err := environment.ExecuteActivity(drains.Drain, in)
		if result.Err = err; err == nil {
			result.Err = value.Get(&result.Status)
		}
		ended <- result
	}()
	return ended
}

// Mark marks a node, if it exists, like the cordon before a drain.
func Mark(t *testing.T, ref activitykit.NodeRef) {
	t.Helper()
	_, err := (&node.Activities{Clusters: Clusters}).Cordon(t.Context(), node.CordonInput{NodeRef: ref})
	if temporal.ErrorType(err) != temporal.ErrNodeGone {
		require.NoError(t, err)
	}
}

func DrainNode(t *testing.T, in drain.Input) (maintenancev1.DrainStatus, error) {
	t.Helper()
	result := <-StartDrain(t, in, nil, nil)
	return result.Status, result.Err
}

// Pair runs an application with one pod on a node, and one that fits only on the two nodes of the pair. Its budget requires one healthy pod.
func (n Tenant) Pair(t *testing.T, app, node string) *policyv1.PodDisruptionBudget {
	t.Helper()
	n.Pod(t, node, app, WithLabel("app", app))
	homeless := n.Create(t, "", app+"-homeless", WithLabel("app", app), func(pod *corev1.Pod) {
		pod.Spec.NodeSelector = map[string]string{"test.drydock.dev/shop": "pair"}
	})
	budget := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: n.Namespace, Name: app},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MinAvailable: new(intstr.FromInt32(1)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}},
		},
	}
	require.NoError(t, TestCluster(t).Client.Create(t.Context(), budget))
	cluster, err := Clusters.Cluster(t.Context(), SpokeName)
	require.NoError(t, err)
	kinds := []client.Object{budget.DeepCopy(), homeless.DeepCopy()}
	require.NoError(t, cluster.Await(t.Context(), kinds, func(ctx context.Context) (bool, error) {
		if err := cluster.Cache.Get(ctx, client.ObjectKeyFromObject(budget), budget); err != nil {
			return false, client.IgnoreNotFound(err)
		}
		if err := cluster.Cache.Get(ctx, client.ObjectKeyFromObject(homeless), homeless); err != nil {
			return false, client.IgnoreNotFound(err)
		}
		refused := false
		for _, condition := range homeless.Status.Conditions {
			refused = refused || condition.Reason == corev1.PodReasonUnschedulable
		}
		return refused && budget.Status.ExpectedPods == 2 && budget.Status.CurrentHealthy == 1, nil
	}))
	return budget
}

// EvictionsInOrder returns, from the audit log, the evicted pods of the namespace in order.
func (n Tenant) EvictionsInOrder(t *testing.T) (accepted []string) {
	t.Helper()
	for _, event := range devstacktest.AuditEvents(t, Stack.Cluster(SpokeName)) {
		if event.ObjectRef != nil && event.ObjectRef.Namespace == n.Namespace && event.ObjectRef.Subresource == "eviction" && event.ResponseStatus.Code == 201 {
			accepted = append(accepted, event.ObjectRef.Name)
		}
	}
	return accepted
}

// AwaitPods returns when the caches of the activities have that many pods of the namespace, all of them ready.
func (n Tenant) AwaitPods(t *testing.T, count int) {
	t.Helper()
	cluster, err := Clusters.Cluster(t.Context(), SpokeName)
	require.NoError(t, err)
	require.NoError(t, cluster.Await(t.Context(), []client.Object{&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: n.Namespace}}}, func(ctx context.Context) (bool, error) {
		var pods corev1.PodList
		err := cluster.Cache.List(ctx, &pods, client.InNamespace(n.Namespace))
		return len(pods.Items) == count && !slices.ContainsFunc(pods.Items, func(p corev1.Pod) bool { return !PodReady(&p) }), err
	}))
}

// EvictionRequestsBefore counts, from the audit log, the eviction requests for each other pod, accepted or not, between the start of a pod's drain, which
// is the last mark on its node, and its own eviction.
func (n Tenant) EvictionRequestsBefore(t *testing.T, node, pod string) map[string]int {
	t.Helper()
	asked := map[string]int{}
	for _, event := range devstacktest.AuditEvents(t, Stack.Cluster(SpokeName)) {
		object := event.ObjectRef
		switch {
		case object == nil:
		case object.Resource == "nodes" && object.Subresource == "status" && object.Name == node && event.Verb == "patch":
			clear(asked)
		case object.Namespace != n.Namespace || object.Subresource != "eviction":
		case object.Name == pod:
			return asked
		default:
			asked[object.Name]++
		}
	}
	require.Fail(t, "the pod was not evicted", pod)
	return nil
}

// Job runs a Job on a node, whose pod completes after that time, and returns when the caches of the activities have the pod.
func (n Tenant) Job(t *testing.T, node, name string, after time.Duration) {
	t.Helper()
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: n.Namespace, Name: name},
		Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{devstack.AnnotationCompleteAfter: after.String()}},
			Spec: corev1.PodSpec{
				NodeName: node, RestartPolicy: corev1.RestartPolicyNever,
				Containers: []corev1.Container{{Name: "main", Image: "registry.k8s.io/pause:3.10"}},
			},
		}},
	}
	require.NoError(t, TestCluster(t).Client.Create(t.Context(), job))
	cluster, err := Clusters.Cluster(t.Context(), SpokeName)
	require.NoError(t, err)
	require.NoError(t, cluster.Await(t.Context(), []client.Object{&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: n.Namespace}}}, func(ctx context.Context) (bool, error) {
		var pods corev1.PodList
		err := cluster.Cache.List(ctx, &pods, client.InNamespace(n.Namespace), client.MatchingLabels{batchv1.JobNameLabel: name})
		return len(pods.Items) == 1, err
	}))
}

// ReadsUntilEvictionRequests returns, from the audit log, the reads of a user before that many eviction requests in the namespace.
func (n Tenant) ReadsUntilEvictionRequests(t *testing.T, user string, times int) (reads []string) {
	t.Helper()
	asked := 0
	require.Eventually(t, func() bool {
		asked, reads = 0, nil
		events, err := Stack.Cluster(SpokeName).AuditEvents()
		if err != nil {
			return false
		}
		for _, event := range events {
			if event.User.Username != user || event.ObjectRef == nil {
				continue
			}
			if event.ObjectRef.Namespace == n.Namespace && event.ObjectRef.Subresource == "eviction" {
				if asked++; asked == times {
					return true
				}
			}
			if slices.Contains([]string{"get", "list"}, event.Verb) {
				reads = append(reads, readOf(event))
			}
		}
		return false
	}, EventTimeout, 200*time.Millisecond, "only %d requests", &asked)
	return reads
}

func readOf(event auditv1.Event) string {
	return event.Verb + " " + event.ObjectRef.Resource + " " + event.ObjectRef.Name
}
