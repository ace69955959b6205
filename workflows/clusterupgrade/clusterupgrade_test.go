package clusterupgrade_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	sdktemporal "go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/drydock/activities/activitykit"
	"drydock.dev/drydock/activities/health"
	"drydock.dev/drydock/activities/locks"
	"drydock.dev/drydock/activities/node"
	"drydock.dev/drydock/activities/scheduler"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/rollout"
	"drydock.dev/drydock/internal/scheduling"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/clusterupgrade"
	"drydock.dev/drydock/workflows/nodemaintenance"
	"drydock.dev/drydock/workflows/workflowtest"
)

// failsWith ends a node maintenance with a typed error that has its status as details.
func failsWith(state maintenancev1.NodeState, errType string) func(workflow.Context) error {
	return func(ctx workflow.Context) error {
		if err := workflow.Sleep(ctx, time.Second); err != nil {
			return err
		}
		status := workflowtest.NodeStatus{State: state, Failure: &maintenancev1.Failure{Reason: errType, Message: "it broke"}}
		return sdktemporal.NewApplicationErrorWithOptions("it broke", errType, sdktemporal.ApplicationErrorOptions{NonRetryable: true, Details: []any{status}})
	}
}

func TestControlPlaneNodesGoFirstOneByOneThenWorkersAsGranted(t *testing.T) {
	w, nodes := workflowtest.NewClusterWorld(t, 3, 4, 2)
	w.ExecuteWorkflow(clusterupgrade.ClusterUpgrade, workflowtest.OneCluster())

	result := workflowtest.RequireResult[ranv1.ClusterStatus](w)
	require.Equal(t, []string{"+cp0", "-cp0", "+cp1", "-cp1", "+cp2", "-cp2"}, nodes.EventsInOrder()[:6])
	require.Equal(t, 2, nodes.MostRunning)
	require.Equal(t, ranv1.ClusterComplete, result.State)
	require.Equal(t, ranv1.NodeCounts{Total: 7, Done: 7, Evicted: 14}, result.Nodes)
	called := w.Called()
	require.Equal(t, []string{"InspectCluster", "RequestClusterMaintenance", "AwaitClusterLocks"}, called[:3])
	require.Nil(t, w.Inputs["AwaitClusterLocks"][0].(locks.ClusterLockInput).Deadline, "without a limit")
	require.Equal(t, []string{"AwaitClusterHealthy", "WithdrawClusterMaintenance"}, called[len(called)-2:])
}

func TestOnlyGrantedNodesAreStarted(t *testing.T) {
	for _, slots := range []int{1, 3, 20} {
		w, nodes := workflowtest.NewClusterWorld(t, 0, 8, slots)
		w.ExecuteWorkflow(clusterupgrade.ClusterUpgrade, workflowtest.OneCluster())
		workflowtest.RequireResult[ranv1.ClusterStatus](w)
		require.Equal(t, min(slots, 8), nodes.MostRunning)
		require.Len(t, nodes.Events, 16)
	}
}

func TestAClusterWithoutNodesToMaintainIsComplete(t *testing.T) {
	w, _ := workflowtest.NewClusterWorld(t, 0, 0, 1)
	w.ExecuteWorkflow(clusterupgrade.ClusterUpgrade, workflowtest.OneCluster())
	require.Equal(t, ranv1.ClusterComplete, workflowtest.RequireResult[ranv1.ClusterStatus](w).State)
	require.NotContains(t, w.Called(), "RequestClusterMaintenance")
}

func TestAFailedNodeFailsTheClusterAfterTheRunningNodesAreReturned(t *testing.T) {
	w, nodes := workflowtest.NewClusterWorld(t, 0, 6, 2)
	nodes.Outcomes["w0"] = failsWith(maintenancev1.NodeFailed, temporal.ErrDrainTimedOut)
	w.ExecuteWorkflow(clusterupgrade.ClusterUpgrade, workflowtest.OneCluster())

	result := workflowtest.RequireFailure[ranv1.ClusterStatus](w, temporal.ErrDrainTimedOut)
	require.Equal(t, []string{"+w0", "+w1", "-w0", "-w1"}, nodes.EventsInOrder())
	require.Equal(t, ranv1.ClusterFailed, result.State)
	require.Equal(t, "node w0: it broke", result.Message)
	require.Contains(t, w.Called(), "WithdrawClusterMaintenance")
	require.NotContains(t, w.Called(), "AwaitClusterHealthy")
}

