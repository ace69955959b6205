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
	// newsOnTheWay is how old the view of the nodes may be on which a node was granted that is marked now: the watch takes some 100 ms, and so does the way
	// from a grant to the mark; both take seconds on a machine that is busy. afterDeath is the same when a worker has just died: another takes over the watch
	// when the dead one has been silent for ten seconds, and has to see all nodes first.
	newsOnTheWay = 5 * time.Second
	afterDeath   = 30 * time.Second
)

// observer checks every change of the nodes against the budgets, in the order of the API server.
type observer struct {
	mu       sync.Mutex
	nodes    map[string]observed
	died     time.Time
	most     int
	breaches []string
}

// observed is the last seen state of a node.
type observed struct {
	owner string
	ready bool
	// since is when that began.
	since time.Time
}

func (a *arena) observe(t *testing.T) *observer {
	t.Helper()
	o := &observer{nodes: map[string]observed{}}
	list, err := a.spoke.Client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	require.Len(t, list.Items, arenaWorkers+1)
	for i := range list.Items {
		node := &list.Items[i]
		o.nodes[node.Name] = observed{owner: kube.Owner(node), ready: isReady(node), since: time.Now().Add(-time.Hour)}
	}
	changes := changesSince(t.Context(), t, list.ResourceVersion, a.spoke.Client.CoreV1().Nodes().Watch)
	var seeing sync.WaitGroup
	seeing.Go(func() {
		for event := range changes {
			if node, ok := event.Object.(*corev1.Node); ok {
				o.see(event.Type, node)
			} else {
				o.breach("the watch has failed: %v", event.Object)
			}
		}
	})
	t.Cleanup(seeing.Wait)
	return o
}

func (o *observer) see(event watch.EventType, node *corev1.Node) {
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
		o.breach("node %s has gone from %s to %s without having been returned", node.Name, before.owner, now.owner)
	default:
		o.taken(node.Name, now)
	}
}

// taken checks the budgets when a node has been taken out of service.
func (o *observer) taken(name string, node observed) {
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
		o.breach("%s is the %dth node under maintenance: %s", name, operations, node.owner)
	}
	if pooled(name) && len(pooledZones) > maxPooledZones {
		o.breach("with %s (%s) nodes of the pool are under maintenance in %d zones", name, node.owner, len(pooledZones))
	}
	// One that was not available may be taken whatever the budgets of unavailable nodes say.
	if node.ready && o.known(node) && (out > maxUnavailable || outInZone > maxUnavailableFor) {
		o.breach("with %s (%s) %d nodes are unavailable, %d of them in %s", name, node.owner, out, outInZone, zoneOf(name))
	}
}

// known reports whether the scheduler must have known how the node is when it granted the one that is taken now.
func (o *observer) known(n observed) bool {
	decided := time.Now().Add(-newsOnTheWay)
	if time.Since(o.died) < afterDeath {
		decided = o.died.Add(-newsOnTheWay)
	}
	return n.since.Before(decided)
}

func (o *observer) breach(format string, args ...any) {
	o.breaches = append(o.breaches, fmt.Sprintf(format, args...))
}

// workerCrashed records that a worker is about to be killed.
func (o *observer) workerCrashed() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.died = time.Now()
}

func (o *observer) atWork() int {
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

func (o *observer) mostAtWork() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.most
}

func (o *observer) violations() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.breaches)
}
