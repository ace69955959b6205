package workflows

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

	"drydock.dev/drydock/activities"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/rollout"
	"drydock.dev/drydock/internal/scheduling"
	"drydock.dev/drydock/internal/temporal"
)

// children plays the NodeMaintenance or ClusterUpgrade children: each takes a while, and ends well unless the test says otherwise.
type children struct {
	events []string
	atWork int
	most   int
	takes  time.Duration
	// ends is how a child of that name ends; absent: well.
	ends map[string]func(workflow.Context) error
}

func (c *children) run(ctx workflow.Context, name string) error {
	c.events = append(c.events, "+"+name)
	c.atWork++
	c.most = max(c.most, c.atWork)
	defer func() {
		c.atWork--
		c.events = append(c.events, "-"+name)
	}()
	if end := c.ends[name]; end != nil {
		return end(ctx)
	}
	return workflow.Sleep(ctx, c.takes)
}

// story is the events in order. What begins, or ends, at the same moment is told by name.
func (c *children) story() []string {
	story := slices.Clone(c.events)
	for from := 0; from < len(story); {
		to := from
		for to < len(story) && story[to][0] == story[from][0] {
			to++
		}
		slices.Sort(story[from:to])
		from = to
	}
	return story
}

func newChildren() *children {
	return &children{takes: time.Minute, ends: map[string]func(workflow.Context) error{}}
}

// playNodes registers a NodeMaintenance that only takes its time, and gives its slot back.
func playNodes(w *world) *children {
	c := newChildren()
	w.registerAs(temporal.NodeMaintenance, func(ctx workflow.Context, in NodeMaintenanceInput) (nodeStatus, error) {
		err := c.run(ctx, in.Object.Spec.NodeName)
		if err == nil {
			giveBack(ctx, in)
		}
		status := nodeStatus{State: maintenancev1.NodeCompleted, Drain: &maintenancev1.DrainStatus{Evicted: 2}, CompletedAt: new(metav1.NewTime(workflow.Now(ctx)))}
		if sdktemporal.IsCanceledError(err) {
			status.State = maintenancev1.NodeCancelled
			return status, sdktemporal.NewCanceledError(status)
		}
		return status, err
	})
	return c
}

func giveBack(ctx workflow.Context, in NodeMaintenanceInput) {
	end, _ := workflow.NewDisconnectedContext(ctx)
	_ = workflow.SignalExternalWorkflow(end, temporal.MaintenanceSchedulerID(in.Cluster), "", temporal.SignalSlotReturn, in.Slot.Return(false)).Get(end, nil)
}

// failsWith ends a node in a typed error that carries its status, as NodeMaintenance does.
func failsWith(state maintenancev1.NodeState, errType string) func(workflow.Context) error {
	return func(ctx workflow.Context) error {
		if err := workflow.Sleep(ctx, time.Second); err != nil {
			return err
		}
		status := nodeStatus{State: state, Failure: &maintenancev1.Failure{Reason: errType, Message: "it broke"}}
		return sdktemporal.NewApplicationErrorWithOptions("it broke", errType, sdktemporal.ApplicationErrorOptions{NonRetryable: true, Details: []any{status}})
	}
}

func newClusterWorld(t *testing.T, controlPlane, workers, slots int) (*world, *children) {
	w := newWorld(t)
	w.scheduler.capacity, w.locked = slots, true
	for i := range controlPlane {
		w.nodes.ControlPlane = append(w.nodes.ControlPlane, fmt.Sprintf("cp%d", i))
	}
	for i := range workers {
		w.nodes.Workers = append(w.nodes.Workers, fmt.Sprintf("w%d", i))
	}
	return w, playNodes(w)
}

func oneCluster() ClusterUpgradeInput {
	return ClusterUpgradeInput{Namespace: "ops", Rollout: "june", Cluster: "c1", TaskQueue: temporal.TaskQueue, Batch: 1}
}

