package kube_test

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drydock.dev/drydock/internal/devstack"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/temporal"
)

func TestAWaitFailsWhileTheAPIServerIsDownAndTheNextOneContinues(t *testing.T) {
	cluster, err := open(t, kube.Options{SafetyInterval: 200 * time.Millisecond}).Cluster(t.Context(), "spoke")
	require.NoError(t, err)
	never := func(context.Context) (bool, error) { return false, nil }
	at := func(context.Context) (bool, error) { return true, nil }
	ended := make(chan error, 1)
	go func() { ended <- cluster.Await(t.Context(), []client.Object{&corev1.Node{}}, never) }()
	require.Never(t, func() bool { return len(ended) > 0 }, time.Second, 50*time.Millisecond)
	config, binding := userWho(t, "viewer",
		rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"namespaces"}, Verbs: []string{"get"}},
		rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"list", "watch"}})
	viewers := kube.New(kube.FromConfigs(nil, map[string]*rest.Config{"viewed": config}), kube.Options{SafetyInterval: 200 * time.Millisecond})
	t.Cleanup(viewers.Close)
	var viewed *kube.Cluster
	require.Eventually(t, func() bool { // RBAC changes take a moment
		viewed, err = viewers.Cluster(t.Context(), "viewed")
		return err == nil && viewed.Await(t.Context(), []client.Object{&corev1.Node{}}, at) == nil
	}, 5*time.Minute, 50*time.Millisecond)
	require.NoError(t, cluster.Client.Delete(t.Context(), binding.DeepCopy())) // the current watch continues until it reconnects

	require.NoError(t, stack.Cluster("spoke").APIServer.Kill())
	err = <-ended
	require.Equal(t, temporal.ErrClusterUnreachable, temporal.ErrorType(err))
	require.ErrorContains(t, err, "cluster spoke: its API server does not answer")
	err = cluster.Await(t.Context(), []client.Object{&corev1.Node{}}, at)
	require.Equal(t, temporal.ErrClusterUnreachable, temporal.ErrorType(err), "the cache may be stale")
	err = cluster.Cache.List(t.Context(), &corev1.ConfigMapList{})
	require.Equal(t, temporal.ErrClusterUnreachable, temporal.ErrorType(err), "a first read does not block")

	require.NoError(t, stack.Cluster("spoke").APIServer.Start(t.Context()))
	require.Eventually(t, func() bool { return cluster.Await(t.Context(), []client.Object{&corev1.Node{}}, at) == nil }, 5*time.Minute, 100*time.Millisecond)

	// The cache of a kind that may no longer be watched is stale, too.
	waiting, giveUp := context.WithTimeout(t.Context(), 5*time.Minute)
	defer giveUp()
	err = viewed.Await(waiting, []client.Object{&corev1.Node{}}, never)
	require.Equal(t, temporal.ErrForbidden, temporal.ErrorType(err))
	require.ErrorContains(t, err, "grant the worker's user the roles of deploy/rbac: no change was received since ")
	require.ErrorContains(t, err, `cannot list resource "nodes"`)
	require.Error(t, viewed.Await(t.Context(), []client.Object{&corev1.Node{}}, at))
	binding.ResourceVersion, binding.UID = "", ""
	require.NoError(t, cluster.Client.Create(t.Context(), binding))
	require.Eventually(t, func() bool { return viewed.Await(t.Context(), []client.Object{&corev1.Node{}}, at) == nil }, 5*time.Minute, 100*time.Millisecond)
}

// bareServer answers every request with a namespace kube-system of that UID if the request has the valid token. It fails its health check.
func bareServer(t *testing.T, uid types.UID, valid *string) *httptest.Server {
	t.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/livez" {
			<-r.Context().Done()
			return
		}
		w.Header().Set("Content-Type", "application/json")
		if r.Header.Get("Authorization") != "Bearer "+*valid {
			w.WriteHeader(http.StatusUnauthorized)
			_ = json.NewEncoder(w).Encode(metav1.Status{
				TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Reason: metav1.StatusReasonUnauthorized, Code: http.StatusUnauthorized,
			})
			return
		}
		_ = json.NewEncoder(w).Encode(corev1.Namespace{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}, ObjectMeta: metav1.ObjectMeta{Name: "kube-system", UID: uid},
		})
	}))
	t.Cleanup(server.Close)
	return server
}

