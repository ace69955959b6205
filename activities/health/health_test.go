package health

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"drydock.dev/drydock/activities/activitykit"
	"drydock.dev/drydock/activities/activitytest"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	"drydock.dev/drydock/internal/devstack"
	"drydock.dev/drydock/internal/devstack/devstacktest"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/temporal"
)

func checkups() *Activities { return &Activities{Clusters: activitytest.Clusters} }

// nodeGateOf starts AwaitNodeHealthy and returns a channel with its result.
func nodeGateOf(t *testing.T, in AwaitNodeHealthyInput) <-chan error {
	t.Helper()
	end := make(chan error, 1)
	go func() {
		_, err := checkups().AwaitNodeHealthy(t.Context(), in)
		end <- err
	}()
	return end
}

// agentOn places a DaemonSet on one node, and waits until it has a pod there.
func agentOn(t *testing.T, ref activitykit.NodeRef, podAnnotations map[string]string) *appsv1.DaemonSet {
	t.Helper()
	labels := map[string]string{"app": "agent"}
	ds := &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: devstacktest.Namespace(t, activitytest.Stack.Cluster(activitytest.SpokeName)), Name: "agent"},
		Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: podAnnotations},
				Spec: corev1.PodSpec{
					NodeSelector: map[string]string{corev1.LabelHostname: ref.Node},
					Containers:   []corev1.Container{{Name: "main", Image: "agent"}},
				},
			},
		},
	}
	spoke := activitytest.TestCluster(t)
	require.NoError(t, spoke.Client.Create(t.Context(), ds))
	require.Eventually(t, func() bool {
		var pods corev1.PodList
		err := spoke.Client.List(t.Context(), &pods, client.InNamespace(ds.Namespace))
		return err == nil && len(pods.Items) == 1 && pods.Items[0].Spec.NodeName == ref.Node
	}, activitytest.EventTimeout, 20*time.Millisecond)
	return ds
}

func TestAHealthyNodePassesImmediately(t *testing.T) {
	ref := activitytest.TestNode(t)
	agentOn(t, ref, nil)
	_, err := checkups().AwaitNodeHealthy(t.Context(), AwaitNodeHealthyInput{NodeRef: ref, Since: time.Now(), Deadline: activitytest.InSeconds(120)})
	require.NoError(t, err)
}

func TestANodeCheckWaitsUntilTheNodeIsReady(t *testing.T) {
	ref := activitytest.TestNode(t)
	activitytest.Changed(t, ref.Node, activitytest.Annotated(devstack.AnnotationNotReady, "rebooting"))
	require.Eventually(t, func() bool { return !activitytest.NodeReady(t, ref.Node) }, activitytest.EventTimeout, 20*time.Millisecond)

	end := nodeGateOf(t, AwaitNodeHealthyInput{NodeRef: ref, Since: time.Now(), Deadline: activitytest.InSeconds(120)})
	require.Never(t, func() bool { return len(end) > 0 }, 300*time.Millisecond, 50*time.Millisecond)
	activitytest.Changed(t, ref.Node, activitytest.Unannotated(devstack.AnnotationNotReady))
	require.NoError(t, <-end)
	require.True(t, activitytest.NodeReady(t, ref.Node))
}

func TestANodeThatStaysNotReadyFailsTheGateWithItsStartTime(t *testing.T) {
	ref := activitytest.TestNode(t)
	activitytest.Changed(t, ref.Node, activitytest.Annotated(devstack.AnnotationNotReady, "rebooting"))
	require.Eventually(t, func() bool { return !activitytest.NodeReady(t, ref.Node) }, activitytest.EventTimeout, 20*time.Millisecond)

	err := <-nodeGateOf(t, AwaitNodeHealthyInput{NodeRef: ref, Since: time.Now(), Deadline: activitytest.InSeconds(1)})
	require.Equal(t, temporal.ErrHealthGateFailed, temporal.ErrorType(err))
	require.ErrorContains(t, err, fmt.Sprintf("health gate of node %[1]s failed: node and its DaemonSet pods: Node %[1]s: condition Ready is False", ref.Node))
	require.ErrorContains(t, err, "rebooting; seen so since ")
	require.Equal(t, "Node "+ref.Node, temporal.Blockers(err)[0].String())
}

