package scheduling_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/scheduling"
)

func TestAMaintenanceIsStaleWhenItHasBeenReadyForLongerThanItsClusterAllows(t *testing.T) {
	hour := maintenancev1.MaintenanceOperatorConfigSpec{MaxNodeMaintenanceTimeSeconds: 3600}
	collecting := hour
	collecting.GarbageCollect = true
	for _, tc := range []struct {
		name   string
		config maintenancev1.MaintenanceOperatorConfigSpec
		after  time.Duration
		want   scheduling.Staleness
		again  time.Time
	}{
		{"no limit", maintenancev1.MaintenanceOperatorConfigSpec{}, 1000 * time.Hour, scheduling.Staleness{}, time.Time{}},
		{"within the limit", hour, time.Hour - 1, scheduling.Staleness{}, noon.Add(time.Hour)},
		{"at the limit", hour, time.Hour, scheduling.Staleness{Stale: true, LimitSeconds: 3600}, time.Time{}},
		{"with garbage collection", collecting, time.Hour, scheduling.Staleness{Stale: true, LimitSeconds: 3600, Collect: true}, time.Time{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, again := scheduling.StalenessOf(tc.config, noon, noon.Add(tc.after))
			require.Equal(t, tc.want, got)
			require.Equal(t, tc.again, again)
		})
	}
}
