package locks

import (
	"context"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"drydock.dev/drydock/activities/activitykit"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	lcmv1 "drydock.dev/drydock/internal/apis/lcm/v1alpha1"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/locks"
	"drydock.dev/drydock/internal/temporal"
)

// AwaitHeldAgainInput names a node that is out of service, and its locks that are known to be active.
type AwaitHeldAgainInput struct {
	activitykit.NodeRef
	Known []string `json:"known,omitempty"`
}

// AwaitHeldAgain waits until a workload lock of the node becomes active that is not known to be, and returns the active ones.
func (l *Activities) AwaitHeldAgain(ctx context.Context, in AwaitHeldAgainInput) (news []drydockv1.Blocker, err error) {
	cluster, err := l.Clusters.Cluster(ctx, in.Cluster)
	if err != nil {
		return nil, err
	}
	watched := []client.Object{kube.IfServed(&lcmv1.NodeWorkloadLock{})}
	err = activitykit.Waits{}.Await(ctx, cluster, watched, func(ctx context.Context) (temporal.Observation, bool, error) {
		var err error
		news, err = holdersOf(ctx, cluster, in.Node, in.Known)
		return temporal.Observation{}, len(news) > 0, err
	})
	return news, err
}

// HeldAgain returns the active locks of a node, if they can be read.
func HeldAgain(ctx context.Context, cluster *kube.Cluster, node string) []drydockv1.Blocker {
	holders, err := holdersOf(ctx, cluster, node, nil)
	if err != nil {
		return nil
	}
	return holders
}

// holdersOf returns the active locks of a node, except the known ones. The API server confirms them: the cache may not yet have that they became
// inactive.
func holdersOf(ctx context.Context, cluster *kube.Cluster, node string, known []string) (holders []drydockv1.Blocker, err error) {
	for _, reader := range []client.Reader{cluster.Cache, cluster.Client} {
		gate, err := NodeGate(ctx, reader, node, "")
		if err != nil {
			return nil, err
		}
		holders = slices.DeleteFunc(gate.Blockers(), func(lock drydockv1.Blocker) bool { return slices.Contains(known, lock.Name) })
		if len(holders) == 0 {
			return nil, nil
		}
	}
	return holders, nil
}

// LockProgress returns the progress of all applications, according to the cache.
func LockProgress(ctx context.Context, cluster *kube.Cluster) ([]drydockv1.LockProgress, error) {
	var requests lcmv1.ClusterMaintenanceRequestList
	var found lcmv1.NodeWorkloadLockList
	for _, list := range []client.ObjectList{&requests, &found} {
		if err := activitykit.ListIfServed(ctx, cluster.Cache, list); err != nil {
			return nil, err
		}
	}
	return locks.ProgressOfAll(requests.Items, found.Items), nil
}

// FollowLocks reports the progress of all applications whenever it changes, until the deadline.
func (l *Activities) FollowLocks(ctx context.Context, in ClusterLockInput) error {
	cluster, err := l.Clusters.Cluster(ctx, in.Cluster)
	if err != nil {
		return err
	}
	watched := []client.Object{kube.IfServed(&lcmv1.NodeWorkloadLock{}), kube.IfServed(&lcmv1.ClusterMaintenanceRequest{})}
	_, err = l.Waits.AwaitUntil(ctx, in.Deadline, cluster, watched, func(ctx context.Context, _ client.Reader) (temporal.Observation, bool, error) {
		progress, err := LockProgress(ctx, cluster)
		return temporal.Observation{LockProgress: progress}, false, err
	})
	return err
}
