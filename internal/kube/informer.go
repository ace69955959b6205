package kube

import (
	"context"
	"io"
	"log/slog"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	toolscache "k8s.io/client-go/tools/cache"
)

// syncPatience is how long a first read may take before it is asked whether the API server answers at all.
const syncPatience = 3 * time.Second

// informer remembers why it could not get its objects, as long as it never had them. Later failures are not held against what it
// has: it reconnects by itself.
type informer struct {
	toolscache.SharedIndexInformer

	mu      sync.Mutex
	failure error
	failed  chan struct{}
}

func newInformer(source toolscache.ListerWatcher, kind runtime.Object, resync time.Duration, indexers toolscache.Indexers, log *slog.Logger) *informer {
	i := &informer{SharedIndexInformer: toolscache.NewSharedIndexInformer(source, kind, resync, indexers), failed: make(chan struct{})}
	// It fails only on an informer that runs already.
	_ = i.SetWatchErrorHandlerWithContext(func(ctx context.Context, reflector *toolscache.Reflector, err error) {
		if err == io.EOF || apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
			return // an ordinary end of a watch
		}
		log.WarnContext(ctx, "watch failed, will be tried again", "kind", reflector.TypeDescription(), "error", err)
		i.fail(err)
	})
	return i
}

func (i *informer) fail(err error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.failure == nil {
		close(i.failed)
	}
	i.failure = err
}

// await returns when the informer has all objects, or with the last reason why it could not get them. It tries a refused
// connection again without telling, hence the question whether the API server is reachable.
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