func TestControlPlaneNodesGoFirstOneByOneThenWorkersAsGranted(t *testing.T) {
	w, nodes := newClusterWorld(t, 3, 4, 2)
	w.ExecuteWorkflow(ClusterUpgrade, oneCluster())

	result := requireResult[ranv1.ClusterStatus](w)
	require.Equal(t, []string{"+cp0", "-cp0", "+cp1", "-cp1", "+cp2", "-cp2"}, nodes.story()[:6])
	require.Equal(t, 2, nodes.most)
	require.Equal(t, ranv1.ClusterComplete, result.State)
	require.Equal(t, ranv1.NodeCounts{Total: 7, Done: 7, Evicted: 14}, result.Nodes)
	called := w.called()
	require.Equal(t, []string{"InspectCluster", "RequestClusterMaintenance", "AwaitClusterLocks"}, called[:3])
	require.Nil(t, w.inputs["AwaitClusterLocks"][0].(activities.ClusterLockInput).Deadline, "for as long as it takes")
	require.Equal(t, []string{"AwaitClusterHealthy", "WithdrawClusterMaintenance"}, called[len(called)-2:])
}

func TestNoMoreNodesAreAtWorkThanGranted(t *testing.T) {
	for _, slots := range []int{1, 3, 20} {
		w, nodes := newClusterWorld(t, 0, 8, slots)
		w.ExecuteWorkflow(ClusterUpgrade, oneCluster())
		requireResult[ranv1.ClusterStatus](w)
		require.Equal(t, min(slots, 8), nodes.most)
		require.Len(t, nodes.events, 16)
	}
}

func TestAClusterWithoutNodesToMaintainIsComplete(t *testing.T) {
	w, _ := newClusterWorld(t, 0, 0, 1)
	w.ExecuteWorkflow(ClusterUpgrade, oneCluster())
	require.Equal(t, ranv1.ClusterComplete, requireResult[ranv1.ClusterStatus](w).State)
	require.NotContains(t, w.called(), "RequestClusterMaintenance")
}

func TestAFailedNodeFailsTheClusterAfterTheNodesAtWorkAreReturned(t *testing.T) {
	w, nodes := newClusterWorld(t, 0, 6, 2)
	nodes.ends["w0"] = failsWith(maintenancev1.NodeFailed, temporal.ErrDrainTimedOut)
	w.ExecuteWorkflow(ClusterUpgrade, oneCluster())

	result := requireFailure[ranv1.ClusterStatus](w, temporal.ErrDrainTimedOut)
	require.Equal(t, []string{"+w0", "+w1", "-w0", "-w1"}, nodes.story())
	require.Equal(t, ranv1.ClusterFailed, result.State)
	require.Equal(t, "node w0: it broke", result.Message)
	require.Contains(t, w.called(), "WithdrawClusterMaintenance")
	require.NotContains(t, w.called(), "AwaitClusterHealthy")
}

func TestANodeThatWasDeletedFailsNobody(t *testing.T) {
	w, nodes := newClusterWorld(t, 0, 2, 1)
	nodes.ends["w0"] = failsWith(maintenancev1.NodeGone, temporal.ErrNodeGone)
	w.ExecuteWorkflow(ClusterUpgrade, oneCluster())

	require.Equal(t, ranv1.ClusterComplete, requireResult[ranv1.ClusterStatus](w).State)
	require.Equal(t, []string{"w1"}, w.inputs["AwaitClusterHealthy"][0].(activities.AwaitClusterHealthyInput).Nodes)
}

func TestANodeThatIsDeletedBeforeItsTurnFailsNobody(t *testing.T) {
	w, nodes := newClusterWorld(t, 0, 3, 1)
	w.scheduler.missing = []string{"w1"}
	w.ExecuteWorkflow(ClusterUpgrade, oneCluster())

	result := requireResult[ranv1.ClusterStatus](w)
	require.Equal(t, ranv1.ClusterComplete, result.State)
	require.EqualValues(t, 3, result.Nodes.Done)
	require.Equal(t, []string{"+w0", "-w0", "+w2", "-w2"}, nodes.story())
	require.Equal(t, []string{"w0", "w2"}, w.inputs["AwaitClusterHealthy"][0].(activities.AwaitClusterHealthyInput).Nodes)
	require.True(t, w.scheduler.state.Empty())
}

func TestANodeThatAPersonCancelledFailsTheCluster(t *testing.T) {
	w, nodes := newClusterWorld(t, 0, 2, 1)
	nodes.ends["w0"] = func(workflow.Context) error { return sdktemporal.NewCanceledError() }
	w.ExecuteWorkflow(ClusterUpgrade, oneCluster())

	require.Equal(t, "the maintenance of node w0 was cancelled", requireFailure[ranv1.ClusterStatus](w, "NodeCancelled").Message)
	require.NotContains(t, nodes.events, "+w1")
}

