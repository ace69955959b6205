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
	// ReasonAwaitingRequestor: its requestors work on the node.
	ReasonAwaitingRequestor = "AwaitingRequestor"
	// ReasonStale: the node has been ready for longer than its cluster allows.
	ReasonStale = "Stale"
	// reasonRequestorFailed: the work of a requestor failed.
	reasonRequestorFailed = "RequestorFailed"
)

// gate is a place where the workflow itself waits, while no activity does.
type gate string

const (
	gateNone       gate = ""
	gateWindow     gate = "window"     // until a maintenance window opens
	gateSlot       gate = "slot"       // until the scheduler grants a slot
	gateRelease    gate = "release"    // until the emergency stop and windows let the next step start
	gateRefused    gate = "refused"    // before locks are requested again that were refused
	gateRequestors gate = "requestors" // until no requestor needs the node
)

// waits is everything that a maintenance waits for at one moment. What is nil or empty is not waited for.
type waits struct {
	// retry is an activity that does not succeed yet, observed what the activity in progress reports.
	retry, observed *drydockv1.Wait
	gate            gate
	// window is closed, release what the next step waits for, slot why no slot is granted, refused why locks were refused.
	window        *drydockv1.Hold
	release, slot *drydockv1.Wait
	refused       string
}

// wait is the one wait that a maintenance shows: what a person may have to repair, what the activity in progress reports, what the workflow itself waits
// for. It is nil when the maintenance waits for nothing.
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
		return &drydockv1.Wait{Reason: temporal.ErrLockRefused, Message: w.refused, Since: now}
	case gateRequestors:
		return s.requestorWait(now)
	}
	return nil
}

// slotWait is why the maintenance has no slot. A node that another maintenance has can be shared.
func slotWait(wait *drydockv1.Wait) *drydockv1.Wait {
	shown := wait.DeepCopy()
	if shown != nil && shown.Reason == string(scheduling.NodeBusy) {
		shown.Message += "; to share the node, join that maintenance (drydock node join)"
	}
	return shown
}

// requestorWait is which requestors the ready node waits for, and why.
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

// sameWait reports whether two waits tell the same, apart from when they began.
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
