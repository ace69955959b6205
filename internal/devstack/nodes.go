package devstack

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
)

// Annotations that control the simulated kubelets and containers of KWOK. Durations are in Go's format ("1.5s").
const (
	// AnnotationReadyAfter, on a pod: the time between its scheduling and its readiness. Default: none.
	AnnotationReadyAfter = "devstack.drydock.dev/ready-after"
	// AnnotationLeaveAfter, on a pod: the time that its termination takes. Default: none.
	AnnotationLeaveAfter = "devstack.drydock.dev/leave-after"
	// AnnotationCompleteAfter, on the pod of a Job: how long it runs. Default: no time.
	AnnotationCompleteAfter = "devstack.drydock.dev/complete-after"
	// AnnotationExitCode, on the pod of a Job: the exit code of its containers. The pod fails unless it is "0".
	AnnotationExitCode = "devstack.drydock.dev/exit-code"
	// AnnotationNotReady, on a node: the node is not ready until the annotation is removed. The value is the message of its condition.
	AnnotationNotReady = "devstack.drydock.dev/not-ready"
)

const (
	labelControlPlane = "node-role.kubernetes.io/control-plane"
	labelWorker       = "node-role.kubernetes.io/worker"
	// nodesTimeout is how long nodes may take to become ready, plus nodeTimeout for each of them.
	nodesTimeout = 5 * time.Minute
	nodeTimeout  = 100 * time.Millisecond
)

// Node describes a node to create. It has the labels that a kubelet and kubeadm would set.
type Node struct {
	Name string
	// ControlPlane nodes carry the role label and the NoSchedule taint of a control plane.
	ControlPlane bool
	Labels       map[string]string
	Annotations  map[string]string
	Taints       []corev1.Taint
}

// Nodes returns control-plane-1 to control-plane-n and worker-1 to worker-n.
func Nodes(controlPlanes, workers int) []Node {
	var nodes []Node
	for i := range controlPlanes {
		nodes = append(nodes, Node{Name: fmt.Sprintf("control-plane-%d", i+1), ControlPlane: true})
	}
	for i := range workers {
		nodes = append(nodes, Node{Name: fmt.Sprintf("worker-%d", i+1)})
	}
	return nodes
}

// AddNodes creates nodes and waits until all are ready and pods can be scheduled on them.
func (c *Cluster) AddNodes(ctx context.Context, nodes ...Node) error {
	if c.Kwok == nil {
		return fmt.Errorf("add nodes to cluster %s: it is ControlPlaneOnly, so they would never become ready", c.Name)
	}
	ctx, cancel := context.WithTimeout(ctx, nodesTimeout+time.Duration(len(nodes))*nodeTimeout)
	defer cancel()
	awaited := sets.New[string]()
	for _, node := range nodes {
		if _, err := c.Client.CoreV1().Nodes().Create(ctx, node.object(), metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("create node %s of cluster %s: %w", node.Name, c.Name, err)
		}
		if _, notReady := node.Annotations[AnnotationNotReady]; !notReady {
			awaited.Insert(node.Name)
		}
	}
	found := cache.NewListWatchFromClient(c.Client.CoreV1().RESTClient(), "nodes", "", fields.Everything())
	_, err := watchtools.UntilWithSync(ctx, found, &corev1.Node{}, nil, func(event watch.Event) (bool, error) {
		if node, ok := event.Object.(*corev1.Node); ok && nodeReady(node) {
			awaited.Delete(node.Name)
		}
		return awaited.Len() == 0, nil
	})
	if err != nil {
		return fmt.Errorf("wait for nodes %s of cluster %s to be ready: %w", strings.Join(sets.List(awaited), ", "), c.Name, err)
	}
	return nil
}

func nodeReady(node *corev1.Node) bool {
	for _, taint := range node.Spec.Taints {
		if taint.Key == corev1.TaintNodeNotReady {
			return false
		}
	}
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

func (n Node) object() *corev1.Node {
	object := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name:        n.Name,
		Annotations: n.Annotations,
		Labels: map[string]string{
			corev1.LabelHostname:   n.Name,
			corev1.LabelOSStable:   "linux",
			corev1.LabelArchStable: "amd64",
		},
	}}
	if n.ControlPlane {
		object.Labels[labelControlPlane] = ""
		object.Spec.Taints = append(object.Spec.Taints, corev1.Taint{Key: labelControlPlane, Effect: corev1.TaintEffectNoSchedule})
	} else {
		object.Labels[labelWorker] = ""
	}
	maps.Copy(object.Labels, n.Labels)
	object.Spec.Taints = append(object.Spec.Taints, n.Taints...)
	return object
}
