package activities

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drydock.dev/drydock/internal/devstack"
	"drydock.dev/drydock/internal/kube"
)

// spokeName is the cluster that every test of this package shares; each test has nodes and namespaces of its own. hubName is the hub, and at
// the same time a cluster without controllers and kubelets, whose nodes are what a test says they are.
const (
	spokeName = "spoke"
	hubName   = "hub"
)

// stack and clusters are set by TestMain.
var (
	stack     *devstack.Stack
	clusters  *kube.Clusters
	testNodes atomic.Int32
)

func TestMain(m *testing.M) {
	code, err := runOnStack(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func runOnStack(m *testing.M) (code int, err error) {
	stack, err = devstack.Start(context.Background(), devstack.Options{
		Output: os.Stderr,
		Clusters: []devstack.ClusterOptions{
			{Name: spokeName, CRDs: []string{"deploy/crds"}},
			{Name: hubName, CRDs: []string{"deploy/crds", "deploy/crds/testing"}, ControlPlaneOnly: true},
		},
	})
	if err != nil {
		return 1, err
	}
	spoke, hub := stack.Cluster(spokeName).Config, stack.Cluster(hubName).Config
	clusters = kube.New(kube.FromConfigs(hub, map[string]*rest.Config{spokeName: spoke, hubName: hub}), kube.Options{})
	code = m.Run()
	clusters.Close()
	return code, stack.Stop()
}

// testCluster returns the access to the shared spoke: a whole cluster with controllers, and KWOK for kubelets.
func testCluster(t *testing.T) *kube.Cluster {
	t.Helper()
	cluster, err := clusters.Cluster(t.Context(), spokeName)
	require.NoError(t, err)
	return cluster
}

// testNode adds a ready node that is the test's own, and removes it afterwards.
func testNode(t *testing.T, options ...func(*devstack.Node)) NodeRef {
	t.Helper()
	node := devstack.Node{Name: fmt.Sprintf("node-%d", testNodes.Add(1))}
	for _, option := range options {
		option(&node)
	}
	require.NoError(t, stack.Cluster(spokeName).AddNodes(t.Context(), node))
	t.Cleanup(func() {
		object := &corev1.Node{}
		object.Name = node.Name
		cluster, err := clusters.Cluster(context.Background(), spokeName)
		require.NoError(t, err)
		require.NoError(t, client.IgnoreNotFound(cluster.Client.Delete(context.Background(), object)))
	})
	return NodeRef{Cluster: spokeName, Node: node.Name, Owner: "node/" + spokeName + "/default/" + node.Name + "/first-run"}
}

// getNode reads a node from the API server.
func getNode(t *testing.T, name string) *corev1.Node {
	t.Helper()
	node := &corev1.Node{}
	require.NoError(t, testCluster(t).Client.Get(t.Context(), client.ObjectKey{Name: name}, node))
	return node
}
