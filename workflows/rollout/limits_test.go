package rollout_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"drydock.dev/drydock/internal/temporal"
	rolloutworkflow "drydock.dev/drydock/workflows/rollout"
	"drydock.dev/drydock/workflows/workflowtest"
)

func TestAPlanErrorWithManyProblemsHasAShortMessage(t *testing.T) {
	var clusters []string
	for i := range 600 {
		clusters = append(clusters, fmt.Sprintf("c%d", i))
	}
	w, _ := workflowtest.NewGroupWorld(t, clusters)
	w.Fail["AwaitClusterHealthy"] = workflowtest.Always(unhealthyRegistry("c0"))
	w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, rolloutworkflow.Input{Object: withHealthChecks(workflowtest.ARollout())})
	status := workflowtest.RequireFailure[workflowtest.GroupStatus](w, temporal.ErrHealthGateFailed)
	require.Len(t, status.Clusters, rolloutworkflow.ResultClusters)
	require.EqualValues(t, 600, status.Counts.Total)
}

func TestAPlanWithVeryManyProblemsHasMessagesThatTheAPIAllows(t *testing.T) {
	w, _ := workflowtest.NewGroupWorld(t)
	w.Plan = planWithoutClusters("Unable to select clusters: " + strings.Repeat("cluster edge is not a ManagedCluster; ", 10_000))
	w.RegisterDelayedCallback(func() { w.SignalWorkflow(temporal.SignalCancel, nil) }, time.Hour)
	w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, rolloutworkflow.Input{Object: workflowtest.ARollout()})
	status := workflowtest.RequireCancelled[workflowtest.GroupStatus](w)
	require.NotEmpty(t, status.Conditions)
	for _, condition := range status.Conditions {
		require.LessOrEqual(t, len(condition.Message), 32768, condition.Type)
	}
}
