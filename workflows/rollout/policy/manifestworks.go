package policy

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/activities/manifestworks"
	"drydock.dev/drydock/activities/remediation"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/policies"
	"drydock.dev/drydock/internal/rollout"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/kit"
)

// workItems are the manifest works of a rollout. Each cluster has its own work, in its namespace on the hub, while it is the current item.
type workItems struct {
	of Rollout
	// prepared are the templates as they were prepared.
	prepared func() PreparedItems
	hub      *manifestworks.Activities
}

// clustersPerPlacement is the maximum number of clusters on which one activity places works.
const clustersPerPlacement = 200

// rollout is the rollout in the inputs of activities.
func (w *workItems) rollout(ctx workflow.Context) manifestworks.Rollout {
	object := w.of.Request()
	return manifestworks.Rollout{Namespace: object.Namespace, Name: object.Name, Owner: kit.Owner(ctx), Templates: object.Spec.ManifestWorkTemplates, Pins: w.prepared().Pins}
}

func (w *workItems) Count() int { return len(w.of.Request().Spec.ManifestWorkTemplates) }

func (w *workItems) PlannedBindings(*ranv1.ClusterStatus) []bool { return make([]bool, w.Count()) }

// KeepsLastItem implements items. Deleting a work removes its manifests from the cluster.
func (w *workItems) KeepsLastItem() bool { return keepsObjects(w.of) }

func (w *workItems) WaitMessage() string {
	return "waiting for the work to be applied and available, and for its expected feedback values"
}

func (w *workItems) Prepare(ctx workflow.Context) (*PreparedItems, error) {
	var prepared []manifestworks.Prepared
	if err := w.of.Retrier().Run(ctx, "read the manifest work templates", w.hub.PrepareManifestWorks, w.rollout(ctx), &prepared); err != nil {
		return nil, err
	}
	items, names := &PreparedItems{Soaks: make([]time.Duration, len(prepared))}, map[string]string{}
	for _, work := range prepared {
		items.Pins = append(items.Pins, work.Pin)
		names[w.of.Request().Name+"-"+work.Template] = work.Work
	}
	w.of.SetObjectNames(names)
	return items, nil
}

func (w *workItems) Place(ctx workflow.Context, retrier kit.Retrier, desired []policies.DesiredPlacement, unfinished Unfinished, closes *time.Time) (remediation.PlacementResult, error) {
	in := manifestworks.PlaceWorksInput{Rollout: w.rollout(ctx), Desired: desired, Closes: closes, LeftLimit: unfinished.Limit}
	for _, target := range unfinished.Targets {
		in.Unfinished = append(in.Unfinished, manifestworks.UnfinishedWork{Cluster: target.Cluster, Item: target.Item})
	}
	var counts []string
	for _, placement := range desired {
		name := "none"
		if placement.Item != policies.NoItem {
			name = w.Name(placement.Item)
		}
		counts = append(counts, fmt.Sprintf("%s on %d", name, len(placement.Clusters)))
	}
	var placed remediation.PlacementResult
	err := retrier.Run(ctx, temporal.Cut("manifest works: "+strings.Join(counts, ", ")+" clusters", kit.SummaryLimit), w.hub.PlaceManifestWorks, in, &placed)
	return placed, err
}

// AwaitRemoved implements items: the agent of a cluster removes the manifests of a work before another one follows.
func (w *workItems) AwaitRemoved(ctx workflow.Context, next []policies.Target) error {
	in := manifestworks.AwaitRemovedInput{Rollout: w.rollout(ctx)}
	for _, target := range next {
		in.Clusters = append(in.Clusters, manifestworks.UnfinishedWork{Cluster: target.Cluster, Item: target.Item})
	}
	return w.of.Retrier().Watch(ctx, fmt.Sprintf("watch the removal of works from %d clusters", len(next)), w.hub.AwaitRemoved, in, nil)
}

// ClustersPerPlacement implements items: each cluster has works of its own.
func (w *workItems) ClustersPerPlacement() int { return clustersPerPlacement }

func (w *workItems) Await(ctx workflow.Context, known []policies.KnownCluster, gather time.Duration) ([]policies.ClusterCompliance, error) {
	in := manifestworks.AwaitWorksInput{Rollout: w.rollout(ctx), Clusters: known, Gather: gather}
	var changes []policies.ClusterCompliance
	err := w.of.Retrier().Watch(ctx, fmt.Sprintf("watch the works of %d clusters", len(known)), w.hub.AwaitManifestWorks, in, &changes)
	return changes, err
}

func (w *workItems) Read(ctx workflow.Context, retrier kit.Retrier, clusters []string) ([]policies.ClusterCompliance, error) {
	in := manifestworks.ReadWorksInput{Rollout: w.rollout(ctx), Clusters: clusters}
	var seen []policies.ClusterCompliance
	err := retrier.Run(ctx, fmt.Sprintf("read the works of %d clusters", len(clusters)), w.hub.ReadManifestWorks, in, &seen)
	return seen, err
}

// CleanUp deletes the works. Complete clusters keep those that stay, since deleting a work removes its manifests from the cluster.
func (w *workItems) CleanUp(ctx workflow.Context, retrier kit.Retrier) error {
	in := manifestworks.CleanUpWorksInput{Rollout: w.rollout(ctx)}
	if w.KeepsLastItem() {
		in.Keep = rollout.NamesInState(w.of.Status().Clusters, ranv1.ClusterComplete)
		slices.Sort(in.Keep)
	}
	return retrier.Run(ctx, "delete the manifest works", w.hub.CleanUpManifestWorks, in, nil)
}

// CheckChanged implements items: a changed template is not placed on any cluster.
func (w *workItems) CheckChanged(workflow.Context, kit.Retrier) error { return nil }

// ReplacedMessage implements items.
func (w *workItems) ReplacedMessage() string { return "its item was deleted, and is placed again" }

// Deleted implements items: the compliance with a work is unknown if the work does not exist or is being deleted.
func (w *workItems) Deleted(before, now policies.Compliance) bool {
	return before != policies.Unknown && now == policies.Unknown
}

func (w *workItems) Describe(status *ranv1.ClusterStatus, item int, _ policies.Compliance) {
	status.Step = "manifest work " + w.Name(item)
	status.CurrentManifestWork = &ranv1.ManifestWorkStatus{Name: w.Name(item)}
}

// UnboundFailure implements items. It is not used: works are never unbound.
func (w *workItems) UnboundFailure(item int) (reason, message string) {
	return reasonUnbound, "manifest work " + w.Name(max(item, 0)) + " no longer exists"
}

func (w *workItems) Name(item int) string { return w.of.Request().Spec.ManifestWorkTemplates[item] }
