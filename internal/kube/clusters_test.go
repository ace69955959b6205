package kube_test

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	lcmv1 "drydock.dev/drydock/internal/apis/lcm/v1alpha1"
	"drydock.dev/drydock/internal/devstack/devstacktest"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/temporal"
)

// open returns access to the stack's cluster under the name "spoke".
func open(t *testing.T, options kube.Options) *kube.Clusters {
	t.Helper()
	clusters := kube.New(kube.FromConfigs(nil, map[string]*rest.Config{"spoke": stack.Cluster("spoke").Config}), options)
	t.Cleanup(clusters.Close)
	return clusters
}

func spoke(t *testing.T) *kube.Cluster {
	t.Helper()
	cluster, err := open(t, kube.Options{}).Cluster(t.Context(), "spoke")
	require.NoError(t, err)
	return cluster
}

func TestAClusterIsOpenedOnceForConcurrentUsers(t *testing.T) {
	clusters := open(t, kube.Options{})
	first, err := clusters.Cluster(t.Context(), "spoke")
	require.NoError(t, err)
	second, err := clusters.Cluster(t.Context(), "spoke")
	require.NoError(t, err)
	require.Same(t, first, second)
}

func TestAnIdleClusterIsDroppedAndAUsedOneIsNot(t *testing.T) {
	clusters := open(t, kube.Options{IdleTimeout: 50 * time.Millisecond})
	use, done := context.WithCancel(t.Context())
	first, err := clusters.Cluster(use, "spoke")
	require.NoError(t, err)
	other, otherDone := context.WithCancel(t.Context())
	_, err = clusters.Cluster(other, "spoke")
	require.NoError(t, err)
	otherDone()
	require.Never(t, func() bool { return isStopped(first) }, 200*time.Millisecond, 20*time.Millisecond)

	done()
	require.Eventually(t, func() bool { return isStopped(first) }, 5*time.Minute, 20*time.Millisecond)
	again, err := clusters.Cluster(t.Context(), "spoke")
	require.NoError(t, err)
	require.NotSame(t, first, again)
	require.False(t, isStopped(again))
}

// isStopped reports whether a cluster's cache has ended: then it starts no informer.
func isStopped(cluster *kube.Cluster) bool {
	informer, err := cluster.Cache.GetInformer(context.Background(), &corev1.Namespace{})
	return err != nil || informer.IsStopped()
}

func TestAnUnknownClusterOrHubIsARetryableError(t *testing.T) {
	_, err := open(t, kube.Options{}).Cluster(t.Context(), "nowhere")
	require.Equal(t, temporal.ErrClusterUnknown, temporal.ErrorType(err))
	require.False(t, temporal.Final(err))
	require.ErrorContains(t, err, "cluster nowhere is not known; known are [spoke]")
	_, err = open(t, kube.Options{}).Hub(t.Context())
	require.Equal(t, temporal.ErrNoHub, temporal.ErrorType(err))
	require.False(t, temporal.Final(err))
}

func TestTwoNamesForOneClusterAreRefusedExceptForTheHub(t *testing.T) {
	config := stack.Cluster("spoke").Config
	clusters := kube.New(kube.FromConfigs(config, map[string]*rest.Config{"a": config, "b": config}), kube.Options{})
	t.Cleanup(clusters.Close)
	_, err := clusters.Hub(t.Context())
	require.NoError(t, err)
	_, err = clusters.Cluster(t.Context(), "a")
	require.NoError(t, err)
	_, err = clusters.Cluster(t.Context(), "b")
	require.Equal(t, temporal.ErrInvalidSpec, temporal.ErrorType(err))
	require.ErrorContains(t, err, "clusters a and b are the same")
}

func TestAnAPIServerThatDoesNotAnswerOrRejectsTheCredentialsIsUnreachable(t *testing.T) {
	unknown := rest.CopyConfig(stack.Cluster("spoke").Config)
	unknown.CertData, unknown.KeyData, unknown.BearerToken = nil, nil, "expired"
	stranger, err := stack.Cluster("spoke").UserConfig("stranger")
	require.NoError(t, err)
	clusters := kube.New(kube.FromConfigs(nil, map[string]*rest.Config{
		"down": {Host: "https://127.0.0.1:1"}, "unknown": unknown, "forbidden": stranger,
	}), kube.Options{})
	t.Cleanup(clusters.Close)
	for name, says := range map[string]string{
		"down":      "cluster down: its API server does not answer",
		"unknown":   "renew the kubeconfig",
		"forbidden": "grant the worker's user the roles of deploy/rbac",
	} {
		_, err := clusters.Cluster(t.Context(), name)
		errType := temporal.ErrClusterUnreachable
		if name == "forbidden" {
			errType = temporal.ErrForbidden
		}
		require.Equal(t, errType, temporal.ErrorType(err), name)
		require.ErrorContains(t, err, says)
	}
}

