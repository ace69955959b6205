package nodemaintenance

import (
	"encoding/json"
	"time"

	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/emergency"
	"drydock.dev/drydock/internal/scheduling"
	"drydock.dev/drydock/internal/temporal"
)

// Input names a node of a cluster, and its maintenance.
type Input struct {
	Cluster string `json:"cluster"`
	// TaskQueue of the cluster's activities, from a parent; empty until it is looked up.
	TaskQueue string `json:"taskQueue,omitempty"`
	// Object is the request. Its status is ignored.
	Object maintenancev1.NodeMaintenance `json:"object"`
	// Source is the NodeMaintenance in the cluster that requested the maintenance and shows its status; nil: it was requested without one.
	Source *temporal.Object `json:"source,omitempty"`
	// Unserved: the worker that requested the maintenance was the first to hold the object of Source, and this is the first workflow with its id. So no other
	// worker has served the object.
	Unserved bool `json:"unserved,omitempty"`
	// DoneWhenReady: the requestor has no work on the node, which is returned as soon as it is ready.
	DoneWhenReady bool `json:"doneWhenReady,omitempty"`
	// Parent is the workflow ID of the ClusterUpgrade that is the requestor and receives progress reports; empty: none.
	Parent string `json:"parent,omitempty"`
	// ProgressLimit is the maximum interval between progress reports to the parent.
	ProgressLimit time.Duration `json:"progressLimit,omitempty"`
	// Slot is the parent's slot for the node, which a completed maintenance returns; nil: the maintenance requests its own.
	Slot *scheduling.HeldSlot `json:"slot,omitempty"`
	// LockTimeLeft is the rest of lockTimeoutSeconds after an earlier maintenance of the node; nil: the full timeout.
	LockTimeLeft *maintenancev1.LockTimeLeft `json:"lockTimeLeft,omitempty"`
	// Held is the state of the emergency stop that the parent has. Without a parent, the maintenance subscribes to it.
	Held emergency.State `json:"held"`
	// Carried is the state of the previous run; nil in the first run.
	Carried *State `json:"carried,omitempty"`

	// Written is Object as the requestor wrote it, including unknown fields.
	Written json.RawMessage
}

// Continues implements kit.Continued.
func (in Input) Continues() bool { return in.Carried != nil }

// UnmarshalJSON also keeps the object as written, so that a misspelled field is refused, not dropped.
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
