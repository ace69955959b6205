package activitytest

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	goharborv1 "drydock.dev/drydock/internal/apis/goharbor/v1beta1"
	"drydock.dev/drydock/internal/devstack/faultproxy"
	"drydock.dev/drydock/internal/kube"
)

// faultyClusters are clusters that reach the hub through a proxy, with the shipped roles.
type faultyClusters struct {
	Proxy    *faultproxy.Proxy
	Clusters *kube.Clusters
}

func NewFaultyClusters(t *testing.T) faultyClusters {
	t.Helper()
	hub := Stack.Cluster(HubName)
	proxy, err := faultproxy.Start(hub.Config)
	require.NoError(t, err)
	config, err := hub.ServiceAccountConfig(t.Context(), "drydock-system", "drydock-initiator")
	require.NoError(t, err)
	f := faultyClusters{proxy, kube.New(kube.FromConfigs(nil, map[string]*rest.Config{HubName: proxy.Config(config)}), kube.Options{})}
	t.Cleanup(func() {
		f.Clusters.Close()
		require.NoError(t, proxy.Close())
	})
	return f
}

// LoseWatch cuts the connection. Afterwards the watch of the resource gets no events, and the other watches work again.
func (f faultyClusters) LoseWatch(t *testing.T, cluster *kube.Cluster, namespace, resource string) {
	t.Helper()
	lost := f.Proxy.Inject(faultproxy.Rule{Match: faultproxy.Match{Verbs: []string{"watch"}, Resource: resource}, Fault: faultproxy.Stop()})
	cut := f.Proxy.Inject(faultproxy.Rule{Match: faultproxy.Match{Verbs: []string{"get"}, Resource: "harborclusters", Name: "absent"}, Fault: faultproxy.HangUp()})
	absent := &goharborv1.HarborCluster{}
	require.Error(t, cluster.Client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "absent"}, absent))
	cut.Remove()
	select {
	case <-lost.Stopped():
	case <-t.Context().Done():
		require.Fail(t, "the watch continues")
	}
}
