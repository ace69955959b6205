package portal

import (
	sreportalv1 "drydock.dev/drydock/internal/apis/sreportal/v1alpha1"
)

// Request says who asks for a change of a portal, and why.
type Request struct {
	Actor  string `json:"actor,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// ApplyRequest declares components and maintenances: new ones are added, those of the same name are replaced. All or none are taken.
type ApplyRequest struct {
	Request
	Components   []sreportalv1.Component   `json:"components,omitempty"`
	Maintenances []sreportalv1.Maintenance `json:"maintenances,omitempty"`
}

// DeleteRequest removes components, with their history, and maintenances.
type DeleteRequest struct {
	Request
	Components   []string `json:"components,omitempty"`
	Maintenances []string `json:"maintenances,omitempty"`
	// All removes everything. What windows tell comes back with the next that they tell.
	All bool `json:"all,omitempty"`
}

// CancelRequest cancels a maintenance: one in progress ends now, an upcoming one does not take place.
type CancelRequest struct {
	Request
	Maintenance string `json:"maintenance"`
}
