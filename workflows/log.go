package workflows

import (
	"log/slog"
	"slices"
	"time"

	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/workflow"
	"google.golang.org/protobuf/reflect/protoreflect"

	"drydock.dev/drydock/internal/history"
)

// LogLine is a line in the log of a workflow.
type LogLine struct {
	// At is the time at which the workflow logged it.
	At      time.Time
	Level   slog.Level
	Message string
	// Fields are the names and values of its fields, one after the other.
	Fields []any
}

// Log returns what a workflow logged in a run: it replays the run. Events that no worker has handled yet are left out. It fails as Replay does; the lines
// before the decision that differs are still returned.
func Log(run history.Run, options client.Options) ([]LogLine, error) {
	run.Events = handled(run.Events)
	if len(run.Events) == 0 {
		return nil, nil
	}
	recorded := &logRecorder{}
	err := replayWith(run, options, recorded)
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
	l.recorder.lines = append(l.recorder.lines, LogLine{At: workflow.Now(l.ctx), Level: level, Message: message, Fields: slices.Clone(fields)}) // loggers with fields of their own use the array again
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
