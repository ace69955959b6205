package rollouts

import (
	"context"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"drydock.dev/drydock/activities/activitykit"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/policies"
	"drydock.dev/drydock/internal/rollout"
	"drydock.dev/drydock/internal/temporal"
)

// SeenClusters is what a look at clusters, or a watch, has seen.
type SeenClusters struct {
	// Deleted are the clusters whose ManagedCluster is deleted or being deleted. Offline are those whose ManagedCluster is not Available.
	Deleted []string `json:"deleted,omitempty"`
	Offline []string `json:"offline,omitempty"`
	// Back are the clusters that are no longer offline.
	Back []string `json:"back,omitempty"`
	// WorkersAway is a period in which no worker ran the watch; nil: there was none.
	WorkersAway *rollout.Period `json:"workersAway,omitempty"`
}

// LookUpClusters returns the clusters whose ManagedCluster is deleted or not Available.
func (r *Activities) LookUpClusters(ctx context.Context, clusters []string) (SeenClusters, error) {
	hub, err := r.Clusters.Hub(ctx)
	if err != nil {
		return SeenClusters{}, err
	}
	return look(ctx, hub, clusters)
}

// AwaitDeletedClusters waits until a ManagedCluster of the clusters is deleted or being deleted, and returns those clusters. If no worker ran it for some
// time, it returns that at once.
func (r *Activities) AwaitDeletedClusters(ctx context.Context, clusters []string) (SeenClusters, error) {
	return r.await(ctx, clusters, func(ctx context.Context, hub *kube.Cluster, seen *SeenClusters) (done bool, err error) {
		now, err := look(ctx, hub, clusters)
		seen.Deleted = now.Deleted
		return len(seen.Deleted) > 0, err
	})
}

// gatherChanges is how long changes are gathered: after an outage of the hub, thousands of clusters come back within a minute. gatherPerCluster is the minimum
// for each watched cluster: the next watch has their names in its input.
const (
	gatherChanges    = time.Second
	gatherPerCluster = 10 * time.Millisecond
)

// AwaitClustersBack waits until a ManagedCluster of the clusters is no longer offline, also because it is deleted, and returns those clusters. If no worker
// ran it for some time, it returns that at once.
func (r *Activities) AwaitClustersBack(ctx context.Context, clusters []string) (SeenClusters, error) {
	return r.await(ctx, clusters, func(ctx context.Context, hub *kube.Cluster, seen *SeenClusters) (done bool, err error) {
		return gathered(ctx, len(clusters), func() (bool, error) {
			seen.Back, err = backAmong(ctx, hub, clusters)
			return len(seen.Back) > 0, err
		})
	})
}

// AvailabilityWatch are clusters, and those of them that are known to be offline or deleted.
type AvailabilityWatch struct {
	Clusters []string `json:"clusters"`
	Away     []string `json:"away,omitempty"`
}

// AwaitAvailabilityChange waits until others of the clusters are offline or deleted than is known, and returns all that are. If no worker ran it for some
// time, it returns that at once.
func (r *Activities) AwaitAvailabilityChange(ctx context.Context, in AvailabilityWatch) (SeenClusters, error) {
	known := slices.Sorted(slices.Values(in.Away))
	return r.await(ctx, in.Clusters, func(ctx context.Context, hub *kube.Cluster, seen *SeenClusters) (changed bool, err error) {
		differs := func() (bool, error) {
			*seen, err = look(ctx, hub, in.Clusters)
			return !slices.Equal(known, slices.Sorted(slices.Values(slices.Concat(seen.Offline, seen.Deleted)))), err
		}
		return gathered(ctx, len(in.Clusters), differs)
	})
}

// gathered calls a function that reports whether something has changed. After a change it waits for others, and calls it again.
func gathered(ctx context.Context, clusters int, changed func() (bool, error)) (bool, error) {
	if now, err := changed(); !now || err != nil {
		return false, err
	}
	select {
	case <-ctx.Done():
		return true, nil
	case <-time.After(max(gatherChanges, time.Duration(clusters)*gatherPerCluster)):
	}
	return changed()
}

// await looks at the ManagedClusters of clusters whenever one of them has changed, until it is done.
func (r *Activities) await(ctx context.Context, clusters []string, look func(context.Context, *kube.Cluster, *SeenClusters) (done bool, err error)) (SeenClusters, error) {
	if from, to, away := activitykit.WorkersAway(ctx); away {
		return SeenClusters{WorkersAway: &rollout.Period{From: from, To: to}}, nil
	}
	hub, err := r.Clusters.Hub(ctx)
	if err != nil {
		return SeenClusters{}, err
	}
	var seen SeenClusters
	err = activitykit.Waits{}.Await(ctx, hub, activitykit.ManagedClusters(clusters), func(ctx context.Context) (temporal.Observation, bool, error) {
		done, err := look(ctx, hub, &seen)
		return temporal.Observation{}, done, err
	})
	return seen, err
}

// look returns those of the clusters whose ManagedCluster is deleted or not Available.
func look(ctx context.Context, hub *kube.Cluster, clusters []string) (SeenClusters, error) {
	found := make([]*unstructured.Unstructured, len(clusters))
	reads, reading := errgroup.WithContext(ctx)
	reads.SetLimit(activitykit.MaxParallelRequests)
	for i, cluster := range clusters {
		reads.Go(func() (err error) {
			found[i], err = activitykit.ReadManagedCluster(reading, hub, cluster)
			return err
		})
	}
	if err := reads.Wait(); err != nil {
		return SeenClusters{}, err
	}
	var seen SeenClusters
	for i, cluster := range clusters {
		switch {
		case found[i] == nil:
			seen.Deleted = append(seen.Deleted, cluster)
		case policies.Offline(found[i]):
			seen.Offline = append(seen.Offline, cluster)
		}
	}
	return seen, nil
}

// backAmong returns those of the clusters that are not offline.
func backAmong(ctx context.Context, hub *kube.Cluster, clusters []string) ([]string, error) {
	now, err := look(ctx, hub, clusters)
	offline := map[string]bool{}
	for _, cluster := range now.Offline {
		offline[cluster] = true
	}
	return slices.DeleteFunc(slices.Clone(clusters), func(cluster string) bool { return offline[cluster] }), err
}
