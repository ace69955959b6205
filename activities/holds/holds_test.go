package holds

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	temporalclient "go.temporal.io/sdk/client"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"drydock.dev/drydock/activities/activitykit"
	"drydock.dev/drydock/activities/activitytest"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	"drydock.dev/drydock/internal/emergency"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/temporal"
)

func loadedHolds(t *testing.T) emergency.State {
	t.Helper()
	state, err := (&Activities{Hub: activitytest.Clusters}).LoadHolds(t.Context(), struct{}{})
	require.NoError(t, err)
	return state
}

func TestHoldsAreSavedOnTheHubAndALateWriteIsIgnored(t *testing.T) {
	holds := &Activities{Hub: activitytest.Clusters}
	require.Equal(t, emergency.State{}, loadedHolds(t), "nothing is saved yet")
	since := metav1.NewTime(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC))
	first := emergency.State{Number: 2, Holds: []drydockv1.Hold{{Scope: drydockv1.HoldAll, By: "ann", Reason: "flood: hall 2", Since: since}}}
	second := emergency.State{Number: 3}
	t.Cleanup(func() {
		hub, err := activitytest.Admin.Cluster(context.Background(), activitytest.HubName)
		require.NoError(t, err)
		require.NoError(t, hub.Client.Delete(context.Background(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: SavedHoldsNamespace, Name: SavedHoldsName}}))
	})

	require.NoError(t, holds.SaveHolds(t.Context(), first))
	require.NoError(t, holds.SaveHolds(t.Context(), first), "a repeated save succeeds")
	require.Equal(t, first.Number, loadedHolds(t).Number)
	require.True(t, first.Same(loadedHolds(t)))
	require.NoError(t, holds.SaveHolds(t.Context(), second))
	require.NoError(t, holds.SaveHolds(t.Context(), first), "a late write of a frozen worker is ignored")
	require.Equal(t, second, loadedHolds(t))
}

func TestForeignOrUnreadableHoldsAreNeitherTrustedNorOverwritten(t *testing.T) {
	for _, tt := range []struct{ name, managedBy, content, says string }{
		{"a foreign ConfigMap", "helm", "number: 1", "ConfigMap drydock-system/emergency-stop.drydock.dev is not Drydock's"},
		{"a mistyped field", activitykit.ManagedBy, "number: 1\nhold: []", "unknown field \"hold\": correct or delete it"},
		{"no YAML", activitykit.ManagedBy, "number: {", "cannot be read"},
		{"a manual change", activitykit.ManagedBy, "number: 1", "its content was changed"},
		{"a number that no state has", activitykit.ManagedBy, "number: 9000000000000000000", "number: 9000000000000000000 is not between"},
		{"a negative number", activitykit.ManagedBy, "number: -1", "number: -1 is not between"},
		{"a scope twice", activitykit.ManagedBy, "number: 1\nholds: [{scope: all, by: x, since: null}, {scope: all, by: x, since: null}]", "held twice"},
		{"an endless reason", activitykit.ManagedBy, "number: 1\nholds: [{scope: all, by: x, since: null, reason: " + strings.Repeat("x", 5000) + "}]", "more than 1000 bytes"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			activitytest.Create(t, activitytest.BareCluster(t), &corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Namespace: SavedHoldsNamespace, Name: SavedHoldsName, Labels: map[string]string{activitykit.LabelManagedBy: tt.managedBy}},
				Data:       map[string]string{SavedHoldsKey: tt.content},
			})
			holds := &Activities{Hub: activitytest.Clusters}
			_, err := holds.LoadHolds(t.Context(), struct{}{})
			for _, err := range []error{err, holds.SaveHolds(t.Context(), emergency.State{Number: 9})} {
				require.Equal(t, temporal.ErrInvalidSpec, temporal.ErrorType(err), "%v", err)
				require.ErrorContains(t, err, tt.says)
			}
			require.Equal(t, tt.content, activitytest.GetSaved(t, SavedHoldsName).Data[SavedHoldsKey])
		})
	}
}

// workers are the workers that Temporal knows, by identity.
type workers struct {
	Client
	identities []string
	unknown    error
}

func (w workers) DescribeTaskQueue(_ context.Context, taskQueue string, _ enumspb.TaskQueueType) (*workflowservice.DescribeTaskQueueResponse, error) {
	if w.unknown != nil || taskQueue != temporal.TaskQueue {
		return nil, w.unknown
	}
	response := &workflowservice.DescribeTaskQueueResponse{}
	for _, identity := range w.identities {
		response.Pollers = append(response.Pollers, &taskqueuepb.PollerInfo{Identity: identity})
	}
	return response, nil
}

