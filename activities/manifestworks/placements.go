package manifestworks

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drydock.dev/drydock/activities/activitykit"
	"drydock.dev/drydock/activities/remediation"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/manifestworks"
	"drydock.dev/drydock/internal/policies"
	"drydock.dev/drydock/internal/temporal"
)

// PlaceWorksInput has the desired manifest works of clusters.
type PlaceWorksInput struct {
	Rollout Rollout `json:"rollout"`
	// Desired has the item of each named cluster, or policies.NoItem. Other clusters stay unchanged.
	Desired []policies.DesiredPlacement `json:"desired"`
	// Closes is as in AcquireNodeInput: the first close of a window of the clusters on which a work may start.
	Closes *time.Time `json:"closes,omitempty"`
	// Unfinished are clusters that lose the work of an item before they have finished it. The result has the statuses of these works, at most LeftLimit
	// bytes in all.
	Unfinished []UnfinishedWork `json:"unfinished,omitempty"`
	LeftLimit  int              `json:"leftLimit,omitempty"`
}

// UnfinishedWork is the work of an item on a cluster.
type UnfinishedWork struct {
	Cluster string `json:"cluster"`
	Item    int    `json:"item"`
}

// statusLimit is the maximum number of bytes of the status of one work.
const statusLimit = 4096

// PlaceManifestWorks gives each named cluster its desired manifest work, and no other of the rollout. It reads the works, deletes the undesired ones,
// and then creates the missing ones where the others are gone: an agent that still removes manifests would also remove those that the next work has in
// common with them. If the hub refuses the work of one cluster, it continues with the others. Errors: Held if a cluster that gets a
// work is held; NotFound and InvalidSpec if a template was deleted or changed since it was prepared: a rollout must not give clusters different
// manifests.
func (m *Activities) PlaceManifestWorks(ctx context.Context, in PlaceWorksInput) (remediation.PlacementResult, error) {
	hub, err := m.Clusters.Hub(ctx)
	if err != nil {
		return remediation.PlacementResult{}, err
	}
	p := placementAttempt{PlaceWorksInput: in, hub: hub}
	if err := p.observe(ctx); err != nil {
		return remediation.PlacementResult{}, err
	}
	if err := p.readUnfinished(ctx); err != nil {
		return remediation.PlacementResult{}, err
	}
	if err := p.writeAll(ctx, p.clusters(), p.deleteUndesired); err != nil {
		return remediation.PlacementResult{}, err
	}
	if err := m.Waits.MayBeginOn(ctx, p.startingClusters(), in.Closes); err != nil {
		return remediation.PlacementResult{}, err
	}
	for _, placement := range in.Desired {
		if err := p.createMissing(ctx, placement); err != nil {
			return remediation.PlacementResult{}, err
		}
	}
	return p.placed, nil
}

// placementAttempt is one attempt to place manifest works.
type placementAttempt struct {
	PlaceWorksInput
	hub *kube.Cluster
	// works are the works of the rollout that were observed, by cluster.
	works map[string][]*metav1.PartialObjectMetadata
	// leaving are those that are being deleted.
	leaving map[string][]*metav1.PartialObjectMetadata
	placed  remediation.PlacementResult
	mu      sync.Mutex
}

// clusters are all named clusters.
func (p *placementAttempt) clusters() []string {
	var clusters []string
	for _, placement := range p.Desired {
		clusters = slices.Concat(clusters, placement.Clusters, placement.Held)
	}
	return clusters
}

// observe reads the works of the rollout on all named clusters.
func (p *placementAttempt) observe(ctx context.Context) error {
	p.works, p.leaving = map[string][]*metav1.PartialObjectMetadata{}, map[string][]*metav1.PartialObjectMetadata{}
	reads, reading := errgroup.WithContext(ctx)
	reads.SetLimit(activitykit.MaxParallelRequests)
	for _, cluster := range p.clusters() {
		reads.Go(func() error {
			works, leaving, err := p.Rollout.works(reading, p.hub, client.InNamespace(cluster))
			p.mu.Lock()
			defer p.mu.Unlock()
			p.works[cluster], p.leaving[cluster] = works, leaving
			return err
		})
	}
	if err := reads.Wait(); err != nil {
		return err
	}
	for _, placement := range p.Desired {
		p.placed.Waiting = append(p.placed.Waiting, p.missingOn(placement, placement.Held)...)
	}
	return nil
}

