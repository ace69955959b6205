package health_test

import (
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
			result, err := health.Evaluate(celCheck(test.expression), "", clusterOf(harbor("main", test.status), harbor("other", nil)))
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
		_, err := health.Evaluate(celCheck(expression), "", clusterOf())
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
