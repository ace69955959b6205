package kube

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// IfServed makes Await skip a kind that the cluster does not serve or does not permit to watch, until it does. A watch that started and fails later
// ends the wait as for any kind.
func IfServed(kind client.Object) client.Object { return optional{Object: kind} }

type optional struct{ client.Object }

// Recorded makes Await record which objects of a kind have changed, for checks that would otherwise read all of very many.
type Recorded struct {
	client.Object

	mu      sync.Mutex
	changed map[client.ObjectKey]bool
}

// Record returns a Recorded for the objects of that kind, which may be one of IfServed, SingleObject or CacheMetadata.
func Record(kind client.Object) *Recorded { return &Recorded{Object: kind} }

// Take returns the objects that have changed since the last Take. It knows nothing of changes while no Await runs.
func (r *Recorded) Take() []client.ObjectKey {
	r.mu.Lock()
	defer r.mu.Unlock()
	changed := slices.Collect(maps.Keys(r.changed))
	clear(r.changed)
	return changed
}

// add records a change, unless r is nil.
func (r *Recorded) add(object client.Object) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.changed == nil {
		r.changed = map[client.ObjectKey]bool{}
	}
	r.changed[client.ObjectKeyFromObject(object)] = true
}

// Await calls check, and again after each change of an object of these kinds and every Options.SafetyInterval, until check is done or fails, or ctx
// is done. Changes during a check lead to one more check, not many. All waits for a cluster use it.
//
// The fields of a kind's object narrow the watch: namespace, name, and a pod's spec.nodeName.
//
// Check should read from the Cache. Errors: those of check and ctx; ClusterUnreachable when the API server does not answer (the cache may be stale), or
// when the credentials were replaced or removed; and a kind that is not served, unless it is wrapped in IfServed.
func (c *Cluster) Await(ctx context.Context, kinds []client.Object, check func(context.Context) (done bool, err error)) error {
	return c.AwaitAlarm(ctx, kinds, nil, check)
}

// AwaitAlarm is Await that also calls check when the alarm fires: for changes that only time causes.
func (c *Cluster) AwaitAlarm(ctx context.Context, kinds []client.Object, alarm <-chan time.Time, check func(context.Context) (done bool, err error)) error {
	if !c.answered() {
		if err := c.reachable(ctx, c.safetyInterval); err != nil {
			return err
		}
	}
	w := &watcher{cluster: c, changed: make(chan struct{}, 1), pending: kinds}
	defer w.stop()
	safety := time.NewTicker(c.safetyInterval)
	defer safety.Stop()
	if err := w.start(ctx); err != nil {
		return err
	}
	for {
		if done, err := check(ctx); done || err != nil {
			select {
			case <-c.ended: // what it has read may be of another cluster
				return c.Unreachable(errEnded)
			default:
				return err
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-c.ended:
			return c.Unreachable(errEnded)
		case <-w.changed:
		case <-alarm:
		case <-safety.C:
			if err := c.reachable(ctx, c.safetyInterval/2); err != nil {
				return err
			}
			if err := w.start(ctx); err != nil {
				return err
			}
		}
	}
}

// watcher merges the events of some kinds into one channel.
type watcher struct {
	cluster *Cluster
	changed chan struct{}
	// pending kinds are not watched yet.
	pending []client.Object
	watches []watched
}

// watched is the watch of a kind, until stop is called.
type watched struct {
	by   *informer
	stop func()
}

// start watches the pending kinds. Optional kinds that cannot be watched stay pending. It also reports a kind whose watch has failed for a while,
// because the cache may be stale.
func (w *watcher) start(ctx context.Context) error {
	kinds := w.pending
	w.pending = nil
	for _, wanted := range kinds {
		kind := wanted
		recorded, _ := kind.(*Recorded)
		if recorded != nil {
			kind = recorded.Object
		}
		if own, ok := kind.(ownWatch); ok {
			by, stop, err := own.watch(ctx, w.cluster, recorded, w.changed)
			if err != nil {
				return err
			}
			w.watches = append(w.watches, watched{by, stop})
			continue
		}
		ifServed, isOptional := kind.(optional)
		if isOptional {
			kind = ifServed.Object
		}
		own, _, release, err := w.cluster.Cache.(*informers).listed(ctx, kind)
		if isOptional && (meta.IsNoMatchError(err) || apierrors.IsForbidden(err)) {
			w.pending = append(w.pending, wanted)
			continue
		}
		if err != nil {
			return err
		}
		stop, err := w.cluster.feeds.subscribe(own, &subscriber{wanted: scopeOf(kind), recorded: recorded, changed: w.changed})
		release()
		if err != nil {
			return err
		}
		w.watches = append(w.watches, watched{own, stop})
	}
	return w.refused()
}

// refused is why the objects of a kind could not be read for a while, although the API server answers.
func (w *watcher) refused() error {
	for _, watched := range w.watches {
		if err := watched.by.refused(max(w.cluster.safetyInterval, watchPatience)); err != nil {
			return w.cluster.explain("watch", err)
		}
	}
	return nil
}

func (w *watcher) stop() {
	for _, watched := range w.watches {
		watched.stop()
	}
}

// scope selects the objects of a kind to watch; empty fields do not narrow it. It is copied from the object, which the caller may change during the
// wait.
type scope struct {
	namespace, name, node string
}

func scopeOf(object client.Object) scope {
	wanted := scope{namespace: object.GetNamespace(), name: object.GetName()}
	if pod, ok := object.(*corev1.Pod); ok {
		wanted.node = pod.Spec.NodeName
	}
	return wanted
}

// has reports whether the scope of an object is within this one.
func (s scope) has(found scope) bool {
	return (s.namespace == "" || s.namespace == found.namespace) && (s.name == "" || s.name == found.name) && (s.node == "" || s.node == found.node)
}
