package workflowtest

import (
	"slices"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/scheduling"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/nodemaintenance"
)

// NodeStatus is the status of a node maintenance.
type NodeStatus = maintenancev1.NodeMaintenanceStatus

// FullMaintenance is a maintenance with every optional step and a Job.
func FullMaintenance() nodemaintenance.Input {
	return nodemaintenance.Input{Cluster: "c1", Object: maintenancev1.NodeMaintenance{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ops", Name: "n1"},
		Spec: maintenancev1.NodeMaintenanceSpec{
			RequestorID: "ops.example.com", NodeName: "n1",
			WaitForPodCompletion: &maintenancev1.WaitForPodCompletionSpec{},
			DrainSpec:            &maintenancev1.DrainSpec{},
			Action:               &maintenancev1.Action{Type: maintenancev1.ActionJob, Job: &maintenancev1.JobAction{Namespace: "ops"}},
		},
	}}
}

// RequestorMaintenance is a maintenance without a Job: its requestor works on the node.
func RequestorMaintenance() nodemaintenance.Input {
	in := FullMaintenance()
	in.Object.Spec.Action = nil
	return in
}

// InState returns a condition that holds in that state.
func InState(state maintenancev1.NodeState) func(NodeStatus) bool {
	return func(s NodeStatus) bool { return s.State == state }
}

// States returns the states that the maintenance has been in, in order.
func States(s NodeStatus) []maintenancev1.NodeState {
	var states []maintenancev1.NodeState
	for _, state := range s.States {
		states = append(states, state.State)
	}
	return states
}

// MaintenanceOfRollout is a maintenance of a rollout, which holds the slot.
func MaintenanceOfRollout() nodemaintenance.Input {
	in := FullMaintenance()
	in.TaskQueue, in.Parent, in.DoneWhenReady = temporal.TaskQueue, "cgu/ops/june/c1", true
	in.Slot = &scheduling.HeldSlot{Owner: scheduling.SlotOwner{WorkflowID: in.Parent, FirstRunID: "run"}, Number: 7}
	return in
}

// CalledTimes returns a condition that holds after that many calls of the activity.
func (w *World) CalledTimes(activity string, times int) func() bool {
	return func() bool { return len(w.InputsOf(activity)) >= times }
}

// Ungranted returns the requests that are not granted.
func Ungranted(set scheduling.SlotRequests) []scheduling.Slot {
	return slices.DeleteFunc(slices.Clone(set.Slots), func(s scheduling.Slot) bool { return s.Granted })
}

// Peer is the owner of another, simulated maintenance of the same node.
var Peer = scheduling.SlotOwner{WorkflowID: "node/c1/gpu/n1", FirstRunID: "run-of-peer"}

// Occupy grants the node to another owner before the maintenance under test requests a slot.
func (w *World) Occupy(holder scheduling.SlotOwner) {
	w.RegisterDelayedCallback(func() {
		w.RequestSlots(scheduling.SlotRequests{
			Owner: holder, Version: 1, Namespace: "gpu", Requestor: "gpu.example.com", Maintenances: "node/c1/gpu/",
			Slots: []scheduling.Slot{{Number: 1, Name: "n1", Node: "n1", Since: w.Now()}},
		})
	}, 0)
}

// Vacate releases the slot of Peer.
func (w *World) Vacate() {
	w.RequestSlots(scheduling.SlotRequests{Owner: Peer, Version: 2})
}

// JoinStep returns a step that adds a requestor to the maintenance under test.
func (w *World) JoinStep(id string) func() {
	return func() { w.RequireUpdateResult(w.Join(id), "") }
}

// Join sends the update that adds a requestor.
func (w *World) Join(id string) *UpdateResult {
	return w.SendUpdate(temporal.UpdateJoin, temporal.SignalRequest{Requestor: id, Actor: "kim"})
}

// RequireUpdateResult requires, at the end of the test, that the update succeeded, or was rejected with that problem.
func (w *World) RequireUpdateResult(a *UpdateResult, problem string) {
	w.T.Cleanup(func() {
		if problem != "" {
			require.ErrorContains(w.T, a.Rejected, problem)
			return
		}
		require.NoError(w.T, a.Rejected)
		require.NoError(w.T, a.Err)
		require.NotNil(w.T, a.Result)
	})
}

// EachMinute runs one step a minute. The first runs after a minute.
func (w *World) EachMinute(signals ...func()) {
	for i, signal := range signals {
		w.RegisterDelayedCallback(signal, time.Duration(i+1)*time.Minute)
	}
}

// Signal returns a step that sends a signal of a requestor.
func (w *World) Signal(name, requestor string) func() {
	return func() { w.SignalWorkflow(name, temporal.SignalRequest{Requestor: requestor}) }
}

// RequireNodeKept returns a step that requires the state, and that the return of the node has not begun.
func (w *World) RequireNodeKept(state maintenancev1.NodeState) func() {
	return func() {
		require.Equal(w.T, state, StatusOf[NodeStatus](w).State)
		require.NotContains(w.T, w.Called(), "AwaitNodeHealthy")
	}
}

// MaintenanceInWindow is a maintenance without a rollout that may start while window ops/night is open.
func MaintenanceInWindow() nodemaintenance.Input {
	in := FullMaintenance()
	in.Object.Namespace = "ops"
	in.Object.Spec.MaintenanceWindows = []drydockv1.WindowName{"night"}
	return in
}
