package workflows

import (
	"log/slog"
	"time"

	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	"google.golang.org/protobuf/reflect/protoreflect"

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

// LogLine is a line in the log of a workflow.
type LogLine struct {
	// At is the time at which the workflow logged it.
	At      time.Time
	Level   slog.Level
	Message string
	// Fields are the names and values of its fields, one after the other.
	Fields []any
}

// Replay repeats the decisions of a run, and returns what the workflow logged. Events that no worker has handled yet are left out. It fails if the
// workflows of this program decide differently from those that wrote the history, and so could not continue it; the lines before that decision are still
// returned. options are those of a connection to Temporal, which say how to decode the history.
func Replay(run history.Run, options client.Options) ([]LogLine, error) {
	events := handled(run.Events)
	if len(events) == 0 {
		return nil, nil
	}
	recorded := &logRecorder{}
	replayer, err := worker.NewWorkflowReplayerWithOptions(worker.WorkflowReplayerOptions{
		DataConverter: options.DataConverter, FailureConverter: options.FailureConverter, ContextPropagators: options.ContextPropagators,
		DisableDeadlockDetection: true, Interceptors: []interceptor.WorkerInterceptor{&kit.SignalOrder{}, &kit.FirstRun{}, recorded},
	})
	if err != nil {
		return nil, err
	}
	Register(replayer, false)
	quiet := log.NewStructuredLogger(slog.New(slog.DiscardHandler))
	// Decisions may contain the ids.
	err = replayer.ReplayWorkflowHistoryWithOptions(quiet, &historypb.History{Events: events}, worker.ReplayWorkflowHistoryOptions{
		OriginalExecution: workflow.Execution{ID: run.WorkflowID, RunID: run.RunID},
	})
	return recorded.lines, err
}

// handled returns the events up to the last task that a worker has completed, and the commands of that task.
func handled(events []*historypb.HistoryEvent) []*historypb.HistoryEvent {
	last := len(events) - 1
	for last >= 0 && events[last].GetWorkflowTaskCompletedEventAttributes() == nil {
		last--
	}
	if last < 0 {
		return nil
	}
	end := last + 1
	for end < len(events) && isCommandOf(events[end], events[last].GetEventId()) {
		end++
	}
	return events[:end]
}

// isCommandOf reports whether an event is a command of a completed task. Each names that task, except those of updates, which follow it at once.
func isCommandOf(event *historypb.HistoryEvent, task int64) bool {
	if event.GetWorkflowExecutionUpdateAcceptedEventAttributes() != nil || event.GetWorkflowExecutionUpdateCompletedEventAttributes() != nil {
		return true
	}
	message := event.ProtoReflect()
	set := message.WhichOneof(message.Descriptor().Oneofs().ByName("attributes"))
	if set == nil {
		return false
	}
	attributes := message.Get(set).Message()
	field := attributes.Descriptor().Fields().ByName(protoreflect.Name("workflow_task_completed_event_id"))
	return field != nil && attributes.Get(field).Int() == task
}

// logRecorder is an interceptor that records what a workflow logs.
type logRecorder struct {
	interceptor.WorkerInterceptorBase
	lines []LogLine
}

// InterceptWorkflow implements interceptor.WorkerInterceptor.
func (r *logRecorder) InterceptWorkflow(_ workflow.Context, next interceptor.WorkflowInboundInterceptor) interceptor.WorkflowInboundInterceptor {
	return &recordedInbound{WorkflowInboundInterceptorBase: interceptor.WorkflowInboundInterceptorBase{Next: next}, recorder: r}
}

type recordedInbound struct {
	interceptor.WorkflowInboundInterceptorBase
	recorder *logRecorder
}

// Init implements interceptor.WorkflowInboundInterceptor.
func (i *recordedInbound) Init(outbound interceptor.WorkflowOutboundInterceptor) error {
	return i.Next.Init(&recordedOutbound{WorkflowOutboundInterceptorBase: interceptor.WorkflowOutboundInterceptorBase{Next: outbound}, recorder: i.recorder})
}

type recordedOutbound struct {
	interceptor.WorkflowOutboundInterceptorBase
	recorder *logRecorder
}

// GetLogger implements interceptor.WorkflowOutboundInterceptor.
func (o *recordedOutbound) GetLogger(ctx workflow.Context) log.Logger {
	return recordingLogger{ctx: ctx, recorder: o.recorder}
}

// recordingLogger records lines with the time of the workflow.
type recordingLogger struct {
	ctx      workflow.Context
	recorder *logRecorder
}

func (l recordingLogger) record(level slog.Level, message string, fields []any) {
	l.recorder.lines = append(l.recorder.lines, LogLine{At: workflow.Now(l.ctx), Level: level, Message: message, Fields: fields})
}

func (l recordingLogger) Debug(message string, fields ...any) {
	l.record(slog.LevelDebug, message, fields)
}

func (l recordingLogger) Info(message string, fields ...any) {
	l.record(slog.LevelInfo, message, fields)
}

func (l recordingLogger) Warn(message string, fields ...any) {
	l.record(slog.LevelWarn, message, fields)
}

func (l recordingLogger) Error(message string, fields ...any) {
	l.record(slog.LevelError, message, fields)
}
