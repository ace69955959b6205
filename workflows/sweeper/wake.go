package sweeper

import (
	"cmp"
	"errors"

	sdktemporal "go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	sweeperactivities "drydock.dev/drydock/activities/sweeper"
	"drydock.dev/drydock/workflows/kit"
)

// KeepAwake makes the sweeper of a cluster, or of the hub if the name is empty, watch for leftovers of a workflow that begins, in the background. The returned
// future is ready once it does; wait for it before any mark is set.
func KeepAwake(ctx workflow.Context, waiting kit.Report, cluster, why string) workflow.Future {
	return wake(ctx, waiting, BeginInput(ctx, cluster, why))
}

// Wake makes the sweeper of a cluster scan it now, in the background. The returned future is ready once it is awake.
func Wake(ctx workflow.Context, waiting kit.Report, cluster, why string) workflow.Future {
	return wake(ctx, waiting, wakeInput(ctx, cluster, why))
}

func wake(ctx workflow.Context, waiting kit.Report, in sweeperactivities.WakeSweeperInput) workflow.Future {
	awake, settle := workflow.NewFuture(ctx)
	workflow.GoNamed(ctx, "wake the sweeper", func(ctx workflow.Context) {
		hub := kit.HubRetrier(waiting)
		settle.SetError(hub.Run(ctx, "wake the sweeper of "+cmp.Or(in.Cluster, "the hub"), (&sweeperactivities.Activities{}).WakeSweeper, in, nil))
	})
	return awake
}

// WakeIfTerminated wakes the sweeper if a child was terminated and so has not cleaned up. It tries only once: the sweeper notices the termination
// itself within 30 seconds.
func WakeIfTerminated(ctx workflow.Context, child error, cluster string) {
	if _, terminated := errors.AsType[*sdktemporal.TerminatedError](child); !terminated {
		return
	}
	detached, _ := workflow.NewDisconnectedContext(ctx)
	hub := kit.HubRetrier(nil).Once()
	err := hub.Run(detached, "wake the sweeper of "+cluster, (&sweeperactivities.Activities{}).WakeSweeper, wakeInput(ctx, cluster, "a workflow was terminated"), nil)
	if err != nil {
		workflow.GetLogger(ctx).Warn("Could not wake the sweeper", "cluster", cluster, "error", err)
	}
}

// BeginInput returns the input of an activity that keeps the sweeper awake because the workflow begins.
func BeginInput(ctx workflow.Context, cluster, why string) sweeperactivities.WakeSweeperInput {
	in := wakeInput(ctx, cluster, why)
	in.Begins = true
	return in
}

func wakeInput(ctx workflow.Context, cluster, why string) sweeperactivities.WakeSweeperInput {
	return sweeperactivities.WakeSweeperInput{Cluster: cluster, By: workflow.GetInfo(ctx).WorkflowExecution.ID, Why: why}
}
