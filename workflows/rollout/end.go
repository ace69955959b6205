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

// rollout is the rollout as it is saved, with its status in short.
func (g *groupUpgrade) rollout() ranv1.ClusterGroupUpgrade {
	rollout := g.in.Object
	rollout.Status = g.result()
	return rollout
}

// toSave is what is saved on the hub.
func (g *groupUpgrade) toSave(ctx workflow.Context) rollouts.SaveRolloutInput {
	return rollouts.SaveRolloutInput{Object: g.rollout(), Owner: kit.Owner(ctx), RunID: workflow.GetInfo(ctx).WorkflowExecution.RunID}
}

// save writes the final status to the hub, where it outlives the retention of Temporal. A rollout without a plan saves nothing: it would replace the
// status of an earlier rollout of that name, which can be retried and may block others.
func (g *groupUpgrade) save(ctx workflow.Context) {
	if g.phase == phasePlan && !g.saved {
		return
	}
	retrier := g.retrier().Until(workflow.Now(ctx).Add(policy.HubLimit))
	err := retrier.Run(ctx, "save the final status on the hub", g.hub.SaveRollout, g.toSave(ctx), nil)
	if err != nil {
		g.record.note(rollout.NotSaved + ": " + temporal.ErrorMessage(err))
	}
}
