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

// AwaitHeldAgainInput says which node is out of service, and which of its locks are known to hold it.
type AwaitHeldAgainInput struct {
	activitykit.NodeRef
	Known []string `json:"known,omitempty"`
}

// AwaitHeldAgain waits until a workload lock holds the node that is not known to, and returns those that do.
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

// HeldAgain are the locks of a node that hold it, as far as that can be seen.
func HeldAgain(ctx context.Context, cluster *kube.Cluster, node string) []drydockv1.Blocker {
	holders, err := holdersOf(ctx, cluster, node, nil)
	if err != nil {
		return nil
	}
	return holders
}

// holdersOf are the locks that hold a node, save those that are known to. That there are any is believed only from the API server: the cache may not have
// seen yet that they have let go.
func holdersOf(ctx context.Context, cluster *kube.Cluster, node string, known []string) (holders []drydockv1.Blocker, err error) {
	for _, reader := range []client.Reader{cluster.Cache, cluster.Client} {
		gate, err := NodeGate(ctx, reader, node)
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

// LockProgress is how far all applications have come, as the cache has it.
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

// FollowLocks reports how far all applications have come whenever that changes, until the deadline; of none when the last lock is gone.
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
