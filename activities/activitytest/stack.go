// Package activitytest runs the tests of activities on a local stack, with the roles that deploy/rbac grants.
package activitytest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"drydock.dev/drydock/internal/devstack/devstacktest"

	"github.com/stretchr/testify/require"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drydock.dev/drydock/activities/activitykit"
	"drydock.dev/drydock/activities/events"
	"drydock.dev/drydock/internal/devstack"
	"drydock.dev/drydock/internal/kube"
)

// spokeName is the cluster that all tests share; each test has its own nodes and namespaces. hubName is the hub. Tests also use it as a cluster without
// controllers and kubelets, whose nodes they write themselves.
const (
	SpokeName = "spoke"
	HubName   = "hub"
)

// EventTimeout limits the wait for an effect of a watch event. It is shorter than safetyInterval, so that only an event can be the cause, and long enough
// for a loaded machine.
const EventTimeout = 2 * time.Minute

// safetyInterval is the interval at which the waits of Clusters read without an event.
const safetyInterval = 5 * time.Minute

// stack, clusters and admin are set by TestMain. Activities have only the roles of deploy/rbac; tests are administrators.
var (
	Stack     *devstack.Stack
	Clusters  *kube.Clusters
	Admin     *kube.Clusters
	testNodes atomic.Int32
)

var (
	spoke = devstack.ClusterOptions{Name: SpokeName, CRDs: []string{"deploy/crds"}}
	hub   = devstack.ClusterOptions{Name: HubName, CRDs: []string{"deploy/crds", "deploy/crds/testing"}, ControlPlaneOnly: true}
)

