package drain

import (
	"go.temporal.io/sdk/log"

	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
)

// roundLog logs one line for each eviction round that changes the counts.
type roundLog struct {
	logger  log.Logger
	logged  bool
	evicted int32
	blocked int
}

func (l *roundLog) log(status maintenancev1.DrainStatus) {
	if l.logged && l.evicted == status.Evicted && l.blocked == len(status.Blocked) {
		return
	}
	l.logged, l.evicted, l.blocked = true, status.Evicted, len(status.Blocked)
	l.logger.Info("Eviction round", "attempt", status.Attempt, "evictionPods", status.EvictionPods, "evicted", status.Evicted,
		"remaining", status.EvictionPods-status.Evicted, "blocked", len(status.Blocked))
}