func TestCancelReturnsTheNodesAtWorkBeforeTheClusterLocks(t *testing.T) {
	w, nodes := newClusterWorld(t, 0, 6, 2)
	w.when(func() bool { return nodes.atWork == 2 }, func() { w.SignalWorkflow(temporal.SignalCancel, temporal.SignalRequest{Actor: "ann"}) })
	w.ExecuteWorkflow(ClusterUpgrade, oneCluster())

	require.Equal(t, ranv1.ClusterCancelled, requireCancelled[ranv1.ClusterStatus](w).State)
	require.Len(t, nodes.events, 4)
	called := w.called()
	require.Equal(t, "WithdrawClusterMaintenance", called[len(called)-1])
}

func TestAPausedClusterStartsNoNodeUntilItIsResumed(t *testing.T) {
	w, nodes := newClusterWorld(t, 0, 3, 1)
	w.when(func() bool { return nodes.atWork == 1 }, func() { w.SignalWorkflow(temporal.SignalPause, nil) })
	w.RegisterDelayedCallback(func() {
		require.Equal(t, []string{"+w0", "-w0"}, nodes.story())
		require.True(t, statusOf[ranv1.ClusterUpgradeStatus](w).Paused)
		w.SignalWorkflow(temporal.SignalResume, nil)
	}, 10*time.Hour)
	w.ExecuteWorkflow(ClusterUpgrade, oneCluster())

	requireResult[ranv1.ClusterStatus](w)
	require.Len(t, nodes.events, 6)
}

func TestLocksThatAreNotReleasedInTimeFailTheClusterBeforeAnyNodeIsTouched(t *testing.T) {
	w, nodes := newClusterWorld(t, 1, 1, 1)
	w.fail["AwaitClusterLocks"] = always(temporal.Error(temporal.ErrLockTimedOut, "lock ceph is active", nil))
	w.ExecuteWorkflow(ClusterUpgrade, oneCluster())

	requireFailure[ranv1.ClusterStatus](w, temporal.ErrLockTimedOut)
	require.Empty(t, nodes.events)
	require.Contains(t, w.called(), "WithdrawClusterMaintenance")
}

func TestALongRunContinuesAsNewBetweenNodesAndForgetsNothing(t *testing.T) {
	w, nodes := newClusterWorld(t, 1, 3, 2)
	w.when(func() bool { return slices.Contains(nodes.events, "+cp0") }, func() { w.SetContinueAsNewSuggested(true) })
	w.ExecuteWorkflow(ClusterUpgrade, oneCluster())

	require.True(t, w.IsWorkflowCompleted())
	var next *workflow.ContinueAsNewError
	require.ErrorAs(t, w.GetWorkflowError(), &next)
	require.Zero(t, nodes.atWork)
	require.NotContains(t, w.called(), "WithdrawClusterMaintenance")

	second, again := newClusterWorld(t, 1, 3, 2)
	in := oneCluster()
	in.Carried = &ClusterUpgradeCarried{Locked: true, Status: ranv1.ClusterUpgradeStatus{Cluster: "c1", State: ranv1.ClusterRunning, StartedAt: &metav1.Time{Time: time.Unix(1, 0)}, Nodes: []ranv1.ClusterNodeStatus{
		{Name: "cp0", ControlPlane: true, State: maintenancev1.NodeCompleted}, {Name: "w0", State: maintenancev1.NodePending},
	}}}
	second.ExecuteWorkflow(ClusterUpgrade, in)
	require.Equal(t, int32(2), requireResult[ranv1.ClusterStatus](second).Nodes.Done)
	require.Equal(t, []string{"+w0", "-w0"}, again.story())
	require.Equal(t, []string{"AwaitClusterHealthy", "WithdrawClusterMaintenance"}, second.called())
}

// To let all nodes finish first leaves slots unused.
func TestARunWithNodesAtWorkContinuesAsNewOnlyWhenItsHistoryIsMuchLonger(t *testing.T) {
	w, nodes := newClusterWorld(t, 0, 6, 2)
	started := func(node string) func() bool { return func() bool { return slices.Contains(nodes.events, "+"+node) } }
	w.when(started("w0"), func() {
		w.SetContinueAsNewSuggested(true)
		w.SetCurrentHistoryLength(100)
	})
	w.when(started("w3"), func() { w.SetCurrentHistoryLength(overdue * 100) })
	w.ExecuteWorkflow(ClusterUpgrade, oneCluster())

	next := handedOn[ClusterUpgradeInput](w)
	require.NotNil(t, next)
	require.Zero(t, nodes.atWork)
	require.Contains(t, nodes.events, "+w3")
	require.NotContains(t, nodes.events, "+w5")
}

