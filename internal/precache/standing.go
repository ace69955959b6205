package precache

import ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"

// Standing is where a cluster stands, and what it waits for or how it failed.
type Standing struct {
	State   ranv1.PreparationState `json:"state"`
	Reason  string                 `json:"reason,omitempty"`
	Message string                 `json:"message,omitempty"`
}
