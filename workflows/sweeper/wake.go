package sweeper

import (
	"errors"

	sdktemporal "go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	sweeperactivities "drydock.dev/drydock/activities/sweeper"
	"drydock.dev/drydock/workflows/kit"
)

// Wake has the sweeper of a cluster look, beside what else is done before anything is touched. The future is ready when it does.
func Wake(ctx workflow.Context, waiting kit.Report, cluster, why string) workflow.Future {
	awake, settle := workflow.NewFuture(ctx)
	workflow.GoNamed(ctx, "wake the sweeper", func(ctx workflow.Context) {
		hub := kit.HubRetrier(waiting)
		settle.SetError(hub.Run(ctx, "wake the sweeper of "+cluster, (&sweeperactivities.Activities{}).WakeSweeper, wakeInput(ctx, cluster, why), nil))
	})
	return awake
}

// WakeIfTerminated has the sweeper look when a child that works on a cluster was terminated: it has taken nothing back. The sweeper would find that out by itself
// within half a minute, so nothing depends on whether it could be told.
func WakeIfTerminated(ctx workflow.Context, child error, cluster string) {
	if _, terminated := errors.AsType[*sdktemporal.TerminatedError](child); !terminated {
		return
	}
	telling, _ := workflow.NewDisconnectedContext(ctx)
	hub := kit.HubRetrier(nil).Once()
	err := hub.Run(telling, "wake the sweeper of "+cluster, (&sweeperactivities.Activities{}).WakeSweeper, wakeInput(ctx, cluster, "a workflow was terminated"), nil)
	if err != nil {
		workflow.GetLogger(ctx).Warn("the sweeper could not be woken", "cluster", cluster, "error", err)
	}
}

func wakeInput(ctx workflow.Context, cluster, why string) sweeperactivities.WakeSweeperInput {
	return sweeperactivities.WakeSweeperInput{Cluster: cluster, By: workflow.GetInfo(ctx).WorkflowExecution.ID, Why: why}
}
