package locks

import (
	"slices"
	"strconv"

	lcmv1 "drydock.dev/drydock/internal/apis/lcm/v1alpha1"
	"drydock.dev/drydock/internal/safename"
)

// clusterLockName returns the name of a new cluster lock of an application.
func clusterLockName(controller string, existing []lcmv1.ClusterWorkloadLock) string {
	taken := map[string]bool{}
	for _, lock := range existing {
		taken[lock.Name] = true
	}
	return freeName(taken, controller)
}

// nodeLockName returns the name of a new lock of an application on a node.
func nodeLockName(controller, node string, taken map[string]bool) string {
	return freeName(taken, controller, node)
}

func takenNames(existing []lcmv1.NodeWorkloadLock) map[string]bool {
	taken := map[string]bool{}
	for _, lock := range existing {
		taken[lock.Name] = true
	}
	return taken
}

// freeName is deterministic, so that a retry after a lost response finds the lock it created. It avoids names that another application took: tf-b on
// node c and tf on node b-c want the same name.
func freeName(taken map[string]bool, parts ...string) string {
	name := safename.Join("-", parts...)
	for n := 2; taken[name]; n++ {
		name = safename.Join("-", append(slices.Clone(parts), strconv.Itoa(n))...)
	}
	return name
}
