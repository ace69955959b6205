package node_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubeclient "sigs.k8s.io/controller-runtime/pkg/client"

	"drydock.dev/drydock/activities/activitytest"
	"drydock.dev/drydock/activities/holds"
	"drydock.dev/drydock/activities/node"
	"drydock.dev/drydock/activities/objects"
	"drydock.dev/drydock/activities/requests"
	"drydock.dev/drydock/activities/rollouts"
	"drydock.dev/drydock/activities/scheduler"
	"drydock.dev/drydock/activities/sweeper"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/emergency"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/scheduling"
	"drydock.dev/drydock/internal/temporal"
)

// acceptingServer is a Temporal server on which the emergency stop runs.
type acceptingServer struct{ *activitytest.Workflows }

func (acceptingServer) SignalWorkflow(context.Context, string, string, string, any) error { return nil }

func (acceptingServer) QueryWorkflowWithOptions(context.Context, *client.QueryWorkflowWithOptionsRequest) (*client.QueryWorkflowWithOptionsResponse, error) {
	payloads, err := temporal.DataConverter().ToPayloads(emergency.State{Number: 7})
	return &client.QueryWorkflowWithOptionsResponse{QueryResult: client.NewValue(payloads)}, err
}

func (acceptingServer) DescribeTaskQueue(context.Context, string, enumspb.TaskQueueType) (*workflowservice.DescribeTaskQueueResponse, error) {
	return &workflowservice.DescribeTaskQueueResponse{}, nil
}

// accept accepts the request for a node, and returns the workflows that were signalled, in order.
func accept(t *testing.T, ref node.PlanMaintenanceInput, spec maintenancev1.NodeMaintenanceSpec) (requests.Accepted, []string, error) {
	t.Helper()
	server := acceptingServer{activitytest.NewWorkflows()}
	accepting := requests.Activities{
		Rollouts:  &rollouts.Activities{Clusters: activitytest.Clusters},
		Objects:   &objects.Activities{Clusters: activitytest.Clusters},
		Sweeper:   &sweeper.Activities{Clusters: activitytest.Clusters, Temporal: server},
		Holds:     &holds.Activities{Temporal: server, Hub: activitytest.Clusters},
		Nodes:     activitytest.Nodes(),
		Scheduler: &scheduler.Activities{Clusters: activitytest.Clusters, Temporal: server},
	}
	written, err := json.Marshal(maintenancev1.NodeMaintenance{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: ref.Node}, Spec: spec})
	require.NoError(t, err)
	accepted, err := accepting.AcceptMaintenance(t.Context(), requests.AcceptMaintenanceInput{
		Written: written, Plan: ref, Wake: sweeper.WakeSweeperInput{Cluster: ref.Cluster}, Subscription: temporal.Subscription{Cluster: ref.Cluster},
		Slots: &scheduling.SlotRequests{Owner: scheduling.SlotOwner{WorkflowID: ref.Owner}},
	})
	var signalled []string
	for _, woken := range server.Woken {
		signalled = append(signalled, woken.ID)
	}
	return accepted, signalled, err
}

func TestAnAcceptedRequestHasMarkedItsNodeAndRequestedItsSlot(t *testing.T) {
	in := node.PlanMaintenanceInput{NodeRef: activitytest.TestNode(t)}
	spec := maintenancev1.NodeMaintenanceSpec{RequestorID: "ops.example.com", NodeName: in.Node}
	accepted, signalled, err := accept(t, in, spec)
	require.NoError(t, err)
	require.Equal(t, temporal.TaskQueue, accepted.TaskQueue)
	require.EqualValues(t, 7, accepted.Holds.Number, "no notification is necessary")
	require.NotNil(t, accepted.Planned)
	require.True(t, accepted.SlotsRequested)
	require.Equal(t, []string{temporal.SweeperID(in.Cluster), temporal.EmergencyStopID, temporal.MaintenanceSchedulerID(in.Cluster)}, signalled,
		"the sweeper is awake before the node is marked, and the slot is last")
	marked := &corev1.Node{}
	require.NoError(t, activitytest.TestCluster(t).Client.Get(t.Context(), kubeclient.ObjectKey{Name: in.Node}, marked))
	planned := kube.FindNodeCondition(marked, kube.ConditionMaintenancePlanned)
	require.NotNil(t, planned)
	require.True(t, kube.ConditionOwnedBy(*planned, in.Owner))

	spec.NodeName, in.Node = "no-such-node", "no-such-node"
	accepted, signalled, err = accept(t, in, spec)
	require.NoError(t, err, "the workflow repeats the mark, and shows why it fails")
	require.Nil(t, accepted.Planned)
	require.False(t, accepted.SlotsRequested)
	require.Len(t, signalled, 2)
}

func TestARefusedRequestSignalsNoWorkflow(t *testing.T) {
	in := node.PlanMaintenanceInput{NodeRef: activitytest.TestNode(t)}
	_, signalled, err := accept(t, in, maintenancev1.NodeMaintenanceSpec{RequestorID: "", NodeName: in.Node})
	require.Equal(t, temporal.ErrInvalidSpec, temporal.ErrorType(err), "%v", err)
	in.Cluster = "unknown"
	_, others, err := accept(t, in, maintenancev1.NodeMaintenanceSpec{RequestorID: "ops.example.com", NodeName: in.Node})
	require.Equal(t, temporal.ErrNotFound, temporal.ErrorType(err), "%v", err)
	require.Empty(t, append(signalled, others...))
}

// The refusal may follow an attempt whose answer was lost, because the clusters file has changed since.
func TestARefusedRequestLeavesNoMarkOfAnEarlierAttempt(t *testing.T) {
	in := node.PlanMaintenanceInput{NodeRef: activitytest.TestNode(t)}
	accepted, _, err := accept(t, in, maintenancev1.NodeMaintenanceSpec{RequestorID: "ops.example.com", NodeName: in.Node})
	require.NoError(t, err)
	require.NotNil(t, accepted.Planned)
	_, _, err = accept(t, in, maintenancev1.NodeMaintenanceSpec{RequestorID: "", NodeName: in.Node})
	require.Equal(t, temporal.ErrInvalidSpec, temporal.ErrorType(err), "%v", err)
	freed := &corev1.Node{}
	require.NoError(t, activitytest.TestCluster(t).Client.Get(t.Context(), kubeclient.ObjectKey{Name: in.Node}, freed))
	require.Nil(t, kube.FindNodeCondition(freed, kube.ConditionMaintenancePlanned))
	require.False(t, kube.OwnedBy(freed, in.Owner))
}
