// Package conditions sets the conditions of a status.
package conditions

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Set sets a condition. A new condition, and one whose status changes, becomes the last one: printer columns show the last condition. The
// transition time changes only with the status. Unlike meta.SetStatusCondition it does not read the system clock.
func Set(conditions *[]metav1.Condition, conditionType string, status metav1.ConditionStatus, reason, message string, now time.Time) {
	condition := metav1.Condition{
		Type: conditionType, Status: status, Reason: reason, Message: message, LastTransitionTime: metav1.NewTime(now),
	}
	at := slices.IndexFunc(*conditions, func(c metav1.Condition) bool { return c.Type == conditionType })
	if at >= 0 {
		old := (*conditions)[at]
		condition.ObservedGeneration = old.ObservedGeneration
		if old.Status == status {
			condition.LastTransitionTime = old.LastTransitionTime
			(*conditions)[at] = condition
			return
		}
		*conditions = slices.Delete(*conditions, at, at+1)
	}
	*conditions = append(*conditions, condition)
}
