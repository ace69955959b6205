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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drydock.dev/drydock/internal/devstack"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/temporal"
)

func TestAWaitEndsWhenTheAPIServerDoesNotAnswerAndTheNextGoesOnWhenItDoes(t *testing.T) {
	cluster, err := open(t, kube.Options{SafetyInterval: 200 * time.Millisecond}).Cluster(t.Context(), "spoke")
	require.NoError(t, err)
	never := func(context.Context) (bool, error) { return false, nil }
	at := func(context.Context) (bool, error) { return true, nil }
	ended := make(chan error, 1)
	go func() { ended <- cluster.Await(t.Context(), []client.Object{&corev1.Node{}}, never) }()
	require.Never(t, func() bool { return len(ended) > 0 }, time.Second, 50*time.Millisecond)

	require.NoError(t, stack.Cluster("spoke").APIServer.Kill())
	err = <-ended
	require.Equal(t, temporal.ErrClusterUnreachable, temporal.ErrorType(err))
	require.ErrorContains(t, err, "cluster spoke: its API server does not answer")
	err = cluster.Await(t.Context(), []client.Object{&corev1.Node{}}, at)
	require.Equal(t, temporal.ErrClusterUnreachable, temporal.ErrorType(err), "what the cache holds may be long over")
	err = cluster.Cache.List(t.Context(), &corev1.ConfigMapList{})
	require.Equal(t, temporal.ErrClusterUnreachable, temporal.ErrorType(err), "a first read does not wait for ever")

	require.NoError(t, stack.Cluster("spoke").APIServer.Start(t.Context()))
	require.NoError(t, cluster.Await(t.Context(), []client.Object{&corev1.Node{}}, at))
}

func TestRefusedCredentialsAreReadAnewForTheNextUse(t *testing.T) {
	valid := "old"
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.Header.Get("Authorization") != "Bearer "+valid {
			w.WriteHeader(http.StatusUnauthorized)
			_ = json.NewEncoder(w).Encode(metav1.Status{
				TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Reason: metav1.StatusReasonUnauthorized, Code: http.StatusUnauthorized,
			})
			return
		}
		_ = json.NewEncoder(w).Encode(corev1.Namespace{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}, ObjectMeta: metav1.ObjectMeta{Name: "kube-system", UID: "uid"},
		})
	}))
	t.Cleanup(server.Close)
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	write := func(token string) {
		require.NoError(t, os.RemoveAll(kubeconfig))
		require.NoError(t, devstack.WriteKubeconfig(kubeconfig, "renewed", &rest.Config{
			Host: server.URL, BearerToken: token, TLSClientConfig: rest.TLSClientConfig{CAData: certificate(server)},
		}))
	}
	write("old")
	source, err := kube.FromKubeconfig(kubeconfig, "", "renewed")
	require.NoError(t, err)
	clusters := kube.New(source, kube.Options{})
	t.Cleanup(clusters.Close)
	use := func() error {
		cluster, err := clusters.Cluster(t.Context(), "renewed")
		if err != nil {
			return err
		}
		_, err = cluster.Clientset.CoreV1().Namespaces().Get(t.Context(), "kube-system", metav1.GetOptions{})
		return err
	}
	require.NoError(t, use())
	valid = "new"
	write("new")
	require.Error(t, use(), "the open cluster still has the old token")
	require.NoError(t, use())
}

// certificate is the server's own, in PEM.
func certificate(server *httptest.Server) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
}
