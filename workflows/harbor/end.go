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

// releaseLimit limits the attempts to remove the finalizer when the run is cancelled.
const releaseLimit = 30 * time.Second

func (h *harborCluster) checkApply(r ApplyRequest) error {
	if h.ending {
		return errEnding
	}
	if r.Object.Namespace != h.in.Namespace || r.Object.Name != h.in.Name {
		return kit.InvalidSpec(fmt.Errorf("object: is HarborCluster %s/%s, not %s/%s", r.Object.Namespace, r.Object.Name, h.in.Namespace, h.in.Name))
	}
	if h.status.State == Deleting {
		// If the finalizer was removed by hand, a new object of this name could lose resources to the ongoing removal.
		return kit.InvalidSpec(fmt.Errorf("cluster %s: %s is being deleted; apply it again after the deletion", h.in.Cluster, h.ref))
	}
	return nil
}

func (h *harborCluster) checkDelete(temporal.SignalRequest) error {
	if h.ending {
		return errEnding
	}
	return nil
}

// errEnding asks the client to retry: the next attempt reaches or starts another run.
var errEnding = temporal.Error(temporal.ErrEnding, "the workflow is about to end; try again", nil)

// apply writes the object. The watch then reports the change, like changes by other clients. If the worker may not write it, and there is none to manage, the
// workflow ends: a refused command leaves nothing running.
func (h *harborCluster) apply(ctx workflow.Context, r ApplyRequest) (result harboractivities.ApplyClusterResult, err error) {
	err = h.change(ctx, "apply the object", h.harbor.ApplyHarborCluster, harboractivities.ApplyClusterInput{Cluster: h.in.Cluster, Object: r.Object}, &result)
	if temporal.ErrorType(err) == temporal.ErrForbidden && h.ref.UID == "" {
		h.refused, h.ending = err, true
		h.cancel()
	}
	if err == nil && r.Reason != "" {
		h.record.applied(temporal.SignalRequest{Actor: r.Actor, Reason: r.Reason})
	}
	return result, err
}

// delete deletes the object. Its finalizer keeps it until its resources are removed.
func (h *harborCluster) delete(ctx workflow.Context, r temporal.SignalRequest) error {
	err := h.change(ctx, "delete the object", h.harbor.DeleteHarborCluster, h.ref, nil)
	if err == nil {
		h.record.note("deleted" + kit.ActorSuffix(r))
	}
	return err
}

// change runs an activity that changes the object, once the cluster is located.
func (h *harborCluster) change(ctx workflow.Context, summary string, activity, input, result any) error {
	h.changing++
	err := workflow.Await(ctx, func() bool { return h.taskQueue != "" || h.unlocated != nil || h.ending })
	switch {
	case err != nil:
	case h.unlocated != nil && !sdktemporal.IsCanceledError(h.unlocated):
		err = h.unlocated
	case h.ending || h.unlocated != nil: // the workflow may have been cancelled a moment ago
		err = errEnding
	default:
		h.signals++                                            // an update adds as much history as a signal
		err = h.tryOnce(ctx, summary, activity, input, result) // only one round, because the client waits
	}
	h.changing--
	return err
}

// remove removes the resources of a deleted HarborCluster, Harbor first, and then the finalizer.
func (h *harborCluster) remove(ctx workflow.Context, due harbor.Plan) error {
	h.ref.UID = due.UID
	h.record.enter(Deleting)
	if err := h.removeParts(ctx, harbor.PartHarbor); err != nil {
		return err
	}
	if err := h.removeParts(ctx, harbor.PartDatabase, harbor.PartCache, harbor.PartStorage); err != nil {
		return err
	}
	// A later update means another object, and the next run handles it.
	h.ending = true
	if err := workflow.Await(ctx, func() bool { return h.changing == 0 }); err != nil {
		return err
	}
	released := harboractivities.RemoveFinalizerInput{Ref: h.ref, Removed: true}
	if err := h.retrier().Run(ctx, "remove the finalizer", h.harbor.RemoveHarborFinalizer, released, nil); err != nil {
		return err
	}
	h.record.note(h.removalNote(due.DeletionPolicy))
	h.record.enter(Deleted)
	return nil
}

// removalNote describes what was removed.
func (h *harborCluster) removalNote(policy goharborv1.DeletionPolicy) string {
	if len(h.notRemoved) == 0 {
		return "its resources are removed; data policy: " + string(policy)
	}
	slices.Sort(h.notRemoved)
	return "the finalizer was removed before all resources were; not removed: " + strings.Join(h.notRemoved, ", ")
}

