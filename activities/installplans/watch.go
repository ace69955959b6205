package installplans

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drydock.dev/drydock/activities/activitykit"
	"drydock.dev/drydock/internal/installplans"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/internal/views"
)

// watch is one call of AwaitInstallPlans.
type watch struct {
	in      AwaitInstallPlansInput
	running sync.WaitGroup
	changed chan struct{}

	mu sync.Mutex
	// decided is the state of each cluster that was read.
	decided map[string]installplans.Cluster
	failure error
}

func newWatch(in AwaitInstallPlansInput) *watch {
	return &watch{in: in, changed: make(chan struct{}, 1), decided: map[string]installplans.Cluster{}}
}

func (w *watch) notify() {
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

// fail ends the watch with an error.
func (w *watch) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failure = err
	w.notify()
}

// messageLimit limits what is reported of a cluster, in bytes. Messages quote what the cluster shows.
const messageLimit = 512

// record records the state of a cluster.
func (w *watch) record(cluster installplans.Cluster) {
	cluster.Message = temporal.Cut(cluster.Message, messageLimit)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.decided[cluster.Cluster] = cluster.WithDigest()
	w.notify()
}

// await waits until the state of a cluster differs from the known one, and gathers more changes for a while, unless this is the first report on all clusters.
func (w *watch) await(ctx context.Context) ([]installplans.Cluster, error) {
	first := !slices.ContainsFunc(w.in.Clusters, func(known KnownCluster) bool { return known.Digest != "" })
	var gathered <-chan time.Time
	for {
		changes, err := w.changes()
		switch {
		case err != nil || first && len(changes) == len(w.in.Clusters):
			return changes, err
		case len(changes) == 0:
			gathered = nil
		case gathered == nil:
			gathered = time.After(w.in.Gather)
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-w.changed:
		case <-gathered:
			if changes, err := w.changes(); err != nil || len(changes) > 0 {
				return changes, err
			}
		}
	}
}

// changes are the clusters whose state differs from the known one.
func (w *watch) changes() ([]installplans.Cluster, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var changes []installplans.Cluster
	for _, known := range w.in.Clusters {
		if now, read := w.decided[known.Cluster]; read && now.Digest != known.Digest {
			changes = append(changes, now)
		}
	}
	return changes, w.failure
}

// decide reads what decisions about a cluster need, and decides.
func (w *watch) decide(known KnownCluster, read func(views.Object, *installplans.Observed) error) (installplans.Cluster, error) {
	requested := w.in.Subscriptions[known.Policy]
	all := slices.Clone(requested)
	for _, earlier := range known.Earlier {
		all = append(all, w.in.Subscriptions[earlier]...)
	}
	seen := installplans.Observed{
		Subscriptions: map[string]*installplans.Subscription{}, Plans: map[string]*installplans.Plan{}, Approvals: map[string]views.Outcome{}, Unread: map[string]string{},
	}
	done := 0
	for needed := installplans.Needed(requested, all, seen); done < len(needed); needed = installplans.Needed(requested, all, seen) {
		for _, object := range needed[done:] {
			if err := read(object, &seen); err != nil {
				return installplans.Cluster{}, err
			}
		}
		done = len(needed)
	}
	return installplans.DecideCluster(known.Cluster, requested, all, seen), nil
}

// observe records an object that was read; nil: it does not exist.
func observe(seen *installplans.Observed, object views.Object, found *unstructured.Unstructured) {
	name := object.Namespace + "/" + object.Name
	switch {
	case object.Kind == installplans.Subscriptions && found == nil:
		seen.Subscriptions[name] = nil
	case object.Kind == installplans.Subscriptions:
		seen.Subscriptions[name] = installplans.ReadSubscription(found)
	case found == nil:
		seen.Plans[name] = nil
	default:
		seen.Plans[name] = installplans.ReadPlan(found)
	}
}

const (
	// firstPause and longestPause limit the pause before a cluster that cannot be read is read again.
	firstPause   = 2 * time.Second
	longestPause = time.Minute
)

// watchCluster watches a cluster with credentials until ctx is done. A cluster that cannot be read waits for that, and does not stop the others.
func (w *watch) watchCluster(ctx context.Context, clusters *kube.Clusters, known KnownCluster) {
	pause := firstPause
	for {
		begun := time.Now()
		err := w.readCluster(ctx, clusters, known)
		if ctx.Err() != nil {
			return
		}
		w.record(installplans.Cluster{Cluster: known.Cluster, Message: "its Subscriptions cannot be read: " + temporal.ErrorMessage(err)})
		if time.Since(begun) > longestPause {
			pause = firstPause
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		pause = min(2*pause, longestPause)
	}
}

// readCluster watches a cluster with credentials until it fails.
func (w *watch) readCluster(ctx context.Context, clusters *kube.Clusters, known KnownCluster) error {
	cluster, err := clusters.Cluster(ctx, known.Cluster)
	if err != nil {
		return err
	}
	kinds := []client.Object{kube.IfServed(newObject(installplans.Subscriptions)), kube.IfServed(newObject(installplans.InstallPlans))}
	return activitykit.Explain(cluster, "watch InstallPlans", cluster.Await(ctx, kinds, func(ctx context.Context) (bool, error) {
		decided, err := w.decide(known, func(object views.Object, seen *installplans.Observed) error {
			return readDirectly(ctx, cluster, object, seen)
		})
		if err == nil {
			w.record(decided)
		}
		return false, err
	}))
}

func newObject(kind schema.GroupVersionKind) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(kind)
	return object
}

// readDirectly reads an object of a cluster from the cache.
func readDirectly(ctx context.Context, cluster *kube.Cluster, object views.Object, seen *installplans.Observed) error {
	found := newObject(object.Kind)
	err := cluster.Cache.Get(ctx, client.ObjectKey{Namespace: object.Namespace, Name: object.Name}, found)
	switch {
	case apierrors.IsNotFound(err):
		observe(seen, object, nil)
	case meta.IsNoMatchError(err):
		seen.Unread[object.String()] = fmt.Sprintf("the cluster does not serve %ss: Operator Lifecycle Manager is not installed", object.Kind.Kind)
	case apierrors.IsForbidden(err):
		seen.Unread[object.String()] = fmt.Sprintf("Drydock may not read %ss of the cluster: apply deploy/rbac/install-plans.yaml on it", object.Kind.Kind)
	case err == nil:
		observe(seen, object, found)
	default:
		return err
	}
	return nil
}