func runOnStack(m *testing.M, clusters ...devstack.ClusterOptions) (code int, err error) {
	ctx := context.Background()
	Stack, err = devstack.Start(ctx, devstack.Options{Output: os.Stderr, Clusters: clusters})
	if err != nil {
		return 1, err
	}
	configs := map[string]*rest.Config{}
	for _, cluster := range clusters {
		configs[cluster.Name] = Stack.Cluster(cluster.Name).Config
	}
	Admin = kube.New(kube.FromConfigs(nil, configs), kube.Options{})
	source, err := shippedRoles(ctx, clusters)
	if err != nil {
		return 1, errors.Join(err, Stack.Stop())
	}
	Clusters = kube.New(source, kube.Options{SafetyInterval: safetyInterval})
	if code = m.Run(); code == 0 {
		if err := checkRights(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	Clusters.Close()
	Admin.Close()
	return code, Stack.Stop()
}

// shippedRoles grants the roles of deploy/rbac, and returns a source that reaches the clusters with them. The role for Jobs is bound
// in the namespaces of the manifests, and JobNamespace binds it in another.
func shippedRoles(ctx context.Context, clusters []devstack.ClusterOptions) (kube.Source, error) {
	var file strings.Builder
	if hub := Stack.Cluster(HubName); hub != nil {
		fmt.Fprintf(&file, "hub: {kubeconfig: %s}\n", KubeconfigOf(hub, "drydock-hub"))
	}
	file.WriteString("allow: {jobs: [{images: ['*'], namespaces: ['test-*', nowhere]}], preparationImages: ['registry.example.com/*'], healthCheckHosts: ['127.0.0.1:*']}\n")
	file.WriteString("clusters:\n")
	for _, options := range clusters {
		cluster := Stack.Cluster(options.Name)
		fmt.Fprintf(&file, "- {name: %s, kubeconfig: %s, lockController: {kubeconfig: %s}}\n",
			cluster.Name, KubeconfigOf(cluster, "drydock-initiator"), KubeconfigOf(cluster, "drydock-lock-controller"))
		if err := grantShippedRoles(ctx, cluster); err != nil {
			return kube.Source{}, err
		}
	}
	path := filepath.Join(Stack.Dir, "clusters.yaml")
	if err := os.WriteFile(path, []byte(file.String()), 0o600); err != nil {
		return kube.Source{}, err
	}
	return kube.FromClustersFile(path)
}

func grantShippedRoles(ctx context.Context, cluster *devstack.Cluster) error {
	if err := cluster.Apply(ctx, "deploy/rbac"); err != nil {
		return err
	}
	for _, account := range []string{"drydock-hub", "drydock-initiator", "drydock-lock-controller"} {
		config, err := cluster.ServiceAccountConfig(ctx, "drydock-system", account)
		if err != nil {
			return err
		}
		if err := devstack.WriteKubeconfig(KubeconfigOf(cluster, account), account, config); err != nil {
			return err
		}
	}
	return mayRunJobs(ctx, cluster, "drydock-jobs")
}

func mayRunJobs(ctx context.Context, cluster *devstack.Cluster, namespace string) error {
	return devstacktest.AwaitRight(ctx, cluster, devstacktest.ServiceAccount("drydock-initiator"), authorizationv1.ResourceAttributes{Namespace: namespace, Verb: "create", Group: "batch", Resource: "jobs"})
}

// JobNamespace returns a new namespace of the spoke in which Drydock may run Jobs, as an administrator binds the role for them.
func JobNamespace(t testing.TB) string {
	t.Helper()
	cluster := Stack.Cluster(SpokeName)
	namespace := devstacktest.Namespace(t, cluster)
	_, err := cluster.Client.RbacV1().RoleBindings(namespace).Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "drydock-job-runner"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "drydock-job-runner"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "drydock-system", Name: "drydock-initiator"}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	require.NoError(t, mayRunJobs(t.Context(), cluster, namespace))
	return namespace
}

func KubeconfigOf(cluster *devstack.Cluster, account string) string {
	return filepath.Join(Stack.Dir, cluster.Name+"-"+account+".kubeconfig")
}

// TestCluster returns an administrator's access to the shared spoke, which has controllers, and KWOK in place of kubelets.
func TestCluster(t testing.TB) *kube.Cluster {
	t.Helper()
	cluster, err := Admin.Cluster(t.Context(), SpokeName)
	require.NoError(t, err)
	return cluster
}

// TestNode adds a ready node for the test, and removes it afterwards.
func TestNode(t testing.TB, options ...func(*devstack.Node)) activitykit.NodeRef {
	t.Helper()
	node := devstack.Node{Name: fmt.Sprintf("node-%d", testNodes.Add(1))}
	for _, option := range options {
		option(&node)
	}
	require.NoError(t, Stack.Cluster(SpokeName).AddNodes(t.Context(), node))
	t.Cleanup(func() {
		object := &corev1.Node{}
		object.Name = node.Name
		cluster, err := Admin.Cluster(context.Background(), SpokeName)
		require.NoError(t, err)
		require.NoError(t, client.IgnoreNotFound(cluster.Client.Delete(context.Background(), object)))
	})
	return activitykit.NodeRef{Cluster: SpokeName, Node: node.Name, Owner: "node/" + SpokeName + "/default/" + node.Name + "/first-run"}
}

// GetNode reads a node from the API server.
func GetNode(t *testing.T, name string) *corev1.Node {
	t.Helper()
	node := &corev1.Node{}
	require.NoError(t, TestCluster(t).Client.Get(t.Context(), client.ObjectKey{Name: name}, node))
	return node
}

// Settled returns when the caches of the activities have the current version of an object, or a later one.
func Settled(t testing.TB, clusterName string, object client.Object) {
	t.Helper()
	cluster, err := Clusters.Cluster(t.Context(), clusterName)
	require.NoError(t, err)
	seen := object.DeepCopyObject().(client.Object)
	require.NoError(t, cluster.Await(t.Context(), []client.Object{seen}, func(ctx context.Context) (bool, error) {
		if err := cluster.Cache.Get(ctx, client.ObjectKeyFromObject(object), seen); err != nil {
			return false, client.IgnoreNotFound(err)
		}
		order, err := resourceversion.CompareResourceVersion(seen.GetResourceVersion(), object.GetResourceVersion())
		return order >= 0, err
	}))
}

// forgotten returns when the caches of the activities have no object of that name.
func forgotten(t testing.TB, clusterName string, object client.Object) {
	t.Helper()
	cluster, err := Clusters.Cluster(context.Background(), clusterName)
	require.NoError(t, err)
	require.NoError(t, cluster.Await(context.Background(), []client.Object{object.DeepCopyObject().(client.Object)}, func(ctx context.Context) (bool, error) {
		err := cluster.Cache.Get(ctx, client.ObjectKeyFromObject(object), object)
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	}))
}

// Main runs the tests of a package on a spoke and a hub.
func Main(m *testing.M) { main(m, spoke, hub) }

// MainOnSpoke runs the tests of a package on a spoke alone.
func MainOnSpoke(m *testing.M) { main(m, spoke) }

// MainOnHub runs the tests of a package on a hub alone, which starts faster.
func MainOnHub(m *testing.M) { main(m, hub) }

func main(m *testing.M, clusters ...devstack.ClusterOptions) {
	devstacktest.MainNeedsServers(m)
	events.Timeout = time.Minute
	code, err := runOnStack(m, clusters...)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}
