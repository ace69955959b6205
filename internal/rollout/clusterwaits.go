package rollout

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	"drydock.dev/drydock/internal/emergency"
)

// ClusterWaits are all waits of the maintenance of a cluster's nodes at one moment. A nil field means no such wait.
type ClusterWaits struct {
	// Retry is an activity that failed and is retried.
	Retry *drydockv1.Wait
	// Observed is the wait of the activity in progress.
	Observed *drydockv1.Wait
	// Refused is a refused request to the workload locks. It is retried later.
	Refused *drydockv1.Wait
	// Idle describes the work that does not start while the cluster is held or the rollout paused, such as "no node is started"; "": work is in
	// progress, or nothing remains to be started.
	Idle string
	// Hold holds the cluster. Paused: the rollout is paused.
	Hold   *drydockv1.Hold
	Paused bool
	// Slots is the wait of the remaining nodes.
	Slots *drydockv1.Wait
}

// Current is the wait that the cluster shows: the one with the highest priority, or nil. The priority is: a failing activity, the step in progress,
// the start of the next node.
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
