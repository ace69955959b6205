package nodemaintenance

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	"drydock.dev/drydock/internal/emergency"
	"drydock.dev/drydock/internal/scheduling"
	"drydock.dev/drydock/internal/temporal"
)

// Reasons why a maintenance whose node is ready waits.
const (
	// reasonAwaitingAcceptance: the request is not accepted yet. Only the status shows it.
	reasonAwaitingAcceptance = "AwaitingAcceptance"
	// ReasonAwaitingRequestor: its requestors work on the node.
	ReasonAwaitingRequestor = "AwaitingRequestor"
	// ReasonStale: the node has been ready for longer than its cluster allows.
	ReasonStale = "Stale"
	// reasonRequestorFailed: the work of a requestor failed.
	reasonRequestorFailed = "RequestorFailed"
)

// gate is a wait of the workflow itself, without an activity.
type gate string

const (
	gateNone       gate = ""
	gateWindow     gate = "window"     // until a maintenance window opens
	gateSlot       gate = "slot"       // until the scheduler grants a slot
	gateRelease    gate = "release"    // until the emergency stop and windows let the next step start
	gateRefused    gate = "refused"    // before the next attempt after a refusal
	gateRequestors gate = "requestors" // until no requestor needs the node
)

// waits has all current waits of a maintenance. A nil or empty field is no wait.
type waits struct {
	// retry is the wait of the activity that has been retried for longest. observed is the last observation of the activity in progress.
	retry, observed *drydockv1.Wait
	gate            gate
	// window is the closed window. release is the wait of the next step. slot is why no slot is granted. refused is why locks or pods refused the last attempt.
	window        *drydockv1.Hold
	release, slot *drydockv1.Wait
	refused       error
}

// wait returns the wait that a maintenance shows; nil: it does not wait. A failing activity, which may need a person, comes before an observation, and that
// before a gate.
func (s *State) wait(w waits, now metav1.Time) *drydockv1.Wait {
	switch {
	case w.retry != nil:
		return w.retry.DeepCopy()
	case w.observed != nil:
		return w.observed.DeepCopy()
	}
	switch w.gate {
	case gateWindow:
		if w.window != nil {
			return emergency.Wait(*w.window, now)
		}
	case gateSlot:
		return slotWait(w.slot)
	case gateRelease:
		return w.release.DeepCopy()
	case gateRefused:
		return &drydockv1.Wait{Reason: temporal.ErrorType(w.refused), Message: temporal.ErrorMessage(w.refused), Blockers: temporal.Blockers(w.refused), Since: now}
	case gateRequestors:
		return s.requestorWait(now)
	}
	return nil
}

// slotWait returns why the maintenance has no slot. If the node is under another maintenance, the message says how to share it.
func slotWait(wait *drydockv1.Wait) *drydockv1.Wait {
	shown := wait.DeepCopy()
	if shown != nil && shown.Reason == string(scheduling.NodeBusy) {
		shown.Message += "; to share the node, join that maintenance (drydock node join)"
	}
	return shown
}

// requestorWait returns the wait of a ready node for its requestors.
func (s *State) requestorWait(now metav1.Time) *drydockv1.Wait {
	if failing := s.failing(); failing != nil {
		message := "the work on the node failed" + failing.Failure.report() + "; the node is held until the failure is cleared (recover), or done or cancel is sent"
		return &drydockv1.Wait{Reason: reasonRequestorFailed, Message: message, Since: now}
	}
	message := "the node is ready for " + names(s.requestors(needsNode)) + "; waiting for done"
	if s.Readiness.Uncordoned {
		message += "; the node is no longer cordoned, so pods may come to it"
	}
	if s.Readiness.Stale {
		message = fmt.Sprintf("%s for longer than %d s (maxNodeMaintenanceTimeSeconds)", message, s.Readiness.LimitSeconds)
		return &drydockv1.Wait{Reason: ReasonStale, Message: message, Since: now}
	}
	return &drydockv1.Wait{Reason: ReasonAwaitingRequestor, Message: message, Since: now}
}

// sameWait reports whether two waits are equal apart from their start times.
func sameWait(one, other *drydockv1.Wait) bool {
	if one == nil || other == nil {
		return one == other
	}
	return one.Reason == other.Reason && one.Message == other.Message && one.Until.Equal(other.Until) && slices.EqualFunc(one.Blockers, other.Blockers, sameBlocker)
}

func sameBlocker(one, other drydockv1.Blocker) bool {
	sameSince := one.Since.Equal(other.Since)
	one.Since, other.Since = nil, nil
	return sameSince && one == other
}
