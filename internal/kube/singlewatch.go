package kube

import (
	"context"
	"log/slog"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"drydock.dev/drydock/internal/discovery"
)

// ownWatch is a kind of Await with a watch for that wait only.
type ownWatch interface {
	// watch signals on changed after each change until stop is called. It returns after the watch has started.
	watch(ctx context.Context, c *Cluster, recorded *Recorded, changed chan<- struct{}) (own *informer, stop func(), err error)
}

// SingleObject makes Await watch only the object with that namespace and name: for kinds that may not be listed as a whole, or are too many to cache. Then
// check must read with the Client.
func SingleObject(object client.Object) client.Object { return singleWatch{object} }

type singleWatch struct{ client.Object }

func (w singleWatch) watch(ctx context.Context, c *Cluster, recorded *Recorded, changed chan<- struct{}) (own *informer, stop func(), err error) {
	return c.watchSelection(ctx, selected(w.Object), true, recorded, changed)
}

// selected selects the object with the namespace and name of the object, or all in its namespace if it has no name.
func selected(object client.Object) discovery.Selection {
	selection := discovery.Selection{Object: object}
	if object.GetName() != "" {
		selection.Options.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, object.GetName())
	}
	return selection
}

// CachedMetadata makes Await watch the objects of a kind in one namespace and cache their metadata: for kinds that may be read in some namespaces only.
type CachedMetadata struct{ cached }

// CacheMetadata returns a CachedMetadata for the objects of that kind in the object's namespace.
func CacheMetadata(object client.Object) *CachedMetadata {
	return &CachedMetadata{cached{Object: object, selection: selected(object), metadata: true}}
}

// List returns the metadata of the objects while Await runs, and the last state after that; nothing before. Callers must not change it.
func (k *CachedMetadata) List() []*metav1.PartialObjectMetadata {
	var kept []*metav1.PartialObjectMetadata
	for _, object := range k.list() {
		kept = append(kept, object.(*metav1.PartialObjectMetadata))
	}
	return kept
}

// cached is a selection whose objects a watch of its own caches.
type cached struct {
	client.Object
	selection discovery.Selection
	metadata  bool

	mu  sync.Mutex
	own *informer
}

// list returns the objects while Await runs, and the last state after that; nothing before. Callers must not change them.
func (k *cached) list() []client.Object {
	k.mu.Lock()
	defer k.mu.Unlock()
	var kept []client.Object
	if k.own != nil {
		for _, object := range k.own.GetStore().List() {
			kept = append(kept, object.(client.Object))
		}
	}
	return kept
}

func (k *cached) watch(ctx context.Context, c *Cluster, recorded *Recorded, changed chan<- struct{}) (own *informer, stop func(), err error) {
	own, stop, err = c.watchSelection(ctx, k.selection, k.metadata, recorded, changed)
	if err == nil {
		k.mu.Lock()
		defer k.mu.Unlock()
		k.own = own
	}
	return own, stop, err
}

// listOf returns an empty list of objects of a kind, or of their metadata, and an example of its items.
func listOf(object client.Object, metadata bool, scheme *runtime.Scheme) (list client.ObjectList, item client.Object, err error) {
	kind, err := apiutil.GVKForObject(object, scheme)
	if err != nil {
		return nil, nil, err
	}
	lists := schema.GroupVersionKind{Group: kind.Group, Version: kind.Version, Kind: kind.Kind + "List"}
	_, untyped := object.(runtime.Unstructured)
	switch {
	case metadata:
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(lists)
		return list, &metav1.PartialObjectMetadata{}, nil
	case untyped:
		list, item := &unstructured.UnstructuredList{}, &unstructured.Unstructured{}
		list.SetGroupVersionKind(lists)
		item.SetGroupVersionKind(kind)
		return list, item, nil
	}
	made, err := scheme.New(lists)
	if err != nil {
		return nil, nil, err
	}
	return made.(client.ObjectList), object, nil
}

// watchSelection watches the selected objects, or only their metadata, for one wait.
func (c *Cluster) watchSelection(
	ctx context.Context, selection discovery.Selection, metadata bool, recorded *Recorded, changed chan<- struct{},
) (own *informer, stop func(), err error) {
	scheme := c.Client.Scheme()
	_, item, err := listOf(selection.Object, metadata, scheme)
	if err != nil {
		return nil, nil, err
	}
	api, err := client.NewWithWatch(c.Config, client.Options{Scheme: scheme, Mapper: c.mapper})
	if err != nil {
		return nil, nil, err
	}
	empty := func() client.ObjectList {
		list, _, _ := listOf(selection.Object, metadata, scheme) // it did not fail before
		return list
	}
	options := func(raw metav1.ListOptions) *client.ListOptions {
		options := selection.Options
		options.Namespace, options.Raw = selection.Object.GetNamespace(), &raw
		return &options
	}
	source := &toolscache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, raw metav1.ListOptions) (runtime.Object, error) {
			found := empty()
			return found, api.List(ctx, found, options(raw))
		},
		WatchFuncWithContext: func(ctx context.Context, raw metav1.ListOptions) (watch.Interface, error) {
			return api.Watch(ctx, empty(), options(raw))
		},
	}
	own = newInformer(source, item, toolscache.Indexers{}, slog.Default())
	if selection.Trim != nil {
		if err := own.SetTransform(selection.Trim); err != nil {
			return nil, nil, err
		}
	}
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
		kind, _ := apiutil.GVKForObject(selection.Object, scheme)
		return nil, nil, c.explain("watch "+kind.Kind+" "+client.ObjectKeyFromObject(selection.Object).String(), err)
	}
	return own, stop, nil
}
