package activities

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	goharborv1 "drydock.dev/drydock/internal/apis/goharbor/v1beta1"
	"drydock.dev/drydock/internal/devstack/faultproxy"
	"drydock.dev/drydock/internal/kube"
)

// faultyClusters reach the hub with the shipped roles through a proxy.
type faultyClusters struct {
	proxy    *faultproxy.Proxy
	clusters *kube.Clusters
}

func newFaultyClusters(t *testing.T) faultyClusters {
	t.Helper()
	hub := stack.Cluster(hubName)
	proxy, err := faultproxy.Start(hub.Config)
	require.NoError(t, err)
	config, err := hub.ServiceAccountConfig(t.Context(), "drydock-system", "drydock-initiator")
	require.NoError(t, err)
	f := faultyClusters{proxy, kube.New(kube.FromConfigs(nil, map[string]*rest.Config{hubName: proxy.Config(config)}), kube.Options{})}
	t.Cleanup(func() {
		f.clusters.Close()
		require.NoError(t, proxy.Close())
	})
	return f
}

// loseWatch cuts the connection, after which the watch of a resource shows nothing any more. The others come back.
func (f faultyClusters) loseWatch(t *testing.T, cluster *kube.Cluster, namespace, resource string) {
	t.Helper()
	lost := f.proxy.Inject(faultproxy.Rule{Match: faultproxy.Match{Verbs: []string{"watch"}, Resource: resource}, Fault: faultproxy.Stop()})
	cut := f.proxy.Inject(faultproxy.Rule{Match: faultproxy.Match{Verbs: []string{"get"}, Resource: "harborclusters", Name: "nobody"}, Fault: faultproxy.HangUp()})
	nobody := &goharborv1.HarborCluster{}
	require.Error(t, cluster.Client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "nobody"}, nobody))
	cut.Remove()
	select {
	case <-lost.Stopped():
	case <-t.Context().Done():
		require.Fail(t, "the watch goes on")
	}
}
