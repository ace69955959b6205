// Package temporal holds what Drydock's programs share about Temporal: names, search attributes, error types, messages and client options.
package temporal

import (
	"fmt"
	"strings"
)

// TaskQueue serves workflows, and the activities of every cluster whose credentials the worker holds.
const TaskQueue = "drydock"

// RequestTaskQueue serves the acceptance of requests for maintenances: thousands that come at once wait here, and delay no work in progress.
const RequestTaskQueue = TaskQueue + "-requests"

// ClusterTaskQueue serves the activities of a cluster with an activity-only worker inside.
func ClusterTaskQueue(cluster string) string { return TaskQueue + "." + cluster }

// Workflow types.
const (
	ClusterGroupUpgrade    = "ClusterGroupUpgrade"
	ClusterUpgrade         = "ClusterUpgrade"
	ClusterPreparation     = "ClusterPreparation"
	NodeMaintenance        = "NodeMaintenance"
	Preflight              = "Preflight"
	WorkloadLockController = "WorkloadLockController"
	EmergencyStop          = "EmergencyStop"
	Onboarding             = "Onboarding"
	Sweeper                = "Sweeper"
	MaintenanceScheduler   = "MaintenanceScheduler"
	HarborCluster          = "HarborCluster"
	MaintenanceWindow      = "MaintenanceWindow"
	WindowNotification     = "WindowNotification"
	Notification           = "Notification"
	StatusPortal           = "StatusPortal"
)

// ClusterGroupUpgradeID is the workflow id of a rollout.
func ClusterGroupUpgradeID(namespace, name string) string { return "cgu/" + namespace + "/" + name }

// ClusterUpgradeID is the workflow id of one cluster in a rollout.
func ClusterUpgradeID(namespace, name, cluster string) string {
	return ClusterGroupUpgradeID(namespace, name) + "/" + cluster
}

// PreparationID identifies a precaching or backup of a rollout's run, by number. The workflow ids of its parts begin with it.
func PreparationID(namespace, name, kind, run string, number int) string {
	return fmt.Sprintf("prepare/%s/%s/%s/%s-%d", namespace, name, kind, run, number)
}

// ParseClusterUpgradeID is the reverse of ClusterUpgradeID; false for the id of another workflow.
func ParseClusterUpgradeID(id string) (namespace, name, cluster string, ok bool) {
	parts := strings.Split(id, "/")
	if len(parts) != 4 || parts[0] != "cgu" {
		return "", "", "", false
	}
	return parts[1], parts[2], parts[3], true
}

// RolloutOf is the namespace/name of the rollout to which a workflow id, an ownership mark or a PreparationID belongs; "": it belongs to none.
func RolloutOf(id string) string {
	parts := strings.Split(id, "/")
	if len(parts) < 3 || parts[0] != "cgu" && parts[0] != "prepare" {
		return ""
	}
	return parts[1] + "/" + parts[2]
}

// NodeMaintenanceID is the workflow id of a maintenance request.
func NodeMaintenanceID(cluster, namespace, name string) string {
	return "node/" + cluster + "/" + namespace + "/" + name
}

// MaintenancesOf is the condition of a visibility query for the maintenances of a cluster.
func MaintenancesOf(cluster string) string {
	return fmt.Sprintf("WorkflowType = '%s' AND WorkflowId STARTS_WITH 'node/%s/'", NodeMaintenance, strings.ReplaceAll(cluster, "'", "''"))
}

// ParseNodeMaintenanceID is the reverse of NodeMaintenanceID; false for the id of another workflow.
func ParseNodeMaintenanceID(id string) (cluster, namespace, name string, ok bool) {
	parts := strings.Split(id, "/")
	if len(parts) != 4 || parts[0] != "node" {
		return "", "", "", false
	}
	return parts[1], parts[2], parts[3], true
}

// PreflightID identifies one check of a request before its workflow, which has that id, is started.
func PreflightID(id, check string) string { return "preflight/" + id + "/" + check }

// EmergencyStopID is the workflow id of the emergency stop: one per Temporal namespace.
const EmergencyStopID = "hold"

// OnboardingID is the workflow id of the onboarding of clusters: there is one hub per Temporal namespace.
const OnboardingID = "onboarding/hub"

// WorkloadLockControllerID is the workflow id of the controller of one application's locks.
func WorkloadLockControllerID(cluster, controllerName string) string {
	return "locks/" + cluster + "/" + controllerName
}

// HarborClusterID is the workflow id of a HarborCluster.
func HarborClusterID(cluster, namespace, name string) string {
	return "harbor/" + cluster + "/" + namespace + "/" + name
}

// sweeperOfHub is the workflow id of the sweeper of the hub.
const sweeperOfHub = "sweeper"

// SweeperID is the workflow id of the sweeper of a cluster, or of the hub if the name is empty.
func SweeperID(cluster string) string {
	if cluster == "" {
		return sweeperOfHub
	}
	return sweeperOfHub + "/" + cluster
}

// ParseClusterGroupUpgradeID reports whether an id is that of a rollout.
func ParseClusterGroupUpgradeID(id string) (namespace, name string, ok bool) {
	parts := strings.Split(id, "/")
	if len(parts) != 3 || parts[0] != "cgu" {
		return "", "", false
	}
	return parts[1], parts[2], true
}

// MaintenanceSchedulerID is the workflow id of the scheduler of a cluster.
func MaintenanceSchedulerID(cluster string) string { return "scheduler/" + cluster }

// MaintenanceWindowPrefix begins the workflow ids of maintenance windows; namespace/name follows.
const MaintenanceWindowPrefix = "window/"

// MaintenanceWindowID is the workflow id of a maintenance window.
func MaintenanceWindowID(namespace, name string) string {
	return MaintenanceWindowPrefix + namespace + "/" + name
}

// NotificationID identifies the delivery of a notice about a maintenance window or a rollout.
func NotificationID(notice string) string { return "notice/" + notice }

// StatusPortalPrefix begins the workflow ids of status portals; the name follows.
const StatusPortalPrefix = "portal/"

// StatusPortalID is the workflow id of a status portal.
func StatusPortalID(name string) string { return StatusPortalPrefix + name }
