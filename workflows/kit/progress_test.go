package kit_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/activities/locks"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/clusterupgrade"
	"drydock.dev/drydock/workflows/kit"
	"drydock.dev/drydock/workflows/nodemaintenance"
	"drydock.dev/drydock/workflows/workflowtest"
)

// Fifty children that start and report at the same moments would keep the server busy.
func TestSiblingsThatStartTogetherReportAtDifferentTimes(t *testing.T) {
	limit := kit.ProgressLimit(50, clusterupgrade.NodeReportingTime)
	inOneSecond := map[int]int{}
	for i := range 50 {
		first := firstReport(t, fmt.Sprintf("node/spoke/default/rollout-worker-%d", i), limit)
		require.GreaterOrEqual(t, first, kit.ProgressInterval)
		require.LessOrEqual(t, first, limit/kit.ProgressSteps)
		inOneSecond[int(first/time.Second)]++
	}
	for second, count := range inOneSecond {
		require.LessOrEqual(t, count, 50/3, "reports in second %d", second)
	}
}

func TestAChildWithFewSiblingsReportsSoon(t *testing.T) {
	require.Equal(t, kit.QuickInterval, firstReport(t, "node/spoke/default/one", kit.ProgressLimit(1, clusterupgrade.NodeReportingTime)))
}

// firstReport returns the time from the start of a child to its first report.
func firstReport(t *testing.T, id string, limit time.Duration) time.Duration {
	t.Helper()
	env := new(testsuite.WorkflowTestSuite).NewTestWorkflowEnvironment()
	env.SetStartWorkflowOptions(client.StartWorkflowOptions{ID: id, TaskQueue: "test"})
	began := env.Now()
	var first time.Duration
	env.OnSignalExternalWorkflow(mock.Anything, "parent", "", "news", mock.Anything).
		Run(func(mock.Arguments) { first = env.Now().Sub(began) }).Return(nil).Once()
	env.ExecuteWorkflow(func(ctx workflow.Context) error {
		ctx, stop := workflow.WithCancel(ctx)
		p := &kit.Progress{Changed: true}
		p.Report(ctx, "parent", "news", limit, func() any { stop(); return "changed" })
		return nil
	})
	require.NoError(t, env.GetWorkflowError())
	return first
}

// A parent with hundreds of children receives most changes late.
func TestAFailedLockIsReportedToTheParentWithoutDelay(t *testing.T) {
	failed := &drydockv1.Wait{Reason: locks.ReasonWorkloadLocksFailed, Message: "tf has failed"}
	// soon sends a signal after a call, and requires one report to the parent before the next regular one.
	soon := func(w *workflowtest.World, called func() bool, signal string, news any, report string) {
		w.When(called, func() {
			w.SignalWorkflow(signal, news)
			w.RegisterDelayedCallback(func() {
				require.Len(t, w.SentSignals(report), 1)
				w.CancelWorkflow()
			}, 100*time.Millisecond)
		})
	}
	w := workflowtest.NewWorld(t)
	w.Locked, w.Blocked["AwaitNodeLocks"] = true, true
	soon(w, func() bool { return len(w.InputsOf("AwaitNodeLocks")) > 0 },
		temporal.SignalObserved, temporal.Observation{Activity: "AwaitNodeLocks", Wait: failed}, temporal.SignalNodeProgress)
	in := workflowtest.MaintenanceOfRollout()
	in.ProgressLimit = time.Hour
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, in)
	workflowtest.RequireCancelled[workflowtest.NodeStatus](w)
	require.Equal(t, failed.Message, w.SentSignals(temporal.SignalNodeProgress)[0].(ranv1.ClusterNodeStatus).Wait.Message)

	w, nodes := workflowtest.NewClusterWorld(t, 0, 1, 1)
	nodes.Duration = time.Hour
	soon(w, func() bool { return len(nodes.Events) > 0 },
		temporal.SignalNodeProgress, ranv1.ClusterNodeStatus{Name: "w0", State: maintenancev1.NodeScheduled, Wait: failed}, temporal.SignalClusterProgress)
	upgrade := workflowtest.OneCluster()
	upgrade.ProgressLimit = time.Hour
	w.ExecuteWorkflow(clusterupgrade.ClusterUpgrade, upgrade)
	workflowtest.RequireCancelled[ranv1.ClusterStatus](w)

	w, _ = workflowtest.NewClusterWorld(t, 0, 1, 1)
	w.Blocked["AwaitClusterLocks"] = true
	soon(w, func() bool { return len(w.InputsOf("AwaitClusterLocks")) > 0 },
		temporal.SignalObserved, temporal.Observation{Activity: "AwaitClusterLocks", Wait: failed}, temporal.SignalClusterProgress)
	w.ExecuteWorkflow(clusterupgrade.ClusterUpgrade, upgrade)
	workflowtest.RequireCancelled[ranv1.ClusterStatus](w)
}

func TestALockThatFailsRepeatedlyDoesNotFloodTheParent(t *testing.T) {
	var p kit.Progress
	for range kit.HurriedAtMost {
		p.ReportNow()
		require.True(t, p.Urgent)
		p.Urgent = false
	}
	p.ReportNow()
	require.False(t, p.Urgent)
	failed, held := &drydockv1.Wait{Reason: locks.ReasonWorkloadLocksFailed}, &drydockv1.Wait{Reason: locks.ReasonWorkloadLocksHeld}
	require.True(t, kit.BecameUrgent(nil, failed))
	require.True(t, kit.BecameUrgent(held, failed))
	require.False(t, kit.BecameUrgent(failed, failed), "it was reported")
	require.False(t, kit.BecameUrgent(failed, held))
	require.False(t, kit.BecameUrgent(failed, nil))
}
