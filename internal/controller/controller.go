// Package controller starts and steers workflows by the objects in clusters. A reconciler reads an object and the run of its workflow, and starts
// the workflow, signals it, or does nothing. It keeps no state: workflow ids and UIDs make it safe on several workers and after an outage.
package controller

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"time"

	"go.temporal.io/sdk/client"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kubeclient "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"drydock.dev/drydock/internal/kube"
)

// Options of the controllers.
type Options struct {
	Clusters *kube.Clusters
	Temporal client.Client
	Log      *slog.Logger
	// NodeAnnotations: annotations of nodes request maintenances, too.
	NodeAnnotations bool
	// Interval at which a cluster is checked for kinds that it did not serve, for other operators and for new credentials; 15 s by default. Without a change this
	// sends no request.
	Interval time.Duration

	started *startedByObjects
}

const defaultInterval = 15 * time.Second

// kind is one kind of objects that starts workflows.
type kind struct {
	name string
	// resource of the kind, by which its original operator is known.
	resource schema.GroupResource
	gvk      schema.GroupVersionKind
	// watch returns a controller of the kind.
	watch func(*kube.Cluster, Options) (*controller, error)
}

// Run runs the controllers of the clusters for which this process has credentials, and those of the hub if there is one, until ctx is done. It follows clusters
// that come and go, and retries those that cannot be reached.
func Run(ctx context.Context, options Options) {
	if options.Interval == 0 {
		options.Interval = defaultInterval
	}
	options.started = newStartedByObjects(ctx, options.Temporal)
	var running sync.WaitGroup
	defer running.Wait()
	if options.Clusters.HasHub() {
		running.Go(func() { runCluster(ctx, "", hubKinds(), options) })
	}
	stops := map[string]context.CancelFunc{}
	for ctx.Err() == nil {
		names, changed := options.Clusters.Reachable()
		gone := maps.Clone(stops)
		for _, name := range names {
			if delete(gone, name); stops[name] != nil {
				continue
			}
			var within context.Context
			within, stops[name] = context.WithCancel(ctx)
			running.Go(func() { runCluster(within, name, clusterKinds(options), options) })
		}
		for name, stop := range gone {
			stop()
			delete(stops, name)
		}
		select {
		case <-ctx.Done():
		case <-changed:
		}
	}
}

// runCluster runs the controllers of one cluster, or of the hub if the name is empty. When its credentials change, they start again with the new ones.
func runCluster(ctx context.Context, name string, kinds []kind, options Options) {
	options.Log = options.Log.With("cluster", cmp.Or(name, "hub"))
	for ctx.Err() == nil {
		if err := runSession(ctx, name, kinds, options); err != nil && ctx.Err() == nil {
			options.Log.Warn("controllers wait for the cluster", "error", err)
		}
		pause(ctx, options.Interval)
	}
	options.Log.Info("controllers of the cluster end")
}

// runSession runs the controllers of a cluster until its credentials change, or one of them fails.
func runSession(ctx context.Context, name string, kinds []kind, options Options) error {
	ctx, end := context.WithCancel(ctx)
	cluster, err := options.Clusters.ClusterOrHub(ctx, name)
	if err != nil {
		end()
		return err
	}
	session := newSession(ctx, cluster, kinds, options, end)
	defer session.stop()
	defer end()
	if cluster.Ended() != nil {
		session.starting.Go(func() { // a request may hang meanwhile
			select {
			case <-cluster.Ended():
				end()
			case <-ctx.Done():
			}
		})
	}
	for ctx.Err() == nil {
		session.startAndStop()
		options.Log.Debug("cluster checked for controllers to start and stop")
		pause(ctx, options.Interval)
		looking, looked := context.WithCancel(ctx)
		current, err := options.Clusters.ClusterOrHub(looking, name)
		looked()
		if err == nil && current != cluster {
			return nil
		}
	}
	return nil
}

// readable checks that the worker may list the objects of a kind. A controller that cannot would end, and all others of the cluster with it.
func (k kind) readable(ctx context.Context, cluster *kube.Cluster) error {
	var some metav1.PartialObjectMetadataList
	some.SetGroupVersionKind(k.gvk)
	return describe("list "+k.resource.String(), cluster.Client.List(ctx, &some, kubeclient.Limit(1)))
}

// pause waits, at most until ctx is done.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// created selects new objects only.
func created[T kubeclient.Object]() predicate.TypedPredicate[T] {
	return predicate.TypedFuncs[T]{
		UpdateFunc: func(event.TypedUpdateEvent[T]) bool { return false },
		DeleteFunc: func(event.TypedDeleteEvent[T]) bool { return false },
	}
}

// appeared selects new objects that the first list did not have.
func appeared[T kubeclient.Object]() predicate.TypedPredicate[T] {
	return predicate.TypedFuncs[T]{
		CreateFunc: func(e event.TypedCreateEvent[T]) bool { return !e.IsInInitialList },
		UpdateFunc: func(event.TypedUpdateEvent[T]) bool { return false },
		DeleteFunc: func(event.TypedDeleteEvent[T]) bool { return false },
	}
}

// clusterKinds are the kinds whose objects count in every cluster, and hubKinds those whose objects count on the hub.
func clusterKinds(options Options) []kind {
	kinds := []kind{nodeMaintenances(), maintenanceConfigs(), workloadLockPolicies(), harborClusters()}
	if options.NodeAnnotations {
		kinds = append(kinds, nodeAnnotations())
	}
	return kinds
}

func hubKinds() []kind {
	return []kind{clusterGroupUpgrades(), maintenanceWindows(), components(), maintenances(), incidents()}
}

// clusterOf returns the cluster of an object: empty for the hub.
func clusterOf(cluster *kube.Cluster) string {
	if cluster.Hub {
		return ""
	}
	return cluster.Name
}

// describe wraps the error of a step of a reconciler.
func describe(step string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", step, err)
}
