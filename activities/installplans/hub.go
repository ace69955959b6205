package installplans

import (
	"context"
	"fmt"
	"sync"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drydock.dev/drydock/activities/activitykit"
	viewsapi "drydock.dev/drydock/activities/views"
	"drydock.dev/drydock/internal/installplans"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/internal/views"
)

// hubWatch watches clusters through their agents.
type hubWatch struct {
	*watch
	hub   *kube.Cluster
	owner viewsapi.Owner
	// created are the views that were created and that the cache does not have yet, by client.ObjectKey.
	created sync.Map
	// missed is what the hub lacked the last time.
	missed string
}

// watchHub watches clusters through their agents until it fails.
func (w *watch) watchHub(ctx context.Context, hub *kube.Cluster, clusters []KnownCluster) error {
	h := &hubWatch{watch: w, hub: hub, owner: w.in.Rollout.owner()}
	var kinds []client.Object
	var recorded []*kube.Recorded
	for _, kind := range viewsapi.Kinds(metav1.NamespaceAll) {
		recorded = append(recorded, kube.Record(kind))
		kinds = append(kinds, recorded[len(recorded)-1])
	}
	err := hub.Await(ctx, kinds, func(ctx context.Context) (bool, error) {
		changed := changedClusters(recorded)
		missing, err := h.missing(ctx)
		if err != nil {
			return false, err
		}
		reads, reading := errgroup.WithContext(ctx) // it may create a view for each cluster
		reads.SetLimit(activitykit.MaxParallelRequests)
		for _, known := range clusters {
			if len(changed) > 0 && !changed[known.Cluster] && missing == h.missed {
				continue // views of thousands of clusters change all the time
			}
			reads.Go(func() (err error) {
				decided := installplans.Cluster{Cluster: known.Cluster, Message: missing}
				if missing == "" {
					decided, err = h.readCluster(reading, known)
				}
				if err == nil {
					w.record(decided)
				}
				return err
			})
		}
		h.missed = missing
		return false, reads.Wait()
	})
	return activitykit.Explain(hub, "watch InstallPlans through ManagedClusterViews", err)
}

// changedClusters are those with a changed view or action; none: all clusters are to be read, at the start and from time to time.
func changedClusters(recorded []*kube.Recorded) map[string]bool {
	changed := map[string]bool{}
	for _, kind := range recorded {
		for _, key := range kind.Take() {
			changed[key.Namespace] = true
		}
	}
	return changed
}

// missing is what the hub lacks to read clusters through their agents; empty: nothing.
func (h *hubWatch) missing(ctx context.Context) (string, error) {
	kind, err := viewsapi.Missing(ctx, h.hub)
	if err != nil || kind == "" {
		return "", err
	}
	return fmt.Sprintf("InstallPlans cannot be approved: this worker has no credentials for the cluster, and the hub serves no %ss", kind), nil
}

// readCluster decides about a cluster. If the hub refuses a view or an action, only its cluster waits.
func (h *hubWatch) readCluster(ctx context.Context, known KnownCluster) (installplans.Cluster, error) {
	decided, err := h.decide(known, func(object views.Object, seen *installplans.Observed) error {
		return h.read(ctx, known.Cluster, object, seen)
	})
	if err != nil {
		return decided, err
	}
	for _, object := range decided.Approved {
		view, err := viewsapi.Get(ctx, h.hub.Cache, views.Views, h.owner, known.Cluster, object)
		if err == nil {
			err = viewsapi.Delete(ctx, h.hub, view) // its agent reads a new one at once
		}
		if err != nil && h.lost(ctx, err) {
			return decided, err
		}
		if err != nil {
			decided.Message += ": " + temporal.ErrorMessage(err)
		}
	}
	return decided, nil
}

// read reads an object of a cluster from its view, and creates the view if there is none.
func (h *hubWatch) read(ctx context.Context, cluster string, object views.Object, seen *installplans.Observed) error {
	view, err := viewsapi.Get(ctx, h.hub.Cache, views.Views, h.owner, cluster, object)
	key := client.ObjectKey(views.Name(views.Views, h.owner.NamespacedName, cluster, object))
	_, created := h.created.Load(key)
	switch {
	case err == nil && view == nil && !created:
		if err = viewsapi.Create(ctx, h.hub, views.View(h.owner.NamespacedName, cluster, object, h.in.Interval), h.owner); err == nil {
			h.created.Store(key, true)
		}
	case err == nil && view != nil:
		h.created.Delete(key)
		h.observe(object, views.Read(view, object), seen)
	}
	if err != nil || object.Kind != installplans.InstallPlans {
		return h.unread(ctx, object, err, seen)
	}
	action, err := viewsapi.Get(ctx, h.hub.Cache, views.Actions, h.owner, cluster, object)
	if err == nil && action != nil {
		seen.Approvals[object.Namespace+"/"+object.Name] = views.OutcomeOf(action)
	}
	return h.unread(ctx, object, err, seen)
}

func (h *hubWatch) observe(object views.Object, viewed views.Viewed, seen *installplans.Observed) {
	switch {
	case viewed.Problem != "":
		seen.Unread[object.String()] = fmt.Sprintf("the agent of the cluster cannot read %s: %s", object, viewed.Problem)
	case viewed.Missing || viewed.Object != nil:
		observe(seen, object, viewed.Object)
	default:
		seen.Unread[object.String()] = fmt.Sprintf("waiting for the agent of the cluster to read %s", object)
	}
}

// unread records why an object cannot be read; nil: it was read. It returns an error that concerns the whole hub.
func (h *hubWatch) unread(ctx context.Context, object views.Object, err error, seen *installplans.Observed) error {
	if err == nil || h.lost(ctx, err) {
		return err
	}
	seen.Unread[object.String()] = fmt.Sprintf("%s cannot be read: %s", object, temporal.ErrorMessage(activitykit.TypedError(h.hub, err)))
	return nil
}

// lost reports whether an error means that the hub does not answer, or that the watch ends.
func (h *hubWatch) lost(ctx context.Context, err error) bool {
	return ctx.Err() != nil || temporal.ErrorType(activitykit.TypedError(h.hub, err)) == temporal.ErrClusterUnreachable
}
