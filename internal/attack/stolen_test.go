package attack

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	temporalclient "go.temporal.io/sdk/client"
	"google.golang.org/protobuf/types/known/durationpb"
	authenticationv1 "k8s.io/api/authentication/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	failurepb "go.temporal.io/api/failure/v1"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"

	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/temporal"
)

// The ServiceAccount of a worker inside a spoke was stolen. With it, nothing can be read or changed that deploy/rbac does not name, in the cluster or elsewhere.
func serviceAccountIsStolen(t *testing.T) {
	spoke := insideSpoke()
	config, err := spoke.ServiceAccountConfig(t.Context(), kube.SystemNamespace, "drydock-initiator")
	require.NoError(t, err)
	stolen := clientOf(t, config)
	aJob := func(namespace string) *batchv1.Job {
		job := markedJob("stolen", "node/spoke-2/default/x/run")
		job.Namespace, job.Finalizers = namespace, nil
		return job
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "worker-1"}}
	refused(t, map[string]error{
		"read Secrets":             stolen.List(t.Context(), &corev1.SecretList{}),
		"read ConfigMaps":          stolen.List(t.Context(), &corev1.ConfigMapList{}),
		"delete a node":            stolen.Delete(t.Context(), node),
		"delete pods":              stolen.DeleteAllOf(t.Context(), &corev1.Pod{}, client.InNamespace(tenantNamespace)),
		"create a pod":             stolen.Create(t.Context(), podWithAccount("drydock-jobs", "default")),
		"use another account":      stolen.Create(t.Context(), podWithAccount(kube.SystemNamespace, "drydock-lock-controller")),
		"a Job beside accounts":    stolen.Create(t.Context(), aJob(kube.SystemNamespace)),
		"a Job beside kube-system": stolen.Create(t.Context(), aJob(metav1.NamespaceSystem)),
		"a Job of the tenant":      stolen.Create(t.Context(), aJob(tenantNamespace)),
		"more rights":              stolen.Create(t.Context(), &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "x"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"}}),
		"a token of its own":       stolen.SubResource("token").Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: kube.SystemNamespace, Name: "drydock-initiator"}}, tokenRequest()),
		"raise the budgets":        stolen.Create(t.Context(), &maintenancev1.MaintenanceOperatorConfig{ObjectMeta: metav1.ObjectMeta{Namespace: kube.SystemNamespace, Name: "x"}}),
	})

	config.Host, config.CAData = theFleet.Hub.Config.Host, theFleet.Hub.Config.CAData
	err = clientOf(t, config).List(t.Context(), &corev1.NamespaceList{})
	require.Error(t, err, "the token is not one of the hub")
}

// The client certificate for Temporal was stolen, too. The proxy has its rights.
func temporalCredentialsAreStolen(t *testing.T) {
	stolen, err := temporalclient.NewLazyClient(temporalclient.Options{HostPort: answering.address, Namespace: theFleet.Temporal.Namespace, Identity: "stolen"})
	require.NoError(t, err)
	defer stolen.Close()
	service, namespace := stolen.WorkflowService(), theFleet.Temporal.Namespace
	_, start := stolen.ExecuteWorkflow(t.Context(), temporalclient.StartWorkflowOptions{ID: "x", TaskQueue: temporal.TaskQueue}, temporal.ClusterGroupUpgrade)
	_, list := stolen.ListWorkflow(t.Context(), &workflowservice.ListWorkflowExecutionsRequest{Namespace: namespace})
	_, query := stolen.QueryWorkflow(t.Context(), temporal.EmergencyStopID, "", temporal.QueryStatus)
	poll := func(queue string) error {
		_, err := service.PollActivityTaskQueue(t.Context(), &workflowservice.PollActivityTaskQueueRequest{Namespace: namespace, TaskQueue: &taskqueuepb.TaskQueue{Name: queue}})
		return err
	}
	_, tasks := service.PollWorkflowTaskQueue(t.Context(), &workflowservice.PollWorkflowTaskQueueRequest{
		Namespace: namespace, TaskQueue: &taskqueuepb.TaskQueue{Name: temporal.ClusterTaskQueue("spoke-2")},
	})
	_, answer := service.RespondActivityTaskCompleted(t.Context(), &workflowservice.RespondActivityTaskCompletedRequest{Namespace: namespace, TaskToken: []byte("forged")})
	_, byID := service.RespondActivityTaskCompletedById(t.Context(), &workflowservice.RespondActivityTaskCompletedByIdRequest{Namespace: namespace, WorkflowId: "cgu/default/x", ActivityId: "1"})
	_, register := service.RegisterNamespace(t.Context(), &workflowservice.RegisterNamespaceRequest{Namespace: "mine", WorkflowExecutionRetentionPeriod: durationpb.New(24 * time.Hour)})
	for what, err := range map[string]error{
		"start": start, "list": list, "query": query, "hub tasks": poll(temporal.TaskQueue), "tasks of another cluster": poll(temporal.ClusterTaskQueue("spoke-1")),
		"workflow tasks": tasks, "a forged token": answer, "an answer by id": byID, "a namespace": register,
		"signal":    stolen.SignalWorkflow(t.Context(), temporal.EmergencyStopID, "", temporal.SignalHold, nil),
		"cancel":    stolen.CancelWorkflow(t.Context(), temporal.EmergencyStopID, ""),
		"terminate": stolen.TerminateWorkflow(t.Context(), temporal.EmergencyStopID, "", ""),
	} {
		require.ErrorAs(t, err, new(*serviceerror.PermissionDenied), what)
	}
	answering.forget()
}

