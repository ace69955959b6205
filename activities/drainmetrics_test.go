package activities

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/testsuite"
)

func TestADrainIsMeasuredWhileItLasts(t *testing.T) {
	ref, shop := testNode(t), newTenant(t)
	for _, name := range []string{"web-1", "web-2"} {
		shop.pod(t, ref.Node, name)
	}
	budget := shop.budget(t, "web", 2, 2)
	mark(t, ref)
	registry, workflow := prometheus.NewRegistry(), &signals{}
	drains := &Drains{Clusters: clusters, Waits: Waits{Temporal: workflow}, Metrics: NewDrainMetrics(registry)}
	var suite testsuite.WorkflowTestSuite
	environment := suite.NewTestActivityEnvironment()
	environment.RegisterActivity(drains)
	ended := make(chan error, 1)
	go func() {
		_, err := environment.ExecuteActivity(drains.Drain, DrainInput{NodeRef: ref, Attempt: 1})
		ended <- err
	}()
	workflow.waitsFor(t, "DisruptionBudgetNever")
	require.Equal(t, map[string]float64{ref.Node + " blocked": 2, ref.Node + " remaining": 2}, measured(t, registry))

	lower(t, budget, 0)
	require.NoError(t, <-ended)
	require.Empty(t, measured(t, registry), "a node that is not drained is not measured")
}

// measured returns what is measured of the pods of nodes, by node and state.
func measured(t *testing.T, registry *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	require.NoError(t, err)
	pods := map[string]float64{}
	for _, family := range families {
		require.Equal(t, "drydock_drain_pods", family.GetName())
		for _, metric := range family.GetMetric() {
			labels := map[string]string{}
			for _, label := range metric.GetLabel() {
				labels[label.GetName()] = label.GetValue()
			}
			require.Equal(t, spokeName, labels["cluster"])
			pods[labels["node"]+" "+labels["state"]] = metric.GetGauge().GetValue()
		}
	}
	return pods
}
