package kit_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/activities/objects"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/kit"
)

// The object may be released, and another one created with its name, while its status is written.
func TestAPublisherThatIsClosedDuringAWriteWritesNothingMore(t *testing.T) {
	env := new(testsuite.WorkflowTestSuite).NewTestWorkflowEnvironment()
	var writes []objects.PublishStatusInput
	env.RegisterActivityWithOptions(func(ctx context.Context, in objects.PublishStatusInput) (objects.PublishStatusResult, error) {
		writes = append(writes, in)
		token := activity.GetInfo(ctx).TaskToken
		env.RegisterDelayedCallback(func() {
			require.NoError(t, env.CompleteActivity(token, objects.PublishStatusResult{}, nil))
		}, 3*time.Second)
		return objects.PublishStatusResult{}, activity.ErrResultPending
	}, activity.RegisterOptions{Name: "PublishStatus"})
	env.ExecuteWorkflow(func(ctx workflow.Context) error {
		p := kit.Publisher{Object: &temporal.Object{Cluster: "c1"}, Current: func() any { return "Ready" }, Retrier: kit.HubRetrier(nil)}
		p.Open()
		p.ChangeNow()
		workflow.Go(ctx, p.Run)
		if err := workflow.Sleep(ctx, time.Second); err != nil {
			return err
		}
		p.Close()
		if err := workflow.Sleep(ctx, 10*time.Second); err != nil {
			return err
		}
		p.Finish(ctx)
		return nil
	})
	require.NoError(t, env.GetWorkflowError())
	require.Len(t, writes, 1)
}
