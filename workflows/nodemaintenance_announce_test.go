package workflows

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"drydock.dev/drydock/activities"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/temporal"
)

func TestEveryHandOverAndEveryFailureOfTheRequestorIsAnnouncedOnTheNode(t *testing.T) {
	w := newWorld(t)
	signalWhen(w, inState(maintenancev1.NodeReady), temporal.SignalFail, temporal.SignalRequest{Actor: "driver", Reason: "no firmware"})
	w.RegisterDelayedCallback(func() { w.SignalWorkflow(temporal.SignalRecover, nil) }, time.Hour)
	w.RegisterDelayedCallback(func() { w.SignalWorkflow(temporal.SignalDone, nil) }, 2*time.Hour)
	in := handOver()
	w.ExecuteWorkflow(NodeMaintenance, in)

	requireResult[nodeStatus](w)
	var announced []activities.AnnounceStateInput
	for _, input := range w.inputs["AnnounceState"] {
		announcement := input.(activities.AnnounceStateInput)
		require.Equal(t, in.Object.Spec.NodeName, announcement.Node)
		announcement.NodeRef = activities.NodeRef{}
		announced = append(announced, announcement)
	}
	ready := "the node is ready, and handed over to " + in.Object.Spec.RequestorID
	require.Equal(t, []activities.AnnounceStateInput{
		{State: maintenancev1.NodeReady, Occurrence: 1, Message: ready},
		{
			State: maintenancev1.NodeRequestorFailed, Occurrence: 2,
			Message: "the work on the node has failed, says driver: no firmware; it stays out of service until somebody decides",
		},
		{State: maintenancev1.NodeReady, Occurrence: 3, Message: ready},
	}, announced)
}

func TestWhatCannotBeAnnouncedHoldsUpNothing(t *testing.T) {
	w := newWorld(t)
	begin := w.Now()
	w.fail["AnnounceState"] = always(errors.New("no worker heard it"))
	signalWhen(w, inState(maintenancev1.NodeReady), temporal.SignalDone, nil)
	w.ExecuteWorkflow(NodeMaintenance, handOver())

	require.Equal(t, maintenancev1.NodeCompleted, requireResult[nodeStatus](w).State)
	require.NotEmpty(t, w.inputs["AnnounceState"])
	require.WithinDuration(t, begin, w.Now(), 3*time.Second, "done is heard at once")
}

func TestNobodyIsToldOfAHandOverToNobody(t *testing.T) {
	w := newWorld(t)
	in := wholeMaintenance()
	in.DoneWhenReady = true
	w.ExecuteWorkflow(NodeMaintenance, in)
	requireResult[nodeStatus](w)
	require.NotContains(t, w.called(), "AnnounceState", "the Job's Events say all there is")
	require.False(t, w.inputs["AwaitNodeHealthy"][0].(activities.AwaitNodeHealthyInput).NoWork)

	w, in.Object.Spec.Action = newWorld(t), nil
	w.ExecuteWorkflow(NodeMaintenance, in)
	requireResult[nodeStatus](w)
	require.NotContains(t, w.called(), "AnnounceState")
	require.True(t, w.inputs["AwaitNodeHealthy"][0].(activities.AwaitNodeHealthyInput).NoWork, "that it was ready is announced with its checks")
}

func TestTheNodeIsToldHowItsMaintenanceHasEnded(t *testing.T) {
	tests := []struct {
		name string
		play func(*world)
		want activities.MaintenanceEnd
	}{
		{
			"completed", func(*world) {},
			activities.MaintenanceEnd{State: maintenancev1.NodeCompleted, Message: "the maintenance is completed"},
		},
		{
			"failed", func(w *world) {
				w.fail["Drain"] = always(temporal.Error(temporal.ErrDrainTimedOut, "drain n1: 2 pods are left", nil))
			},
			activities.MaintenanceEnd{State: maintenancev1.NodeFailed, Message: "the maintenance has failed: DrainTimedOut: drain n1: 2 pods are left"},
		},
		{
			"cancelled by a person", func(w *world) {
				w.blocked["Drain"] = true
				signalWhen(w, inState(maintenancev1.NodeDraining), temporal.SignalCancel, temporal.SignalRequest{Actor: "ann", Reason: "wrong node"})
			},
			activities.MaintenanceEnd{State: maintenancev1.NodeCancelled, Message: "the maintenance was cancelled by ann: wrong node"},
		},
		{
			"without its node", func(w *world) {
				w.fail["Drain"] = always(temporal.Error(temporal.ErrNodeGone, "node n1 was deleted", nil))
			},
			activities.MaintenanceEnd{State: maintenancev1.NodeGone, Message: "the maintenance has failed: NodeGone: node n1 was deleted"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			tt.play(w)
			w.ExecuteWorkflow(NodeMaintenance, wholeMaintenance())
			require.Equal(t, tt.want, *w.inputs["ReturnNode"][0].(activities.ReturnNodeInput).Ended)
		})
	}
}
