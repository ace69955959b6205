package health_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	"drydock.dev/drydock/internal/health"
)

// oneObject is a cluster with one object of any kind, whose addresses all give one answer.
type oneObject struct {
	object *unstructured.Unstructured
	answer health.Answer
}

func (o oneObject) List(schema.GroupVersionKind, string) ([]health.Object, error) {
	return []health.Object{o.object}, nil
}
func (oneObject) Node(string) (*corev1.Node, error)                   { return nil, nil }
func (oneObject) PodsOn(string) ([]*corev1.Pod, error)                { return nil, nil }
func (oneObject) Harbor(string, string) (*health.HarborHealth, error) { return nil, nil }
func (o oneObject) Fetch(string, *drydockv1.HealthCheckSecret) (health.Answer, error) {
	return o.answer, nil
}

// FuzzEvidence evaluates checks on objects and answers that others wrote.
func FuzzEvidence(f *testing.F) {
	f.Add([]byte(`{"apiVersion":"v1","kind":"X","metadata":{"name":"x","generation":3},"status":{"observedGeneration":2,"conditions":[{"type":"Ready","status":"True","observedGeneration":1,"lastTransitionTime":"x"}]}}`), "object.status.phase == 'x'", []byte(`{"status":"success","data":{"resultType":"vector","result":[{"metric":{"a":"b"},"value":[1,"2"]}]}}`), ">= 1")
	f.Add([]byte(`{"kind":"X","status":{"conditions":{"a":1}},"spec":{"replicas":"x"}}`), "object.all(x, x)", []byte(`{"status":"success","data":{"resultType":"scalar","result":[1,2,3]}}`), "== NaN")
	f.Add([]byte(`{"kind":"X","metadata":null,"status":[]}`), "[1,2].all(x, [3].exists(y, y == x))", []byte(`{"status":"success","data":{"resultType":"vector","result":[null,{"value":[null,null]}]}}`), "<")
	f.Fuzz(func(t *testing.T, object []byte, expression string, body []byte, expected string) {
		read := &unstructured.Unstructured{}
		if !json.Valid(object) || read.UnmarshalJSON(object) != nil {
			return
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		objects := oneObject{read, health.Answer{Status: 200, Body: body}}
		for _, check := range []drydockv1.HealthCheck{
			{Name: "condition", Condition: &drydockv1.ConditionCheck{APIVersion: "v1", Kind: "X", Type: "Ready", Status: "True", Name: "x"}},
			{Name: "cel", CEL: &drydockv1.CELCheck{APIVersion: "v1", Kind: "X", Name: "x", Expression: expression}},
			{Name: "prometheus", Prometheus: &drydockv1.PrometheusCheck{URL: "http://x", Query: expression, Expected: expected}},
			{Name: "http", HTTP: &drydockv1.HTTPCheck{URL: expression}},
		} {
			_, _ = health.Evaluate(ctx, check, "", objects)
		}
		health.ConditionOf(read, "Ready")
	})
}