// userWho returns the access of a user to the stack's cluster with these permissions, as long as the returned binding exists.
func userWho(t *testing.T, name string, may ...rbacv1.PolicyRule) (*rest.Config, *rbacv1.ClusterRoleBinding) {
	t.Helper()
	admin, meta := spoke(t).Client, metav1.ObjectMeta{Name: name}
	role := &rbacv1.ClusterRole{ObjectMeta: meta, Rules: may}
	require.NoError(t, admin.Create(t.Context(), role))
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: meta,
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: name}},
	}
	require.NoError(t, admin.Create(t.Context(), binding))
	devstacktest.Granted(t, stack.Cluster("spoke"), name, authorizationv1.ResourceAttributes{Verb: may[0].Verbs[0], Group: may[0].APIGroups[0], Resource: may[0].Resources[0]})
	t.Cleanup(func() {
		require.NoError(t, client.IgnoreNotFound(admin.Delete(context.Background(), binding)))
		require.NoError(t, admin.Delete(context.Background(), role))
	})
	config, err := stack.Cluster("spoke").UserConfig(name)
	require.NoError(t, err)
	return config, binding
}

func TestAReadOfAForbiddenKindFailsInsteadOfBlocking(t *testing.T) {
	config, _ := userWho(t, "limited", rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"namespaces"}, Verbs: []string{"get"}})
	clusters := kube.New(kube.FromConfigs(nil, map[string]*rest.Config{"limited": config}), kube.Options{})
	t.Cleanup(clusters.Close)
	cluster, err := clusters.Cluster(t.Context(), "limited")
	require.NoError(t, err)
	err = cluster.Cache.List(t.Context(), &corev1.NodeList{})
	require.Equal(t, temporal.ErrForbidden, temporal.ErrorType(err))
	require.ErrorContains(t, err, `cannot list resource "nodes"`)
}

// asked has the times at which requests to a path were sent, other than watches.
type asked struct {
	http.RoundTripper
	path  string
	mu    sync.Mutex
	times []time.Time
}

func (a *asked) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Path == a.path && r.URL.Query().Get("watch") == "" {
		a.mu.Lock()
		a.times = append(a.times, time.Now())
		a.mu.Unlock()
	}
	return a.RoundTripper.RoundTrip(r)
}

func (a *asked) sent() []time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.times)
}

func TestAForbiddenKindIsReadSoonAfterTheRightIsGranted(t *testing.T) {
	config, _ := userWho(t, "promoted", rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"namespaces"}, Verbs: []string{"get"}})
	lists := &asked{path: "/api/v1/nodes"}
	config.Wrap(func(inner http.RoundTripper) http.RoundTripper {
		lists.RoundTripper = inner
		return lists
	})
	clusters := kube.New(kube.FromConfigs(nil, map[string]*rest.Config{"promoted": config}), kube.Options{})
	t.Cleanup(clusters.Close)
	cluster, err := clusters.Cluster(t.Context(), "promoted")
	require.NoError(t, err)
	nodes := []client.Object{&corev1.Node{}}
	done := func(context.Context) (bool, error) { return true, nil }
	require.Equal(t, temporal.ErrForbidden, temporal.ErrorType(cluster.Await(t.Context(), nodes, done)))
	const refusals = 7
	require.Eventually(t, func() bool { return len(lists.sent()) >= refusals }, 5*time.Minute, 100*time.Millisecond)
	sent := lists.sent()
	require.Less(t, sent[refusals-1].Sub(sent[refusals-2]), 20*time.Second, "client-go alone would pause for longer by now")
	require.Equal(t, temporal.ErrForbidden, temporal.ErrorType(cluster.Await(t.Context(), nodes, done)))

	userWho(t, "promoted-viewer", rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"list", "watch"}})
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "promoted-now"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "promoted-viewer"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: "promoted"}},
	}
	admin := spoke(t).Client
	require.NoError(t, admin.Create(t.Context(), binding))
	t.Cleanup(func() { require.NoError(t, admin.Delete(context.Background(), binding)) })
	require.Eventually(t, func() bool { return cluster.Await(t.Context(), nodes, done) == nil }, 5*time.Minute, 100*time.Millisecond)
}

