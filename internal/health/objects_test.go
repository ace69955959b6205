package health_test

import (
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	"drydock.dev/drydock/internal/health"
)

// began is when the step under judgement began.
var began = time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)

// cluster is a snapshot of objects, in no particular order.
type cluster struct {
	objects  []health.Object
	unserved map[string]bool
	hidden   map[string]bool
	// answers are those of addresses; others do not answer.
	answers map[string]health.Answer
	asked   *[]string
}

func clusterOf(objects ...health.Object) cluster { return cluster{objects: objects} }

func (c cluster) List(kind schema.GroupVersionKind, namespace string) ([]health.Object, error) {
	if c.unserved[kind.Kind] {
		return nil, fmt.Errorf("%w: %s", health.ErrNotServed, kind)
	}
	if c.hidden[kind.Kind] {
		return nil, fmt.Errorf("%w: %s", health.ErrForbidden, kind)
	}
	var listed []health.Object
	for _, object := range c.objects {
		if kindOf(object) == kind && (namespace == "" || object.GetNamespace() == namespace) {
			listed = append(listed, object)
		}
	}
	return listed, nil
}

func (c cluster) Node(name string) (*corev1.Node, error) {
	for _, object := range c.objects {
		if node, ok := object.(*corev1.Node); ok && node.Name == name {
			return node, nil
		}
	}
	return nil, nil
}

func (c cluster) PodsOn(node string) ([]*corev1.Pod, error) {
	var pods []*corev1.Pod
	for _, object := range c.objects {
		if pod, ok := object.(*corev1.Pod); ok && pod.Spec.NodeName == node {
			pods = append(pods, pod)
		}
	}
	return pods, nil
}

func kindOf(object health.Object) schema.GroupVersionKind {
	if kind := object.GetObjectKind().GroupVersionKind(); !kind.Empty() {
		return kind
	}
	kinds, _, err := clientgoscheme.Scheme.ObjectKinds(object)
	if err != nil {
		panic(err)
	}
	return kinds[0]
}

func named(namespace, name string, labels map[string]string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels, Generation: 2}
}

func node(name string, ready corev1.ConditionStatus, taints ...corev1.Taint) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name, "role": "worker"}},
		Spec:       corev1.NodeSpec{Taints: taints},
		Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{
			{Type: corev1.NodeMemoryPressure, Status: corev1.ConditionFalse},
			{Type: corev1.NodeReady, Status: ready, Reason: "KubeletSays", Message: "so", LastTransitionTime: metav1.NewTime(began)},
		}},
	}
}

func (c cluster) Fetch(address string, _ *drydockv1.HealthCheckSecret) (health.Answer, error) {
	if c.asked != nil {
		*c.asked = append(*c.asked, address)
	}
	answer, ok := c.answers[address]
	if !ok {
		return health.Answer{}, errors.New("connection refused")
	}
	return answer, nil
}

// Harbor finds none.
func (c cluster) Harbor(string, string) (*health.HarborHealth, error) { return nil, nil }
