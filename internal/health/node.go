package health

import (
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
)

var (
	nodeKind      = corev1.SchemeGroupVersion.WithKind("Node")
	podKind       = corev1.SchemeGroupVersion.WithKind("Pod")
	daemonSetKind = appsv1.SchemeGroupVersion.WithKind("DaemonSet")
)

// EvaluateNode checks whether a node may return to service: it is Ready, and every DaemonSet that places a pod on it has a ready one there. A missing
// DaemonSet pod counts as not ready.
func EvaluateNode(name string, objects Objects) (Result, error) {
	node, err := objects.Node(name)
	if err != nil {
		return Result{}, err
	}
	if node == nil {
		return Result{Reason: ReasonNodeMissing, Message: "not found: node " + name}, nil
	}
	if unready := judgeNodes(node); len(unready) > 0 {
		return judged("", unready), nil
	}
	blockers, err := judgeDaemonSets(node, objects)
	if err != nil {
		return Result{}, err
	}
	return judged(fmt.Sprintf("node %s is Ready and so are its DaemonSet pods", name), blockers), nil
}

// EvaluateNodes checks whether the named nodes that still exist are Ready. A deleted node is skipped.
func EvaluateNodes(names []string, objects Objects) (Result, error) {
	listed, err := objects.List(nodeKind, "")
	if err != nil {
		return Result{}, err
	}
	if listed, err = selected(listed, nil); err != nil {
		return Result{}, err
	}
	existing, err := allTyped[corev1.Node](listed)
	if err != nil {
		return Result{}, err
	}
	existing = slices.DeleteFunc(existing, func(node *corev1.Node) bool { return !slices.Contains(names, node.Name) })
	return judged(fmt.Sprintf("%d nodes are Ready", len(existing)), judgeNodes(existing...)), nil
}

// evaluateNodes evaluates a declared check.
func evaluateNodes(check drydockv1.NodeCheck, node string, objects Objects) (Result, error) {
	nodes, err := selectedNodes(check, node, objects)
	if err != nil {
		return Result{}, err
	}
	if len(nodes) == 0 {
		message := "found no node" + withLabels(check.Selector)
		if check.Selector == nil && node != "" {
			message += " " + node
		}
		return Result{Reason: ReasonNothingFound, Message: message}, nil
	}
	return judged(fmt.Sprintf("%d nodes are Ready", len(nodes)), judgeNodes(nodes...)), nil
}

// selectedNodes are the nodes that match the check's selector, or else the node under maintenance, or else every node.
func selectedNodes(check drydockv1.NodeCheck, name string, objects Objects) ([]*corev1.Node, error) {
	if check.Selector == nil && name != "" {
		node, err := objects.Node(name)
		if err != nil || node == nil {
			return nil, err
		}
		return []*corev1.Node{node}, nil
	}
	listed, err := objects.List(nodeKind, "")
	if err != nil {
		return nil, err
	}
	if listed, err = selected(listed, check.Selector); err != nil {
		return nil, fmt.Errorf("node: %w", err)
	}
	return allTyped[corev1.Node](listed)
}

// judgeNodes returns the nodes that are not Ready.
func judgeNodes(nodes ...*corev1.Node) []drydockv1.Blocker {
	var blockers []drydockv1.Blocker
	for _, node := range nodes {
		if b := judgeNode(node); b != nil {
			blockers = append(blockers, *b)
		}
	}
	return blockers
}

// judgeNode returns why one node fails, or nil. Nodes report no observed generation: the kubelet need not act on the spec before it is Ready.
func judgeNode(node *corev1.Node) *drydockv1.Blocker {
	for _, c := range node.Status.Conditions {
		if c.Type != corev1.NodeReady {
			continue
		}
		if c.Status == corev1.ConditionTrue {
			return nil
		}
		b := blocker("Node", node, ReasonNodeNotReady, fmt.Sprintf("condition Ready is %s%s", c.Status, because(c.Reason, c.Message)), c.LastTransitionTime)
		return &b
	}
	b := blocker("Node", node, ReasonNodeNotReady, "the kubelet has not reported whether it is Ready", metav1.Time{})
	return &b
}

func allTyped[T any](objects []Object) ([]*T, error) {
	all := make([]*T, 0, len(objects))
	for _, object := range objects {
		t, err := typed[T](object)
		if err != nil {
			return nil, err
		}
		all = append(all, t)
	}
	return all, nil
}
