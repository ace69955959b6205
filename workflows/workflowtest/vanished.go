package workflowtest

import (
	"context"
	"slices"

	"go.temporal.io/sdk/activity"
)

// vanishedWait is a call of AwaitVanished that waits until one of its clusters is deleted.
type vanishedWait struct {
	token    []byte
	clusters []string
}

func (v vanishedWait) of(vanished []string) []string {
	return slices.DeleteFunc(slices.Clone(v.clusters), func(name string) bool { return !slices.Contains(vanished, name) })
}

func (w *World) awaitVanished(ctx context.Context, clusters []string) ([]string, error) {
	w.Mu.Lock()
	defer w.Mu.Unlock()
	w.Inputs["AwaitDeletedClusters"] = append(w.Inputs["AwaitDeletedClusters"], clusters)
	if fail := w.Fail["AwaitDeletedClusters"]; fail != nil {
		if err := fail(len(w.Inputs["AwaitDeletedClusters"])); err != nil {
			return nil, err
		}
	}
	wait := vanishedWait{token: activity.GetInfo(ctx).TaskToken, clusters: clusters}
	if found := wait.of(w.Vanished); len(found) > 0 {
		return found, nil
	}
	w.vanishedWaits = append(w.vanishedWaits, wait)
	return nil, activity.ErrResultPending
}

// DeleteClusterSilently deletes the ManagedCluster of a cluster without an event.
func (w *World) DeleteClusterSilently(cluster string) {
	w.Mu.Lock()
	defer w.Mu.Unlock()
	w.Vanished = append(w.Vanished, cluster)
}

// DeleteCluster deletes the ManagedCluster of a cluster, and completes the calls of AwaitVanished that wait for it.
func (w *World) DeleteCluster(cluster string) {
	w.Mu.Lock()
	w.Vanished = append(w.Vanished, cluster)
	waiting := w.vanishedWaits
	w.vanishedWaits = nil
	w.Mu.Unlock()
	for _, wait := range waiting {
		if found := wait.of([]string{cluster}); len(found) > 0 {
			_ = w.CompleteActivity(wait.token, found, nil) // it may have been cancelled
		} else {
			w.Mu.Lock()
			w.vanishedWaits = append(w.vanishedWaits, wait)
			w.Mu.Unlock()
		}
	}
}