// readUnfinished reads the works that their clusters have not finished, before they are deleted.
func (p *placementAttempt) readUnfinished(ctx context.Context) error {
	if p.LeftLimit <= 0 {
		return nil
	}
	statuses := make([]*ranv1.ManifestResourceStatus, len(p.Unfinished))
	reads, reading := errgroup.WithContext(ctx)
	reads.SetLimit(activitykit.MaxParallelRequests)
	for i, unfinished := range p.Unfinished {
		reads.Go(func() error {
			work := &unstructured.Unstructured{}
			work.SetGroupVersionKind(manifestworks.Works)
			name := manifestworks.WorkName(p.Rollout.name(), p.Rollout.Templates[unfinished.Item])
			err := p.hub.Client.Get(reading, client.ObjectKey{Namespace: unfinished.Cluster, Name: name}, work)
			if err == nil && kube.OwnedBy(work, p.Rollout.Owner) {
				statuses[i] = manifestworks.StatusOf(work, statusLimit)
			}
			return activitykit.Explain(p.hub, "read ManifestWork "+unfinished.Cluster+"/"+name, client.IgnoreNotFound(err))
		})
	}
	if err := reads.Wait(); err != nil {
		return err
	}
	left := p.LeftLimit
	p.placed.Left = map[string]*ranv1.ManifestResourceStatus{}
	for i, unfinished := range p.Unfinished {
		if size := manifestworks.StatusSize(statuses[i]); size > 0 && size <= left {
			left -= size
			p.placed.Left[unfinished.Cluster] = statuses[i]
		}
	}
	return nil
}

// works returns the manifest works of a rollout, and those that are being deleted.
func (r Rollout) works(ctx context.Context, hub *kube.Cluster, options ...client.ListOption) (works, leaving []*metav1.PartialObjectMetadata, err error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(manifestworks.Works.GroupVersion().WithKind(manifestworks.Works.Kind + "List"))
	if err := hub.Client.List(ctx, list, append(options, client.MatchingLabels(policies.RolloutLabels(r.name())))...); err != nil {
		return nil, nil, activitykit.Explain(hub, "list the manifest works of the rollout", err)
	}
	for i := range list.Items {
		work := &list.Items[i]
		work.SetGroupVersionKind(manifestworks.Works)
		switch {
		case !kube.OwnedBy(work, r.Owner):
		case work.GetDeletionTimestamp() != nil:
			leaving = append(leaving, work)
		default:
			works = append(works, work)
		}
	}
	return works, leaving, nil
}

// missingOn returns the clusters that do not have the item of a placement.
func (p *placementAttempt) missingOn(placement policies.DesiredPlacement, clusters []string) []string {
	if placement.Item == policies.NoItem {
		return nil
	}
	name := manifestworks.WorkName(p.Rollout.name(), p.Rollout.Templates[placement.Item])
	return slices.DeleteFunc(slices.Clone(clusters), func(cluster string) bool {
		return slices.ContainsFunc(p.works[cluster], func(work *metav1.PartialObjectMetadata) bool { return work.Name == name })
	})
}

// startingClusters returns the clusters that get a work.
func (p *placementAttempt) startingClusters() []string {
	var added []string
	for _, placement := range p.Desired {
		added = append(added, p.missingOn(placement, placement.Clusters)...)
	}
	return added
}

// deleteUndesired deletes the works of a cluster, except the desired one.
func (p *placementAttempt) deleteUndesired(ctx context.Context, cluster string) error {
	for _, work := range p.works[cluster] {
		if p.desires(cluster, work.Name) {
			continue
		}
		if err := activitykit.DeleteOwned(ctx, p.hub, activitykit.ObjectName(work), work); err != nil {
			return err
		}
		p.mu.Lock()
		p.leaving[cluster] = append(p.leaving[cluster], work)
		p.mu.Unlock()
	}
	return nil
}

