package workflows

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
)

// runCancelledAsItEnds runs a workflow until, a while after its beginning, one workflow task brings both: that the history is long, so that the run continues
// as new, and Temporal's own cancellation, of which the next run would not hear. The SDK takes in the second before any coroutine has its turn.
func runCancelledAsItEnds[In, Out any](w *world, after time.Duration, in In, run func(workflow.Context, In) (Out, error)) {
	w.RegisterDelayedCallback(func() { w.SignalWorkflow("both", nil) }, after)
	w.ExecuteWorkflow(func(ctx workflow.Context, in In) (Out, error) {
		cancelled, cancel := workflow.WithCancel(ctx)
		workflow.Go(ctx, func(ctx workflow.Context) {
			workflow.Go(ctx, func(ctx workflow.Context) { // the last that has its turn in this task, and so the first in the next
				workflow.GetSignalChannel(ctx, "both").Receive(ctx, nil)
				w.SetContinueAsNewSuggested(true)
				cancel()
			})
		})
		return run(cancelled, in)
	}, in)
	require.True(w.t, w.IsWorkflowCompleted())
}

func TestACancellationThatComesWithTheEndOfARunIsHeard(t *testing.T) {
	t.Run("by a window", func(t *testing.T) {
		w := newWindowWorld(t, noon)
		w.order(0, temporal.UpdateDefine, defined())
		runCancelledAsItEnds(w.world, time.Hour, MaintenanceWindowInput{}, func(ctx workflow.Context, in MaintenanceWindowInput) (struct{}, error) {
			return struct{}{}, MaintenanceWindow(ctx, in)
		})
		next := handedOn[MaintenanceWindowInput](w.world)
		require.NotNil(t, next)
		require.WithinDuration(t, noon.Add(time.Hour), w.Now(), time.Second)
		require.True(t, next.Carried.Course.Cancelled)
		require.Equal(t, windows.EventCancelled, next.Carried.Course.Events[len(next.Carried.Course.Events)-1].Kind)
		require.Contains(t, w.sent(), windows.EventCancelled, "its receivers are told")
	})
	t.Run("by a maintenance that waits for its window", func(t *testing.T) {
		w := newWorld(t)
		w.windows = map[string]windows.Standing{nightWindow: opensAt(1, w.Now().Add(24*time.Hour))}
		runCancelledAsItEnds(w, time.Hour, maintenanceInWindow(), NodeMaintenance)
		require.Equal(t, maintenancev1.NodeCancelled, requireCancelled[nodeStatus](w).State)
	})
	t.Run("by a portal", func(t *testing.T) {
		w := newPortalWorld(t)
		w.order(0, temporal.UpdateApply, shop())
		runCancelledAsItEnds(w.world, time.Hour, StatusPortalInput{}, StatusPortal)
		next := handedOn[StatusPortalInput](w.world)
		require.NotNil(t, next)
		require.True(t, next.Carried.Portal.Empty())
	})
	t.Run("by a lock controller, with the answer after which the run continues as new", func(t *testing.T) {
		w, answered := newLockWorld(t), false
		w.SetContinueAsNewSuggested(true)
		w.SetOnActivityCompletedListener(func(info *activity.Info, _ converter.EncodedValue, _ error) {
			answered = answered || info.ActivityType.Name == "ApplyWorkloadLocks"
		})
		w.ExecuteWorkflow(func(ctx workflow.Context, in WorkloadLockControllerInput) (status WorkloadLockControllerStatus, err error) {
			cancelled, cancel := workflow.WithCancel(ctx)
			over := false
			workflow.Go(cancelled, func(ctx workflow.Context) {
				status, err = WorkloadLockController(ctx, in)
				over = true
			})
			_ = workflow.Await(ctx, func() bool { return answered }) // in each task it has its turn before the controller
			cancel()
			_ = workflow.Await(ctx, func() bool { return over })
			return status, err
		}, lockInput())
		require.Equal(t, LockControllerCancelled, requireCancelled[WorkloadLockControllerStatus](w.world).State)
		require.Equal(t, []string{"LocateCluster", "ApplyWorkloadLocks"}, w.called())
	})
}
