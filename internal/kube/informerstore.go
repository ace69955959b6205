package kube

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/wait"
	toolscache "k8s.io/client-go/tools/cache"
)

// informerStore has the objects of an informer, and tells handlers of their changes.
type informerStore struct {
	indexer   toolscache.Indexer
	transform toolscache.TransformFunc
	// synced is closed when the first list is complete.
	synced  chan struct{}
	stopped atomic.Bool

	// mu orders events, and is not needed to read objects.
	mu       sync.Mutex
	version  string
	handlers []*registration
}

// registration is a handler, which knows all objects that the informer has.
type registration struct {
	toolscache.ResourceEventHandler
	store *informerStore
}

func newInformerStore(indexers toolscache.Indexers) *informerStore {
	return &informerStore{indexer: toolscache.NewIndexer(toolscache.DeletionHandlingMetaNamespaceKeyFunc, indexers), synced: make(chan struct{})}
}

// Add implements toolscache.ReflectorStore.
func (s *informerStore) Add(object any) error { return s.set(object, false) }

// Update implements toolscache.ReflectorStore.
func (s *informerStore) Update(object any) error { return s.set(object, false) }

func (s *informerStore) set(object any, initial bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.setLocked(object, initial)
}

func (s *informerStore) setLocked(object any, initial bool) error {
	object, err := s.transformed(object)
	if err != nil {
		return err
	}
	before, exists, err := s.indexer.Get(object)
	if err != nil {
		return err
	}
	if err := s.indexer.Update(object); err != nil {
		return err
	}
	switch {
	case !exists:
		for _, handler := range s.handlers {
			handler.OnAdd(object, initial)
		}
	case versionOf(before) != versionOf(object): // a list has objects that have not changed, too
		for _, handler := range s.handlers {
			handler.OnUpdate(before, object)
		}
	}
	return nil
}

func (s *informerStore) transformed(object any) (any, error) {
	if s.transform == nil {
		return object, nil
	}
	return s.transform(object)
}

func versionOf(object any) string {
	accessor, err := meta.Accessor(object)
	if err != nil {
		return ""
	}
	return accessor.GetResourceVersion()
}

// Delete implements toolscache.ReflectorStore.
func (s *informerStore) Delete(object any) error {
	object, err := s.transformed(object)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, exists, err := s.indexer.Get(object); err != nil || !exists {
		return err
	}
	return s.remove(object)
}

// remove removes an object, or what is known of one. The caller has the lock.
func (s *informerStore) remove(object any) error {
	err := s.indexer.Delete(object)
	for _, handler := range s.handlers {
		handler.OnDelete(object)
	}
	return err
}

// Replace implements toolscache.ReflectorStore: these are all objects now.
func (s *informerStore) Replace(objects []any, version string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	first := !isClosed(s.synced)
	current := map[string]bool{}
	for _, object := range objects {
		key, err := toolscache.DeletionHandlingMetaNamespaceKeyFunc(object)
		if err != nil {
			return err
		}
		current[key] = true
		if err := s.setLocked(object, first); err != nil {
			return err
		}
	}
	for _, key := range s.indexer.ListKeys() {
		if object, exists, _ := s.indexer.GetByKey(key); exists && !current[key] {
			if err := s.remove(toolscache.DeletedFinalStateUnknown{Key: key, Obj: object}); err != nil {
				return err
			}
		}
	}
	s.version = version
	if first {
		close(s.synced)
	}
	return nil
}

func isClosed(channel <-chan struct{}) bool {
	select {
	case <-channel:
		return true
	default:
		return false
	}
}

// Resync implements toolscache.ReflectorStore.
func (s *informerStore) Resync() error { return nil }

// Name implements toolscache.DoneChecker.
func (s *informerStore) Name() string { return "informer" }

// Done implements toolscache.DoneChecker.
func (s *informerStore) Done() <-chan struct{} { return s.synced }

// HasSynced implements toolscache.ResourceEventHandlerRegistration.
func (r *registration) HasSynced() bool { return isClosed(r.store.synced) }

// HasSyncedChecker implements toolscache.ResourceEventHandlerRegistration.
func (r *registration) HasSyncedChecker() toolscache.DoneChecker { return r.store }

// The methods of toolscache.SharedIndexInformer follow.

// AddEventHandler adds a handler, and tells it of all objects.
func (i *informer) AddEventHandler(handler toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	s := i.store
	s.mu.Lock()
	defer s.mu.Unlock()
	if !i.usage.hold() {
		i.usage.release()
		return nil, errIdle
	}
	added := &registration{handler, s}
	s.handlers = append(s.handlers, added)
	for _, object := range s.indexer.List() {
		handler.OnAdd(object, true)
	}
	return added, nil
}

// AddEventHandlerWithResyncPeriod ignores the period: no user of the informer needs its objects again.
func (i *informer) AddEventHandlerWithResyncPeriod(handler toolscache.ResourceEventHandler, _ time.Duration) (toolscache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandler(handler)
}

// AddEventHandlerWithOptions ignores the options, as above.
func (i *informer) AddEventHandlerWithOptions(handler toolscache.ResourceEventHandler, _ toolscache.HandlerOptions) (toolscache.ResourceEventHandlerRegistration, error) {
	return i.AddEventHandler(handler)
}

// RemoveEventHandler removes a handler.
func (i *informer) RemoveEventHandler(handler toolscache.ResourceEventHandlerRegistration) error {
	i.store.mu.Lock()
	defer i.store.mu.Unlock()
	before := len(i.store.handlers)
	i.store.handlers = slices.DeleteFunc(i.store.handlers, func(r *registration) bool { return r == handler })
	if len(i.store.handlers) < before {
		i.usage.release()
	}
	return nil
}

// GetStore returns the objects.
func (i *informer) GetStore() toolscache.Store { return i.store.indexer }

// GetIndexer returns the objects.
func (i *informer) GetIndexer() toolscache.Indexer { return i.store.indexer }

// AddIndexers adds indexes.
func (i *informer) AddIndexers(indexers toolscache.Indexers) error {
	return i.store.indexer.AddIndexers(indexers)
}

// GetController returns nil: there is none.
func (i *informer) GetController() toolscache.Controller { return nil }

// Run is RunWithContext until a channel is closed.
func (i *informer) Run(stop <-chan struct{}) {
	i.RunWithContext(wait.ContextForChannel(stop))
}

// HasSynced reports whether the first list is complete.
func (i *informer) HasSynced() bool { return isClosed(i.store.synced) }

// HasSyncedChecker is HasSynced as a channel.
func (i *informer) HasSyncedChecker() toolscache.DoneChecker { return i.store }

// LastSyncResourceVersion is the version of the last list.
func (i *informer) LastSyncResourceVersion() string {
	i.store.mu.Lock()
	defer i.store.mu.Unlock()
	return i.store.version
}

// errRecords: the informer records failures itself.
var errRecords = errors.New("the informer has its own handler of errors")

// SetWatchErrorHandler always fails.
func (i *informer) SetWatchErrorHandler(toolscache.WatchErrorHandler) error { return errRecords }

// SetWatchErrorHandlerWithContext always fails.
func (i *informer) SetWatchErrorHandlerWithContext(toolscache.WatchErrorHandlerWithContext) error {
	return errRecords
}

// SetTransform sets what is kept of each object, before the informer runs.
func (i *informer) SetTransform(transform toolscache.TransformFunc) error {
	i.store.transform = transform
	return nil
}

// IsStopped reports whether the informer has run.
func (i *informer) IsStopped() bool { return i.store.stopped.Load() }
