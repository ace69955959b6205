package scheduler

import (
	"context"
	"encoding/json"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	temporalclient "go.temporal.io/sdk/client"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drydock.dev/drydock/activities/activitykit"
	"drydock.dev/drydock/activities/activitytest"
	"drydock.dev/drydock/activities/node"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/scheduling"
)

// aScheduler handles the messages of activities, like the workflow.
type aScheduler struct {
	*activitytest.Workflows
	activitytest.Pages
	mu    sync.Mutex
	state scheduling.SlotState
}

func (s *aScheduler) SignalWorkflow(_ context.Context, _, _, _ string, payload any) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state.Update(payload.(scheduling.NodeUpdate), time.Now())
	return nil
}

func (s *aScheduler) ListWorkflow(ctx context.Context, request *workflowservice.ListWorkflowExecutionsRequest) (*workflowservice.ListWorkflowExecutionsResponse, error) {
	return s.Pages.ListWorkflow(ctx, request)
}

// watching watches the nodes of the hub during a test, for an owner that requests these nodes in this order.
func watching(t *testing.T, nodes ...string) *aScheduler {
	t.Helper()
	s := &aScheduler{}
	set := scheduling.SlotRequests{
		Owner: scheduling.SlotOwner{WorkflowID: "cgu/default/june/hub", FirstRunID: "run"}, Version: 1, Namespace: "default", Requestor: "june.example.com",
	}
	for i, node := range nodes {
		set.Slots = append(set.Slots, scheduling.Slot{Number: int64(i + 1), Name: node, Node: node, Since: time.Unix(int64(i), 0)})
	}
	s.state.Receive(set, time.Now())
	suite := &testsuite.WorkflowTestSuite{}
	env := suite.NewTestActivityEnvironment()
	activities := &Activities{Clusters: activitytest.Clusters, Temporal: s}
	env.RegisterActivity(activities)
	ctx, stop := context.WithCancel(context.Background())
	env.SetWorkerOptions(worker.Options{BackgroundActivityContext: ctx})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = env.ExecuteActivity(activities.WatchNodes, activitytest.HubName)
	}()
	t.Cleanup(func() {
		stop()
		<-ended
	})
	return s
}

// granted decides, and returns the newly granted nodes, and why the first other node waits.
func (s *aScheduler) granted() (nodes []string, wait string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	outcome := s.state.Decide(time.Now(), nil)
	for _, granted := range outcome.Granted {
		nodes = append(nodes, granted.Node)
	}
	if len(outcome.Waiting) > 0 {
		wait = outcome.Waiting[0].Message
	}
	return nodes, wait
}

func (s *aScheduler) requireGranted(t *testing.T, want ...string) {
	t.Helper()
	var got []string
	require.Eventually(t, func() bool {
		nodes, _ := s.granted()
		got = append(got, nodes...)
		return len(got) >= len(want)
	}, activitytest.EventTimeout, 10*time.Millisecond)
	require.Equal(t, want, got)
}

func (s *aScheduler) requireWaiting(t *testing.T, why string) {
	t.Helper()
	require.Eventually(t, func() bool {
		nodes, wait := s.granted()
		return len(nodes) == 0 && wait == why
	}, activitytest.EventTimeout, 10*time.Millisecond, why)
}

func TestWithoutBudgetsOneNodeIsGrantedAtATime(t *testing.T) {
	activitytest.BareNodes(t, "a", "b")
	s := watching(t, "b", "a")
	s.requireGranted(t, "b")
	s.requireWaiting(t, "maxParallelOperations allows 1 of 2 nodes under maintenance at once (b for june.example.com)")
}

func TestARaisedBudgetGrantsANodeImmediately(t *testing.T) {
	cluster := activitytest.BareNodes(t, "a", "b", "c")
	s := watching(t, "a", "b", "c")
	s.requireGranted(t, "a")
	activitytest.Budgets(t, cluster, maintenancev1.MaintenanceOperatorConfigSpec{MaxParallelOperations: new(intstr.FromInt32(2))})
	s.requireGranted(t, "b")
}

func TestAReturnedNodeGrantsTheNextImmediately(t *testing.T) {
	cluster := activitytest.BareNodes(t, "a", "b")
	activitytest.Budgets(t, cluster, maintenancev1.MaintenanceOperatorConfigSpec{
		MaxParallelOperations: new(intstr.FromInt32(2)), MaxUnavailable: new(intstr.FromInt32(1)),
	})
	down := &corev1.Node{}
	require.NoError(t, cluster.Client.Get(t.Context(), client.ObjectKey{Name: "b"}, down))
	patch := client.MergeFrom(down.DeepCopy())
	activitytest.Cordoned(down)
	require.NoError(t, cluster.Client.Patch(t.Context(), down, patch))
	activitytest.Settled(t, activitytest.HubName, down)

	s := watching(t, "a")
	s.requireWaiting(t, "maxUnavailable allows 1 of 2 nodes to be unavailable (b)")
	patch = client.MergeFrom(down.DeepCopy())
	activitytest.Uncordoned(down)
	require.NoError(t, cluster.Client.Patch(t.Context(), down, patch))
	s.requireGranted(t, "a")
}

