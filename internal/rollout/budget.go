package rollout

import "time"

// BatchBudget is how long the next batch may take: an equal share of what is left of the rollout's timeout among the batches left,
// this one included. The last batch gets all that is left. It is never negative.
func BatchBudget(timeout, used time.Duration, batchesLeft int) time.Duration {
	left := max(timeout-used, 0)
	return left / time.Duration(max(batchesLeft, 1))
}
