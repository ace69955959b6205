package chaos

import "slices"

// scenarios are all stories of harm, each on its own.
func scenarios() []scenario {
	return slices.Concat(workerDeaths(), slots(), twoWorkers(), apiServers(), outages(), objects(), vanishing(), signals(), terminations(), emergencyStops(), harborDeaths())
}
