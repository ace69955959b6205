package temporal

import (
	"context"
	"encoding/json"
	"errors"
	"sync"

	"go.temporal.io/sdk/interceptor"
	sdktemporal "go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
)

const (
	// ErrMessage ends an attempt that has a Message for its workflow, which takes it and runs the activity again.
	ErrMessage = "Message"
	// ErrNextAttempt ends an attempt that failed and that only the workflow may repeat. Its cause is the failure.
	ErrNextAttempt = "NextAttempt"
)

// Message is what an activity has to tell its workflow before it has finished.
type Message struct {
	// Signal is the name of the signal that carries the message where activities may send signals.
	Signal  string          `json:"signal"`
	Payload json.RawMessage `json:"payload"`
	// State is what the next attempt needs, such as heartbeat details are for a retry; empty: nothing.
	State json.RawMessage `json:"state,omitempty"`
}

// AnswersOnly is an interceptor for a worker that may only poll its own task queue and answer its tasks: it has no right to signal, query or start
// workflows. A message of an activity ends the attempt (AnswerWith). A disruptive activity cannot query whether its cluster is held, so the workflow, which
// knows it, decides about each further attempt (AsksBeforeRetry).
type AnswersOnly struct {
	interceptor.WorkerInterceptorBase
}

// InterceptActivity implements interceptor.WorkerInterceptor.
func (*AnswersOnly) InterceptActivity(_ context.Context, next interceptor.ActivityInboundInterceptor) interceptor.ActivityInboundInterceptor {
	return &activityAnswers{interceptor.ActivityInboundInterceptorBase{Next: next}}
}

type activityAnswers struct {
	interceptor.ActivityInboundInterceptorBase
}

// ExecuteActivity implements interceptor.ActivityInboundInterceptor. The result of an activity that still succeeds, or fails finally, is kept.
func (a *activityAnswers) ExecuteActivity(ctx context.Context, in *interceptor.ExecuteActivityInput) (any, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	attempt := &onlyAnswers{end: cancel}
	result, err := a.Next.ExecuteActivity(context.WithValue(ctx, onlyAnswersKey{}, attempt), in)
	if err == nil || Final(err) {
		return result, err
	}
	attempt.mu.Lock()
	defer attempt.mu.Unlock()
	switch {
	case attempt.message != nil && errors.Is(context.Cause(ctx), errAnswered):
		return nil, sdktemporal.NewApplicationErrorWithOptions(attempt.message.Signal, ErrMessage, sdktemporal.ApplicationErrorOptions{
			NonRetryable: true, Details: []any{attempt.message}, Category: sdktemporal.ApplicationErrorCategoryBenign,
		})
	case attempt.asks && ctx.Err() == nil:
		return nil, sdktemporal.NewApplicationErrorWithOptions(ErrorMessage(err), ErrNextAttempt, sdktemporal.ApplicationErrorOptions{NonRetryable: true, Cause: err})
	}
	return result, err
}

var errAnswered = errors.New("the attempt has a message for its workflow")

type onlyAnswersKey struct{}

// onlyAnswers is an attempt of a worker that may only answer.
type onlyAnswers struct {
	end context.CancelCauseFunc

	mu      sync.Mutex
	message *Message
	asks    bool
}

// OnlyAnswers reports whether the worker of an activity may only answer its tasks.
func OnlyAnswers(ctx context.Context) bool {
	_, only := ctx.Value(onlyAnswersKey{}).(*onlyAnswers)
	return only
}

// AnswerWith ends the attempt of ctx with a message, if its worker may only answer its tasks, and reports whether it does. The context of the activity is cancelled.
func AnswerWith(ctx context.Context, signal string, payload, state any) (ends bool, err error) {
	attempt, only := ctx.Value(onlyAnswersKey{}).(*onlyAnswers)
	if !only {
		return false, nil
	}
	message := &Message{Signal: signal}
	if message.Payload, err = json.Marshal(payload); err != nil {
		return true, err
	}
	if message.State, err = json.Marshal(state); err != nil {
		return true, err
	}
	attempt.mu.Lock()
	defer attempt.mu.Unlock()
	if attempt.message == nil {
		attempt.message = message
		attempt.end(errAnswered)
	}
	return true, nil
}

// AsksBeforeRetry says that only the workflow may decide about a further attempt, if the worker may not query it. It reports whether that is so.
func AsksBeforeRetry(ctx context.Context) bool {
	attempt, only := ctx.Value(onlyAnswersKey{}).(*onlyAnswers)
	if only {
		attempt.mu.Lock()
		defer attempt.mu.Unlock()
		attempt.asks = true
	}
	return only
}

// MessageIn returns the message with which an attempt ended; nil: it has none.
func MessageIn(err error) *Message {
	application, ok := errors.AsType[*sdktemporal.ApplicationError](err)
	if !ok || application.Type() != ErrMessage {
		return nil
	}
	message := &Message{}
	if application.Details(message) != nil {
		return nil
	}
	return message
}

// FailureIn returns the failure of an attempt that only the workflow may repeat; nil: it is another error.
func FailureIn(err error) error {
	application, ok := errors.AsType[*sdktemporal.ApplicationError](err)
	if !ok || application.Type() != ErrNextAttempt {
		return nil
	}
	if cause := application.Unwrap(); cause != nil {
		return cause
	}
	return errors.New(application.Message())
}

// WithState returns the context for the next attempt of an activity that ended with a message.
func WithState(ctx workflow.Context, message *Message) workflow.Context {
	return workflow.WithValue(ctx, stateKey{}, message.State)
}

// StateOf decodes the state that the attempt before left with its message, and reports whether there is any.
func StateOf(ctx context.Context, state any) bool {
	text, found := ctx.Value(stateKey{}).(json.RawMessage)
	return found && json.Unmarshal(text, state) == nil
}

type stateKey struct{}
