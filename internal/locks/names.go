package locks

import (
	"slices"
	"strconv"

	lcmv1 "drydock.dev/drydock/internal/apis/lcm/v1alpha1"
	"drydock.dev/drydock/internal/safename"
)

// clusterLockName names the lock of an application that has none.
func clusterLockName(controller string, existing []lcmv1.ClusterWorkloadLock) string {
	taken := map[string]bool{}
	for _, lock := range existing {
		taken[lock.Name] = true
	}
	return freeName(taken, controller)
}

// nodeLockName names the lock of an application on a node that has none.
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

// freeName is the same every time, so that a lock whose creation was not heard of is found again, unless another application has taken
// it: tf-b on node c and tf on node b-c want the same name.
func freeName(taken map[string]bool, parts ...string) string {
	name := safename.Join("-", parts...)
	for n := 2; taken[name]; n++ {
		name = safename.Join("-", append(slices.Clone(parts), strconv.Itoa(n))...)
	}
	return name
}
