package manifest_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	"drydock.dev/drydock/internal/manifest"
)

const oneCheck = `- {name: page, http: {url: "http://shop.example"}}`

func loadChecks(text string) ([]drydockv1.HealthCheck, error) {
	return manifest.LoadHealthChecks(manifest.Stdin, strings.NewReader(text))
}

func TestHealthChecksAreReadWithTheirDefaults(t *testing.T) {
	for name, text := range map[string]string{
		"a list": oneCheck, "after a separator": "---\n" + oneCheck, "in the field of a manifest": "healthChecks:\n" + oneCheck,
		"JSON": `{"healthChecks": [{"name": "page", "http": {"url": "http://shop.example"}}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			checks, err := loadChecks(text)
			require.NoError(t, err)
			require.Equal(t, []drydockv1.HealthCheck{{
				Name: "page", TimeoutSeconds: new(int32(300)), HTTP: &drydockv1.HTTPCheck{URL: "http://shop.example", Status: 200},
			}}, checks)
		})
	}
}

func TestInvalidHealthChecksAreReported(t *testing.T) {
	const shape = "stdin: must be a list of health checks, or hold one in the field healthChecks and nothing else"
	for _, test := range []struct {
		name, text string
		lines      []string
	}{
		{name: "an empty file", text: "", lines: []string{"stdin: must be one document with a list of health checks"}},
		{name: "two documents", text: oneCheck + "\n---\n" + oneCheck, lines: []string{"stdin: must be one document with a list of health checks"}},
		{name: "an empty list", text: "healthChecks: []", lines: []string{shape}},
		{name: "another field beside the list", text: "healthChecks:\n" + oneCheck + "\ncolour: blue", lines: []string{shape}},
		{name: "an object", text: "{name: page}", lines: []string{shape}},
		{
			name: "a check without a target, and one with two targets", text: "[{name: a}, {name: b, node: {}, http: {url: 'http://x'}}]",
			lines: []string{
				"stdin: healthChecks[0]: Invalid value: exactly one of condition, workload, pods, node, cel, prometheus, http and harborCluster must be set",
				"stdin: healthChecks[1]: Invalid value: exactly one of condition, workload, pods, node, cel, prometheus, http and harborCluster must be set",
			},
		},
		{name: "a misspelt field", text: "[{name: a, http: {uri: 'http://x'}}]", lines: []string{
			"stdin: healthChecks[0].http.uri: unknown field", "stdin: healthChecks[0].http.url: Required value",
		}},
		{name: "an expression that does not compile", text: "[{name: a, cel: {apiVersion: v1, kind: Pod, name: p, expression: 'status ='}}]", lines: []string{
			`stdin: healthChecks[0].cel.expression: Invalid value: "status =": invalid check: cel.expression: ERROR: <input>:1:8: Syntax error`,
		}},
		{name: "an expectation without a comparison", text: "[{name: a, prometheus: {url: 'http://x', query: up, expected: up}}]", lines: []string{
			`stdin: healthChecks[0].prometheus.expected: Invalid value: "up": should match`,
		}},
		{name: "an address of another scheme", text: "[{name: a, http: {url: 'file:///etc/passwd'}}]", lines: []string{
			`stdin: healthChecks[0].http.url: Invalid value: "file:///etc/passwd": should match`,
		}},
		{name: "a selector of pods", text: "[{name: a, pods: {namespace: shop, selector: {matchLabels: {a: '-'}}}}]", lines: []string{
			"stdin: healthChecks[0].pods.selector.matchLabels: Invalid value",
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := loadChecks(test.text)
			var invalid manifest.Invalid
			require.ErrorAs(t, err, &invalid)
			require.Len(t, invalid, len(test.lines), "%v", err)
			for i, line := range test.lines {
				require.True(t, strings.HasPrefix(invalid[i].String(), line), "%s\nis not\n%s", invalid[i], line)
			}
		})
	}
}
