package temporal

import (
	"context"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/interceptor"
	sdktemporal "go.temporal.io/sdk/temporal"
)

const (
	// forbiddenRetry is the longest pause before an activity that lacks a right is retried: a person who grants the right watches whether that helped.
	forbiddenRetry = 2 * time.Second
	// forbiddenAttempts is the number of attempts with these pauses. After them the retry policy applies, so that a right that is missing for weeks does not
	// fill the history.
	forbiddenAttempts = 150
)

// Forbidden soon retries activities that lack a right (ErrForbidden): the pause of a retry policy for outages would be longer. Each attempt is one request
// that the API server refuses without work.
type Forbidden struct {
	interceptor.WorkerInterceptorBase
}

// InterceptActivity implements interceptor.WorkerInterceptor.
func (*Forbidden) InterceptActivity(_ context.Context, next interceptor.ActivityInboundInterceptor) interceptor.ActivityInboundInterceptor {
	return &forbiddenRetries{interceptor.ActivityInboundInterceptorBase{Next: next}}
}

type forbiddenRetries struct {
	interceptor.ActivityInboundInterceptorBase
}

// ExecuteActivity implements interceptor.ActivityInboundInterceptor.
func (f *forbiddenRetries) ExecuteActivity(ctx context.Context, in *interceptor.ExecuteActivityInput) (any, error) {
	result, err := f.Next.ExecuteActivity(ctx, in)
	refused, ok := err.(*sdktemporal.ApplicationError) //nolint:errorlint // another error would lose its own text
	attempt := activity.GetInfo(ctx).Attempt
	if !ok || refused.Type() != ErrForbidden || refused.NonRetryable() || refused.NextRetryDelay() != 0 || attempt > forbiddenAttempts {
		return result, err
	}
	return result, sdktemporal.NewApplicationErrorWithOptions(refused.Message(), ErrForbidden,
		sdktemporal.ApplicationErrorOptions{Cause: refused.Unwrap(), NextRetryDelay: pauseAfterRefusal(attempt)})
}

// pauseAfterRefusal doubles from 200 ms, so that the first attempts, after which the reason is shown, take no longer than those of other errors.
func pauseAfterRefusal(attempt int32) time.Duration {
	return min(200*time.Millisecond<<min(attempt-1, 10), forbiddenRetry)
}
