package rollout

import (
	"strings"

	sdktemporal "go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/drydock/activities/rollouts"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/rollout"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/kit"
	"drydock.dev/drydock/workflows/rollout/policy"
)

// resultClusters is the maximum number of clusters in the result of the workflow. The status query returns them all.
const resultClusters = 500

// registerSignals registers the handlers of signals from people, clusters and activities.
func (g *groupUpgrade) registerSignals(ctx workflow.Context) {
	kit.OnSignal(ctx, temporal.SignalCancel, "Stop the rollout, end its remediation and return its nodes.", func(r temporal.SignalRequest) {
		if g.cancelledBy == nil {
			g.cancelledBy = &r
		}
		g.cancel()
		g.record.cancelling(*g.cancelledBy)
	})
	kit.OnSignal(ctx, temporal.SignalEnable, "Start a planned rollout.", func(r temporal.SignalRequest) {
		if !g.isEnabled() {
			g.enabled, g.starters = true, append(g.starters, r.Actor)
		}
	})
	kit.OnSignal(ctx, temporal.SignalObserved, "The observation of a waiting activity.", func(o temporal.Observation) {
		g.signals++
		g.handleObservation(ctx, o)
	})
	kit.OnSignal(ctx, temporal.SignalPause, "Start nothing new. Work in progress finishes. The timeouts are stopped.", func(r temporal.SignalRequest) {
		g.pause(ctx, true, r)
	})
	kit.OnSignal(ctx, temporal.SignalResume, "Resume after a pause.", func(r temporal.SignalRequest) { g.pause(ctx, false, r) })
	g.holds.Listen(ctx, func() { g.updateClock(ctx) })
	g.holds.Windows.Listen(ctx, func() {
		g.signals++
		g.updateClock(ctx)
	})
	kit.OnSignal(ctx, temporal.SignalPreparationProgress, "Progress of clusters that are precached or backed up.", func(p PreparationProgress) {
		g.signals++
		g.recordPreparationProgress(ctx, p)
	})
	kit.OnSignal(ctx, temporal.SignalClusterProgress, "Progress of a running cluster.", func(c ranv1.ClusterStatus) {
		g.signals++
		g.record.clusterProgressed(ctx, c)
	})
}

// pause pauses or resumes the rollout and its running clusters.
func (g *groupUpgrade) pause(ctx workflow.Context, paused bool, r temporal.SignalRequest) {
	if g.status.Paused == paused || g.status.Status.CompletedAt != nil {
		return
	}
	g.pauseRequest = r
	g.record.setPaused(ctx, paused, r)
	g.updateClock(ctx)
}

// finishAs ends the workflow with the end of the rollout or with its error.
func (g *groupUpgrade) finishAs(ctx workflow.Context, end rollout.End, err error) (ranv1.ClusterGroupUpgradeStatus, error) {
	if err != nil {
		return g.fail(ctx, err)
	}
	return g.finish(ctx, end)
}

// fail ends the workflow with the error of a phase.
func (g *groupUpgrade) fail(ctx workflow.Context, err error) (ranv1.ClusterGroupUpgradeStatus, error) {
	g.record.cleanupStarted()
	g.remediator.CleanUp(ctx, false)
	failure := kit.FailureOf(err)
	g.record.finished(ctx, rollout.Result{Succeeded: metav1.ConditionFalse, Reason: ranv1.ReasonFailed, Message: failure.Message})
	g.save(ctx)
	status := g.result()
	return status, sdktemporal.NewApplicationErrorWithOptions(failure.Message, failure.Reason,
		sdktemporal.ApplicationErrorOptions{NonRetryable: true, Details: []any{status}})
}

// finish ends the workflow with the result of the rollout.
func (g *groupUpgrade) finish(ctx workflow.Context, end rollout.End) (ranv1.ClusterGroupUpgradeStatus, error) {
	g.clock.stop(workflow.Now(ctx))
	result := rollout.Outcome(rollout.RemediationOf(&g.in.Object), g.status.Clusters, end)
	if end == rollout.EndFinished && !g.record.valid() {
		result = rollout.Result{Succeeded: metav1.ConditionFalse, Reason: ranv1.ReasonFailed, Message: g.record.problems()}
	}
	if end == rollout.EndCancelled && g.cancelledBy != nil {
		result.Message = strings.Replace(result.Message, "Cancelled", "Cancelled"+kit.ActorSuffix(*g.cancelledBy), 1)
	}
	g.record.cleanupStarted()
	g.remediator.CleanUp(ctx, result.Succeeded == metav1.ConditionTrue)
	g.record.finished(ctx, result)
	g.save(ctx)
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

// result is the final status with the most important clusters.
func (g *groupUpgrade) result() ranv1.ClusterGroupUpgradeStatus {
	return rollout.Shorten(g.status, resultClusters)
}

// save writes the final status to the hub, where it outlives the retention of Temporal. A rollout without a plan saves nothing: it would replace the
// status of an earlier rollout of that name, which can be retried and may block others.
func (g *groupUpgrade) save(ctx workflow.Context) {
	if g.phase == phasePlan && !g.registered && !g.loaded {
		return
	}
	saved := g.in.Object
	saved.Status = g.result()
	retrier := g.retrier().Until(workflow.Now(ctx).Add(policy.HubLimit))
	err := retrier.Run(ctx, "save the final status on the hub", g.hub.SaveRollout, rollouts.SaveRolloutInput{Object: saved, Owner: kit.Owner(ctx)}, nil)
	if err != nil {
		g.record.note(rollout.NotSaved + ": " + temporal.ErrorMessage(err))
	}
}
