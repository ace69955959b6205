package observe_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/converter"

	"drydock.dev/drydock/internal/observe"
)

// young is a run that does its first task after some time.
type young struct {
	first   time.Time
	message string
	asked   int
}

func (y *young) QueryWorkflow(context.Context, string, string, string, ...any) (converter.EncodedValue, error) {
	if y.asked++; time.Now().Before(y.first) {
		return nil, serviceerror.NewWorkflowNotReady(y.message)
	}
	return done{}, nil
}

type done struct{}

func (done) HasValue() bool     { return true }
func (done) Get(into any) error { *into.(*string) = "done"; return nil }

func TestARunIsAskedAgainThatHasNotDoneItsFirstTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var status string
		late := &young{first: time.Now().Add(5 * time.Second), message: "Workflow task is not scheduled yet."}
		require.NoError(t, observe.Status(t.Context(), late, "hold", "", &status))
		require.Equal(t, "done", status)
	})
}

func TestARunThatCannotAnswerIsNotAskedAgain(t *testing.T) {
	for message, reason := range map[string]error{
		"Unable to query workflow due to Workflow Task in failed state.": observe.ErrTaskFails,
		"Workflow execution closed before WorkflowTaskStarted event.":    observe.ErrNeverBegan,
	} {
		run := &young{first: time.Now().Add(time.Hour), message: message}
		require.ErrorIs(t, observe.Status(t.Context(), run, "hold", "", new(string)), reason)
		require.Equal(t, 1, run.asked)
	}
}
