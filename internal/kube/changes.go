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

// Changes tells whether objects of a kind have changed. It watches their metadata and keeps no object: a worker has some for each of thousands of clusters.
type Changes struct {
	resource schema.GroupVersionResource
	cluster  *Cluster
	relevant func(watch.EventType, *metav1.PartialObjectMetadata) bool

	mu                sync.Mutex
	changed, watching bool
}

// WatchChanges watches a resource of all namespaces until ctx is done. relevant selects the changes that count.
func (c *Cluster) WatchChanges(ctx context.Context, resource schema.GroupVersionResource, relevant func(watch.EventType, *metav1.PartialObjectMetadata) bool) *Changes {
	changes := &Changes{resource: resource, cluster: c, relevant: relevant}
	go changes.follow(ctx)
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

// follow watches until ctx is done, and tries again while that fails.
func (c *Changes) follow(ctx context.Context) {
	version, failingSince := "", time.Time{}
	for ctx.Err() == nil {
		next, err := c.watch(ctx, version)
		version = next
		if err == nil {
			failingSince = time.Time{}
			continue
		}
		c.note(false, false)
		if failingSince.IsZero() {
			failingSince = time.Now()
		}
		select {
		case <-ctx.Done():
		case <-time.After(forbiddenPause(time.Since(failingSince))):
		}
	}
}

// The time of a watch, as in client-go: not all are renewed at the same moment.
const minWatchTime = 5 * time.Minute

// watch notes the changes after a version, or all from now on if that is empty. It returns when the watch ends, with the version until which it has seen them.
func (c *Changes) watch(ctx context.Context, version string) (seen string, err error) {
	if version == "" {
		if version, err = c.version(ctx); err != nil {
			return "", err
		}
		c.note(true, true)
	}
	answer, err := c.cluster.Clientset.Discovery().RESTClient().Get().AbsPath(c.path()).
		SetHeader("Accept", "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1").
		Param("watch", "true").Param("allowWatchBookmarks", "true").Param("resourceVersion", version).
		Param("timeoutSeconds", strconv.Itoa(int((minWatchTime + rand.N(minWatchTime)).Seconds()))).
		Stream(ctx)
	if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
		return "", nil
	}
	if err != nil {
		return version, err
	}
	defer answer.Close()
	c.note(false, true)
	events := json.NewDecoder(answer)
	for {
		var event struct {
			Type   watch.EventType
			Object metav1.PartialObjectMetadata
		}
		if events.Decode(&event) != nil { // the end of the watch; if the server is gone, the next one fails
			return version, nil
		}
		switch event.Type {
		case watch.Error:
			return "", nil
		case watch.Bookmark:
		default:
			if c.relevant(event.Type, &event.Object) {
				c.note(true, true)
			}
		}
		version = event.Object.ResourceVersion
	}
}

// version returns the current version of the resource.
func (c *Changes) version(ctx context.Context) (string, error) {
	answer, err := c.cluster.Clientset.Discovery().RESTClient().Get().AbsPath(c.path()).
		SetHeader("Accept", "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1").Param("limit", "1").Do(ctx).Raw()
	if err != nil {
		return "", err
	}
	var list metav1.PartialObjectMetadataList
	if err := json.Unmarshal(answer, &list); err != nil {
		return "", fmt.Errorf("read the version of %s: %w", c.resource.Resource, err)
	}
	return list.ResourceVersion, nil
}

func (c *Changes) path() string {
	if c.resource.Group == "" {
		return "/api/" + c.resource.Version + "/" + c.resource.Resource
	}
	return "/apis/" + c.resource.GroupVersion().String() + "/" + c.resource.Resource
}
