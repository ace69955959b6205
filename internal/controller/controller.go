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
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/operators"
)

// Options of the controllers.
type Options struct {
	Clusters *kube.Clusters
	Temporal client.Client
	Log      *slog.Logger
	// NodeAnnotations: annotations of nodes request maintenances, too.
	NodeAnnotations bool
	// Interval at which a cluster is checked for kinds that it did not serve, and for new credentials; 15 s by default.
	Interval time.Duration
}

const (
	defaultInterval = 15 * time.Second
	// examineInterval is how often a cluster is searched for other operators, more often while one acts on a kind.
	examineInterval = 5 * time.Minute
)

// kind is one kind of objects that starts workflows.
type kind struct {
	name string
	// resource of the kind, by which its original operator is known.
	resource schema.GroupResource
	// served reports whether the cluster serves the kind.
	served func(*kube.Cluster) error
	// watch returns a controller of the kind.
	watch func(*kube.Cluster, Options) (*controller, error)
}

// Run runs the controllers of the clusters for which this process has credentials, and those of the hub if there is one, until ctx is done. It follows clusters
// that come and go, and retries those that cannot be reached.
func Run(ctx context.Context, options Options) {
	if options.Interval == 0 {
		options.Interval = defaultInterval
	}
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
	session := &session{cluster: cluster, kinds: kinds, options: options, running: map[string]func(){}, off: map[string]string{}, fail: end}
	defer session.stop()
	defer end()
	for ctx.Err() == nil {
		session.startAndStop(ctx)
		options.Log.Debug("cluster checked for controllers to start and stop")
		select {
		case <-cluster.Ended():
			return nil
		case <-ctx.Done():
			return nil
		case <-time.After(options.Interval):
		}
		looking, looked := context.WithCancel(ctx)
		current, err := options.Clusters.ClusterOrHub(looking, name)
		looked()
		if err == nil && current != cluster {
			return nil
		}
	}
	return nil
}

// session runs the controllers of a cluster with one set of credentials.
type session struct {
	cluster *kube.Cluster
	kinds   []kind
	options Options
	// running are the ends of the controllers in progress, by kind.
	running map[string]func()
	// fail ends the session.
	fail     context.CancelFunc
	starting sync.WaitGroup
	// examined is when the cluster was last searched for other operators, which are theirs.
	examined time.Time
	theirs   map[string]string
	// off says why controllers are off, by kind.
	off map[string]string
}

// logOff logs why the controller of a kind is off, once for each reason.
func (s *session) logOff(kind kind, message string, args ...any) {
	if why := message + fmt.Sprint(args...); s.off[kind.name] != why {
		s.off[kind.name] = why
		s.options.Log.With("kind", kind.name).Warn(message, args...)
	}
}

// startAndStop starts the controllers of the kinds that the cluster serves, and stops those of kinds on which another operator acts.
func (s *session) startAndStop(ctx context.Context) {
	for _, kind := range s.kinds {
		stop, runs := s.running[kind.name]
		if kind.served(s.cluster) != nil {
			continue // a controller of a CRD that was deleted waits for it
		}
		if err := s.examine(ctx); err != nil {
			if !runs {
				s.logOff(kind, "controller stays off: unknown whether other operators run", "error", err)
			}
			continue
		}
		operator, theirs := s.theirs[kind.resource.String()]
		switch {
		case theirs && runs:
			stop()
			delete(s.running, kind.name)
			fallthrough
		case theirs:
			s.logOff(kind, "controller is off: another operator acts on the kind", "operator", operator)
		case !runs:
			s.start(ctx, kind)
		}
	}
}

// stop ends all controllers.
func (s *session) stop() {
	for _, stop := range s.running {
		stop()
	}
	s.starting.Wait()
}

// start starts the controller of a kind.
func (s *session) start(ctx context.Context, kind kind) {
	log := s.options.Log.With("kind", kind.name)
	err := kind.readable(ctx, s.cluster)
	var c *controller
	if err == nil {
		c, err = kind.watch(s.cluster, s.options)
	}
	if err != nil {
		s.logOff(kind, "controller cannot start", "error", err)
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	c.queue = newQueue(func(request reconcile.Request) { c.reconcileOne(ctx, request) })
	s.running[kind.name] = func() {
		cancel()
		c.queue.stop()
	}
	delete(s.off, kind.name)
	log.Info("controller started")
	s.starting.Go(func() {
		if err := c.run(ctx); err != nil && ctx.Err() == nil {
			log.Error("controller ended", "error", err)
			s.fail()
		}
	})
}

// examine searches the cluster for the original operators of kinds.
func (s *session) examine(ctx context.Context) error {
	if len(s.theirs) == 0 && time.Since(s.examined) < examineInterval {
		return nil
	}
	running, err := operators.Running(ctx, s.cluster.Clientset)
	if err != nil {
		return err
	}
	s.examined = time.Now()
	s.theirs = map[string]string{}
	for _, operator := range running {
		for _, kind := range operator.Kinds {
			s.theirs[kind.String()] = operator.NamespacedName.String()
		}
	}
	return nil
}

// readable checks that the worker may list the objects of a kind. A controller that cannot would end, and all others of the cluster with it.
func (k kind) readable(ctx context.Context, cluster *kube.Cluster) error {
	gvk, err := cluster.Client.RESTMapper().KindFor(k.resource.WithVersion(""))
	if err != nil {
		return err
	}
	var some metav1.PartialObjectMetadataList
	some.SetGroupVersionKind(gvk)
	return describe("list "+k.resource.String(), cluster.Client.List(ctx, &some, kubeclient.Limit(1)))
}

// pause waits, at most until ctx is done.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// serves returns a check whether a cluster serves a kind.
func serves(kind schema.GroupVersionKind) func(*kube.Cluster) error {
	return func(c *kube.Cluster) error {
		_, err := c.Client.RESTMapper().RESTMapping(kind.GroupKind(), kind.Version)
		return err
	}
}

// created selects new objects only.
func created[T kubeclient.Object]() predicate.TypedPredicate[T] {
	return predicate.TypedFuncs[T]{
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
