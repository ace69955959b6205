package drain

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// nodeNameField selects pods by node: a field selector of the API server, and an index of internal/kube's caches.
const nodeNameField = "spec.nodeName"

// Read collects what a drain of the node is decided from, from an API server or from a cache of one. A node that does not exist leaves
// Snapshot.Node nil.
func Read(ctx context.Context, reader client.Reader, nodeName string) (Snapshot, error) {
	return read(ctx, reader, reader, nodeName)
}

// read takes the node and its pods from one reader, and what they are judged by from another: those lists are long, and whether a pod
// is on a node does not depend on them.
func read(ctx context.Context, pods, others client.Reader, nodeName string) (Snapshot, error) {
	node := &corev1.Node{}
	err := pods.Get(ctx, types.NamespacedName{Name: nodeName}, node)
	if client.IgnoreNotFound(err) != nil {
		return Snapshot{}, fmt.Errorf("read node %s: %w", nodeName, err)
	}
	if err != nil {
		node = nil
	}
	// The objects are only read, so a cache need not copy them.
	podList, budgets, daemonSets := corev1.PodList{}, policyv1.PodDisruptionBudgetList{}, appsv1.DaemonSetList{}
	if err := pods.List(ctx, &podList, client.MatchingFields{nodeNameField: nodeName}, client.UnsafeDisableDeepCopy); err != nil {
		return Snapshot{}, fmt.Errorf("list the pods of node %s: %w", nodeName, err)
	}
	if err := others.List(ctx, &budgets, client.UnsafeDisableDeepCopy); err != nil {
		return Snapshot{}, fmt.Errorf("list PodDisruptionBudgets: %w", err)
	}
	if err := others.List(ctx, &daemonSets, client.UnsafeDisableDeepCopy); err != nil {
		return Snapshot{}, fmt.Errorf("list DaemonSets: %w", err)
	}
	return Snapshot{Node: node, Pods: podList.Items, Budgets: budgets.Items, DaemonSets: daemonSets.Items}, nil
}
