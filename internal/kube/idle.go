package kube

import (
	"context"
	"errors"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// errIdle: an informer has ended because nothing used it. The next use of its kind starts another.
var errIdle = errors.New("the informer has ended, because nothing has used it for a while")

// usage is when an informer was last used, and who uses it for longer. An informer that nothing uses ends, with its watch and its objects: a cluster whose
// maintenances are over costs as little as one that had none.
type usage struct {
	mu    sync.Mutex
	last  time.Time
	users int
	timer *time.Timer
	// closed ends the wait for the end of the cluster, which stops the timer.
	closed func() bool
	ended  bool
	// indexed: the pods have the index. informers.mu guards it.
	indexed bool
}

// hold keeps the informer until release is called. It reports whether the informer has not ended.
func (u *usage) hold() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.users++
	return !u.ended
}

func (u *usage) release() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.users--
	u.last = time.Now()
}

// hold returns the informer of a kind, which stays until release is called, and for the idle timeout after that.
func (i *informers) hold(ctx context.Context, from cache.Cache, object client.Object, options []cache.InformerGetOption) (found *informer, release func(), err error) {
	for {
		got, err := from.GetInformer(ctx, object, options...)
		if err != nil {
			return nil, nil, err
		}
		if found = got.(*informer); found.usage.hold() {
			i.follow(found, from, object)
			return found, found.usage.release, nil
		}
		found.usage.release() // it has just ended; the next one is another
	}
}

// follow ends the informer when it is idle.
func (i *informers) follow(own *informer, from cache.Cache, object client.Object) {
	u := &own.usage
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.timer != nil {
		return
	}
	kind := object.DeepCopyObject().(client.Object)
	u.timer = time.AfterFunc(i.cluster.IdleTimeout, func() { i.endIfIdle(own, from, kind) })
	u.closed = context.AfterFunc(i.ctx, func() { u.timer.Stop() })
}

// endIfIdle ends an informer that was not used for the idle timeout. The next use starts another one.
func (i *informers) endIfIdle(own *informer, from cache.Cache, object client.Object) {
	if own.usage.end(i.cluster.IdleTimeout, func() bool { return i.ctx.Err() == nil && from.RemoveInformer(i.ctx, object) == nil }) {
		i.cluster.feeds.forget(own)
	}
}

// end calls remove after the idle timeout, and reports whether the informer has ended.
func (u *usage) end(idleTimeout time.Duration, remove func() bool) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	rest := idleTimeout - time.Since(u.last)
	switch {
	case u.users > 0:
		u.timer.Reset(idleTimeout)
	case rest > 0:
		u.timer.Reset(rest)
	case remove():
		u.ended = true
		u.closed()
	}
	return u.ended
}
