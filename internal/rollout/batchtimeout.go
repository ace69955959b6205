package rollout

import "time"

// BatchTimeout is how long the next batch may take: an equal share of the remaining timeout of the rollout for each remaining batch, including this
// one. The last batch gets all the remaining time. It is never negative.
func BatchTimeout(timeout, used time.Duration, batchesLeft int) time.Duration {
	left := max(timeout-used, 0)
	return left / time.Duration(max(batchesLeft, 1))
}