func TestAnUnreadyDaemonSetPodBlocksTheNode(t *testing.T) {
	ref := activitytest.TestNode(t)
	ds := agentOn(t, ref, map[string]string{devstack.AnnotationReadyAfter: "1h"})
	err := <-nodeGateOf(t, AwaitNodeHealthyInput{NodeRef: ref, Since: time.Now(), Deadline: activitytest.InSeconds(1)})
	require.Equal(t, temporal.ErrHealthGateFailed, temporal.ErrorType(err))
	require.Equal(t, "DaemonSetPodNotReady", temporal.Blockers(err)[0].Reason)
	require.Contains(t, activitytest.EventLines(activitytest.EventsOf(t, ref.Node)), "Normal HealthChecks: before the node is returned it must be Ready and its DaemonSet pods ready")

	// The same node is healthy after the DaemonSet is deleted.
	end := nodeGateOf(t, AwaitNodeHealthyInput{NodeRef: ref, Since: time.Now(), Deadline: activitytest.InSeconds(120)})
	require.NoError(t, activitytest.TestCluster(t).Client.Delete(t.Context(), ds, client.PropagationPolicy(metav1.DeletePropagationForeground)))
	require.NoError(t, <-end)
}

func TestANodeThatIsDeletedEndsItsHealthChecks(t *testing.T) {
	ref := activitytest.TestNode(t)
	activitytest.Changed(t, ref.Node, activitytest.Annotated(devstack.AnnotationNotReady, "rebooting"))
	require.Eventually(t, func() bool { return !activitytest.NodeReady(t, ref.Node) }, activitytest.EventTimeout, 20*time.Millisecond)
	end := nodeGateOf(t, AwaitNodeHealthyInput{NodeRef: ref, Since: time.Now()})
	require.NoError(t, activitytest.TestCluster(t).Client.Delete(t.Context(), activitytest.GetNode(t, ref.Node)))
	require.Equal(t, temporal.ErrNodeGone, temporal.ErrorType(<-end))
	require.Equal(t, temporal.ErrNodeGone, temporal.ErrorType(<-nodeGateOf(t, AwaitNodeHealthyInput{NodeRef: ref, Since: time.Now()})))
}

// web creates a Deployment. The test writes its status, because the hub has no controllers.
func web(t *testing.T) *appsv1.Deployment {
	t.Helper()
	labels := map[string]string{"app": "web"}
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: devstacktest.Namespace(t, activitytest.Stack.Cluster(activitytest.HubName)), Name: "web", Labels: labels},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(2)),
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "web"}}},
			},
		},
	}
	require.NoError(t, hubCluster(t).Client.Create(t.Context(), d))
	return d
}

// hubCluster returns an administrator's access to the hub.
func hubCluster(t *testing.T) *kube.Cluster {
	t.Helper()
	hub, err := activitytest.Admin.Cluster(t.Context(), activitytest.HubName)
	require.NoError(t, err)
	return hub
}

// reports writes the Deployment's status: that many replicas are available at the current generation.
func reports(t *testing.T, d *appsv1.Deployment, available int32) {
	t.Helper()
	d.Status = appsv1.DeploymentStatus{
		ObservedGeneration: d.Generation, Replicas: 2, UpdatedReplicas: 2, ReadyReplicas: available, AvailableReplicas: available, UnavailableReplicas: 2 - available,
	}
	require.NoError(t, hubCluster(t).Client.Status().Update(t.Context(), d))
}

func workloadsOf(d *appsv1.Deployment) drydockv1.HealthCheck {
	return drydockv1.HealthCheck{Name: "shop", Workload: &drydockv1.WorkloadCheck{Namespace: d.Namespace}}
}

func clusterGateOf(t *testing.T, checks ...drydockv1.HealthCheck) <-chan error {
	t.Helper()
	end := make(chan error, 1)
	in := AwaitClusterHealthyInput{Cluster: activitytest.HubName, Since: time.Now(), Checks: checks}
	go func() { end <- checkups().AwaitClusterHealthy(t.Context(), in) }()
	return end
}

