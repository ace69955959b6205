package temporal

import (
	"encoding/json"
	"strings"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
)

// QueryStatus is answered by every workflow with the status of its work.
const QueryStatus = "status"

// QueryRollout is answered by a rollout, also after its end, with its ClusterGroupUpgrade as it is saved on the hub: the spec with all edits, and
// the status in short.
const QueryRollout = "rollout"

// QueryPreviewEdit asks a workflow that has UpdateEdit what an edit would do. It has the payload of that update. A window also
// needs the moment and the edited calendar, see windows.PreviewRequest.
const QueryPreviewEdit = "previewEdit"

// QueryHeld asks a workflow that works on several clusters about clusters by name; it answers with Held.
const QueryHeld = "held"

// Held is why no new work starts. The status of a workflow that works on one cluster has the same fields.
type Held struct {
	// Held is the hold of the cluster, or of one of them.
	Held *drydockv1.Hold `json:"held,omitempty"`
	// Paused: its rollout is paused.
	Paused bool `json:"paused,omitempty"`
}

// Signals of people and programs. Their payload is a SignalRequest, or nothing.
const (
	// SignalCancel cancels the work and undoes it, as Temporal's own cancellation does.
	SignalCancel = "cancel"
	// SignalPause stops new work from starting; SignalResume lets it start again.
	SignalPause  = "pause"
	SignalResume = "resume"
	// SignalEnable starts a rollout that is only planned.
	SignalEnable = "enable"
	// SignalDone reports that the requestor has finished its work on a node.
	SignalDone = "done"
	// SignalFail reports that the requestor's work on a node has failed: the node stays out of service. SignalRecover revokes it.
	SignalFail    = "fail"
	SignalRecover = "recover"
)

// UpdateJoin adds the requestor of a SignalRequest to a NodeMaintenance: the node returns to service after that requestor is done, too.
const UpdateJoin = "join"

// Updates of a rollout. UpdateApprove has a rollout.ApprovalRequest, UpdateEdit a rollout.EditRequest.
const (
	UpdateApprove = "approve"
	UpdateEdit    = "edit"
)

// Updates of a HarborCluster, and of a status portal. To a HarborCluster UpdateApply carries a harbor.ApplyRequest, UpdateDelete a SignalRequest.
const (
	UpdateApply  = "apply"
	UpdateDelete = "delete"
)

// UpdateRetry is an update of the onboarding that carries an onboarding.Retry.
const UpdateRetry = "retry"

// Signals that workflows and activities send to workflows.
const (
	// SignalObserved carries an Observation from an activity to the workflow that runs it.
	SignalObserved = "observed"
	// SignalNodeProgress carries a ClusterNodeStatus from a NodeMaintenance to its ClusterUpgrade.
	SignalNodeProgress = "nodeProgress"
	// SignalWake asks a Sweeper to clean up now, or soon. Its payload is a SignalRequest.
	SignalWake = "wake"
	// SignalKeepAwake tells a Sweeper that a workflow begins, which will set marks: it must not rest. Its payload is a SignalRequest.
	SignalKeepAwake = "keepAwake"
	// SignalClusterProgress carries a ClusterStatus from a ClusterUpgrade to its ClusterGroupUpgrade.
	SignalClusterProgress = "clusterProgress"
	// SignalPreparationProgress carries the progress of clusters from a ClusterPreparation to its ClusterGroupUpgrade.
	SignalPreparationProgress = "preparationProgress"
)

// Messages of the emergency stop. Its updates have an emergency.Request and answer with an emergency.Answer.
const (
	UpdateHold    = "hold"
	UpdateRelease = "release"
	// SignalHold also carries an emergency.Request, for callers that cannot wait for a worker's answer.
	SignalHold = "hold"
	// SignalSubscribeHolds and SignalUnsubscribeHolds carry a Subscription: a workflow subscribes to holds, or unsubscribes.
	SignalSubscribeHolds   = "subscribeHolds"
	SignalUnsubscribeHolds = "unsubscribeHolds"
	// SignalHeld carries an emergency.State to a subscriber, and from a workflow to its children.
	SignalHeld = "held"
)

// Messages of the scheduler of a cluster's maintenances.
const (
	// SignalSlotRequests carries scheduling.SlotRequests from a slot owner to the scheduler.
	SignalSlotRequests = "slotRequests"
	// SignalSlotResponse carries a scheduling.SlotResponse from the scheduler to a slot owner.
	SignalSlotResponse = "slotResponse"
	// SignalSlotReturn carries a scheduling.SlotReturn from a node maintenance to the scheduler.
	SignalSlotReturn = "slotReturn"
	// SignalResync carries a scheduling.Resync to every slot owner, from a scheduler that has just started.
	SignalResync = "resync"
	// SignalNodeUpdate carries a scheduling.NodeUpdate from the watch on the nodes to the scheduler.
	SignalNodeUpdate = "nodeUpdate"
)

