package rollout

import (
	"fmt"
	"slices"
	"time"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
)

// ApprovalBefore returns the approval that batch next of a plan needs, counted from 0; "": none. begun is the number of the last started batch,
// counted from 1, or 0. If the batch of an approval is skipped, or there are no canaries, the next started batch needs the approval. Several
// approvals before the same batch are one.
func ApprovalBefore(approvals *ranv1.Approvals, plan [][]string, canaries []string, begun, next int) ranv1.ApprovalPoint {
	if approvals == nil {
		return ""
	}
	first := canaryBatches(plan, canaries)
	switch {
	case approvals.AfterCanaries && next >= first && begun <= first:
		return ranv1.AfterCanaries
	case approvals.BeforeCanaries && begun == 0:
		return ranv1.BeforeCanaries
	case approvals.BeforeEachBatch:
		return ranv1.BeforeEachBatch
	}
	return ""
}

// ApprovalRequest is an approval by a person.
type ApprovalRequest struct {
	// Actor is the person who approves.
	Actor   string `json:"actor"`
	Comment string `json:"comment,omitempty"`
	// Batch is the number of the approved batch, counted from 1; 0: the batch that the rollout waits for.
	Batch int32 `json:"batch,omitempty"`
}

// AwaitedApproval is an approval that a rollout waits for.
type AwaitedApproval struct {
	Point ranv1.ApprovalPoint `json:"point"`
	Batch int32               `json:"batch"`
}

func (a AwaitedApproval) String() string { return fmt.Sprintf("%s (batch %d)", a.Point, a.Batch) }

// CheckApproval rejects an approval without an actor, and one that the rollout does not wait for: awaited is nil, or is for another batch. state is
// the current state of the rollout, for the error. With separate duties it also rejects an actor who started, edited or enabled the rollout.
func CheckApproval(approvals *ranv1.Approvals, awaited *AwaitedApproval, request ApprovalRequest, starters []string, state string) error {
	switch {
	case awaited == nil:
		return fmt.Errorf("the rollout does not wait for an approval: %s", state)
	case request.Actor == "":
		return fmt.Errorf("actor: required to approve %s", awaited)
	case request.Batch != 0 && request.Batch != awaited.Batch:
		return fmt.Errorf("batch: the rollout waits for the approval of batch %d, not %d", awaited.Batch, request.Batch)
	case approvals.SeparateDuties && slices.Contains(starters, request.Actor):
		return fmt.Errorf("actor: %s has started, edited, enabled or retried the rollout, and may not approve it (spec.approvals.separateDuties); another person must approve it", request.Actor)
	}
	return nil
}

// ApprovalHolds reports whether an approval has not expired.
func ApprovalHolds(approvals *ranv1.Approvals, at, now time.Time) bool {
	expiry := ApprovalExpiry(approvals)
	return expiry == 0 || now.Sub(at) < expiry
}

// ApprovalExpiry is how long a rollout waits for an approval, and how long the approval is valid; 0: no limit.
func ApprovalExpiry(approvals *ranv1.Approvals) time.Duration {
	if approvals == nil {
		return 0
	}
	return time.Duration(approvals.Expiry) * time.Minute
}
