package fleet

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	lcmv1 "drydock.dev/drydock/internal/apis/lcm/v1alpha1"
	"drydock.dev/drydock/internal/devstack"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/temporal"
)

// waitLimit is long because two cores may run several stacks, and because an eviction whose client disconnected counts against the
// disruption budget for two minutes.
const waitLimit = 5 * time.Minute

// Watch returns a cluster with the access of its administrator and informers.
func (f *Fleet) Watch(ctx context.Context, cluster *devstack.Cluster) (*kube.Cluster, error) {
	return f.watched.Cluster(ctx, cluster.Name)
}

// Await waits until check returns true. It calls check when an object of one of the kinds changes. The error after the timeout contains what.
func (f *Fleet) Await(ctx context.Context, cluster *devstack.Cluster, what string, kinds []client.Object, check func(context.Context, client.Reader) (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, waitLimit)
	defer cancel()
	for {
		err := f.awaitOnce(ctx, cluster, kinds, check)
		switch {
		case err == nil:
			return nil
		case temporal.ErrorType(err) != temporal.ErrClusterUnreachable: // on a busy machine its API server may not answer for a while
			return fmt.Errorf("wait in %s until %s: %w", cluster.Name, what, err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait in %s until %s: %w", cluster.Name, what, err)
		case <-time.After(time.Second):
		}
	}
}

func (f *Fleet) awaitOnce(ctx context.Context, cluster *devstack.Cluster, kinds []client.Object, check func(context.Context, client.Reader) (bool, error)) error {
	watched, err := f.Watch(ctx, cluster)
	if err != nil {
		return err
	}
	return watched.Await(ctx, kinds, func(ctx context.Context) (bool, error) { return check(ctx, watched.Cache) })
}

// AwaitWorkloads waits until every Deployment and DaemonSet of the cluster is available.
func (f *Fleet) AwaitWorkloads(ctx context.Context, cluster *devstack.Cluster) error {
	kinds := []client.Object{&appsv1.Deployment{}, &appsv1.DaemonSet{}}
	return f.Await(ctx, cluster, "all workloads are available", kinds, func(ctx context.Context, _ client.Reader) (bool, error) {
		// The cache may not have a workload yet that was just created.
		apps := cluster.Client.AppsV1()
		deployments, err := apps.Deployments(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		daemonSets, err := apps.DaemonSets(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		for _, d := range deployments.Items {
			if d.Status.ObservedGeneration < d.Generation || d.Status.AvailableReplicas < *d.Spec.Replicas {
				return false, nil
			}
		}
		for _, d := range daemonSets.Items {
			if d.Status.ObservedGeneration < d.Generation || d.Status.DesiredNumberScheduled == 0 || d.Status.NumberAvailable < d.Status.DesiredNumberScheduled {
				return false, nil
			}
		}
		return true, nil
	})
}

// AwaitLocks waits until the cluster has that many node locks, all active.
func (f *Fleet) AwaitLocks(ctx context.Context, cluster *devstack.Cluster, count int) error {
	kinds := []client.Object{&lcmv1.NodeWorkloadLock{}}
	return f.Await(ctx, cluster, fmt.Sprintf("%d node locks are active", count), kinds, func(ctx context.Context, reader client.Reader) (bool, error) {
		var locks lcmv1.NodeWorkloadLockList
		if err := reader.List(ctx, &locks); err != nil {
			return false, err
		}
		active := 0
		for _, lock := range locks.Items {
			if lock.Status.State == lcmv1.LockActive {
				active++
			}
		}
		return active == count && len(locks.Items) == count, nil
	})
}

// AwaitCleanup waits until the cluster has no Leftovers. The error lists them.
func (f *Fleet) AwaitCleanup(ctx context.Context, cluster *devstack.Cluster) error {
	kinds := []client.Object{
		&corev1.Node{}, &lcmv1.ClusterMaintenanceRequest{}, &lcmv1.NodeMaintenanceRequest{}, &lcmv1.ClusterWorkloadLock{}, &lcmv1.NodeWorkloadLock{}, &batchv1.Job{},
	}
	var left []string
	err := f.Await(ctx, cluster, "the cleanup is complete", kinds, func(ctx context.Context, reader client.Reader) (bool, error) {
		var err error
		left, err = Leftovers(ctx, reader)
		return len(left) == 0, err
	})
	if err != nil && len(left) > 0 {
		return fmt.Errorf("%w; left: %q", err, left)
	}
	return err
}
