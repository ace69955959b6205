package health_test

import (
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	"drydock.dev/drydock/internal/health"
)

const shop = "http://shop.example/healthz?token=secret"

func TestAnHTTPCheckRequiresAStatus(t *testing.T) {
	for _, test := range []struct {
		name, reason, message string
		status                int32
		answers               map[string]health.Answer
	}{
		{name: "the default is 200", answers: map[string]health.Answer{shop: {Status: 200}}},
		{name: "a check may require another status", status: 302, answers: map[string]health.Answer{shop: {Status: 302}}},
		{
			name: "a wrong status", answers: map[string]health.Answer{shop: {Status: 503}},
			reason: health.ReasonUnexpectedAnswer, message: "http://shop.example/healthz answers 503, not 200",
		},
		{name: "no answer", reason: health.ReasonUnreachable, message: "http://shop.example/healthz does not answer: connection refused"},
	} {
		t.Run(test.name, func(t *testing.T) {
			result, err := health.Evaluate(t.Context(), drydockv1.HealthCheck{Name: "shop", HTTP: &drydockv1.HTTPCheck{URL: shop, Status: test.status}}, "", cluster{answers: test.answers})
			require.NoError(t, err)
			require.Equal(t, test.reason == "", result.Healthy)
			require.Equal(t, test.reason, result.Reason)
			require.NotContains(t, result.Message, "secret")
			if !result.Healthy {
				require.Equal(t, test.message, result.Message)
			}
		})
	}
}

func prometheusCheck(expected string) drydockv1.HealthCheck {
	return drydockv1.HealthCheck{Name: "up", Prometheus: &drydockv1.PrometheusCheck{URL: "http://prometheus:9090/tenant", Query: "up", Expected: expected}}
}

func TestAPrometheusCheckRequiresEverySampleToMeetTheExpectation(t *testing.T) {
	vector := func(samples string) string {
		return `{"status":"success","data":{"resultType":"vector","result":[` + samples + `]}}`
	}
	const one, zero, nan = `{"metric":{"job":"a"},"value":[1.5,"1"]}`, `{"metric":{"job":"b"},"value":[1.5,"0"]}`, `{"metric":{},"value":[1.5,"NaN"]}`
	for _, test := range []struct {
		name, expected, body, reason, message string
		status                                int
	}{
		{name: "equal", expected: "== 1", body: vector(one)},
		{name: "at least", expected: ">=0.99", body: vector(one)},
		{name: "below zero", expected: "> -1", body: vector(one + "," + zero)},
		{name: "a scalar", expected: "< 3", body: `{"status":"success","data":{"resultType":"scalar","result":[1.5,"2.5"]}}`},
		{
			name: "one of two samples is wrong", expected: "== 1", body: vector(one + "," + zero),
			reason: health.ReasonUnexpectedSample, message: `Sample {"job":"b"}: is 0, not == 1`,
		},
		{name: "NaN never meets the expectation", expected: "!= 1", body: vector(nan), reason: health.ReasonUnexpectedSample, message: "Sample scalar: is NaN, not != 1"},
		{name: "no sample is not healthy", expected: "== 1", body: vector(""), reason: health.ReasonNothingFound, message: "up gives no sample"},
		{
			name: "an error is reported", expected: "== 1", status: 400, body: `{"status":"error","error":"parse error"}`,
			reason: health.ReasonUnexpectedAnswer, message: "http://prometheus:9090/tenant/api/v1/query: answers 400, no samples: parse error",
		},
		{
			name: "a web page is not an answer", expected: "== 1", body: "<html>",
			reason: health.ReasonUnexpectedAnswer, message: "http://prometheus:9090/tenant/api/v1/query: answers 200, no samples",
		},
		{
			name: "a matrix is not a value", expected: "== 1", body: `{"status":"success","data":{"resultType":"matrix","result":[]}}`, reason: health.ReasonUnexpectedAnswer,
			message: "http://prometheus:9090/tenant/api/v1/query: the query gives a matrix, not an instant vector or a scalar",
		},
		{
			name: "a sample without a value", expected: "== 1", body: vector(`{"metric":{"job":"a"}}`), reason: health.ReasonUnexpectedAnswer,
			message: `http://prometheus:9090/tenant/api/v1/query: sample {"job":"a"} has no value`,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			const address = "http://prometheus:9090/tenant/api/v1/query?lookback_delta=60s&query=up&timeout=5s"
			answer := health.Answer{Status: max(test.status, 200), Body: []byte(test.body)}
			result, err := health.Evaluate(t.Context(), prometheusCheck(test.expected), "", cluster{answers: map[string]health.Answer{address: answer}})
			require.NoError(t, err)
			require.Equal(t, test.reason == "", result.Healthy, result.Message)
			require.Equal(t, test.reason, result.Reason)
			if !result.Healthy {
				require.Equal(t, test.message, result.Message)
			}
		})
	}
}

