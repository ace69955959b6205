package controller

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// syncTimeout is how long the first lists of a controller may take.
const syncTimeout = 2 * time.Minute

// controller reconciles the objects of one kind in one cluster.
type controller struct {
	reconciler reconcile.Reconciler
	sources    []source.Source
	log        *slog.Logger
	queue      *queue
	// idle reports whether there is nothing to do until the kind has an object; nil: there may always be.
	idle func(context.Context) bool
}

// newController returns a controller of the objects that the sources add to its queue.
func newController(name string, of reconcile.Reconciler, options Options, sources ...source.Source) *controller {
	return &controller{reconciler: of, sources: sources, log: options.Log.With("controller", name)}
}

// run reads all objects, then begins to reconcile them, which continues until the queue is stopped.
func (c *controller) run(ctx context.Context) error {
	syncing, cancel := context.WithTimeout(ctx, syncTimeout)
	defer cancel()
	for _, from := range c.sources {
		if err := from.Start(ctx, c.queue); err != nil {
			return err
		}
	}
	for _, from := range c.sources {
		if synced, waits := from.(source.SyncingSource); waits {
			if err := synced.WaitForSync(syncing); err != nil {
				return err
			}
		}
	}
	c.queue.start()
	return nil
}

// reconcileOne calls a reconciler, and adds the request again if that fails or asks for it.
func (c *controller) reconcileOne(ctx context.Context, request reconcile.Request) {
	if ctx.Err() != nil {
		return
	}
	result, err := c.recovered(ctx, request)
	switch {
	case err != nil:
		if ctx.Err() == nil {
			c.log.Error("reconcile failed, retrying", "object", request.String(), "error", err)
		}
		c.queue.AddRateLimited(request)
	case result.RequeueAfter > 0:
		c.queue.Forget(request)
		c.queue.AddAfter(request, result.RequeueAfter)
	default:
		c.queue.Forget(request)
	}
}

// recovered reconciles a request. A panic is an error of that request.
func (c *controller) recovered(ctx context.Context, request reconcile.Request) (_ reconcile.Result, err error) {
	defer func() {
		if reason := recover(); reason != nil {
			err = fmt.Errorf("panic: %v\n%s", reason, debug.Stack())
		}
	}()
	return c.reconciler.Reconcile(ctx, request)
}
