package rollout

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/emergency"
)

// blockingReasons are the reasons of clusters on which no work continues until a person or another program acts, the gravest first. Other reasons to
// wait are part of the work.
var blockingReasons = append([]string{
	"NoController", "LocalStorage", "DaemonSetGone", "ReturnsToNode", "Deadlock", "MultipleBudgets", "DisruptionBudgetNever", "PodsNotEvictable",
	"EvictionRefused", "Uncordoned", "WorkloadLocksFailed", "RequestorFailed", "Stale", "JobSuspended", "InvalidConfig", "NodeNotFound",
	"Forbidden", "ClusterUnreachable", "ClusterUnknown", "NoHub", "NoWorker", "TimeoutStartToClose", "Failed", "NotPlaced", ranv1.ReasonWaitingForPlacement, "ClustersRefused", "ForeignMaintenance",
}, briefReasons...)

// briefReasons are blocking reasons that often end by themselves.
var briefReasons = []string{
	"JobStopping", "JobPodMissing", "ServerError", "NamespaceTerminating", "NodeNotReady", "NodeBusy", "LockRefused", "WorkloadLocksNotBack", "DisruptionBudget",
	"WorkloadLocksHeld", // often by a node that waits for one of the others
}

// patience is how long a wait for such a reason is brief.
const patience = 10 * time.Second

// Brief reports whether work may soon continue without a person. With the zero time, a wait for a reason that often ends by itself is brief.
func Brief(reason string, since *metav1.Time, now time.Time) bool {
	return slices.Contains(briefReasons, reason) && (now.IsZero() || since != nil && now.Before(since.Add(patience)))
}

// Blocks reports whether a wait lasts until a person or another program acts, and is not brief.
func Blocks(wait *drydockv1.Wait, now time.Time) bool {
	return wait != nil && slices.Contains(blockingReasons, wait.Reason) && !Brief(wait.Reason, &wait.Since, now)
}

// Graver reports whether a wait is graver than another one: it is more likely to need a person, or the reason for the other one.
func Graver(wait, than *drydockv1.Wait) bool {
	if wait == nil || than == nil {
		return wait != nil && than == nil
	}
	return rankOf(wait.Reason) < rankOf(than.Reason)
}

// rankOf orders reasons, the gravest first. All that do not block have the last rank.
func rankOf(reason string) int {
	if rank := slices.Index(blockingReasons, reason); rank >= 0 {
		return rank
	}
	return len(blockingReasons)
}

// gravestCluster returns the running cluster with the gravest reason that blocks it, and how many clusters are blocked; nil: none.
func gravestCluster(clusters []ranv1.ClusterStatus, blocked func(c *ranv1.ClusterStatus) bool) (gravest *ranv1.ClusterStatus, count int) {
	for i := range clusters {
		c := &clusters[i]
		if !Working(c) || rankOf(c.Reason) >= len(blockingReasons) || !blocked(c) {
			continue
		}
		count++
		if gravest == nil || rankOf(c.Reason) < rankOf(gravest.Reason) {
			gravest = c
		}
	}
	return gravest, count
}

// DeepestWait returns the wait that users see: while a cluster of the batch is blocked, its reason, with the path to it; otherwise the rollout's own.
func DeepestWait(status *ranv1.ClusterGroupUpgradeStatus) *drydockv1.Wait {
	if status.Wait == nil || status.Wait.Reason != ranv1.ReasonBatchInProgress {
		return status.Wait
	}
	gravest, count := gravestCluster(status.Clusters, func(*ranv1.ClusterStatus) bool { return true })
	if gravest == nil {
		return status.Wait
	}
	wait := status.Wait.DeepCopy()
	path := slices.DeleteFunc([]string{gravest.Name, gravest.Step, gravest.Message}, func(part string) bool { return part == "" })
	wait.Reason, wait.Message = gravest.Reason, batchInProgress(status).title+strings.Join(path, ": ")
	if count > 1 {
		wait.Message += fmt.Sprintf("; blocked clusters: %d", count)
	}
	if gravest.Since != nil {
		wait.Since = *gravest.Since
	}
	if gravest.Until != nil {
		wait.Until = gravest.Until
	}
	return wait
}

