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

// registries is a cluster with one HarborCluster, registry/main.
type registries struct {
	cluster
	standing health.HarborStanding
	err      error
}

func (r registries) Harbor(namespace, name string) (*health.HarborStanding, error) {
	if namespace+"/"+name != "registry/main" {
		return nil, r.err
	}
	return &r.standing, r.err
}

func TestAHarborMayBeOnItsWayButNotUnhealthy(t *testing.T) {
	down := []goharborv1.HarborClusterCondition{
		{Type: goharborv1.DatabaseReady, Status: metav1.ConditionTrue},
		{Type: goharborv1.CacheReady, Status: metav1.ConditionFalse, Reason: "ReplicasNotReady", Message: "2 of 3"},
	}
	for _, test := range []struct {
		name     string
		registry string
		cluster  registries
		healthy  bool
		reason   string
		message  string
	}{
		{"healthy", "main", registries{standing: health.HarborStanding{Status: goharborv1.StatusHealthy}}, true, "", "HarborCluster registry/main is healthy"},
		{"creating", "main", registries{standing: health.HarborStanding{Status: goharborv1.StatusCreating}}, true, "", "HarborCluster registry/main is creating"},
		{
			"unhealthy", "main",
			registries{standing: health.HarborStanding{Status: goharborv1.StatusUnhealthy, Conditions: down}},
			false, health.ReasonHarborUnhealthy,
			"HarborCluster registry/main: condition CacheReady is False: ReplicasNotReady: 2 of 3",
		},
		{
			"changed a moment ago", "main",
			registries{standing: health.HarborStanding{Status: goharborv1.StatusHealthy, Unseen: "generation 2 is not applied yet"}},
			false, health.ReasonHarborUnhealthy, "HarborCluster registry/main: generation 2 is not applied yet",
		},
		{"another", "other", registries{}, false, health.ReasonNothingFound, "found no HarborCluster registry/other"},
		{"not served", "main", registries{err: fmt.Errorf("%w: no", health.ErrNotServed)}, false, health.ReasonKindNotServed, "the cluster does not serve HarborClusters"},
		{
			"hidden", "main",
			registries{err: fmt.Errorf("%w: no", health.ErrForbidden)},
			false, health.ReasonForbidden,
			"may not read what HarborCluster registry/main is judged by: apply deploy/rbac/harbor.yaml",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			check := drydockv1.HealthCheck{Name: "registry", HarborCluster: &drydockv1.HarborClusterCheck{Namespace: "registry", Name: test.registry}}
			result, err := health.Evaluate(check, "", test.cluster)
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
