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

// ErrHandedOver is the type of the retryable error of an activity whose worker stops.
const ErrHandedOver = "HandedOver"

// HandOver makes a worker that stops hand over its activities. Left to itself the SDK lets them run for WorkerStopTimeout, cancels them and
// ends before they could answer, so that the next worker waits for a heartbeat timeout. With HandOver they are cancelled when the stop begins,
// with worker.ErrWorkerShutdown as the cause, and answer with an error that is retried at once, wherever a worker is. An activity that ends
// in success or in a final error all the same is believed.
type HandOver struct {
	interceptor.WorkerInterceptorBase
}

// InterceptActivity implements interceptor.WorkerInterceptor.
func (*HandOver) InterceptActivity(_ context.Context, next interceptor.ActivityInboundInterceptor) interceptor.ActivityInboundInterceptor {
	return &activityHandOver{interceptor.ActivityInboundInterceptorBase{Next: next}}
}

type activityHandOver struct {
	interceptor.ActivityInboundInterceptorBase
}

// ExecuteActivity implements interceptor.ActivityInboundInterceptor.
func (h *activityHandOver) ExecuteActivity(ctx context.Context, in *interceptor.ExecuteActivityInput) (any, error) {
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
	return nil, handedOver("the worker stops; another attempt goes on", err)
}

// handedOver is the error of an attempt that leaves the rest to another.
func handedOver(message string, cause error) error {
	return sdktemporal.NewApplicationErrorWithOptions(message, ErrHandedOver,
		sdktemporal.ApplicationErrorOptions{Cause: cause, NextRetryDelay: time.Millisecond, Category: sdktemporal.ApplicationErrorCategoryBenign})
}
