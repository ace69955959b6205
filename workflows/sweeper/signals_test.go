package sweeper_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/sweeper"
	"drydock.dev/drydock/workflows/workflowtest"
)

func TestASweeperThatIsWokenAfterItsCancellationContinues(t *testing.T) {
	for _, signals := range [][]string{{temporal.SignalWake, temporal.SignalCancel}, {temporal.SignalCancel, temporal.SignalWake}} {
		w := workflowtest.NewSweeperWorld(t)
		w.When(func() bool { return len(w.Scans()) == 1 }, func() { w.SignalInOneTask(signals...) })
		w.ExecuteWorkflow(sweeper.Sweeper, sweeper.Input{Cluster: "c1"})
		require.Equal(t, signals[1] == temporal.SignalWake, workflow.IsContinueAsNewError(w.GetWorkflowError()), "%v", w.GetWorkflowError())
	}
}
