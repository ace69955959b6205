package endpoint_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"drydock.dev/drydock/internal/endpoint"
	"drydock.dev/drydock/internal/health"
)

func serve(t *testing.T, handler http.HandlerFunc) *httptest.Server {
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server
}

func TestAnAnswerIsItsStatusAndBody(t *testing.T) {
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		name, password, _ := r.BasicAuth()
		w.WriteHeader(http.StatusTeapot)
		_, _ = w.Write([]byte(r.Method + " " + r.URL.String() + " " + name + ":" + password))
	})
	address := strings.Replace(server.URL, "http://", "http://ann:pw@", 1) + "/x?y=z"
	answer, err := endpoint.Fetch(t.Context(), address)
	require.NoError(t, err)
	require.Equal(t, health.Answer{Status: http.StatusTeapot, Body: []byte("GET /x?y=z ann:pw")}, answer)
}

func TestNoProxyOrRedirectIsUsed(t *testing.T) {
	other := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("was asked") })
	t.Setenv("HTTP_PROXY", other.URL)
	server := serve(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, other.URL, http.StatusFound) })
	answer, err := endpoint.Fetch(t.Context(), server.URL)
	require.NoError(t, err)
	require.Equal(t, http.StatusFound, answer.Status)
}

func TestATooLongAnswerIsAnError(t *testing.T) {
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		size := 1 << 20
		if r.URL.Path == "/long" {
			size++
		}
		_, _ = w.Write(make([]byte, size))
	})
	answer, err := endpoint.Fetch(t.Context(), server.URL)
	require.NoError(t, err)
	require.Len(t, answer.Body, 1<<20)
	_, err = endpoint.Fetch(t.Context(), server.URL+"/long")
	require.EqualError(t, err, "the answer is longer than 1048576 bytes")
}

func TestASilentAddressTimesOutWithTheContext(t *testing.T) {
	server := serve(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := endpoint.Fetch(ctx, server.URL)
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

func TestAnErrorDoesNotRepeatTheAddress(t *testing.T) {
	for _, address := range []string{"http://ann:secret@127.0.0.1:1/", "http://ann:secret@%zz/"} {
		_, err := endpoint.Fetch(t.Context(), address)
		require.Error(t, err)
		require.NotContains(t, err.Error(), "secret")
	}
}

func TestOnlyPublicAddressesAreDialledUnlessPrivateOnesAreAllowed(t *testing.T) {
	server := serve(t, func(http.ResponseWriter, *http.Request) {})
	port := server.URL[strings.LastIndex(server.URL, ":"):]
	get := func(private bool, host string) error {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+host+port, nil)
		require.NoError(t, err)
		response, err := endpoint.Transport(private).RoundTrip(request)
		if err == nil {
			_ = response.Body.Close()
		}
		return err
	}
	for _, host := range []string{"127.0.0.1", "localhost"} { // a name counts by the address that it has when it is dialled
		require.NoError(t, get(true, host))
		require.ErrorContains(t, get(false, host), "is not public")
	}
	for _, host := range []string{
		"10.0.0.1", "172.16.0.1", "192.168.0.1", "169.254.169.254", "100.64.0.1", "0.0.0.0", "0.1.2.3", "192.0.0.1", "198.18.0.1", "255.255.255.255", "224.0.0.1",
		"[::1]", "[::]", "[fe80::1]", "[fd00::1]", "[::ffff:10.0.0.1]", "[::10.0.0.1]", "[64:ff9b::a00:1]", "[2002:a00:1::]", "[ff02::1]",
	} {
		require.ErrorContains(t, get(false, host), "is not public", host)
	}
	for address, public := range map[string]bool{"93.184.215.14": true, "2606:2800:21f:cb07:6820:80da:af6b:8b2c": true, "100.63.0.1": true, "10.0.0.1": false, "::ffff:100.64.0.1": false} {
		require.Equal(t, public, endpoint.Public(netip.MustParseAddr(address)), address)
	}
}
