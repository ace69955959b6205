package observe

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/converter"
)

// refusal answers every query with an error.
type refusal struct{ err error }

func (r refusal) QueryWorkflow(context.Context, string, string, string, ...any) (converter.EncodedValue, error) {
	return nil, r.err
}

func TestStatusCodesDistinguishUnresponsiveServers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ask := func(err error) error { return Status(t.Context(), refusal{err}, "cgu/prod/june", "", nil) }
		absent := ask(serviceerror.NewWorkflowNotReady("Workflow task is not scheduled yet."))
		require.ErrorIs(t, absent, ErrNoWorker)
		require.NotErrorIs(t, absent, ErrTaskFails)
		fails := ask(serviceerror.NewWorkflowNotReady("Unable to query workflow due to Workflow Task in failed state."))
		require.ErrorIs(t, fails, ErrTaskFails)
		require.ErrorIs(t, fails, ErrNoWorker, "no worker has answered")
		require.ErrorContains(t, fails, "repeatedly fail its next workflow task")
		require.ErrorIs(t, ask(serviceerror.NewFailedPrecondition("no poller seen for task queue recently, worker may be down")), ErrNoWorker)
		gone := serviceerror.NewNotFound("no such workflow")
		require.Equal(t, gone, ask(gone))
	})
}
