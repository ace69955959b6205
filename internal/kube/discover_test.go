package kube_test

import (
	"context"
	"encoding/base64"
	"encoding/pem"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"drydock.dev/drydock/internal/devstack"
	"drydock.dev/drydock/internal/discovery"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/policies"
	"drydock.dev/drydock/internal/temporal"
)

// patience limits the wait for a state on a busy machine.
const patience = 5 * time.Minute

// fleetSource is the source of a clusters file whose hub is the stack's cluster.
func fleetSource(t *testing.T, clusters string) kube.Source {
	t.Helper()
	path := filepath.Join(t.TempDir(), "clusters.yaml")
	require.NoError(t, os.WriteFile(path, []byte("hub: {kubeconfig: "+stack.Cluster("spoke").KubeconfigFile+"}\n"+clusters), 0o600))
	source, err := kube.FromClustersFile(path)
	require.NoError(t, err)
	return source
}

// discover follows the clusters of a source until the end of the test.
func discover(t *testing.T, clusters *kube.Clusters) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { clusters.Discover(ctx) })
	t.Cleanup(func() {
		stop()
		running.Wait()
		clusters.Close()
	})
}

// namespaceOf creates a namespace of its own for a test.
func namespaceOf(t *testing.T, name string) {
	t.Helper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	require.NoError(t, spoke(t).Client.Create(t.Context(), namespace))
}

// kubeconfigOf is a kubeconfig for an administrator of the stack's cluster with that name.
func kubeconfigOf(t *testing.T, user string) []byte {
	t.Helper()
	config, err := stack.Cluster("spoke").UserConfig(user, "system:masters")
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, devstack.WriteKubeconfig(path, "edge", config))
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	return content
}

func clusterSecret(namespace, name, cluster string, kubeconfig []byte) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{discovery.LabelCluster: cluster}},
		Data:       map[string][]byte{"kubeconfig": kubeconfig},
	}
}

// userOf is who the API server takes the worker for.
func userOf(ctx context.Context, cluster *kube.Cluster) (string, error) {
	review, err := cluster.Clientset.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return "", err
	}
	return review.Status.UserInfo.Username, nil
}

func TestAClusterOfASecretIsAddedRotatedAndRemovedWhileAWaitRuns(t *testing.T) {
	namespaceOf(t, "fleet")
	clusters := kube.New(fleetSource(t, `discovery: {secrets: [{namespaces: [fleet], selector: drydock.dev/cluster, servers: ["127.0.0.1:*"]}]}`), kube.Options{})
	_, err := clusters.Cluster(t.Context(), "edge-1")
	require.Equal(t, temporal.ErrClusterUnreachable, temporal.ErrorType(err), "the hub may have it")
	require.ErrorContains(t, err, "cluster edge-1 is not known yet: Secrets in namespace fleet are not read yet")
	_, _, err = clusters.Knows("edge-1")
	require.Equal(t, temporal.ErrClusterUnreachable, temporal.ErrorType(err))
	_, err = clusters.Reaches("edge-1")
	require.Equal(t, temporal.ErrClusterUnreachable, temporal.ErrorType(err))

	discover(t, clusters)
	admin := spoke(t).Client
	secret := clusterSecret("fleet", "edge-1", "edge-1", kubeconfigOf(t, "first"))
	require.NoError(t, admin.Create(t.Context(), secret))
	use := func(name, user string) (found *kube.Cluster) {
		t.Helper()
		require.EventuallyWithT(t, func(c *assert.CollectT) {
			cluster, err := clusters.Cluster(t.Context(), name)
			if !assert.NoError(c, err) {
				return
			}
			who, err := userOf(t.Context(), cluster)
			assert.NoError(c, err)
			assert.Equal(c, user, who)
			found = cluster
		}, patience, 20*time.Millisecond)
		return found
	}
	wait := func(cluster *kube.Cluster) error {
		return cluster.Await(t.Context(), []client.Object{&corev1.Node{}}, func(context.Context) (bool, error) { return false, nil })
	}
	first := use("edge-1", "first")
	reachable, changed := clusters.Reachable()
	require.Equal(t, []string{"edge-1"}, reachable)
	ended := make(chan error, 1)
	go func() { ended <- wait(first) }()

	secret.Data["kubeconfig"] = kubeconfigOf(t, "second")
	require.NoError(t, admin.Update(t.Context(), secret))
	err = <-ended
	require.Equal(t, temporal.ErrClusterUnreachable, temporal.ErrorType(err))
	require.ErrorContains(t, err, "cluster edge-1: its credentials on the hub have changed or are gone")
	<-changed
	second := use("edge-1", "second")
	_, err = userOf(t.Context(), first)
	require.ErrorContains(t, err, "these credentials are no longer in use")

	secret.Annotations = map[string]string{"note": "nothing that counts"}
	require.NoError(t, admin.Update(t.Context(), secret))
	go func() { ended <- wait(second) }()
	require.NoError(t, admin.Delete(t.Context(), secret))
	require.ErrorContains(t, <-ended, "its credentials on the hub have changed or are gone")
	_, err = clusters.Cluster(t.Context(), "edge-1")
	require.Equal(t, temporal.ErrClusterUnknown, temporal.ErrorType(err))
	require.ErrorContains(t, err, "drydock doctor --clusters")
	known, _, err := clusters.Knows("edge-1")
	require.NoError(t, err)
	require.False(t, known)
	reachable, _ = clusters.Reachable()
	require.Empty(t, reachable)

	// The cluster may get another name.
	require.NoError(t, admin.Create(t.Context(), clusterSecret("fleet", "renamed", "edge-2", kubeconfigOf(t, "third"))))
	use("edge-2", "third")
}

