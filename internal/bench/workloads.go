package bench

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drydock.dev/drydock/internal/allow"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
)

const (
	// namespace has the pods.
	namespace = "bench"
	// rolloutNamespace is the namespace of rollouts on the hub.
	rolloutNamespace = "default"
	// jobNamespace is the namespace in which deploy/rbac lets the worker run Jobs.
	jobNamespace = allow.NamespaceJobs
	image        = "registry.example.com/work:1.0"
	// workerLabel is the label of the maintained nodes. The control-plane node is not maintained.
	workerLabel = "node-role.kubernetes.io/worker"
)

// populate sets the budget, and creates pods on every node. An evicted pod waits for the return of its node, so every round evicts the same number.
func (s *measurement) populate(ctx context.Context) error {
	spoke, err := s.fleet.Watch(ctx, s.spoke)
	if err != nil {
		return err
	}
	objects := []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}},
		&maintenancev1.MaintenanceOperatorConfig{
			ObjectMeta: metav1.ObjectMeta{Namespace: allow.NamespaceSystem, Name: "budgets"},
			Spec:       maintenancev1.MaintenanceOperatorConfigSpec{MaxParallelOperations: new(intstr.FromInt(s.size.AtOnce))},
		},
	}
	for _, object := range objects {
		if err := spoke.Client.Create(ctx, object); err != nil {
			return fmt.Errorf("create %T %s: %w", object, object.GetName(), err)
		}
	}
	if s.size.Pods == 0 {
		return nil
	}
	var group errgroup.Group
	group.SetLimit(10)
	for _, node := range s.nodes() {
		group.Go(func() error { return spoke.Client.Create(ctx, podsOf(node, int32(s.size.Pods))) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return s.fleet.AwaitWorkloads(ctx, s.spoke)
}

// nodes are the names of the maintained nodes.
func (s *measurement) nodes() []string {
	var names []string
	for i := range s.size.Nodes {
		names = append(names, fmt.Sprintf("worker-%d", i+1))
	}
	return names
}

// podsOf is a Deployment whose pods run on one node or not at all.
func podsOf(node string, count int32) *appsv1.Deployment {
	labels := map[string]string{"app": node}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: node},
		Spec: appsv1.DeploymentSpec{
			Replicas: &count,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{
					NodeSelector: map[string]string{corev1.LabelHostname: node},
					Containers:   []corev1.Container{{Name: "work", Image: image}},
				},
			},
		},
	}
}