// NextStep is the command with which a person ends the wait of a rollout, namespace/name, or repairs its failure, and what that does; empty if there is
// none.
func NextStep(status *ranv1.ClusterGroupUpgradeStatus, name string) (does, command string) {
	reason, verb, flag := "", "", ""
	if status.Wait != nil {
		reason = status.Wait.Reason
	}
	over := status.Status.CompletedAt != nil
	failed, unfinished := status.Counts.Failed+status.Counts.TimedOut > 0, status.Counts.Cancelled+status.Counts.Pending > 0
	switch {
	case reason == ranv1.ReasonNotEnabled:
		does, verb = "start it", "enable"
	case reason == ranv1.ReasonWaitingForApproval:
		does, verb = "approve the next batch", "approve"
	case reason == ReasonPaused:
		does, verb = "continue", "resume"
	case over && failed && unfinished:
		does, verb, flag = "retry the clusters that failed or timed out, and continue with the others", "retry", " --unfinished"
	case over && failed:
		does, verb = "retry the clusters that failed or timed out", "retry"
	case over && status.Counts.Offline > 0:
		does, verb = "retry the clusters that were offline", "retry"
	case over && unfinished:
		does, verb, flag = "continue with the clusters that were cancelled or not started", "retry", " --unfinished"
	default:
		return "", ""
	}
	return does, "drydock upgrade " + verb + " " + name + flag
}

// ReasonPaused: a cluster starts nothing new while its rollout is paused.
const ReasonPaused = "Paused"

// Resumed returns the clusters without the reason of a pause that has ended. Clusters report their reasons some seconds late.
func Resumed(clusters []ranv1.ClusterStatus, paused bool) []ranv1.ClusterStatus {
	if paused || !slices.ContainsFunc(clusters, waitsForResume) {
		return clusters
	}
	clusters = slices.Clone(clusters)
	for i := range clusters {
		if c := &clusters[i]; waitsForResume(*c) {
			c.Reason, c.Message, c.Since, c.Until = "", "", nil, nil
		}
	}
	return clusters
}

func waitsForResume(c ranv1.ClusterStatus) bool { return !c.State.Over() && c.Reason == ReasonPaused }

// States of a rollout for people, beside those of its last condition.
const (
	StateBlocked            = "Blocked"
	StateWaitingForWindow   = "Waiting for window"
	StateWaitingForApproval = "Waiting for approval"
	StateWaitingForClusters = "Waiting for clusters"
	StateHeld               = "Held"
	StatePaused             = "Paused"
	StateSoaking            = "Soaking"
	StateCancelling         = "Cancelling"
	StateRunning            = "Running"
)

// State returns the state of a rollout in plain words: before its start and after its end, those of the reason of its condition. With the zero time, it
// is not blocked by what often ends by itself.
func State(status *ranv1.ClusterGroupUpgradeStatus, reason string, now time.Time) string {
	if status.Status.CompletedAt != nil {
		return Words(reason)
	}
	waitsFor := func(reasons ...string) bool {
		return status.Wait != nil && slices.Contains(reasons, status.Wait.Reason)
	}
	switch held := status.Held; {
	case waitsFor(ReasonCancelling, ReasonCancellingTimedOut):
		return StateCancelling
	case status.Paused:
		return StatePaused
	case held != nil && held.Window != "":
		return StateWaitingForWindow
	case held != nil:
		return StateHeld
	case waitsFor(ranv1.ReasonWaitingForApproval):
		return StateWaitingForApproval
	case blockedNow(status, now) != nil, waitsFor(blockingReasons...) && !Brief(status.Wait.Reason, &status.Wait.Since, now):
		return StateBlocked
	case status.Status.StartedAt == nil:
		return Words(reason)
	case waitsFor(ranv1.ReasonClustersOffline):
		return StateWaitingForClusters
	case waitsFor(ranv1.ReasonSoaking):
		return StateSoaking
	}
	return StateRunning
}

