package temporal

import (
	"fmt"

	commonpb "go.temporal.io/api/common/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// Object names an object in a cluster: the request of a workflow, which shows the workflow's status.
type Object struct {
	// Cluster of the object; empty: the hub.
	Cluster    string    `json:"cluster"`
	APIVersion string    `json:"apiVersion"`
	Kind       string    `json:"kind"`
	Namespace  string    `json:"namespace,omitempty"`
	Name       string    `json:"name"`
	UID        types.UID `json:"uid"`
}

// ObjectRequest is what a workflow that was started by an object follows of it. Every signal has all of it.
type ObjectRequest[Spec any] struct {
	UID types.UID `json:"uid"`
	// Generation of the object.
	Generation int64 `json:"generation,omitempty"`
	// Spec with its defaults.
	Spec Spec `json:"spec"`
	// InvalidSpec is why the current spec of the object is invalid; empty: it is valid.
	InvalidSpec string `json:"invalidSpec,omitempty"`
	// Deleted: the object has a deletionTimestamp, or no longer exists.
	Deleted bool `json:"deleted,omitempty"`
}

// GroupVersionKind returns the kind of the object.
func (o Object) GroupVersionKind() schema.GroupVersionKind {
	return schema.FromAPIVersionAndKind(o.APIVersion, o.Kind)
}

// NamespacedName returns the name of the object within its cluster.
func (o Object) NamespacedName() types.NamespacedName {
	return types.NamespacedName{Namespace: o.Namespace, Name: o.Name}
}

// String returns the object as Kind namespace/name.
func (o Object) String() string {
	name := o.Name
	if o.Namespace != "" {
		name = o.Namespace + "/" + name
	}
	return o.Kind + " " + name
}

// MemoObject is the memo field of a workflow with its Object.
const MemoObject = "object"

// ObjectOf returns the object that a run of a workflow works for; nil: there is none.
func ObjectOf(run *workflowpb.WorkflowExecutionInfo) (*Object, error) {
	object, err := ObjectIn(run.GetMemo())
	if err != nil {
		return nil, fmt.Errorf("workflow %s: %w", run.GetExecution().GetWorkflowId(), err)
	}
	return object, nil
}

// ObjectIn returns the object in the memo of a run; nil: there is none.
func ObjectIn(memo *commonpb.Memo) (*Object, error) {
	payload, ok := memo.GetFields()[MemoObject]
	if !ok {
		return nil, nil
	}
	object := &Object{}
	if err := DataConverter().FromPayload(payload, object); err != nil {
		return nil, fmt.Errorf("read memo field %s: %w", MemoObject, err)
	}
	return object, nil
}

// MemoStarted is the memo field of a workflow that a person started, with a SignalRequest: by whom, and why.
const MemoStarted = "started"

// StartedBy returns by whom a workflow was started, and why; empty if that is not known.
func StartedBy(memo *commonpb.Memo) (by SignalRequest) {
	if payload, ok := memo.GetFields()[MemoStarted]; ok {
		// An undecodable value is from another program.
		_ = DataConverter().FromPayload(payload, &by)
	}
	return by
}

// QueryObjectStatus returns the status that the object of a workflow shows.
const QueryObjectStatus = "objectStatus"

// SignalObject carries the whole current request of an object to the workflow that it started. A repeated signal changes nothing.
const SignalObject = "object"