// removeParts removes parts in parallel, each only while the cluster is not held, and returns when all have ended. A failure stops no other part.
func (h *harborCluster) removeParts(ctx workflow.Context, parts ...harbor.Part) error {
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
	return joined(slices.DeleteFunc(failures, func(err error) bool { return err == nil }))
}

// removePart removes a part. If the cluster is held between attempts, it waits for the release and starts again.
func (h *harborCluster) removePart(ctx workflow.Context, part harbor.Part) error {
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
			h.record.seen(ctx, harbor.BeingRemoved(h.status.Harbor, h.status.Harbor.ObservedGeneration, workflow.Now(ctx))) // the activity writes the same status to the object
		}
		var result harboractivities.RemovePartResult
		err := retrier.Wait(ctx, "remove the "+string(part), nil, "", h.harbor.RemoveHarborPart, harboractivities.RemovePartInput{Ref: h.ref, Part: part}, &result)
		if temporal.ErrorType(err) == temporal.ErrHeld {
			continue
		}
		if err == nil {
			h.record.log.Info("Harbor part removed", "part", part)
		}
		if err == nil && result.Gone {
			h.notRemoved = append(h.notRemoved, string(part))
		}
		if err == nil && result.Foreign != "" {
			h.record.note(result.Foreign + " does not belong to this HarborCluster: it was not removed, nor were the Secrets and claims of the " + string(part))
		}
		return err
	}
}

// observed records that applying a part takes long, or the wait of its removal.
func (h *harborCluster) observed(ctx workflow.Context, o temporal.Observation) {
	h.signals++
	part := harbor.Part(o.Part)
	if _, applying := h.applying[part]; applying {
		h.applying[part] = true
	}
	if o.Wait != nil && slices.Contains(h.removing, part) {
		h.removalWaits[part] = *o.Wait
		h.showRemoval(ctx)
	}
}

// showRemoval sets the current reason of a removal: the first known blocker as message, and all blockers.
func (h *harborCluster) showRemoval(ctx workflow.Context) {
	wait := drydockv1.Wait{Reason: harbor.ReasonRemoving, Since: metav1.NewTime(workflow.Now(ctx))}
	var left []string
	for _, part := range h.removing {
		left = append(left, string(part))
		if seen, is := h.removalWaits[part]; is {
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
		wait.Message = "removing: " + strings.Join(left, ", ")
	}
	h.record.reason.Replace(&wait)
}

// gone ends the run if the object does not exist, or if its finalizer was removed by hand.
func (h *harborCluster) gone() error {
	if h.ref.UID == "" {
		return temporal.Error(temporal.ErrNotFound, fmt.Sprintf("cluster %s has no %s", h.in.Cluster, h.ref), nil)
	}
	h.record.note("the object is gone; its resources were not removed")
	h.record.enter(Deleted)
	return nil
}

// finish records how the run ended.
func (h *harborCluster) finish(ctx workflow.Context, err error) (Status, error) {
	h.record.reason.Set(ctx, "", "")
	switch {
	case err == nil:
		return h.status, nil
	case sdktemporal.IsCanceledError(err):
		h.release(ctx)
		by := ""
		if h.cancelled != nil {
			by = kit.ActorSuffix(*h.cancelled)
		}
		h.record.note("cancelled" + by + ": the HarborCluster is no longer managed")
		h.record.enter(Unmanaged)
		return h.status, sdktemporal.NewCanceledError(h.status)
	}
	h.record.note(temporal.ErrorMessage(err))
	h.record.enter(Failed)
	return h.status, sdktemporal.NewApplicationErrorWithOptions(temporal.ErrorMessage(err), kit.ReasonOf(err),
		sdktemporal.ApplicationErrorOptions{NonRetryable: true, Details: []any{h.status}})
}

// release removes the finalizer, so that a later deletion does not wait for this workflow. The activity keeps it on an object that is being deleted.
func (h *harborCluster) release(ctx workflow.Context) {
	if h.ref.UID == "" {
		return
	}
	in := harboractivities.RemoveFinalizerInput{Ref: h.ref}
	if err := h.retrier().Until(workflow.Now(ctx).Add(releaseLimit)).Run(ctx, "remove the finalizer", h.harbor.RemoveHarborFinalizer, in, nil); err != nil {
		h.record.note("the finalizer " + harboractivities.Finalizer + " could not be removed: " + temporal.ErrorMessage(err))
	}
}
