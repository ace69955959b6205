package v1alpha1

// ServiceStatus is how well a component, or a whole portal, serves its users.
type ServiceStatus string

// The statuses, the worst first. Maintenance cannot be declared: it follows from a maintenance in progress.
const (
	StatusMajorOutage   ServiceStatus = "major_outage"
	StatusPartialOutage ServiceStatus = "partial_outage"
	StatusDegraded      ServiceStatus = "degraded"
	StatusMaintenance   ServiceStatus = "maintenance"
	StatusUnknown       ServiceStatus = "unknown"
	StatusOperational   ServiceStatus = "operational"
)
