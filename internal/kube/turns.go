package kube

import (
	"context"
	"slices"
	"sync"
	"time"

	"k8s.io/client-go/util/flowcontrol"
)

const (
	// evictionsAtOnce is how many evictions of a cluster are under way at a time. More do not make drains faster, but everything else slower: fifty drains
	// that evict all their pods at once keep the API server busy for seconds, and every cordon behind them.
	evictionsAtOnce = 16
	// lateAnswer is after how long an eviction that is not answered makes room for another: one that a webhook sits on holds up nobody.
	lateAnswer = time.Second
)

// turns lets drains share a cluster's limit fairly: each node in turn gets one eviction. The limit itself serves who came first, and fifty nodes with
// 250 pods each would keep the fifty-first, and every cordon, waiting for 40 s. As only one eviction at a time waits for the limit, no other
// request waits behind more than that.
type turns struct {
	limit flowcontrol.RateLimiter
	// underWay are the evictions that have had their turn and wait for their answer.
	underWay chan struct{}

	mu sync.Mutex
	// waiting are those who wait for an eviction, by node; a turn is closed when it has come.
	waiting map[string][]chan struct{}
	// order of the nodes that wait.
	order   []string
	serving bool
}

func newTurns(limit flowcontrol.RateLimiter) *turns {
	return &turns{limit: limit, underWay: make(chan struct{}, evictionsAtOnce), waiting: map[string][]chan struct{}{}}
}

// take returns when an eviction from the node may be asked for, or ctx is done. Whoever had his turn calls answered when it is over.
func (t *turns) take(ctx context.Context, node string) (answered func(), err error) {
	turn := t.join(node)
	select {
	case <-turn:
		over := sync.OnceFunc(t.makeRoom)
		late := time.AfterFunc(lateAnswer, over)
		return func() { late.Stop(); over() }, nil
	case <-ctx.Done():
		if !t.leave(node, turn) {
			t.makeRoom() // the turn has come in that moment
		}
		return nil, ctx.Err()
	}
}

func (t *turns) makeRoom() { <-t.underWay }

func (t *turns) join(node string) chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.waiting[node]) == 0 {
		t.order = append(t.order, node)
	}
	turn := make(chan struct{})
	t.waiting[node] = append(t.waiting[node], turn)
	if !t.serving {
		t.serving = true
		go t.serve()
	}
	return turn
}

// leave reports whether the turn was still waited for.
func (t *turns) leave(node string, turn chan struct{}) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	before := len(t.waiting[node])
	t.waiting[node] = slices.DeleteFunc(t.waiting[node], func(other chan struct{}) bool { return other == turn })
	left := len(t.waiting[node])
	if left == 0 {
		t.forget(node)
	}
	return left < before
}

func (t *turns) forget(node string) {
	delete(t.waiting, node)
	t.order = slices.DeleteFunc(t.order, func(other string) bool { return other == node })
}

// serve gives turns, as the limit allows, as long as somebody waits.
func (t *turns) serve() {
	for t.awaited() {
		t.underWay <- struct{}{}
		t.limit.Accept()
		if !t.next() {
			t.makeRoom()
		}
	}
}

func (t *turns) awaited() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.serving = len(t.order) > 0
	return t.serving
}

// next gives the first node in order one turn, and puts it last if it waits for more. It reports whether anybody was there to have one.
func (t *turns) next() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.order) == 0 {
		return false // who waited has left
	}
	node := t.order[0]
	queue := t.waiting[node]
	close(queue[0])
	t.forget(node)
	if len(queue) > 1 {
		t.waiting[node], t.order = queue[1:], append(t.order, node)
	}
	return true
}
