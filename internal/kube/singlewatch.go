package kube

import (
	"context"
	"log/slog"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// SingleObject makes Await watch only the object with that namespace and name: for kinds that may not be listed as a whole, or are too many to cache. Then
// check must read with the Client.
func SingleObject(object client.Object) client.Object { return singleWatch{object} }

type singleWatch struct{ client.Object }

// CachedMetadata makes Await watch the objects of a kind in one namespace and cache their metadata: for kinds that may be read in some namespaces only.
type CachedMetadata struct {
	client.Object

	mu  sync.Mutex
	own *informer
}

// CacheMetadata returns a CachedMetadata for the objects of that kind in the object's namespace.
func CacheMetadata(object client.Object) *CachedMetadata { return &CachedMetadata{Object: object} }

// List returns the metadata of the objects while Await runs, and the last state after that; nothing before. Callers must not change it.
func (k *CachedMetadata) List() []*metav1.PartialObjectMetadata {
	k.mu.Lock()
	defer k.mu.Unlock()
	var kept []*metav1.PartialObjectMetadata
	if k.own != nil {
		for _, object := range k.own.GetStore().List() {
			kept = append(kept, object.(*metav1.PartialObjectMetadata))
		}
	}
	return kept
}

func (k *CachedMetadata) watch(ctx context.Context, c *Cluster, recorded *Recorded, changed chan<- struct{}) (own *informer, stop func(), err error) {
	own, stop, err = c.watchSingle(ctx, k.Object, recorded, changed)
	if err == nil {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.own = own
	}
	return own, stop, err
}

// watchSingle signals on changed after each change of the object, or of any object in its namespace if it has no name, until stop is called. It
// returns after the watch has started.
func (c *Cluster) watchSingle(ctx context.Context, object client.Object, recorded *Recorded, changed chan<- struct{}) (own *informer, stop func(), err error) {
	kind, err := apiutil.GVKForObject(object, c.Client.Scheme())
	if err != nil {
		return nil, nil, err
	}
	api, err := client.NewWithWatch(c.Config, client.Options{Scheme: c.Client.Scheme(), Mapper: c.mapper})
	if err != nil {
		return nil, nil, err
	}
	options := func(raw metav1.ListOptions) *client.ListOptions {
		options := &client.ListOptions{Namespace: object.GetNamespace(), Raw: &raw}
		if object.GetName() != "" {
			options.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, object.GetName())
		}
		return options
	}
	list := func() *metav1.PartialObjectMetadataList {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		return list
	}
	source := &toolscache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, raw metav1.ListOptions) (runtime.Object, error) {
			found := list()
			return found, api.List(ctx, found, options(raw))
		},
		WatchFuncWithContext: func(ctx context.Context, raw metav1.ListOptions) (watch.Interface, error) {
			return api.Watch(ctx, list(), options(raw))
		},
	}
	own = newInformer(source, &metav1.PartialObjectMetadata{}, 0, toolscache.Indexers{}, slog.Default())
	notify := func(event any) {
		if missed, ok := event.(toolscache.DeletedFinalStateUnknown); ok {
			event = missed.Obj
		}
		if of, known := event.(client.Object); known {
			recorded.add(of)
		}
		select {
		case changed <- struct{}{}:
		default: // a check is pending
		}
	}
	if _, err := own.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: notify, DeleteFunc: notify, UpdateFunc: func(_, after any) { notify(after) },
	}); err != nil {
		return nil, nil, err
	}
	watching, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	running.Go(func() { own.RunWithContext(watching) })
	stop = func() {
		cancel()
		running.Wait()
	}
	if err := own.await(ctx, c.reachable); err != nil {
		stop()
		return nil, nil, c.explain("watch "+kind.Kind+" "+client.ObjectKeyFromObject(object).String(), err)
	}
	return own, stop, nil
}
