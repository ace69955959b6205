// Package portal decides what a status page shows: how its components are, by what was declared and by the maintenances in progress, which maintenances
// there are, and how the components were in the last thirty days. It reads no clock: time is passed to it.
package portal

import (
	"time"

	sreportalv1 "drydock.dev/drydock/internal/apis/sreportal/v1alpha1"
)

// View is what a portal shows, as of a moment. It is what the workflow's status query answers.
type View struct {
	Name string `json:"name"`
	// Number grows with every visible change.
	Number int64 `json:"number"`
	// Status is the worst of its components; unknown if it has none.
	Status sreportalv1.ServiceStatus `json:"status"`
	// Components by group, then by display name.
	Components []ComponentView `json:"components"`
	// InProgress by end, Upcoming by start, Completed the last to end first.
	InProgress []MaintenanceView `json:"inProgress"`
	Upcoming   []MaintenanceView `json:"upcoming"`
	Completed  []MaintenanceView `json:"completed"`
	// Problems are what of all that was declared cannot be shown, and why.
	Problems []string `json:"problems,omitempty"`
	// Events are the last things that people have ordered, in their order.
	Events []Event `json:"events,omitempty"`
	// AsOf is when the view was true last: nothing has changed since but the share of today.
	AsOf time.Time `json:"asOf"`
}

// ComponentView is how one component is, and was.
type ComponentView struct {
	Name        string `json:"name"`
	DisplayName string `json:"displayName"`
	Description string `json:"description,omitempty"`
	Group       string `json:"group"`
	Link        string `json:"link,omitempty"`
	// Declared is what people say; Status what is shown, Since then.
	Declared sreportalv1.ServiceStatus `json:"declared"`
	Status   sreportalv1.ServiceStatus `json:"status"`
	Since    time.Time                 `json:"since"`
	// Because are the names of the maintenances in progress that replace the declared status; none: it is shown.
	Because []string `json:"because,omitempty"`
	// Days are the last thirty, the oldest first; the last one is that of AsOf.
	Days []Day `json:"days"`
}

// Day is how a component was in one day, by the clocks of UTC.
type Day struct {
	// Date as in 2026-11-21.
	Date string `json:"date"`
	// Worst status of the day; empty: nothing is known of it.
	Worst sreportalv1.ServiceStatus `json:"worst,omitempty"`
	// KnownSeconds is how long of the day a status was shown; StatusSeconds how long each, which sum to it.
	KnownSeconds  int64                               `json:"knownSeconds"`
	StatusSeconds map[sreportalv1.ServiceStatus]int64 `json:"statusSeconds,omitempty"`
}

// MaintenanceView is a maintenance, or one opening of a window.
type MaintenanceView struct {
	// Name is that of the Maintenance, or of the window and the start of its opening. It is unique in the portal.
	Name        string                       `json:"name"`
	Title       string                       `json:"title"`
	Description string                       `json:"description,omitempty"`
	Components  []string                     `json:"components,omitempty"`
	Start       time.Time                    `json:"start"`
	End         time.Time                    `json:"end"`
	Phase       sreportalv1.MaintenancePhase `json:"phase"`
	// AffectedStatus is shown for its components while it is in progress.
	AffectedStatus sreportalv1.ServiceStatus `json:"affectedStatus"`
	// Window is namespace/name when it is an opening of a window.
	Window string `json:"window,omitempty"`
	// Unknown are those of its components that the portal does not have.
	Unknown []string `json:"unknownComponents,omitempty"`
	// Cancelled: somebody has ended it before its time.
	Cancelled bool `json:"cancelled,omitempty"`
}

// Event is what somebody has ordered.
type Event struct {
	At time.Time `json:"at"`
	// By and Reason are whose wish it was, and why.
	By      string `json:"by,omitempty"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message"`
}
