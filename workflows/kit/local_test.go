package kit_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/activities/objects"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/kit"
	"drydock.dev/drydock/workflows/workflowtest"
)

// runLocal runs an activity with RunLocal, and returns whether it succeeded and how often it ran.
func runLocal(t *testing.T, retrier kit.Retrier, failure error) (succeeded bool, attempts int) {
	w := workflowtest.NewWorld(t)
	w.RegisterActivityWithOptions(func(ctx context.Context, nodes []string) (string, error) {
		attempts++
		require.True(t, activity.GetInfo(ctx).IsLocalActivity)
		nodes[0] = "changed"
		return "done", failure
	}, activity.RegisterOptions{Name: "Short"})
	w.ExecuteWorkflow(func(ctx workflow.Context, _ string) error {
		nodes, result := []string{"n1"}, ""
		succeeded = retrier.RunLocal(ctx, "work", "Short", nodes, &result)
		require.Equal(t, succeeded, result == "done")
		require.Equal(t, "n1", nodes[0], "an activity does not change the state of its workflow")
		return nil
	}, "")
	require.NoError(t, w.GetWorkflowError())
	return succeeded, attempts
}

func TestALocalActivityHasOneAttempt(t *testing.T) {
	succeeded, attempts := runLocal(t, kit.HubRetrier(nil), nil)
	require.True(t, succeeded)
	require.Equal(t, 1, attempts)
	succeeded, attempts = runLocal(t, kit.HubRetrier(nil), temporal.Error(temporal.ErrClusterUnreachable, "no answer", nil))
	require.False(t, succeeded)
	require.Equal(t, 1, attempts)
}

func TestAnActivityOfTheWorkersOfAClusterIsNotLocal(t *testing.T) {
	queue := temporal.ClusterTaskQueue("c1")
	succeeded, attempts := runLocal(t, kit.ClusterRetrier("c1", &queue, nil), nil)
	require.False(t, succeeded)
	require.Zero(t, attempts)
}

// The rest of a workflow waits for a local activity, so one that is slow must not follow another.
func TestAFailedLocalWriteIsRepeatedAndFollowedByActivities(t *testing.T) {
	w := workflowtest.NewWorld(t)
	var local []bool
	w.RegisterActivityWithOptions(func(ctx context.Context, _ objects.PublishStatusInput) (objects.PublishStatusResult, error) {
		local = append(local, activity.GetInfo(ctx).IsLocalActivity)
		if len(local) == 1 {
			return objects.PublishStatusResult{}, temporal.Error(temporal.ErrClusterUnreachable, "no answer", nil)
		}
		return objects.PublishStatusResult{}, nil
	}, activity.RegisterOptions{Name: "PublishStatus"})
	w.ExecuteWorkflow(func(ctx workflow.Context, _ string) error {
		number := 0
		p := kit.Publisher{Object: &temporal.Object{Cluster: "c1"}, Local: true, Current: func() any { return number }, Retrier: kit.HubRetrier(nil)}
		p.Open()
		workflow.Go(ctx, p.Run)
		for _, pause := range []time.Duration{time.Minute, 10 * time.Minute, time.Minute} {
			number++
			p.Change()
			if err := workflow.Sleep(ctx, pause); err != nil {
				return err
			}
		}
		p.Stop()
		return nil
	}, "")
	require.NoError(t, w.GetWorkflowError())
	require.Equal(t, []bool{true, false, false, true}, local)
}
