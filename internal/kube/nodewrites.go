package kube

import (
	"context"
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// PatchNode patches a node and updates it with the API server's answer. Until the watch delivers the change, Node returns that answer: a change that is
// based on an older version would be a conflict. Errors: those of the API server.
func (c *Cluster) PatchNode(ctx context.Context, node *corev1.Node, patch client.Patch) error {
	return c.wrote(node, c.Client.Patch(ctx, node, patch))
}

// wrote remembers the API server's answer to a write of a node, unless it failed.
func (c *Cluster) wrote(node *corev1.Node, err error) error {
	if err == nil {
		c.nodeWrites.remember(node)
	}
	return err
}

// nodeWrites has the nodes as PatchNode and changes of conditions wrote them last.
type nodeWrites struct {
	mu     sync.Mutex
	latest map[string]nodeWrite
}

type nodeWrite struct {
	node *corev1.Node
	at   time.Time
}

// writeRemembered is longer than a watch takes to deliver a write. If it takes longer, the next write is a conflict, and is repeated.
const writeRemembered = 10 * time.Second

func (w *nodeWrites) remember(node *corev1.Node) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.latest == nil {
		w.latest = map[string]nodeWrite{}
	}
	maps.DeleteFunc(w.latest, func(_ string, write nodeWrite) bool { return time.Since(write.at) > writeRemembered })
	if before, found := w.latest[node.Name]; found && newer(before.node, node) {
		return
	}
	answer := node.DeepCopy()
	answer.ManagedFields = nil // as in the cache
	w.latest[node.Name] = nodeWrite{node: answer, at: time.Now()}
}

// catchUp replaces a cached node by the answer to a later write.
func (w *nodeWrites) catchUp(cached *corev1.Node) {
	w.mu.Lock()
	defer w.mu.Unlock()
	write, found := w.latest[cached.Name]
	if !found {
		return
	}
	if !newer(write.node, cached) || time.Since(write.at) > writeRemembered {
		delete(w.latest, cached.Name)
		return
	}
	write.node.DeepCopyInto(cached)
}

// newer reports whether a is a later version than b.
func newer(a, b *corev1.Node) bool {
	order, err := resourceversion.CompareResourceVersion(a.ResourceVersion, b.ResourceVersion)
	return err == nil && order > 0
}
