package portal

import (
	"slices"

	sreportalv1 "drydock.dev/drydock/internal/apis/sreportal/v1alpha1"
)

// statuses are all statuses, worst first.
func statuses() []sreportalv1.ServiceStatus {
	return []sreportalv1.ServiceStatus{
		sreportalv1.StatusMajorOutage, sreportalv1.StatusPartialOutage, sreportalv1.StatusDegraded,
		sreportalv1.StatusMaintenance, sreportalv1.StatusUnknown, sreportalv1.StatusOperational,
	}
}

// Worst returns the worst of statuses, or unknown without any. An invalid status counts as unknown.
func Worst(of ...sreportalv1.ServiceStatus) sreportalv1.ServiceStatus {
	for _, status := range statuses() {
		if slices.ContainsFunc(of, func(one sreportalv1.ServiceStatus) bool { return known(one) == status }) {
			return status
		}
	}
	return sreportalv1.StatusUnknown
}

// known returns a valid status: any other counts as unknown.
func known(status sreportalv1.ServiceStatus) sreportalv1.ServiceStatus {
	if slices.Contains(statuses(), status) {
		return status
	}
	return sreportalv1.StatusUnknown
}

// Computed returns the shown status of a component: the declared one, or the worst of its maintenances in progress.
func Computed(declared sreportalv1.ServiceStatus, maintained ...sreportalv1.ServiceStatus) sreportalv1.ServiceStatus {
	if len(maintained) > 0 {
		return Worst(maintained...)
	}
	return Worst(declared)
}
