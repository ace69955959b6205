package nodemaintenance_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/nodemaintenance"
	"drydock.dev/drydock/workflows/workflowtest"
)

const (
	chat  = "https://chat.example.com/hook"
	pager = "https://alerts.example.com/api/v2/alerts"

	mailbox = "mailto:ann@example.com"
)

func notifying(in nodemaintenance.Input) nodemaintenance.Input {
	in.Object.Spec.Notify = []drydockv1.Notification{
		{URL: chat}, {URL: pager, Format: drydockv1.FormatAlertmanager}, {URL: mailbox, Template: &drydockv1.NotificationTemplate{Title: "{{ .Event }} of {{ .Kind }}"}},
	}
	return in
}

func TestReceiversFollowAMaintenance(t *testing.T) {
	w := workflowtest.NewWorld(t)
	notices := w.RecordNotices()
	in := notifying(workflowtest.FullMaintenance())
	in.Object.Spec.Action = &maintenancev1.Action{Type: maintenancev1.ActionNone}
	workflowtest.SignalWhen(w, func(s workflowtest.NodeStatus) bool { return s.State == maintenancev1.NodeReady }, temporal.SignalDone, nil)
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, in)
	workflowtest.RequireResult[workflowtest.NodeStatus](w)
	require.Equal(t, []string{"Started", "Ready", "Completed"}, notices.Events(chat))
	require.Equal(t, []string{"Started", "Ready", "Ready resolved", "Completed"}, notices.Events(pager))
	require.Equal(t, []string{"Started", "Ready", "Completed"}, notices.Events(mailbox))
	require.Equal(t, "Ready of maintenance", notices.ByURL[mailbox][1].Text().Title)
	require.Equal(t, "maintenance "+in.Cluster+"/"+in.Object.Namespace+"/"+in.Object.Name+": completed: node "+in.Object.Spec.NodeName+" in cluster "+in.Cluster, notices.ByURL[chat][2].Fact.Text())
}

func TestReceiversAreNotifiedOfALongWaitForASlotAndOfACancellation(t *testing.T) {
	w := workflowtest.NewWorld(t)
	w.Scheduler.Capacity = 0
	notices := w.RecordNotices()
	w.SimulateAfter(29*time.Minute, func() { require.Empty(t, notices.IDs) })
	w.SimulateAfter(2*time.Hour, func() { w.SignalWorkflow(temporal.SignalCancel, temporal.SignalRequest{Actor: "ann"}) })
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, notifying(workflowtest.FullMaintenance()))
	workflowtest.RequireCancelled[workflowtest.NodeStatus](w)
	require.Equal(t, []string{"Blocked", "Failed"}, notices.Events(chat))
	require.Equal(t, []string{"Blocked", "Blocked resolved", "Failed"}, notices.Events(pager))
	require.Equal(t, "NoSlot", notices.ByURL[chat][0].Fact.Reason)
	require.Equal(t, "Cancelled", notices.ByURL[chat][1].Fact.Reason)
}

func TestAnEditOfTheReceiversDoesNotDrainAgain(t *testing.T) {
	w, in := workflowtest.NewWorld(t), workflowtest.RequestorMaintenance()
	notices := w.RecordNotices()
	w.Blocked["Drain"] = true
	receivers := func(s *maintenancev1.NodeMaintenanceSpec) { s.Notify = []drydockv1.Notification{{URL: chat}} }
	w.EachMinute(
		edit(w, in, "", receivers),
		func() {
			require.Len(t, w.InputsOf("Drain"), 1)
			w.Blocked["Drain"] = false
		},
		edit(w, in, "", func(s *maintenancev1.NodeMaintenanceSpec) {
			receivers(s)
			s.DrainSpec = &maintenancev1.DrainSpec{Force: true}
		}),
		w.RequireNodeKept(maintenancev1.NodeReady),
		w.Signal(temporal.SignalDone, ""),
	)
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, in)
	workflowtest.RequireResult[workflowtest.NodeStatus](w)
	require.Equal(t, []string{"Ready", "Completed"}, notices.Events(chat))
	require.Len(t, w.InputsOf("Drain"), 2)
}
