package rollout

import (
	"slices"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
)

// Window says how many more clusters a rollout may start.
type Window struct {
	// Size is how many may be at work at once.
	Size   int
	AtWork int
	// MaxFailures is how many may fail; 0 is no limit. Failed have done so.
	MaxFailures int
	Failed      int
}

// Free is how many clusters may be started now. A cluster at work holds one of the failures that are left, so that no more can fail than may,
// even if all at work fail together.
func (w Window) Free() int {
	free := w.Size - w.AtWork
	if w.MaxFailures > 0 {
		free = min(free, w.MaxFailures-w.Failed-w.AtWork)
	}
	return max(free, 0)
}

// Exhausted reports whether as many have failed as may: nothing else is started.
func (w Window) Exhausted() bool { return w.MaxFailures > 0 && w.Failed >= w.MaxFailures }

// Cautious reports whether only the failures that are left keep clusters from being started.
func (w Window) Cautious() bool { return w.Free() == 0 && w.AtWork < w.Size && !w.Exhausted() }

// Together returns the index after the last of the batches that are taken together with batch next, counted from 0: after it alone, or, in a
// rolling rollout, after all that follow the canaries.
func Together(plan [][]string, strategy ranv1.RemediationStrategy, next int) int {
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