// A stolen worker answers the tasks of its cluster with what it likes: results of any size and shape, and messages that only people and other workflows send. It
// harms the maintenances of its own cluster, and the hold of that cluster stands.
func stolenWorkerLies(t *testing.T) {
	require.NoError(t, insideWorker.Stop())
	defer func() {
		require.NoError(t, insideWorker.Start(t.Context()))
		answering.forget()
	}()
	spoke := insideSpoke()
	succeeds(t, "hold", "--cluster", spoke.Name, "--reason", "attack")
	t.Cleanup(func() {
		_, _ = theFleet.Command(context.Background(), "release", "--cluster", spoke.Name).CombinedOutput()
	})
	held := maintain(t, spoke, "worker-1", nil)
	stolen, err := temporalclient.Dial(temporalclient.Options{HostPort: answering.address, Namespace: theFleet.Temporal.Namespace, Identity: "stolen"})
	require.NoError(t, err)
	defer stolen.Close()
	service, namespace := stolen.WorkflowService(), theFleet.Temporal.Namespace
	lies := []func(token []byte) error{
		func(token []byte) error {
			return lieWithMessage(t, service, namespace, token, temporal.SignalHeld, `{"number":9000000000000000000}`)
		},
		func(token []byte) error {
			return lieWithMessage(t, service, namespace, token, temporal.SignalSlotResponse, `{"owner":{"workflowID":"`+held.id+`"},"number":99,"granted":[1]}`)
		},
		func(token []byte) error {
			return lieWithMessage(t, service, namespace, token, temporal.SignalDone, `{}`)
		},
		func(token []byte) error {
			return lieWithMessage(t, service, namespace, token, temporal.SignalNodeUpdate, `{"watch":"9999-12-31T23:59:59Z","first":true,"last":true,"nodes":[{"name":"ghost"}]}`)
		},
		func(token []byte) error { return lie(t, service, namespace, token, `"`+strings.Repeat("x", 1<<20)+`"`) },
		func(token []byte) error { return lie(t, service, namespace, token, `[[[[`) },
		func(token []byte) error {
			return lie(t, service, namespace, token, `{"lookUp":["node/spoke-1/default/x/run"]}`)
		},
	}
	for _, tell := range lies {
		polling, cancel := context.WithTimeout(t.Context(), 3*time.Minute) // longer than the server's limit
		task, err := service.PollActivityTaskQueue(polling, &workflowservice.PollActivityTaskQueueRequest{
			Namespace: namespace, Identity: "stolen", TaskQueue: &taskqueuepb.TaskQueue{Name: temporal.ClusterTaskQueue(spoke.Name), Kind: enumspb.TASK_QUEUE_KIND_NORMAL},
		})
		cancel()
		require.NoError(t, err)
		if len(task.GetTaskToken()) == 0 {
			continue // nothing to do for the cluster within a minute
		}
		require.NoError(t, tell(task.GetTaskToken()))
	}
	status := held.await(func(s maintenancev1.NodeMaintenanceStatus) bool { return s.Held != nil })
	require.NotEqual(t, maintenancev1.NodeReady, status.State)
	requireInService(t, spoke.Client, "worker-1")
	held.signal(temporal.SignalCancel)
}

func lie(t *testing.T, service workflowservice.WorkflowServiceClient, namespace string, token []byte, result string) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err := service.RespondActivityTaskCompleted(ctx, &workflowservice.RespondActivityTaskCompletedRequest{
		Namespace: namespace, Identity: "stolen", TaskToken: token, Result: payloads(result),
	})
	return err
}

func lieWithMessage(t *testing.T, service workflowservice.WorkflowServiceClient, namespace string, token []byte, signal, payload string) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err := service.RespondActivityTaskFailed(ctx, &workflowservice.RespondActivityTaskFailedRequest{
		Namespace: namespace, Identity: "stolen", TaskToken: token,
		Failure: &failurepb.Failure{Message: signal, FailureInfo: &failurepb.Failure_ApplicationFailureInfo{ApplicationFailureInfo: &failurepb.ApplicationFailureInfo{
			Type: temporal.ErrMessage, NonRetryable: true, Details: payloads(`{"signal":"` + signal + `","payload":` + payload + `}`),
		}}},
	})
	return err
}

func payloads(json string) *commonpb.Payloads {
	return &commonpb.Payloads{Payloads: []*commonpb.Payload{{Metadata: map[string][]byte{"encoding": []byte("json/plain")}, Data: []byte(json)}}}
}

func tokenRequest() *authenticationv1.TokenRequest { return &authenticationv1.TokenRequest{} }