func TestAPausedClusterSaysSoWhenNoNodeIsAtWork(t *testing.T) {
	w, nodes := newClusterWorld(t, 0, 2, 1)
	w.when(func() bool { return nodes.atWork == 1 }, func() { w.SignalWorkflow(temporal.SignalPause, nil) })
	w.RegisterDelayedCallback(func() {
		require.Equal(t, "Paused", statusOf[ranv1.ClusterUpgradeStatus](w).Wait.Reason)
		w.SignalWorkflow(temporal.SignalResume, nil)
	}, time.Hour)
	w.ExecuteWorkflow(ClusterUpgrade, oneCluster())
	requireResult[ranv1.ClusterStatus](w)
}

func TestHundredsOfNodesAreStartedWithoutHoldingUpTheWorkflow(t *testing.T) {
	w, nodes := newClusterWorld(t, 0, 220, 200)
	tasks := 0
	w.SetOnTimerScheduledListener(func(_ string, pause time.Duration) {
		if pause == time.Millisecond {
			tasks++
		}
	})
	w.ExecuteWorkflow(ClusterUpgrade, oneCluster())
	require.Equal(t, int32(220), requireResult[ranv1.ClusterStatus](w).Nodes.Done)
	require.LessOrEqual(t, nodes.most, 200)
	require.GreaterOrEqual(t, tasks, 200/childrenAtOnce, "one task starts only some")
}

func TestNodesAreHandedOverOnlyWhenTheRolloutSaysSo(t *testing.T) {
	for name, tc := range map[string]struct {
		action   *maintenancev1.Action
		handOver bool
	}{
		"no action: returned once drained":       {nil, false},
		"action none: somebody else works on it": {&maintenancev1.Action{Type: maintenancev1.ActionNone}, true},
	} {
		t.Run(name, func(t *testing.T) {
			w, _ := newClusterWorld(t, 0, 0, 1)
			w.nodes.Workers = []string{"w0"}
			var asked NodeMaintenanceInput
			w.OnWorkflow(temporal.NodeMaintenance, mock.Anything, mock.Anything).Return(func(_ workflow.Context, in NodeMaintenanceInput) (nodeStatus, error) {
				asked = in
				return nodeStatus{State: maintenancev1.NodeCompleted}, nil
			})
			in := oneCluster()
			in.Remediation.Action = tc.action
			w.ExecuteWorkflow(ClusterUpgrade, in)
			requireResult[ranv1.ClusterStatus](w)
			require.Equal(t, tc.handOver, !asked.DoneWhenReady)
		})
	}
}

func TestSkippedNodesAreNoted(t *testing.T) {
	w, _ := newClusterWorld(t, 0, 1, 1)
	w.nodes.Skipped = []rollout.SkippedNode{{Name: "gpu", Reason: rollout.ReasonSkipNodes}}
	var notes []string
	w.when(func() bool { notes = statusOf[ranv1.ClusterUpgradeStatus](w).Notes; return len(notes) > 0 }, func() {})
	w.ExecuteWorkflow(ClusterUpgrade, oneCluster())
	requireResult[ranv1.ClusterStatus](w)
	require.Equal(t, []string{"node gpu is skipped: SkipNodes"}, notes)
}

func TestARolloutSendsItsRequestsAgainToASchedulerThatWasTerminated(t *testing.T) {
	w, nodes := newClusterWorld(t, 0, 3, 1)
	w.when(func() bool { return nodes.atWork == 1 }, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.scheduler.gone = true
		w.scheduler.state = scheduling.SlotState{}
	})
	again := func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return len(w.inputs["RequestSlots"]) > 1
	}
	w.when(again, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.scheduler.gone = false
	})
	w.ExecuteWorkflow(ClusterUpgrade, oneCluster())

	require.Equal(t, int32(3), requireResult[ranv1.ClusterStatus](w).Nodes.Done)
	require.Equal(t, 1, nodes.most)
	resent := w.inputsOf("RequestSlots")[1].(activities.RequestSlotsInput).Requests
	require.Len(t, waiting(resent), 2)
}

func TestAPausedRolloutTakesItsRequestsBack(t *testing.T) {
	w, nodes := newClusterWorld(t, 0, 3, 1)
	w.when(func() bool { return nodes.atWork == 1 }, func() { w.SignalWorkflow(temporal.SignalPause, nil) })
	w.RegisterDelayedCallback(func() {
		require.True(t, w.scheduler.state.Empty(), "others can have its slots")
		w.SignalWorkflow(temporal.SignalResume, nil)
	}, time.Hour)
	w.ExecuteWorkflow(ClusterUpgrade, oneCluster())
	require.Equal(t, int32(3), requireResult[ranv1.ClusterStatus](w).Nodes.Done)
}

