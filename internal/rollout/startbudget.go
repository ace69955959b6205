package rollout

import (
	"fmt"
	"slices"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
)

// StartBudget limits how many clusters may be active, and how many may fail.
type StartBudget struct {
	// Size is the maximum number of active clusters, and Running their number.
	Size    int
	Running int
	// MaxFailures is the maximum number of failures; 0: no limit. Failed is their number so far.
	MaxFailures int
	Failed      int
}

// Free is the number of clusters that may start now. Each active cluster counts as a possible failure, so that the limit holds even if all of them
// fail.
func (w StartBudget) Free() int {
	free := w.Size - w.Running
	if w.MaxFailures > 0 {
		free = min(free, w.MaxFailures-w.Failed-w.Running)
	}
	return max(free, 0)
}

// Exhausted reports whether the limit of failures is reached. No more clusters start then.
func (w StartBudget) Exhausted() bool { return w.MaxFailures > 0 && w.Failed >= w.MaxFailures }

// Cautious reports whether only possible failures of active clusters prevent more starts.
func (w StartBudget) Cautious() bool { return w.Free() == 0 && w.Running < w.Size && !w.Exhausted() }

// Reasons why a pending cluster of the current batch has not started.
const (
	reasonMaxFailures    = "MaxFailures"
	reasonMaxConcurrency = "MaxConcurrency"
)

// PendingWait is why a pending cluster has not started; empty: the budget allows its start.
func (w StartBudget) PendingWait() (reason, message string) {
	switch {
	case w.Exhausted(), w.Free() > 0:
		return "", ""
	case w.Cautious():
		return reasonMaxFailures, fmt.Sprintf("starts when a running cluster has succeeded: %d running and %d failed reach maxFailures (%d) if all of them fail", w.Running, w.Failed, w.MaxFailures)
	}
	return reasonMaxConcurrency, fmt.Sprintf("starts when a running cluster has ended: at most %d run at once", w.Size)
}

// BatchGroupEnd returns the index after the last batch that runs together with batch next, both counted from 0. In a rolling rollout, all batches
// after the canaries run together.
func BatchGroupEnd(plan [][]string, strategy ranv1.RemediationStrategy, next int) int {
	if strategy.Rollout == ranv1.Rolling && next >= canaryBatches(plan, strategy.Canaries) {
		return len(plan)
	}
	return next + 1
}

// canaryBatches is the number of canary batches. They come first in a plan.
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