func TestCachedPodsAreListedByNodeAndWithoutManagedFields(t *testing.T) {
	cluster := spoke(t)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", GenerateName: "p-"},
		Spec:       corev1.PodSpec{NodeName: "node-a", Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
	pod.Spec.AutomountServiceAccountToken = new(false)
	require.NoError(t, cluster.Client.Create(t.Context(), serviceAccount("default")))
	require.NoError(t, cluster.Client.Create(t.Context(), pod))
	require.Equal(t, kube.FieldManager, pod.ManagedFields[0].Manager)
	require.NoError(t, cluster.Await(t.Context(), []client.Object{&corev1.Pod{}}, func(ctx context.Context) (bool, error) {
		var pods corev1.PodList
		err := cluster.Cache.List(ctx, &pods, client.MatchingFields{kube.IndexNodeName: "node-a"})
		if len(pods.Items) == 1 {
			require.Empty(t, pods.Items[0].ManagedFields)
		}
		return len(pods.Items) == 1, err
	}))
	var elsewhere corev1.PodList
	require.NoError(t, cluster.Cache.List(t.Context(), &elsewhere, client.MatchingFields{kube.IndexNodeName: "node-b"}))
	require.Empty(t, elsewhere.Items)
}

// serviceAccount is the default one, which every pod needs and no controller creates here.
func serviceAccount(namespace string) *corev1.ServiceAccount {
	return &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "default"}}
}

func TestAMissingKindIsDiscoveredOnceItIsServed(t *testing.T) {
	cluster := spoke(t)
	lock := lcmv1.GroupVersion.WithKind("NodeWorkloadLock")
	served, err := cluster.Serves(t.Context(), lock)
	require.NoError(t, err)
	require.False(t, served)
	err = cluster.Cache.List(t.Context(), &lcmv1.NodeWorkloadLockList{})
	require.ErrorContains(t, err, "cluster spoke does not serve lcm.mirantis.com/v1alpha1, Kind=NodeWorkloadLock")

	installLocks(t)
	require.Eventually(t, func() bool {
		served, err := cluster.Serves(t.Context(), lock)
		return err == nil && served
	}, 5*time.Minute, 20*time.Millisecond)
}

func TestAClustersFileIsReadStrictlyAndAllErrorsAreReported(t *testing.T) {
	tests := []struct {
		name, content string
		problems      []string
	}{
		{"an unknown field", "clusters: [{name: a, context: a, colour: red}]", []string{`unknown field "clusters[0].colour"`}},
		{"a duplicate name", "clusters: [{name: a, context: a}, {name: a, context: b}]", []string{`clusters[1].name: Duplicate value: "a"`}},
		{"several problems", "clusters: [{name: A/B, context: a}, {name: b}]", []string{"clusters[0].name: Invalid value", "clusters[1]: Required value: kubeconfig or context, inCluster, or inClusterWorker"}},
		{
			"a cluster that is reached in two ways", "clusters: [{name: a, inCluster: true, context: a}, {name: b, inCluster: true, inClusterWorker: true}]",
			[]string{"clusters[0].inCluster: Forbidden: excludes kubeconfig, context and inClusterWorker", "clusters[1].inCluster: Forbidden"},
		},
		{"a lock controller without a cluster", "clusters: [{name: a, context: a, lockController: {}}]", []string{"clusters[0].lockController: Required value: kubeconfig or context"}},
		{"a list without images", "{clusters: [{name: a, context: a}], allow: {jobs: [{namespaces: [drydock-system]}]}}", []string{"allow.jobs[0].images: Required value", "allow.jobs[0].namespaces[0]: Forbidden"}},
		{"an unknown privilege", "{clusters: [{name: a, context: a}], allow: {jobs: [{images: [a], root: true}]}}", []string{`unknown field "allow.jobs[0].root"`}},
		{
			"discovery without a hub, and without limits", "{clusters: [{name: a, context: a}], discovery: {secrets: [{}], managedClusters: {}}}",
			[]string{
				"hub: Required value: the objects of discovery are on it", "discovery.secrets[0].namespaces: Required value", "discovery.secrets[0].selector: Required value",
				"discovery.secrets[0].servers: Required value", "discovery.managedClusters.servers: Required value",
			},
		},
		{
			"discovery with invalid names", `{hub: {}, discovery: {secrets: [{namespaces: [A, b, b], selector: "a=b=c", nameLabel: "a b", key: "a/b", servers: ["https://x"]}]}}`,
			[]string{
				`discovery.secrets[0].namespaces[0]: Invalid value: "A"`, `discovery.secrets[0].namespaces[2]: Duplicate value: "b"`, "discovery.secrets[0].selector: Invalid value",
				"discovery.secrets[0].nameLabel: Invalid value", "discovery.secrets[0].key: Invalid value", "discovery.secrets[0].servers[0]: Invalid value",
			},
		},
		{"an empty file", "", []string{"clusters: Required value: the file has neither a cluster nor a hub"}},
		{"a wrong type", "clusters: [{name: a, context: a, inClusterWorker: sometimes}]", []string{"inClusterWorker"}},
	}
	for _, tt := range tests {
		t.Run(tt.name+" is refused", func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "clusters.yaml")
			require.NoError(t, os.WriteFile(path, []byte(tt.content), 0o600))
			_, err := kube.FromClustersFile(path)
			for _, problem := range append(tt.problems, path) {
				require.ErrorContains(t, err, problem)
			}
		})
	}
}

