package workflows

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/activities"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/temporal"
)

// Fifty children that start in one moment and tell their parent in another would keep the server from everything else meanwhile.
func TestSiblingsThatStartTogetherTellTheirParentOneAfterTheOther(t *testing.T) {
	limit := progressLimit(50, nodeAtWork)
	inOneSecond := map[int]int{}
	for i := range 50 {
		told := firstTold(t, fmt.Sprintf("node/spoke/default/rollout-worker-%d", i), limit)
		require.GreaterOrEqual(t, told, progressInterval)
		require.LessOrEqual(t, told, limit/progressSteps)
		inOneSecond[int(told/time.Second)]++
	}
	for second, count := range inOneSecond {
		require.LessOrEqual(t, count, 50/3, "told in second %d", second)
	}
}

func TestAChildWithFewSiblingsTellsItsParentSoon(t *testing.T) {
	require.Equal(t, progressInterval, firstTold(t, "node/spoke/default/one", progressLimit(1, nodeAtWork)))
}

// firstTold is how long after its start a child first tells its parent of a change.
func firstTold(t *testing.T, id string, limit time.Duration) time.Duration {
	t.Helper()
	env := new(testsuite.WorkflowTestSuite).NewTestWorkflowEnvironment()
	env.SetStartWorkflowOptions(client.StartWorkflowOptions{ID: id, TaskQueue: "test"})
	began := env.Now()
	var told time.Duration
	env.OnSignalExternalWorkflow(mock.Anything, "parent", "", "news", mock.Anything).
		Run(func(mock.Arguments) { told = env.Now().Sub(began) }).Return(nil).Once()
	env.ExecuteWorkflow(func(ctx workflow.Context) error {
		ctx, stop := workflow.WithCancel(ctx)
		p := &progress{changed: true}
		p.report(ctx, "parent", "news", limit, func() any { stop(); return "changed" })
		return nil
	})
	require.NoError(t, env.GetWorkflowError())
	return told
}

// A parent that has hundreds of children hears of most changes late.
func TestAParentIsToldAtOnceThatALockHasFailed(t *testing.T) {
	failed := &drydockv1.Wait{Reason: activities.ReasonWorkloadLocksFailed, Message: "tf has failed"}
	// soon sends a signal when something was called, and requires that the parent is told once before it would be told of any other change.
	soon := func(w *world, called func() bool, signal string, news any, told string) {
		w.when(called, func() {
			w.SignalWorkflow(signal, news)
			w.RegisterDelayedCallback(func() {
				require.Len(t, w.toldOf(told), 1)
				w.CancelWorkflow()
			}, 100*time.Millisecond)
		})
	}
	w := newWorld(t)
	w.locked, w.blocked["AwaitNodeLocks"] = true, true
	soon(w, func() bool { return len(w.inputsOf("AwaitNodeLocks")) > 0 },
		temporal.SignalObserved, temporal.Observation{Activity: "AwaitNodeLocks", Wait: failed}, temporal.SignalNodeProgress)
	in := ofRollout()
	in.ProgressLimit = time.Hour
	w.ExecuteWorkflow(NodeMaintenance, in)
	requireCancelled[nodeStatus](w)
	require.Equal(t, failed.Message, w.toldOf(temporal.SignalNodeProgress)[0].(ranv1.ClusterNodeStatus).Wait.Message)

	w, nodes := newClusterWorld(t, 0, 1, 1)
	nodes.takes = time.Hour
	soon(w, func() bool { return len(nodes.events) > 0 },
		temporal.SignalNodeProgress, ranv1.ClusterNodeStatus{Name: "w0", State: maintenancev1.NodeScheduled, Wait: failed}, temporal.SignalClusterProgress)
	upgrade := oneCluster()
	upgrade.ProgressLimit = time.Hour
	w.ExecuteWorkflow(ClusterUpgrade, upgrade)
	requireCancelled[ranv1.ClusterStatus](w)

	w, _ = newClusterWorld(t, 0, 1, 1)
	w.blocked["AwaitClusterLocks"] = true
	soon(w, func() bool { return len(w.inputsOf("AwaitClusterLocks")) > 0 },
		temporal.SignalObserved, temporal.Observation{Activity: "AwaitClusterLocks", Wait: failed}, temporal.SignalClusterProgress)
	w.ExecuteWorkflow(ClusterUpgrade, upgrade)
	requireCancelled[ranv1.ClusterStatus](w)
}

func TestALockThatFailsAgainAndAgainDoesNotFloodTheParent(t *testing.T) {
	var p progress
	for range hurriedAtMost {
		p.hurry()
		require.True(t, p.urgent)
		p.urgent = false
	}
	p.hurry()
	require.False(t, p.urgent)
	failed, held := &drydockv1.Wait{Reason: activities.ReasonWorkloadLocksFailed}, &drydockv1.Wait{Reason: activities.ReasonWorkloadLocksHeld}
	require.True(t, turnedUrgent(nil, failed))
	require.True(t, turnedUrgent(held, failed))
	require.False(t, turnedUrgent(failed, failed), "it is known")
	require.False(t, turnedUrgent(failed, held))
	require.False(t, turnedUrgent(failed, nil))
}
