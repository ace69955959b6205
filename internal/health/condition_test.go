package health_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pgregory.net/rapid"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	"drydock.dev/drydock/internal/health"
)

func harbor(name string, status map[string]any) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "goharbor.io/v1beta1",
		"kind":       "Harbor",
		"metadata": map[string]any{
			"namespace": "registry", "name": name, "generation": int64(2), "labels": map[string]any{"app": "harbor"},
		},
		"status": status,
	}}
}

func reported(status string, fields ...any) map[string]any {
	condition := map[string]any{"type": "Ready", "status": status, "reason": "Said", "message": "so it is", "lastTransitionTime": "2026-11-20T09:59:00Z"}
	for i := 0; i < len(fields); i += 2 {
		condition[fields[i].(string)] = fields[i+1]
	}
	return map[string]any{"conditions": []any{map[string]any{"type": "Other", "status": "Unknown"}, condition}}
}

func with(status map[string]any, field string, value any) map[string]any {
	status[field] = value
	return status
}

func TestAConditionCheckIgnoresConditionsOfOlderGenerations(t *testing.T) {
	for _, test := range []struct {
		name    string
		objects []health.Object
		status  metav1.ConditionStatus
		reason  string
		message string
	}{
		{
			name:    "a condition without a generation counts",
			objects: []health.Object{harbor("main", reported("True"))},
		},
		{
			name:    "the condition's own generation counts",
			objects: []health.Object{harbor("main", with(reported("True", "observedGeneration", int64(1)), "observedGeneration", int64(2)))},
			reason:  health.ReasonGenerationNotObserved,
			message: "Harbor registry/main: generation 2 is not observed yet: condition Ready is about generation 1",
		},
		{
			name:    "without one, the status's generation counts",
			objects: []health.Object{harbor("main", with(reported("True"), "observedGeneration", int64(1)))},
			reason:  health.ReasonGenerationNotObserved,
			message: "Harbor registry/main: generation 2 is not observed yet: condition Ready is about generation 1",
		},
		{
			name:    "a generation that JSON made a float is the same generation",
			objects: []health.Object{harbor("main", with(reported("True"), "observedGeneration", float64(2)))},
		},
		{
			name:    "an unwanted status is reported with the controller's reason and message",
			objects: []health.Object{harbor("main", reported("False"))},
			reason:  health.ReasonConditionNotMet,
			message: "Harbor registry/main: condition Ready is False, not True: Said: so it is",
		},
		{
			name:    "a check may require another status",
			objects: []health.Object{harbor("main", reported("False"))},
			status:  metav1.ConditionFalse,
		},
		{
			name:    "a missing condition is not healthy",
			objects: []health.Object{harbor("main", map[string]any{})},
			reason:  health.ReasonConditionMissing,
			message: "Harbor registry/main: has no condition Ready",
		},
		{
			name:    "a missing object is not healthy",
			objects: []health.Object{harbor("other", reported("True"))},
			reason:  health.ReasonNothingFound,
			message: "found no Harbor main in namespace registry",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			check := drydockv1.HealthCheck{Name: "registry", Condition: &drydockv1.ConditionCheck{
				APIVersion: "goharbor.io/v1beta1", Kind: "Harbor", Namespace: "registry", Name: "main", Type: "Ready", Status: test.status,
			}}
			result, err := health.Evaluate(t.Context(), check, "", clusterOf(test.objects...))
			require.NoError(t, err)
			require.Equal(t, test.reason == "", result.Healthy)
			require.Equal(t, test.reason, result.Reason)
			if !result.Healthy {
				require.Equal(t, test.message, result.Message)
			}
		})
	}
}

func TestAConditionCheckWithASelectorRequiresTheConditionOnEveryObject(t *testing.T) {
	check := drydockv1.HealthCheck{Name: "registry", Condition: &drydockv1.ConditionCheck{
		APIVersion: "goharbor.io/v1beta1", Kind: "Harbor", Type: "Ready", Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "harbor"}},
	}}

	result, err := health.Evaluate(t.Context(), check, "", clusterOf(harbor("c", reported("False")), harbor("a", reported("True")), harbor("b", reported("Unknown"))))
	require.NoError(t, err)
	require.False(t, result.Healthy)
	require.Equal(t, "Harbor registry/b: condition Ready is Unknown, not True: Said: so it is; and 1 more", result.Message)
	require.Equal(t, []string{"Harbor registry/b", "Harbor registry/c"}, namesOf(result.Blockers))
	require.Equal(t, "2026-11-20T09:59:00Z", result.Blockers[0].Since.UTC().Format("2006-01-02T15:04:05Z"))

	result, err = health.Evaluate(t.Context(), check, "", clusterOf())
	require.NoError(t, err)
	require.Equal(t, health.ReasonNothingFound, result.Reason)
	require.Equal(t, "found no Harbor with labels app=harbor", result.Message)
}

