package temporal

import "fmt"

// The details of workflows: how to follow and steer them. The Web UI shows them beside the summary.

// doNotTerminate warns, in the details of a workflow, of the other button beside it in the Web UI.
const doNotTerminate = "To stop it, cancel it: then it cleans up and returns nodes to service. Terminated, it does neither."

// neverEnds is the same for a workflow that others need.
const neverEnds = "It never ends; do not cancel or terminate it."

// RolloutDetails are the details of a rollout, namespace/name.
func RolloutDetails(rollout string) string {
	return fmt.Sprintf("`drydock upgrade status %[1]s --watch` follows this rollout. `drydock upgrade pause %[1]s`, `resume`, `approve` and `cancel` "+
		"steer it, and so do the signals `pause`, `resume` and `cancel`. "+doNotTerminate, rollout)
}

// ClusterDetails are the details of the part of a rollout, namespace/name, in one cluster.
func ClusterDetails(cluster, rollout string) string {
	return fmt.Sprintf("Part of rollout %[2]s: `drydock upgrade status %[2]s --watch` follows it, and its nodes are in `drydock node list --cluster %[1]s`. "+
		"Steer the rollout, not this workflow: `drydock upgrade pause %[2]s`, `resume` and `cancel`.", cluster, rollout)
}

// MaintenanceDetails are the details of a maintenance that no rollout starts.
func MaintenanceDetails(cluster, node string) string {
	return fmt.Sprintf("`drydock node status %[1]s --cluster %[2]s --watch` follows this maintenance. When the work on the node is done, "+
		"`drydock node done %[1]s --cluster %[2]s`, or the signal `done`, returns it. "+doNotTerminate, node, cluster)
}

// RolloutNodeDetails are the details of the maintenance of a node by a rollout, namespace/name.
func RolloutNodeDetails(cluster, node, rollout string) string {
	return fmt.Sprintf("`drydock node status %[1]s --cluster %[2]s --watch` follows this maintenance of rollout %[3]s. "+
		"`drydock upgrade cancel %[3]s` ends both, and returns the node. Terminated, it returns nothing.", node, cluster, rollout)
}

// SchedulerDetails are the details of the scheduler of a cluster.
func SchedulerDetails(cluster string) string {
	return fmt.Sprintf("`drydock node list --cluster %s` shows the slots and the queue. The budgets are those of the MaintenanceOperatorConfig in the cluster. "+neverEnds, cluster)
}

// SweeperDetails are the details of the sweeper of a cluster.
func SweeperDetails() string {
	return "`drydock doctor` shows what closed workflows have left in the cluster, and what this workflow cannot clean up. " + neverEnds
}

// windowDetails are the details of a window, namespace/name.
func windowDetails(window string) string {
	return fmt.Sprintf("`drydock window status %[1]s` shows the openings. `drydock window extend %[1]s --until TIME`, `end`, `cancel` and `override` change one. "+
		"`drydock window delete %[1]s` ends the window.", window)
}

func lockControllerDetails(cluster, controller string) string {
	return fmt.Sprintf("`drydock lock controller status %[2]s --cluster %[1]s` shows the locks with their reasons. `drydock lock controller cancel %[2]s --cluster %[1]s` removes them. "+
		"Terminated, it leaves them.", cluster, controller)
}

func harborDetails(cluster, harbor string) string {
	return fmt.Sprintf("`drydock harbor status %[2]s --cluster %[1]s --watch` follows this Harbor. `drydock harbor cancel %[2]s --cluster %[1]s` stops managing it, and "+
		"`drydock harbor delete %[2]s --cluster %[1]s` deletes it.", cluster, harbor)
}

func portalDetails(name string) string {
	return fmt.Sprintf("`drydock portal status %[1]s` shows the components and maintenances, and `drydock portal apply -f FILE` changes them. `drydock portal cancel %[1]s` ends the portal.", name)
}

// OnboardingDetails are the details of the onboarding of clusters.
const OnboardingDetails = "`drydock onboarding status` shows the clusters. `drydock onboarding retry CLUSTER` tries a failed one again, and `drydock onboarding stop` ends the onboarding; running rollouts continue."
