package workflowtest

import (
	"github.com/stretchr/testify/require"
	sdktemporal "go.temporal.io/sdk/temporal"

	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/kit"
)

func StatusOf[S any](w *World) S {
	w.T.Helper()
	value, err := w.QueryWorkflow(temporal.QueryStatus)
	require.NoError(w.T, err)
	var status S
	require.NoError(w.T, value.Get(&status))
	return status
}

// RequireFailure requires that the workflow ended in an error of that type, and returns the status it carries.
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

// RequireCancelled requires that the workflow ended cancelled, and returns the status it carries.
func RequireCancelled[S any](w *World) S {
	w.T.Helper()
	require.True(w.T, w.IsWorkflowCompleted())
	err := w.GetWorkflowError()
	require.True(w.T, sdktemporal.IsCanceledError(err), "%v", err)
	var status S
	require.True(w.T, kit.DetailsOf(err, &status), "the error carries the status")
	return status
}

func RequireResult[S any](w *World) S {
	w.T.Helper()
	require.True(w.T, w.IsWorkflowCompleted())
	require.NoError(w.T, w.GetWorkflowError())
	var status S
	require.NoError(w.T, w.GetWorkflowResult(&status))
	return status
}
