package observe_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/converter"

	"drydock.dev/drydock/internal/observe"
)

// young is a run that has not done its first task when it is asked for the first time.
type young struct{ asked int }

func (y *young) QueryWorkflow(context.Context, string, string, string, ...any) (converter.EncodedValue, error) {
	if y.asked++; y.asked == 1 {
		return nil, serviceerror.NewWorkflowNotReady("Workflow task is not scheduled yet.")
	}
	return done{}, nil
}

type done struct{}

func (done) HasValue() bool     { return true }
func (done) Get(into any) error { *into.(*string) = "done"; return nil }

func TestARunIsAskedAgainThatHasNotDoneItsFirstTask(t *testing.T) {
	var status string
	require.NoError(t, observe.Status(t.Context(), &young{}, "hold", "", &status))
	require.Equal(t, "done", status)
}
