package policies

import "time"

const (
	// minGather is the minimum period, and gatherPerCluster is added for each watched cluster. maxGatherForReports limits the period by the number of
	// reports, and maxGatherForHistory by the length of the history.
	minGather           = 20 * time.Millisecond
	gatherPerCluster    = 500 * time.Microsecond
	maxGatherForReports = time.Minute
	maxGatherForHistory = 10 * time.Minute
	// reportsPerDoubling is the number of reports after which the period doubles. historyDoublings is how often it doubles until the history is full.
	reportsPerDoubling = 50
	historyDoublings   = 16
)

// GatherPeriod is how long changes are gathered before they are reported. reports is the number of reports beyond the expected ones. used is the used
// part of the maximum history, from 0 to 1. Each report costs a workflow task: neither a policy that never settles nor thousands of clusters may fill
// the history.
func GatherPeriod(clusters, reports int, used float64) time.Duration {
	gather := max(minGather, time.Duration(clusters)*gatherPerCluster)
	often := min(gather<<min(max(0, reports)/reportsPerDoubling, 12), maxGatherForReports)
	return max(often, min(gather<<int(min(used, 1)*historyDoublings), maxGatherForHistory))
}
