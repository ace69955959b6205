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
)

// workItems are the manifest works of a rollout: each cluster has its own, in its namespace on the hub, for as long as its turn lasts.
type workItems struct {
	of   RemediatedRollout
	pins func() []string
	hub  *activities.ManifestWorks
}

// worksAtOnce is how many works one activity makes or deletes.
const worksAtOnce = 200

// rollout is what the activities need to know of the rollout.
func (w *workItems) rollout(ctx workflow.Context) activities.WorkRollout {
	object := w.of.Request()
	return activities.WorkRollout{Namespace: object.Namespace, Name: object.Name, Owner: owner(ctx), Templates: object.Spec.ManifestWorkTemplates}
}

func (w *workItems) count() int { return len(w.of.Request().Spec.ManifestWorkTemplates) }

func (w *workItems) bound(*ranv1.ClusterStatus) []bool { return make([]bool, w.count()) }

// stay: what a work has brought goes with the work.
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

func (w *workItems) place(ctx workflow.Context, insistOn func(added []string) insistence, placements []placement) (told []placement, refused []refusal, err error) {
	for _, part := range w.parts(placements) {
		in := activities.PlaceWorksInput{Rollout: w.rollout(ctx)}
		var words []string
		for _, p := range part {
			in.Works = append(in.Works, activities.PlacedWorks{Template: p.item, Pin: w.pins()[p.item], Added: p.added, Removed: p.removed})
			words = append(words, fmt.Sprintf("%s: %d more, %d less", w.name(p.item), len(p.added), len(p.removed)))
		}
		added := addedBy(part)
		insist := insistOn(added)
		if err := insist.before(); err != nil {
			return told, refused, err
		}
		in.Closes = w.of.Closes(added)
		var found []activities.RefusedWork
		if err := insist.effect(ctx, "manifest works "+strings.Join(words, ", "), w.hub.PlaceManifestWorks, in, &found); err != nil {
			return told, refused, err
		}
		told = append(told, part...)
		for _, r := range found {
			refused = append(refused, refusal{item: r.Template, cluster: r.Cluster, reason: r.Reason, message: r.Message, final: r.Final})
		}
	}
	return told, refused, nil
}

// parts divides what is to be changed among activities, so that each is short. What is removed goes first.
func (w *workItems) parts(placements []placement) [][]placement {
	var parts [][]placement
	room := 0
	put := func(clusters []string, of func(some []string) placement) {
		for len(clusters) > 0 {
			if room == 0 {
				parts, room = append(parts, nil), worksAtOnce
			}
			some := clusters[:min(room, len(clusters))]
			clusters, room = clusters[len(some):], room-len(some)
			parts[len(parts)-1] = append(parts[len(parts)-1], of(some))
		}
	}
	for _, p := range placements {
		put(p.removed, func(some []string) placement { return placement{item: p.item, removed: some} })
	}
	for _, p := range placements {
		put(p.added, func(some []string) placement { return placement{item: p.item, added: some} })
	}
	return parts
}

func (w *workItems) await(ctx workflow.Context, known []policies.KnownCluster, gather time.Duration) ([]policies.ClusterStanding, error) {
	in := activities.AwaitWorksInput{Rollout: w.rollout(ctx), Clusters: known, Gather: gather}
	var news []policies.ClusterStanding
	err := w.of.Retrier().watch(ctx, fmt.Sprintf("watch the works of %d clusters", len(known)), w.hub.AwaitManifestWorks, in, &news)
	return news, err
}

func (w *workItems) read(ctx workflow.Context, insist insistence, clusters []string) ([]policies.ClusterStanding, error) {
	in := activities.ReadWorksInput{Rollout: w.rollout(ctx), Clusters: clusters}
	var seen []policies.ClusterStanding
	err := insist.effect(ctx, fmt.Sprintf("look at the works of %d clusters", len(clusters)), w.hub.ReadManifestWorks, in, &seen)
	return seen, err
}

// withdraw leaves complete clusters what stays there, however the rollout has ended: what it has brought goes with it.
func (w *workItems) withdraw(ctx workflow.Context, insist insistence) error {
	in := activities.WithdrawWorksInput{WorkRollout: w.rollout(ctx)}
	if w.stay() {
		in.Keep = rollout.NamesInState(w.of.Status().Clusters, ranv1.ClusterComplete)
		slices.Sort(in.Keep)
	}
	return insist.effect(ctx, "delete the manifest works", w.hub.WithdrawManifestWorks, in, nil)
}

// lookBack: a template that is not what it was is brought to no cluster any more, so none was.
func (w *workItems) lookBack(workflow.Context, insistence) error { return nil }

// lost: nothing is known of a work that is not there, or is being deleted.
func (w *workItems) lost(before, now policies.Compliance) bool {
	return before != policies.Unknown && now == policies.Unknown
}

func (w *workItems) describe(status *ranv1.ClusterStatus, item int, _ policies.Compliance) {
	status.Step = "manifest work " + w.name(item)
	status.CurrentManifestWork = &ranv1.ManifestWorkStatus{Name: w.name(item)}
}

// unbound: a work that is not there says nothing; that does not happen.
func (w *workItems) unbound(item int) (reason, message string) {
	return reasonUnbound, "manifest work " + w.name(max(item, 0)) + " is not there any more"
}

func (w *workItems) name(item int) string { return w.of.Request().Spec.ManifestWorkTemplates[item] }
