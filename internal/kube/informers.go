package kube

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"drydock.dev/drydock/internal/temporal"
)

// IndexNodeName is the index of cached pods by node: client.MatchingFields{kube.IndexNodeName: node}.
const IndexNodeName = "spec.nodeName"

// absenceHolds is how long the absence of a kind is cached.
const absenceHolds = 5 * time.Second

// informers is a cache whose first read of a kind fails with the reason if the kind cannot be watched; controller-runtime's would block until the
// caller's deadline.
type informers struct {
	// The methods of a cache that Drydock does not use are those of nil.
	cache.Cache

	// ctx is that of the caches.
	ctx     context.Context
	config  *rest.Config
	options cache.Options
	cluster *Cluster
	scheme  *runtime.Scheme
	running sync.WaitGroup

	mu sync.Mutex
	// caches are those of the kinds that are filtered or trimmed, and under the empty key that of all others.
	caches  map[partKey]cache.Cache
	stopped bool
	// absent are kinds that were not served at the last request.
	absent map[schema.GroupVersionKind]absence
}

type absence struct {
	at  time.Time
	err error
}

func newInformers(ctx context.Context, cluster *Cluster, config *rest.Config, connections *http.Client, scheme *runtime.Scheme, options Options) *informers {
	all := cache.Options{
		HTTPClient: connections,
		Scheme:     scheme,
		Mapper:     cluster.mapper,
		NewInformer: func(source toolscache.ListerWatcher, kind runtime.Object, _ time.Duration, indexers toolscache.Indexers) toolscache.SharedIndexInformer {
			return newInformer(source, kind, indexers, options.Log.With("cluster", cluster.Name))
		},
	}
	return &informers{
		config: config, options: all, caches: map[partKey]cache.Cache{}, cluster: cluster, scheme: scheme, absent: map[schema.GroupVersionKind]absence{},
		ctx: ctx,
	}
}

// wait returns when all caches have ended, after the end of their context.
func (i *informers) wait() {
	i.mu.Lock()
	i.stopped = true
	i.mu.Unlock()
	i.running.Wait()
}

// of returns the cache that an object of a kind is in.
func (i *informers) of(kind schema.GroupVersionKind, object client.Object) (cache.Cache, error) {
	_, metadata := object.(*metav1.PartialObjectMetadata)
	for _, key := range []partKey{{kind, metadata}, {kind, false}} {
		if part, found := allParts()[key]; found {
			return i.made(key, part)
		}
	}
	return i.whole()
}

// whole returns the cache of all kinds that are not in parts.
func (i *informers) whole() (cache.Cache, error) {
	return i.made(partKey{}, part{trim: cache.TransformStripManagedFields()})
}

// made returns a cache, which is made on first use: most clusters at rest need none.
func (i *informers) made(key partKey, part part) (cache.Cache, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if known := i.caches[key]; known != nil {
		return known, nil
	}
	options := i.options
	options.DefaultTransform = part.trim
	var err error
	if options.DefaultLabelSelector, err = labels.Parse(part.selector); err != nil {
		return nil, err
	}
	made, err := cache.New(i.config, options)
	if err != nil {
		return nil, err
	}
	i.caches[key] = made
	if !i.stopped {
		i.running.Go(func() { _ = made.Start(i.ctx) }) // it only fails if started twice
	}
	return made, nil
}

// WaitForCacheSync does not wait: GetInformer has waited for its informer, and that of another kind may never list its objects.
func (i *informers) WaitForCacheSync(context.Context) bool { return true }

// Get reads one object. Errors: those of the API server, and why the kind cannot be watched.
func (i *informers) Get(ctx context.Context, name client.ObjectKey, object client.Object, options ...client.GetOption) error {
	_, from, release, err := i.listed(ctx, object)
	if err != nil {
		return err
	}
	defer release()
	return from.Get(ctx, name, object, options...)
}

// List reads many objects.
func (i *informers) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	item, err := i.itemOf(list)
	if err != nil {
		return err
	}
	_, from, release, err := i.listed(ctx, item)
	if err != nil {
		return err
	}
	defer release()
	return from.List(ctx, list, options...)
}

