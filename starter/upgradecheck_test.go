package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/internal/temporal"
)

// checksUpgrades runs while workflows of this version are running. The clusters of rollouts are simulated, which this version cannot continue. It can neither
// continue a workflow that another version has begun differently.
func (s *stage) checksUpgrades(t *testing.T) {
	var all upgradeCheck
	require.NoError(t, json.Unmarshal([]byte(drydock(t, "upgrade-check", "-o", "json").stdout), &all))
	require.Greater(t, all.Checked, len(all.Failed))
	for _, failed := range all.Failed {
		require.Equal(t, temporal.ClusterUpgrade, failed.Type, "%+v", failed)
	}

	const queue = "another-version"
	other := worker.New(s.client, queue, worker.Options{})
	other.RegisterWorkflowWithOptions(func(ctx workflow.Context, _ any) error {
		ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: patience})
		return workflow.ExecuteActivity(ctx, "DoSomethingElse").Get(ctx, nil)
	}, workflow.RegisterOptions{Name: temporal.Preflight})
	begun := make(chan bool)
	other.RegisterActivityWithOptions(func(context.Context) error {
		close(begun)
		return activity.ErrResultPending
	}, activity.RegisterOptions{Name: "DoSomethingElse"})
	require.NoError(t, other.Start())
	defer other.Stop()
	begins, err := s.client.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: "preflight/other", TaskQueue: queue}, temporal.Preflight, map[string]string{})
	require.NoError(t, err)
	<-begun

	var got outcome
	require.Eventually(t, func() bool { // visibility lags
		got = drydock(t, "upgrade-check")
		return strings.Contains(got.stdout, "preflight/other")
	}, patience, tick)
	require.Equal(t, exitFailed, got.status)
	require.Empty(t, got.stderr)
	require.Regexp(t, `preflight/other +Preflight +.*DoSomethingElse`, got.stdout)
	require.Contains(t, got.stdout, fmt.Sprintf(" cannot continue %d of %d running workflows: end them first", len(all.Failed)+1, all.Checked+1))
	require.NoError(t, s.client.TerminateWorkflow(t.Context(), begins.GetID(), begins.GetRunID(), "the test is over"))
}