// Messages of a maintenance window. Its updates have requests of package windows: a DefineRequest to define and to edit it, an ExtendRequest, an
// EndRequest, a CancelRequest and an OverrideRequest.
const (
	UpdateDefine   = "define"
	UpdateExtend   = "extend"
	UpdateEnd      = "endEarly"
	UpdateCancel   = "cancel"
	UpdateOverride = "override"
	// SignalSubscribeWindow and SignalUnsubscribeWindow carry a Subscription: a workflow subscribes to the state of the window, or unsubscribes.
	SignalSubscribeWindow   = "subscribeWindow"
	SignalUnsubscribeWindow = "unsubscribeWindow"
	// SignalWindow carries a windows.Snapshot to a subscriber.
	SignalWindow = "window"
)

// Messages of a status portal, besides UpdateApply with a portal.ApplyRequest and UpdateDelete with a portal.DeleteRequest. All updates answer with a
// portal.Answer.
const (
	// UpdateDeclare carries a portal.ObjectRequest: an object on the hub declares a component or a maintenance, or no longer does. SignalObject carries a
	// portal.ObjectName: objects that may no longer exist.
	UpdateDeclare = "declare"
	// UpdateCancelMaintenance carries a portal.CancelRequest.
	UpdateCancelMaintenance = "cancelMaintenance"
	// SignalAnnouncement carries a portal.Announcement from a window to its portal. SignalAnnounce requests one from a window, with a portal.Inquiry.
	SignalAnnouncement = "announcement"
	SignalAnnounce     = "announce"
	// SignalMoved carries a portal.Move to a portal: components and maintenances that another portal shows now.
	SignalMoved = "moved"
)

// Subscription names the workflow to notify.
type Subscription struct {
	WorkflowID string `json:"workflowID"`
	// FirstRunID distinguishes a workflow from an earlier one with the same id.
	FirstRunID string `json:"firstRunID"`
	// Cluster limits the subscription to one cluster; empty: all.
	Cluster string `json:"cluster,omitempty"`
	// Known is the number of the state that the workflow has: it is notified of later ones.
	Known int64 `json:"known,omitempty"`
}

// SignalRequest has the sender and the reason of a signal. All fields are optional.
type SignalRequest struct {
	Actor  string `json:"actor,omitempty"`
	Reason string `json:"reason,omitempty"`
	// Requestor is the requestor of a maintenance that the signal is for; empty: the one that created it.
	Requestor string `json:"requestor,omitempty"`
}

// UnmarshalJSON accepts any payload that a person enters into the Web UI, so that no request is lost because of its form. Anything but an object is
// its reason. Do not embed SignalRequest in another payload: this method would read all of it and drop the other fields.
func (r *SignalRequest) UnmarshalJSON(data []byte) error {
	type plain SignalRequest
	if json.Unmarshal(data, (*plain)(r)) == nil {
		return nil
	}
	var text string
	if json.Unmarshal(data, &text) != nil {
		text = strings.TrimSpace(string(data))
	}
	*r = SignalRequest{Reason: text}
	return nil
}

// Observation is the state that a waiting activity reports. It replaces the previous one.
type Observation struct {
	// Activity is the type of the activity that observed it, e.g. "Drain".
	Activity string `json:"activity"`
	// Cluster of the observation; empty where its workflow knows it.
	Cluster string `json:"cluster,omitempty"`
	// Wait is why the activity has not finished; nil: nothing blocks it.
	Wait *drydockv1.Wait `json:"wait,omitempty"`
	// Drain is the progress of a drain.
	Drain *maintenancev1.DrainStatus `json:"drain,omitempty"`
	// Pods that the activity waits for, as namespace/name.
	Pods []string `json:"pods,omitempty"`
	// LockProgress of the applications that hold locks in the cluster.
	LockProgress []drydockv1.LockProgress `json:"lockProgress,omitempty"`
	// Urgent: the wait needs a person, so the activity reports it to its workflow immediately.
	Urgent bool `json:"urgent,omitempty"`
	// Progresses: nothing stops the activity. Another such observation is progress, even if its wait has another reason.
	Progresses bool `json:"progresses,omitempty"`
	// Part is the part of a HarborCluster that the activity observes.
	Part string `json:"part,omitempty"`
}

// StatusRequest limits a long status. The zero value requests all of it, or as much as fits into an answer.
type StatusRequest struct {
	// Filter keeps only clusters in this state, or with this name. In a queue, it keeps the requests for the node of this name, or of this owner.
	Filter string `json:"filter,omitempty"`
	// Limit is the largest number of clusters, or requests, to return; 0: as many as fit.
	Limit int `json:"limit,omitempty"`
	// Cursor is the nextCursor of the status before.
	Cursor string `json:"cursor,omitempty"`
	// InPlanOrder returns clusters in the order of the plan, instead of the most important first.
	InPlanOrder bool `json:"inPlanOrder,omitempty"`
}
