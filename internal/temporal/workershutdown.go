package temporal

import (
	"context"
	"errors"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/interceptor"
	sdktemporal "go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
)

// ErrWorkerShutdown is the type of the retryable error of an activity whose worker is shutting down.
const ErrWorkerShutdown = "WorkerShutdown"

// WorkerShutdown ends the activities of a worker that is shutting down. Without it the SDK lets them run for WorkerStopTimeout, then cancels them and exits
// before they can answer, so the next worker has to wait for a heartbeat timeout. With WorkerShutdown they are cancelled when the shutdown starts, with
// worker.ErrWorkerShutdown as the cause, and return an error that is retried at once on any worker. The result of an activity that still succeeds, or
// fails finally, is kept.
type WorkerShutdown struct {
	interceptor.WorkerInterceptorBase
}

// InterceptActivity implements interceptor.WorkerInterceptor.
func (*WorkerShutdown) InterceptActivity(_ context.Context, next interceptor.ActivityInboundInterceptor) interceptor.ActivityInboundInterceptor {
	return &activityShutdown{interceptor.ActivityInboundInterceptorBase{Next: next}}
}

type activityShutdown struct {
	interceptor.ActivityInboundInterceptorBase
}

// ExecuteActivity implements interceptor.ActivityInboundInterceptor.
func (h *activityShutdown) ExecuteActivity(ctx context.Context, in *interceptor.ExecuteActivityInput) (any, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stopping := activity.GetWorkerStopChannel(ctx)
	go func() {
		select {
		case <-stopping:
			cancel(worker.ErrWorkerShutdown)
		case <-ctx.Done():
		}
	}()
	result, err := h.Next.ExecuteActivity(ctx, in)
	if err == nil || !errors.Is(context.Cause(ctx), worker.ErrWorkerShutdown) || Final(err) {
		return result, err
	}
	return nil, continuedElsewhere("the worker is shutting down; another attempt continues", err)
}

// continuedElsewhere is the error of an attempt that another attempt continues.
func continuedElsewhere(message string, cause error) error {
	return sdktemporal.NewApplicationErrorWithOptions(message, ErrWorkerShutdown,
		sdktemporal.ApplicationErrorOptions{Cause: cause, NextRetryDelay: time.Millisecond, Category: sdktemporal.ApplicationErrorCategoryBenign})
}