func TestADeletedNodeIsNoFailure(t *testing.T) {
	w, nodes := workflowtest.NewClusterWorld(t, 0, 2, 1)
	nodes.Outcomes["w0"] = failsWith(maintenancev1.NodeGone, temporal.ErrNodeGone)
	w.ExecuteWorkflow(clusterupgrade.ClusterUpgrade, workflowtest.OneCluster())

	require.Equal(t, ranv1.ClusterComplete, workflowtest.RequireResult[ranv1.ClusterStatus](w).State)
	require.Equal(t, []string{"w1"}, w.Inputs["AwaitClusterHealthy"][0].(health.AwaitClusterHealthyInput).Nodes)
}

func TestANodeThatIsDeletedBeforeItsSlotIsNoFailure(t *testing.T) {
	w, nodes := workflowtest.NewClusterWorld(t, 0, 3, 1)
	w.Scheduler.Missing = []string{"w1"}
	w.ExecuteWorkflow(clusterupgrade.ClusterUpgrade, workflowtest.OneCluster())

	result := workflowtest.RequireResult[ranv1.ClusterStatus](w)
	require.Equal(t, ranv1.ClusterComplete, result.State)
	require.EqualValues(t, 3, result.Nodes.Done)
	require.Equal(t, []string{"+w0", "-w0", "+w2", "-w2"}, nodes.EventsInOrder())
	require.Equal(t, []string{"w0", "w2"}, w.Inputs["AwaitClusterHealthy"][0].(health.AwaitClusterHealthyInput).Nodes)
	require.True(t, w.Scheduler.State.Empty())
}

func TestAManuallyCancelledNodeFailsTheCluster(t *testing.T) {
	w, nodes := workflowtest.NewClusterWorld(t, 0, 2, 1)
	nodes.Outcomes["w0"] = func(workflow.Context) error { return sdktemporal.NewCanceledError() }
	w.ExecuteWorkflow(clusterupgrade.ClusterUpgrade, workflowtest.OneCluster())

	require.Equal(t, "the maintenance of node w0 was cancelled", workflowtest.RequireFailure[ranv1.ClusterStatus](w, "NodeCancelled").Message)
	require.NotContains(t, nodes.Events, "+w1")
}

func TestCancelReturnsTheRunningNodesBeforeTheClusterLocks(t *testing.T) {
	w, nodes := workflowtest.NewClusterWorld(t, 0, 6, 2)
	w.When(func() bool { return nodes.Running == 2 }, func() { w.SignalWorkflow(temporal.SignalCancel, temporal.SignalRequest{Actor: "ann"}) })
	w.ExecuteWorkflow(clusterupgrade.ClusterUpgrade, workflowtest.OneCluster())

	require.Equal(t, ranv1.ClusterCancelled, workflowtest.RequireCancelled[ranv1.ClusterStatus](w).State)
	require.Len(t, nodes.Events, 4)
	called := w.Called()
	require.Equal(t, "WithdrawClusterMaintenance", called[len(called)-1])
}

func TestAPausedClusterStartsNoNodeUntilItIsResumed(t *testing.T) {
	w, nodes := workflowtest.NewClusterWorld(t, 0, 3, 1)
	w.When(func() bool { return nodes.Running == 1 }, func() { w.SignalWorkflow(temporal.SignalPause, nil) })
	w.RegisterDelayedCallback(func() {
		require.Equal(t, []string{"+w0", "-w0"}, nodes.EventsInOrder())
		require.True(t, workflowtest.StatusOf[ranv1.ClusterUpgradeStatus](w).Paused)
		w.SignalWorkflow(temporal.SignalResume, nil)
	}, 10*time.Hour)
	w.ExecuteWorkflow(clusterupgrade.ClusterUpgrade, workflowtest.OneCluster())

	workflowtest.RequireResult[ranv1.ClusterStatus](w)
	require.Len(t, nodes.Events, 6)
}

func TestLocksThatAreNotReleasedInTimeFailTheClusterBeforeAnyNodeIsTouched(t *testing.T) {
	w, nodes := workflowtest.NewClusterWorld(t, 1, 1, 1)
	w.Fail["AwaitClusterLocks"] = workflowtest.Always(temporal.Error(temporal.ErrLockTimedOut, "lock ceph is active", nil))
	w.ExecuteWorkflow(clusterupgrade.ClusterUpgrade, workflowtest.OneCluster())

	workflowtest.RequireFailure[ranv1.ClusterStatus](w, temporal.ErrLockTimedOut)
	require.Empty(t, nodes.Events)
	require.Contains(t, w.Called(), "WithdrawClusterMaintenance")
}