func TestASecretThatIsNotUsedSaysWhyToWhomNeedsTheCluster(t *testing.T) {
	namespaceOf(t, "strict")
	token := "token"
	server := bareServer(t, "strict", &token)
	path := filepath.Join(t.TempDir(), "kubeconfig")
	writeKubeconfig(t, path, server, token)
	good, err := os.ReadFile(path)
	require.NoError(t, err)
	source := fleetSource(t, `
clusters: [{name: in-file, kubeconfig: `+path+`}]
discovery: {secrets: [{namespaces: [strict], selector: drydock.dev/cluster, servers: ["127.0.0.1:*"]}]}`)
	clusters := kube.New(source, kube.Options{})
	discover(t, clusters)
	admin := spoke(t).Client
	elsewhere := []byte(`{"current-context": "c", "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}], "users": [{"name": "u", "user": {"token": "t"}}],
		"clusters": [{"name": "c", "cluster": {"server": "https://metadata.example.com"}}]}`)
	for _, secret := range []*corev1.Secret{
		clusterSecret("strict", "elsewhere", "elsewhere", elsewhere),
		clusterSecret("strict", "in-file", "in-file", good),
		clusterSecret("strict", "one", "twice", good), clusterSecret("strict", "two", "twice", good),
		clusterSecret("strict", "posing", "posing", good),
	} {
		require.NoError(t, admin.Create(t.Context(), secret))
	}
	for name, problem := range map[string]string{
		"elsewhere": "Secret strict/elsewhere is not used: cluster \"c\" of the kubeconfig: server: host metadata.example.com is not one of the servers",
		"twice":     "Secret strict/one is not used: Secret strict/two also names cluster twice, so neither is used",
	} {
		require.EventuallyWithT(t, func(c *assert.CollectT) {
			_, err := clusters.Cluster(t.Context(), name)
			assert.ErrorContains(c, err, problem)
		}, patience, 20*time.Millisecond)
	}
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		_, err := clusters.Cluster(t.Context(), "posing")
		assert.NoError(c, err)
	}, patience, 20*time.Millisecond)
	_, err = clusters.Cluster(t.Context(), "in-file")
	require.NoError(t, err, "no object on the hub replaces a cluster of the clusters file, or poses as it")
	_, err = clusters.Cluster(t.Context(), "posing")
	require.ErrorContains(t, err, "clusters in-file and posing are the same")

	found, err := source.FindOnHub(t.Context(), stack.Cluster("spoke").Config)
	require.NoError(t, err)
	require.Len(t, found, 1)
	require.NoError(t, found[0].Err)
	problems := map[string]string{}
	for _, cluster := range found[0].Clusters {
		problems[cluster.From] = cluster.Problem
	}
	require.Contains(t, problems["Secret strict/in-file"], "the clusters file has a cluster in-file, too")
	require.Len(t, problems, 5)
}

