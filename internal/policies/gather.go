package policies

import "time"

const (
	// shortestGather is the shortest period, and gatherPerCluster is added for each cluster that is watched. longestGather limits what the number of reports adds,
	// and longestWait what the length of the history adds.
	shortestGather   = 20 * time.Millisecond
	gatherPerCluster = 500 * time.Microsecond
	longestGather    = time.Minute
	longestWait      = 10 * time.Minute
	// reportsOften is after how many reports the period doubles, and historyParts how often it doubles until the history is full.
	reportsOften = 50
	historyParts = 16
)

// Gather is how long changes are gathered before they are reported. Reports is how many more there were than expected, and used is the used part of the history
// that the server allows, from 0 to 1. Clusters of a batch become Compliant one by one, and each report costs their workflow a task: neither a policy that
// never settles nor thousands of clusters together may fill its history.
func Gather(clusters, reports int, used float64) time.Duration {
	gather := max(shortestGather, time.Duration(clusters)*gatherPerCluster)
	often := min(gather<<min(max(0, reports)/reportsOften, 12), longestGather)
	return max(often, min(gather<<int(min(used, 1)*historyParts), longestWait))
}
