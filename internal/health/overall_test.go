package health_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	goharborv1 "drydock.dev/drydock/internal/apis/goharbor/v1beta1"
	"drydock.dev/drydock/internal/health"
)

const absent metav1.ConditionStatus = ""

var services = []goharborv1.ConditionType{goharborv1.DatabaseReady, goharborv1.CacheReady, goharborv1.StorageReady, goharborv1.ServiceReady}

// conditions are those of the services with these statuses, in their order.
func conditions(generation int64, statuses ...metav1.ConditionStatus) []goharborv1.HarborClusterCondition {
	var made []goharborv1.HarborClusterCondition
	for i, status := range statuses {
		if status != absent {
			made = append(made, goharborv1.HarborClusterCondition{Type: services[i], Status: status, ObservedGeneration: generation})
		}
	}
	return made
}

func TestTheOverallStatusOfAllCombinations(t *testing.T) {
	all := []metav1.ConditionStatus{metav1.ConditionTrue, metav1.ConditionFalse, metav1.ConditionUnknown, absent}
	counted := map[goharborv1.ClusterStatus]int{}
	for _, database := range all {
		for _, cache := range all {
			for _, storage := range all {
				for _, service := range all {
					statuses := []metav1.ConditionStatus{database, cache, storage, service}
					want := goharborv1.StatusCreating
					switch {
					case slices.Contains(statuses, metav1.ConditionFalse):
						want = goharborv1.StatusUnhealthy
					case !slices.Contains(statuses, metav1.ConditionUnknown) && !slices.Contains(statuses, absent):
						want = goharborv1.StatusHealthy
					}
					got := health.Overall(3, conditions(3, statuses...))
					require.Equal(t, want, got, "%v", statuses)
					counted[got]++
				}
			}
		}
	}
	require.Equal(t, map[goharborv1.ClusterStatus]int{
		goharborv1.StatusHealthy: 1, goharborv1.StatusUnhealthy: 175, goharborv1.StatusCreating: 80,
	}, counted)
}

func TestAConditionOfAnOlderGenerationCountsAsUnknown(t *testing.T) {
	const yes, no = metav1.ConditionTrue, metav1.ConditionFalse
	require.Equal(t, goharborv1.StatusHealthy, health.Overall(2, conditions(2, yes, yes, yes, yes)))
	require.Equal(t, goharborv1.StatusCreating, health.Overall(2, conditions(1, yes, yes, yes, yes)))
	require.Equal(t, goharborv1.StatusCreating, health.Overall(2, conditions(1, yes, no, yes, yes)), "it may have been repaired since")
	require.Equal(t, goharborv1.StatusHealthy, health.Overall(2, conditions(0, yes, yes, yes, yes)), "conditions without a generation count")
}

func TestConfigurationReadyDoesNotAffectTheOverallStatus(t *testing.T) {
	healthy := conditions(1, metav1.ConditionTrue, metav1.ConditionTrue, metav1.ConditionTrue, metav1.ConditionTrue)
	configuration := goharborv1.HarborClusterCondition{Type: goharborv1.ConfigurationReady, Status: metav1.ConditionFalse}
	require.Equal(t, goharborv1.StatusHealthy, health.Overall(1, append(healthy, configuration)))
	configuration.Status = metav1.ConditionTrue
	require.Equal(t, goharborv1.StatusCreating, health.Overall(1, append(healthy[:3], configuration)))
}
