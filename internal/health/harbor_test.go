package health_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	goharborv1 "drydock.dev/drydock/internal/apis/goharbor/v1beta1"
	"drydock.dev/drydock/internal/health"
)

// harborCluster is a cluster with one HarborCluster, registry/main.
type harborCluster struct {
	cluster
	harbor health.HarborHealth
	err    error
}

func (r harborCluster) Harbor(namespace, name string) (*health.HarborHealth, error) {
	if namespace+"/"+name != "registry/main" {
		return nil, r.err
	}
	return &r.harbor, r.err
}

func TestAStartingHarborPassesButNotAnUnhealthyOrUnknownOne(t *testing.T) {
	first := metav1.Now()
	const yes, no, unknown = metav1.ConditionTrue, metav1.ConditionFalse, metav1.ConditionUnknown
	// harbor returns a HarborCluster with these services; change may change the cache.
	harbor := func(status goharborv1.ClusterStatus, cache metav1.ConditionStatus, change func(*goharborv1.HarborClusterCondition)) harborCluster {
		services := conditions(1, yes, cache, yes, yes)
		for i := range services {
			if services[i].Status == yes {
				services[i].FirstReadyTime = &first
			}
		}
		change(&services[1])
		return harborCluster{harbor: health.HarborHealth{Status: status, Conditions: services}}
	}
	unchanged := func(*goharborv1.HarborClusterCondition) {}
	for _, test := range []struct {
		name     string
		registry string
		cluster  harborCluster
		healthy  bool
		reason   string
		message  string
	}{
		{"healthy", "main", harbor(goharborv1.StatusHealthy, yes, unchanged), true, "", "HarborCluster registry/main is healthy"},
		{"starting for the first time", "main", harbor(goharborv1.StatusCreating, unknown, unchanged), true, "", "HarborCluster registry/main is creating"},
		{
			"unhealthy", "main", harbor(goharborv1.StatusUnhealthy, no, func(c *goharborv1.HarborClusterCondition) { c.Reason, c.Message = "ReplicasNotReady", "2 of 3" }),
			false, health.ReasonHarborUnhealthy, "HarborCluster registry/main: condition CacheReady is False: ReplicasNotReady: 2 of 3",
		},
		{
			"was ready, and its state is unknown", "main",
			harbor(goharborv1.StatusCreating, unknown, func(c *goharborv1.HarborClusterCondition) { c.Reason, c.FirstReadyTime = "NotReported", &first }),
			false, health.ReasonHarborUnknown, "HarborCluster registry/main: condition CacheReady is Unknown: NotReported",
		},
		{
			"its operator reports an older generation", "main",
			harbor(goharborv1.StatusCreating, unknown, func(c *goharborv1.HarborClusterCondition) { c.Reason = health.ReasonGenerationNotObserved }),
			false, health.ReasonHarborUnknown, "HarborCluster registry/main: condition CacheReady is Unknown: GenerationNotObserved",
		},
		{
			"a condition is missing", "main", harbor(goharborv1.StatusCreating, unknown, func(c *goharborv1.HarborClusterCondition) { c.Type = "Other" }),
			false, health.ReasonHarborUnknown, "HarborCluster registry/main: condition CacheReady is Unknown: ConditionMissing",
		},
		{
			"changed a moment ago", "main",
			harborCluster{harbor: health.HarborHealth{Status: goharborv1.StatusHealthy, Pending: "generation 2 is not applied yet"}},
			false, health.ReasonHarborUnknown, "HarborCluster registry/main: generation 2 is not applied yet",
		},
		{"another name", "other", harborCluster{}, false, health.ReasonNothingFound, "found no HarborCluster registry/other"},
		{"not served", "main", harborCluster{err: fmt.Errorf("%w: no", health.ErrNotServed)}, false, health.ReasonKindNotServed, "the cluster does not serve HarborClusters"},
		{
			"hidden", "main",
			harborCluster{err: fmt.Errorf("%w: no", health.ErrForbidden)},
			false, health.ReasonForbidden,
			"may not read what HarborCluster registry/main is judged by: apply deploy/rbac/harbor.yaml",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			check := drydockv1.HealthCheck{Name: "registry", HarborCluster: &drydockv1.HarborClusterCheck{Namespace: "registry", Name: test.registry}}
			result, err := health.Evaluate(t.Context(), check, "", test.cluster)
			require.NoError(t, err)
			require.Equal(t, test.healthy, result.Healthy)
			require.Equal(t, test.reason, result.Reason)
			require.Equal(t, test.message, result.Message)
			watches, err := health.Watches(check)
			require.NoError(t, err)
			require.Equal(t, "HarborCluster", watches[0].Kind.Kind)
		})
	}
}
