package nodemaintenance

import (
	"encoding/json"
	"time"

	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/emergency"
	"drydock.dev/drydock/internal/scheduling"
)

// Input says which node of which cluster is maintained, and how.
type Input struct {
	Cluster string `json:"cluster"`
	// TaskQueue of the cluster's activities, from a parent; else it is looked up.
	TaskQueue string `json:"taskQueue,omitempty"`
	// Object is the request. Its status is not read.
	Object maintenancev1.NodeMaintenance `json:"object"`
	// DoneWhenReady: the requestor has no work of its own on the node; it is returned as soon as it is ready.
	DoneWhenReady bool `json:"doneWhenReady,omitempty"`
	// Parent is the id of the ClusterUpgrade that is the requestor and is told of progress; empty: there is none.
	Parent string `json:"parent,omitempty"`
	// ProgressLimit is the longest that the parent waits to be told of a change.
	ProgressLimit time.Duration `json:"progressLimit,omitempty"`
	// Slot is the parent's for the node; a maintenance that completes returns it. nil: it asks for one itself.
	Slot *scheduling.HeldSlot `json:"slot,omitempty"`
	// LockTimeLeft is what an earlier turn of the node has left of lockTimeoutSeconds; nil: the workload locks have all of it.
	LockTimeLeft *maintenancev1.LockTimeLeft `json:"lockTimeLeft,omitempty"`
	// Held is what the parent knows of the emergency stop. Without a parent it is asked for.
	Held emergency.State `json:"held"`
	// Carried is the state of the run before, if there was one.
	Carried *State `json:"carried,omitempty"`

	// Written is Object as the requestor wrote it, with the fields that it does not have.
	Written json.RawMessage
}

// UnmarshalJSON keeps also the object as it was written: a field that is misspelled is to be refused, and not dropped.
func (in *Input) UnmarshalJSON(text []byte) error {
	type plain Input
	if err := json.Unmarshal(text, (*plain)(in)); err != nil {
		return err
	}
	var written struct {
		Object json.RawMessage `json:"object"`
	}
	err := json.Unmarshal(text, &written)
	in.Written = written.Object
	return err
}
