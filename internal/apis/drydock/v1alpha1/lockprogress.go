package v1alpha1

import "fmt"

// LockProgress is how far the maintenance of a cluster has come with the nodes of an application that holds locks on them.
type LockProgress struct {
	// Controller is the application.
	Controller string `json:"controller"`
	// Percentage is Updated of Total, rounded down; 100 without nodes. Description says the same in words.
	Percentage  int32  `json:"percentage"`
	Description string `json:"description"`
	// InactiveNow counts the nodes that are released now, Updated also those that were released earlier in this maintenance.
	InactiveNow int32 `json:"inactiveNow"`
	Updated     int32 `json:"updated"`
	// Total nodes that it holds locks on.
	Total int32 `json:"total"`
}

// String is e.g. "vrouter 2 out of 8 nodes updated (25%)".
func (p LockProgress) String() string {
	return fmt.Sprintf("%s %s (%d%%)", p.Controller, p.Description, p.Percentage)
}
