package kube

import (
	"sync"

	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// feeds are those of a cluster's informers.
type feeds struct {
	mu         sync.Mutex
	byInformer map[cache.Informer]*feed
}

// feed tells all who wait for objects of a kind when one has changed. It is the only handler of its informer, which replays every object to each
// new one, and queues every event for each: what a wait costs must not grow with the pods of the cluster.
type feed struct {
	mu          sync.RWMutex
	subscribers map[*subscriber]struct{}
}

// subscriber waits for changes of objects in its scope.
type subscriber struct {
	wanted  scope
	changed chan<- struct{}
}

// subscribe has changed told of every change in the scope from now on, until stop is called. A change while one is told already is not told again.
func (f *feeds) subscribe(informer cache.Informer, wanted scope, changed chan<- struct{}) (stop func(), err error) {
	feed, err := f.of(informer)
	if err != nil {
		return nil, err
	}
	s := &subscriber{wanted: wanted, changed: changed}
	feed.mu.Lock()
	defer feed.mu.Unlock()
	feed.subscribers[s] = struct{}{}
	return func() {
		feed.mu.Lock()
		defer feed.mu.Unlock()
		delete(feed.subscribers, s)
	}, nil
}

// of returns the feed of an informer, which lives as long as that.
func (f *feeds) of(informer cache.Informer) (*feed, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if found := f.byInformer[informer]; found != nil {
		return found, nil
	}
	made := &feed{subscribers: map[*subscriber]struct{}{}}
	_, err := informer.AddEventHandler(toolscache.ResourceEventHandlerDetailedFuncs{
		// What is there at the start is seen by the first check.
		AddFunc: func(object any, initial bool) {
			if !initial {
				made.tell(object)
			}
		},
		UpdateFunc: func(_, after any) {
			// A pod does not change its node, but it gets one.
			made.tell(after)
		},
		DeleteFunc: made.tell,
	})
	if err != nil {
		return nil, err
	}
	if f.byInformer == nil {
		f.byInformer = map[cache.Informer]*feed{}
	}
	f.byInformer[informer] = made
	return made, nil
}

// tell wakes those in whose scope the object of an event is.
func (f *feed) tell(event any) {
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
	for s := range f.subscribers {
		if known && !s.wanted.has(found) {
			continue // an object that is not known is better looked at
		}
		select {
		case s.changed <- struct{}{}:
		default: // a look is due already
		}
	}
}
