package attack

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"maps"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const pageToken = "correct-horse-battery-staple-of-some-length"

// servePage serves the status page with a token, as an administrator does, and returns its address.
func servePage(t *testing.T) string {
	t.Helper()
	cmd := theFleet.Command(t.Context(), "serve", "--listen", "127.0.0.1:0", "--host", "status.example.com", "--token-file", file(t, pageToken))
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if address := regexp.MustCompile(`http://127\.0\.0\.1:\d+`).FindString(lines.Text()); address != "" {
			go func() { _, _ = io.Copy(io.Discard, out) }()
			return address
		}
	}
	require.Fail(t, "the page is not served", stderr.String())
	return ""
}

// paths of the API.
const (
	listUpgrades      = "/drydock.v1.StatusService/ListUpgrades"
	listMaintenances  = "/drydock.v1.StatusService/ListMaintenances"
	createMaintenance = "/drydock.v1.StatusService/CreateMaintenance"
)

// page sends requests to the status page.
type page struct {
	t       *testing.T
	address string
}

func (p page) send(method, path string, header map[string]string, body string) (status int, text string) {
	p.t.Helper()
	request, err := http.NewRequestWithContext(p.t.Context(), method, p.address+path, strings.NewReader(body))
	require.NoError(p.t, err)
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/json, text/event-stream")
	for name, value := range header {
		if request.Header.Set(name, value); name == "Host" {
			request.Host = value
		}
	}
	answer, err := http.DefaultClient.Do(request)
	require.NoError(p.t, err)
	defer answer.Body.Close()
	content, err := io.ReadAll(answer.Body)
	require.NoError(p.t, err)
	require.Empty(p.t, answer.Header.Get("Access-Control-Allow-Origin"), "%s %s", method, path)
	return answer.StatusCode, string(content)
}

// A browser on a hostile page sends requests to the status page of the administrator: by a name that resolves to its address (DNS rebinding), and across origins,
// with what the user's cookies and the browser add. It reads and changes nothing. Each request would be answered without what the browser adds.
func hostilePage(t *testing.T) {
	p := page{t, servePage(t)}
	announce := func(name string) string {
		at := func(in time.Duration) string { return time.Now().Add(in).UTC().Format(time.RFC3339) }
		return fmt.Sprintf(`{"name":%q,"title":"Maintenance","start":%q,"end":%q}`, name, at(time.Hour), at(2*time.Hour))
	}
	const initialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`
	bearer := map[string]string{"Authorization": "Bearer " + pageToken}
	announced := func() string {
		_, body := p.send(http.MethodPost, listMaintenances, nil, "{}")
		return body
	}
	requests := []struct{ method, path, body string }{
		{http.MethodGet, "/", ""}, {http.MethodPost, listUpgrades, "{}"}, {http.MethodPost, "/mcp", initialize}, {http.MethodPost, createMaintenance, announce("announced")},
	}
	for _, request := range requests {
		status, body := p.send(request.method, request.path, bearer, request.body)
		require.Equal(t, http.StatusOK, status, "the administrator sends %s: %s", request.path, body)
	}
	require.EventuallyWithT(t, func(c *assert.CollectT) { assert.Contains(c, announced(), "announced") }, limit, 100*time.Millisecond)

	requests[3].body = announce("forged")
	refused := func(what string, header map[string]string, request struct{ method, path, body string }) {
		t.Helper()
		sent := maps.Clone(bearer) // as if the page had learnt the token
		maps.Copy(sent, header)
		status, body := p.send(request.method, request.path, sent, request.body)
		require.Equal(t, http.StatusForbidden, status, "%s %s: %s", request.path, what, body)
	}
	for _, request := range requests {
		for _, rebound := range []string{"evil.example.com", "evil.example.com:80", "127.0.0.1.evil.example.com:8090", "localhost.evil.example.com", "status.example.com.evil.example.com"} {
			refused("by the name "+rebound, map[string]string{"Host": rebound, "Origin": "http://" + rebound, "Sec-Fetch-Site": "same-origin"}, request)
		}
		if request.method != http.MethodPost {
			continue // a browser does not show the answer to another origin
		}
		for _, content := range []string{"application/json", "text/plain", "application/x-www-form-urlencoded"} {
			refused("across sites as "+content, map[string]string{"Content-Type": content, "Origin": "https://evil.example.com", "Sec-Fetch-Site": "cross-site"}, request)
		}
		refused("by a browser without Sec-Fetch-Site", map[string]string{"Origin": "https://evil.example.com"}, request)
		refused("by another server of this machine", map[string]string{"Origin": "http://127.0.0.1:1", "Sec-Fetch-Site": "same-site"}, request)
	}
	status, _ := p.send(http.MethodPost, createMaintenance, nil, requests[3].body)
	require.Equal(t, http.StatusUnauthorized, status, "without the token")
	status, _ = p.send(http.MethodPost, createMaintenance, map[string]string{"Authorization": "Bearer wrong"}, requests[3].body)
	require.Equal(t, http.StatusUnauthorized, status, "with a wrong token")
	status, _ = p.send(http.MethodPost, listUpgrades, nil, strings.Repeat("[", 5<<20))
	require.GreaterOrEqual(t, status, 400, "a body that is too long")
	require.NotContains(t, announced(), "forged")
}
