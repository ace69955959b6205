package activities

import (
	"testing"

	"github.com/stretchr/testify/require"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	"drydock.dev/drydock/internal/devstack/operators"
	"drydock.dev/drydock/internal/harbor"
	"drydock.dev/drydock/internal/temporal"
)

// harborHeld: a cluster may be held before another worker comes to what one that died has begun.
func harborHeld(t *testing.T, played *operators.Operators) {
	r := newRegistry(t, played, "incluster.yaml", "expose:\n    core:", "deletionPolicy: Delete\n  expose:\n    core:")
	workflow := &heldWorkflow{}
	h := &Harbor{Clusters: r.clusters, Waits: Waits{Workflows: workflow}}
	requireHeldFirst := func(step, in any, unchanged func()) {
		t.Helper()
		workflow.hold = &drydockv1.Hold{Scope: drydockv1.HoldAll, By: "ann", Reason: "flood"}
		err := runAttempt(2, step, in)
		require.Equal(t, temporal.ErrHeld, temporal.ErrorType(err), "%v", err)
		unchanged()
		workflow.hold = nil
		require.NoError(t, runAttempt(2, step, in), "nothing is held any more")
	}
	due, err := h.AwaitHarborDue(t.Context(), AwaitHarborDueInput{HarborRef: r.ref, Known: r.known})
	require.NoError(t, err)
	require.Equal(t, harbor.PartDatabase, due.Parts[0].Part)
	requireHeldFirst(h.ApplyHarborPart, ApplyHarborPartInput{HarborRef: r.ref, Due: due.Parts[0], Generation: due.Generation}, func() {
		require.Nil(t, r.object(harbor.Postgresql, r.postgres()))
	})
	require.NotNil(t, r.object(harbor.Postgresql, r.postgres()))

	require.NoError(t, h.DeleteHarborCluster(t.Context(), r.ref))
	requireHeldFirst(h.RemoveHarborPart, RemoveHarborPartInput{HarborRef: r.ref, Part: harbor.PartDatabase}, func() {
		require.Nil(t, r.object(harbor.Postgresql, r.postgres()).GetDeletionTimestamp())
	})
	require.Nil(t, r.object(harbor.Postgresql, r.postgres()))
	require.NoError(t, h.ReleaseHarborCluster(t.Context(), ReleaseHarborClusterInput{HarborRef: r.ref, Removed: true}))
}