func TestAQueryIsSentUnchanged(t *testing.T) {
	var asked []string
	check := prometheusCheck("== 0")
	check.Prometheus.Query = `sum(rate(errors{code=~"5..&x"}[1m]))`
	_, err := health.Evaluate(t.Context(), check, "", cluster{asked: &asked})
	require.NoError(t, err)
	address, err := url.Parse(asked[0])
	require.NoError(t, err)
	require.Equal(t, check.Prometheus.Query, address.Query().Get("query"))
}

func TestAnExpectationIsAComparisonWithANumber(t *testing.T) {
	for _, expected := range []string{"", "1", "= 1", "=> 1", "== one", "== 1 1", "== "} {
		_, err := health.Evaluate(t.Context(), prometheusCheck(expected), "", cluster{})
		require.ErrorIs(t, err, health.ErrInvalid, expected)
		require.ErrorContains(t, err, "prometheus.expected")
	}
}

func TestAnAddressIsRequestedPeriodically(t *testing.T) {
	check := drydockv1.HealthCheck{Name: "shop", HTTP: &drydockv1.HTTPCheck{URL: shop}}
	watches, err := health.Watches(check)
	require.NoError(t, err)
	require.Empty(t, watches)

	gate := health.NewGate(began, health.Declared(check, began))
	gate, decision := gate.Observe(began, []health.Result{{Reason: health.ReasonUnreachable}})
	require.Equal(t, health.Waiting, decision.Verdict)
	require.Equal(t, began.Add(5*time.Second), *decision.RecheckAt)
	_, decision = gate.Observe(began.Add(5*time.Second), []health.Result{{Healthy: true}})
	require.Equal(t, health.Decision{Verdict: health.Open}, decision)
}

// Prometheus' last sample may be a minute old.
func TestASampleFromBeforeTheStepOpensNoGate(t *testing.T) {
	gate := health.NewGate(began, health.Declared(prometheusCheck("== 1"), began))
	healthy := []health.Result{{Healthy: true}}
	gate, decision := gate.Observe(began.Add(time.Second), healthy)
	require.Equal(t, health.ReasonStabilizing, decision.Wait.Reason)
	gate, decision = gate.Observe(began.Add(time.Minute), healthy)
	require.Equal(t, health.Waiting, decision.Verdict)
	_, decision = gate.Observe(began.Add(time.Minute+time.Second), healthy)
	require.Equal(t, health.Open, decision.Verdict)
}

// The address is stored in the specification of a request, and in each history that has it.
func TestAnAddressHasNoPassword(t *testing.T) {
	const address = "http://user:secret@shop.example/"
	for _, check := range []drydockv1.HealthCheck{
		{Name: "shop", HTTP: &drydockv1.HTTPCheck{URL: address}},
		{Name: "shop", Prometheus: &drydockv1.PrometheusCheck{URL: address, Query: "up", Expected: "== 1"}},
		{Name: "shop", HTTP: &drydockv1.HTTPCheck{URL: address + "%zz"}},
	} {
		var asked []string
		_, err := health.Evaluate(t.Context(), check, "", cluster{asked: &asked})
		require.ErrorIs(t, err, health.ErrInvalid)
		require.NotContains(t, err.Error(), "secret:")
		require.NotContains(t, err.Error(), "user:")
		require.Empty(t, asked)
	}
}
