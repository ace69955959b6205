package health

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
)

// evaluateCondition requires the condition on every selected object, and at least one object.
func evaluateCondition(check drydockv1.ConditionCheck, objects Objects) (Result, error) {
	selected, unseen, err := conditionChoice(check).of(objects)
	if err != nil || unseen != nil {
		return orNone(unseen), err
	}
	var blockers []drydockv1.Blocker
	for _, object := range selected {
		b, err := judgeCondition(check, object)
		if err != nil {
			return Result{}, err
		}
		if b != nil {
			blockers = append(blockers, *b)
		}
	}
	return judged(fmt.Sprintf("%s is %s on %d of %s", check.Type, wanted(check), len(selected), conditionChoice(check)), blockers), nil
}

func wanted(check drydockv1.ConditionCheck) metav1.ConditionStatus {
	if check.Status == "" {
		return metav1.ConditionTrue
	}
	return check.Status
}

// judgeCondition returns why one object fails, or nil. Like kubectl wait, it accepts a condition only if its own observedGeneration, or else the
// status's, is the object's generation; a kind that reports neither is accepted as it is.
func judgeCondition(check drydockv1.ConditionCheck, object Object) (*drydockv1.Blocker, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return nil, fmt.Errorf("read %s %s/%s: %w", check.Kind, object.GetNamespace(), object.GetName(), err)
	}
	conditions, _, _ := unstructured.NestedSlice(content, "status", "conditions")
	condition := conditionOf(conditions, check.Type)
	if condition == nil {
		return blocking(check.Kind, object, unavailable{ReasonConditionMissing, "has no condition " + check.Type}), nil
	}

	since := instant(condition, "lastTransitionTime")
	if observed, ok := observedGeneration(content, condition); ok && observed < object.GetGeneration() {
		return blocking(check.Kind, object, unavailable{
			ReasonGenerationNotObserved,
			fmt.Sprintf("generation %d is not observed yet: condition %s is about generation %d", object.GetGeneration(), check.Type, observed),
		}), nil
	}
	if status := text(condition, "status"); status != string(wanted(check)) {
		b := blocker(check.Kind, object, ReasonConditionNotMet,
			fmt.Sprintf("condition %s is %s, not %s%s", check.Type, status, wanted(check), because(text(condition, "reason"), text(condition, "message"))), since)
		return &b, nil
	}
	return nil, nil
}

func conditionOf(conditions []any, conditionType string) map[string]any {
	for _, c := range conditions {
		if condition, ok := c.(map[string]any); ok && text(condition, "type") == conditionType {
			return condition
		}
	}
	return nil
}

func observedGeneration(content, condition map[string]any) (int64, bool) {
	if observed, found := number(condition, "observedGeneration"); found {
		return observed, true
	}
	return number(content, "status", "observedGeneration")
}

// number reads an integer that JSON may have turned into a float.
func number(content map[string]any, fields ...string) (int64, bool) {
	value, found, err := unstructured.NestedNumberAsFloat64(content, fields...)
	return int64(value), found && err == nil
}

func text(content map[string]any, field string) string {
	value, _, _ := unstructured.NestedString(content, field)
	return value
}

func instant(content map[string]any, field string) metav1.Time {
	parsed, err := time.Parse(time.RFC3339, text(content, field))
	if err != nil {
		return metav1.Time{}
	}
	return metav1.NewTime(parsed)
}

// because formats a reason and a message, either of which may be empty.
func because(reason, message string) string {
	switch {
	case reason == "" && message == "":
		return ""
	case reason == "":
		return ": " + message
	case message == "":
		return ": " + reason
	}
	return ": " + reason + ": " + message
}
