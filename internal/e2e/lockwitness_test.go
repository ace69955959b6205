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

// lockWitness records every change of the objects of workload locks.
type lockWitness struct {
	mu      sync.Mutex
	changes []change
	failed  []any
}

// change is an object since a revision. Revisions are common to all kinds, which orders the changes of several watches.
type change struct {
	revision uint64
	gone     bool
	object   *unstructured.Unstructured
}

// witnessed are the kinds that are watched.
func witnessed() []schema.GroupVersionResource {
	kinds := []schema.GroupVersionResource{{Version: "v1", Resource: "nodes"}, {Version: "v1", Resource: "pods"}}
	for _, resource := range []string{"clustermaintenancerequests", "nodemaintenancerequests", "clusterworkloadlocks", "nodeworkloadlocks"} {
		kinds = append(kinds, lcmv1.GroupVersion.WithResource(resource))
	}
	return kinds
}

// witness watches a cluster until the test is over.
func witness(t *testing.T, spoke *devstack.Cluster) *lockWitness {
	t.Helper()
	client, err := dynamic.NewForConfig(spoke.Config)
	require.NoError(t, err)
	w := &lockWitness{}
	var seeing sync.WaitGroup
	for _, kind := range witnessed() {
		list, err := client.Resource(kind).List(t.Context(), metav1.ListOptions{})
		require.NoError(t, err)
		for i := range list.Items {
			w.see(watch.Event{Type: watch.Added, Object: &list.Items[i]})
		}
		changes := changesSince(t.Context(), t, list.GetResourceVersion(), client.Resource(kind).Watch)
		seeing.Go(func() {
			for event := range changes {
				w.see(event)
			}
		})
	}
	t.Cleanup(seeing.Wait)
	return w
}

func (w *lockWitness) see(event watch.Event) {
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

// story tells the changes so far in their order, for applications that let go of one node at a time.
func (w *lockWitness) story(t *testing.T, applications ...string) *lockStory {
	t.Helper()
	w.mu.Lock()
	changes, failed := slices.Clone(w.changes), slices.Clone(w.failed)
	w.mu.Unlock()
	require.Empty(t, failed, "watches have failed")
	slices.SortStableFunc(changes, func(a, b change) int { return cmp.Compare(a.revision, b.revision) })
	s := newLockStory(applications)
	for _, c := range changes {
		s.tell(t, c)
	}
	return s
}

// awaitEnd waits until no request is left and all locks are active.
func (w *lockWitness) awaitEnd(t *testing.T, applications ...string) *lockStory {
	t.Helper()
	var s *lockStory
	require.Eventually(t, func() bool {
		s = w.story(t, applications...)
		return s.over()
	}, stateLimit, 200*time.Millisecond, "the story does not come to its end")
	return s
}