// writeKubeconfig writes a kubeconfig for a bareServer, and replaces an existing one.
func writeKubeconfig(t *testing.T, path string, server *httptest.Server, token string) {
	t.Helper()
	require.NoError(t, os.RemoveAll(path))
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	require.NoError(t, devstack.WriteKubeconfig(path, "bare", &rest.Config{
		Host: server.URL, BearerToken: token, TLSClientConfig: rest.TLSClientConfig{CAData: certificate},
	}))
}

func TestAWaitFailsWhenTheAPIServerHangs(t *testing.T) {
	token := "token"
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	writeKubeconfig(t, kubeconfig, bareServer(t, "uid", &token), token)
	source, err := kube.FromKubeconfig(kubeconfig, "", "bare")
	require.NoError(t, err)
	clusters := kube.New(source, kube.Options{SafetyInterval: 100 * time.Millisecond})
	t.Cleanup(clusters.Close)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cluster, err := clusters.Cluster(ctx, "bare")
	require.NoError(t, err)
	err = cluster.Await(ctx, nil, func(context.Context) (bool, error) { return false, nil })
	require.Equal(t, temporal.ErrClusterUnreachable, temporal.ErrorType(err))
}

func TestRejectedCredentialsAreReadAgainForTheNextUse(t *testing.T) {
	valid := "old"
	server := bareServer(t, "uid", &valid)
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	writeKubeconfig(t, kubeconfig, server, "old")
	source, err := kube.FromKubeconfig(kubeconfig, "", "bare")
	require.NoError(t, err)
	clusters := kube.New(source, kube.Options{})
	t.Cleanup(clusters.Close)
	use := func() error {
		cluster, err := clusters.Cluster(t.Context(), "bare")
		if err != nil {
			return err
		}
		_, err = cluster.Clientset.CoreV1().Namespaces().Get(t.Context(), "kube-system", metav1.GetOptions{})
		return err
	}
	require.NoError(t, use())
	valid = "new"
	writeKubeconfig(t, kubeconfig, server, "new")
	require.Error(t, use(), "the open cluster still has the old token")
	require.NoError(t, use())
}

func TestTheLockControllerHasItsOwnCredentials(t *testing.T) {
	directory, token := t.TempDir(), "token"
	writeKubeconfig(t, filepath.Join(directory, "other.kubeconfig"), bareServer(t, "another-cluster", &token), token)
	path := filepath.Join(directory, "clusters.yaml")
	require.NoError(t, os.WriteFile(path, []byte(`
clusters:
- {name: spoke, kubeconfig: `+stack.Cluster("spoke").KubeconfigFile+`, lockController: {kubeconfig: `+stack.Cluster("spoke").KubeconfigFile+`}}
- {name: mistaken, kubeconfig: `+stack.Cluster("spoke").KubeconfigFile+`, lockController: {kubeconfig: other.kubeconfig}}
`), 0o600))
	source, err := kube.FromClustersFile(path)
	require.NoError(t, err)
	clusters := kube.New(source, kube.Options{})
	t.Cleanup(clusters.Close)
	cluster, err := clusters.Cluster(t.Context(), "spoke")
	require.NoError(t, err)
	require.NotSame(t, cluster.Client, cluster.LockController)
	_, err = clusters.Cluster(t.Context(), "mistaken")
	require.Equal(t, temporal.ErrInvalidSpec, temporal.ErrorType(err))
	require.ErrorContains(t, err, "cluster mistaken: the credentials of its lockController are for another cluster")
}

func TestAnUnreachableClusterIsReopenedAtItsNewAddress(t *testing.T) {
	token := "token"
	before, after := bareServer(t, "uid", &token), bareServer(t, "uid", &token)
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	writeKubeconfig(t, kubeconfig, before, token)
	source, err := kube.FromKubeconfig(kubeconfig, "", "bare")
	require.NoError(t, err)
	clusters := kube.New(source, kube.Options{})
	t.Cleanup(clusters.Close)
	first, err := clusters.Cluster(t.Context(), "bare") // in use during the whole test
	require.NoError(t, err)
	before.Close()
	ask := func(cluster *kube.Cluster) error {
		_, err := cluster.Clientset.CoreV1().Namespaces().Get(t.Context(), "kube-system", metav1.GetOptions{})
		return err
	}
	require.Error(t, ask(first))
	again, err := clusters.Cluster(t.Context(), "bare")
	require.NoError(t, err)
	require.Same(t, first, again, "a cluster with unchanged credentials stays open, with its informers")

	writeKubeconfig(t, kubeconfig, after, token)
	require.Eventually(t, func() bool {
		again, err = clusters.Cluster(t.Context(), "bare")
		return ask(first) != nil && err == nil && again != first
	}, 5*time.Minute, 50*time.Millisecond)
	require.NoError(t, ask(again))
}

