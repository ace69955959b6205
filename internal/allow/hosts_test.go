package allow_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	"drydock.dev/drydock/internal/allow"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
)

func TestAnAddressNeedsAHostOfTheList(t *testing.T) {
	list := allow.List{HealthCheckHosts: []string{"shop.example.com", "*.metrics.example.com:9090", "127.0.0.1:*", "[::1]:*"}}
	for address, allowed := range map[string]bool{
		"https://shop.example.com/health":                true,
		"http://SHOP.example.com./":                      true,
		"https://shop.example.com:443":                   true,
		"https://shop.example.com:8443":                  false,
		"http://shop.example.com:443":                    false,
		"https://shop.example.com.elsewhere.org":         false,
		"https://shop.example.com@elsewhere.org":         false,
		"https://elsewhere.org/shop.example.com":         false,
		"http://a.metrics.example.com:9090":              true,
		"http://metrics.example.com:9090":                false,
		"http://evilmetrics.example.com:9090":            false,
		"http://127.0.0.1:8080/":                         true,
		"http://[::1]:8080/":                             true,
		"http://169.254.169.254/latest/meta-data":        false,
		"ftp://shop.example.com":                         false,
		"https://ann:s3cret@elsewhere.org/?token=s3cret": false,
	} {
		err := list.CheckAddress(address)
		require.Equal(t, allowed, err == nil, "%s: %v", address, err)
		if err != nil {
			require.NotContains(t, err.Error(), "s3cret")
		}
	}
	require.Error(t, allow.List{}.CheckAddress("https://shop.example.com"), "without a list nothing is allowed")
}

func TestHealthChecksAreRefusedByTheirField(t *testing.T) {
	checks := []drydockv1.HealthCheck{
		{HTTP: &drydockv1.HTTPCheck{URL: "https://shop.example.com"}},
		{HTTP: &drydockv1.HTTPCheck{URL: "https://elsewhere.org"}},
		{Prometheus: &drydockv1.PrometheusCheck{URL: "http://10.0.0.1:9090"}},
	}
	refused := allow.List{HealthCheckHosts: []string{"shop.example.com"}}.CheckHealthChecks(field.NewPath("spec", "healthChecks"), checks)
	require.EqualError(t, refused.ToAggregate(), "[spec.healthChecks[1].http.url: Forbidden: host elsewhere.org: not allowed by allow.healthCheckHosts of the worker's clusters file, "+
		"spec.healthChecks[2].prometheus.url: Forbidden: host 10.0.0.1:9090: not allowed by allow.healthCheckHosts of the worker's clusters file]")
}

func TestAReceiverHasTheCredentialsOfItsOwnEntry(t *testing.T) {
	list := allow.List{Webhooks: []allow.Webhook{
		{Host: "hooks.example.com", Path: "/team-a", SecretFile: "a"},
		{Host: "hooks.example.com", Path: "/team-b", SecretFile: "b"},
		{Host: "localhost:*", SecretFile: "local", PrivateAddresses: true},
	}}
	for address, secret := range map[string]string{
		"https://hooks.example.com/team-a":            "a",
		"https://hooks.example.com/team-b/x":          "b",
		"https://hooks.example.com/team-bad":          "",
		"https://hooks.example.com/team-a/../team-b":  "",
		"https://hooks.example.com/team-a/%2e%2e/x":   "",
		"https://hooks.example.com/":                  "",
		"http://hooks.example.com/team-a":             "",
		"https://ann:s3cret@hooks.example.com/team-a": "",
		"http://localhost:8080/any":                   "local",
	} {
		webhook, err := list.WebhookOf(address)
		require.Equal(t, secret, webhook.SecretFile, address)
		require.Equal(t, secret != "", err == nil, address)
		if err != nil {
			require.NotContains(t, err.Error(), "s3cret")
		}
	}
}

func TestReceiversOfNotificationsAreAllowed(t *testing.T) {
	list := allow.List{Webhooks: []allow.Webhook{{Host: "hooks.example.com", SecretFile: "s"}}}
	refused := list.CheckReceivers(field.NewPath("spec", "notify"), []drydockv1.Notification{{URL: "https://hooks.example.com/a"}, {URL: "https://elsewhere.org/s3cret"}})
	require.Len(t, refused, 1)
	require.ErrorContains(t, refused[0], "spec.notify[1].url: Forbidden: host elsewhere.org: not a receiver of allow.webhooks")
	require.NotContains(t, refused[0].Error(), "s3cret")
}

func TestHostsOfAListAreChecked(t *testing.T) {
	for _, tt := range []struct{ list, says string }{
		{"healthCheckHosts: ['']", "allow.healthCheckHosts[0]: Invalid value"},
		{"healthCheckHosts: ['*']", "allow.healthCheckHosts[0]: Invalid value"},
		{"healthCheckHosts: ['*example.com']", "allow.healthCheckHosts[0]: Invalid value"},
		{"healthCheckHosts: ['https://example.com']", "allow.healthCheckHosts[0]: Invalid value"},
		{"healthCheckHosts: ['example.com:http']", "allow.healthCheckHosts[0]: Invalid value"},
		{"webhooks: [{host: hooks.example.com}]", "allow.webhooks[0].secretFile: Required value: or tokenFile"},
		{"webhooks: [{secretFile: s}]", "allow.webhooks[0].host: Invalid value"},
		{"webhooks: [{host: hooks.example.com, secretFile: s, path: a/../b}]", "allow.webhooks[0].path: Invalid value"},
	} {
		var list allow.List
		require.NoError(t, yaml.UnmarshalStrict([]byte(tt.list), &list))
		require.ErrorContains(t, list.Check(field.NewPath("allow")).ToAggregate(), tt.says)
	}
	var good allow.List
	require.NoError(t, yaml.UnmarshalStrict([]byte("{healthCheckHosts: [a.b, 'a:*', '*.a:80', '10.0.0.1:1', '::1', '[::1]:80'], webhooks: [{host: a, path: /x, tokenFile: t}]}"), &good))
	require.Empty(t, good.Check(field.NewPath("allow")))
}
