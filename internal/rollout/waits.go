package rollout

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/emergency"
)

// Reasons of a rollout that cancels the work on running clusters.
const (
	// ReasonCancelling: the rollout is cancelled.
	ReasonCancelling = "Cancelling"
	// ReasonCancellingTimedOut: their batch has timed out.
	ReasonCancellingTimedOut = "CancellingTimedOut"
)

// Waits are all waits of a rollout at one moment. A nil or empty field means no such wait.
type Waits struct {
	// Retry is an activity that failed and is retried.
	Retry *drydockv1.Wait
	// Cancellation is the reason why the work on running clusters is cancelled. CancelledBy names the person who cancelled the rollout, and the reason.
	Cancellation, CancelledBy string
	// Pause waits for a resume, and Approval for an approval.
	Pause, Approval *drydockv1.Wait
	// Unknown waits until the state of holds is known.
	Unknown *drydockv1.Wait
	// Before is the wait before remediation starts.
	Before *drydockv1.Wait
	// Health is the wait of the health gate.
	Health *drydockv1.Wait
}

// Current returns the wait that a rollout shows: the one with the highest priority, or nil. The priority is: a failing activity, a cancellation, a
// request or task of a person, the phases before the first batch, the batch. idleReason is why the rollout starts no clusters now; "": it may start
// some.
func (w Waits) Current(remediation Remediation, status *ranv1.ClusterGroupUpgradeStatus, now metav1.Time) (wait *drydockv1.Wait, idleReason string) {
	batch := batchInProgress(status)
	return w.highest(batch, remediation, status, now), w.idleReason(batch, status)
}

func (w Waits) highest(batch batchSummary, remediation Remediation, status *ranv1.ClusterGroupUpgradeStatus, now metav1.Time) *drydockv1.Wait {
	switch {
	case w.Retry != nil:
		return w.Retry.DeepCopy()
	case status.Status.CompletedAt != nil:
		return nil
	case w.Cancellation != "" && !batch.onlySoaks():
		return batch.cancellation(remediation, w, now)
	case w.Pause != nil:
		return w.Pause.DeepCopy()
	case w.Approval != nil:
		return w.Approval.DeepCopy()
	case w.Unknown != nil:
		return w.Unknown.DeepCopy()
	case w.Before != nil:
		return w.Before.DeepCopy()
	case status.Status.StartedAt != nil && status.Held != nil:
		return batch.held(*status.Held, now)
	case w.Health != nil:
		return w.Health.DeepCopy()
	}
	return batch.wait(status, now)
}

func (w Waits) idleReason(batch batchSummary, status *ranv1.ClusterGroupUpgradeStatus) string {
	switch {
	case status.Paused:
		return reasonPaused
	case status.Held != nil:
		return emergency.Reason(*status.Held)
	case w.Approval != nil:
		return ranv1.ReasonWaitingForApproval
	case batch.onlySoaks():
		return ranv1.ReasonSoaking
	case batch.onlyOffline():
		return ranv1.ReasonClustersOffline
	}
	return ""
}

const reasonPaused = "Paused"

// blockersShown is the maximum number of clusters that a wait names.
const blockersShown = 5

// batchSummary summarizes the batch in progress.
type batchSummary struct {
	// title is "batch 2 of 5: "; "" before the first batch.
	title                  string
	running, soaking, left int
	// offline are the clusters of the batch that are offline.
	offline  []string
	blockers []drydockv1.Blocker
}

func batchInProgress(status *ranv1.ClusterGroupUpgradeStatus) batchSummary {
	var b batchSummary
	if status.Status.CurrentBatch == 0 || status.Status.CurrentBatchStartedAt == nil {
		return b
	}
	b.title = fmt.Sprintf("batch %d of %d: ", status.Status.CurrentBatch, len(status.RemediationPlan))
	for i := range status.Clusters {
		c := &status.Clusters[i]
		if !c.State.Over() {
			b.left++
		}
		switch {
		case Working(c):
			b.running++
			if c.Reason != "" && len(b.blockers) < blockersShown {
				b.blockers = append(b.blockers, drydockv1.Blocker{
					Kind: "ManagedCluster", Name: c.Name, Reason: c.Reason, Message: strings.TrimPrefix(c.Step+": "+c.Message, ": "), Since: c.Since,
				})
			}
		case c.State == ranv1.ClusterSoaking:
			b.soaking++
		case c.State == ranv1.ClusterOffline && c.Batch == status.Status.CurrentBatch:
			b.offline = append(b.offline, c.Name)
		}
	}
	return b
}

// Working reports whether work on a cluster is in progress. A cluster that soaks counts only if more policies follow.
func Working(c *ranv1.ClusterStatus) bool {
	return c.State == ranv1.ClusterRunning || c.State == ranv1.ClusterSoaking && c.CompletedAt == nil
}

func (b batchSummary) onlySoaks() bool { return b.running == 0 && b.soaking > 0 }

func (b batchSummary) onlyOffline() bool { return b.running+b.soaking == 0 && len(b.offline) > 0 }

// cancellation is the wait for the work on running clusters to be cancelled and cleaned up.
func (b batchSummary) cancellation(remediation Remediation, w Waits, now metav1.Time) *drydockv1.Wait {
	wait := &drydockv1.Wait{Reason: w.Cancellation, Since: now, Blockers: b.blockers}
	switch {
	case b.title == "":
		wait.Message = "cancelled" + w.CancelledBy + "; cleaning up"
	case b.running > 0:
		wait.Message = fmt.Sprintf("%s%s: %d", b.title, remediation.Cancelling(), b.running)
	default:
		wait.Message = b.title + "cleaning up"
	}
	return wait
}

func (b batchSummary) held(hold drydockv1.Hold, now metav1.Time) *drydockv1.Wait {
	wait := &drydockv1.Wait{Reason: emergency.Reason(hold), Message: emergency.Message(hold), Since: now, Until: hold.Until, Blockers: b.blockers}
	if b.title != "" {
		wait.Message += "; the timeouts of the rollout are paused"
	}
	return wait
}

// wait is the wait for the clusters of the batch; nil: all have ended.
func (b batchSummary) wait(status *ranv1.ClusterGroupUpgradeStatus, now metav1.Time) *drydockv1.Wait {
	run := status.Status
	switch {
	case b.title == "", b.left == 0:
		return nil
	case b.onlySoaks():
		return &drydockv1.Wait{
			Reason: ranv1.ReasonSoaking, Since: now, Until: run.CurrentBatchDeadline,
			Message: fmt.Sprintf("%sclusters that soak before others start: %d", b.title, b.soaking),
		}
	case b.onlyOffline():
		return &drydockv1.Wait{
			Reason: ranv1.ReasonClustersOffline, Since: now, Until: run.CurrentBatchDeadline,
			Message: b.title + "waiting until clusters are Available: " + someNames(b.offline),
		}
	}
	wait := &drydockv1.Wait{
		Reason: ranv1.ReasonBatchInProgress, Since: *run.CurrentBatchStartedAt, Until: run.CurrentBatchDeadline, Blockers: b.blockers,
		Message: fmt.Sprintf("%sclusters running: %d", b.title, b.running),
	}
	if offline := status.Counts.Offline; offline > 0 {
		wait.Message += fmt.Sprintf("; offline: %d", offline)
	}
	if status.ComputedMaxFailures > 0 {
		wait.Message += fmt.Sprintf("; failed: %d of at most %d", Failures(status.Clusters), status.ComputedMaxFailures)
	}
	return wait
}