func TestARenewedTokenFileKeepsTheClusterOpen(t *testing.T) {
	token, directory := "token", t.TempDir()
	server := bareServer(t, "uid", &token)
	kubeconfig, tokenFile := filepath.Join(directory, "kubeconfig"), filepath.Join(directory, "token")
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	require.NoError(t, os.WriteFile(tokenFile, []byte(token), 0o600))
	require.NoError(t, clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"bare": {Server: server.URL, CertificateAuthorityData: certificate}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"bare": {TokenFile: tokenFile}},
		Contexts:       map[string]*clientcmdapi.Context{"bare": {Cluster: "bare", AuthInfo: "bare"}},
		CurrentContext: "bare",
	}, kubeconfig))
	source, err := kube.FromKubeconfig(kubeconfig, "", "bare")
	require.NoError(t, err)
	clusters := kube.New(source, kube.Options{})
	t.Cleanup(clusters.Close)
	cluster, err := clusters.Cluster(t.Context(), "bare")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(tokenFile, []byte("renewed"), 0o600))
	server.Close()
	_, err = cluster.Clientset.CoreV1().Namespaces().Get(t.Context(), "kube-system", metav1.GetOptions{})
	require.Error(t, err)
	again, err := clusters.Cluster(t.Context(), "bare")
	require.NoError(t, err)
	require.Same(t, cluster, again, "its client reads the token itself")
}

func TestACorrectedClusterNameIsReleasedFromTheWrongCluster(t *testing.T) {
	token, directory := "token", t.TempDir()
	one, other := bareServer(t, "one", &token), bareServer(t, "other", &token)
	path := func(name string) string { return filepath.Join(directory, name+".kubeconfig") }
	writeKubeconfig(t, path("a"), one, token)
	writeKubeconfig(t, path("b"), one, token) // the mistake
	file := filepath.Join(directory, "clusters.yaml")
	require.NoError(t, os.WriteFile(file, []byte("clusters: [{name: a, kubeconfig: a.kubeconfig}, {name: b, kubeconfig: b.kubeconfig}]"), 0o600))
	source, err := kube.FromClustersFile(file)
	require.NoError(t, err)
	clusters := kube.New(source, kube.Options{IdleTimeout: time.Nanosecond})
	t.Cleanup(clusters.Close)
	use := func(name string) error {
		ctx, done := context.WithCancel(t.Context())
		defer done()
		_, err := clusters.Cluster(ctx, name)
		return err
	}
	require.NoError(t, use("b"))
	require.ErrorContains(t, use("a"), "clusters b and a are the same")
	writeKubeconfig(t, path("b"), other, token)
	require.Eventually(t, func() bool { return use("b") == nil && use("a") == nil }, 5*time.Minute, 10*time.Millisecond)
}

func TestAnEmptyKubeconfigDoesNotFallBackToThePodsCluster(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
	t.Setenv("KUBERNETES_SERVICE_PORT", "1")
	directory := t.TempDir()
	path, file := filepath.Join(directory, "kubeconfig"), filepath.Join(directory, "clusters.yaml")
	require.NoError(t, os.WriteFile(path, nil, 0o600)) // a kubeconfig that is being written
	require.NoError(t, os.WriteFile(file, []byte("{hub: {kubeconfig: kubeconfig}, clusters: []}"), 0o600))
	source, err := kube.FromClustersFile(file)
	require.NoError(t, err)
	clusters := kube.New(source, kube.Options{})
	t.Cleanup(clusters.Close)
	_, err = clusters.Hub(t.Context())
	require.Equal(t, temporal.ErrClusterUnreachable, temporal.ErrorType(err))
	require.ErrorContains(t, err, "kubeconfig "+path)

	// Without a file and a context, the pod's ServiceAccount is used.
	t.Setenv("KUBECONFIG", path)
	require.NoError(t, os.WriteFile(file, []byte("{hub: {}, clusters: []}"), 0o600))
	source, err = kube.FromClustersFile(file)
	require.NoError(t, err)
	clusters = kube.New(source, kube.Options{})
	t.Cleanup(clusters.Close)
	_, err = clusters.Hub(t.Context())
	require.ErrorContains(t, err, "/var/run/secrets/kubernetes.io/serviceaccount/token")
}
