package kube

import (
	"sync"

	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// feeds are the feeds of a cluster's informers.
type feeds struct {
	mu         sync.Mutex
	byInformer map[*informer]*feed
}

// feed notifies all waits of changes of a kind. It is the only handler of its informer, because an informer replays every object to each new handler
// and queues every event for each: the cost of a wait must not grow with the pods of the cluster.
type feed struct {
	mu sync.RWMutex
	// subscribers are by the namespace and name of their scopes, either of which may be empty: an event must not cost a look at every wait.
	subscribers map[client.ObjectKey]map[*subscriber]struct{}
}

// subscriber waits for changes of objects in its scope.
type subscriber struct {
	wanted scope
	// recorded gets the changed objects; it may be nil.
	recorded *Recorded
	changed  chan<- struct{}
}

func (s *subscriber) key() client.ObjectKey {
	return client.ObjectKey{Namespace: s.wanted.namespace, Name: s.wanted.name}
}

// subscribe signals after changes in the scope of the subscriber, until stop is called. A signal that is pending is not repeated.
func (f *feeds) subscribe(to *informer, s *subscriber) (stop func(), err error) {
	feed, err := f.of(to)
	if err != nil {
		return nil, err
	}
	feed.mu.Lock()
	defer feed.mu.Unlock()
	if feed.subscribers[s.key()] == nil {
		feed.subscribers[s.key()] = map[*subscriber]struct{}{}
	}
	feed.subscribers[s.key()][s] = struct{}{}
	to.usage.hold()
	return func() {
		to.usage.release()
		feed.mu.Lock()
		defer feed.mu.Unlock()
		delete(feed.subscribers[s.key()], s)
		if len(feed.subscribers[s.key()]) == 0 {
			delete(feed.subscribers, s.key())
		}
	}, nil
}

// of returns the feed of an informer, which lives as long as the informer.
func (f *feeds) of(of *informer) (*feed, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if found := f.byInformer[of]; found != nil {
		return found, nil
	}
	made := &feed{subscribers: map[client.ObjectKey]map[*subscriber]struct{}{}}
	_, err := of.AddEventHandler(toolscache.ResourceEventHandlerDetailedFuncs{
		// The first check sees the initial objects.
		AddFunc: func(object any, initial bool) {
			if !initial {
				made.notify(object)
			}
		},
		UpdateFunc: func(_, after any) {
			// A pod does not change its node, but it gets one.
			made.notify(after)
		},
		DeleteFunc: made.notify,
	})
	if err != nil {
		return nil, err
	}
	of.usage.release() // its subscribers hold it
	if f.byInformer == nil {
		f.byInformer = map[*informer]*feed{}
	}
	f.byInformer[of] = made
	return made, nil
}

// forget drops the feed of an informer that has ended.
func (f *feeds) forget(ended *informer) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.byInformer, ended)
}

// notify signals the subscribers whose scope includes the object of an event.
func (f *feed) notify(event any) {
	if missed, ok := event.(toolscache.DeletedFinalStateUnknown); ok {
		event = missed.Obj
	}
	var found scope
	object, known := event.(client.Object)
	if known {
		found = scopeOf(object)
	}
	f.mu.RLock()
	defer f.mu.RUnlock()
	if !known {
		for _, subscribers := range f.subscribers {
			for s := range subscribers {
				s.signal()
			}
		}
		return
	}
	keys := map[client.ObjectKey]bool{{}: true, {Namespace: found.namespace}: true, {Name: found.name}: true, {Namespace: found.namespace, Name: found.name}: true}
	for key := range keys {
		for s := range f.subscribers[key] {
			if s.wanted.has(found) {
				s.recorded.add(object)
				s.signal()
			}
		}
	}
}

func (s *subscriber) signal() {
	select {
	case s.changed <- struct{}{}:
	default: // a check is pending
	}
}