// hasOthers reports whether a cluster still has a work of the rollout with another name.
func (p *placementAttempt) hasOthers(ctx context.Context, cluster, wanted string) (bool, error) {
	for _, work := range p.leaving[cluster] {
		if work.GetName() == wanted {
			continue
		}
		err := p.hub.Client.Get(ctx, client.ObjectKeyFromObject(work), work.DeepCopy())
		if !apierrors.IsNotFound(err) {
			return true, activitykit.Explain(p.hub, "read "+activitykit.ObjectName(work), err)
		}
	}
	return false, nil
}

// desires reports whether the work is the desired one of the cluster.
func (p *placementAttempt) desires(cluster, work string) bool {
	for _, placement := range p.Desired {
		_, named := slices.BinarySearch(placement.Clusters, cluster)
		_, held := slices.BinarySearch(placement.Held, cluster)
		if named || held {
			return placement.Item != policies.NoItem && work == manifestworks.WorkName(p.Rollout.name(), p.Rollout.Templates[placement.Item])
		}
	}
	return false
}

// createMissing creates the work of a placement on the clusters that do not have it.
func (p *placementAttempt) createMissing(ctx context.Context, placement policies.DesiredPlacement) error {
	missing := p.missingOn(placement, placement.Clusters)
	if len(missing) == 0 {
		return nil
	}
	template, err := p.Rollout.template(ctx, p.hub, p.Rollout.Templates[placement.Item])
	if err != nil {
		return err
	}
	if manifestworks.Pin(template) != p.Rollout.Pins[placement.Item] {
		return temporal.Error(temporal.ErrInvalidSpec, activitykit.ObjectName(template)+" has been changed since the rollout began: start another rollout with it", nil)
	}
	return p.writeAll(ctx, missing, func(ctx context.Context, cluster string) error {
		work, err := manifestworks.Work(p.Rollout.name(), template, cluster)
		if err != nil {
			return temporal.Error(temporal.ErrInvalidSpec, fmt.Sprintf("%s: %v", activitykit.ObjectName(template), err), err)
		}
		if leaving, err := p.hasOthers(ctx, cluster, work.GetName()); err != nil || leaving {
			if err == nil {
				p.mu.Lock()
				defer p.mu.Unlock()
				p.placed.Removing = append(p.placed.Removing, cluster)
			}
			return err
		}
		return remediation.CreateOrAdopt(ctx, p.hub, work, p.Rollout.Owner)
	})
}

// writeAll calls write for clusters in parallel, and records which of them the hub refuses.
func (p *placementAttempt) writeAll(ctx context.Context, clusters []string, write func(ctx context.Context, cluster string) error) error {
	var refused []remediation.RefusedPlacement
	writes, writing := errgroup.WithContext(ctx)
	writes.SetLimit(activitykit.MaxParallelRequests)
	for _, cluster := range clusters {
		writes.Go(func() error {
			err := write(writing, cluster)
			refusal := refusalOf(cluster, err)
			if refusal == nil {
				return err
			}
			refusal.Clusters = []string{cluster}
			p.mu.Lock()
			defer p.mu.Unlock()
			refused = append(refused, *refusal)
			return nil
		})
	}
	err := writes.Wait()
	slices.SortFunc(refused, func(a, b remediation.RefusedPlacement) int { return strings.Compare(a.Clusters[0], b.Clusters[0]) })
	p.placed.Refused = append(p.placed.Refused, refused...)
	return err
}

// refusalOf returns the refusal of one cluster; nil: the error would hit any other request, too, or there is none.
func refusalOf(cluster string, err error) *remediation.RefusedPlacement {
	var deleted remediation.BeingDeletedError
	switch {
	case apierrors.IsNotFound(err):
		return &remediation.RefusedPlacement{Reason: ranv1.ReasonClusterDeleted, Message: "the hub has no namespace for the cluster", Final: true}
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return &remediation.RefusedPlacement{Reason: remediation.ReasonNotPlaced, Message: "namespace " + cluster + " of the hub is being deleted"}
	case errors.As(err, &deleted):
		return &remediation.RefusedPlacement{Reason: remediation.ReasonNotPlaced, Message: deleted.Message}
	case temporal.Final(err):
		return &remediation.RefusedPlacement{Reason: temporal.ErrorType(err), Message: temporal.ErrorMessage(err), Final: true}
	case remediation.IsRefused(err):
		return &remediation.RefusedPlacement{Reason: remediation.ReasonNotPlaced, Message: temporal.ErrorMessage(err)}
	}
	return nil
}
