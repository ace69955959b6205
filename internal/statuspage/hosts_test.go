package statuspage

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestARequestMustNameAHostOfTheServer(t *testing.T) {
	s, _ := shown(t, fleet())
	s.options.Hosts = []string{"status.example"}
	web := httptest.NewServer(s.Handler())
	t.Cleanup(web.Close)
	_, port, _ := strings.Cut(strings.TrimPrefix(web.URL, "http://"), ":")
	as := func(method, path, host string) int {
		request, err := http.NewRequestWithContext(t.Context(), method, web.URL+path, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"ping"}`))
		require.NoError(t, err)
		request.Host = host
		request.Header.Set("Content-Type", "application/json")
		request.Header.Set("Accept", "application/json, text/event-stream")
		answer, err := http.DefaultClient.Do(request)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		return answer.StatusCode
	}
	list := "/drydock.v1.StatusService/ListNodes"
	for _, host := range []string{"evil.example", "evil.example:" + port, "127.0.0.1.evil.example", "localhost.evil.example:" + port} {
		for path, method := range map[string]string{"/": "GET", "/events?page=/": "GET", list: "POST", "/mcp": "POST", "/healthz": "GET"} {
			require.Equal(t, http.StatusForbidden, as(method, path, host), "%s of %s", path, host)
		}
	}
	for _, host := range []string{"localhost:" + port, "LOCALHOST", "127.0.0.1:" + port, "[::1]:" + port, "::ffff:127.0.0.1", "10.0.0.1:8090", "status.example", "Status.Example:443"} {
		require.Equal(t, http.StatusOK, as("GET", "/", host), host)
		require.Equal(t, http.StatusOK, as("POST", "/mcp", host), host)
	}
}

// A name that an attacker resolves to an address of the network reaches a server that listens on it.
func TestANameMustBeKnownOnEveryAddress(t *testing.T) {
	s, _ := shown(t, fleet())
	for host, want := range map[string]int{"status.example": http.StatusForbidden, "10.0.0.1:8090": http.StatusOK} {
		request := httptest.NewRequest(http.MethodGet, "http://"+host+"/healthz", nil)
		at := net.Addr(&net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 8090})
		answer := httptest.NewRecorder()
		s.Handler().ServeHTTP(answer, request.WithContext(context.WithValue(t.Context(), http.LocalAddrContextKey, at)))
		require.Equal(t, want, answer.Code, host)
	}
}
