package allow

import (
	"fmt"
	"net/url"
	"path"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	"drydock.dev/drydock/internal/notify"
)

// Hosts are patterns of hosts, as in HealthCheckHosts.
type Hosts []string

// Allow reports whether an address has one of the hosts.
func (h Hosts) Allow(address *url.URL) bool {
	return slices.ContainsFunc(h, func(pattern string) bool { return matchesHost(pattern, address) })
}

// Check returns the invalid patterns; at is the path of the list.
func (h Hosts) Check(at *field.Path) field.ErrorList {
	var invalid field.ErrorList
	for i, pattern := range h {
		invalid = append(invalid, checkHostPattern(at.Index(i), pattern)...)
	}
	return invalid
}

// Webhook is a receiver of notifications.
type Webhook struct {
	// Host of the receiver, as in HealthCheckHosts.
	Host string `json:"host"`
	// Path of the receiver, with all below it. Absent: all paths.
	Path string `json:"path,omitempty"`
	// SecretFile has the secret that signs the notifications to this receiver. A relative path starts at the clusters file's directory.
	SecretFile string `json:"secretFile,omitempty"`
	// TokenFile has a bearer token for this receiver.
	TokenFile string `json:"tokenFile,omitempty"`
	// PrivateAddresses: the host may have a private or loopback address, and may be reached without TLS.
	PrivateAddresses bool `json:"privateAddresses,omitempty"`
}

// CheckHealthChecks returns the addresses of health checks that the list does not allow; at is the path of the checks.
func (l List) CheckHealthChecks(at *field.Path, checks []drydockv1.HealthCheck) field.ErrorList {
	var refused field.ErrorList
	for i, check := range checks {
		at := at.Index(i)
		if check.HTTP != nil {
			refused = append(refused, l.checkHost(at.Child("http", "url"), check.HTTP.URL)...)
		}
		if check.Prometheus != nil {
			refused = append(refused, l.checkHost(at.Child("prometheus", "url"), check.Prometheus.URL)...)
		}
	}
	return refused
}

func (l List) checkHost(at *field.Path, address string) field.ErrorList {
	if err := l.CheckAddress(address); err != nil {
		return field.ErrorList{field.Forbidden(at, err.Error())}
	}
	return nil
}

// CheckAddress returns an error if the list does not allow the address of a health check. The error has no secrets of the address.
func (l List) CheckAddress(address string) error {
	parsed, err := url.Parse(address)
	if err != nil {
		return fmt.Errorf("the address is not a URL")
	}
	if !l.HealthCheckHosts.Allow(parsed) {
		return fmt.Errorf("host %s: not allowed by allow.healthCheckHosts of the worker's clusters file", parsed.Host)
	}
	return nil
}

// WebhookOf returns the entry of a receiver.
func (l List) WebhookOf(address string) (Webhook, error) {
	parsed, err := url.Parse(address)
	switch {
	case err != nil:
		return Webhook{}, fmt.Errorf("the address is not a URL")
	case parsed.User != nil:
		return Webhook{}, fmt.Errorf("host %s: the address must not have credentials: use a tokenFile", parsed.Host)
	}
	for _, webhook := range l.Webhooks {
		if matchesHost(webhook.Host, parsed) && below(webhook.Path, parsed.Path) && (parsed.Scheme == "https" || webhook.PrivateAddresses) {
			return webhook, nil
		}
	}
	return Webhook{}, fmt.Errorf("host %s: not a receiver of allow.webhooks of the worker's clusters file; without privateAddresses it must be https", parsed.Host)
}

// CheckReceivers returns the receivers of notifications that the list does not allow; at is their path.
func (l List) CheckReceivers(at *field.Path, receivers []drydockv1.Notification) field.ErrorList {
	var refused field.ErrorList
	for i, receiver := range receivers {
		if err := l.CheckReceiver(at.Index(i), receiver.URL); err != nil {
			refused = append(refused, err)
		}
	}
	return refused
}

// CheckReceiver returns an error if the list does not allow the URL of a receiver; at is the path of the receiver.
func (l List) CheckReceiver(at *field.Path, url string) *field.Error {
	var err error
	if notify.IsEmail(url) {
		_, _, err = l.RecipientsOf(url)
	} else {
		_, err = l.WebhookOf(url)
	}
	if err != nil {
		return field.Forbidden(at.Child("url"), err.Error())
	}
	return nil
}

// below reports whether a path is that of a receiver, or below it. A path that is not clean might be another one for its server.
func below(allowed, found string) bool {
	if slices.Contains(strings.Split(found, "/"), "..") {
		return false
	}
	allowed = strings.TrimSuffix(allowed, "/")
	return found == allowed || strings.HasPrefix(found, allowed+"/") || allowed == ""
}

// matchesHost reports whether a URL has a host of a pattern: its name, or *.example.com for all below it. The port is that of the pattern, by default
// that of the scheme; * is any.
func matchesHost(pattern string, address *url.URL) bool {
	host, port := splitHost(pattern)
	if address.Scheme != "http" && address.Scheme != "https" {
		return false
	}
	usual := map[string]string{"http": "80", "https": "443"}[address.Scheme]
	wanted := address.Port()
	if wanted == "" {
		wanted = usual
	}
	if port == "" {
		port = usual
	}
	name := strings.ToLower(strings.TrimSuffix(address.Hostname(), "."))
	suffix, below := strings.CutPrefix(host, "*")
	return (port == "*" || port == wanted) && (below && strings.HasSuffix(name, suffix) || name == host)
}

func splitHost(pattern string) (host, port string) {
	host = pattern
	if end := strings.LastIndex(pattern, "]"); end > 0 && strings.HasPrefix(pattern, "[") {
		host, port = pattern[1:end], strings.TrimPrefix(pattern[end+1:], ":")
	} else if strings.Count(pattern, ":") == 1 {
		host, port, _ = strings.Cut(pattern, ":")
	}
	return strings.ToLower(host), port
}

func checkHostPattern(at *field.Path, pattern string) field.ErrorList {
	host, port := splitHost(pattern)
	isName := len(validation.IsDNS1123Subdomain(strings.TrimPrefix(host, "*."))) == 0 // also of an IPv4 address
	isIPv6 := strings.Contains(host, ":") && len(validation.IsValidIP(nil, host)) == 0
	isPort := port == "*" || strings.Trim(port, "0123456789") == ""
	if !isName && !isIPv6 || !isPort {
		return field.ErrorList{field.Invalid(at, pattern, "must be a host such as hooks.example.com, *.example.com or 10.0.0.7, with a port if it is not that of the scheme: example.com:9090, example.com:*")}
	}
	return nil
}

func (w Webhook) check(at *field.Path) field.ErrorList {
	invalid := checkHostPattern(at.Child("host"), w.Host)
	if w.Path != "" && (!path.IsAbs(w.Path) || path.Clean(w.Path) != w.Path) {
		invalid = append(invalid, field.Invalid(at.Child("path"), w.Path, "must begin with /, without .. and without / at the end"))
	}
	if w.SecretFile == "" && w.TokenFile == "" {
		invalid = append(invalid, field.Required(at.Child("secretFile"), "or tokenFile: how the receiver knows Drydock"))
	}
	return invalid
}
