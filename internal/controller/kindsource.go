package controller

import (
	"context"

	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	kubeclient "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// kindSource is source.Kind for a controller that may stop before the informers of its cluster: its event handler is removed then. The handlers of source.Kind
// stay, with the queue of their controller.
func kindSource[T kubeclient.Object](of cache.Cache, object T, events handler.TypedEventHandler[T, reconcile.Request], selected ...predicate.TypedPredicate[T]) source.SyncingSource {
	return source.Kind(sourceCache{of}, object, events, selected...)
}

// sourceCache is a cache whose informers have the handlers that are added until the context ends with which the informer was requested. In source.Kind, that is the
// context of the controller.
type sourceCache struct{ cache.Cache }

// GetInformer implements cache.Informers.
func (c sourceCache) GetInformer(ctx context.Context, object kubeclient.Object, options ...cache.InformerGetOption) (cache.Informer, error) {
	found, err := c.Cache.GetInformer(ctx, object, options...)
	if err != nil {
		return nil, err
	}
	return sourceInformer{found, ctx}, nil
}

type sourceInformer struct {
	cache.Informer
	ctx context.Context
}

// AddEventHandlerWithOptions implements cache.Informer.
func (i sourceInformer) AddEventHandlerWithOptions(events toolscache.ResourceEventHandler, options toolscache.HandlerOptions) (toolscache.ResourceEventHandlerRegistration, error) {
	added, err := i.Informer.AddEventHandlerWithOptions(events, options)
	if err != nil {
		return nil, err
	}
	context.AfterFunc(i.ctx, func() { _ = i.RemoveEventHandler(added) }) // it only fails for a handler of another informer
	return added, nil
}
