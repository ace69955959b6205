package kit

import (
	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/internal/temporal"
)

// Owner returns the ownership mark of this workflow. It has the id of the first run, so it stays the same after continue-as-new.
func Owner(ctx workflow.Context) string {
	info := workflow.GetInfo(ctx)
	return info.WorkflowExecution.ID + "/" + info.FirstRunID
}

// ActorSuffix renders the actor of a request and the reason for a message, as in " by ann: flood".
func ActorSuffix(r temporal.SignalRequest) string {
	switch {
	case r.Actor != "" && r.Reason != "":
		return " by " + r.Actor + ": " + r.Reason
	case r.Actor != "":
		return " by " + r.Actor
	case r.Reason != "":
		return ": " + r.Reason
	}
	return ""
}
