package chaos

import "slices"

// scenarios are all scenarios.
func scenarios() []scenario {
	return slices.Concat(workerCrashes(), slots(), twoWorkers(), apiServers(), outages(), objects(), deletedClusters(), signals(), terminations(), emergencyStops(), harborCrashes())
}
