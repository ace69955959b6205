package workflowtest

import (
	"context"
	"slices"

	"go.temporal.io/sdk/activity"
)

// deletionWait is a call of AwaitDeletedClusters that waits until one of its clusters is deleted.
type deletionWait struct {
	token    []byte
	clusters []string
}

func (v deletionWait) of(deleted []string) []string {
	return slices.DeleteFunc(slices.Clone(v.clusters), func(name string) bool { return !slices.Contains(deleted, name) })
}

func (w *World) awaitDeletedClusters(ctx context.Context, clusters []string) ([]string, error) {
	w.Mu.Lock()
	defer w.Mu.Unlock()
	w.Inputs["AwaitDeletedClusters"] = append(w.Inputs["AwaitDeletedClusters"], clusters)
	if fail := w.Fail["AwaitDeletedClusters"]; fail != nil {
		if err := fail(len(w.Inputs["AwaitDeletedClusters"])); err != nil {
			return nil, err
		}
	}
	wait := deletionWait{token: activity.GetInfo(ctx).TaskToken, clusters: clusters}
	if found := wait.of(w.DeletedClusters); len(found) > 0 {
		return found, nil
	}
	w.deletionWaits = append(w.deletionWaits, wait)
	return nil, activity.ErrResultPending
}

// DeleteClusterSilently deletes the ManagedCluster of a cluster without an event.
func (w *World) DeleteClusterSilently(cluster string) {
	w.Mu.Lock()
	defer w.Mu.Unlock()
	w.DeletedClusters = append(w.DeletedClusters, cluster)
}

// DeleteCluster deletes the ManagedCluster of a cluster, and completes the calls of AwaitDeletedClusters that wait for it.
func (w *World) DeleteCluster(cluster string) {
	w.Mu.Lock()
	w.DeletedClusters = append(w.DeletedClusters, cluster)
	waiting := w.deletionWaits
	w.deletionWaits = nil
	w.Mu.Unlock()
	for _, wait := range waiting {
		if found := wait.of([]string{cluster}); len(found) > 0 {
			_ = w.CompleteActivity(wait.token, found, nil) // it may have been cancelled
		} else {
			w.Mu.Lock()
			w.deletionWaits = append(w.deletionWaits, wait)
			w.Mu.Unlock()
		}
	}
}
