package rollout

import (
	"slices"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
)

// StartBudget limits how many more clusters a batch may start.
type StartBudget struct {
	// Size is the maximum number of running clusters.
	Size    int
	Running int
	// MaxFailures is the maximum number of failures; 0: no limit. Failed is their number so far.
	MaxFailures int
	Failed      int
}

// Free is the number of clusters that may be started now. A running cluster counts as a possible failure, so that the limit holds even if all running
// clusters fail.
func (w StartBudget) Free() int {
	free := w.Size - w.Running
	if w.MaxFailures > 0 {
		free = min(free, w.MaxFailures-w.Failed-w.Running)
	}
	return max(free, 0)
}

// Exhausted reports whether the limit of failures is reached: no more clusters start.
func (w StartBudget) Exhausted() bool { return w.MaxFailures > 0 && w.Failed >= w.MaxFailures }

// Cautious reports whether only the limit of failures prevents more clusters.
func (w StartBudget) Cautious() bool { return w.Free() == 0 && w.Running < w.Size && !w.Exhausted() }

// BatchGroupEnd returns the index after the last of the batches that run together with batch next, counted from 0: after that batch, or in a rolling rollout
// after all batches that follow the canaries.
func BatchGroupEnd(plan [][]string, strategy ranv1.RemediationStrategy, next int) int {
	if strategy.Rollout == ranv1.Rolling && next >= canaryBatches(plan, strategy.Canaries) {
		return len(plan)
	}
	return next + 1
}

// canaryBatches is how many batches of a plan are canaries; they are in front.
func canaryBatches(plan [][]string, canaries []string) int {
	count := 0
	for count < len(plan) && hasCanary(plan[count], canaries) {
		count++
	}
	return count
}

// hasCanary reports whether a batch has a canary.
func hasCanary(batch, canaries []string) bool {
	return slices.ContainsFunc(batch, func(cluster string) bool { return slices.Contains(canaries, cluster) })
}