// A retry waits, so it must be for a worker that exists.
func TestAWorkerWithoutAHubLeavesTheHoldsToOneThatHasAHub(t *testing.T) {
	none := kube.New(kube.FromConfigs(nil, nil), kube.Options{})
	t.Cleanup(none.Close)
	without, with := temporal.WorkerIdentity(false, true, false), temporal.WorkerIdentity(true, true, false)
	for name, tt := range map[string]struct {
		workers workers
		wanted  string
	}{
		"another worker has a hub":   {workers{identities: []string{without, with}}, temporal.ErrClusterUnreachable},
		"no worker has a hub":        {workers{identities: []string{without, without}}, temporal.ErrNotFound},
		"the workers are not known":  {workers{unknown: errors.New("Temporal is down")}, temporal.ErrNoHub},
		"Temporal has seen no poll":  {workers{}, temporal.ErrNoHub},
		"workers of another version": {workers{identities: []string{without, "5443@vm@"}}, temporal.ErrNoHub},
	} {
		t.Run(name, func(t *testing.T) {
			holds := &Activities{Hub: none, Temporal: tt.workers}
			_, err := holds.LoadHolds(t.Context(), struct{}{})
			require.Equal(t, tt.wanted, temporal.ErrorType(err), "%v", err)
			require.Equal(t, tt.wanted, temporal.ErrorType(holds.SaveHolds(t.Context(), emergency.State{Number: 1})))
		})
	}
}

// Treating "forbidden" as "no holds" would release everything.
func TestAForbiddenReadIsNotAnAbsenceOfHolds(t *testing.T) {
	config := rest.CopyConfig(activitytest.Stack.Cluster(activitytest.HubName).Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: "without-rights", Groups: []string{"system:authenticated"}}
	forbidden := kube.New(kube.FromConfigs(config, nil), kube.Options{})
	t.Cleanup(forbidden.Close)
	holds := &Activities{Hub: forbidden}
	_, err := holds.LoadHolds(t.Context(), struct{}{})
	for _, err := range []error{err, holds.SaveHolds(t.Context(), emergency.State{Number: 1})} {
		require.Equal(t, temporal.ErrForbidden, temporal.ErrorType(err), "%v", err)
		require.False(t, temporal.Final(err), "the permission may be granted later")
		require.ErrorContains(t, err, "grant the worker's user the roles of deploy/rbac")
	}
}

// subscribers are a server with workflows.
type subscribers struct{ *activitytest.Pages }

func (subscribers) QueryWorkflowWithOptions(context.Context, *temporalclient.QueryWorkflowWithOptionsRequest) (*temporalclient.QueryWorkflowWithOptionsResponse, error) {
	return nil, errors.New("no such workflow")
}

func (subscribers) DescribeTaskQueue(context.Context, string, enumspb.TaskQueueType) (*workflowservice.DescribeTaskQueueResponse, error) {
	return &workflowservice.DescribeTaskQueueResponse{}, nil
}

func TestSubscribersAreWorkflowsWithoutAParent(t *testing.T) {
	workflow := func(kind, id, parent string) *workflowpb.WorkflowExecutionInfo {
		info := &workflowpb.WorkflowExecutionInfo{Execution: &commonpb.WorkflowExecution{WorkflowId: id}, Type: &commonpb.WorkflowType{Name: kind}}
		if parent != "" {
			info.ParentExecution = &commonpb.WorkflowExecution{WorkflowId: parent}
		}
		return info
	}
	server := &activitytest.Pages{Pages: [][]*workflowpb.WorkflowExecutionInfo{
		{workflow(temporal.ClusterGroupUpgrade, "cgu/ops/june", ""), workflow(temporal.NodeMaintenance, "node/c1/ops/june-n1", "cgu/ops/june/c1")},
		{
			workflow(temporal.NodeMaintenance, temporal.NodeMaintenanceID("c2", "ops", "n1"), ""),
			workflow(temporal.MaintenanceScheduler, temporal.MaintenanceSchedulerID("c3"), ""),
			workflow(temporal.HarborCluster, temporal.HarborClusterID("c4", "ops", "main"), ""),
		},
	}}
	found, err := (&Activities{Temporal: subscribers{server}}).FindSubscribers(t.Context(), struct{}{})
	require.NoError(t, err)
	require.Equal(t, []temporal.Subscription{
		{WorkflowID: "cgu/ops/june"},
		{WorkflowID: "node/c2/ops/n1", Cluster: "c2"},
		{WorkflowID: "scheduler/c3", Cluster: "c3"},
		{WorkflowID: "harbor/c4/ops/main", Cluster: "c4"},
	}, found)
	require.Equal(t, "WorkflowType IN ('ClusterGroupUpgrade', 'NodeMaintenance', 'MaintenanceScheduler', 'HarborCluster') AND ExecutionStatus = 'Running'", server.Query)
}
