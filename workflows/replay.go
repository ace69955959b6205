package workflows

import (
	"log/slog"

	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/internal/history"
	"drydock.dev/drydock/workflows/kit"
)

// Types are the workflow types of this version.
func Types() []string {
	var found types
	Register(&found, false)
	return found
}

type types []string

// RegisterWorkflowWithOptions implements Registry.
func (t *types) RegisterWorkflowWithOptions(_ any, options workflow.RegisterOptions) {
	*t = append(*t, options.Name)
}

// Replay returns an error if this version would not repeat every decision in the history of a run: it could not continue it. The run is replayed under its
// workflow ID and run ID, because its decisions may contain them. options are those of a connection to Temporal, which say how to decode it.
func Replay(run history.Run, options client.Options) error { return replayWith(run, options) }

// replayWith is Replay with more interceptors.
func replayWith(run history.Run, options client.Options, more ...interceptor.WorkerInterceptor) error {
	replayer, err := worker.NewWorkflowReplayerWithOptions(worker.WorkflowReplayerOptions{
		DataConverter: options.DataConverter, FailureConverter: options.FailureConverter, ContextPropagators: options.ContextPropagators,
		Interceptors: append([]interceptor.WorkerInterceptor{&kit.SignalOrder{}}, more...), DisableDeadlockDetection: true,
	})
	if err != nil {
		return err
	}
	Register(replayer, false)
	return replayer.ReplayWorkflowHistoryWithOptions(log.NewStructuredLogger(slog.New(slog.DiscardHandler)), &historypb.History{Events: run.Events},
		worker.ReplayWorkflowHistoryOptions{OriginalExecution: workflow.Execution{ID: run.WorkflowID, RunID: run.RunID}})
}
