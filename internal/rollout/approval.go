package rollout

import (
	"fmt"
	"slices"
	"time"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
)

// ApprovalBefore returns what somebody has to approve before batch next of a plan, counted from 0; "" if nothing. Begun is how far the run is: the
// number of the last batch that it has begun, counted from 1, or 0. Batches in which nothing is left to do are passed over; what was asked for
// there stands before the next that is begun, and so does what is asked for before or after canaries that there are not. What stands at the
// same place is approved once.
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

// ApprovalRequest approves what a rollout waits for.
type ApprovalRequest struct {
	// Actor approves.
	Actor   string `json:"actor"`
	Comment string `json:"comment,omitempty"`
	// Batch that the actor means, counted from 1; 0: the one that is waited for.
	Batch int32 `json:"batch,omitempty"`
}

// AwaitedApproval is an approval that a rollout waits for.
type AwaitedApproval struct {
	Point ranv1.ApprovalPoint `json:"point"`
	Batch int32               `json:"batch"`
}

func (a AwaitedApproval) String() string { return fmt.Sprintf("%s (batch %d)", a.Point, a.Batch) }

// CheckApproval refuses an approval that does not count: nothing waits for it (awaited is nil; instead says what the rollout does), it is
// meant for another batch, nobody signs it, or it is one of those who brought the rollout on its way, and duties are separate.
func CheckApproval(approvals *ranv1.Approvals, awaited *AwaitedApproval, request ApprovalRequest, starters []string, instead string) error {
	switch {
	case awaited == nil:
		return fmt.Errorf("the rollout does not wait for an approval: %s", instead)
	case request.Actor == "":
		return fmt.Errorf("actor: who approves %s must be said", awaited)
	case request.Batch != 0 && request.Batch != awaited.Batch:
		return fmt.Errorf("batch: the rollout waits for the approval of batch %d, not %d", awaited.Batch, request.Batch)
	case approvals.SeparateDuties && slices.Contains(starters, request.Actor):
		return fmt.Errorf("actor: %s has started, edited, enabled or retried the rollout, and may not approve it (spec.approvals.separateDuties): somebody else must", request.Actor)
	}
	return nil
}

// ApprovalHolds reports whether an approval counts still.
func ApprovalHolds(approvals *ranv1.Approvals, at, now time.Time) bool {
	expiry := ApprovalExpiry(approvals)
	return expiry == 0 || now.Sub(at) < expiry
}

// ApprovalExpiry is for how long an approval is waited for, and holds; 0 is without limit.
func ApprovalExpiry(approvals *ranv1.Approvals) time.Duration {
	if approvals == nil {
		return 0
	}
	return time.Duration(approvals.Expiry) * time.Minute
}
