package workflows

import (
	"strings"

	sdktemporal "go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/drydock/activities"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/rollout"
	"drydock.dev/drydock/internal/temporal"
)

// resultClusters is how many clusters the final result lists, the ones that matter first: a payload must stay small. The query has them
// all.
const resultClusters = 500

// listen takes in what people and our clusters say.
func (g *groupUpgrade) listen(ctx workflow.Context) {
	onSignal(ctx, temporal.SignalCancel, "Stop the rollout: remediation is withdrawn and nodes are returned.", func(r temporal.SignalRequest) {
		if g.withdrawn == nil {
			g.withdrawn = &r
		}
		g.withdraw()
		g.record.cancelling(*g.withdrawn)
	})
	onSignal(ctx, temporal.SignalEnable, "Start a rollout that was only planned.", func(r temporal.SignalRequest) {
		if !g.isEnabled() {
			g.enabled, g.starters = true, append(g.starters, r.Actor)
		}
	})
	onSignal(ctx, temporal.SignalObserved, "What an activity that waits sees.", func(o temporal.Observation) {
		g.signals++
		g.observed(ctx, o)
	})
	onSignal(ctx, temporal.SignalPause, "Start nothing new; what is at work finishes. The clocks stand still.", func(r temporal.SignalRequest) {
		g.pause(ctx, true, r)
	})
	onSignal(ctx, temporal.SignalResume, "Go on after a pause.", func(r temporal.SignalRequest) { g.pause(ctx, false, r) })
	g.holds.listen(ctx, func() { g.runClock(ctx) })
	g.holds.windows.listen(ctx, func() {
		g.signals++
		g.runClock(ctx)
	})
	onSignal(ctx, temporal.SignalPreparationProgress, "How clusters stand that are precached or backed up.", func(told PreparationProgress) {
		g.signals++
		g.preparationProgressed(ctx, told)
	})
	onSignal(ctx, temporal.SignalClusterProgress, "What a cluster at work reports.", func(c ranv1.ClusterStatus) {
		g.signals++
		g.record.clusterProgressed(ctx, c)
	})
}

// pause stops or goes on starting work, here and in the clusters at work. Paused time is not charged.
func (g *groupUpgrade) pause(ctx workflow.Context, paused bool, r temporal.SignalRequest) {
	if g.status.Paused == paused || g.status.Status.CompletedAt != nil {
		return
	}
	g.pauseRequest = r
	g.record.paused(ctx, paused, r)
	g.runClock(ctx)
}

// finishAs ends the workflow: with the way the rollout ended, or with why it could not even be planned.
func (g *groupUpgrade) finishAs(ctx workflow.Context, end rollout.End, err error) (ranv1.ClusterGroupUpgradeStatus, error) {
	if err != nil {
		return g.fail(ctx, err)
	}
	return g.finish(ctx, end)
}

// fail ends a rollout that could not even be planned.
func (g *groupUpgrade) fail(ctx workflow.Context, err error) (ranv1.ClusterGroupUpgradeStatus, error) {
	g.remediator.CleanUp(ctx, false)
	failure := failureOf(err)
	g.record.finished(ctx, rollout.Result{Succeeded: metav1.ConditionFalse, Reason: ranv1.ReasonFailed, Message: failure.Message})
	g.keep(ctx)
	status := g.result()
	return status, sdktemporal.NewApplicationErrorWithOptions(failure.Message, failure.Reason,
		sdktemporal.ApplicationErrorOptions{NonRetryable: true, Details: []any{status}})
}

// finish turns the way the rollout ended into the end of the workflow.
func (g *groupUpgrade) finish(ctx workflow.Context, end rollout.End) (ranv1.ClusterGroupUpgradeStatus, error) {
	g.charged.stop(workflow.Now(ctx))
	result := rollout.Outcome(rollout.RemediationOf(&g.in.Object), g.status.Clusters, end)
	if end == rollout.EndFinished && !g.record.valid() {
		result = rollout.Result{Succeeded: metav1.ConditionFalse, Reason: ranv1.ReasonFailed, Message: g.record.problems()}
	}
	if end == rollout.EndCancelled && g.withdrawn != nil {
		result.Message = strings.Replace(result.Message, "Cancelled", "Cancelled"+byWhom(*g.withdrawn), 1)
	}
	g.remediator.CleanUp(ctx, result.Succeeded == metav1.ConditionTrue)
	g.record.finished(ctx, result)
	g.keep(ctx)
	status := g.result()
	switch {
	case result.Succeeded == metav1.ConditionTrue:
		return status, nil
	case end == rollout.EndCancelled:
		return status, sdktemporal.NewCanceledError(status)
	}
	return status, sdktemporal.NewApplicationErrorWithOptions(result.Message, result.Reason,
		sdktemporal.ApplicationErrorOptions{NonRetryable: true, Details: []any{status}})
}

// result is the final status with the clusters that matter first.
func (g *groupUpgrade) result() ranv1.ClusterGroupUpgradeStatus {
	return rollout.Shorten(g.status, resultClusters)
}

// keep writes the final status to the hub, where it outlives Temporal's retention. A rollout that ends without a plan leaves nothing there: its
// place may be taken by what became of an earlier one, which others wait for, and which can be retried.
func (g *groupUpgrade) keep(ctx workflow.Context) {
	if g.phase == phasePlan && !g.registered && !g.recalled {
		return
	}
	kept := g.in.Object
	kept.Status = g.result()
	insist := g.insist().until(workflow.Now(ctx).Add(hubLimit))
	err := insist.effect(ctx, "keep the final status on the hub", g.hub.KeepRollout, activities.KeepRolloutInput{Object: kept, Owner: owner(ctx)}, nil)
	if err != nil {
		g.record.note(rollout.NotKept + ": " + temporal.ErrorMessage(err))
	}
}
