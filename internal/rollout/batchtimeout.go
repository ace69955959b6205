package rollout

import "time"

// BatchTimeout is the time limit of the next batch: an equal share of the remaining timeout of the rollout for each remaining batch. The last batch
// gets all the remaining time. It is never negative.
func BatchTimeout(timeout, used time.Duration, batchesLeft int) time.Duration {
	left := max(timeout-used, 0)
	return left / time.Duration(max(batchesLeft, 1))
}
