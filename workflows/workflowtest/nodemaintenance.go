package workflowtest

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/scheduling"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/nodemaintenance"
)

type NodeStatus = maintenancev1.NodeMaintenanceStatus

// WholeMaintenance asks for everything that a maintenance can do, with a Job as its work.
func WholeMaintenance() nodemaintenance.Input {
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

// HandOver asks for a node that the requestor works on itself.
func HandOver() nodemaintenance.Input {
	in := WholeMaintenance()
	in.Object.Spec.Action = nil
	return in
}

func InState(state maintenancev1.NodeState) func(NodeStatus) bool {
	return func(s NodeStatus) bool { return s.State == state }
}

func States(s NodeStatus) []maintenancev1.NodeState {
	var states []maintenancev1.NodeState
	for _, state := range s.States {
		states = append(states, state.State)
	}
	return states
}

// OfRollout is a maintenance whose parent has a slot for it.
func OfRollout() nodemaintenance.Input {
	in := WholeMaintenance()
	in.TaskQueue, in.Parent, in.DoneWhenReady = temporal.TaskQueue, "cgu/ops/june/c1", true
	in.Slot = &scheduling.HeldSlot{Owner: scheduling.SlotOwner{WorkflowID: in.Parent, FirstRunID: "run"}, Number: 7}
	return in
}
