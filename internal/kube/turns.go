package kube

import (
	"context"
	"slices"
	"sync"

	"k8s.io/client-go/util/flowcontrol"
)

// turns lets drains share a cluster's limit fairly: each node in turn gets one eviction. The limit itself serves who came first, and fifty nodes with
// 250 pods each would keep the fifty-first, and every cordon, waiting for 40 s. As only one eviction at a time waits for the limit, no other
// request waits behind more than that.
type turns struct {
	limit flowcontrol.RateLimiter

	mu sync.Mutex
	// waiting are those who wait for an eviction, by node; a turn is closed when it has come.
	waiting map[string][]chan struct{}
	// order of the nodes that wait.
	order   []string
	serving bool
}

func newTurns(limit flowcontrol.RateLimiter) *turns {
	return &turns{limit: limit, waiting: map[string][]chan struct{}{}}
}

// take returns when an eviction from the node may be asked for, or ctx is done.
func (t *turns) take(ctx context.Context, node string) error {
	turn := t.join(node)
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
		t.leave(node, turn)
		return ctx.Err()
	}
}

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

func (t *turns) leave(node string, turn chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.waiting[node] = slices.DeleteFunc(t.waiting[node], func(other chan struct{}) bool { return other == turn })
	if len(t.waiting[node]) == 0 {
		t.forget(node)
	}
}

func (t *turns) forget(node string) {
	delete(t.waiting, node)
	t.order = slices.DeleteFunc(t.order, func(other string) bool { return other == node })
}

// serve gives turns, as the limit allows, as long as somebody waits.
func (t *turns) serve() {
	for t.awaited() {
		t.limit.Accept()
		t.next()
	}
}

func (t *turns) awaited() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.serving = len(t.order) > 0
	return t.serving
}

// next gives the first node in order one turn, and puts it last if it waits for more.
func (t *turns) next() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.order) == 0 {
		return // who waited has left
	}
	node := t.order[0]
	queue := t.waiting[node]
	close(queue[0])
	t.forget(node)
	if len(queue) > 1 {
		t.waiting[node], t.order = queue[1:], append(t.order, node)
	}
}
