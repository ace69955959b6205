package workflowtest

import (
	"drydock.dev/drydock/activities"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/rollout"
	"drydock.dev/drydock/internal/temporal"
)

// PlannedOnly is a rollout with precaching that is not enabled.
func PlannedOnly() ranv1.ClusterGroupUpgrade {
	object := ARollout()
	object.Spec.PreCaching, object.Spec.Enable = true, new(bool)
	return object
}

// Edit asks for a change of the rollout that is only planned.
func (w *World) Edit(change func(*ranv1.ClusterGroupUpgradeSpec)) *Asked {
	spec := PlannedOnly().Spec
	change(&spec)
	return w.Ask(temporal.UpdateEdit, rollout.EditRequest{Actor: "bob", Spec: spec})
}

// Precachings are the Jobs that pull, in the order in which they were asked for.
func (w *World) Precachings() []activities.ClusterJob {
	var jobs []activities.ClusterJob
	for _, in := range w.InputsOf("RunClusterJob") {
		jobs = append(jobs, in.(activities.ClusterJob))
	}
	return jobs
}
