package temporal

import (
	"encoding/json"
	"strings"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
)

// QueryStatus is answered by every workflow with the status of what it works on.
const QueryStatus = "status"

// QueryHeld carries the names of clusters to a workflow that works on several by itself, and answers with what is Held of them.
const QueryHeld = "held"

// Held is what keeps anything new from being begun. The status of a workflow that works on one cluster has the same fields.
type Held struct {
	// Held is what holds it, or one of several clusters.
	Held *drydockv1.Hold `json:"held,omitempty"`
	// Paused: its rollout is.
	Paused bool `json:"paused,omitempty"`
}

// Signals that people and programs send. Their payload is a SignalRequest, or nothing.
const (
	// SignalCancel takes back what was done, like Temporal's own cancellation.
	SignalCancel = "cancel"
	// SignalPause stops new work from starting; SignalResume goes on.
	SignalPause  = "pause"
	SignalResume = "resume"
	// SignalEnable starts a rollout that was only planned.
	SignalEnable = "enable"
	// SignalDone says that the requestor has finished its work on a node.
	SignalDone = "done"
	// SignalFail says that the requestor's work on a node has failed: the node stays out of service. SignalRecover takes that back.
	SignalFail    = "fail"
	SignalRecover = "recover"
)

// UpdateJoin adds the requestor of a SignalRequest to a NodeMaintenance: the node is not returned before that one is done, too.
const UpdateJoin = "join"

// Updates of a rollout. UpdateApprove carries a rollout.ApprovalRequest, UpdateEdit a rollout.EditRequest.
const (
	UpdateApprove = "approve"
	UpdateEdit    = "edit"
)

// Updates of a HarborCluster, and of a status portal. To a HarborCluster UpdateApply carries a workflows.HarborApplyRequest, UpdateDelete a SignalRequest.
const (
	UpdateApply  = "apply"
	UpdateDelete = "delete"
)

// UpdateRetry is an update of the onboarding that carries a workflows.OnboardingRetry.
const UpdateRetry = "retry"

// Signals that workflows and activities send to workflows.
const (
	// SignalObserved carries an Observation from an activity to the workflow that runs it.
	SignalObserved = "observed"
	// SignalNodeProgress carries a ClusterNodeStatus from a NodeMaintenance to its ClusterUpgrade.
	SignalNodeProgress = "nodeProgress"
	// SignalWake tells a Sweeper that there may be something to take back now, or soon. Its payload is a SignalRequest.
	SignalWake = "wake"
	// SignalClusterProgress carries a ClusterStatus from a ClusterUpgrade to its ClusterGroupUpgrade.
	SignalClusterProgress = "clusterProgress"
	// SignalPreparationProgress carries the standing of clusters from a ClusterPreparation to its ClusterGroupUpgrade.
	SignalPreparationProgress = "preparationProgress"
)

// Messages of the emergency stop. Its updates carry an emergency.Request and answer with an emergency.Answer.
const (
	UpdateHold    = "hold"
	UpdateRelease = "release"
	// SignalHold carries an emergency.Request, too: for whoever cannot wait until a worker answers.
	SignalHold = "hold"
	// SignalFollowHolds and SignalLeaveHolds carry a Subscription: a workflow wants to be told what is held, or no longer.
	SignalFollowHolds = "followHolds"
	SignalLeaveHolds  = "leaveHolds"
	// SignalHeld carries an emergency.State to a workflow that wants to be told, and from a workflow to its children.
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

// Messages of a maintenance window. Its updates carry requests of package windows: a DefineRequest to define and to edit it, an ExtendRequest, an
// EndRequest, a CancelRequest and an OverrideRequest.
const (
	UpdateDefine   = "define"
	UpdateExtend   = "extend"
	UpdateEnd      = "endEarly"
	UpdateCancel   = "cancel"
	UpdateOverride = "override"
	// SignalFollowWindow and SignalLeaveWindow carry a Subscription: a workflow wants to be told how the window stands, or no longer.
	SignalFollowWindow = "followWindow"
	SignalLeaveWindow  = "leaveWindow"
	// SignalWindow carries a windows.Standing to a workflow that wants to be told.
	SignalWindow = "window"
)

// Messages of a status portal, besides UpdateApply with a portal.ApplyRequest and UpdateDelete with a portal.DeleteRequest. All updates answer with a
// portal.Answer.
const (
	// UpdateCancelMaintenance carries a portal.CancelRequest.
	UpdateCancelMaintenance = "cancelMaintenance"
	// SignalAnnouncement carries a portal.Announcement from a window to the portal that shows it. SignalAnnounce asks a window for one,
	// with a portal.Inquiry.
	SignalAnnouncement = "announcement"
	SignalAnnounce     = "announce"
	// SignalMoved carries a portal.Move to a portal: components and maintenances that another one shows now.
	SignalMoved = "moved"
)

// Subscription says which workflow is to be told of something.
type Subscription struct {
	WorkflowID string `json:"workflowID"`
	// FirstRunID tells a workflow from an earlier one of the same id.
	FirstRunID string `json:"firstRunID"`
	// Cluster is the only one that it wants to know of; empty: all.
	Cluster string `json:"cluster,omitempty"`
}

// SignalRequest says who sent a signal, and why. All are optional.
type SignalRequest struct {
	Actor  string `json:"actor,omitempty"`
	Reason string `json:"reason,omitempty"`
	// Requestor is the one of a maintenance's requestors for whom it is said; empty: the one whose maintenance it is.
	Requestor string `json:"requestor,omitempty"`
}

// UnmarshalJSON takes whatever a person types into the Web UI: a request is never lost for its form. What is no object is its reason.
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

// Observation is what a waiting activity sees. It replaces the one before.
type Observation struct {
	// Activity is the type of the activity that observed it, e.g. "Drain".
	Activity string `json:"activity"`
	// Cluster that it observes; empty where its workflow knows.
	Cluster string `json:"cluster,omitempty"`
	// Wait is why the activity is not finished; nil when nothing stands in its way.
	Wait *drydockv1.Wait `json:"wait,omitempty"`
	// Drain is the progress of a drain.
	Drain *maintenancev1.DrainStatus `json:"drain,omitempty"`
	// Pods that are waited for, as namespace/name.
	Pods []string `json:"pods,omitempty"`
	// LockProgress of the applications that hold locks in the cluster.
	LockProgress []drydockv1.LockProgress `json:"lockProgress,omitempty"`
	// Urgent: a person has to see to the wait's reason, and its workflow is told of that at once.
	Urgent bool `json:"urgent,omitempty"`
	// Part of a HarborCluster that it observes.
	Part string `json:"part,omitempty"`
}

// StatusRequest narrows a status that can be long. The zero value asks for the whole, or as much of it as fits into an answer.
type StatusRequest struct {
	// Filter keeps only clusters in this state, or of this name.
	Filter string `json:"filter,omitempty"`
	// Limit is how many clusters to return at most; 0 means as many as fit.
	Limit int `json:"limit,omitempty"`
	// Cursor is the nextCursor of the status before.
	Cursor string `json:"cursor,omitempty"`
	// InPlanOrder returns clusters as the plan has them, and not what matters first.
	InPlanOrder bool `json:"inPlanOrder,omitempty"`
}