func TestANodeInMaintenanceByAnotherOperatorHoldsASlot(t *testing.T) {
	activitytest.BareNodes(t, "a", "b")
	other := activitykit.NodeRef{Cluster: activitytest.HubName, Node: "a", Owner: "node/hub/default/other/run"}
	_, err := activitytest.Nodes().Cordon(t.Context(), node.CordonInput{NodeRef: other, Cordon: true})
	require.NoError(t, err)
	marked := &corev1.Node{}
	require.NoError(t, activitytest.BareCluster(t).Client.Get(t.Context(), client.ObjectKey{Name: "a"}, marked))
	activitytest.Settled(t, activitytest.HubName, marked)
	s := watching(t, "a", "b")
	s.requireWaiting(t, "node a is under maintenance by node/hub/default/other; it is next after the node is returned")
	_, err = activitytest.Nodes().ReturnNode(t.Context(), node.ReturnNodeInput{NodeRef: other})
	require.NoError(t, err)
	s.requireGranted(t, "a")
}

func TestDeletedNodesAreDistinguishedFromExistingOnes(t *testing.T) {
	activitytest.BareNodes(t, "a", "b")
	gone, err := (&Activities{Clusters: activitytest.Clusters}).FindGone(t.Context(), FindGoneInput{Cluster: activitytest.HubName, Nodes: []string{"gone", "b", "never", "a"}})
	require.NoError(t, err)
	require.Equal(t, []string{"gone", "never"}, gone)
}

func TestDeletedAndNewNodesAreSeen(t *testing.T) {
	cluster := activitytest.BareNodes(t, "a", "b")
	s := watching(t)
	names := func() (names []string) {
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, node := range s.state.Nodes {
			names = append(names, node.Name)
		}
		return names
	}
	require.Eventually(t, func() bool { return len(names()) == 2 }, activitytest.EventTimeout, 10*time.Millisecond)
	gone := &corev1.Node{}
	gone.Name = "a"
	require.NoError(t, cluster.Client.Delete(t.Context(), gone))
	activitytest.BareNodes(t, "c")
	require.Eventually(t, func() bool {
		found := names()
		return len(found) == 2 && found[0] == "b" && found[1] == "c"
	}, activitytest.EventTimeout, 10*time.Millisecond)
}

func TestTwoConfigurationsOfOneClusterGrantNothingAndAreNamed(t *testing.T) {
	cluster := activitytest.BareNodes(t, "a")
	first := activitytest.Budgets(t, cluster, maintenancev1.MaintenanceOperatorConfigSpec{})
	second := activitytest.Budgets(t, cluster, maintenancev1.MaintenanceOperatorConfigSpec{})
	s := watching(t, "a")
	require.Eventually(t, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.state.AllListed
	}, activitytest.EventTimeout, 10*time.Millisecond)
	nodes, wait := s.granted()
	require.Empty(t, nodes)
	require.Contains(t, wait, "cluster hub: 2 MaintenanceOperatorConfigs found (drydock-system/config-")
	require.Contains(t, wait, first.Name)
	require.NoError(t, cluster.Client.Delete(t.Context(), second))
	s.requireGranted(t, "a")
}

func TestADeletedConfigurationRestoresTheDefaults(t *testing.T) {
	for name, tt := range map[string]struct {
		allowed       int32
		before, after []string
		then          string
	}{
		"an owner with slots":    {3, []string{"a", "b"}, nil, "maxParallelOperations allows 1 of 4 nodes under maintenance at once (a for june.example.com, b for june.example.com)"},
		"an owner without slots": {0, nil, []string{"a"}, "maxParallelOperations allows 1 of 4 nodes under maintenance at once (a for june.example.com)"},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := activitytest.BareNodes(t, "a", "b", "c", "d")
			config := activitytest.Budgets(t, cluster, maintenancev1.MaintenanceOperatorConfigSpec{
				MaxParallelOperations: new(intstr.FromInt32(tt.allowed)), MaxUnavailable: new(intstr.FromInt32(2)), AgingSeconds: 1,
			})
			s := watching(t, "a", "b", "c")
			s.requireGranted(t, tt.before...)
			if tt.before == nil {
				s.requireWaiting(t, "maxParallelOperations allows 0 of 4 nodes under maintenance at once: no maintenance starts until it is raised")
			}
			require.NoError(t, cluster.Client.Delete(t.Context(), config))
			s.requireGranted(t, tt.after...)
			s.requireWaiting(t, tt.then)
			s.mu.Lock()
			defer s.mu.Unlock()
			require.Empty(t, s.state.Config, "the configuration is removed")
		})
	}
}

