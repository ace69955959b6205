package precache

import ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"

// Progress is the state of the preparation of a cluster, with the reason of a wait or failure.
type Progress struct {
	State   ranv1.PreparationState `json:"state"`
	Reason  string                 `json:"reason,omitempty"`
	Message string                 `json:"message,omitempty"`
}
