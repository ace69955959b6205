package kube

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/drydock/internal/allow"
)

// Marks on objects that Drydock touches.
const (
	// AnnotationOwner names the owner of a change: <workflow id>/<first run id>. It is written in the same request as the change. It has the first
	// run's id, because a workflow that continues as new is still the owner.
	AnnotationOwner = "drydock.dev/owner"
	// AnnotationFormerState on a node that Drydock cordoned is its state before that: a FormerState.
	AnnotationFormerState = "drydock.dev/former-state"
	// AnnotationKeepOnFailure on a node that Drydock cordoned keeps it cordoned unless its maintenance reports success. Its value is "true"; it is
	// set and removed with AnnotationOwner.
	AnnotationKeepOnFailure = "drydock.dev/keep-on-failure"
	// LabelMaintenance is the MaintenanceLabel of the owner whose maintenance has the node. It is set and removed with AnnotationOwner, in the same
	// request. The pods of Jobs require it, so that a pod of a late Job is not scheduled.
	LabelMaintenance = "drydock.dev/maintenance"
	// AnnotationKeepCordoned is set on a node by a person who wants it to stay cordoned after its maintenance. Any value but "false" counts.
	AnnotationKeepCordoned = "drydock.dev/keep-cordoned"
	// AnnotationWorker on a ManagedCluster selects where its activities run; see WorkerInCluster.
	AnnotationWorker = "drydock.dev/worker"
)

// SystemNamespace is the namespace of Drydock's ServiceAccounts, and on the hub of what Drydock saves. Write access there is as much as the rights of Drydock.
const SystemNamespace = allow.NamespaceSystem

// WorkerInCluster as the value of AnnotationWorker: an activity-only worker inside the cluster runs its activities.
const WorkerInCluster = "in-cluster"

// FormerState is the state of a node before Drydock marked it.
type FormerState string

// The former states. A node that Drydock marked and did not have to cordon has none.
const (
	// FormerSchedulable: Drydock cordoned the node and uncordons it.
	FormerSchedulable FormerState = "schedulable"
	// FormerUnschedulable: the node was cordoned before, and stays cordoned.
	FormerUnschedulable FormerState = "unschedulable"
)

// Owner returns the ownership mark of an object, or "".
func Owner(object metav1.Object) string { return object.GetAnnotations()[AnnotationOwner] }

// OwnedBy reports whether the object has this ownership mark. An empty mark owns nothing.
func OwnedBy(object metav1.Object, owner string) bool {
	return owner != "" && Owner(object) == owner
}

// MaintenanceLabel returns the value of LabelMaintenance for an owner, because a mark is no valid label value; empty for none.
func MaintenanceLabel(owner string) string {
	if owner == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(owner))
	return hex.EncodeToString(sum[:16])
}

// OwnerWorkflow splits a mark into the workflow id, which may contain slashes, and the id of its first run.
func OwnerWorkflow(owner string) (workflowID, firstRunID string) {
	slash := strings.LastIndex(owner, "/")
	if slash < 0 {
		return owner, ""
	}
	return owner[:slash], owner[slash+1:]
}

// KeepCordoned reports whether a person wants the node to stay cordoned.
func KeepCordoned(node metav1.Object) bool {
	value, set := node.GetAnnotations()[AnnotationKeepCordoned]
	return set && value != "false"
}

// KeptOnFailure reports whether the node is marked to stay cordoned after a failed maintenance.
func KeptOnFailure(node metav1.Object) bool {
	return node.GetAnnotations()[AnnotationKeepOnFailure] == "true"
}

// FormerStateOf returns the state of a node before Drydock marked it, or "".
func FormerStateOf(node metav1.Object) FormerState {
	return FormerState(node.GetAnnotations()[AnnotationFormerState])
}
