package workflows

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"
)

// Fifty children that start in one moment and tell their parent in another would keep the server from everything else meanwhile.
func TestSiblingsThatStartTogetherTellTheirParentOneAfterTheOther(t *testing.T) {
	limit := progressLimit(50, nodeAtWork)
	inOneSecond := map[int]int{}
	for i := range 50 {
		told := firstTold(t, fmt.Sprintf("node/spoke/default/rollout-worker-%d", i), limit)
		require.GreaterOrEqual(t, told, progressInterval)
		require.LessOrEqual(t, told, limit/progressSteps)
		inOneSecond[int(told/time.Second)]++
	}
	for second, count := range inOneSecond {
		require.LessOrEqual(t, count, 50/3, "told in second %d", second)
	}
}

func TestAChildWithFewSiblingsTellsItsParentSoon(t *testing.T) {
	require.Equal(t, progressInterval, firstTold(t, "node/spoke/default/one", progressLimit(1, nodeAtWork)))
}

// firstTold is how long after its start a child first tells its parent of a change.
func firstTold(t *testing.T, id string, limit time.Duration) time.Duration {
	t.Helper()
	env := new(testsuite.WorkflowTestSuite).NewTestWorkflowEnvironment()
	env.SetStartWorkflowOptions(client.StartWorkflowOptions{ID: id, TaskQueue: "test"})
	began := env.Now()
	var told time.Duration
	env.OnSignalExternalWorkflow(mock.Anything, "parent", "", "news", mock.Anything).
		Run(func(mock.Arguments) { told = env.Now().Sub(began) }).Return(nil).Once()
	env.ExecuteWorkflow(func(ctx workflow.Context) error {
		ctx, stop := workflow.WithCancel(ctx)
		p := &progress{changed: true}
		p.report(ctx, "parent", "news", limit, func() any { stop(); return "changed" })
		return nil
	})
	require.NoError(t, env.GetWorkflowError())
	return told
}
