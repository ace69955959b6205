package rollout

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	"drydock.dev/drydock/internal/emergency"
)

// ClusterWaits is everything that the maintenance of a cluster's nodes waits for at one moment. A nil field means no such wait.
type ClusterWaits struct {
	// Retry is an activity that does not succeed yet.
	Retry *drydockv1.Wait
	// Observed is what the activity in progress waits for.
	Observed *drydockv1.Wait
	// Refused is a request to the workload locks that was refused, and is retried later.
	Refused *drydockv1.Wait
	// Idle is what does not start while the cluster is held or the rollout paused, such as "no node is started"; "": something is in progress, or
	// there is nothing to start.
	Idle string
	// Hold holds the cluster. Paused: the rollout is paused.
	Hold   *drydockv1.Hold
	Paused bool
	// Slots is what the remaining nodes wait for.
	Slots *drydockv1.Wait
}

// Current is the one wait that the cluster shows, by priority: what a person may have to repair, what the step in progress waits for, what delays the
// next node. It is nil without a wait.
func (w ClusterWaits) Current(now metav1.Time) *drydockv1.Wait {
	switch {
	case w.Retry != nil:
		return w.Retry.DeepCopy()
	case w.Observed != nil:
		return w.Observed.DeepCopy()
	case w.Refused != nil:
		return w.Refused.DeepCopy()
	case w.Idle != "" && w.Hold != nil:
		return &drydockv1.Wait{Reason: emergency.Reason(*w.Hold), Message: emergency.Message(*w.Hold), Since: now, Until: w.Hold.Until}
	case w.Idle != "" && w.Paused:
		return &drydockv1.Wait{Reason: reasonPaused, Message: w.Idle + "; waiting for resume", Since: now}
	case w.Slots != nil:
		return w.Slots.DeepCopy()
	}
	return nil
}
