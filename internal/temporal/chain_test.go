package temporal_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/internal/temporal"
)

// chained waits for a signal: "continue" continues as new, "end" completes.
func chained(ctx workflow.Context) error {
	var order string
	workflow.GetSignalChannel(ctx, "order").Receive(ctx, &order)
	if order == "continue" {
		return workflow.NewContinueAsNewError(ctx, chained)
	}
	return nil
}

// describesChains describes workflows that have continued or ended in each possible way.
func describesChains(t *testing.T, c client.Client) {
	const queue = "chains"
	w := worker.New(c, queue, worker.Options{})
	w.RegisterWorkflow(chained)
	require.NoError(t, w.Start())
	t.Cleanup(w.Stop)
	start := func(t *testing.T, id string) client.WorkflowRun {
		run, err := c.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: id, TaskQueue: queue}, chained)
		require.NoError(t, err)
		return run
	}
	order := func(t *testing.T, id, order string) {
		require.NoError(t, c.SignalWorkflow(t.Context(), id, "", "order", order))
	}
	chain := func(t *testing.T, id, firstRun string) temporal.Chain {
		chain, err := temporal.DescribeChain(t.Context(), c, id, firstRun)
		require.NoError(t, err)
		return chain
	}
	// continued returns the first run of a workflow that has continued as new.
	continued := func(t *testing.T, id string) string {
		first := start(t, id).GetRunID()
		order(t, id, "continue")
		require.Eventually(t, func() bool {
			current, err := c.DescribeWorkflow(t.Context(), id, "")
			return err == nil && current.WorkflowExecution.RunID != first
		}, time.Minute, 20*time.Millisecond)
		return first
	}

	t.Run("a running workflow is open", func(t *testing.T) {
		run := start(t, "node/c/ns/runs")
		require.Equal(t, temporal.Chain{State: temporal.ChainOpen}, chain(t, run.GetID(), run.GetRunID()))
	})
	t.Run("a workflow that continued as new is open", func(t *testing.T) {
		first := continued(t, "node/c/ns/continued")
		require.Equal(t, temporal.ChainOpen, chain(t, "node/c/ns/continued", first).State)
	})
	t.Run("a terminated workflow is closed, with who terminated it and why", func(t *testing.T) {
		first := continued(t, "node/c/ns/terminated")
		require.NoError(t, c.TerminateWorkflow(t.Context(), "node/c/ns/terminated", "", "wrong node"))
		found := chain(t, "node/c/ns/terminated", first)
		require.Equal(t, temporal.ChainClosed, found.State)
		require.Regexp(t, `^Terminated at \S+Z by .+: wrong node$`, found.Ended)
	})
	t.Run("a completed workflow is closed, even when its id was started again", func(t *testing.T) {
		const id = "node/c/ns/anew"
		first := start(t, id)
		order(t, id, "end")
		require.NoError(t, first.Get(t.Context(), nil))
		require.Regexp(t, `^Completed at \S+Z$`, chain(t, id, first.GetRunID()).Ended)
		second := start(t, id)
		require.Equal(t, temporal.ChainClosed, chain(t, id, first.GetRunID()).State)
		require.Equal(t, temporal.ChainOpen, chain(t, id, second.GetRunID()).State)
	})
	t.Run("a workflow that continued as new, ended and was started again is closed", func(t *testing.T) {
		const id = "node/c/ns/continued-anew"
		first := continued(t, id)
		require.NoError(t, c.TerminateWorkflow(t.Context(), id, "", ""))
		start(t, id)
		require.Equal(t, temporal.Chain{State: temporal.ChainClosed, Ended: "Closed, and started again since"}, chain(t, id, first))
	})
	t.Run("a workflow that was terminated and reset is open", func(t *testing.T) {
		const id = "node/c/ns/reset"
		first := continued(t, id)
		require.Eventually(t, func() bool { // a reset goes back to a task that was completed
			current, err := c.DescribeWorkflow(t.Context(), id, "")
			return err == nil && current.HistoryLength >= 4
		}, time.Minute, 20*time.Millisecond)
		require.NoError(t, c.TerminateWorkflow(t.Context(), id, "", ""))
		_, err := c.ResetWorkflowExecution(t.Context(), &workflowservice.ResetWorkflowExecutionRequest{
			Namespace: "default", WorkflowExecution: &commonpb.WorkflowExecution{WorkflowId: id}, Reason: "terminated by mistake",
			WorkflowTaskFinishEventId: 4, RequestId: "reset",
		})
		require.NoError(t, err)
		require.Equal(t, temporal.ChainOpen, chain(t, id, first).State)
	})
	t.Run("a workflow that Temporal does not have is unknown", func(t *testing.T) {
		run := start(t, "node/c/ns/known")
		for _, mark := range [][2]string{
			{"node/c/ns/missing", run.GetRunID()},                            // no such workflow
			{"node/c/ns/known", "01a1f8f8-e90e-79c1-91aa-26fe2c78668f"},      // a run of another Temporal namespace
			{"node/c/ns/known", "not-a-run"}, {"ann", ""}, {"", "something"}, // written by hand
		} {
			require.Equal(t, temporal.Chain{State: temporal.ChainUnknown}, chain(t, mark[0], mark[1]), mark)
		}
	})
}