func TestAManagedClusterIsReachedWithTheTokenOfItsServiceAccount(t *testing.T) {
	admin := spoke(t).Client
	installManagedClusters(t)
	namespaceOf(t, "managed")
	valid := "first"
	registered := registerManaged(t, "managed", bareServer(t, "managed", &valid))

	clusters := kube.New(fleetSource(t, `discovery: {managedClusters: {servers: ["127.0.0.1:*"]}}`), kube.Options{})
	discover(t, clusters)
	requireError := func(message string) {
		t.Helper()
		require.EventuallyWithT(t, func(c *assert.CollectT) {
			_, err := clusters.Cluster(t.Context(), "managed")
			assert.ErrorContains(c, err, message)
		}, patience, 20*time.Millisecond)
	}
	requireToken := func(token string) {
		t.Helper()
		require.EventuallyWithT(t, func(c *assert.CollectT) {
			cluster, err := clusters.Cluster(t.Context(), "managed")
			if assert.NoError(c, err) {
				assert.Equal(c, token, cluster.Config.BearerToken)
			}
		}, patience, 20*time.Millisecond)
	}
	requireError("there is no Secret managed/drydock-initiator with its token")
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "managed", Name: discovery.TokenSecret}, Data: map[string][]byte{"token": []byte("first")}}
	require.NoError(t, admin.Create(t.Context(), secret))
	requireToken("first")
	held, err := clusters.Cluster(t.Context(), "managed")
	require.NoError(t, err)
	ask := func() error {
		_, err := held.Clientset.CoreV1().Namespaces().Get(t.Context(), metav1.NamespaceSystem, metav1.GetOptions{})
		return err
	}
	valid = "not that"
	require.Error(t, ask(), "it is opened again for the next use")
	valid = "first"
	require.NoError(t, ask())

	valid = "second"
	secret.Data["token"] = []byte("second")
	require.NoError(t, admin.Update(t.Context(), secret))
	requireToken("second")
	require.ErrorContains(t, ask(), "these credentials are no longer in use", "also where they have been in use since before they were refused")

	require.NoError(t, admin.Delete(t.Context(), registered))
	requireError("cluster managed is not known")
}

// A worker with no right but that for the Secrets of one name finds ManagedClusters. What it may not read does not keep it from that.
func TestASourceThatMayNotBeReadLeavesTheOthersAlone(t *testing.T) {
	installManagedClusters(t)
	core := []string{""}
	config, _ := userWho(t, "hub-reader",
		rbacv1.PolicyRule{APIGroups: core, Resources: []string{"namespaces"}, Verbs: []string{"get"}},
		rbacv1.PolicyRule{APIGroups: core, Resources: []string{"secrets"}, ResourceNames: []string{discovery.TokenSecret}, Verbs: []string{"list", "watch"}},
		rbacv1.PolicyRule{APIGroups: []string{policies.ManagedClusters.Group}, Resources: []string{"managedclusters"}, Verbs: []string{"list", "watch"}})
	directory, token := t.TempDir(), "token"
	require.NoError(t, devstack.WriteKubeconfig(filepath.Join(directory, "hub.kubeconfig"), "hub", config))
	file := filepath.Join(directory, "clusters.yaml")
	require.NoError(t, os.WriteFile(file, []byte(`
hub: {kubeconfig: hub.kubeconfig}
discovery:
  secrets: [{namespaces: [hidden], selector: drydock.dev/cluster, servers: ["127.0.0.1:*"]}]
  managedClusters: {servers: ["127.0.0.1:*"]}
`), 0o600))
	source, err := kube.FromClustersFile(file)
	require.NoError(t, err)
	namespaceOf(t, "open")
	server := bareServer(t, "open", &token)
	registerManaged(t, "open", server)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "open", Name: discovery.TokenSecret}, Data: map[string][]byte{"token": []byte(token)}}
	require.NoError(t, spoke(t).Client.Create(t.Context(), secret))

	clusters := kube.New(source, kube.Options{})
	discover(t, clusters)
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		_, err := clusters.Cluster(t.Context(), "open")
		assert.NoError(c, err)
		_, err = clusters.Cluster(t.Context(), "closed")
		assert.Equal(c, temporal.ErrClusterUnreachable, temporal.ErrorType(err))
		assert.ErrorContains(c, err, `Secrets in namespace hidden cannot be read: cluster hub: its API server forbids the request`)
	}, patience, 20*time.Millisecond)
}

func installManagedClusters(t *testing.T) {
	t.Helper()
	_, err := envtest.InstallCRDs(stack.Cluster("spoke").Config, envtest.CRDInstallOptions{
		Paths: []string{"../../deploy/crds/testing/cluster.open-cluster-management.io_managedclusters.yaml"}, ErrorIfPathMissing: true,
	})
	require.NoError(t, err)
}

// registerManaged creates a ManagedCluster with the address of a server, and deletes it after the test.
func registerManaged(t *testing.T, name string, server *httptest.Server) *unstructured.Unstructured {
	t.Helper()
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	registered := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"hubAcceptsClient":            true,
		"managedClusterClientConfigs": []any{map[string]any{"url": server.URL, "caBundle": base64.StdEncoding.EncodeToString(certificate)}},
	}}}
	registered.SetGroupVersionKind(policies.ManagedClusters)
	registered.SetName(name)
	admin := spoke(t).Client
	require.NoError(t, admin.Create(t.Context(), registered))
	t.Cleanup(func() { require.NoError(t, client.IgnoreNotFound(admin.Delete(context.Background(), registered))) })
	return registered
}
