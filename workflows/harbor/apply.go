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

// act does all that is due at once, each for itself: what fails neither stops nor cancels anything else. It returns when all of it is over, but for
// parts that take long.
func (h *harborKeeper) act(ctx workflow.Context, due harbor.Look) {
	writing := 0
	write := func(name string, run func(workflow.Context) error) {
		writing++
		workflow.GoNamed(ctx, name, func(ctx workflow.Context) {
			h.over(run(ctx))
			writing--
		})
	}
	if due.Unheld {
		write("hold", func(ctx workflow.Context) error {
			err := h.tryOnce(ctx, "hold "+h.ref.String(), h.harbor.HoldHarborCluster, h.ref, nil)
			return written(ctx, err, &h.known.FinalizerWritten)
		})
	}
	for _, part := range due.Parts {
		if h.held() {
			break
		}
		h.applying[part.Part] = false
		workflow.GoNamed(ctx, "apply "+string(part.Part), func(ctx workflow.Context) {
			h.over(h.applyPart(ctx, part, due.Generation))
			delete(h.applying, part.Part)
		})
	}
	if due.Outdated {
		write("status", func(ctx workflow.Context) error {
			in := harboractivities.WriteStatusInput{Ref: h.ref, Status: due.Status}
			err := h.tryOnce(ctx, "say that it is "+string(due.Status.Status), h.harbor.WriteHarborStatus, in, nil)
			return written(ctx, err, &h.known.StatusWritten)
		})
	}
	awaitEnd(ctx, func() bool {
		return writing == 0 && !slices.ContainsFunc(workflow.DeterministicKeys(h.applying), func(part harbor.Part) bool { return !h.applying[part] })
	})
}

// awaitApplied waits until nothing is being applied any more.
func (h *harborKeeper) awaitApplied(ctx workflow.Context) {
	awaitEnd(ctx, func() bool { return len(h.applying) == 0 })
}

// awaitEnd waits also in a run that is cancelled: what has begun is ended, and the run knows what it did.
func awaitEnd(ctx workflow.Context, ended func() bool) {
	waiting, stopWaiting := workflow.NewDisconnectedContext(ctx)
	_ = workflow.Await(waiting, ended)
	stopWaiting()
}

// over takes in that something is: with an error, it is not known what came of it.
func (h *harborKeeper) over(err error) {
	if err != nil {
		h.trouble = append(h.trouble, err)
	}
}

// settle says what could not be applied, and waits a little when it is not known what came of something, which is due still then.
func (h *harborKeeper) settle(ctx workflow.Context) {
	trouble := together(h.trouble)
	h.trouble = nil
	h.record.failures(h.failures())
	if trouble != nil && ctx.Err() == nil {
		h.record.reason.Set(ctx, kit.ReasonOf(trouble), temporal.ErrorMessage(trouble))
		_ = workflow.NewTimerWithOptions(ctx, lookAgainAfter, workflow.TimerOptions{Summary: "before it is tried again"}).Get(ctx, nil)
		h.record.reason.Set(ctx, "", "")
	}
}

// written takes in when something was written, unless it could not be: a pause before it is written again counts from then.
func written(ctx workflow.Context, err error, at **time.Time) error {
	if err == nil {
		now := workflow.Now(ctx)
		*at = &now
	}
	return err
}

// together is one error of those of several things that were done side by side: of the type of the first, with the messages of all. nil: there is none.
func together(failures []error) error {
	if len(failures) < 2 {
		return errors.Join(failures...)
	}
	var messages []string
	for _, err := range failures {
		messages = append(messages, temporal.ErrorMessage(err))
	}
	return temporal.Error(kit.ReasonOf(failures[0]), strings.Join(messages, "; "), errors.Join(failures...))
}

// lookAgainAfter is the pause after something of which it is not known what came of it.
const lookAgainAfter = 5 * time.Second

// tryOnce runs an activity for one round. What is not done then is found due again.
func (h *harborKeeper) tryOnce(ctx workflow.Context, summary string, activity, input, result any) error {
	retrier := h.retrier().Until(workflow.Now(ctx).Add(-time.Nanosecond))
	retrier.Attempts = 2
	return retrier.Run(ctx, summary, activity, input, result)
}

// failures are what could not be applied, all of it; nil: nothing.
func (h *harborKeeper) failures() error {
	var failures []error
	for _, part := range workflow.DeterministicKeys(h.known.Applied) {
		if failure := h.known.Applied[part].Failure; failure != nil {
			failures = append(failures, fmt.Errorf("%s: %s", part, failure.Message))
		}
	}
	return errors.Join(failures...)
}

// applyPart applies a part. A failure is an answer, which is remembered; an error leaves open what came of it.
func (h *harborKeeper) applyPart(ctx workflow.Context, part harbor.Due, generation int64) error {
	var applied harbor.Applied
	in := harboractivities.ApplyPartInput{Ref: h.ref, Due: part, Generation: generation}
	err := h.tryOnce(ctx, fmt.Sprintf("apply the %s: %s", part.Part, part.Why), h.harbor.ApplyHarborPart, in, &applied)
	switch {
	case in.UID != h.ref.UID: // of another object now, nothing is applied
		return nil
	case err == nil:
		h.known.Applied[part.Part] = applied
		return nil
	case temporal.ErrorType(err) == temporal.ErrHeld:
		return nil // it is due still when the cluster is not held any more
	case ctx.Err() != nil || unanswered(err):
		return err
	}
	h.known.Applied[part.Part] = harbor.Applied{
		Wanted: part.Wanted, At: workflow.Now(ctx), Failures: h.known.Applied[part.Part].Failures + 1,
		Failure: &harbor.Failure{Reason: harbor.ReasonApplyFailed, Message: temporal.ErrorMessage(err)},
	}
	return nil
}

// unanswered: nobody has said what came of it, or that nothing may come of it any more.
func unanswered(err error) bool {
	if _, timeout := errors.AsType[*sdktemporal.TimeoutError](err); timeout {
		return true
	}
	switch temporal.ErrorType(err) {
	case temporal.ErrHandedOver, temporal.ErrClusterUnreachable, temporal.ErrClusterUnknown, temporal.ErrNotFound, emergency.ReasonUnknown:
		return true
	}
	return false
}
