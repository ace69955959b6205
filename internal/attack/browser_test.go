package attack

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// servePage serves the status page with a token, as an administrator does, and returns its address.
func servePage(t *testing.T) string {
	t.Helper()
	cmd := theFleet.Command(t.Context(), "serve", "--listen", "127.0.0.1:0", "--host", "status.example.com", "--token-file", file(t, "correct-horse-battery-staple-of-some-length"))
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

// A browser on a hostile page sends requests to the status page of the administrator: by a name that resolves to its address (DNS rebinding), and across origins,
// with what the user's cookies and the browser add. It gets and changes nothing.
func hostilePage(t *testing.T) {
	address := servePage(t)
	host := strings.TrimPrefix(address, "http://")
	send := func(method, path string, header map[string]string, body string) (int, string) {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), method, address+path, strings.NewReader(body))
		require.NoError(t, err)
		for name, value := range header {
			if name == "Host" {
				request.Host = value
				continue
			}
			request.Header.Set(name, value)
		}
		answer, err := http.DefaultClient.Do(request)
		require.NoError(t, err)
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		require.NoError(t, err)
		require.Empty(t, answer.Header.Get("Access-Control-Allow-Origin"), "%s %s", method, path)
		return answer.StatusCode, string(text)
	}
	const list, announce, mcp = "/drydock.v1.StatusService/ListUpgrades", "/drydock.v1.StatusService/AnnounceMaintenance", "/mcp"
	initialize := `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`
	json := func(more map[string]string) map[string]string {
		header := map[string]string{"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
		for name, value := range more {
			header[name] = value
		}
		return header
	}
	status, _ := send(http.MethodPost, list, json(nil), "{}")
	require.Equal(t, http.StatusOK, status, "the administrator reads")

	for _, rebound := range []string{"evil.example.com", "evil.example.com:80", "127.0.0.1.evil.example.com:8090", "localhost.evil.example.com"} {
		for _, path := range []string{"/", list, announce, mcp} {
			status, body := send(http.MethodPost, path, json(map[string]string{"Host": rebound, "Origin": "http://" + rebound}), initialize)
			require.GreaterOrEqual(t, status, 400, "%s with %s: %s", path, rebound, body)
			require.NotContains(t, body, "spoke-", path)
			status, _ = send(http.MethodGet, path, map[string]string{"Host": rebound}, "")
			require.GreaterOrEqual(t, status, 400, "%s with %s", path, rebound)
		}
	}
	for _, content := range []string{"application/json", "text/plain", "application/x-www-form-urlencoded"} {
		for _, path := range []string{announce, mcp} {
			status, body := send(http.MethodPost, path, map[string]string{
				"Content-Type": content, "Accept": "application/json, text/event-stream", "Origin": "https://evil.example.com", "Sec-Fetch-Site": "cross-site",
			}, initialize)
			require.GreaterOrEqual(t, status, 400, "%s as %s: %s", path, content, body)
		}
	}
	// Without the token, with a wrong one, and with the right one from another origin, nothing is announced.
	for _, token := range []string{"", "Bearer wrong", "Bearer correct-horse-battery-staple-of-some-length"} {
		status, _ := send(http.MethodPost, announce, json(map[string]string{"Authorization": token, "Origin": "https://evil.example.com", "Sec-Fetch-Site": "cross-site"}), "{}")
		require.GreaterOrEqual(t, status, 400, token)
	}
	status, _ = send(http.MethodPost, list, json(map[string]string{"Host": host, "Content-Length": "x"}), strings.Repeat("[", 5<<20))
	require.GreaterOrEqual(t, status, 400, "a body that is too long")
}
