package policies

import "time"

const (
	// shortestGather is how long changes are gathered at least, gatherPerCluster how much longer for each cluster that is looked at, and longestGather
	// the most.
	shortestGather   = 20 * time.Millisecond
	gatherPerCluster = 500 * time.Microsecond
	longestGather    = time.Minute
	// reportsOften is after how many reports the time doubles.
	reportsOften = 50
)

// Gather is how long changes are gathered before they are reported, once so many reports were made. Clusters of a batch become Compliant one
// after the other, and each report costs their workflow a task; a policy that never rests must not fill its history, either.
func Gather(clusters, reports int) time.Duration {
	gather := max(shortestGather, time.Duration(clusters)*gatherPerCluster)
	return min(gather<<min(reports/reportsOften, 12), longestGather)
}
