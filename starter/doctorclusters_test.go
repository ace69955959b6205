package main

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"drydock.dev/drydock/internal/devstack"
	"drydock.dev/drydock/internal/discovery"
	"drydock.dev/drydock/internal/policies"
)

// doctorShowsWhereClustersComeFrom reads a clusters file, and the objects on the hub that it selects.
func doctorShowsWhereClustersComeFrom(t *testing.T, hub *devstack.Cluster, objects dynamic.Interface) {
	file := filepath.Join(t.TempDir(), "clusters.yaml")
	require.NoError(t, os.WriteFile(file, []byte(`
hub: {context: hub}
clusters: [{name: spoke-1, context: hub}, {name: edge-9, inClusterWorker: true}]
discovery:
  secrets: [{namespaces: [default], selector: drydock.dev/cluster, servers: ["127.0.0.1:*"]}]
  managedClusters: {selector: fleet=doctor, servers: ["127.0.0.1:*"]}
`), 0o600))
	kubeconfig, err := os.ReadFile(hub.KubeconfigFile)
	require.NoError(t, err)
	withToken := func(token string) []byte {
		config, err := clientcmd.Load(kubeconfig)
		require.NoError(t, err)
		for name := range config.AuthInfos {
			config.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: token}
		}
		content, err := clientcmd.Write(*config)
		require.NoError(t, err)
		return content
	}
	accounts := hub.Client.CoreV1().ServiceAccounts("default")
	_, err = accounts.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "powerless"}}, metav1.CreateOptions{})
	require.NoError(t, err)
	tokens, err := accounts.CreateToken(t.Context(), "powerless", &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	require.NoError(t, err)
	address := regexp.MustCompile(`(server: https://127\.0\.0\.1):\d+`)
	for name, content := range map[string][]byte{
		"edge-1": kubeconfig, "edge-2": []byte("none"), "spoke-1": kubeconfig,
		"edge-4": withToken("expired"), "edge-5": withToken(tokens.Status.Token), "edge-6": address.ReplaceAll(kubeconfig, []byte("$1:1")),
	} {
		secret := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{discovery.LabelCluster: name}}, Data: map[string][]byte{"kubeconfig": content},
		}
		secrets := hub.Client.CoreV1().Secrets("default")
		_, err := secrets.Create(t.Context(), secret, metav1.CreateOptions{})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, secrets.Delete(context.Background(), name, metav1.DeleteOptions{})) })
	}
	registered := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"hubAcceptsClient": true}}}
	registered.SetGroupVersionKind(policies.ManagedClusters)
	registered.SetName("edge-3")
	registered.SetLabels(map[string]string{"fleet": "doctor"})
	_, err = objects.Resource(managedClusterResource).Create(t.Context(), registered, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, objects.Resource(managedClusterResource).Delete(context.Background(), "edge-3", metav1.DeleteOptions{}))
	})

	got := doctorSays(t, []string{
		`(?m)^ok +clusters of the clusters file +2 clusters: edge-9, spoke-1$`,
		`(?m)^ok +clusters of Secrets in namespace default +1 usable cluster: edge-1$`,
		`(?m)^NOT OK +clusters of Secrets in namespace default +edge-4 of Secret default/edge-4: Unauthorized$`,
		`(?m)^NOT OK +clusters of Secrets in namespace default +edge-5 of Secret default/edge-5: its account has not the right to get namespaces, get nodes, .*create pods/eviction`,
		`(?m)^NOT OK +clusters of Secrets in namespace default +edge-6 of Secret default/edge-6: .*connection refused$`,
		`(?m)^NOT OK +clusters of Secrets in namespace default +Secret default/edge-2 is not used: it is no kubeconfig$`,
		`(?m)^NOT OK +clusters of Secrets in namespace default +Secret default/spoke-1 is not used: the clusters file has a cluster spoke-1, too: remove one of the two$`,
		`(?m)^ok +clusters of ManagedClusters +0 usable clusters: none$`,
		`(?m)^WARNING +clusters of ManagedClusters +no Secret drydock-initiator with a token in the namespaces of edge-3$`,
	}, "--clusters", file, "--hub-context", "hub")
	require.Equal(t, exitFailed, got.status)
	require.Contains(t, drydock(t, "doctor", "--clusters", file).stdout, "fix: add --hub-context")
	require.Contains(t, drydock(t, "doctor", "--clusters", file+".missing").stdout, "read the clusters file")
}
