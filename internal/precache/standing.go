package precache

import ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"

// Standing is where a cluster stands, and what it waits for or how it failed.
type Standing struct {
	State   ranv1.PreparationState `json:"state"`
	Reason  string                 `json:"reason,omitempty"`
	Message string                 `json:"message,omitempty"`
}

// States are those of the clusters without the reasons.
func States(standings map[string]Standing) map[string]ranv1.PreparationState {
	states := map[string]ranv1.PreparationState{}
	//workflowcheck:ignore what is made has no order, either
	for cluster, standing := range standings {
		states[cluster] = standing.State
	}
	return states
}
