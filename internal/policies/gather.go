package policies

import "time"

const (
	// minGather is the shortest period, and gatherPerCluster is added for each cluster that is watched. maxGatherForReports limits what the number of reports adds,
	// and maxGatherForHistory what the length of the history adds.
	minGather           = 20 * time.Millisecond
	gatherPerCluster    = 500 * time.Microsecond
	maxGatherForReports = time.Minute
	maxGatherForHistory = 10 * time.Minute
	// reportsPerDoubling is after how many reports the period doubles, and historyDoublings how often it doubles until the history is full.
	reportsPerDoubling = 50
	historyDoublings   = 16
)

// GatherPeriod is how long changes are gathered before they are reported. Reports is how many more there were than expected, and used is the used part of the history
// that the server allows, from 0 to 1. Clusters of a batch become Compliant one by one, and each report costs their workflow a task: neither a policy that
// never settles nor thousands of clusters together may fill its history.
func GatherPeriod(clusters, reports int, used float64) time.Duration {
	gather := max(minGather, time.Duration(clusters)*gatherPerCluster)
	often := min(gather<<min(max(0, reports)/reportsPerDoubling, 12), maxGatherForReports)
	return max(often, min(gather<<int(min(used, 1)*historyDoublings), maxGatherForHistory))
}
