package harbor

import (
	"testing"

	"github.com/stretchr/testify/require"

	"drydock.dev/drydock/activities/activitykit"
	"drydock.dev/drydock/activities/activitytest"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	"drydock.dev/drydock/internal/devstack/operators"
	"drydock.dev/drydock/internal/harbor"
	"drydock.dev/drydock/internal/temporal"
)

// harborHeld holds the cluster before another attempt of its activities.
func harborHeld(t *testing.T, simulated *operators.Operators) {
	r := newRegistry(t, simulated, "incluster.yaml", "expose:\n    core:", "deletionPolicy: Delete\n  expose:\n    core:")
	workflow := &activitytest.HeldWorkflow{}
	h := &Activities{Clusters: r.clusters, Waits: activitykit.Waits{Workflows: workflow}}
	requireHeldFirst := func(step, in any, unchanged func()) {
		t.Helper()
		workflow.Hold = &drydockv1.Hold{Scope: drydockv1.HoldAll, By: "ann", Reason: "flood"}
		err := activitytest.RunAttempt(2, step, in)
		require.Equal(t, temporal.ErrHeld, temporal.ErrorType(err), "%v", err)
		unchanged()
		workflow.Hold = nil
		require.NoError(t, activitytest.RunAttempt(2, step, in), "the hold was released")
	}
	due, err := h.AwaitHarborDue(t.Context(), AwaitDueInput{Ref: r.ref, Known: r.known})
	require.NoError(t, err)
	require.Equal(t, harbor.PartDatabase, due.Parts[0].Part)
	requireHeldFirst(h.ApplyHarborPart, ApplyPartInput{Ref: r.ref, Due: due.Parts[0], Generation: due.Generation}, func() {
		require.Nil(t, r.object(harbor.Postgresql, r.postgres()))
	})
	require.NotNil(t, r.object(harbor.Postgresql, r.postgres()))

	require.NoError(t, h.DeleteHarborCluster(t.Context(), r.ref))
	requireHeldFirst(h.RemoveHarborPart, RemovePartInput{Ref: r.ref, Part: harbor.PartDatabase}, func() {
		require.Nil(t, r.object(harbor.Postgresql, r.postgres()).GetDeletionTimestamp())
	})
	require.Nil(t, r.object(harbor.Postgresql, r.postgres()))
	require.NoError(t, h.RemoveHarborFinalizer(t.Context(), RemoveFinalizerInput{Ref: r.ref, Removed: true}))
}
