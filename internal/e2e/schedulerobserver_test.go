package e2e

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"drydock.dev/drydock/internal/kube"
)

const (
	// observationDelay is the longest time from a change of a node until a grant that knows it has marked its node. It takes some 100 ms, but seconds
	// on a busy machine. delayAfterCrash is the same after a crash of the worker: another worker takes over the watch after ten seconds, and lists
	// all nodes first.
	observationDelay = 5 * time.Second
	delayAfterCrash  = 30 * time.Second
)

// observer checks every change of the nodes against the budgets, in the order of the API server.
type observer struct {
	mu      sync.Mutex
	nodes   map[string]observed
	crashed time.Time
	most    int
	found   []string
}

// observed is the last seen state of a node.
type observed struct {
	owner string
	ready bool
	// since is when the node became ready or not ready.
	since time.Time
}

func (a *schedulerFleet) observe(t *testing.T) *observer {
	t.Helper()
	o := &observer{nodes: map[string]observed{}}
	list, err := a.spoke.Client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	require.Len(t, list.Items, schedulerWorkers+1)
	for i := range list.Items {
		node := &list.Items[i]
		o.nodes[node.Name] = observed{owner: kube.Owner(node), ready: isReady(node), since: time.Now().Add(-time.Hour)}
	}
	changes := changesSince(t.Context(), t, list.ResourceVersion, a.spoke.Client.CoreV1().Nodes().Watch)
	var watches sync.WaitGroup
	watches.Go(func() {
		for event := range changes {
			if node, ok := event.Object.(*corev1.Node); ok {
				o.observe(event.Type, node)
			} else {
				o.violated("the watch has failed: %v", event.Object)
			}
		}
	})
	t.Cleanup(watches.Wait)
	return o
}

func (o *observer) observe(event watch.EventType, node *corev1.Node) {
	o.mu.Lock()
	defer o.mu.Unlock()
	before := o.nodes[node.Name]
	if event == watch.Deleted {
		delete(o.nodes, node.Name)
		return
	}
	now := observed{owner: kube.Owner(node), ready: isReady(node), since: before.since}
	if now.ready != before.ready || before.since.IsZero() {
		now.since = time.Now()
	}
	o.nodes[node.Name] = now
	switch {
	case now.owner == before.owner || now.owner == "":
	case before.owner != "":
		o.violated("node %s changed its owner from %s to %s without a return to service", node.Name, before.owner, now.owner)
	default:
		o.checkBudgets(node.Name, now)
	}
}

// checkBudgets checks the budgets when a node has been taken out of service.
func (o *observer) checkBudgets(name string, node observed) {
	operations, out, outInZone := 0, 0, 0
	pooledZones := map[string]bool{}
	for other, n := range o.nodes {
		if n.owner != "" {
			operations++
			if pooled(other) {
				pooledZones[zoneOf(other)] = true
			}
		}
		if n.owner != "" || !n.ready && o.known(n) {
			out++
			if zoneOf(other) == zoneOf(name) {
				outInZone++
			}
		}
	}
	o.most = max(o.most, operations)
	if operations > maxParallel {
		o.violated("%s is the %dth node under maintenance: %s", name, operations, node.owner)
	}
	if pooled(name) && len(pooledZones) > maxPooledZones {
		o.violated("with %s (%s) nodes of the pool are under maintenance in %d zones", name, node.owner, len(pooledZones))
	}
	// The budgets for unavailable nodes do not restrict the maintenance of a node that was already unavailable.
	if node.ready && o.known(node) && (out > maxUnavailable || outInZone > maxUnavailableFor) {
		o.violated("with %s (%s) %d nodes are unavailable, %d of them in %s", name, node.owner, out, outInZone, zoneOf(name))
	}
}

// known reports whether the scheduler must have known the state of a node when it granted the slot.
func (o *observer) known(n observed) bool {
	decided := time.Now().Add(-observationDelay)
	if time.Since(o.crashed) < delayAfterCrash {
		decided = o.crashed.Add(-observationDelay)
	}
	return n.since.Before(decided)
}

func (o *observer) violated(format string, args ...any) {
	o.found = append(o.found, fmt.Sprintf(format, args...))
}

// workerCrashed records that a worker is about to be killed.
func (o *observer) workerCrashed() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.crashed = time.Now()
}

func (o *observer) inMaintenance() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	count := 0
	for _, n := range o.nodes {
		if n.owner != "" {
			count++
		}
	}
	return count
}

func (o *observer) mostInMaintenance() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.most
}

func (o *observer) violations() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.found)
}