func TestANodeThatWasTerminatedKeepsItsSlotUntilItsMarksWereSeen(t *testing.T) {
	w, nodes := newClusterWorld(t, 0, 2, 1)
	nodes.ends["w0"] = func(workflow.Context) error { return sdktemporal.NewApplicationError("it vanished", "Vanished") }
	w.ExecuteWorkflow(ClusterUpgrade, oneCluster())
	last := w.scheduler.lastSet()
	require.True(t, slices.ContainsFunc(last.Releases, func(r scheduling.Release) bool { return r.Unclean }), "%+v", last)
}

func TestANodeThatCouldNotBeReturnedFailsItsClusterAndKeepsItsSlotUntilItsMarksWereSeen(t *testing.T) {
	w, nodes := newClusterWorld(t, 0, 2, 1)
	nodes.ends["w0"] = endsFailed(true)
	w.ExecuteWorkflow(ClusterUpgrade, oneCluster())
	requireFailure[ranv1.ClusterStatus](w, temporal.ErrDrainTimedOut)
	last := w.scheduler.lastSet()
	require.True(t, slices.ContainsFunc(last.Releases, func(r scheduling.Release) bool { return r.Unclean }), "%+v", last)
}

// endsFailed ends a node whose drain has failed, and which was returned or not.
func endsFailed(notReturned bool) func(workflow.Context) error {
	return func(ctx workflow.Context) error {
		status := nodeStatus{
			State: maintenancev1.NodeFailed, Failure: &maintenancev1.Failure{Reason: temporal.ErrDrainTimedOut, Message: "1 pod left"},
			NotReturned: notReturned, CompletedAt: new(metav1.NewTime(workflow.Now(ctx))),
		}
		return sdktemporal.NewApplicationErrorWithOptions("1 pod left", temporal.ErrDrainTimedOut, sdktemporal.ApplicationErrorOptions{Details: []any{status}})
	}
}

// The workloads of the cluster must not go back to work while one of its nodes is out of service.
func TestTheLocksOfAClusterStayLetGoUntilTheSweeperHasReturnedWhatAMaintenanceHasLeft(t *testing.T) {
	for name, ends := range map[string]func(workflow.Context) error{
		"was terminated":            func(workflow.Context) error { return terminated() },
		"could not return its node": endsFailed(true),
		"ran out of its time": func(workflow.Context) error {
			return sdktemporal.NewTimeoutError(enumspb.TIMEOUT_TYPE_START_TO_CLOSE, nil)
		},
		"failed without saying more": func(workflow.Context) error { return sdktemporal.NewApplicationError("it broke", "Broken") },
	} {
		for _, swept := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, swept: %t", name, swept), func(t *testing.T) {
				w, nodes := newClusterWorld(t, 0, 1, 1)
				nodes.ends["w0"], w.blocked["AwaitNodeFree"] = ends, !swept
				w.ExecuteWorkflow(ClusterUpgrade, oneCluster())
				require.Error(t, w.GetWorkflowError())
				require.Equal(t, []any{activities.AwaitNodeFreeInput{
					NodeRef: activities.NodeRef{Cluster: "c1", Node: "w0", Owner: w.inputs["RequestClusterMaintenance"][0].(activities.ClusterLockInput).Owner},
					Of:      "node/c1/ops/june-w0",
				}}, w.inputs["AwaitNodeFree"][:1], "only that maintenance is waited for")
				last := w.called()[len(w.called())-1]
				if swept {
					require.Equal(t, "WithdrawClusterMaintenance", last)
				} else {
					require.Equal(t, "AwaitNodeFree", last, "the request is the sweeper's, too")
				}
			})
		}
	}
}

func TestNobodyIsWaitedForWhoHasReturnedTheNode(t *testing.T) {
	w, nodes := newClusterWorld(t, 0, 1, 1)
	nodes.ends["w0"] = endsFailed(false)
	w.ExecuteWorkflow(ClusterUpgrade, oneCluster())
	requireFailure[ranv1.ClusterStatus](w, temporal.ErrDrainTimedOut)
	require.NotContains(t, w.called(), "AwaitNodeFree")
}
