package drain

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// nodeNameField selects pods by node: a field selector of the API server, and an index of internal/kube's caches.
const nodeNameField = "spec.nodeName"

// Read reads the objects that a drain of the node is decided from, from an API server or a file. If the node does not exist, Snapshot.Node is nil.
func Read(ctx context.Context, reader client.Reader, nodeName string) (Snapshot, error) {
	snapshot, err := readNode(ctx, reader, nodeName)
	if err != nil {
		return Snapshot{}, err
	}
	// One request per kind is fewer than one per namespace.
	if err := snapshot.readRules(ctx, reader, metav1.NamespaceAll); err != nil {
		return Snapshot{}, err
	}
	snapshot.Unhealthy, err = snapshot.readUnhealthy(ctx, reader, time.Now())
	return snapshot, err
}

// readPods reads a node and its pods, and the other objects from the cache: reading those of all namespaces from the server at every pass would be
// too expensive.
func readPods(ctx context.Context, reader, cache client.Reader, nodeName string) (Snapshot, error) {
	snapshot, err := readNode(ctx, reader, nodeName)
	if err != nil {
		return Snapshot{}, err
	}
	return snapshot, snapshot.readRules(ctx, cache, snapshot.namespaces()...)
}

// readNode reads a node and its pods.
func readNode(ctx context.Context, reader client.Reader, nodeName string) (Snapshot, error) {
	node := &corev1.Node{}
	err := reader.Get(ctx, types.NamespacedName{Name: nodeName}, node)
	if client.IgnoreNotFound(err) != nil {
		return Snapshot{}, fmt.Errorf("read node %s: %w", nodeName, err)
	}
	if err != nil {
		node = nil
	}
	// The objects are only read, so a cache need not copy them.
	var pods corev1.PodList
	if err := reader.List(ctx, &pods, client.MatchingFields{nodeNameField: nodeName}, client.UnsafeDisableDeepCopy); err != nil {
		return Snapshot{}, fmt.Errorf("list the pods of node %s: %w", nodeName, err)
	}
	return Snapshot{Node: node, Pods: pods.Items}, nil
}

// readRules adds the budgets and DaemonSets of these namespaces.
func (s *Snapshot) readRules(ctx context.Context, reader client.Reader, namespaces ...string) error {
	for _, namespace := range namespaces {
		var budgets policyv1.PodDisruptionBudgetList
		if err := reader.List(ctx, &budgets, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
			return fmt.Errorf("list PodDisruptionBudgets: %w", err)
		}
		var daemonSets appsv1.DaemonSetList
		if err := reader.List(ctx, &daemonSets, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
			return fmt.Errorf("list DaemonSets: %w", err)
		}
		s.Budgets, s.DaemonSets = append(s.Budgets, budgets.Items...), append(s.DaemonSets, daemonSets.Items...)
	}
	return nil
}

// namespaces are those of the pods, sorted.
func (s *Snapshot) namespaces() []string {
	found := map[string]bool{}
	for i := range s.Pods {
		found[s.Pods[i].Namespace] = true
	}
	return slices.Sorted(maps.Keys(found))
}
