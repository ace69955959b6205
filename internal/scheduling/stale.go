package scheduling

import (
	"time"

	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
)

// Staleness is whether a maintenance has been ready for too long, as its cluster's configuration sees it.
type Staleness struct {
	Stale bool `json:"stale,omitempty"`
	// LimitSeconds is maxNodeMaintenanceTimeSeconds.
	LimitSeconds int32 `json:"limitSeconds,omitempty"`
	// Collect: it is to be ended (garbageCollect).
	Collect bool `json:"collect,omitempty"`
}

// StalenessOf decides about a maintenance that has been ready since then, and says when that may be otherwise although the configuration stays; the
// zero time is never.
func StalenessOf(config maintenancev1.MaintenanceOperatorConfigSpec, readySince, now time.Time) (Staleness, time.Time) {
	limit := config.MaxNodeMaintenanceTimeSeconds
	if limit <= 0 {
		return Staleness{}, time.Time{}
	}
	due := readySince.Add(time.Duration(limit) * time.Second)
	if now.Before(due) {
		return Staleness{}, due
	}
	return Staleness{Stale: true, LimitSeconds: limit, Collect: config.GarbageCollect}, time.Time{}
}
