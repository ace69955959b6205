package main

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/util/cert"
)

// served serves the status page on a free port, and returns its address.
func served(t *testing.T, args ...string) (serving *running, address string) {
	t.Helper()
	serving = begin(t, append([]string{"serve", "--listen", "127.0.0.1:0"}, args...)...)
	serving.prints(t, "/\n")
	return serving, strings.TrimSuffix(regexp.MustCompile(`http://\S+`).FindString(serving.stdout.String()), "/")
}

// unreachable are the flags for a Temporal server that does not answer.
var unreachable = []string{"--address", "127.0.0.1:1"}

// get sends a request to a server, and returns the answer. change modifies the request.
func get(t *testing.T, address string, change func(*http.Request)) (status int, body string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	require.NoError(t, err)
	if change != nil {
		change(request)
	}
	answer, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	return answer.StatusCode, string(text)
}

// calling changes a request to a call of the API with that token.
func calling(method, token string) func(*http.Request) {
	return func(r *http.Request) {
		r.Method, r.URL.Path = http.MethodPost, "/drydock.v1.StatusService/"+method
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Authorization", "Bearer "+token)
		r.Body = io.NopCloser(strings.NewReader("{}"))
	}
}

func TestThePageIsServedWhileTemporalIsUnreachable(t *testing.T) {
	t.Parallel()
	serving, address := served(t, unreachable...)
	status, body := get(t, address, nil)
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, body, "<title>Not read yet · main</title>")
	require.Contains(t, body, "Nothing is known yet.")
	serving.stop()
	require.Equal(t, exitDone, serving.end(t).status)
}

func TestEveryFlagOfServeHasAnEffect(t *testing.T) {
	t.Parallel()
	t.Run("--portal names the portal", func(t *testing.T) {
		serving, address := served(t, append(unreachable, "--portal", "shop")...)
		require.Contains(t, serving.stdout.String(), "serving portal shop at "+address+"/\n")
		_, body := get(t, address, nil)
		require.Contains(t, body, "· shop</title>")
	})
	t.Run("--portal-only omits rollouts and nodes", func(t *testing.T) {
		_, address := served(t, unreachable...)
		status, _ := get(t, address, calling("ListUpgrades", ""))
		require.Equal(t, http.StatusOK, status)
		_, address = served(t, append(unreachable, "--portal-only")...)
		status, body := get(t, address, calling("ListUpgrades", ""))
		require.Equal(t, http.StatusForbidden, status)
		require.Contains(t, body, "this server shows only portal main, without rollouts and nodes")
		status, _ = get(t, address, calling("ListComponents", ""))
		require.Equal(t, http.StatusOK, status)
	})
	t.Run("--host is the public host name behind a proxy", func(t *testing.T) {
		as := func(host string) func(*http.Request) { return func(r *http.Request) { r.Host = host } }
		_, address := served(t, append(unreachable, "--host", "status.example.com,status.example.org")...)
		for host, wanted := range map[string]int{"status.example.com": http.StatusOK, "STATUS.example.org:443": http.StatusOK, "example.net": http.StatusForbidden} {
			status, _ := get(t, address, as(host))
			require.Equal(t, wanted, status, host)
		}
		_, address = served(t, unreachable...)
		status, _ := get(t, address, as("status.example.com"))
		require.Equal(t, http.StatusForbidden, status)
	})
	t.Run("--streams limits the open streams", func(t *testing.T) {
		_, address := served(t, append(unreachable, "--streams", "1")...)
		first, err := http.Get(address + "/events?page=/")
		require.NoError(t, err)
		defer first.Body.Close()
		require.Equal(t, http.StatusOK, first.StatusCode)
		status, _ := get(t, address+"/events?page=/", nil)
		require.Equal(t, http.StatusServiceUnavailable, status)
	})
	t.Run("--token-file has the token for writes", func(t *testing.T) {
		const token = "correct-horse-battery"
		_, address := served(t, unreachable...)
		status, body := get(t, address, calling("CancelMaintenance", token))
		require.Equal(t, http.StatusForbidden, status)
		require.Contains(t, body, "--token-file")
		_, address = served(t, append(unreachable, "--token-file", file(t, "token", token+"\n"))...)
		status, _ = get(t, address, calling("CancelMaintenance", "another-horse-battery"))
		require.Equal(t, http.StatusUnauthorized, status)
		status, body = get(t, address, calling("CancelMaintenance", token))
		require.Equal(t, http.StatusBadRequest, status)
		require.Contains(t, body, "name: must be set")
	})
	t.Run("--listen is the address, on loopback by default", func(t *testing.T) {
		require.Contains(t, succeeds(t, "serve", "--help"), `(default "127.0.0.1:8090")`)
		taken, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		defer taken.Close()
		got := drydock(t, append([]string{"serve", "--listen", taken.Addr().String()}, unreachable...)...)
		require.Equal(t, exitFailed, got.status)
		require.Contains(t, got.stderr, "error: serve the status page (--listen): listen tcp "+taken.Addr().String())
	})
}

