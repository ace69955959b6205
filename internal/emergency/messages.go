package emergency

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
)

// The reasons of waits.
const (
	// ReasonHeld: the cluster, or every cluster, is held.
	ReasonHeld = "Held"
	// ReasonUnknown: the holds were not received yet. Until then nothing is disrupted.
	ReasonUnknown = "HoldUnknown"
	// ReasonWaitingForWindow: the maintenance windows for the cluster are closed.
	ReasonWaitingForWindow = "WaitingForWindow"
)

// Reason returns the reason of a wait for the end of a hold.
func Reason(h drydockv1.Hold) string {
	if h.Window != "" {
		return ReasonWaitingForWindow
	}
	return ReasonHeld
}

// Message explains a hold: its actor, scope, start and reason, and how it ends.
func Message(h drydockv1.Hold) string {
	if h.Window != "" {
		return h.String() + map[drydockv1.OverrunAction]string{
			drydockv1.OverrunPause:  "; running steps finish, no new one starts",
			drydockv1.OverrunCancel: "; nodes under maintenance return to service, and are maintained again later",
		}[h.OnOverrun]
	}
	return h.String() + "; running steps finish, no new one starts; `" + ReleaseCommand(h.Scope) + "` continues"
}

// Wait is the wait for the end of a hold, which begins now.
func Wait(h drydockv1.Hold, now metav1.Time) *drydockv1.Wait {
	return &drydockv1.Wait{Reason: Reason(h), Message: Message(h), Since: now, Until: h.Until}
}

// ReleaseCommand is the command that releases a scope.
func ReleaseCommand(scope drydockv1.HoldScope) string {
	if cluster := scope.Cluster(); cluster != "" {
		return "drydock release --cluster " + cluster
	}
	return "drydock release --all"
}