func TestAClusterCheckWaitsForItsWorkloads(t *testing.T) {
	d := web(t)
	reports(t, d, 1)
	end := clusterGateOf(t, workloadsOf(d))
	require.Never(t, func() bool { return len(end) > 0 }, 300*time.Millisecond, 50*time.Millisecond)
	reports(t, d, 2)
	require.NoError(t, <-end)
}

// The second answer is the relapse, however late the gate asks. The third one begins the stable time again, the fourth one ends it, and the gate asks once
// more before it opens.
func TestTheStableTimeRestartsAfterARelapse(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if asked.Add(1) == 2 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	t.Cleanup(server.Close)
	require.NoError(t, <-clusterGateOf(t, drydockv1.HealthCheck{Name: "shop", StableSeconds: 2, HTTP: &drydockv1.HTTPCheck{URL: server.URL}}))
	require.GreaterOrEqual(t, asked.Load(), int32(5))
}

func TestTheTimeoutOfACheckIncludesTimeWithoutAWorker(t *testing.T) {
	d := web(t)
	reports(t, d, 1)
	in := AwaitClusterHealthyInput{Cluster: activitytest.HubName, Since: time.Now().Add(-time.Hour), Checks: []drydockv1.HealthCheck{workloadsOf(d)}}
	err := checkups().AwaitClusterHealthy(t.Context(), in)
	require.Equal(t, temporal.ErrHealthGateFailed, temporal.ErrorType(err), "its 300 s have passed")
	require.ErrorContains(t, err, "health gate of cluster hub failed: shop: Deployment "+d.Namespace+"/web: 1 of 2 replicas are available")
	require.Equal(t, "Deployment "+d.Namespace+"/web", temporal.Blockers(err)[0].String())

	reports(t, d, 2)
	require.NoError(t, checkups().AwaitClusterHealthy(t.Context(), in), "a late check that finds it healthy succeeds")
}

func TestMaintainedNodesMustBeReadyUnlessDeleted(t *testing.T) {
	ref := activitytest.TestNode(t)
	in := AwaitClusterHealthyInput{Cluster: activitytest.SpokeName, Nodes: []string{ref.Node, "long-gone"}, Since: time.Now(), Deadline: activitytest.InSeconds(120)}
	require.NoError(t, checkups().AwaitClusterHealthy(t.Context(), in))

	activitytest.Changed(t, ref.Node, activitytest.Annotated(devstack.AnnotationNotReady, "rebooting"))
	require.Eventually(t, func() bool { return !activitytest.NodeReady(t, ref.Node) }, activitytest.EventTimeout, 20*time.Millisecond)
	in.Deadline = activitytest.InSeconds(0.5)
	err := checkups().AwaitClusterHealthy(t.Context(), in)
	require.Equal(t, temporal.ErrHealthGateFailed, temporal.ErrorType(err))
	require.ErrorContains(t, err, "maintained nodes: Node "+ref.Node)
}

// turbineCheck checks a custom kind.
func turbineCheck() drydockv1.HealthCheck {
	return drydockv1.HealthCheck{Name: "turbine", TimeoutSeconds: new(int32(120)), Condition: &drydockv1.ConditionCheck{
		APIVersion: "wind.example.com/v1", Kind: "Turbine", Name: "north", Type: "Turning",
	}}
}

func TestAConditionCheckWaitsOnAnyKindOfObject(t *testing.T) {
	letChecksRead(t, "wind.example.com", "turbines")
	serveTurbines(t)
	hub := hubCluster(t).Client
	north := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "wind.example.com/v1", "kind": "Turbine", "metadata": map[string]any{"name": "north"},
	}}
	require.NoError(t, hub.Create(t.Context(), north))
	end := clusterGateOf(t, turbineCheck())
	waits := func(why string) {
		require.Never(t, func() bool { return len(end) > 0 }, 300*time.Millisecond, 50*time.Millisecond, why)
	}
	waits("the condition is missing")
	turns := func(observed int64) {
		condition := map[string]any{"type": "Turning", "status": "True", "observedGeneration": observed}
		north.Object["status"] = map[string]any{"conditions": []any{condition}}
		require.NoError(t, hub.Status().Update(t.Context(), north))
	}
	north.Object["spec"] = map[string]any{"speed": "low"}
	require.NoError(t, hub.Update(t.Context(), north))
	turns(1)
	waits("the condition is for an older generation")
	turns(2)
	require.NoError(t, <-end)
}

