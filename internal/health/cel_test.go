package health_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	"drydock.dev/drydock/internal/health"
)

func celCheck(expression string) drydockv1.HealthCheck {
	return drydockv1.HealthCheck{Name: "phase", CEL: &drydockv1.CELCheck{
		APIVersion: "goharbor.io/v1beta1", Kind: "Harbor", Namespace: "registry", Name: "main", Expression: expression,
	}}
}

func TestACELCheckRequiresItsExpressionToBeTrue(t *testing.T) {
	running := map[string]any{"phase": "Running", "replicas": int64(3), "share": 0.5}
	for _, test := range []struct {
		name, expression, reason, message string
		status                            map[string]any
	}{
		{name: "it is true", expression: "object.status.phase == 'Running' && object.status.replicas >= 3 && object.status.share < 1.0", status: running},
		{name: "a field may be missing if the expression allows it", expression: "object.?status.failed.orValue(0) == 0", status: running},
		{
			name: "it is false", expression: "object.status.replicas > 3", status: running,
			reason: health.ReasonExpressionFalse, message: "Harbor registry/main: object.status.replicas > 3 is false",
		},
		{
			name: "a missing field is not true", expression: "object.status.ready == 3", status: running,
			reason: health.ReasonExpressionFailed, message: "Harbor registry/main: object.status.ready == 3: no such key: ready",
		},
		{
			name: "a value that is not a bool is not true", expression: "object.status.phase", status: running,
			reason: health.ReasonExpressionFailed, message: "Harbor registry/main: object.status.phase gives a string, not a bool",
		},
		{
			name: "a status about an older generation does not count", expression: "object.status.phase == 'Running'",
			status: map[string]any{"phase": "Running", "observedGeneration": int64(1)},
			reason: health.ReasonGenerationNotObserved, message: "Harbor registry/main: generation 2 is not observed yet: its status is about generation 1",
		},
		{
			name: "an expression that runs for too long is stopped", status: map[string]any{"all": make([]any, 300)},
			expression: "object.status.all.all(a, object.status.all.all(b, object.status.all.all(c, true)))",
			reason:     health.ReasonExpressionFailed,
			message:    "Harbor registry/main: object.status.all.all(a, object.status.all.all(b, object.status.all.all(c, true))): operation cancelled: actual cost limit exceeded",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			result, err := health.Evaluate(t.Context(), celCheck(test.expression), "", clusterOf(harbor("main", test.status), harbor("other", nil)))
			require.NoError(t, err)
			require.Equal(t, test.reason == "", result.Healthy, result.Message)
			require.Equal(t, test.reason, result.Reason)
			if !result.Healthy {
				require.Equal(t, test.message, result.Message)
			}
		})
	}
}

func TestAnInvalidExpressionIsRefused(t *testing.T) {
	for expression, message := range map[string]string{
		"object.status ==":     "Syntax error",
		"status.phase == 'x'":  "undeclared reference to 'status'",
		"1 + 1":                "cel.expression: is of type int, not bool",
		"object.status.size()": "cel.expression: is of type int, not bool",
	} {
		_, err := health.Evaluate(t.Context(), celCheck(expression), "", clusterOf())
		require.ErrorIs(t, err, health.ErrInvalid)
		require.ErrorContains(t, err, message)
		require.ErrorIs(t, health.CheckExpression(expression), health.ErrInvalid)
	}
	require.NoError(t, health.CheckExpression("object.status.phase == 'Running'"))
}

func TestACELCheckWatchesItsObjects(t *testing.T) {
	watches, err := health.Watches(celCheck("true"))
	require.NoError(t, err)
	require.Equal(t, "main", watches[0].Name)
	require.Equal(t, "Harbor", watches[0].Kind.Kind)
}

// Checks are evaluated at each event. Thousands of objects with an expression that is just cheap enough must not block a worker.
func TestACheckOfManyObjectsHasABudget(t *testing.T) {
	var many []health.Object
	for i := range 1000 {
		many = append(many, harbor(fmt.Sprintf("h%04d", i), map[string]any{"all": make([]any, 1000)}))
	}
	check := celCheck("object.status.all.all(a, true)")
	check.CEL.Name = ""
	result, err := health.Evaluate(t.Context(), check, "", clusterOf(many...))
	require.NoError(t, err)
	require.False(t, result.Healthy)
	require.Regexp(t, "too expensive: evaluated for [0-9]{2,3} of 1000 objects", result.Message)
}

func TestAnEvaluationEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := health.Evaluate(ctx, celCheck("object.status.all.all(a, true)"), "", clusterOf(harbor("main", map[string]any{"all": make([]any, 1000)})))
	require.ErrorIs(t, err, context.Canceled)
}

func BenchmarkACELCheckAtItsLimit(b *testing.B) {
	objects := clusterOf(harbor("main", map[string]any{"all": make([]any, 3000)}))
	for b.Loop() {
		result, err := health.Evaluate(b.Context(), celCheck("object.status.all.all(a, object.status.all.all(b, true))"), "", objects)
		require.NoError(b, err)
		require.Equal(b, health.ReasonExpressionFailed, result.Reason)
	}
}
