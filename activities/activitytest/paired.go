package activitytest

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drydock.dev/drydock/internal/kube"
)

// HubThatPairsRequests returns a hub that answers the first request whose path has that text only when there is a second one: for what must not send one request
// after the other.
func HubThatPairsRequests(t *testing.T, path string) *kube.Cluster {
	t.Helper()
	config := rest.CopyConfig(Stack.Cluster(HubName).Config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return &pairing{RoundTripper: next, path: path, second: make(chan struct{})}
	})
	paired, err := client.New(config, client.Options{})
	require.NoError(t, err)
	return &kube.Cluster{Name: HubName, Client: client.WithFieldOwner(paired, "drydock")}
}

type pairing struct {
	http.RoundTripper
	path   string
	begun  atomic.Int32
	second chan struct{}
}

// RoundTrip implements http.RoundTripper.
func (p *pairing) RoundTrip(request *http.Request) (*http.Response, error) {
	if strings.Contains(request.URL.Path, p.path) {
		switch p.begun.Add(1) {
		case 1:
			select {
			case <-p.second:
			case <-request.Context().Done():
			}
		case 2:
			close(p.second)
		}
	}
	return p.RoundTripper.RoundTrip(request)
}
