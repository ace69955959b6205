package harbor

import (
	"fmt"
	"slices"
	"strings"
	"time"

	sdktemporal "go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	harboractivities "drydock.dev/drydock/activities/harbor"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	goharborv1 "drydock.dev/drydock/internal/apis/goharbor/v1beta1"
	"drydock.dev/drydock/internal/emergency"
	"drydock.dev/drydock/internal/harbor"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/kit"
)

// releaseLimit is how long it is tried to let the object go when the run is cancelled.
const releaseLimit = 30 * time.Second

func (h *harborKeeper) checkApply(r ApplyRequest) error {
	if h.ending {
		return errEnding
	}
	if r.Object.Namespace != h.in.Namespace || r.Object.Name != h.in.Name {
		return kit.InvalidSpec(fmt.Errorf("object: is HarborCluster %s/%s, not %s/%s", r.Object.Namespace, r.Object.Name, h.in.Namespace, h.in.Name))
	}
	if h.status.State == Deleting {
		// Somebody may have taken its finalizer away. Another object of the name would lose what the removal finds of its own, and be kept by nobody.
		return kit.InvalidSpec(fmt.Errorf("cluster %s: %s is being deleted: apply it again when that is over", h.in.Cluster, h.ref))
	}
	return nil
}

func (h *harborKeeper) checkDelete(temporal.SignalRequest) error {
	if h.ending {
		return errEnding
	}
	return nil
}

// errEnding: another run would do it.
var errEnding = temporal.Error(temporal.ErrEnding, "the workflow is about to end: try again", nil)

// apply writes the object as somebody wants it. What follows from that is seen by watching it, as if anybody else had written it.
func (h *harborKeeper) apply(ctx workflow.Context, r ApplyRequest) (result harboractivities.ApplyClusterResult, err error) {
	err = h.change(ctx, "apply the object", h.harbor.ApplyHarborCluster, harboractivities.ApplyClusterInput{Cluster: h.in.Cluster, Object: r.Object}, &result)
	return result, err
}

// delete deletes the object. It goes when what belongs to it is gone.
func (h *harborKeeper) delete(ctx workflow.Context, r temporal.SignalRequest) error {
	err := h.change(ctx, "delete the object", h.harbor.DeleteHarborCluster, h.ref, nil)
	if err == nil {
		h.record.note("deleted" + kit.ActorSuffix(r))
	}
	return err
}

func (h *harborKeeper) change(ctx workflow.Context, summary string, activity, input, result any) error {
	h.changing++
	err := workflow.Await(ctx, func() bool { return h.taskQueue != "" || h.unlocated != nil || h.ending })
	switch {
	case err != nil:
	case h.unlocated != nil && !sdktemporal.IsCanceledError(h.unlocated):
		err = h.unlocated
	case h.ending || h.unlocated != nil: // it may have been cancelled just before
		err = errEnding
	default:
		h.signals++                                            // an update is as much history as a signal
		err = h.tryOnce(ctx, summary, activity, input, result) // somebody waits for the answer
	}
	h.changing--
	return err
}

// remove removes what belongs to a HarborCluster that was deleted, Harbor first, and lets the object go.
func (h *harborKeeper) remove(ctx workflow.Context, due harbor.Look) error {
	h.ref.UID = due.UID
	h.record.enter(Deleting)
	if err := h.removeParts(ctx, harbor.PartHarbor); err != nil {
		return err
	}
	if err := h.removeParts(ctx, harbor.PartDatabase, harbor.PartCache, harbor.PartStorage); err != nil {
		return err
	}
	// Whoever asks for a change now means another object, perhaps of a release whose answer is lost: the next run keeps that.
	h.ending = true
	if err := workflow.Await(ctx, func() bool { return h.changing == 0 }); err != nil {
		return err
	}
	released := harboractivities.ReleaseInput{Ref: h.ref, Removed: true}
	if err := h.retrier().Run(ctx, "let the object go", h.harbor.ReleaseHarborCluster, released, nil); err != nil {
		return err
	}
	h.record.note(h.removed(due.DeletionPolicy))
	h.record.enter(Deleted)
	return nil
}

// removed says what became of what belonged to the HarborCluster.
func (h *harborKeeper) removed(policy goharborv1.DeletionPolicy) string {
	if len(h.left) == 0 {
		return "what belonged to it is removed; its data: " + string(policy)
	}
	slices.Sort(h.left)
	return "somebody let the object go before all was removed; left as it is: " + strings.Join(h.left, ", ")
}

// removeParts removes parts side by side, each when the cluster is not held, and returns when all are gone. What fails stops no other.
func (h *harborKeeper) removeParts(ctx workflow.Context, parts ...harbor.Part) error {
	h.removing = slices.Clone(parts)
	h.showRemoval(ctx)
	failures := make([]error, len(parts))
	for i, part := range parts {
		workflow.GoNamed(ctx, "remove "+string(part), func(ctx workflow.Context) {
			failures[i] = h.removePart(ctx, part)
			h.removing = slices.DeleteFunc(h.removing, func(p harbor.Part) bool { return p == part })
			h.showRemoval(ctx)
		})
	}
	waiting, stopWaiting := workflow.NewDisconnectedContext(ctx)
	_ = workflow.Await(waiting, func() bool { return len(h.removing) == 0 })
	stopWaiting()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return together(slices.DeleteFunc(failures, func(err error) bool { return err == nil }))
}