// VisibleState returns the state of a running rollout as far as its search attributes tell: its phase, the reason of its wait, and whether it is paused.
func VisibleState(phase, reason string, paused bool) string {
	status := ranv1.ClusterGroupUpgradeStatus{Paused: paused, Wait: &drydockv1.Wait{Reason: reason}}
	if phase == ranv1.ReasonInProgress {
		status.Status.StartedAt = &metav1.Time{}
	}
	switch reason {
	case emergency.ReasonHeld:
		status.Held = &drydockv1.Hold{}
	case emergency.ReasonWaitingForWindow:
		status.Held = &drydockv1.Hold{Window: reason}
	}
	return State(&status, phase, time.Time{})
}

// Message returns the message of the condition of a rollout as people read it below its state: without the reason of its wait, and empty while the
// state is another than running, since the message says what the rollout works on.
func Message(status *ranv1.ClusterGroupUpgradeStatus, state, message string) string {
	switch {
	case status.Status.StartedAt == nil, status.Status.CompletedAt != nil:
		return message
	case state != StateRunning:
		return ""
	case status.Wait != nil:
		return strings.TrimPrefix(message, status.Wait.Reason+"; ")
	}
	return message
}

// blockedNow returns the gravest cluster that is blocked, and not only for a moment; nil: none.
func blockedNow(status *ranv1.ClusterGroupUpgradeStatus, now time.Time) *ranv1.ClusterStatus {
	blocked, _ := gravestCluster(status.Clusters, func(c *ranv1.ClusterStatus) bool { return !Brief(c.Reason, c.Since, now) })
	return blocked
}

// Expectation is what is known at a moment about the end of a rollout.
type Expectation struct {
	// Estimate of the end, which is not in the past; nil: there is none.
	Estimate *ranv1.Estimate
	// Unknown is why there is no estimate, e.g. "spoke-1 is blocked: 3 pods blocked by PodDisruptionBudget shop/web"; empty: there is one, or nothing is
	// known yet.
	Unknown string
	// Bound is what happens at BoundAt at the latest, e.g. "the batch times out"; empty: there is no limit.
	Bound   string
	BoundAt *metav1.Time
}

// ExpectationOf returns what is known now about the end of a rollout. A status is as old as the last change, so its estimate may be outdated.
func ExpectationOf(status *ranv1.ClusterGroupUpgradeStatus, now time.Time) Expectation {
	run := status.Status
	if run.CompletedAt != nil || run.StartedAt == nil || status.Paused || status.Held != nil {
		return Expectation{}
	}
	var expectation Expectation
	switch {
	case run.CurrentBatchDeadline != nil && now.Before(run.CurrentBatchDeadline.Time):
		expectation = Expectation{Bound: "the batch times out", BoundAt: run.CurrentBatchDeadline}
	case run.Deadline != nil && now.Before(run.Deadline.Time):
		expectation = Expectation{Bound: "the rollout times out", BoundAt: run.Deadline}
	}
	if blocked := blockedNow(status, now); blocked != nil {
		expectation.Unknown = blocked.Name + " is blocked"
		what, _, _ := strings.Cut(strings.TrimPrefix(blocked.Message, "cluster "+blocked.Name+": "), ": ") // the wait says the rest
		if what, _, _ = strings.Cut(what, " ("); what != "" {
			expectation.Unknown += ": " + what
		}
		if blocked.Until != nil && now.Before(blocked.Until.Time) {
			expectation.Bound, expectation.BoundAt = "this step gives up", blocked.Until
		}
		return expectation
	}
	if wait := status.Wait; wait != nil && wait.Reason == ranv1.ReasonWaitingForApproval {
		return Expectation{Unknown: "the rollout waits for an approval", Bound: expectation.Bound, BoundAt: expectation.BoundAt}
	}
	if status.Counts.Offline > 0 {
		expectation = Expectation{Unknown: offlineText(status)}
		if run.Deadline != nil && now.Before(run.Deadline.Time) {
			expectation.Bound, expectation.BoundAt = "the rollout times out", run.Deadline
		}
		return expectation
	}
	switch estimate := run.Estimate; {
	case estimate == nil:
		return Expectation{}
	case now.Before(estimate.End.Time):
		expectation.Estimate = estimate
	default:
		expectation.Unknown = "it takes longer than expected"
	}
	return expectation
}
