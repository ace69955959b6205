package nodemaintenance_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"drydock.dev/drydock/activities/activitykit"
	"drydock.dev/drydock/activities/events"
	"drydock.dev/drydock/activities/health"
	"drydock.dev/drydock/activities/node"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/nodemaintenance"
	"drydock.dev/drydock/workflows/workflowtest"
)

func TestReadinessAndFailuresOfRequestorsAreNodeEvents(t *testing.T) {
	w := workflowtest.NewWorld(t)
	workflowtest.SignalWhen(w, workflowtest.InState(maintenancev1.NodeReady), temporal.SignalFail, temporal.SignalRequest{Actor: "driver", Reason: "no firmware"})
	w.RegisterDelayedCallback(func() { w.SignalWorkflow(temporal.SignalRecover, nil) }, time.Hour)
	w.RegisterDelayedCallback(func() { w.SignalWorkflow(temporal.SignalDone, nil) }, 2*time.Hour)
	in := workflowtest.RequestorMaintenance()
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, in)

	workflowtest.RequireResult[workflowtest.NodeStatus](w)
	var announced []node.AnnounceStateInput
	for _, input := range w.Inputs["AnnounceState"] {
		announcement := input.(node.AnnounceStateInput)
		require.Equal(t, in.Object.Spec.NodeName, announcement.Node)
		require.False(t, announcement.At.IsZero())
		announcement.NodeRef, announcement.At = activitykit.NodeRef{}, time.Time{}
		announced = append(announced, announcement)
	}
	ready := "the node is ready for " + in.Object.Spec.RequestorID
	require.Equal(t, []node.AnnounceStateInput{
		{State: maintenancev1.NodeReady, Occurrence: 1, Message: ready},
		{
			State: maintenancev1.NodeRequestorFailed, Occurrence: 2,
			Message: "the work on the node has failed, says driver: no firmware; it stays out of service until the failure is cleared (recover), or done or cancel is sent",
		},
		{State: maintenancev1.NodeReady, Occurrence: 3, Message: ready},
	}, announced)
}

func TestAFailedEventDoesNotDelayTheMaintenance(t *testing.T) {
	w := workflowtest.NewWorld(t)
	begin := w.Now()
	w.Fail["AnnounceState"] = workflowtest.Always(errors.New("no worker answered"))
	workflowtest.SignalWhen(w, workflowtest.InState(maintenancev1.NodeReady), temporal.SignalDone, nil)
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, workflowtest.RequestorMaintenance())

	require.Equal(t, maintenancev1.NodeCompleted, workflowtest.RequireResult[workflowtest.NodeStatus](w).State)
	require.NotEmpty(t, w.Inputs["AnnounceState"])
	require.WithinDuration(t, begin, w.Now(), 3*time.Second, "done is handled immediately")
}

// The watch for staleness begins later: short work costs no activity for it.
func TestTheReadinessOfAnObjectIsAnEventOnItsNode(t *testing.T) {
	for _, after := range []time.Duration{time.Second, time.Minute} { // from Ready to done
		t.Run(after.String(), func(t *testing.T) {
			w := workflowtest.NewWorld(t)
			w.When(func() bool { return workflowtest.StatusOf[workflowtest.NodeStatus](w).State == maintenancev1.NodeReady }, func() {
				w.RegisterDelayedCallback(w.Signal(temporal.SignalDone, ""), after)
			})
			in := objectMaintenance()
			w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, in)
			workflowtest.RequireResult[workflowtest.NodeStatus](w)
			var onNode []events.NodeEvent
			for _, write := range w.Published() {
				for _, event := range write.OnNodes {
					require.Equal(t, in.Object.Spec.NodeName, event.Node)
					require.Contains(t, fmt.Sprint(write.Status), "state:Ready", "with the status")
					onNode = append(onNode, event)
				}
			}
			require.Len(t, onNode, 1)
			require.Equal(t, string(maintenancev1.NodeReady), onNode[0].Reason)
			require.Equal(t, "the node is ready for "+in.Object.Spec.RequestorID, onNode[0].Message)
			require.Empty(t, w.Inputs["AnnounceState"])
			require.Equal(t, after == time.Minute, len(w.InputsOf("AwaitStale")) > 0)
		})
	}
}

func TestANodeWithoutARequestorGetsNoReadyEvent(t *testing.T) {
	w := workflowtest.NewWorld(t)
	in := workflowtest.FullMaintenance()
	in.DoneWhenReady = true
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, in)
	workflowtest.RequireResult[workflowtest.NodeStatus](w)
	require.NotContains(t, w.Called(), "AnnounceState", "the Job has its own Events")
	require.Nil(t, w.Inputs["AwaitNodeHealthy"][0].(health.AwaitNodeHealthyInput).Ready)

	w, in.Object.Spec.Action = workflowtest.NewWorld(t), nil
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, in)
	workflowtest.RequireResult[workflowtest.NodeStatus](w)
	require.NotContains(t, w.Called(), "AnnounceState")
	require.Equal(t, maintenancev1.NodeReady, w.Inputs["AwaitNodeHealthy"][0].(health.AwaitNodeHealthyInput).Ready.State, "the health check also records that the node was ready")
}

func TestTheResultOfAMaintenanceIsANodeEvent(t *testing.T) {
	tests := []struct {
		name string
		play func(*workflowtest.World)
		want node.MaintenanceEnd
	}{
		{
			"completed", func(*workflowtest.World) {},
			node.MaintenanceEnd{State: maintenancev1.NodeCompleted, Message: "the maintenance is completed"},
		},
		{
			"failed", func(w *workflowtest.World) {
				w.Fail["Drain"] = workflowtest.Always(temporal.Error(temporal.ErrDrainTimedOut, "drain n1: 2 pods are left", nil))
			},
			node.MaintenanceEnd{State: maintenancev1.NodeFailed, Message: "the maintenance has failed: DrainTimedOut: drain n1: 2 pods are left"},
		},
		{
			"cancelled by a person", func(w *workflowtest.World) {
				w.Blocked["Drain"] = true
				workflowtest.SignalWhen(w, workflowtest.InState(maintenancev1.NodeDraining), temporal.SignalCancel, temporal.SignalRequest{Actor: "ann", Reason: "wrong node"})
			},
			node.MaintenanceEnd{State: maintenancev1.NodeCancelled, Message: "the maintenance was cancelled by ann: wrong node"},
		},
		{
			"without its node", func(w *workflowtest.World) {
				w.Fail["Drain"] = workflowtest.Always(temporal.Error(temporal.ErrNodeGone, "node n1 was deleted", nil))
			},
			node.MaintenanceEnd{State: maintenancev1.NodeGone, Message: "the maintenance has failed: NodeGone: node n1 was deleted"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := workflowtest.NewWorld(t)
			tt.play(w)
			w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, workflowtest.FullMaintenance())
			require.Equal(t, tt.want, *w.Inputs["ReturnNode"][0].(node.ReturnNodeInput).Ended)
		})
	}
}
