package rollout_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/rollout"
	"drydock.dev/drydock/internal/temporal"
	rolloutworkflow "drydock.dev/drydock/workflows/rollout"
	"drydock.dev/drydock/workflows/workflowtest"
)

const (
	chat  = "https://chat.example.com/hook"
	pager = "https://alerts.example.com/api/v2/alerts"
)

func TestReceiversAreNotifiedOfEachFactOnce(t *testing.T) {
	w, clusters := workflowtest.NewGroupWorld(t, []string{"c1"}, []string{"c2"})
	clusters.Outcomes["c2"] = workflowtest.UntilCancelled
	object := approvedRollout()
	object.Spec.Approvals.SeparateDuties, object.Spec.RemediationStrategy.Timeout = false, 600
	object.Spec.Notify = []drydockv1.Notification{
		{URL: chat, Format: drydockv1.FormatSlack, BlockedAfter: "45m"},
		{URL: pager, Format: drydockv1.FormatAlertmanager, Events: []drydockv1.NotificationEvent{drydockv1.EventBlocked, drydockv1.EventHeld}, BlockedAfter: "30m"},
	}
	notices := w.RecordNotices()
	w.RegisterDelayedCallback(func() { w.SendUpdate(temporal.UpdateApprove, rollout.ApprovalRequest{Actor: "bob"}) }, time.Hour)
	w.RegisterDelayedCallback(func() { w.SignalWorkflow(temporal.SignalHeld, workflowtest.HeldState(2, "all")) }, 61*time.Minute)
	w.RegisterDelayedCallback(func() { w.SignalWorkflow(temporal.SignalHeld, workflowtest.HeldState(3)) }, 62*time.Minute)
	progress := func(after time.Duration, reason string) {
		w.RegisterDelayedCallback(func() {
			status := ranv1.ClusterStatus{Name: "c2", State: ranv1.ClusterRunning, Step: "worker-1: Draining", Reason: reason, Message: "shop/web allows 0 of 3"}
			if reason != "" {
				status.Since = &metav1.Time{Time: w.Now()}
			}
			w.SignalWorkflow(temporal.SignalClusterProgress, status)
		}, after)
	}
	progress(63*time.Minute, "DisruptionBudget")
	progress(64*time.Minute, "")
	progress(70*time.Minute, "DisruptionBudget")  // until 103m
	progress(103*time.Minute, "WaitingForWindow") // planned, however long
	w.RegisterDelayedCallback(func() { w.SignalWorkflow(temporal.SignalCancel, temporal.SignalRequest{Actor: "ann"}) }, 160*time.Minute)
	started := w.Now()
	w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, rolloutworkflow.Input{Object: object})
	workflowtest.RequireCancelled[workflowtest.GroupStatus](w)

	var told []string
	for _, notice := range notices.ByURL[chat] {
		require.Nil(t, notice.Fact.ResolvedAt, "a chat is not told that a state has ended")
		told = append(told, notice.Fact.Text())
	}
	require.Len(t, told, 4, told)
	require.Equal(t, "rollout ops/june: started: 2 clusters in 2 batches", told[0])
	require.Contains(t, told[1], "rollout ops/june: waits for an approval: an approver must approve afterCanaries (batch 2)")
	require.Contains(t, told[2], "rollout ops/june: is held: ")
	require.Contains(t, told[3], "rollout ops/june: failed (Cancelled): ")

	require.Equal(t, []string{"Held", "Held resolved", "Blocked", "Blocked resolved"}, notices.Events(pager))
	blocked := notices.ByURL[pager][2].Fact
	require.Equal(t, "DisruptionBudget", blocked.Reason)
	require.Contains(t, blocked.Message, "shop/web allows 0 of 3")
	require.Equal(t, 70*time.Minute, blocked.At.Sub(started).Round(time.Minute), "a wait is measured from its begin")

	seen := map[string]bool{}
	for _, id := range notices.IDs {
		require.True(t, strings.HasPrefix(id, "notice/rollouts/ops/june/"), id)
		require.False(t, seen[id], id)
		seen[id] = true
	}
}

func TestARolloutWithoutReceiversNotifiesNobody(t *testing.T) {
	w, _ := workflowtest.NewGroupWorld(t, []string{"c1"})
	notices := w.RecordNotices()
	w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, rolloutworkflow.Input{Object: workflowtest.ARollout()})
	workflowtest.RequireResult[workflowtest.GroupStatus](w)
	require.Empty(t, notices.IDs)
}
