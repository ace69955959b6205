package controller

import (
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// concurrency is the number of objects of one kind in one cluster that are reconciled at the same time.
const concurrency = 16

// The pause after a failed attempt doubles, within these limits.
const (
	minBackoff = 5 * time.Millisecond
	maxBackoff = 1000 * time.Second
)

// queue calls reconcile for the requests that are added, never twice at the same time for one request. It starts a goroutine when a request is due, and has none
// at rest: a worker has a queue for each kind in thousands of clusters. New requests go before those of the first list, as in controller-runtime.
type queue struct {
	// The methods that a handler of events does not call are those of nil.
	priorityqueue.PriorityQueue[reconcile.Request]

	reconcile func(reconcile.Request)
	failures  workqueue.TypedRateLimiter[reconcile.Request]
	running   sync.WaitGroup

	mu            sync.Mutex
	open, stopped bool
	// workers is the number of goroutines.
	workers int
	// due are requests to reconcile, in order: those of the first list, then all others.
	due   [2][]reconcile.Request
	items map[reconcile.Request]*item
}

// item is the state of a request that is due, reconciled, or added for later.
type item struct {
	due, reconciled bool
	// again: it was added while it was reconciled.
	again bool
	// urgent is the index of the list in due.
	urgent int
	later  *time.Timer
	at     time.Time
}

func newQueue(reconcileOne func(reconcile.Request)) *queue {
	return &queue{
		reconcile: reconcileOne, items: map[reconcile.Request]*item{},
		failures: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](minBackoff, maxBackoff),
	}
}

// start has the requests reconciled that are added before and after.
func (q *queue) start() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.open = !q.stopped
	q.work()
}

// stop forgets all requests, and waits for those that are being reconciled.
func (q *queue) stop() {
	q.mu.Lock()
	q.open, q.stopped, q.due = false, true, [2][]reconcile.Request{}
	for _, item := range q.items {
		item.cancel()
	}
	q.mu.Unlock()
	q.running.Wait()
	q.mu.Lock()
	defer q.mu.Unlock()
	clear(q.items)
}

// Add implements workqueue.TypedInterface.
func (q *queue) Add(request reconcile.Request) { q.AddWithOpts(priorityqueue.AddOpts{}, request) }

// AddAfter implements workqueue.TypedDelayingInterface.
func (q *queue) AddAfter(request reconcile.Request, after time.Duration) {
	q.AddWithOpts(priorityqueue.AddOpts{After: after}, request)
}

// AddRateLimited implements workqueue.TypedRateLimitingInterface.
func (q *queue) AddRateLimited(request reconcile.Request) {
	q.AddWithOpts(priorityqueue.AddOpts{RateLimited: true}, request)
}

// Forget implements workqueue.TypedRateLimitingInterface.
func (q *queue) Forget(request reconcile.Request) { q.failures.Forget(request) }

// AddWithOpts implements priorityqueue.PriorityQueue.
func (q *queue) AddWithOpts(options priorityqueue.AddOpts, requests ...reconcile.Request) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.stopped { // its handlers are removed a moment later
		return
	}
	urgent := 1
	if options.Priority != nil && *options.Priority < 0 {
		urgent = 0
	}
	for _, request := range requests {
		after := options.After
		if options.RateLimited {
			after = q.failures.When(request)
		}
		if q.items[request] == nil {
			q.items[request] = &item{}
		}
		if after > 0 {
			q.delay(request, after, urgent)
		} else {
			q.add(request, urgent)
		}
	}
	q.work()
}

// delay adds a request later, unless it is due earlier. The caller has the lock.
func (q *queue) delay(request reconcile.Request, after time.Duration, urgent int) {
	item, at := q.items[request], time.Now().Add(after)
	if item.due || item.again || item.later != nil && item.at.Before(at) {
		return
	}
	item.cancel()
	item.at = at
	var own *time.Timer
	own = time.AfterFunc(after, func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		if item.later == own { // not cancelled meanwhile
			item.later = nil
			q.add(request, urgent)
			q.work()
		}
	})
	item.later = own
}

func (i *item) cancel() {
	if i.later != nil {
		i.later.Stop()
		i.later = nil
	}
}

// add makes a request due. The caller has the lock.
func (q *queue) add(request reconcile.Request, urgent int) {
	item := q.items[request]
	item.cancel()
	switch {
	case item.reconciled:
		item.again = true
	case !item.due || item.urgent < urgent:
		item.due, item.urgent = true, urgent
		q.due[urgent] = append(q.due[urgent], request)
	}
}

// work starts a goroutine for each request that is due, up to the limit. The caller has the lock.
func (q *queue) work() {
	for q.open && q.workers < min(concurrency, q.workers+len(q.due[0])+len(q.due[1])) {
		request, found := q.next()
		if !found {
			return
		}
		q.workers++
		q.running.Go(func() { q.reconcileAll(request) })
	}
}

// next takes the next request. The caller has the lock.
func (q *queue) next() (reconcile.Request, bool) {
	for _, urgent := range []int{1, 0} {
		for len(q.due[urgent]) > 0 {
			request := q.due[urgent][0]
			q.due[urgent] = q.due[urgent][1:]
			if item := q.items[request]; item != nil && item.due && item.urgent == urgent { // else it was in both lists
				item.due, item.reconciled = false, true
				return request, true
			}
		}
		q.due[urgent] = nil // frees the list
	}
	return reconcile.Request{}, false
}

// reconcileAll reconciles a request, and further ones while some are due.
func (q *queue) reconcileAll(request reconcile.Request) {
	for found := true; found; {
		q.reconcile(request)
		q.mu.Lock()
		item := q.items[request]
		item.reconciled = false
		switch again := item.again; {
		case again:
			item.again = false
			q.add(request, 1)
		case item.later == nil:
			delete(q.items, request)
		}
		found = false
		if q.open {
			request, found = q.next()
		}
		if !found {
			q.workers--
		}
		q.mu.Unlock()
	}
}
