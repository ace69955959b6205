package workflows

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/activities"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/policies"
	"drydock.dev/drydock/internal/rollout"
	"drydock.dev/drydock/internal/temporal"
)

// workItems are the manifest works of a rollout. Each cluster has its own, in its namespace on the hub, while it is the current item.
type workItems struct {
	of   RemediatedRollout
	pins func() []string
	hub  *activities.ManifestWorks
}

// worksAtOnce is on how many clusters one activity places works.
const worksAtOnce = 200

// rollout is what the activities need to know of the rollout.
func (w *workItems) rollout(ctx workflow.Context) activities.WorkRollout {
	object := w.of.Request()
	return activities.WorkRollout{Namespace: object.Namespace, Name: object.Name, Owner: owner(ctx), Templates: object.Spec.ManifestWorkTemplates, Pins: w.pins()}
}

func (w *workItems) count() int { return len(w.of.Request().Spec.ManifestWorkTemplates) }

func (w *workItems) bound(*ranv1.ClusterStatus) []bool { return make([]bool, w.count()) }

// stay: deleting a work removes its manifests from the cluster.
func (w *workItems) stay() bool { return keepsObjects(w.of) }

func (w *workItems) awaited() string {
	return "waiting for the work to be applied and available, and for what is expected to be fed back"
}

func (w *workItems) prepare(ctx workflow.Context) (*PreparedItems, error) {
	var prepared []activities.PreparedWork
	if err := w.of.Retrier().effect(ctx, "read the manifest work templates", w.hub.PrepareManifestWorks, w.rollout(ctx), &prepared); err != nil {
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

func (w *workItems) place(ctx workflow.Context, retrier insistence, desired []policies.DesiredPlacement, closes *time.Time) (activities.Placed, error) {
	in := activities.PlaceWorksInput{Rollout: w.rollout(ctx), Desired: desired, Closes: closes}
	var counts []string
	for _, placement := range desired {
		name := "none"
		if placement.Item != policies.Nowhere {
			name = w.name(placement.Item)
		}
		counts = append(counts, fmt.Sprintf("%s on %d", name, len(placement.Clusters)))
	}
	var placed activities.Placed
	err := retrier.effect(ctx, temporal.Cut("manifest works: "+strings.Join(counts, ", ")+" clusters", summaryLimit), w.hub.PlaceManifestWorks, in, &placed)
	return placed, err
}

// placedAtOnce: each cluster has works of its own.
func (w *workItems) placedAtOnce() int { return worksAtOnce }

func (w *workItems) await(ctx workflow.Context, known []policies.KnownCluster, gather time.Duration) ([]policies.ClusterCompliance, error) {
	in := activities.AwaitWorksInput{Rollout: w.rollout(ctx), Clusters: known, Gather: gather}
	var news []policies.ClusterCompliance
	err := w.of.Retrier().watch(ctx, fmt.Sprintf("watch the works of %d clusters", len(known)), w.hub.AwaitManifestWorks, in, &news)
	return news, err
}

func (w *workItems) read(ctx workflow.Context, retrier insistence, clusters []string) ([]policies.ClusterCompliance, error) {
	in := activities.ReadWorksInput{Rollout: w.rollout(ctx), Clusters: clusters}
	var seen []policies.ClusterCompliance
	err := retrier.effect(ctx, fmt.Sprintf("read the works of %d clusters", len(clusters)), w.hub.ReadManifestWorks, in, &seen)
	return seen, err
}

// cleanUp leaves complete clusters the works that stay there, however the rollout has ended: deleting a work removes its manifests from the cluster.
func (w *workItems) cleanUp(ctx workflow.Context, retrier insistence) error {
	in := activities.CleanUpWorksInput{WorkRollout: w.rollout(ctx)}
	if w.stay() {
		in.Keep = rollout.NamesInState(w.of.Status().Clusters, ranv1.ClusterComplete)
		slices.Sort(in.Keep)
	}
	return retrier.effect(ctx, "delete the manifest works", w.hub.CleanUpManifestWorks, in, nil)
}

// checkChanged: a template that was changed is not brought to any cluster.
func (w *workItems) checkChanged(workflow.Context, insistence) error { return nil }

// deleted: the compliance with a work that does not exist, or is being deleted, is unknown.
func (w *workItems) deleted(before, now policies.Compliance) bool {
	return before != policies.Unknown && now == policies.Unknown
}

func (w *workItems) describe(status *ranv1.ClusterStatus, item int, _ policies.Compliance) {
	status.Step = "manifest work " + w.name(item)
	status.CurrentManifestWork = &ranv1.ManifestWorkStatus{Name: w.name(item)}
}

// unbound does not happen: the compliance with a work that does not exist is unknown.
func (w *workItems) unbound(item int) (reason, message string) {
	return reasonUnbound, "manifest work " + w.name(max(item, 0)) + " does not exist any more"
}

func (w *workItems) name(item int) string { return w.of.Request().Spec.ManifestWorkTemplates[item] }
