package health

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	goharborv1 "drydock.dev/drydock/internal/apis/goharbor/v1beta1"
)

// counting are the conditions that decide a HarborCluster's status. ConfigurationReady is for information only.
func counting() []goharborv1.ConditionType {
	return []goharborv1.ConditionType{goharborv1.DatabaseReady, goharborv1.CacheReady, goharborv1.StorageReady, goharborv1.ServiceReady}
}

// Overall is the status of a HarborCluster at that generation: healthy when all its services are ready, unhealthy when one is known not to be, else
// creating. An absent condition, or one about an older generation, counts as Unknown.
func Overall(generation int64, conditions []goharborv1.HarborClusterCondition) goharborv1.ClusterStatus {
	ready := 0
	for _, counted := range counting() {
		switch statusOf(counted, generation, conditions) {
		case metav1.ConditionFalse:
			return goharborv1.StatusUnhealthy
		case metav1.ConditionTrue:
			ready++
		}
	}
	if ready == len(counting()) {
		return goharborv1.StatusHealthy
	}
	return goharborv1.StatusCreating
}

// statusOf accepts a condition without a generation, as the Harbor operator writes them.
func statusOf(kind goharborv1.ConditionType, generation int64, conditions []goharborv1.HarborClusterCondition) metav1.ConditionStatus {
	i := slices.IndexFunc(conditions, func(c goharborv1.HarborClusterCondition) bool { return c.Type == kind })
	if i < 0 {
		return metav1.ConditionUnknown
	}
	if observed := conditions[i].ObservedGeneration; observed != 0 && observed < generation {
		return metav1.ConditionUnknown
	}
	return conditions[i].Status
}
