package kube

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// syncPatience is how long a first list may take before the API server's health is checked.
const syncPatience = 3 * time.Second

// watchPatience is how long lists may be refused before the cache counts as stale: a server that has just started refuses some.
const watchPatience = 5 * time.Second

// informer is a shared informer that records why it could not list its objects before its first success. After that, it reconnects by itself, and a failure counts
// only if it lasts. It keeps its objects in the order of the events of one watch, and tells its handlers in the same goroutine: a worker has some for each of
// thousands of clusters, and those of client-go need ten more goroutines and a queue of 16 KiB for each handler.
type informer struct {
	source toolscache.ListerWatcher
	kind   runtime.Object
	log    *slog.Logger
	store  *informerStore
	usage  usage

	mu      sync.Mutex
	failure error
	failed  chan struct{}
	// refusal is the API server's answer since refusedSince in place of the objects; nil: it serves them, or does not answer.
	refusal      error
	refusedSince time.Time
}

func newInformer(source toolscache.ListerWatcher, kind runtime.Object, indexers toolscache.Indexers, log *slog.Logger) *informer {
	return &informer{source: source, kind: kind, log: log, failed: make(chan struct{}), store: newInformerStore(indexers)}
}

// RunWithContext implements toolscache.SharedIndexInformer.
func (i *informer) RunWithContext(ctx context.Context) {
	// A context of the standard library, whose children need no goroutines. The reflector logs what this informer logs.
	own, cancel := context.WithCancel(klog.NewContext(context.Background(), logr.Discard()))
	defer i.store.stopped.Store(true)
	var running sync.WaitGroup
	running.Go(func() {
		source := i.recording(toolscache.ToListerWatcherWithContext(i.source))
		toolscache.NewReflectorWithOptions(source, i.kind, i.store, toolscache.ReflectorOptions{Name: "drydock"}).RunWithContext(own)
	})
	<-ctx.Done()
	cancel()
	running.Wait()
}

func (i *informer) fail(err error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.failure == nil {
		close(i.failed)
	}
	i.failure = err
}

// recording is a source whose answers the informer records. A refused watch does not count, because a list follows it.
func (i *informer) recording(source toolscache.ListerWatcherWithContext) *toolscache.ListWatch {
	return &toolscache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return i.list(ctx, source, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			begun, err := source.WatchWithContext(ctx, options)
			switch first := options.SendInitialEvents != nil; {
			case err == nil:
				i.record(nil)
			case first || normalEnd(ctx, err) || utilnet.IsConnectionRefused(err): // a list follows, or the next attempt
			default:
				i.log.WarnContext(ctx, "watch failed, retrying", "kind", fmt.Sprintf("%T", i.kind), "error", err)
			}
			return begun, err
		},
	}
}

// list lists the objects. While that is forbidden, it asks again: the pauses of client-go double, up to half a minute, so work would continue late
// after the right is granted.
func (i *informer) list(ctx context.Context, source toolscache.ListerWatcherWithContext, options metav1.ListOptions) (runtime.Object, error) {
	began, told := time.Now(), false
	for {
		list, err := source.ListWithContext(ctx, options)
		i.record(err)
		if !apierrors.IsForbidden(err) {
			if err != nil && !normalEnd(ctx, err) {
				i.log.WarnContext(ctx, "list failed, retrying", "kind", fmt.Sprintf("%T", i.kind), "error", err)
				i.fail(err)
			}
			return list, err
		}
		if !told {
			told = true
			i.log.WarnContext(ctx, "list is forbidden, trying again", "error", err)
		}
		i.fail(err)
		select {
		case <-ctx.Done():
			return list, err
		case <-time.After(forbiddenPause(time.Since(began))):
		}
	}
}

// normalEnd reports whether an error is no failure: the informer ends, or has to list again.
func normalEnd(ctx context.Context, err error) bool {
	return ctx.Err() != nil || errors.Is(err, io.EOF) || apierrors.IsResourceExpired(err) || apierrors.IsGone(err)
}

// forbiddenPause is the pause before a list is tried again that has been forbidden for that long: a person who has just granted a right waits for it,
// and a right that is missing for good costs few requests.
func forbiddenPause(forSo time.Duration) time.Duration {
	return min(max(forSo/60, time.Second), 30*time.Second)
}

// record records the result of a request. The API server's health is checked elsewhere, and a kind that is no longer served has no objects.
func (i *informer) record(err error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	switch {
	case err == nil || unanswered(err) || apierrors.IsNotFound(err) || apierrors.IsResourceExpired(err) || apierrors.IsGone(err):
		i.refusal = nil
	case i.refusal == nil:
		i.refusedSince = time.Now()
		fallthrough
	default:
		i.refusal = err
	}
}

// refused is why a reachable API server has not served the objects for that long; nil: it has.
func (i *informer) refused(forSo time.Duration) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.refusal == nil || time.Since(i.refusedSince) < forSo {
		return nil
	}
	return fmt.Errorf("no change was received since %s: %w", i.refusedSince.UTC().Format("2006-01-02 15:04:05Z"), i.refusal)
}

// await returns when the informer has listed all objects, or with the last reason why it could not. The informer retries refused connections
// silently, so await also checks whether the API server is reachable.
func (i *informer) await(ctx context.Context, reachable func(context.Context, time.Duration) error) error {
	slow := time.NewTicker(syncPatience)
	defer slow.Stop()
	for !i.HasSynced() {
		select {
		case <-i.HasSyncedChecker().Done():
		case <-i.failed:
			i.mu.Lock()
			defer i.mu.Unlock()
			return i.failure
		case <-slow.C:
			if err := reachable(ctx, syncPatience); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}
