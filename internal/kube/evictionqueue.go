package kube

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"k8s.io/client-go/util/flowcontrol"
)

const (
	// maxEvictions limits the concurrent evictions of a cluster. More do not make drains faster, but delay other requests: fifty drains that evict
	// all their pods at once keep the API server busy for seconds, and delay every cordon.
	maxEvictions = 16
	// lateAnswer is when an unanswered eviction stops counting: a slow webhook delays no other pod.
	lateAnswer = time.Second
	// fairTurn: every sixteenth eviction is one of the node that has waited longest.
	fairTurn = 16
)

// evictionQueue shares the rate limit of a cluster among drains: the node with the fewest waiting evictions is first, so that drains end one after the other
// and a small one passes large ones. Every sixteenth eviction is one of the node that has waited longest, so that others cannot hold it up. The limiter
// itself is first come, first served: fifty nodes with 250 pods each would delay the fifty-first, and every cordon, by 40 s. Only one eviction at a time waits
// for the limiter, so no other request waits behind more than that.
type evictionQueue struct {
	limit flowcontrol.RateLimiter
	// inFlight are the evictions that wait for their answer.
	inFlight chan struct{}

	mu sync.Mutex
	// waiting are the evictions that wait, by node; closing the channel starts one.
	waiting map[string][]chan struct{}
	// order of the waiting nodes: by when they began to wait, or had their last fair turn.
	order   []string
	serving bool
	// turns counts the evictions that have started.
	turns int
}

func newEvictionQueue(limit flowcontrol.RateLimiter) *evictionQueue {
	return &evictionQueue{limit: limit, inFlight: make(chan struct{}, maxEvictions), waiting: map[string][]chan struct{}{}}
}

// acquire returns when an eviction from the node may start, or ctx is done. The caller then calls answered after the answer.
func (t *evictionQueue) acquire(ctx context.Context, node string) (answered func(), err error) {
	start := t.join(node)
	select {
	case <-start:
		over := sync.OnceFunc(t.release)
		late := time.AfterFunc(lateAnswer, over)
		return func() { late.Stop(); over() }, nil
	case <-ctx.Done():
		if !t.leave(node, start) {
			t.release() // it was started at that moment
		}
		return nil, ctx.Err()
	}
}

func (t *evictionQueue) release() { <-t.inFlight }

func (t *evictionQueue) join(node string) chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.waiting[node]) == 0 {
		t.order = append(t.order, node)
	}
	start := make(chan struct{})
	t.waiting[node] = append(t.waiting[node], start)
	if !t.serving {
		t.serving = true
		go t.serve()
	}
	return start
}

// leave reports whether the eviction still waited.
func (t *evictionQueue) leave(node string, start chan struct{}) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	before := len(t.waiting[node])
	t.waiting[node] = slices.DeleteFunc(t.waiting[node], func(other chan struct{}) bool { return other == start })
	left := len(t.waiting[node])
	if left == 0 {
		t.forget(node)
	}
	return left < before
}

func (t *evictionQueue) forget(node string) {
	delete(t.waiting, node)
	t.order = slices.DeleteFunc(t.order, func(other string) bool { return other == node })
}

// serve starts evictions within the limit while any waits.
func (t *evictionQueue) serve() {
	for t.awaited() {
		t.inFlight <- struct{}{}
		t.limit.Accept()
		if !t.next() {
			t.release()
		}
	}
}

func (t *evictionQueue) awaited() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.serving = len(t.order) > 0
	return t.serving
}

// next starts one eviction, and reports whether one waited.
func (t *evictionQueue) next() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.order) == 0 {
		return false // it was cancelled
	}
	t.turns++
	node, fair := t.order[0], t.turns%fairTurn == 0
	if !fair {
		node = slices.MinFunc(t.order, func(a, b string) int { return cmp.Compare(len(t.waiting[a]), len(t.waiting[b])) })
	}
	queue := t.waiting[node]
	close(queue[0])
	t.waiting[node] = queue[1:]
	switch {
	case len(queue) == 1:
		t.forget(node)
	case fair:
		t.order = append(t.order[1:], node)
	}
	return true
}
