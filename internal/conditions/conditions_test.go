package conditions_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/drydock/internal/conditions"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func TestTheLastConditionIsTheOneThatChangedLast(t *testing.T) {
	var list []metav1.Condition
	for _, change := range []string{"ClustersSelected False", "Validated True", "Progressing False", "ClustersSelected True", "Progressing False", "Validated True"} {
		conditionType, status, _ := strings.Cut(change, " ")
		conditions.Set(&list, conditionType, metav1.ConditionStatus(status), "Because", "", noon)
	}
	var order []string
	for _, condition := range list {
		order = append(order, condition.Type)
	}
	require.Equal(t, []string{"Validated", "Progressing", "ClustersSelected"}, order)
}

func TestTheTransitionTimeChangesOnlyWithTheStatus(t *testing.T) {
	later, latest := noon.Add(time.Minute), noon.Add(time.Hour)
	var list []metav1.Condition
	conditions.Set(&list, "Progressing", metav1.ConditionFalse, "NotEnabled", "Not enabled", noon)
	conditions.Set(&list, "Progressing", metav1.ConditionFalse, "NotStarted", "", later)
	require.Equal(t, "NotStarted", list[0].Reason)
	require.Equal(t, metav1.NewTime(noon), list[0].LastTransitionTime)
	conditions.Set(&list, "Progressing", metav1.ConditionTrue, "InProgress", "", latest)
	require.Len(t, list, 1)
	require.Equal(t, metav1.NewTime(latest), list[0].LastTransitionTime)
}