// serveTurbines installs the CRD of turbines.
func serveTurbines(t *testing.T) {
	t.Helper()
	anything := &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: new(true)}
	_, err := envtest.InstallCRDs(activitytest.Stack.Cluster(activitytest.HubName).Config, envtest.CRDInstallOptions{CRDs: []*apiextensionsv1.CustomResourceDefinition{{
		ObjectMeta: metav1.ObjectMeta{Name: "turbines.wind.example.com"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "wind.example.com", Scope: apiextensionsv1.ClusterScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "turbines", Singular: "turbine", Kind: "Turbine", ListKind: "TurbineList"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true, Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: anything},
				Subresources: &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}},
			}},
		},
	}}})
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		served, err := hubCluster(t).Serves(t.Context(), schema.GroupVersionKind{Group: "wind.example.com", Version: "v1", Kind: "Turbine"})
		return served && err == nil
	}, activitytest.EventTimeout, 100*time.Millisecond)
}

func TestAKindThatIsNotServedIsReported(t *testing.T) {
	check := turbineCheck()
	check.Condition.Kind = "Windmill"
	check.TimeoutSeconds = new(int32(1))
	err := <-clusterGateOf(t, check)
	require.Equal(t, temporal.ErrHealthGateFailed, temporal.ErrorType(err), "%v", err)
	require.ErrorContains(t, err, "turbine: the cluster does not serve Windmill of wind.example.com/v1")
}

func TestAForbiddenKindIsReported(t *testing.T) {
	check := drydockv1.HealthCheck{Name: "api", TimeoutSeconds: new(int32(1)), Condition: &drydockv1.ConditionCheck{
		APIVersion: "apiregistration.k8s.io/v1", Kind: "APIService", Name: "v1.apps", Type: "Available",
	}}
	err := <-clusterGateOf(t, check)
	require.Equal(t, temporal.ErrHealthGateFailed, temporal.ErrorType(err), "%v", err)
	require.ErrorContains(t, err, "may not list and watch APIService of apiregistration.k8s.io/v1: grant it to the worker")
}

// letChecksRead grants the worker on the hub what a health check needs beyond the shipped roles.
func letChecksRead(t *testing.T, group, resource string) {
	t.Helper()
	hub := hubCluster(t).Client
	role := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: resource},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{group}, Resources: []string{resource}, Verbs: []string{"get", "list", "watch"}}},
	}
	require.NoError(t, hub.Create(t.Context(), role))
	require.NoError(t, hub.Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: resource},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: resource},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "drydock-system", Name: "drydock-initiator"}},
	}))
	devstacktest.Granted(t, activitytest.Stack.Cluster(activitytest.HubName), devstacktest.ServiceAccount("drydock-initiator"),
		authorizationv1.ResourceAttributes{Verb: "list", Group: group, Resource: resource})
}

func TestAnInvalidCheckIsAnInvalidSpec(t *testing.T) {
	status := drydockv1.HealthCheck{Name: "odd", Condition: &drydockv1.ConditionCheck{APIVersion: "v1", Kind: "Status", Name: "x", Type: "Ready"}}
	err := <-clusterGateOf(t, status)
	require.Equal(t, temporal.ErrInvalidSpec, temporal.ErrorType(err))
	require.ErrorContains(t, err, "condition.kind: a cluster keeps no objects of kind Status")

	version := drydockv1.HealthCheck{Name: "odd", Condition: &drydockv1.ConditionCheck{APIVersion: "a/b/c", Kind: "X", Name: "x", Type: "Ready"}}
	err = <-clusterGateOf(t, version)
	require.Equal(t, temporal.ErrInvalidSpec, temporal.ErrorType(err))
	require.ErrorContains(t, err, `health check "odd": invalid check: condition.apiVersion`)
}
