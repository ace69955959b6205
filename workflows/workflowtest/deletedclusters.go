package workflowtest

import (
	"context"
	"slices"
	"time"

	"go.temporal.io/sdk/activity"

	"drydock.dev/drydock/activities/rollouts"
	"drydock.dev/drydock/internal/rollout"
)

// deletionWait is a call of AwaitDeletedClusters that waits until one of its clusters is deleted.
type deletionWait struct {
	token    []byte
	clusters []string
}

func (v deletionWait) of(deleted []string) []string {
	return slices.DeleteFunc(slices.Clone(v.clusters), func(name string) bool { return !slices.Contains(deleted, name) })
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
	wait := deletionWait{token: activity.GetInfo(ctx).TaskToken, clusters: clusters}
	if found := wait.of(w.DeletedClusters); len(found) > 0 {
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
	w.completeDeletionWaits(func(wait deletionWait) *rollouts.SeenClusters {
		if found := wait.of([]string{cluster}); len(found) > 0 {
			return &rollouts.SeenClusters{Deleted: found}
		}
		return nil
	})
}

// WorkersWereAway lets the calls of AwaitDeletedClusters that wait report that no worker ran.
func (w *World) WorkersWereAway(from, to time.Time) {
	w.completeDeletionWaits(func(deletionWait) *rollouts.SeenClusters {
		return &rollouts.SeenClusters{WorkersAway: &rollout.Period{From: from, To: to}}
	})
}

// completeDeletionWaits completes the waiting calls for which result is not nil.
func (w *World) completeDeletionWaits(result func(deletionWait) *rollouts.SeenClusters) {
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
