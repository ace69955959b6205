package workflowtest

import (
	"time"

	"drydock.dev/drydock/activities"
)

// Gathers are how long news were gathered, watch after watch.
func (w *PolicyWorld) Gathers() []time.Duration {
	var gathers []time.Duration
	for _, in := range w.InputsOf("AwaitCompliance") {
		gathers = append(gathers, in.(activities.AwaitComplianceInput).Gather)
	}
	return gathers
}