// removePart removes a part, and begins anew when the cluster was held while that could not be done.
func (h *harborKeeper) removePart(ctx workflow.Context, part harbor.Part) error {
	retrier := h.retrier()
	retrier.Report = func(ctx workflow.Context, reason, message string) {
		if reason == "" {
			h.showRemoval(ctx)
			return
		}
		h.record.reason.Set(ctx, reason, message)
	}
	retrier.BeforeRound = func() error {
		if hold := h.holds.Of(h.in.Cluster); hold != nil {
			return temporal.Error(temporal.ErrHeld, emergency.Message(*hold), nil)
		}
		return nil
	}
	for {
		if err := h.holds.AwaitRelease(ctx, h.in.Cluster, h.record.reason); err != nil {
			return err
		}
		h.showRemoval(ctx)
		if part == harbor.PartHarbor {
			h.record.seen(ctx, harbor.BeingRemoved(h.status.Harbor, h.status.Harbor.ObservedGeneration, workflow.Now(ctx))) // as the object says then
		}
		var result harboractivities.RemovePartResult
		err := retrier.Wait(ctx, "remove the "+string(part), nil, "", h.harbor.RemoveHarborPart, harboractivities.RemovePartInput{Ref: h.ref, Part: part}, &result)
		if temporal.ErrorType(err) == temporal.ErrHeld {
			continue
		}
		if err == nil && result.Gone {
			h.left = append(h.left, string(part))
		}
		if err == nil && result.Foreign != "" {
			h.record.note(result.Foreign + " is not of this HarborCluster: it was left, and so were the Secrets and the claims of the " + string(part))
		}
		return err
	}
}

// observed takes in that a part takes long to be applied, or what its removal waits for.
func (h *harborKeeper) observed(ctx workflow.Context, o temporal.Observation) {
	h.signals++
	part := harbor.Part(o.Part)
	if _, applying := h.applying[part]; applying {
		h.applying[part] = true
	}
	if o.Wait != nil && slices.Contains(h.removing, part) {
		h.seen[part] = *o.Wait
		h.showRemoval(ctx)
	}
}

// showRemoval shows what the removal waits for: the first that is known of, and all that is in the way.
func (h *harborKeeper) showRemoval(ctx workflow.Context) {
	wait := drydockv1.Wait{Reason: harbor.ReasonRemoving, Since: metav1.NewTime(workflow.Now(ctx))}
	var left []string
	for _, part := range h.removing {
		left = append(left, string(part))
		if seen, is := h.seen[part]; is {
			wait.Blockers = append(wait.Blockers, seen.Blockers...)
		}
	}
	switch {
	case len(left) == 0:
		h.record.reason.Set(ctx, "", "")
		return
	case len(wait.Blockers) > 0:
		wait.Message = wait.Blockers[0].Message
	default:
		wait.Message = "what is removed: " + strings.Join(left, ", ")
	}
	h.record.reason.Replace(&wait)
}

// gone: there is no object, or somebody has taken our finalizer away.
func (h *harborKeeper) gone() error {
	if h.ref.UID == "" {
		return temporal.Error(temporal.ErrNotFound, fmt.Sprintf("cluster %s has no %s", h.in.Cluster, h.ref), nil)
	}
	h.record.note("the object is gone; what belonged to it was left as it is")
	h.record.enter(Deleted)
	return nil
}

// finish records how the run ended.
func (h *harborKeeper) finish(ctx workflow.Context, err error) (Status, error) {
	h.record.reason.Set(ctx, "", "")
	switch {
	case err == nil:
		return h.status, nil
	case sdktemporal.IsCanceledError(err):
		h.release(ctx)
		by := ""
		if h.withdrawn != nil {
			by = kit.ActorSuffix(*h.withdrawn)
		}
		h.record.note("cancelled" + by + ": nobody keeps it any more")
		h.record.enter(Left)
		return h.status, sdktemporal.NewCanceledError(h.status)
	}
	h.record.note(temporal.ErrorMessage(err))
	h.record.enter(Failed)
	return h.status, sdktemporal.NewApplicationErrorWithOptions(temporal.ErrorMessage(err), kit.ReasonOf(err),
		sdktemporal.ApplicationErrorOptions{NonRetryable: true, Details: []any{h.status}})
}

// release takes our finalizer away, so that whoever deletes the object need not wait for us; but not from one that is being deleted, which is not done.
func (h *harborKeeper) release(ctx workflow.Context) {
	if h.ref.UID == "" {
		return
	}
	in := harboractivities.ReleaseInput{Ref: h.ref}
	if err := h.retrier().Until(workflow.Now(ctx).Add(releaseLimit)).Run(ctx, "let the object go", h.harbor.ReleaseHarborCluster, in, nil); err != nil {
		h.record.note("the finalizer " + harboractivities.Finalizer + " could not be removed: " + temporal.ErrorMessage(err))
	}
}
