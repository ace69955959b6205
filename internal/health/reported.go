package health

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Reported is one condition in the status of an object.
type Reported struct {
	// Status is Unknown when the condition is about an older generation of the object.
	Status          metav1.ConditionStatus
	Reason, Message string
	// Stale: the condition is about an older generation.
	Stale bool
}

// ConditionOf returns a condition by type from an object's status, and whether there is one.
func ConditionOf(object *unstructured.Unstructured, conditionType string) (Reported, bool) {
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	condition := conditionOf(conditions, conditionType)
	if condition == nil {
		return Reported{}, false
	}
	reported := Reported{
		Status: metav1.ConditionStatus(text(condition, "status")), Reason: text(condition, "reason"), Message: text(condition, "message"),
	}
	if observed, ok := observedGeneration(object.Object, condition); ok && observed < object.GetGeneration() {
		reported.Status, reported.Stale = metav1.ConditionUnknown, true
	}
	return reported, true
}
