package scheduling

import (
	"time"

	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
)

// Staleness is whether a maintenance has been ready for longer than its cluster's configuration allows.
type Staleness struct {
	Stale bool `json:"stale,omitempty"`
	// LimitSeconds is maxNodeMaintenanceTimeSeconds.
	LimitSeconds int32 `json:"limitSeconds,omitempty"`
	// Collect: the maintenance must end (garbageCollect).
	Collect bool `json:"collect,omitempty"`
}

// StalenessOf returns the staleness of a maintenance, and when it will change with the same configuration; zero: never.
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
