package rollout_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/rollout"
)

func TestWhereAnApprovalIsNeeded(t *testing.T) {
	plan := [][]string{{"a"}, {"b"}, {"c", "d"}, {"e"}}
	const none = ranv1.ApprovalPoint("")
	tests := []struct {
		name      string
		approvals *ranv1.Approvals
		canaries  []string
		want      []ranv1.ApprovalPoint
	}{
		{"nowhere by default", nil, []string{"a", "b"}, []ranv1.ApprovalPoint{none, none, none, none}},
		{"before the canaries", &ranv1.Approvals{BeforeCanaries: true}, []string{"a", "b"}, []ranv1.ApprovalPoint{ranv1.BeforeCanaries, none, none, none}},
		{"after the last canary", &ranv1.Approvals{AfterCanaries: true}, []string{"a", "b"}, []ranv1.ApprovalPoint{none, none, ranv1.AfterCanaries, none}},
		{"before each batch", &ranv1.Approvals{BeforeEachBatch: true}, nil, []ranv1.ApprovalPoint{ranv1.BeforeEachBatch, ranv1.BeforeEachBatch, ranv1.BeforeEachBatch, ranv1.BeforeEachBatch}},
		{
			"several approvals before the same batch are one", &ranv1.Approvals{BeforeCanaries: true, AfterCanaries: true, BeforeEachBatch: true},
			[]string{"a", "b"},
			[]ranv1.ApprovalPoint{ranv1.BeforeCanaries, ranv1.BeforeEachBatch, ranv1.AfterCanaries, ranv1.BeforeEachBatch},
		},
		{"canaries that need no work do not remove the approval", &ranv1.Approvals{AfterCanaries: true}, []string{"x"}, []ranv1.ApprovalPoint{ranv1.AfterCanaries, none, none, none}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var got []ranv1.ApprovalPoint
			for next := range plan {
				got = append(got, rollout.ApprovalBefore(test.approvals, plan, test.canaries, next, next))
			}
			require.Equal(t, test.want, got)
		})
	}
}

func TestASkippedBatchDoesNotSkipItsApproval(t *testing.T) {
	plan := [][]string{{"a"}, {"b"}, {"c", "d"}, {"e"}}
	const none = ranv1.ApprovalPoint("")
	both := &ranv1.Approvals{BeforeCanaries: true, AfterCanaries: true}
	after := &ranv1.Approvals{AfterCanaries: true}
	for _, test := range []struct {
		name      string
		approvals *ranv1.Approvals
		// todo are the batches that still have work, counted from 0.
		todo []int
		want []ranv1.ApprovalPoint
	}{
		{"the canaries are done, and the batch after them", after, []int{3}, []ranv1.ApprovalPoint{ranv1.AfterCanaries}},
		{"the canaries are done", after, []int{2, 3}, []ranv1.ApprovalPoint{ranv1.AfterCanaries, none}},
		{"the last canary is done", after, []int{0, 3}, []ranv1.ApprovalPoint{none, ranv1.AfterCanaries}},
		{"only a canary is left", after, []int{1}, []ranv1.ApprovalPoint{none}},
		{"the approval before the canaries, if the canaries are done", &ranv1.Approvals{BeforeCanaries: true}, []int{2, 3}, []ranv1.ApprovalPoint{ranv1.BeforeCanaries, none}},
		{"one approval if the canaries are done", both, []int{2, 3}, []ranv1.ApprovalPoint{ranv1.AfterCanaries, none}},
		{"approvals before and after the second canary", both, []int{1, 3}, []ranv1.ApprovalPoint{ranv1.BeforeCanaries, ranv1.AfterCanaries}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var got []ranv1.ApprovalPoint
			begun := 0
			for _, next := range test.todo {
				got = append(got, rollout.ApprovalBefore(test.approvals, plan, []string{"a", "b"}, begun, next))
				begun = next + 1
			}
			require.Equal(t, test.want, got)
		})
	}
}

func TestAnInvalidApprovalIsRefusedWithTheReason(t *testing.T) {
	awaited := &rollout.AwaitedApproval{Point: ranv1.AfterCanaries, Batch: 2}
	separate := &ranv1.Approvals{AfterCanaries: true, SeparateDuties: true}
	tests := []struct {
		name      string
		approvals *ranv1.Approvals
		awaited   *rollout.AwaitedApproval
		request   rollout.ApprovalRequest
		want      string
	}{
		{"by any person", &ranv1.Approvals{AfterCanaries: true}, awaited, rollout.ApprovalRequest{Actor: "ann"}, ""},
		{"by another person", separate, awaited, rollout.ApprovalRequest{Actor: "bob", Batch: 2}, ""},
		{"by the starter", separate, awaited, rollout.ApprovalRequest{Actor: "ann"}, "actor: ann has started, edited, enabled or retried the rollout"},
		{"without an actor", &ranv1.Approvals{}, awaited, rollout.ApprovalRequest{}, "actor: required to approve afterCanaries (batch 2)"},
		{"of another batch", separate, awaited, rollout.ApprovalRequest{Actor: "bob", Batch: 3}, "waits for the approval of batch 2, not 3"},
		{"without a pending approval", separate, nil, rollout.ApprovalRequest{Actor: "bob"}, "does not wait for an approval: BatchInProgress"},
		{"without approvals in the spec", nil, nil, rollout.ApprovalRequest{Actor: "bob"}, "does not wait for an approval"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			err := rollout.CheckApproval(test.approvals, test.awaited, test.request, []string{"ann"}, "BatchInProgress: batch 1 of 3")
			if test.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, test.want)
		})
	}
}

func TestAnApprovalHoldsUntilItExpires(t *testing.T) {
	hour := &ranv1.Approvals{Expiry: 60}
	require.True(t, rollout.ApprovalHolds(hour, noon, noon.Add(59*time.Minute)))
	require.False(t, rollout.ApprovalHolds(hour, noon, noon.Add(time.Hour)))
	require.True(t, rollout.ApprovalHolds(&ranv1.Approvals{}, noon, noon.Add(1000*time.Hour)), "without an expiry it is always valid")
}
