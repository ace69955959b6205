package fleet

import (
	"context"
	"fmt"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	lcmv1 "drydock.dev/drydock/internal/apis/lcm/v1alpha1"
	"drydock.dev/drydock/internal/kube"
)

// Leftovers returns the changes of Drydock that a cluster must not have after its maintenance: cordons, annotations, labels, conditions, requests,
// Jobs with a finalizer, and locks that are not active.
func Leftovers(ctx context.Context, reader client.Reader) ([]string, error) {
	var left []string
	var nodes corev1.NodeList
	if err := reader.List(ctx, &nodes); err != nil {
		return nil, err
	}
	for _, node := range nodes.Items {
		left = append(left, leftoversOf(&node)...)
	}
	for _, list := range []client.ObjectList{&lcmv1.ClusterMaintenanceRequestList{}, &lcmv1.NodeMaintenanceRequestList{}} {
		if err := reader.List(ctx, list); err != nil {
			return nil, err
		}
		_ = meta.EachListItem(list, func(object runtime.Object) error {
			left = append(left, fmt.Sprintf("%T %s", object, object.(metav1.Object).GetName()))
			return nil
		})
	}
	var jobs batchv1.JobList
	if err := reader.List(ctx, &jobs); err != nil {
		return nil, err
	}
	for _, job := range jobs.Items {
		for _, finalizer := range job.Finalizers {
			if strings.HasPrefix(finalizer, ourPrefix) {
				left = append(left, fmt.Sprintf("job %s/%s has finalizer %s", job.Namespace, job.Name, finalizer))
			}
		}
	}
	var clusterLocks lcmv1.ClusterWorkloadLockList
	var nodeLocks lcmv1.NodeWorkloadLockList
	for _, list := range []client.ObjectList{&clusterLocks, &nodeLocks} {
		if err := reader.List(ctx, list); err != nil {
			return nil, err
		}
	}
	for _, lock := range clusterLocks.Items {
		if lock.Status.State != lcmv1.LockActive {
			left = append(left, fmt.Sprintf("ClusterWorkloadLock %s is %q", lock.Name, lock.Status.State))
		}
	}
	for _, lock := range nodeLocks.Items {
		if lock.Status.State != lcmv1.LockActive {
			left = append(left, fmt.Sprintf("NodeWorkloadLock %s is %q", lock.Name, lock.Status.State))
		}
	}
	return left, nil
}

// ourPrefix is the prefix of all annotations, labels and finalizers of Drydock.
const ourPrefix = "drydock.dev/"

func leftoversOf(node *corev1.Node) []string {
	var left []string
	if node.Spec.Unschedulable {
		left = append(left, "node "+node.Name+" is cordoned")
	}
	for annotation := range node.Annotations {
		if strings.HasPrefix(annotation, ourPrefix) {
			left = append(left, "node "+node.Name+" has annotation "+annotation)
		}
	}
	for label := range node.Labels {
		if strings.HasPrefix(label, ourPrefix) {
			left = append(left, "node "+node.Name+" has label "+label)
		}
	}
	for _, condition := range node.Status.Conditions {
		for _, ours := range kube.NodeConditions() {
			if condition.Type == ours {
				left = append(left, "node "+node.Name+" has condition "+string(ours))
			}
		}
	}
	return left
}

// Count counts actions by kind.
func Count(total map[string]int, actions []Action) map[string]int {
	if total == nil {
		total = map[string]int{}
	}
	for _, action := range actions {
		total[action.What]++
	}
	return total
}

// Cordoned returns the nodes that were cordoned, each once, in the order of their first cordon.
func Cordoned(actions []Action) []string {
	var nodes []string
	for _, action := range actions {
		if action.What == ActionCordon && !slices.Contains(nodes, action.Object) {
			nodes = append(nodes, action.Object)
		}
	}
	return nodes
}
