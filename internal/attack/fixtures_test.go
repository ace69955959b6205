package attack

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	temporalclient "go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/devstack"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/nodemaintenance"
)

// tenantNamespace is the namespace of the tenant in each cluster.
const tenantNamespace = "tenant"

var temporalConnection = sync.OnceValues(func() (temporalclient.Client, error) {
	return temporalclient.Dial(temporalclient.Options{HostPort: theFleet.Temporal.Address, Namespace: theFleet.Temporal.Namespace, Identity: "administrator"})
})

// theTemporal is Temporal for the administrator of the fleet.
func theTemporal(t *testing.T) temporalclient.Client {
	t.Helper()
	connected, err := temporalConnection()
	require.NoError(t, err)
	return connected
}

// workflowOf is a workflow whose status a test reads.
type workflowOf[S any] struct {
	t  *testing.T
	id string
}

// status queries the status.
func (w workflowOf[S]) status() (status S) {
	w.t.Helper()
	return w.await(func(S) bool { return true })
}

// await queries the status until it matches.
func (w workflowOf[S]) await(matches func(S) bool) (status S) {
	w.t.Helper()
	connected := theTemporal(w.t)
	var err error
	if !assert.Eventually(w.t, func() bool {
		var value converter.EncodedValue
		if value, err = connected.QueryWorkflow(w.t.Context(), w.id, "", temporal.QueryStatus); err != nil {
			return false
		}
		status = *new(S)
		err = value.Get(&status)
		return err == nil && matches(status)
	}, limit, 100*time.Millisecond) {
		w.t.Fatalf("the last status of %s: %+v, %v", w.id, status, err)
	}
	return status
}

func (w workflowOf[S]) signal(name string) {
	w.t.Helper()
	require.NoError(w.t, theTemporal(w.t).SignalWorkflow(w.t.Context(), w.id, "", name, nil))
}

// maintenance is a running maintenance of a node.
type maintenance struct {
	workflowOf[maintenancev1.NodeMaintenanceStatus]
}

func (m maintenance) awaitState(state maintenancev1.NodeState) {
	m.t.Helper()
	m.await(func(s maintenancev1.NodeMaintenanceStatus) bool { return s.State == state })
}

var maintenances atomic.Int32

// maintain starts the maintenance of a node, which change may change first. It is cancelled after the test.
func maintain(t *testing.T, spoke *devstack.Cluster, node string, change func(*maintenancev1.NodeMaintenance)) maintenance {
	t.Helper()
	name := fmt.Sprintf("attacked-%d", maintenances.Add(1))
	object := maintenancev1.NodeMaintenance{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec:       maintenancev1.NodeMaintenanceSpec{NodeName: node, RequestorID: "administrator.example.com", DrainSpec: &maintenancev1.DrainSpec{TimeoutSeconds: new(int32(0))}},
	}
	if change != nil {
		change(&object)
	}
	options := temporal.NodeMaintenanceOptions(spoke.Name, node, object.Spec.RequestorID)
	options.ID, options.TaskQueue = temporal.NodeMaintenanceID(spoke.Name, "default", name), temporal.TaskQueue
	options.WorkflowIDReusePolicy = enumspb.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE
	_, err := theTemporal(t).ExecuteWorkflow(t.Context(), options, temporal.NodeMaintenance, nodemaintenance.Input{Cluster: spoke.Name, Object: object})
	require.NoError(t, err)
	t.Cleanup(func() { _ = theTemporal(t).CancelWorkflow(context.Background(), options.ID, "") })
	return maintenance{workflowOf[maintenancev1.NodeMaintenanceStatus]{t, options.ID}}
}

// guarded is a pod that may not be evicted until its budget is released.
type guarded struct {
	// name is also its label app.
	name, node string
	release    func()
}

var guards atomic.Int32

// guardPod runs a pod that no drain may evict before its release, on any node or always on one with these labels.
func guardPod(t *testing.T, spoke *devstack.Cluster, labelsOfNode ...map[string]string) guarded {
	t.Helper()
	name := fmt.Sprintf("guard-%d", guards.Add(1))
	labels := map[string]string{"app": name}
	deployments, budgets := spoke.Client.AppsV1().Deployments(tenantNamespace), spoke.Client.PolicyV1().PodDisruptionBudgets(tenantNamespace)
	guard := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(1)), Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "registry.example.com/guard:1.0"}}},
			},
		},
	}
	for _, labels := range labelsOfNode {
		guard.Spec.Template.Spec.NodeSelector = labels
	}
	_, err := deployments.Create(t.Context(), guard, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = budgets.Create(t.Context(), &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       policyv1.PodDisruptionBudgetSpec{MinAvailable: new(intstr.FromInt32(1)), Selector: &metav1.LabelSelector{MatchLabels: labels}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	release := func() { _ = budgets.Delete(context.Background(), name, metav1.DeleteOptions{}) }
	t.Cleanup(func() {
		release()
		_ = deployments.Delete(context.Background(), name, metav1.DeleteOptions{})
	})
	node := ""
	require.NoError(t, theFleet.Await(t.Context(), spoke, name+" runs and is guarded", []client.Object{&corev1.Pod{}, &policyv1.PodDisruptionBudget{}},
		func(ctx context.Context, reader client.Reader) (bool, error) {
			var pods corev1.PodList
			var budget policyv1.PodDisruptionBudget
			if err := reader.List(ctx, &pods, client.MatchingLabels(labels)); err != nil || len(pods.Items) != 1 {
				return false, err
			}
			node = pods.Items[0].Spec.NodeName
			err := reader.Get(ctx, client.ObjectKey{Namespace: tenantNamespace, Name: name}, &budget)
			return budget.Status.CurrentHealthy == 1 && budget.Status.ObservedGeneration > 0, client.IgnoreNotFound(err)
		}))
	return guarded{name, node, release}
}

// requireInService requires that a node is schedulable and has no mark.
func requireInService(t *testing.T, cluster kubernetes.Interface, name string) {
	t.Helper()
	node, err := cluster.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
	require.NoError(t, err)
	require.False(t, node.Spec.Unschedulable, "node %s is cordoned", name)
	require.Empty(t, kube.Owner(node), "node %s is marked", name)
}
