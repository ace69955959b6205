package updategraph_test

import (
	"context"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"drydock.dev/drydock/internal/allow"
	"drydock.dev/drydock/internal/precache"
	"drydock.dev/drydock/internal/updategraph"
)

// local are the hosts of the servers of tests.
var local = allow.Hosts{"127.0.0.1:*"}

const graph = `{"nodes":[{"version":"4.18.3","payload":"release:3"}],"edges":[]}`

func serveGraph(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(graph)) }

// serve starts a server, and returns the address of its graph.
func serve(t *testing.T, handler http.HandlerFunc) string {
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server.URL + "/graph"
}

func newClient(t *testing.T, hosts allow.Hosts, caFile string) *updategraph.Client {
	client, err := updategraph.New(hosts, caFile)
	require.NoError(t, err)
	return client
}

func of(upstream string) precache.Release {
	return precache.Release{Upstream: upstream, Channel: "stable-4.18", Version: "4.18.3"}
}

func TestAReleaseIsFoundInTheGraphOfItsChannel(t *testing.T) {
	upstream := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/graph" && r.URL.Query().Get("channel") == "stable-4.18" && r.Header.Get("Accept") == "application/json" {
			serveGraph(w, r)
		}
	})
	image, err := newClient(t, local, "").ImageOf(t.Context(), of(upstream))
	require.NoError(t, err)
	require.Equal(t, "release:3", image)
}

// Each problem is the same at each attempt, because another one would be news.
func TestAProblemIsNamedWithTheAddress(t *testing.T) {
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	hosts := local
	for name, test := range map[string]struct {
		upstream string
		hosts    allow.Hosts
		want     string
	}{
		"the version is missing": {
			upstream: serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"nodes":[]}`)) }),
			want:     "unable to find version 4.18.3 on update graph on url ADDRESS",
		},
		"404":      {upstream: serve(t, http.NotFound), want: "error response from update graph url ADDRESS: 404"},
		"500":      {upstream: serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }), want: "error response from update graph url ADDRESS: 500"},
		"garbage":  {upstream: serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) }), want: "unable to read nodes on update graph on url ADDRESS"},
		"too long": {upstream: serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 32<<20+1)) }), want: "the answer of update graph url ADDRESS is longer than 33554432 bytes"},
		"refused":  {upstream: closed.URL + "/graph", want: "unable to request update graph on url ADDRESS: dial tcp " + strings.TrimPrefix(closed.URL, "http://") + ": connect: connection refused"},
		"reset": {
			upstream: serve(t, func(w http.ResponseWriter, _ *http.Request) {
				connection, _, err := http.NewResponseController(w).Hijack()
				if err == nil {
					_ = connection.Close()
				}
			}),
			want: "unable to request update graph on url ADDRESS: EOF",
		},
		"cut off": {
			upstream: serve(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Length", "100")
				_, _ = w.Write([]byte("{"))
			}),
			want: "unable to read the answer of update graph url ADDRESS: unexpected EOF",
		},
		"another host":          {upstream: "http://127.0.0.2/graph", want: "unable to request update graph on url ADDRESS: host 127.0.0.2 is none of --update-graph-hosts of the workers (127.0.0.1:*)"},
		"a redirect to another": {upstream: serve(t, redirectTo("http://127.0.0.2/graph")), want: "unable to request update graph on url ADDRESS: host 127.0.0.2 is none of --update-graph-hosts of the workers (127.0.0.1:*)"},
		"a circle":              {upstream: serve(t, redirectTo("/graph")), want: "unable to request update graph on url ADDRESS: it redirects too often"},
		"no lookups":            {upstream: "https://api.openshift.com/graph", hosts: allow.Hosts{}, want: "unable to request update graph on url ADDRESS: the workers look up no releases (--update-graph-hosts is empty)"},
	} {
		t.Run(name, func(t *testing.T) {
			if test.hosts == nil {
				test.hosts = hosts
			}
			client := newClient(t, test.hosts, "")
			for range 2 {
				_, err := client.ImageOf(t.Context(), of(test.upstream))
				require.EqualError(t, err, strings.Replace(test.want, "ADDRESS", test.upstream+"?channel=stable-4.18", 1))
			}
		})
	}
	_, err := newClient(t, local, "").ImageOf(t.Context(), of("ftp://127.0.0.1"))
	require.ErrorContains(t, err, "unable to request update graph: spec.upstream must be the address of an update graph")
}

func redirectTo(address string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, address, http.StatusFound) }
}

func TestAnAllowedRedirectIsFollowed(t *testing.T) {
	image, err := newClient(t, local, "").ImageOf(t.Context(), of(serve(t, redirectTo(serve(t, serveGraph)))))
	require.NoError(t, err)
	require.Equal(t, "release:3", image)
}

func TestASilentServerIsGivenUp(t *testing.T) {
	upstream := serve(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := newClient(t, local, "").ImageOf(ctx, of(upstream))
	require.ErrorIs(t, err, context.Canceled)

	hasty := newClient(t, local, "")
	updategraph.SetTimeout(hasty, 1)
	_, err = hasty.ImageOf(t.Context(), of(upstream))
	require.EqualError(t, err, "unable to request update graph on url "+upstream+"?channel=stable-4.18: no answer within 1ns")
}

func TestTheCertificateOfAServerIsVerified(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(serveGraph))
	t.Cleanup(server.Close)
	address := server.URL + "/graph?channel=stable-4.18"
	_, err := newClient(t, local, "").ImageOf(t.Context(), of(server.URL+"/graph"))
	require.EqualError(t, err, fmt.Sprintf("unable to request update graph on url %s: its certificate is signed by an unknown authority: give its CA to the workers with --update-graph-ca", address))

	ca := filepath.Join(t.TempDir(), "ca.pem")
	require.NoError(t, os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600))
	image, err := newClient(t, local, ca).ImageOf(t.Context(), of(server.URL+"/graph"))
	require.NoError(t, err)
	require.Equal(t, "release:3", image)

	plain := serve(t, serveGraph)
	server.Config.Handler = redirectTo(plain)
	_, err = newClient(t, local, ca).ImageOf(t.Context(), of(server.URL+"/graph"))
	require.ErrorContains(t, err, "it redirects to an address without TLS")
}

func TestAFileWithoutCertificatesIsRefused(t *testing.T) {
	_, err := updategraph.New(local, filepath.Join(t.TempDir(), "missing.pem"))
	require.ErrorIs(t, err, os.ErrNotExist)
	empty := filepath.Join(t.TempDir(), "empty.pem")
	require.NoError(t, os.WriteFile(empty, nil, 0o600))
	_, err = updategraph.New(local, empty)
	require.EqualError(t, err, empty+" has no certificate in PEM")
}

func TestTheProxyOfTheEnvironmentIsUsed(t *testing.T) {
	asked := make(chan string, 1)
	proxy, err := url.Parse(serve(t, func(w http.ResponseWriter, r *http.Request) {
		asked <- r.URL.String()
		serveGraph(w, r)
	}))
	require.NoError(t, err)
	t.Setenv("HTTP_PROXY", "http://"+proxy.Host)
	client := newClient(t, allow.Hosts{"updates.example.com"}, "")
	image, err := client.ImageOf(t.Context(), of("http://updates.example.com/graph"))
	require.NoError(t, err)
	require.Equal(t, "release:3", image)
	require.Equal(t, "http://updates.example.com/graph?channel=stable-4.18", <-asked)
}
