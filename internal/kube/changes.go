package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
)

// Changes tells whether objects of a resource have changed.
type Changes struct {
	mu                sync.Mutex
	changed, watching bool
}

// WatchChanges watches a resource of all namespaces until ctx is done. relevant selects the changes that count.
func (c *Cluster) WatchChanges(ctx context.Context, resource schema.GroupVersionResource, relevant func(watch.EventType, *metav1.PartialObjectMetadata) bool) *Changes {
	changes := &Changes{}
	follower := &follower{cluster: c, resource: resource}
	follower.listed = func(bool) bool {
		changes.note(true, true)
		return false
	}
	follower.watching = func(works bool) { changes.note(false, works) }
	follower.event = func(change watch.EventType, object *metav1.PartialObjectMetadata) bool {
		if relevant(change, object) {
			changes.note(true, true)
		}
		return false
	}
	go follower.follow(ctx)
	return changes
}

// Take reports whether there may have been changes since the last Take, and whether the watch works now. If it does not, the caller has to look by itself.
func (c *Changes) Take() (changed, watching bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	changed, c.changed = c.changed, false
	return changed, c.watching
}

func (c *Changes) note(changed, watching bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.changed, c.watching = c.changed || changed, watching
}

// AwaitAny returns when a resource has an object in any namespace, or ctx is done. It costs a cluster less than an informer.
func (c *Cluster) AwaitAny(ctx context.Context, resource schema.GroupVersionResource) {
	follower := &follower{cluster: c, resource: resource, watching: func(bool) {}, listsAgain: true}
	follower.listed = func(some bool) bool { return some }
	follower.event = func(change watch.EventType, _ *metav1.PartialObjectMetadata) bool { return change != watch.Deleted }
	follower.follow(ctx)
}

// follower watches the metadata of the objects of a resource, and keeps none of them: a worker has some for each of thousands of clusters.
type follower struct {
	cluster  *Cluster
	resource schema.GroupVersionResource
	// listed is called before the watch begins, and again after events were missed: some objects exist, or none. event is called for each event. Both report
	// whether to stop.
	listed func(some bool) (stop bool)
	event  func(watch.EventType, *metav1.PartialObjectMetadata) (stop bool)
	// watching is called when the watch works, and when it does not.
	watching func(works bool)
	// listsAgain: after a refused watch it lists again. An account may list and not watch.
	listsAgain bool
}

// follow watches until it has to stop or ctx is done, and tries again while that fails.
func (f *follower) follow(ctx context.Context) {
	version, failingSince := "", time.Time{}
	for ctx.Err() == nil {
		began := time.Now()
		next, stop, err := f.watch(ctx, version)
		if stop {
			return
		}
		if version = next; err == nil && time.Since(began) > shortWatch {
			failingSince = time.Time{}
			continue
		}
		f.watching(err == nil)
		if failingSince.IsZero() {
			failingSince = time.Now()
		}
		select {
		case <-ctx.Done():
		case <-time.After(forbiddenPause(time.Since(failingSince))):
		}
	}
}

const (
	// minWatchTime is the shortest time of a watch. Not all are renewed at the same moment.
	minWatchTime = 5 * time.Minute
	// watchGrace is how much longer than it may last a watch is waited for.
	watchGrace = 30 * time.Second
	// shortWatch is the time of a watch that a server ends at once. The next one has to wait.
	shortWatch = time.Second
)

// watch reports the events after a version, or from now on if that is empty. It returns when the watch ends, with the version until which it has seen them.
func (f *follower) watch(ctx context.Context, version string) (seen string, stop bool, err error) {
	if version == "" {
		some := false
		if version, some, err = f.list(ctx); err != nil || f.listed(some) {
			return "", err == nil, err
		}
	}
	// The server ends the watch, or a proxy that has lost it does not: then its silence would count as no change.
	lasts := minWatchTime + rand.N(minWatchTime)
	ctx, cancel := context.WithTimeout(ctx, lasts+watchGrace)
	defer cancel()
	asked := f.cluster.Clientset.Discovery().RESTClient().Get().AbsPath(f.path()).SetHeader("Accept", metadataOf("PartialObjectMetadata"))
	answer, err := asked.Param("watch", "true").Param("allowWatchBookmarks", "true").Param("resourceVersion", version).
		Param("timeoutSeconds", strconv.Itoa(int(lasts.Seconds()))).Stream(ctx)
	switch {
	case apierrors.IsResourceExpired(err) || apierrors.IsGone(err):
		return "", false, nil
	case err != nil && f.listsAgain:
		return "", false, err
	case err != nil:
		return version, false, err
	}
	defer answer.Close()
	f.watching(true)
	events := json.NewDecoder(answer)
	for {
		var event struct {
			Type   watch.EventType
			Object metav1.PartialObjectMetadata
		}
		if events.Decode(&event) != nil { // the end of the watch; if the server is gone, the next one fails
			return version, false, nil
		}
		switch event.Type {
		case watch.Error:
			return "", false, nil
		case watch.Bookmark:
		default:
			if f.event(event.Type, &event.Object) {
				return "", true, nil
			}
		}
		version = event.Object.ResourceVersion
	}
}

// list returns the current version of the resource, and whether it has objects.
func (f *follower) list(ctx context.Context) (version string, some bool, err error) {
	answer, err := f.cluster.Clientset.Discovery().RESTClient().Get().AbsPath(f.path()).
		SetHeader("Accept", metadataOf("PartialObjectMetadataList")).Param("limit", "1").Do(ctx).Raw()
	if err != nil {
		return "", false, err
	}
	var list metav1.PartialObjectMetadataList
	if err := json.Unmarshal(answer, &list); err != nil {
		return "", false, fmt.Errorf("read the version of %s: %w", f.resource.Resource, err)
	}
	return list.ResourceVersion, len(list.Items) > 0, nil
}

func metadataOf(kind string) string { return "application/json;as=" + kind + ";g=meta.k8s.io;v=v1" }

func (f *follower) path() string {
	if f.resource.Group == "" {
		return "/api/" + f.resource.Version + "/" + f.resource.Resource
	}
	return "/apis/" + f.resource.GroupVersion().String() + "/" + f.resource.Resource
}