// aSchedulerThatEnded is a Temporal server with a closed scheduler.
type aSchedulerThatEnded struct {
	aScheduler
	inputs []any
}

func (s *aSchedulerThatEnded) SignalWithStartWorkflow(
	_ context.Context, _, _ string, _ any, options temporalclient.StartWorkflowOptions, _ any, args ...any,
) (temporalclient.WorkflowRun, error) {
	if options.WorkflowIDReusePolicy == enumspb.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE {
		return nil, serviceerror.NewWorkflowExecutionAlreadyStarted("it has ended", "", "")
	}
	s.inputs = append(s.inputs, args...)
	return nil, nil
}

func TestASchedulerFindsItsClosedPredecessor(t *testing.T) {
	in := RequestSlotsInput{Cluster: "c1"}
	fresh, ended := &aScheduler{Workflows: activitytest.NewWorkflows()}, &aSchedulerThatEnded{}
	require.NoError(t, (&Activities{Temporal: fresh}).RequestSlots(t.Context(), in))
	require.Len(t, fresh.Woken, 1, "no other scheduler was started and closed")
	require.Equal(t, enumspb.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE, fresh.Woken[0].WorkflowIDReusePolicy)

	require.NoError(t, (&Activities{Temporal: ended}).RequestSlots(t.Context(), in))
	require.Len(t, ended.inputs, 1)
	text, err := json.Marshal(ended.inputs[0])
	require.NoError(t, err)
	require.JSONEq(t, `{"cluster": "c1"}`, string(text), "it is not the first")
}

func TestClosedOwnersAndRunningMaintenancesAreFound(t *testing.T) {
	server := &aScheduler{Workflows: activitytest.NewWorkflows()}
	server.Set("cgu/default/june/c1/run-1", activitytest.StillRunning)
	server.Set("cgu/default/july/c1/run-2", activitytest.WasTerminated)
	server.Set("node/c1/default/july-a/run-3", activitytest.StillRunning)
	server.Set("node/c1/default/july-b/run-4", activitytest.WasTerminated)
	server.Set("node/c1/default/alone/run-5", activitytest.WasTerminated)
	holder := func(workflow, run string, maintenances ...string) scheduling.Holder {
		return scheduling.Holder{SlotOwner: scheduling.SlotOwner{WorkflowID: workflow, FirstRunID: run}, Maintenances: maintenances}
	}
	closed, err := (&Activities{Temporal: server}).FindClosedOwners(t.Context(), []scheduling.Holder{
		holder("cgu/default/june/c1", "run-1", "node/c1/default/june-a"),
		holder("cgu/default/july/c1", "run-2", "node/c1/default/july-a", "node/c1/default/july-b"),
		holder("node/c1/default/alone", "run-5", "node/c1/default/alone"),
		holder("node/c1/default/never", "run-6"),
	})
	require.NoError(t, err)
	require.Equal(t, []scheduling.Holder{
		holder("cgu/default/july/c1", "run-2", "node/c1/default/july-a"),
		holder("node/c1/default/alone", "run-5"),
		holder("node/c1/default/never", "run-6"),
	}, closed)
}

func TestSlotOwnersAreRolloutsAndMaintenancesWithoutARollout(t *testing.T) {
	running := func(id, parent string) *workflowpb.WorkflowExecutionInfo {
		info := &workflowpb.WorkflowExecutionInfo{Execution: &commonpb.WorkflowExecution{WorkflowId: id}}
		if parent != "" {
			info.ParentExecution = &commonpb.WorkflowExecution{WorkflowId: parent}
		}
		return info
	}
	server := &aScheduler{Pages: activitytest.Pages{Pages: [][]*workflowpb.WorkflowExecutionInfo{
		{running("cgu/default/june/c1", "cgu/default/june"), running("node/c1/default/june-a", "cgu/default/june/c1")},
		{running("node/c1/ops/alone", ""), running("node/c1/ops/of-a-requestor", "another/owner")},
	}}}
	owners, err := (&Activities{Temporal: server}).FindSlotOwners(t.Context(), "c1")
	require.NoError(t, err)
	require.Equal(t, []string{"cgu/default/june/c1", "node/c1/ops/alone", "node/c1/ops/of-a-requestor"}, owners)
	require.Contains(t, server.Query, "STARTS_WITH 'node/c1/'")
}
