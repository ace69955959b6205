package policies

import "time"

const (
	// shortestGather is how long changes are gathered at least, gatherPerCluster how much longer for each cluster that is looked at. longestGather is the most
	// for the sake of the reports, and longestWait for that of the history.
	shortestGather   = 20 * time.Millisecond
	gatherPerCluster = 500 * time.Microsecond
	longestGather    = time.Minute
	longestWait      = 10 * time.Minute
	// reportsOften is after how many reports the time doubles, and historyParts how often it does so until the history is full.
	reportsOften = 50
	historyParts = 16
)

// Gather is how long changes are gathered before they are reported, after so many reports more than were to be expected, with so much of the history used that
// the server allows, from 0 to 1. Clusters of a batch become Compliant one after the other, and each report costs their workflow a task; neither a policy that
// never rests nor thousands of clusters together may fill its history.
func Gather(clusters, reports int, used float64) time.Duration {
	gather := max(shortestGather, time.Duration(clusters)*gatherPerCluster)
	often := min(gather<<min(max(0, reports)/reportsOften, 12), longestGather)
	return max(often, min(gather<<int(min(used, 1)*historyParts), longestWait))
}
