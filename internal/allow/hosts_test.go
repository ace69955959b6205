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

func TestAnEmailNeedsAllowedRecipients(t *testing.T) {
	list := allow.List{Email: &allow.Email{Server: "smtp.example.com:587", Recipients: []string{"*@example.com", "Ann@partner.example"}}}
	for url, allowed := range map[string]bool{
		"mailto:ops@example.com":                          true,
		"mailto:OPS@Example.Com,ann@partner.example":      true,
		"mailto:ops@example.com,eve@elsewhere.example":    false,
		"mailto:bob@partner.example":                      false,
		"mailto:ops@sub.example.com":                      false,
		"mailto:ops@example.com.elsewhere.example":        false,
		"mailto:ops@example.com?bcc=eve@example.com":      false,
		"mailto:ops%40example.com@elsewhere.example":      false,
		"mailto:ops@example.com%0d%0aRCPT%20TO:%3Ceve@x>": false,
	} {
		recipients, server, err := list.RecipientsOf(url)
		require.Equal(t, allowed, err == nil, "%s: %v", url, err)
		require.Equal(t, allowed, len(recipients) > 0, url)
		require.Equal(t, allowed, server.Server != "", url)
	}
	refused := list.CheckReceivers(field.NewPath("spec", "notify"), []drydockv1.Notification{{URL: "mailto:ops@example.com"}, {URL: "mailto:eve@elsewhere.example"}})
	require.EqualError(t, refused.ToAggregate(), "spec.notify[1].url: Forbidden: eve@elsewhere.example: not one of allow.email.recipients of the worker's clusters file")
	require.ErrorContains(t, allow.List{}.CheckReceiver(field.NewPath("a"), "mailto:ops@example.com"), "allow.email of the worker's clusters file has no mail server")
}

func TestTLSOfAMailServerIsRequiredUnlessNone(t *testing.T) {
	require.Equal(t, allow.TLSStart, allow.Email{Server: "smtp.example.com:25"}.Mode())
	require.Equal(t, allow.TLSImplicit, allow.Email{Server: "smtp.example.com:465"}.Mode())
	require.Equal(t, allow.TLSStart, allow.Email{Server: "smtp.example.com:465", TLS: allow.TLSStart}.Mode())
	require.Equal(t, allow.TLSNone, allow.Email{Server: "smtp.example.com:25", TLS: allow.TLSNone}.Mode())
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
		{"email: {from: a@b.c, recipients: ['*@b.c']}", "allow.email.server: Invalid value"},
		{"email: {server: smtp.b.c, from: a@b.c, recipients: ['*@b.c']}", "allow.email.server: Invalid value"},
		{"email: {server: '*.b.c:25', from: a@b.c, recipients: ['*@b.c']}", "allow.email.server: Invalid value"},
		{"email: {server: 'smtp.b.c:0', from: a@b.c, recipients: ['*@b.c']}", "allow.email.server: Invalid value"},
		{"email: {server: 'smtp.b.c:25', recipients: ['*@b.c']}", "allow.email.from: Invalid value"},
		{"email: {server: 'smtp.b.c:25', from: 'Drydock <a@b>, <c@d>', recipients: ['*@b.c']}", "allow.email.from: Invalid value"},
		{"email: {server: 'smtp.b.c:25', from: a@b.c}", "allow.email.recipients: Required value"},
		{"email: {server: 'smtp.b.c:25', from: a@b.c, recipients: ['*']}", "allow.email.recipients[0]: Invalid value"},
		{"email: {server: 'smtp.b.c:25', from: a@b.c, recipients: [d@b.c, '*@*.c']}", "allow.email.recipients[1]: Invalid value"},
		{"email: {server: 'smtp.b.c:25', from: a@b.c, recipients: ['oncall-*@b.c']}", "allow.email.recipients[0]: Invalid value: \"oncall-*@b.c\": may have a * only as in *@example.com"},
		{"email: {server: 'smtp.b.c:25', from: a@b.c, recipients: ['*@b.c'], tls: Maybe}", "allow.email.tls: Unsupported value"},
		{"email: {server: 'smtp.b.c:25', from: a@b.c, recipients: ['*@b.c'], username: a}", "allow.email.passwordFile: Required value"},
		{"email: {server: 'smtp.b.c:25', from: a@b.c, recipients: ['*@b.c'], passwordFile: a}", "allow.email.username: Required value"},
		{"email: {server: 'smtp.b.c:25', from: a@b.c, recipients: ['*@b.c'], username: a, passwordFile: a, tls: None}", "allow.email.username: Forbidden"},
	} {
		var list allow.List
		require.NoError(t, yaml.UnmarshalStrict([]byte(tt.list), &list))
		require.ErrorContains(t, list.Check(field.NewPath("allow")).ToAggregate(), tt.says)
	}
	var good allow.List
	require.NoError(t, yaml.UnmarshalStrict([]byte("{healthCheckHosts: [a.b, 'a:*', '*.a:80', '10.0.0.1:1', '::1', '[::1]:80'], webhooks: [{host: a, path: /x, tokenFile: t}], "+
		"email: {server: '[::1]:2525', from: 'Drydock <a@b.c>', recipients: ['*@b.c', d@e.f], username: u, passwordFile: p, caFile: c, tls: StartTLS}}"), &good))
	require.Empty(t, good.Check(field.NewPath("allow")))
}