func TestALongRunContinuesAsNewBetweenNodesWithItsState(t *testing.T) {
	w, nodes := workflowtest.NewClusterWorld(t, 1, 3, 2)
	w.When(func() bool { return slices.Contains(nodes.Events, "+cp0") }, func() { w.SetContinueAsNewSuggested(true) })
	w.ExecuteWorkflow(clusterupgrade.ClusterUpgrade, workflowtest.OneCluster())

	require.True(t, w.IsWorkflowCompleted())
	var next *workflow.ContinueAsNewError
	require.ErrorAs(t, w.GetWorkflowError(), &next)
	require.Zero(t, nodes.Running)
	require.NotContains(t, w.Called(), "WithdrawClusterMaintenance")

	second, again := workflowtest.NewClusterWorld(t, 1, 3, 2)
	in := workflowtest.OneCluster()
	in.Carried = &clusterupgrade.State{Locks: clusterupgrade.Locks{Request: nodemaintenance.Yes, Answer: nodemaintenance.LocksRequested}, Status: ranv1.ClusterUpgradeStatus{Cluster: "c1", State: ranv1.ClusterRunning, StartedAt: &metav1.Time{Time: time.Unix(1, 0)}, Nodes: []ranv1.ClusterNodeStatus{
		{Name: "cp0", ControlPlane: true, State: maintenancev1.NodeCompleted}, {Name: "w0", State: maintenancev1.NodePending},
	}}}
	second.ExecuteWorkflow(clusterupgrade.ClusterUpgrade, in)
	require.Equal(t, int32(2), workflowtest.RequireResult[ranv1.ClusterStatus](second).Nodes.Done)
	require.Equal(t, []string{"+w0", "-w0"}, again.EventsInOrder())
	require.Equal(t, []string{"AwaitClusterHealthy", "WithdrawClusterMaintenance"}, second.Called())
}

// Waiting for all nodes would leave slots unused.
func TestARunWithRunningNodesContinuesAsNewOnlyWithAMuchLongerHistory(t *testing.T) {
	w, nodes := workflowtest.NewClusterWorld(t, 0, 6, 2)
	started := func(node string) func() bool { return func() bool { return slices.Contains(nodes.Events, "+"+node) } }
	w.When(started("w0"), func() {
		w.SetContinueAsNewSuggested(true)
		w.SetCurrentHistoryLength(100)
	})
	w.When(started("w3"), func() { w.SetCurrentHistoryLength(clusterupgrade.Overdue * 100) })
	w.ExecuteWorkflow(clusterupgrade.ClusterUpgrade, workflowtest.OneCluster())

	next := workflowtest.NextRunInput[clusterupgrade.Input](w)
	require.NotNil(t, next)
	require.Zero(t, nodes.Running)
	require.Contains(t, nodes.Events, "+w3")
	require.NotContains(t, nodes.Events, "+w5")
}

func TestThePauseOfAClusterWithoutRunningNodesIsItsReason(t *testing.T) {
	w, nodes := workflowtest.NewClusterWorld(t, 0, 2, 1)
	w.When(func() bool { return nodes.Running == 1 }, func() { w.SignalWorkflow(temporal.SignalPause, nil) })
	w.RegisterDelayedCallback(func() {
		require.Equal(t, "Paused", workflowtest.StatusOf[ranv1.ClusterUpgradeStatus](w).Wait.Reason)
		w.SignalWorkflow(temporal.SignalResume, nil)
	}, time.Hour)
	w.ExecuteWorkflow(clusterupgrade.ClusterUpgrade, workflowtest.OneCluster())
	workflowtest.RequireResult[ranv1.ClusterStatus](w)
}

