package rollout

import (
	"strings"
	"time"

	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/activities/objects"
	"drydock.dev/drydock/activities/rollouts"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/rollout"
	"drydock.dev/drydock/internal/temporal"
)

// ObjectRequest is the part of a ClusterGroupUpgrade on the hub that may change while the rollout runs.
type ObjectRequest = temporal.ObjectRequest[ranv1.ClusterGroupUpgradeSpec]

// followSource begins to publish the status to the object. It ends a rollout whose object was deleted before it began, or already had its rollout: of
// two workers that start it, one may be late. A retry continues without its object.
func (g *groupUpgrade) followSource(ctx workflow.Context) (rollout.End, error) {
	if g.in.Source == nil || g.in.PreviousRun != nil {
		return "", nil
	}
	var found objects.Request
	if err := g.retrier().Run(ctx, "read "+g.in.Source.String(), g.objects.ReadRequest, *g.in.Source, &found); err != nil {
		return "", err
	}
	switch retry := g.in.Retry != nil; {
	case found.Gone && retry:
		g.record.publisher.Close()
		return "", nil
	case retry:
		g.record.publisher.Open()
		return "", nil
	case found.Gone, found.Reasons[ranv1.ConditionSucceeded] != "":
		g.record.publisher.Close()
		return rollout.EndCancelled, nil
	}
	g.record.publisher.Open()
	g.record.publisher.Event(ctx, false, ranv1.EventCreated, "New ClusterGroupUpgrade found: "+g.in.Object.Name)
	return "", nil
}

// followObject acts on the differences between the request of the object and the last one.
func (g *groupUpgrade) followObject(ctx workflow.Context, now ObjectRequest) {
	if g.in.Source == nil || g.in.Source.UID != now.UID || g.status.Status.CompletedAt != nil {
		return // the object of another rollout with this name, or too late
	}
	last := g.object
	g.object = now
	g.record.publisher.Change()
	switch {
	case now.Deleted:
		g.cancelFor(temporal.SignalRequest{Reason: "the ClusterGroupUpgrade was deleted"})
	case now.InvalidSpec != "":
		if now.InvalidSpec != last.InvalidSpec {
			g.record.note("the edit of the ClusterGroupUpgrade is ignored: " + now.InvalidSpec)
		}
	default:
		g.followSpec(ctx, last, now)
	}
}

// followSpec puts an edit of the object into effect. As with the original operator, the fields that fix the plan have no effect once the rollout is
// enabled.
func (g *groupUpgrade) followSpec(ctx workflow.Context, last, now ObjectRequest) {
	spec, ignored := rollout.Editable(g.spec, now.Spec, g.isEnabled())
	if len(ignored) > 0 && now.Generation != last.Generation {
		g.record.note("the rollout is enabled, so edits of these fields have no effect: " + strings.Join(ignored, ", "))
	}
	changed, err := rollout.CheckEdit(g.spec, spec, g.isEnabled(), g.clock.elapsed(workflow.Now(ctx)))
	if err != nil {
		g.record.note("the edit of the ClusterGroupUpgrade is ignored: " + err.Error())
		return
	}
	if len(changed) == 0 {
		return
	}
	g.record.log.Info("Rollout edited", "generation", now.Generation, "fields", changed)
	g.setSpec(spec)
	g.applyEdit(ctx)
}

// cancelFor stops the rollout.
func (g *groupUpgrade) cancelFor(request temporal.SignalRequest) {
	if g.cancelledBy == nil {
		g.cancelledBy = &request
	}
	g.cancel()
	g.record.cancelling(*g.cancelledBy)
}

// objectStatus returns the status that the object shows.
func (g *groupUpgrade) objectStatus() ranv1.ClusterGroupUpgradeStatus {
	object := g.in.Object
	object.Status = g.withHolds(g.status)
	object.Status.Wait = rollout.DeepestWait(&g.status)
	return rollout.Published(&object, g.object.Generation)
}

// replanPause is the time until a plan is made again that could not be made.
const replanPause = time.Minute

// awaitReplan waits until the rollout must be planned again: it was enabled or edited (changed), or the hub changed so that its plan would be another.
func (g *groupUpgrade) awaitReplan(ctx workflow.Context, changed func() bool) error {
	watching, stop := workflow.WithCancel(ctx)
	defer stop()
	outdated := false
	workflow.GoNamed(watching, "watch for another plan", func(ctx workflow.Context) {
		retrier := g.retrier()
		retrier.Abandon = true
		in := rollouts.AwaitOtherPlanInput{PlanInput: g.planInput(), Digest: g.planDigest}
		if retrier.Watch(ctx, "watch for what changes the plan", g.hub.AwaitOtherPlan, in, nil) != nil {
			pause := workflow.NewTimerWithOptions(ctx, replanPause, workflow.TimerOptions{Summary: "before the rollout is planned again"})
			if pause.Get(ctx, nil) != nil {
				return
			}
		}
		outdated = true
	})
	if g.release != nil && g.release.Problem != "" {
		workflow.GoNamed(watching, "look up the release again", func(ctx workflow.Context) {
			found, err := g.lookUpAgain(ctx, *g.release)
			if err == nil {
				g.release = &found
			}
			if ctx.Err() == nil {
				outdated = true
			}
		})
	}
	return workflow.Await(ctx, func() bool { return changed() || outdated })
}
