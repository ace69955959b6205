package kube

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Marks on objects that Drydock touches.
const (
	// AnnotationOwner says on whose behalf the object was changed: <workflow id>/<first run id>. It is written in the same request
	// as the change. The first run's id, because a workflow that continues as new is still the owner.
	AnnotationOwner = "drydock.dev/owner"
	// AnnotationFormerState says on a node that we cordoned what it was before: a FormerState.
	AnnotationFormerState = "drydock.dev/former-state"
	// AnnotationKeepOnFailure says on a node that we cordoned that it stays so unless its maintenance says itself that it has not failed. Its value is
	// "true"; it comes and goes with AnnotationOwner.
	AnnotationKeepOnFailure = "drydock.dev/keep-on-failure"
	// LabelMaintenance is the MaintenanceLabel of the owner whose maintenance has the node. It comes and goes with AnnotationOwner, in the same
	// request. The pods of Jobs require it: one that is made too late finds no node.
	LabelMaintenance = "drydock.dev/maintenance"
	// AnnotationKeepCordoned is set on a node by a person who wants it to stay out of service when its maintenance is over. Any
	// value but "false" counts.
	AnnotationKeepCordoned = "drydock.dev/keep-cordoned"
	// AnnotationWorker on a ManagedCluster says where its activities run; see WorkerInCluster.
	AnnotationWorker = "drydock.dev/worker"
)

// WorkerInCluster as the value of AnnotationWorker: an activity-only worker inside the cluster runs its activities.
const WorkerInCluster = "in-cluster"

// FormerState is what a node was before we marked it.
type FormerState string

// The former states. A node that we marked and did not have to cordon has none.
const (
	// FormerSchedulable: the cordon is ours to take back.
	FormerSchedulable FormerState = "schedulable"
	// FormerUnschedulable: someone else had cordoned it, and the cordon stays theirs.
	FormerUnschedulable FormerState = "unschedulable"
)

// Owner returns the ownership mark of an object, or "".
func Owner(object metav1.Object) string { return object.GetAnnotations()[AnnotationOwner] }

// OwnedBy reports whether the object bears this very mark. Nobody owns in the name of an empty mark.
func OwnedBy(object metav1.Object, owner string) bool {
	return owner != "" && Owner(object) == owner
}

// MaintenanceLabel is the value of LabelMaintenance for an owner, whose mark is no valid value; empty for none.
func MaintenanceLabel(owner string) string {
	if owner == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(owner))
	return hex.EncodeToString(sum[:16])
}

// OwnerWorkflow splits a mark into the id of the workflow and of its first run; the former may contain slashes, the latter does not.
func OwnerWorkflow(owner string) (workflowID, firstRunID string) {
	slash := strings.LastIndex(owner, "/")
	if slash < 0 {
		return owner, ""
	}
	return owner[:slash], owner[slash+1:]
}

// KeepCordoned reports whether a person wants the node to stay out of service.
func KeepCordoned(node metav1.Object) bool {
	value, set := node.GetAnnotations()[AnnotationKeepCordoned]
	return set && value != "false"
}

// KeptOnFailure reports whether the node is marked to stay out of service when its maintenance has failed.
func KeptOnFailure(node metav1.Object) bool {
	return node.GetAnnotations()[AnnotationKeepOnFailure] == "true"
}

// FormerStateOf returns what a node was before we marked it, or "".
func FormerStateOf(node metav1.Object) FormerState {
	return FormerState(node.GetAnnotations()[AnnotationFormerState])
}
