package rollout

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
)

// conditionRank is the index of a condition type in the documented order.
func conditionRank(conditionType string) int {
	return slices.Index([]string{
		ranv1.ConditionClustersSelected, ranv1.ConditionValidated, ranv1.ConditionPrecacheSpecValid,
		ranv1.ConditionPrecachingSucceeded, ranv1.ConditionBackupSucceeded, ranv1.ConditionProgressing, ranv1.ConditionSucceeded,
	}, conditionType)
}

// SetCondition sets a condition in the documented order. The transition time changes only with the status. Unlike meta.SetStatusCondition it does not
// read the system clock.
func SetCondition(conditions *[]metav1.Condition, conditionType string, status metav1.ConditionStatus, reason, message string, now time.Time) {
	condition := metav1.Condition{
		Type: conditionType, Status: status, Reason: reason, Message: message, LastTransitionTime: metav1.NewTime(now),
	}
	for i, old := range *conditions {
		if old.Type != conditionType {
			continue
		}
		condition.ObservedGeneration = old.ObservedGeneration
		if old.Status == status {
			condition.LastTransitionTime = old.LastTransitionTime
		}
		(*conditions)[i] = condition
		return
	}
	*conditions = append(*conditions, condition)
	slices.SortStableFunc(*conditions, func(a, b metav1.Condition) int { return conditionRank(a.Type) - conditionRank(b.Type) })
}
