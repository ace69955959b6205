package kit_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/kit"
	"drydock.dev/drydock/workflows/workflowtest"
)

// localAttempt is what an attempt of a short activity knows.
type localAttempt struct {
	local, first bool
	started      time.Time
}

// short is a workflow that runs one short activity with RunLocal. Attempts fail as fail says; nil: they succeed.
type short struct {
	*workflowtest.World
	fail     func(call int) error
	attempts []localAttempt
	began    time.Time
}

func newShort(t *testing.T) *short {
	s := &short{World: workflowtest.NewWorld(t)}
	s.SetContextPropagators([]workflow.ContextPropagator{temporal.AttemptHeaders(temporal.DataConverter())})
	s.RegisterActivityWithOptions(func(ctx context.Context, nodes []string) (string, error) {
		s.Mu.Lock()
		defer s.Mu.Unlock()
		s.attempts = append(s.attempts, localAttempt{activity.GetInfo(ctx).IsLocalActivity, temporal.FirstAttempt(ctx), temporal.Started(ctx)})
		nodes[0] = "changed"
		if s.fail != nil {
			return "", s.fail(len(s.attempts))
		}
		return "done", nil
	}, activity.RegisterOptions{Name: "Short"})
	return s
}

func (s *short) run(retrier kit.Retrier) error {
	s.ExecuteWorkflow(func(ctx workflow.Context, _ string) error {
		s.began = workflow.Now(ctx)
		nodes, result := []string{"n1"}, ""
		if err := retrier.RunLocal(ctx, "work", "Short", nodes, &result); err != nil {
			return err
		}
		require.Equal(s.T, "done", result)
		require.Equal(s.T, "n1", nodes[0], "an activity does not change the state of its workflow")
		return nil
	}, "")
	return s.GetWorkflowError()
}

func TestAShortActivityRunsInItsWorkflowTask(t *testing.T) {
	s := newShort(t)
	require.NoError(t, s.run(kit.HubRetrier(nil)))
	require.Len(t, s.attempts, 1)
	require.True(t, s.attempts[0].local)
	require.True(t, s.attempts[0].first)
	require.True(t, s.attempts[0].started.Equal(s.began), "by the clock of the server, which decides whether a window has closed")
}

// The local activity may have had effects that caches do not show yet.
func TestAFailedLocalActivityIsRepeatedAsALaterAttempt(t *testing.T) {
	for name, failure := range map[string]error{
		"without an answer": temporal.Error(temporal.ErrClusterUnreachable, "no answer", nil),
		"finally":           temporal.Error(temporal.ErrNodeBusy, "the node is busy", nil),
	} {
		t.Run(name, func(t *testing.T) {
			s := newShort(t)
			s.fail = onlyFirst(failure)
			err := s.run(kit.HubRetrier(nil))
			require.ErrorContains(t, err, "second")
			require.Len(t, s.attempts, 2)
			require.False(t, s.attempts[1].local)
			require.False(t, s.attempts[1].first)
		})
	}
}

// onlyFirst fails the first attempt with that error, and the second with another, which is final.
func onlyFirst(failure error) func(int) error {
	return func(call int) error {
		if call == 1 {
			return failure
		}
		return temporal.Error(temporal.ErrInvalidSpec, "the second attempt", nil)
	}
}

func TestAFailedLocalActivityIsNotRepeatedWhenTheRoundMayNotBegin(t *testing.T) {
	s := newShort(t)
	s.fail = onlyFirst(temporal.Error(temporal.ErrClusterUnreachable, "no answer", nil))
	retrier := kit.HubRetrier(nil)
	retrier.BeforeRound = func() error { return errors.New("the cluster is held") }
	require.ErrorContains(t, s.run(retrier), "the cluster is held")
	require.Len(t, s.attempts, 1)
}

func TestAnActivityOfTheWorkersOfAClusterIsNotLocal(t *testing.T) {
	s := newShort(t)
	queue := temporal.ClusterTaskQueue("c1")
	require.NoError(t, s.run(kit.ClusterRetrier("c1", &queue, nil)))
	require.Len(t, s.attempts, 1)
	require.False(t, s.attempts[0].local)
	require.True(t, s.attempts[0].first)
}
