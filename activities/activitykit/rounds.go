package activitykit

import (
	"context"
	"slices"
	"sync"
)

// roundSize is the number of calls in a round: more would wait for each other until they time out.
const roundSize = 32

// Rounds make the calls for a key in rounds: those that come during one are made together in the next, at most roundSize, in the order in which they came.
// Temporal serves requests to a workflow before it dispatches the workflow's own tasks, so a workflow that always has another signal waiting would not run; and
// a workflow task handles all signals of a round. The zero value is ready.
type Rounds struct {
	mu    sync.Mutex
	byKey map[string]*round
}

// round is the round in progress for a key.
type round struct {
	// open are its calls that have not ended, and next the calls that wait for the next one. A channel is closed when its call may begin.
	open int
	next []chan struct{}
}

// Do runs call in the next round, for at most sharedTimeout. Errors: those of call and of ctx.
func (r *Rounds) Do(ctx context.Context, key string, call func(context.Context) error) error {
	turn := r.enter(key)
	select {
	case <-turn:
	case <-ctx.Done():
		if r.withdraw(key, turn) {
			return ctx.Err()
		}
	}
	defer r.leave(key)
	ctx, cancel := context.WithTimeout(ctx, sharedTimeout)
	defer cancel()
	return call(ctx)
}

// enter begins a round, or waits for the next one.
func (r *Rounds) enter(key string) (turn chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	turn = make(chan struct{})
	if current := r.byKey[key]; current != nil {
		current.next = append(current.next, turn)
		return turn
	}
	if r.byKey == nil {
		r.byKey = map[string]*round{}
	}
	r.byKey[key] = &round{open: 1}
	close(turn)
	return turn
}

// withdraw reports whether a call has left before it could begin.
func (r *Rounds) withdraw(key string, turn chan struct{}) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	current := r.byKey[key]
	if current == nil {
		return false
	}
	waiting := len(current.next)
	current.next = slices.DeleteFunc(current.next, func(t chan struct{}) bool { return t == turn })
	return len(current.next) < waiting
}

// leave ends a call. The last one of a round begins the next.
func (r *Rounds) leave(key string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	current := r.byKey[key]
	if current.open--; current.open > 0 {
		return
	}
	if len(current.next) == 0 {
		delete(r.byKey, key)
		return
	}
	current.open = min(len(current.next), roundSize)
	for _, turn := range current.next[:current.open] {
		close(turn)
	}
	current.next = slices.Clone(current.next[current.open:])
}
