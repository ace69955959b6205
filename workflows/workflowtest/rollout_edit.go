package workflowtest

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"drydock.dev/drydock/activities"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/rollout"
)

// Complete is a rollout with its defaults.
func Complete(t *testing.T, object ranv1.ClusterGroupUpgrade) ranv1.ClusterGroupUpgrade {
	object, err := (&activities.Rollouts{}).CheckRollout(context.Background(), object)
	require.NoError(t, err)
	return object
}

// Completes gives rollouts their defaults when they are planned or edited.
func (w *World) Completes() {
	Play(w, "CheckRollout", func(object ranv1.ClusterGroupUpgrade) any { return Complete(w.T, object) })
	Play(w, "PlanRollout", func(object ranv1.ClusterGroupUpgrade) any {
		plan, spec := w.Plan, Complete(w.T, object).Spec
		if len(rollout.ChangedFields(object.Spec, spec)) > 0 {
			plan.Spec = &spec
		}
		return plan
	})
}
