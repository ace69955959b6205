package workflowtest

import (
	"context"
	"slices"
	"time"

	"go.temporal.io/sdk/activity"

	"drydock.dev/drydock/activities/rollouts"
	"drydock.dev/drydock/internal/rollout"
)

// clusterWait is a call of AwaitDeletedClusters or AwaitClustersBack that waits for one of its clusters.
type clusterWait struct {
	token    []byte
	clusters []string
}

// among returns those of names that are in a list.
func among(names, list []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !slices.Contains(list, name) })
}

func (w *World) awaitDeletedClusters(ctx context.Context, clusters []string) (rollouts.SeenClusters, error) {
	w.Mu.Lock()
	defer w.Mu.Unlock()
	w.Inputs["AwaitDeletedClusters"] = append(w.Inputs["AwaitDeletedClusters"], clusters)
	if fail := w.Fail["AwaitDeletedClusters"]; fail != nil {
		if err := fail(len(w.Inputs["AwaitDeletedClusters"])); err != nil {
			return rollouts.SeenClusters{}, err
		}
	}
	wait := clusterWait{token: activity.GetInfo(ctx).TaskToken, clusters: clusters}
	if found := among(clusters, w.DeletedClusters); len(found) > 0 {
		return rollouts.SeenClusters{Deleted: found}, nil
	}
	w.deletionWaits = append(w.deletionWaits, wait)
	return rollouts.SeenClusters{}, activity.ErrResultPending
}

// DeleteClusterSilently deletes the ManagedCluster of a cluster without an event.
func (w *World) DeleteClusterSilently(cluster string) {
	w.Mu.Lock()
	defer w.Mu.Unlock()
	w.DeletedClusters = append(w.DeletedClusters, cluster)
}

// DeleteCluster deletes the ManagedCluster of a cluster, and completes the calls of AwaitDeletedClusters that wait for it.
func (w *World) DeleteCluster(cluster string) {
	w.DeleteClusterSilently(cluster)
	w.completeDeletionWaits(func(wait clusterWait) *rollouts.SeenClusters {
		if found := among(wait.clusters, []string{cluster}); len(found) > 0 {
			return &rollouts.SeenClusters{Deleted: found}
		}
		return nil
	})
}

// WorkersWereAway lets the calls of AwaitDeletedClusters that wait report that no worker ran.
func (w *World) WorkersWereAway(from, to time.Time) {
	w.completeDeletionWaits(func(clusterWait) *rollouts.SeenClusters {
		return &rollouts.SeenClusters{WorkersAway: &rollout.Period{From: from, To: to}}
	})
}

// completeDeletionWaits completes the waiting calls for which result is not nil.
func (w *World) completeDeletionWaits(result func(clusterWait) *rollouts.SeenClusters) {
	w.Mu.Lock()
	waiting := w.deletionWaits
	w.deletionWaits = nil
	w.Mu.Unlock()
	for _, wait := range waiting {
		if seen := result(wait); seen != nil {
			_ = w.CompleteActivity(wait.token, *seen, nil) // it may have been cancelled
			continue
		}
		w.Mu.Lock()
		w.deletionWaits = append(w.deletionWaits, wait)
		w.Mu.Unlock()
	}
}

// GoOffline makes the ManagedCluster of a cluster not Available.
func (w *World) GoOffline(cluster string) {
	w.Mu.Lock()
	w.OfflineClusters = append(w.OfflineClusters, cluster)
	w.Mu.Unlock()
	w.availabilityChanged()
}

func (w *World) awaitAvailabilityChange(ctx context.Context, in rollouts.AvailabilityWatch) (rollouts.SeenClusters, error) {
	w.Mu.Lock()
	defer w.Mu.Unlock()
	w.Inputs["AwaitAvailabilityChange"] = append(w.Inputs["AwaitAvailabilityChange"], in)
	if offline := among(in.Clusters, w.OfflineClusters); !slices.Equal(offline, in.Away) {
		return rollouts.SeenClusters{Offline: offline}, nil
	}
	w.availabilityWait.token, w.availabilityWait.AvailabilityWatch = activity.GetInfo(ctx).TaskToken, in
	return rollouts.SeenClusters{}, activity.ErrResultPending
}

func (w *World) availabilityChanged() {
	w.Mu.Lock()
	wait := w.availabilityWait
	offline := among(wait.Clusters, w.OfflineClusters)
	w.Mu.Unlock()
	if !slices.Equal(offline, wait.Away) {
		_ = w.CompleteActivity(wait.token, rollouts.SeenClusters{Offline: offline}, nil) // it may have been cancelled
	}
}

// ComeBack makes the ManagedCluster of a cluster Available again, and completes the calls of AwaitClustersBack that wait for it.
func (w *World) ComeBack(cluster string) {
	w.Mu.Lock()
	w.OfflineClusters = slices.DeleteFunc(w.OfflineClusters, func(name string) bool { return name == cluster })
	waiting := w.returnWaits
	w.returnWaits = nil
	w.Mu.Unlock()
	w.availabilityChanged()
	for _, wait := range waiting {
		if slices.Contains(wait.clusters, cluster) {
			_ = w.CompleteActivity(wait.token, rollouts.SeenClusters{Back: []string{cluster}}, nil) // it may have been cancelled
			continue
		}
		w.Mu.Lock()
		w.returnWaits = append(w.returnWaits, wait)
		w.Mu.Unlock()
	}
}

func (w *World) awaitClustersBack(ctx context.Context, clusters []string) (rollouts.SeenClusters, error) {
	w.Mu.Lock()
	defer w.Mu.Unlock()
	w.Inputs["AwaitClustersBack"] = append(w.Inputs["AwaitClustersBack"], clusters)
	if offline := among(clusters, w.OfflineClusters); len(offline) < len(clusters) {
		back := slices.DeleteFunc(slices.Clone(clusters), func(name string) bool { return slices.Contains(offline, name) })
		return rollouts.SeenClusters{Back: back}, nil
	}
	w.returnWaits = append(w.returnWaits, clusterWait{token: activity.GetInfo(ctx).TaskToken, clusters: clusters})
	return rollouts.SeenClusters{}, activity.ErrResultPending
}
