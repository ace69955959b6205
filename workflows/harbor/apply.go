package harbor

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	sdktemporal "go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	harboractivities "drydock.dev/drydock/activities/harbor"
	"drydock.dev/drydock/internal/emergency"
	"drydock.dev/drydock/internal/harbor"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/kit"
)

// execute executes the plan in parallel. A failure does not stop the other actions. It returns when all actions have finished, except parts that take
// long.
func (h *harborCluster) execute(ctx workflow.Context, due harbor.Plan) {
	writing := 0
	write := func(name string, run func(workflow.Context) error) {
		writing++
		workflow.GoNamed(ctx, name, func(ctx workflow.Context) {
			h.recordError(run(ctx))
			writing--
		})
	}
	if due.NoFinalizer {
		write("add finalizer", func(ctx workflow.Context) error {
			err := h.tryOnce(ctx, "add the finalizer of "+h.ref.String(), h.harbor.AddHarborFinalizer, h.ref, nil)
			return written(ctx, err, &h.known.FinalizerWritten)
		})
	}
	for _, part := range due.Parts {
		if h.held() {
			break
		}
		h.applying[part.Part] = false
		workflow.GoNamed(ctx, "apply "+string(part.Part), func(ctx workflow.Context) {
			h.recordError(h.applyPart(ctx, part, due.Generation))
			delete(h.applying, part.Part)
		})
	}
	if due.Outdated {
		write("status", func(ctx workflow.Context) error {
			in := harboractivities.WriteStatusInput{Ref: h.ref, Status: due.Status}
			err := h.tryOnce(ctx, "write status "+string(due.Status.Status), h.harbor.WriteHarborStatus, in, nil)
			return written(ctx, err, &h.known.StatusWritten)
		})
	}
	awaitEnd(ctx, func() bool {
		return writing == 0 && !slices.ContainsFunc(workflow.DeterministicKeys(h.applying), func(part harbor.Part) bool { return !h.applying[part] })
	})
}

// awaitApplied waits until all parts have been applied.
func (h *harborCluster) awaitApplied(ctx workflow.Context) {
	awaitEnd(ctx, func() bool { return len(h.applying) == 0 })
}

// awaitEnd also waits in a cancelled run, to record the results of running activities.
func awaitEnd(ctx workflow.Context, ended func() bool) {
	waiting, stopWaiting := workflow.NewDisconnectedContext(ctx)
	_ = workflow.Await(waiting, ended)
	stopWaiting()
}

// recordError records the error of an action whose result is therefore unknown.
func (h *harborCluster) recordError(err error) {
	if err != nil {
		h.trouble = append(h.trouble, err)
	}
}

// settle records failures. If the result of an action is unknown, it pauses; the action is then due again.
func (h *harborCluster) settle(ctx workflow.Context) {
	trouble := joined(h.trouble)
	h.trouble = nil
	h.record.failures(h.failures())
	if trouble != nil && ctx.Err() == nil {
		h.record.reason.Set(ctx, kit.ReasonOf(trouble), temporal.ErrorMessage(trouble))
		_ = workflow.NewTimerWithOptions(ctx, retryPause, workflow.TimerOptions{Summary: "pause before the next attempt"}).Get(ctx, nil)
		h.record.reason.Set(ctx, "", "")
	}
}

// written records the time of a successful write. The pause before the next write starts then.
func written(ctx workflow.Context, err error, at **time.Time) error {
	if err == nil {
		now := workflow.Now(ctx)
		*at = &now
	}
	return err
}

// joined joins errors of parallel actions: the type of the first, and all messages. It returns nil if there are none.
func joined(failures []error) error {
	if len(failures) < 2 {
		return errors.Join(failures...)
	}
	var messages []string
	for _, err := range failures {
		messages = append(messages, temporal.ErrorMessage(err))
	}
	return temporal.Error(kit.ReasonOf(failures[0]), strings.Join(messages, "; "), errors.Join(failures...))
}

// retryPause is the pause after an action whose result is unknown.
const retryPause = 5 * time.Second

// tryOnce runs an activity for one round of attempts. After a failure, the action is due again.
func (h *harborCluster) tryOnce(ctx workflow.Context, summary string, activity, input, result any) error {
	retrier := h.retrier().Until(workflow.Now(ctx).Add(-time.Nanosecond))
	retrier.Attempts = 2
	return retrier.Run(ctx, summary, activity, input, result)
}

// failures joins the failures of all parts; nil if there are none.
func (h *harborCluster) failures() error {
	var failures []error
	for _, part := range workflow.DeterministicKeys(h.known.Applied) {
		if failure := h.known.Applied[part].Failure; failure != nil {
			failures = append(failures, fmt.Errorf("%s: %s", part, failure.Message))
		}
	}
	return errors.Join(failures...)
}

// applyPart applies a part and records the result, also a failure. It returns an error if the result is unknown.
func (h *harborCluster) applyPart(ctx workflow.Context, part harbor.Due, generation int64) error {
	var applied harbor.Applied
	in := harboractivities.ApplyPartInput{Ref: h.ref, Due: part, Generation: generation}
	err := h.tryOnce(ctx, fmt.Sprintf("apply the %s: %s", part.Part, part.Why), h.harbor.ApplyHarborPart, in, &applied)
	switch {
	case in.UID != h.ref.UID: // another object has the name now, and nothing of it is applied
		return nil
	case err == nil:
		h.known.Applied[part.Part] = applied
		h.record.log.Info("Harbor part applied", "part", part.Part, "why", part.Why)
		return nil
	case temporal.ErrorType(err) == temporal.ErrHeld:
		return nil // the part is due again after the release
	case ctx.Err() != nil || resultUnknown(err):
		return err
	}
	h.record.log.Error("Harbor part could not be applied", "part", part.Part, "error", err)
	h.known.Applied[part.Part] = harbor.Applied{
		Wanted: part.Wanted, At: workflow.Now(ctx), Failures: h.known.Applied[part.Part].Failures + 1,
		Failure: &harbor.Failure{Reason: harbor.ReasonApplyFailed, Message: temporal.ErrorMessage(err)},
	}
	return nil
}

// resultUnknown reports whether the effect may have happened in spite of the error.
func resultUnknown(err error) bool {
	if _, timeout := errors.AsType[*sdktemporal.TimeoutError](err); timeout {
		return true
	}
	switch temporal.ErrorType(err) {
	case temporal.ErrWorkerShutdown, temporal.ErrClusterUnreachable, temporal.ErrForbidden, temporal.ErrClusterUnknown, temporal.ErrNotFound, emergency.ReasonUnknown:
		return true
	}
	return false
}