// itemOf returns an empty object of the list's items: an informer for a list is that of its items.
func (i *informers) itemOf(list client.ObjectList) (client.Object, error) {
	kind, err := apiutil.GVKForObject(list, i.scheme)
	if err != nil {
		return nil, err
	}
	kind.Kind = strings.TrimSuffix(kind.Kind, "List")
	switch list.(type) {
	case runtime.Unstructured:
		item := &unstructured.Unstructured{}
		item.SetGroupVersionKind(kind)
		return item, nil
	case *metav1.PartialObjectMetadataList:
		item := &metav1.PartialObjectMetadata{}
		item.SetGroupVersionKind(kind)
		return item, nil
	}
	object, err := i.scheme.New(kind)
	if err != nil {
		return nil, err
	}
	item, ok := object.(client.Object)
	if !ok {
		return nil, fmt.Errorf("%s is no object", kind)
	}
	return item, nil
}

// GetInformer returns the informer of an object's kind after it has listed all objects.
func (i *informers) GetInformer(ctx context.Context, object client.Object, options ...cache.InformerGetOption) (cache.Informer, error) {
	found, _, release, err := i.listed(ctx, object, options...)
	if err != nil {
		return nil, err
	}
	release()
	return found, nil
}

// listed returns the informer of an object's kind after it has listed all objects, and its cache. The informer stays until release is called.
func (i *informers) listed(ctx context.Context, object client.Object, options ...cache.InformerGetOption) (found *informer, from cache.Cache, release func(), err error) {
	kind, err := apiutil.GVKForObject(object, i.scheme)
	if err != nil {
		return nil, nil, nil, err
	}
	if err := i.recentlyAbsent(kind); err != nil {
		return nil, nil, nil, err
	}
	if from, err = i.of(kind, object); err != nil {
		return nil, nil, nil, err
	}
	if found, release, err = i.hold(ctx, from, object, append(options, cache.BlockUntilSynced(false))); err != nil {
		return nil, nil, nil, i.explain(kind, err)
	}
	if _, ok := object.(*corev1.Pod); ok {
		err = i.indexPods(ctx, from, found)
	}
	if err == nil {
		err = found.await(ctx, i.cluster.reachable)
	}
	if err != nil {
		release()
		return nil, nil, nil, i.explain(kind, err)
	}
	return found, from, release, nil
}

// GetInformerForKind is GetInformer for a kind of the scheme.
func (i *informers) GetInformerForKind(ctx context.Context, kind schema.GroupVersionKind, options ...cache.InformerGetOption) (cache.Informer, error) {
	object, err := i.scheme.New(kind)
	if err != nil {
		return nil, err
	}
	return i.GetInformer(ctx, object.(client.Object), options...)
}

// indexPods adds the index on first use, so that a cluster whose pods are not read does not watch them.
func (i *informers) indexPods(ctx context.Context, pods cache.Cache, own *informer) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if own.usage.indexed {
		return nil
	}
	err := pods.IndexField(ctx, &corev1.Pod{}, IndexNodeName, func(object client.Object) []string {
		return []string{object.(*corev1.Pod).Spec.NodeName}
	})
	own.usage.indexed = err == nil
	return err
}

// recentlyAbsent returns why a kind cannot be read if it was not served a moment ago: tolerant checks run at every event, and should not send a
// request each time.
func (i *informers) recentlyAbsent(kind schema.GroupVersionKind) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if known := i.absent[kind]; time.Since(known.at) < absenceHolds {
		return known.err
	}
	return nil
}

func (i *informers) explain(kind schema.GroupVersionKind, err error) error {
	switch {
	case errors.Is(err, context.Canceled) || temporal.ErrorType(err) != "":
		return err
	case meta.IsNoMatchError(err):
		err = fmt.Errorf("cluster %s does not serve %s: %w", i.cluster.Name, kind, err)
		i.mu.Lock()
		defer i.mu.Unlock()
		i.absent[kind] = absence{at: time.Now(), err: err}
		return err
	}
	return i.cluster.explain("watch "+kind.Kind, err)
}