func TestFilesOfReceiversAreRelativeToTheClustersFile(t *testing.T) {
	directory := t.TempDir()
	path := filepath.Join(directory, "clusters.yaml")
	require.NoError(t, os.WriteFile(path, []byte(`
clusters: [{name: a, context: a}]
allow:
  webhooks: [{host: a, secretFile: secret, tokenFile: /etc/token}]
  email: {server: "a:25", from: a@b.c, recipients: ["*@b.c"], username: u, passwordFile: password, caFile: /etc/ca.crt}
`), 0o600))
	source, err := kube.FromClustersFile(path)
	require.NoError(t, err)
	allowed := source.Allowed()
	require.Equal(t, []string{filepath.Join(directory, "secret"), "/etc/token"}, []string{allowed.Webhooks[0].SecretFile, allowed.Webhooks[0].TokenFile})
	require.Equal(t, []string{filepath.Join(directory, "password"), "/etc/ca.crt"}, []string{allowed.Email.PasswordFile, allowed.Email.CAFile})
}

func TestKubeconfigPathsAreRelativeToTheClustersFile(t *testing.T) {
	directory := t.TempDir()
	kubeconfig, err := os.ReadFile(stack.Cluster("spoke").KubeconfigFile)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(directory, "spoke.kubeconfig"), kubeconfig, 0o600))
	path := filepath.Join(directory, "clusters.yaml")
	require.NoError(t, os.WriteFile(path, []byte(`
hub: {kubeconfig: spoke.kubeconfig, context: spoke}
clusters:
- {name: outside, kubeconfig: spoke.kubeconfig, context: spoke}
- {name: inside, inClusterWorker: true}
- {name: own, inCluster: true}
- {name: mistaken, kubeconfig: spoke.kubeconfig, context: other}
`), 0o600))
	source, err := kube.FromClustersFile(path)
	require.NoError(t, err)
	clusters := kube.New(source, kube.Options{})
	t.Cleanup(clusters.Close)

	_, err = clusters.Hub(t.Context())
	require.NoError(t, err)
	_, err = clusters.Cluster(t.Context(), "outside")
	require.NoError(t, err)
	known, inCluster, err := clusters.Knows("inside")
	require.NoError(t, err)
	require.True(t, known && inCluster)
	_, err = clusters.Cluster(t.Context(), "inside")
	require.ErrorContains(t, err, "cluster inside is served by a worker inside it")
	_, err = clusters.Cluster(t.Context(), "own")
	require.Equal(t, temporal.ErrClusterUnreachable, temporal.ErrorType(err), "this is no pod")
	require.ErrorContains(t, err, "unable to load in-cluster configuration")
	_, err = clusters.Cluster(t.Context(), "mistaken")
	require.Equal(t, temporal.ErrClusterUnreachable, temporal.ErrorType(err))
	require.ErrorContains(t, err, "spoke.kubeconfig: invalid configuration: [context was not found for specified context: other")
	_, err = clusters.Cluster(t.Context(), "forgotten")
	require.ErrorContains(t, err, "add it to the clusters file "+path)
}

func TestKubeconfigContextsGiveClustersTheirNames(t *testing.T) {
	source, err := kube.FromKubeconfig(stack.Cluster("spoke").KubeconfigFile, "", "spoke")
	require.NoError(t, err)
	clusters := kube.New(source, kube.Options{})
	t.Cleanup(clusters.Close)
	_, err = clusters.Cluster(t.Context(), "spoke")
	require.NoError(t, err)

	_, err = kube.FromKubeconfig("", "", "a", "a")
	require.ErrorContains(t, err, "kubeconfig context a is named twice")
	_, err = kube.FromKubeconfig("", "", "admin@prod")
	require.ErrorContains(t, err, `kubeconfig context "admin@prod" cannot be a cluster's name`)
}