func TestServeChecksTheFlagsOfTheIssuer(t *testing.T) {
	t.Parallel()
	issuer := []string{"--oidc-issuer-url", "https://login.example.com", "--oidc-client-id", "drydock"}
	for says, flags := range map[string][]string{
		"--oidc-client-id: needs --oidc-issuer-url":                   {"--oidc-client-id", "drydock"},
		"--oidc-view, --oidc-operate: need --oidc-issuer-url":         {"--oidc-operate", "oncall"},
		"--oidc-issuer-url: set --oidc-operate or --oidc-view":        issuer,
		"--oidc-issuer-url \"http://login.example.com\": must begin":  {"--oidc-issuer-url", "http://login.example.com", "--oidc-client-id", "drydock", "--oidc-view", "dev"},
		"--oidc-client-id: must be set":                               {"--oidc-issuer-url", "https://login.example.com", "--oidc-view", "dev"},
		"a group must not be empty":                                   append(issuer, "--oidc-view", ",dev"),
		"it has no PEM certificate":                                   append(issuer, "--oidc-view", "dev", "--oidc-ca-file", file(t, "ca.crt", "none")),
		"--oidc-issuer-url: --listen :0 is reached by other machines": append(issuer, "--oidc-view", "dev", "--listen", ":0"),
	} {
		got := drydock(t, append(append([]string{"serve"}, flags...), unreachable...)...)
		require.Equal(t, exitUsage, got.status, "%v: %s", flags, got.stderr)
		require.Contains(t, got.stderr, says)
	}
}

// Certificates are rotated while clients have streams open.
func TestThePageIsServedWithTLSAndFollowsItsCertificate(t *testing.T) {
	t.Parallel()
	certFile, keyFile := filepath.Join(t.TempDir(), "tls.crt"), filepath.Join(t.TempDir(), "tls.key")
	rotate := func() []byte {
		certificate, key, err := cert.GenerateSelfSignedCertKey("127.0.0.1", nil, nil)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(keyFile, key, 0o600))
		require.NoError(t, os.WriteFile(certFile, certificate, 0o600))
		return certificate
	}
	served := func(certificate []byte, address string) (*http.Response, error) {
		trusted := x509.NewCertPool()
		require.True(t, trusted.AppendCertsFromPEM(certificate))
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: trusted}, ForceAttemptHTTP2: true, DisableKeepAlives: true}}
		return client.Get(address)
	}
	before := rotate()
	serving := begin(t, append([]string{"serve", "--listen", "127.0.0.1:0", "--tls-cert", certFile, "--tls-key", keyFile}, unreachable...)...)
	serving.prints(t, "/\n")
	address := strings.TrimSuffix(regexp.MustCompile(`https://\S+`).FindString(serving.stdout.String()), "/")
	answer, err := served(before, address+"/healthz")
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	require.Equal(t, "HTTP/2.0", answer.Proto)

	after := rotate()
	require.Eventually(t, func() bool {
		answer, err := served(after, address+"/healthz")
		return err == nil && answer.Body.Close() == nil
	}, patience, tick, "the new certificate is served")
}

// A listener of a test may not reach beyond loopback, so these start no server.
func TestATokenDoesNotTravelInPlainText(t *testing.T) {
	t.Parallel()
	token := file(t, "token", "correct-horse-battery\n")
	for _, listen := range []string{":0", "0.0.0.0:0", "[::]:0", "status.example:0"} {
		got := drydock(t, append([]string{"serve", "--listen", listen, "--token-file", token}, unreachable...)...)
		require.Equal(t, exitUsage, got.status, listen)
		require.Contains(t, got.stderr, "--token-file: --listen "+listen+" is reached by other machines")
	}
	for _, accepted := range []webFlags{
		{listen: "localhost:0"}, {listen: "127.0.0.2:0"}, {listen: "[::1]:0"}, {listen: ":0", plainTextToken: true}, {listen: ":0", certFile: "c", keyFile: "k"},
	} {
		accepted.tokenFile = token
		read, err := accepted.token()
		require.NoError(t, err, "%+v", accepted)
		require.Equal(t, "correct-horse-battery", read)
	}
}

func TestInvalidServeOptionsAreRefused(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ flag, value, says string }{
		"an invalid portal name":    {"--portal", "A B", `--portal "A B": `},
		"no streams":                {"--streams", "0", "--streams 0: must be 1 or more"},
		"no streams of an address":  {"--streams-per-address", "0", "--streams-per-address 0: must be 1 or more"},
		"a certificate without key": {"--tls-cert", "tls.crt", "--tls-cert and --tls-key: set both or none"},
		"an invalid Web UI address": {"--temporal-ui", "localhost:8233", `--temporal-ui "localhost:8233": must be an address such as http://localhost:8233`},
		"a file without a token":    {"--token-file", file(t, "empty", ""), "the token has 0 characters; it must have 16 or more"},
		"a short token":             {"--token-file", file(t, "short", "secret"), "the token has 6 characters; it must have 16 or more"},
		"a missing token file":      {"--token-file", "/nowhere/token", "--token-file: open /nowhere/token"},
	} {
		t.Run(name, func(t *testing.T) {
			got := drydock(t, append([]string{"serve", "--listen", "127.0.0.1:0", tt.flag, tt.value}, unreachable...)...)
			require.Equal(t, exitUsage, got.status)
			require.Contains(t, got.stderr, tt.says)
			require.Empty(t, got.stdout)
		})
	}
}

// servesTheStatusPage shows the rollouts of earlier steps, with links to Temporal's Web UI.
func (s *stage) servesTheStatusPage(t *testing.T) {
	const ui = "http://temporal.example.com:8233"
	_, address := served(t, "--temporal-ui", ui)
	body := ""
	require.Eventually(t, func() bool {
		status, page := get(t, address+"/upgrades/prod/november", nil)
		body = page
		return status == http.StatusOK && strings.Contains(page, "3 of 3 clusters complete")
	}, patience, tick, "%s", &body)
	require.Contains(t, body, `href="`+ui+`/namespaces/default/workflows/cgu%2Fprod%2Fnovember/`)
	_, page := get(t, address, nil)
	require.Contains(t, page, `href="/upgrades/prod/november"`)
	_, without := served(t)
	require.Eventually(t, func() bool {
		status, page := get(t, without+"/upgrades/prod/november", nil)
		return status == http.StatusOK && !strings.Contains(page, "Temporal's Web UI")
	}, patience, tick)
}
