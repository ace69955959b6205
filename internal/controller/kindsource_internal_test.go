package controller

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	kubeclient "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// oneInformer is a cache with one informer, which has listed its objects.
type oneInformer struct {
	cache.Cache
	cache.Informer
	handlers map[toolscache.ResourceEventHandlerRegistration]bool
}

func (c *oneInformer) GetInformer(context.Context, kubeclient.Object, ...cache.InformerGetOption) (cache.Informer, error) {
	return c, nil
}

func (c *oneInformer) WaitForCacheSync(context.Context) bool { return true }

func (c *oneInformer) AddEventHandlerWithOptions(toolscache.ResourceEventHandler, toolscache.HandlerOptions) (toolscache.ResourceEventHandlerRegistration, error) {
	added := &listed{}
	c.handlers[added] = true
	return added, nil
}

func (c *oneInformer) RemoveEventHandler(removed toolscache.ResourceEventHandlerRegistration) error {
	delete(c.handlers, removed)
	return nil
}

type listed struct {
	toolscache.ResourceEventHandlerRegistration
}

func (*listed) HasSynced() bool { return true }

func TestAStoppedControllerHasNoHandlersLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		informers := &oneInformer{handlers: map[toolscache.ResourceEventHandlerRegistration]bool{}}
		started := func() context.CancelFunc {
			c := newController("Node", reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) { return reconcile.Result{}, nil }),
				Options{Log: slog.New(slog.DiscardHandler)}, kindSource(informers, &corev1.Node{}, &handler.TypedEnqueueRequestForObject[*corev1.Node]{}))
			ctx, cancel := context.WithCancel(t.Context())
			c.queue = newQueue(func(reconcile.Request) {})
			require.NoError(t, c.run(ctx))
			return cancel
		}
		stop, other := started(), started()
		require.Len(t, informers.handlers, 2)
		stop()
		synctest.Wait()
		require.Len(t, informers.handlers, 1, "another controller still needs its own")
		other()
		synctest.Wait()
		require.Empty(t, informers.handlers)
	})
}