func TestHundredsOfNodesAreStartedInSeveralTasks(t *testing.T) {
	w, nodes := workflowtest.NewClusterWorld(t, 0, 220, 200)
	tasks := 0
	w.SetOnTimerScheduledListener(func(_ string, pause time.Duration) {
		if pause == time.Millisecond {
			tasks++
		}
	})
	w.ExecuteWorkflow(clusterupgrade.ClusterUpgrade, workflowtest.OneCluster())
	require.Equal(t, int32(220), workflowtest.RequireResult[ranv1.ClusterStatus](w).Nodes.Done)
	require.LessOrEqual(t, nodes.MostRunning, 200)
	require.GreaterOrEqual(t, tasks, 200/clusterupgrade.MaxStartsPerTask, "one task starts only some")
}

func TestNodesWaitForRequestorsOnlyWithTheActionNone(t *testing.T) {
	for name, tc := range map[string]struct {
		action *maintenancev1.Action
		waits  bool
	}{
		"no action: returned once drained":           {nil, false},
		"action none: another requestor works on it": {&maintenancev1.Action{Type: maintenancev1.ActionNone}, true},
	} {
		t.Run(name, func(t *testing.T) {
			w, _ := workflowtest.NewClusterWorld(t, 0, 0, 1)
			w.Nodes.Workers = []string{"w0"}
			var started nodemaintenance.Input
			w.OnWorkflow(temporal.NodeMaintenance, mock.Anything, mock.Anything).Return(func(_ workflow.Context, in nodemaintenance.Input) (workflowtest.NodeStatus, error) {
				started = in
				return workflowtest.NodeStatus{State: maintenancev1.NodeCompleted}, nil
			})
			in := workflowtest.OneCluster()
			in.Remediation.Action = tc.action
			w.ExecuteWorkflow(clusterupgrade.ClusterUpgrade, in)
			workflowtest.RequireResult[ranv1.ClusterStatus](w)
			require.Equal(t, tc.waits, !started.DoneWhenReady)
		})
	}
}

func TestSkippedNodesAreNoted(t *testing.T) {
	w, _ := workflowtest.NewClusterWorld(t, 0, 1, 1)
	w.Nodes.Skipped = []rollout.SkippedNode{{Name: "gpu", Reason: rollout.ReasonSkipNodes}}
	var notes []string
	w.When(func() bool { notes = workflowtest.StatusOf[ranv1.ClusterUpgradeStatus](w).Notes; return len(notes) > 0 }, func() {})
	w.ExecuteWorkflow(clusterupgrade.ClusterUpgrade, workflowtest.OneCluster())
	workflowtest.RequireResult[ranv1.ClusterStatus](w)
	require.Equal(t, []string{"node gpu is skipped: SkipNodes"}, notes)
}

func TestRequestsAreSentAgainAfterTheSchedulerWasTerminated(t *testing.T) {
	w, nodes := workflowtest.NewClusterWorld(t, 0, 3, 1)
	w.When(func() bool { return nodes.Running == 1 }, func() {
		w.Mu.Lock()
		defer w.Mu.Unlock()
		w.Scheduler.Gone = true
		w.Scheduler.State = scheduling.SlotState{}
	})
	again := func() bool {
		w.Mu.Lock()
		defer w.Mu.Unlock()
		return len(w.Inputs["RequestSlots"]) > 1
	}
	w.When(again, func() {
		w.Mu.Lock()
		defer w.Mu.Unlock()
		w.Scheduler.Gone = false
	})
	w.ExecuteWorkflow(clusterupgrade.ClusterUpgrade, workflowtest.OneCluster())

	require.Equal(t, int32(3), workflowtest.RequireResult[ranv1.ClusterStatus](w).Nodes.Done)
	require.Equal(t, 1, nodes.MostRunning)
	resent := w.InputsOf("RequestSlots")[1].(scheduler.RequestSlotsInput).Requests
	require.Len(t, workflowtest.Ungranted(resent), 2)
}

func TestAPausedRolloutCancelsItsSlotRequests(t *testing.T) {
	w, nodes := workflowtest.NewClusterWorld(t, 0, 3, 1)
	w.When(func() bool { return nodes.Running == 1 }, func() { w.SignalWorkflow(temporal.SignalPause, nil) })
	w.RegisterDelayedCallback(func() {
		require.True(t, w.Scheduler.State.Empty(), "others can use its slots")
		w.SignalWorkflow(temporal.SignalResume, nil)
	}, time.Hour)
	w.ExecuteWorkflow(clusterupgrade.ClusterUpgrade, workflowtest.OneCluster())
	require.Equal(t, int32(3), workflowtest.RequireResult[ranv1.ClusterStatus](w).Nodes.Done)
}

