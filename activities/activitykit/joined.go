package activitykit

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// sharedTimeout limits a call for which others wait. The time of one caller must not end it.
const sharedTimeout = 4 * time.Second

// Joined joins equal calls. While one is in progress, further callers share the next one. It begins after all of them came, so each gets what a call of its own
// would give. The zero value is ready.
type Joined[K comparable, V any] struct {
	mu      sync.Mutex
	current map[K]*joinedCall[V]
	next    map[K]*joinedCall[V]
}

type joinedCall[V any] struct {
	done  chan struct{}
	value V
	err   error
}

// Do returns the result of a call that begins after Do was called. Errors: those of the call and of ctx.
func (j *Joined[K, V]) Do(ctx context.Context, key K, call func(context.Context) (V, error)) (V, error) {
	mine := j.join(context.WithoutCancel(ctx), key, call)
	select {
	case <-mine.done:
		return mine.value, mine.err
	case <-ctx.Done():
		var none V
		return none, ctx.Err()
	}
}

// join starts a call, or has it start after the one in progress.
func (j *Joined[K, V]) join(ctx context.Context, key K, call func(context.Context) (V, error)) *joinedCall[V] {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.current == nil {
		j.current, j.next = map[K]*joinedCall[V]{}, map[K]*joinedCall[V]{}
	}
	if waiting := j.next[key]; waiting != nil {
		return waiting
	}
	mine := &joinedCall[V]{done: make(chan struct{})}
	before := j.current[key]
	if before == nil {
		j.current[key] = mine
	} else {
		j.next[key] = mine
	}
	go j.run(ctx, key, before, mine, call)
	return mine
}

// run makes a call, after the one before it.
func (j *Joined[K, V]) run(ctx context.Context, key K, before, mine *joinedCall[V], call func(context.Context) (V, error)) {
	if before != nil {
		<-before.done
		j.mu.Lock()
		j.current[key] = mine
		delete(j.next, key)
		j.mu.Unlock()
	}
	ctx, cancel := context.WithTimeout(ctx, sharedTimeout)
	defer cancel()
	defer func() {
		if reason := recover(); reason != nil {
			mine.err = fmt.Errorf("panic: %v", reason)
		}
		j.mu.Lock()
		defer j.mu.Unlock()
		if j.next[key] == nil {
			delete(j.current, key)
		}
		close(mine.done)
	}()
	mine.value, mine.err = call(ctx)
}
