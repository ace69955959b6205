package kit_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/workflow"

	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/internal/windows"
	"drydock.dev/drydock/workflows/locks"
	"drydock.dev/drydock/workflows/nodemaintenance"
	"drydock.dev/drydock/workflows/portal"
	"drydock.dev/drydock/workflows/window"
	"drydock.dev/drydock/workflows/workflowtest"
)

// runCancelledAsItEnds cancels a workflow in the workflow task in which its run continues as new. The next run would not receive the cancellation. The SDK
// applies a cancellation before any coroutine runs.
func runCancelledAsItEnds[In, Out any](w *workflowtest.World, after time.Duration, in In, run func(workflow.Context, In) (Out, error)) {
	w.RegisterDelayedCallback(func() { w.SignalWorkflow("both", nil) }, after)
	w.ExecuteWorkflow(func(ctx workflow.Context, in In) (Out, error) {
		cancelled, cancel := workflow.WithCancel(ctx)
		workflow.Go(ctx, func(ctx workflow.Context) {
			workflow.Go(ctx, func(ctx workflow.Context) { // it runs last in this task, so first in the next
				workflow.GetSignalChannel(ctx, "both").Receive(ctx, nil)
				w.SetContinueAsNewSuggested(true)
				cancel()
			})
		})
		return run(cancelled, in)
	}, in)
	require.True(w.T, w.IsWorkflowCompleted())
}

func TestACancellationAtTheEndOfARunIsHandled(t *testing.T) {
	t.Run("by a window", func(t *testing.T) {
		w := workflowtest.NewWindowWorld(t, workflowtest.Noon)
		w.UpdateAfter(0, temporal.UpdateDefine, workflowtest.DefineNight())
		runCancelledAsItEnds(w.World, time.Hour, window.Input{}, func(ctx workflow.Context, in window.Input) (struct{}, error) {
			return struct{}{}, window.MaintenanceWindow(ctx, in)
		})
		next := workflowtest.NextRunInput[window.Input](w.World)
		require.NotNil(t, next)
		require.WithinDuration(t, workflowtest.Noon.Add(time.Hour), w.Now(), time.Second)
		require.True(t, next.Carried.State.Cancelled)
		require.Equal(t, windows.EventCancelled, next.Carried.State.Events[len(next.Carried.State.Events)-1].Kind)
		require.Contains(t, w.Sent(), windows.EventCancelled, "its receivers are notified")
	})
	t.Run("by a maintenance that waits for its window", func(t *testing.T) {
		w := workflowtest.NewWorld(t)
		w.Windows = map[string]windows.Snapshot{workflowtest.NightWindow: workflowtest.OpensAt(1, w.Now().Add(24*time.Hour))}
		runCancelledAsItEnds(w, time.Hour, workflowtest.MaintenanceInWindow(), nodemaintenance.NodeMaintenance)
		require.Equal(t, maintenancev1.NodeCancelled, workflowtest.RequireCancelled[workflowtest.NodeStatus](w).State)
	})
	t.Run("by a portal", func(t *testing.T) {
		w := workflowtest.NewPortalWorld(t)
		w.UpdateAfter(0, temporal.UpdateApply, workflowtest.Shop())
		runCancelledAsItEnds(w.World, time.Hour, portal.Input{}, portal.StatusPortal)
		next := workflowtest.NextRunInput[portal.Input](w.World)
		require.NotNil(t, next)
		require.True(t, next.Carried.Portal.Empty())
	})
	t.Run("by a lock controller whose activity completes in the same task", func(t *testing.T) {
		w, answered := workflowtest.NewLockWorld(t), false
		w.SetContinueAsNewSuggested(true)
		w.SetOnActivityCompletedListener(func(info *activity.Info, _ converter.EncodedValue, _ error) {
			answered = answered || info.ActivityType.Name == "ApplyWorkloadLocks"
		})
		w.ExecuteWorkflow(func(ctx workflow.Context, in locks.Input) (status locks.Status, err error) {
			cancelled, cancel := workflow.WithCancel(ctx)
			ended := false
			workflow.Go(cancelled, func(ctx workflow.Context) {
				status, err = locks.WorkloadLockController(ctx, in)
				ended = true
			})
			_ = workflow.Await(ctx, func() bool { return answered }) // it runs before the controller in each task
			cancel()
			_ = workflow.Await(ctx, func() bool { return ended })
			return status, err
		}, workflowtest.LockInput())
		require.Equal(t, locks.Cancelled, workflowtest.RequireCancelled[locks.Status](w.World).State)
		require.Equal(t, []string{"LocateCluster", "ApplyWorkloadLocks"}, w.Called())
	})
}