func TestTheSlotOfATerminatedMaintenanceIsKeptUntilItsMarksAreListed(t *testing.T) {
	w, nodes := workflowtest.NewClusterWorld(t, 0, 2, 1)
	nodes.Outcomes["w0"] = func(workflow.Context) error {
		return sdktemporal.NewApplicationError("it was terminated", "Terminated")
	}
	w.ExecuteWorkflow(clusterupgrade.ClusterUpgrade, workflowtest.OneCluster())
	last := w.Scheduler.LastSet()
	require.True(t, slices.ContainsFunc(last.Releases, func(r scheduling.Release) bool { return r.Unclean }), "%+v", last)
}

func TestANodeThatCannotBeReturnedFailsItsClusterAndKeepsItsSlot(t *testing.T) {
	w, nodes := workflowtest.NewClusterWorld(t, 0, 2, 1)
	nodes.Outcomes["w0"] = endsFailed(true)
	w.ExecuteWorkflow(clusterupgrade.ClusterUpgrade, workflowtest.OneCluster())
	workflowtest.RequireFailure[ranv1.ClusterStatus](w, temporal.ErrDrainTimedOut)
	last := w.Scheduler.LastSet()
	require.True(t, slices.ContainsFunc(last.Releases, func(r scheduling.Release) bool { return r.Unclean }), "%+v", last)
}

// endsFailed ends a node maintenance after a failed drain.
func endsFailed(notReturned bool) func(workflow.Context) error {
	return func(ctx workflow.Context) error {
		status := workflowtest.NodeStatus{
			State: maintenancev1.NodeFailed, Failure: &maintenancev1.Failure{Reason: temporal.ErrDrainTimedOut, Message: "1 pod left"},
			NotReturned: notReturned, CompletedAt: new(metav1.NewTime(workflow.Now(ctx))),
		}
		return sdktemporal.NewApplicationErrorWithOptions("1 pod left", temporal.ErrDrainTimedOut, sdktemporal.ApplicationErrorOptions{Details: []any{status}})
	}
}

// The locks of the cluster must not be active while one of its nodes is out of service.
func TestTheClusterLocksStayInactiveUntilTheSweeperHasReturnedTheNodes(t *testing.T) {
	for name, ends := range map[string]func(workflow.Context) error{
		"was terminated":            func(workflow.Context) error { return workflowtest.Terminated() },
		"could not return its node": endsFailed(true),
		"timed out": func(workflow.Context) error {
			return sdktemporal.NewTimeoutError(enumspb.TIMEOUT_TYPE_START_TO_CLOSE, nil)
		},
		"failed without a status": func(workflow.Context) error { return sdktemporal.NewApplicationError("it broke", "Broken") },
	} {
		for _, swept := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, swept: %t", name, swept), func(t *testing.T) {
				w, nodes := workflowtest.NewClusterWorld(t, 0, 1, 1)
				nodes.Outcomes["w0"], w.Blocked["AwaitNodeFree"] = ends, !swept
				w.ExecuteWorkflow(clusterupgrade.ClusterUpgrade, workflowtest.OneCluster())
				require.Error(t, w.GetWorkflowError())
				require.Equal(t, []any{node.AwaitNodeFreeInput{
					NodeRef: activitykit.NodeRef{Cluster: "c1", Node: "w0", Owner: w.Inputs["RequestClusterMaintenance"][0].(locks.ClusterLockInput).Owner},
					Of:      "node/c1/ops/june-w0",
				}}, w.Inputs["AwaitNodeFree"][:1], "the cluster waits only for that maintenance")
				last := w.Called()[len(w.Called())-1]
				if swept {
					require.Equal(t, "WithdrawClusterMaintenance", last)
				} else {
					require.Equal(t, "AwaitNodeFree", last, "the sweeper withdraws the request")
				}
			})
		}
	}
}

func TestAClusterDoesNotWaitForAReturnedNode(t *testing.T) {
	w, nodes := workflowtest.NewClusterWorld(t, 0, 1, 1)
	nodes.Outcomes["w0"] = endsFailed(false)
	w.ExecuteWorkflow(clusterupgrade.ClusterUpgrade, workflowtest.OneCluster())
	workflowtest.RequireFailure[ranv1.ClusterStatus](w, temporal.ErrDrainTimedOut)
	require.NotContains(t, w.Called(), "AwaitNodeFree")
}
