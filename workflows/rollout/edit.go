package rollout

import (
	"errors"
	"fmt"
	"time"

	"go.temporal.io/sdk/workflow"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/edits"
	"drydock.dev/drydock/internal/rollout"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/kit"
)

// registerUpdates registers the handlers of updates.
func (g *groupUpgrade) registerUpdates(ctx workflow.Context) error {
	return errors.Join(
		workflow.SetUpdateHandlerWithOptions(ctx, temporal.UpdateApprove, g.approve, workflow.UpdateHandlerOptions{
			Description: "Give the approval that the rollout waits for: {actor, comment, batch}.", Validator: g.checkApproval,
		}),
		workflow.SetUpdateHandlerWithOptions(ctx, temporal.UpdateEdit, g.edit, workflow.UpdateHandlerOptions{
			Description: "Change the spec: {actor, spec}. Once the rollout is enabled, only timeout and batchTimeoutAction.",
			Validator:   func(request rollout.EditRequest) error { return g.mayEdit(request) },
		}),
	)
}

// checkLimit limits how long an edit waits for the check of the new spec.
const checkLimit = time.Minute

// planLimit limits how long an edit of an enabled rollout waits for the plan. A person waits for the answer.
const planLimit = 8 * time.Second

// edit changes the spec. A rollout that is not enabled is planned again. In an enabled rollout, the current batch gets its share of the new timeout.
func (g *groupUpgrade) edit(ctx workflow.Context, request rollout.EditRequest) (edits.Answer, error) {
	object := g.in.Object
	object.Spec = request.Spec
	retrier := kit.HubRetrier(nil).Until(workflow.Now(ctx).Add(checkLimit))
	if err := retrier.Run(ctx, "check the new spec", g.hub.CheckRollout, object, &object); err != nil {
		return edits.Answer{}, err
	}
	request.Spec = object.Spec
	// Wait until the defaults of the current spec are set: they are not changes.
	comparable := func() bool { return g.defaulted || !g.enabled || g.status.Status.CompletedAt != nil }
	if !comparable() {
		if err := kit.AwaitFor(ctx, planLimit, "until there is a plan", comparable); err != nil {
			return edits.Answer{}, err
		}
	}
	if !comparable() && g.isEnabled() {
		return edits.Answer{}, kit.InvalidSpec(fmt.Errorf("the plan of the last run is being loaded, and the spec cannot be changed until then: try again%s", g.waitText()))
	}
	// The rollout may have been enabled, or have ended, during the waits above.
	if err := g.mayEdit(request); err != nil {
		return edits.Answer{}, err
	}
	changed, err := rollout.CheckEdit(g.spec, request.Spec, g.isEnabled(), g.clock.elapsed(workflow.Now(ctx)))
	if err != nil {
		return edits.Answer{}, kit.InvalidSpec(err)
	}
	if len(changed) > 0 {
		g.record.log.Info("Rollout edited", "actor", request.Actor, "fields", changed)
		g.starters = append(g.starters, request.Actor)
		g.setSpec(request.Spec)
		g.applyEdit(ctx)
		if request.Reason != "" {
			g.record.note("edited" + kit.ActorSuffix(temporal.SignalRequest{Actor: request.Actor, Reason: request.Reason}))
		}
	}
	return edits.Answer{Changed: changed}, nil
}

// previewEdit returns what an edit would do now. It does not check what only a worker knows, such as the addresses of health checks that are allowed.
func (g *groupUpgrade) previewEdit(ctx workflow.Context, request rollout.EditRequest) rollout.EditPreview {
	follows := g.in.Source != nil && g.status.Status.CompletedAt == nil
	preview := rollout.PreviewEdit(g.spec, request.Spec, follows, g.isEnabled(), g.clock.elapsed(workflow.Now(ctx)))
	if err := g.mayEdit(request); err != nil && !follows {
		preview.Refused = temporal.ErrorMessage(err)
	}
	return preview
}

// waitText is the current wait, in parentheses; "": there is none.
func (g *groupUpgrade) waitText() string {
	if wait := g.status.Wait; wait != nil {
		return " (" + wait.Reason + ": " + wait.Message + ")"
	}
	return ""
}

// mayEdit rejects an edit that is not possible now.
func (g *groupUpgrade) mayEdit(request rollout.EditRequest) error {
	switch {
	case g.status.Status.CompletedAt != nil:
		return kit.InvalidSpec(errors.New("the rollout has ended: start it again"))
	case g.in.Source != nil:
		return kit.InvalidSpec(fmt.Errorf("the rollout follows the %s of the hub: edit that (kubectl edit, or apply)", g.in.Source))
	}
	return kit.InvalidSpec(g.checkDuties(&request.Spec, append(g.starters, request.Actor)))
}

// isEnabled reports whether the rollout is enabled and its plan frozen. It may be edited until then. A retry has the plan of its last run.
func (g *groupUpgrade) isEnabled() bool { return g.phase != phasePlan || g.in.Retry != nil }

// setSpec replaces the spec.
func (g *groupUpgrade) setSpec(spec ranv1.ClusterGroupUpgradeSpec) {
	g.in.Object.Spec, g.spec = spec, spec
	if rollout.RemediationOf(&g.in.Object) != g.record.remediation {
		g.remediator = newRemediator(g, nil) // no cluster is running
	}
	g.completions.change = rollout.ChangeAfter(&g.spec.Actions)
	g.record.remediation, g.record.soak = rollout.RemediationOf(&g.in.Object), g.soak()
}

// applyEdit puts an edit into effect.
func (g *groupUpgrade) applyEdit(ctx workflow.Context) {
	if !g.isEnabled() {
		g.edits++
		g.enabled = g.spec.Enable == nil || *g.spec.Enable
		return
	}
	if g.startedBatch != nil {
		g.startedBatch.Timeout = rollout.BatchTimeout(g.timeLimit(), g.startedBatch.UsedBefore, g.batchesLeft())
	}
	if b := g.batch; b != nil {
		b.started = *g.startedBatch
		b.stopTimer()
		b.changed = true
		g.updateClock(ctx)
	}
}
