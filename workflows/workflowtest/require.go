package workflowtest

import (
	"github.com/stretchr/testify/require"
	sdktemporal "go.temporal.io/sdk/temporal"

	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/kit"
)

// StatusOf queries the status of the workflow.
func StatusOf[S any](w *World) S {
	w.T.Helper()
	value, err := w.QueryWorkflow(temporal.QueryStatus)
	require.NoError(w.T, err)
	var status S
	require.NoError(w.T, value.Get(&status))
	return status
}

// RequireFailure requires that the workflow failed with that error type, and returns the status in its error.
func RequireFailure[S any](w *World, errType string) S {
	w.T.Helper()
	require.True(w.T, w.IsWorkflowCompleted())
	err := w.GetWorkflowError()
	require.Error(w.T, err)
	require.Equal(w.T, errType, temporal.ErrorType(err), "%v", err)
	var status S
	require.True(w.T, kit.DetailsOf(err, &status), "the error carries the status")
	return status
}

// RequireCancelled requires that the workflow was cancelled, and returns the status in its error.
func RequireCancelled[S any](w *World) S {
	w.T.Helper()
	require.True(w.T, w.IsWorkflowCompleted())
	err := w.GetWorkflowError()
	require.True(w.T, sdktemporal.IsCanceledError(err), "%v", err)
	var status S
	require.True(w.T, kit.DetailsOf(err, &status), "the error carries the status")
	return status
}

// RequireResult requires that the workflow completed, and returns its result.
func RequireResult[S any](w *World) S {
	w.T.Helper()
	require.True(w.T, w.IsWorkflowCompleted())
	require.NoError(w.T, w.GetWorkflowError())
	var status S
	require.NoError(w.T, w.GetWorkflowResult(&status))
	return status
}
