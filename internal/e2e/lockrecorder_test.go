package e2e

import (
	"cmp"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"

	lcmv1 "drydock.dev/drydock/internal/apis/lcm/v1alpha1"
	"drydock.dev/drydock/internal/devstack"
)

// lockRecorder records every change of the objects of workload locks.
type lockRecorder struct {
	mu      sync.Mutex
	changes []change
	failed  []any
}

// change is the state of an object at a revision. Revisions count for all kinds, so they order the changes of several watches.
type change struct {
	revision uint64
	gone     bool
	object   *unstructured.Unstructured
}

// recordedKinds are the kinds that are watched.
func recordedKinds() []schema.GroupVersionResource {
	kinds := []schema.GroupVersionResource{{Version: "v1", Resource: "nodes"}, {Version: "v1", Resource: "pods"}}
	for _, resource := range []string{"clustermaintenancerequests", "nodemaintenancerequests", "clusterworkloadlocks", "nodeworkloadlocks"} {
		kinds = append(kinds, lcmv1.GroupVersion.WithResource(resource))
	}
	return kinds
}

// recordLocks watches a cluster until the end of the test.
func recordLocks(t *testing.T, spoke *devstack.Cluster) *lockRecorder {
	t.Helper()
	client, err := dynamic.NewForConfig(spoke.Config)
	require.NoError(t, err)
	w := &lockRecorder{}
	var watches sync.WaitGroup
	for _, kind := range recordedKinds() {
		list, err := client.Resource(kind).List(t.Context(), metav1.ListOptions{})
		require.NoError(t, err)
		for i := range list.Items {
			w.record(watch.Event{Type: watch.Added, Object: &list.Items[i]})
		}
		changes := changesSince(t.Context(), t, list.GetResourceVersion(), client.Resource(kind).Watch)
		watches.Go(func() {
			for event := range changes {
				w.record(event)
			}
		})
	}
	t.Cleanup(watches.Wait)
	return w
}

func (w *lockRecorder) record(event watch.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	object, ok := event.Object.(*unstructured.Unstructured)
	if !ok || event.Type == watch.Error {
		w.failed = append(w.failed, event.Object)
		return
	}
	revision, err := strconv.ParseUint(object.GetResourceVersion(), 10, 64)
	if err != nil {
		w.failed = append(w.failed, err)
		return
	}
	w.changes = append(w.changes, change{revision: revision, gone: event.Type == watch.Deleted, object: object})
}

// replay applies the changes so far in order to a checker. applications release one node at a time.
func (w *lockRecorder) replay(t *testing.T, applications ...string) *lockChecker {
	t.Helper()
	w.mu.Lock()
	changes, failed := slices.Clone(w.changes), slices.Clone(w.failed)
	w.mu.Unlock()
	require.Empty(t, failed, "watches have failed")
	slices.SortStableFunc(changes, func(a, b change) int { return cmp.Compare(a.revision, b.revision) })
	s := newLockChecker(applications)
	for _, c := range changes {
		s.apply(t, c)
	}
	return s
}

// awaitEnd waits until no request is left and all locks are active.
func (w *lockRecorder) awaitEnd(t *testing.T, applications ...string) *lockChecker {
	t.Helper()
	var s *lockChecker
	require.Eventually(t, func() bool {
		s = w.replay(t, applications...)
		return s.done()
	}, stateLimit, 200*time.Millisecond, "requests or released locks are left")
	return s
}
