package drain_test

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/testsuite"

	"drydock.dev/drydock/activities/activitykit"
	"drydock.dev/drydock/activities/activitytest"
	"drydock.dev/drydock/activities/drain"
)

func TestARunningDrainHasMetrics(t *testing.T) {
	ref, shop := activitytest.TestNode(t), activitytest.NewTenant(t)
	for _, name := range []string{"web-1", "web-2"} {
		shop.Pod(t, ref.Node, name)
	}
	budget := shop.Budget(t, "web", 2, 2)
	activitytest.Mark(t, ref)
	registry, workflow := prometheus.NewRegistry(), &activitytest.Signals{}
	drains := &drain.Activities{Clusters: activitytest.Clusters, Waits: activitykit.Waits{Temporal: workflow}, Metrics: drain.NewMetrics(registry)}
	var suite testsuite.WorkflowTestSuite
	environment := suite.NewTestActivityEnvironment()
	environment.RegisterActivity(drains)
	ended := make(chan error, 1)
	go func() {
		_, err := environment.ExecuteActivity(drains.Drain, drain.Input{NodeRef: ref, Attempt: 1})
		ended <- err
	}()
	workflow.WaitsFor(t, "DisruptionBudgetNever")
	before := measured(t, registry)
	require.InDelta(t, 2, before[ref.Node+" blocked"], 0)
	require.InDelta(t, 2, before[ref.Node+" remaining"], 0)
	require.Contains(t, before, "accepted", "all results are there from the start")

	activitytest.Lower(t, budget, 0)
	require.NoError(t, <-ended)
	after := measured(t, registry)
	require.InDelta(t, 2, after["accepted"], 0)
	require.Len(t, after, 3, "only draining nodes have metrics of their own: %v", after)
}

// measured returns the gauge of pods, by node and state, and the counter of evictions, by result.
func measured(t *testing.T, registry *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	require.NoError(t, err)
	values := map[string]float64{}
	for _, family := range families {
		require.Contains(t, []string{"drydock_drain_pods", "drydock_evictions_total"}, family.GetName())
		for _, metric := range family.GetMetric() {
			labels := map[string]string{}
			for _, label := range metric.GetLabel() {
				labels[label.GetName()] = label.GetValue()
			}
			require.Equal(t, activitytest.SpokeName, labels["cluster"])
			if result, counted := labels["result"]; counted {
				values[result] = metric.GetCounter().GetValue()
			} else {
				values[labels["node"]+" "+labels["state"]] = metric.GetGauge().GetValue()
			}
		}
	}
	return values
}