func TestAConditionCheckReadsTypedObjectsToo(t *testing.T) {
	web := &appsv1.Deployment{
		ObjectMeta: named("shop", "web", nil),
		Status: appsv1.DeploymentStatus{
			ObservedGeneration: 1,
			Conditions:         []appsv1.DeploymentCondition{{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionTrue}},
		},
	}
	check := drydockv1.HealthCheck{Name: "web", Condition: &drydockv1.ConditionCheck{
		APIVersion: "apps/v1", Kind: "Deployment", Namespace: "shop", Name: "web", Type: "Available",
	}}

	result, err := health.Evaluate(t.Context(), check, "", clusterOf(web))
	require.NoError(t, err)
	require.Equal(t, health.ReasonGenerationNotObserved, result.Reason)

	web.Status.ObservedGeneration = 2
	result, err = health.Evaluate(t.Context(), check, "", clusterOf(web))
	require.NoError(t, err)
	require.True(t, result.Healthy, result.Message)
}

func TestAKindThatIsNotServedIsUnhealthyNotAnError(t *testing.T) {
	check := drydockv1.HealthCheck{Name: "registry", Condition: &drydockv1.ConditionCheck{
		APIVersion: "goharbor.io/v1beta1", Kind: "Harbor", Name: "main", Type: "Ready",
	}}

	result, err := health.Evaluate(t.Context(), check, "", cluster{unserved: map[string]bool{"Harbor": true}})
	require.NoError(t, err)
	require.Equal(t, health.Result{Reason: health.ReasonKindNotServed, Message: "the cluster does not serve Harbor of goharbor.io/v1beta1"}, result)

	result, err = health.Evaluate(t.Context(), check, "", cluster{hidden: map[string]bool{"Harbor": true}})
	require.NoError(t, err)
	require.Equal(t, health.ReasonForbidden, result.Reason)
	require.Equal(t, "may not list and watch Harbor of goharbor.io/v1beta1: grant it to the worker", result.Message)
}

func TestAnInvalidCheckIsAnError(t *testing.T) {
	bad := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: "Is"}}}
	for _, test := range []struct {
		name    string
		check   drydockv1.HealthCheck
		message string
	}{
		{"an empty check", drydockv1.HealthCheck{}, "exactly one of condition, workload, pods, node, cel, prometheus, http and harborCluster must be set"},
		{"apiVersion", drydockv1.HealthCheck{Condition: &drydockv1.ConditionCheck{APIVersion: "a/b/c", Kind: "X", Name: "x", Type: "Ready"}}, "condition.apiVersion"},
		{"selector of a condition", drydockv1.HealthCheck{Condition: &drydockv1.ConditionCheck{APIVersion: "v1", Kind: "Pod", Selector: bad, Type: "Ready"}}, "condition: "},
		{"selector of a workload", drydockv1.HealthCheck{Workload: &drydockv1.WorkloadCheck{Namespace: "shop", Selector: bad}}, "workload: "},
		{"kind of a workload", drydockv1.HealthCheck{Workload: &drydockv1.WorkloadCheck{Namespace: "shop", Kinds: []drydockv1.WorkloadKind{"Pod"}}}, `"Pod" is not one of`},
		{"selector of a node", drydockv1.HealthCheck{Node: &drydockv1.NodeCheck{Selector: bad}}, "node: "},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.check.Name = "mine"
			_, err := health.Evaluate(t.Context(), test.check, "", clusterOf(&corev1.Pod{ObjectMeta: named("shop", "web", nil)}))
			require.ErrorIs(t, err, health.ErrInvalid)
			require.ErrorContains(t, err, `health check "mine"`)
			require.ErrorContains(t, err, test.message)
		})
	}
}

func namesOf(blockers []drydockv1.Blocker) []string {
	var names []string
	for _, b := range blockers {
		names = append(names, b.String())
	}
	return names
}

// A cache lists in any order. The same objects must give the same message, or a status would flicker.
func TestAResultDoesNotDependOnTheOrderOfTheObjects(t *testing.T) {
	check := drydockv1.HealthCheck{Name: "registry", Condition: &drydockv1.ConditionCheck{
		APIVersion: "goharbor.io/v1beta1", Kind: "Harbor", Type: "Ready", Selector: &metav1.LabelSelector{},
	}}
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.SliceOfNDistinct(rapid.StringMatching(`[a-z]{1,3}`), 1, 30, rapid.ID[string]).Draw(t, "names")
		objects := make([]health.Object, 0, len(names))
		for _, name := range names {
			objects = append(objects, harbor(name, reported(rapid.SampledFrom([]string{"True", "False"}).Draw(t, "status"))))
		}
		result, err := health.Evaluate(t.Context(), check, "", clusterOf(objects...))
		require.NoError(t, err)
		shuffled, err := health.Evaluate(t.Context(), check, "", clusterOf(rapid.Permutation(objects).Draw(t, "order")...))
		require.NoError(t, err)
		require.Equal(t, result, shuffled)
		require.LessOrEqual(t, len(result.Blockers), 20)
	})
}
