package kube

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"drydock.dev/drydock/internal/temporal"
)

// IndexNodeName is the field by which cached pods can be listed: client.MatchingFields{kube.IndexNodeName: node}.
const IndexNodeName = "spec.nodeName"

// syncPatience is how long a first read may take before it is asked whether the API server answers at all.
const syncPatience = 5 * time.Second

// informers is a cache whose first read of a kind says why the kind cannot be watched, where controller-runtime's would wait
// for as long as its caller does.
type informers struct {
	cache.Cache
	cluster *Cluster
	scheme  *runtime.Scheme

	podsIndexed sync.Mutex
	indexed     bool
}

func newInformers(cluster *Cluster, config *rest.Config, connections *http.Client, scheme *runtime.Scheme, options Options) (*informers, error) {
	inner, err := cache.New(config, cache.Options{
		HTTPClient:       connections,
		Scheme:           scheme,
		Mapper:           cluster.mapper,
		DefaultTransform: cache.TransformStripManagedFields(),
		NewInformer: func(source toolscache.ListerWatcher, kind runtime.Object, resync time.Duration, indexers toolscache.Indexers) toolscache.SharedIndexInformer {
			return newInformer(source, kind, resync, indexers, options.Log.With("cluster", cluster.Name))
		},
	})
	if err != nil {
		return nil, err
	}
	return &informers{Cache: inner, cluster: cluster, scheme: scheme}, nil
}

// Get reads one object. Errors: as the API server's, and why the kind cannot be watched.
func (i *informers) Get(ctx context.Context, name client.ObjectKey, object client.Object, options ...client.GetOption) error {
	if _, err := i.GetInformer(ctx, object); err != nil {
		return err
	}
	return i.Cache.Get(ctx, name, object, options...)
}

// List reads many objects.
func (i *informers) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	item, err := i.itemOf(list)
	if err != nil {
		return err
	}
	if _, err := i.GetInformer(ctx, item); err != nil {
		return err
	}
	return i.Cache.List(ctx, list, options...)
}

// itemOf returns an empty object of the kind that a list holds: the informer for a list is that of its items.
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

// GetInformer returns the informer of an object's kind once it has all objects.
func (i *informers) GetInformer(ctx context.Context, object client.Object, options ...cache.InformerGetOption) (cache.Informer, error) {
	found, err := i.Cache.GetInformer(ctx, object, append(options, cache.BlockUntilSynced(false))...)
	if err != nil {
		return nil, i.explain(object, err)
	}
	if _, ok := object.(*corev1.Pod); ok {
		if err := i.indexPods(ctx); err != nil {
			return nil, err
		}
	}
	if own, ok := found.(*informer); ok {
		if err := own.await(ctx, i.cluster.reachable); err != nil {
			return nil, i.explain(object, err)
		}
	}
	return found, nil
}

// GetInformerForKind is GetInformer for a kind of the scheme.
func (i *informers) GetInformerForKind(ctx context.Context, kind schema.GroupVersionKind, options ...cache.InformerGetOption) (cache.Informer, error) {
	object, err := i.scheme.New(kind)
	if err != nil {
		return nil, err
	}
	return i.GetInformer(ctx, object.(client.Object), options...)
}

// indexPods adds the index on first use, so that a cluster whose pods nobody reads does not watch them.
func (i *informers) indexPods(ctx context.Context) error {
	i.podsIndexed.Lock()
	defer i.podsIndexed.Unlock()
	if i.indexed {
		return nil
	}
	err := i.Cache.IndexField(ctx, &corev1.Pod{}, IndexNodeName, func(object client.Object) []string {
		return []string{object.(*corev1.Pod).Spec.NodeName}
	})
	i.indexed = err == nil
	return err
}

func (i *informers) explain(object client.Object, err error) error {
	kind, kindErr := apiutil.GVKForObject(object, i.scheme)
	switch {
	case kindErr != nil || errors.Is(err, context.Canceled) || temporal.ErrorType(err) != "":
		return err
	case meta.IsNoMatchError(err):
		return fmt.Errorf("cluster %s does not serve %s: %w", i.cluster.Name, kind, err)
	}
	return i.cluster.explain("watch "+kind.Kind, err)
}

// informer remembers why it could not get its objects, as long as it never had them. Later failures are not held against what it
// has: it reconnects by itself.
type informer struct {
	toolscache.SharedIndexInformer

	mu      sync.Mutex
	failure error
	failed  chan struct{}
}

func newInformer(source toolscache.ListerWatcher, kind runtime.Object, resync time.Duration, indexers toolscache.Indexers, log *slog.Logger) *informer {
	i := &informer{SharedIndexInformer: toolscache.NewSharedIndexInformer(source, kind, resync, indexers), failed: make(chan struct{})}
	// It fails only on an informer that runs already.
	_ = i.SetWatchErrorHandlerWithContext(func(ctx context.Context, reflector *toolscache.Reflector, err error) {
		if err == io.EOF || apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
			return // an ordinary end of a watch
		}
		log.WarnContext(ctx, "watch failed, will be tried again", "kind", reflector.TypeDescription(), "error", err)
		i.fail(err)
	})
	return i
}

func (i *informer) fail(err error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.failure == nil {
		close(i.failed)
	}
	i.failure = err
}

// await returns when the informer has all objects, or with the last reason why it could not get them. It tries a refused
// connection again without telling, hence the question whether the API server is reachable.
func (i *informer) await(ctx context.Context, reachable func(context.Context, time.Duration) error) error {
	slow := time.NewTicker(syncPatience)
	defer slow.Stop()
	for !i.HasSynced() {
		select {
		case <-i.HasSyncedChecker().Done():
		case <-i.failed:
			i.mu.Lock()
			defer i.mu.Unlock()
			return i.failure
		case <-slow.C:
			if err := reachable(ctx, syncPatience); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}
