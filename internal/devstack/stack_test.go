package devstack_test

import (
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/drydock/internal/devstack"
	"drydock.dev/drydock/internal/devstack/devstacktest"
)

func TestAServerThatExitsStopsTheStackAndIsReportedWithItsLog(t *testing.T) {
	devstacktest.NeedServers(t)
	t.Setenv("TMPDIR", t.TempDir())
	stack, err := devstack.Start(t.Context(), devstack.Options{Clusters: []devstack.ClusterOptions{hub()}})
	require.NoError(t, err)

	require.NoError(t, stack.Cluster("hub").Etcd.Crash())

	<-stack.Done()
	require.ErrorContains(t, stack.Err(), "hub/etcd exited unexpectedly (signal: killed)")
	require.ErrorContains(t, stack.Err(), "hub/etcd.log")
	require.Equal(t, stack.Err(), stack.Stop())
	_, err = stack.Cluster("hub").Client.CoreV1().Namespaces().List(t.Context(), metav1.ListOptions{})
	require.ErrorIs(t, err, syscall.ECONNREFUSED, "the API server has stopped, too")
	requireNoFilesLeft(t)
}

func TestAServerThatDoesNotStartStopsTheOthersAndIsReportedWithItsLog(t *testing.T) {
	devstacktest.NeedServers(t)
	t.Setenv("TMPDIR", t.TempDir())

	_, err := devstack.Start(t.Context(), devstack.Options{
		Clusters: []devstack.ClusterOptions{hub()},
		Temporal: &devstack.TemporalOptions{DynamicConfig: map[string]string{"limit.historyCount.error": "not JSON"}},
	})

	require.ErrorContains(t, err, "start the local stack: temporal exited before it was ready (exit status 1)")
	require.ErrorContains(t, err, "limit.historyCount.error")
	requireNoFilesLeft(t)
}

func TestANamedDirectoryIsKept(t *testing.T) {
	devstacktest.NeedServers(t)
	dir := t.TempDir()
	stack, err := devstack.Start(t.Context(), devstack.Options{Dir: dir, Clusters: []devstack.ClusterOptions{hub()}})
	require.NoError(t, err)
	require.NoError(t, stack.Stop())
	require.FileExists(t, stack.Cluster("hub").APIServer.LogFile)

	_, err = devstack.Start(t.Context(), devstack.Options{Dir: dir})
	require.ErrorContains(t, err, "is not empty: use a new or empty directory")
}

func TestInvalidOptionsAreRefused(t *testing.T) {
	tests := []struct {
		name     string
		clusters []devstack.ClusterOptions
		want     string
	}{
		{"a name is not a DNS label", []devstack.ClusterOptions{{Name: "Spoke 1"}}, `cluster name "Spoke 1"`},
		{"a name is used twice", []devstack.ClusterOptions{hub(), hub()}, `cluster name "hub" is used twice`},
		{
			"a cluster without controllers has nodes",
			[]devstack.ClusterOptions{{Name: "hub", ControlPlaneOnly: true, Nodes: devstack.Nodes(1, 0)}},
			"cluster hub is ControlPlaneOnly",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := devstack.Start(t.Context(), devstack.Options{Clusters: test.clusters})
			require.ErrorContains(t, err, test.want)
		})
	}
}

// TestTemporalRunsOnPostgreSQL: all servers crash, and the namespace is still there.
func TestTemporalRunsOnPostgreSQL(t *testing.T) {
	if !devstacktest.OnPostgreSQL() {
		t.Skip("make e2e-postgres runs it")
	}
	stack := devstacktest.Start(t, devstack.Options{Temporal: &devstack.TemporalOptions{PostgreSQL: true}})
	server, err := client.Dial(client.Options{HostPort: stack.Temporal.Address})
	require.NoError(t, err)
	t.Cleanup(server.Close)
	for _, process := range append(slices.Clone(stack.Temporal.Behind), stack.Temporal.Process) {
		require.NoError(t, process.Kill(), process.Name)
		require.NoError(t, process.Start(t.Context()), process.Name)
	}
	require.EventuallyWithT(t, func(c *assert.CollectT) { // the client reconnects
		described, err := server.WorkflowService().DescribeNamespace(t.Context(), &workflowservice.DescribeNamespaceRequest{Namespace: stack.Temporal.Namespace})
		if assert.NoError(c, err) {
			assert.Equal(c, 30*24*time.Hour, described.Config.WorkflowExecutionRetentionTtl.AsDuration())
		}
	}, 5*time.Minute, 10*time.Millisecond)
}

func TestServersKeepTheirDataOverARestart(t *testing.T) {
	stack := devstacktest.Start(t, devstack.Options{
		Clusters: []devstack.ClusterOptions{hub()},
		Temporal: &devstack.TemporalOptions{Database: "temporal.db"},
	})
	cluster := stack.Cluster("hub")
	namespace := devstacktest.Namespace(t, cluster)

	for _, server := range []*devstack.Process{stack.Temporal.Process, cluster.APIServer, cluster.Etcd} {
		require.NoError(t, server.Kill())
		require.NoError(t, server.Start(t.Context()), server.Name)
	}

	_, err := cluster.Client.CoreV1().Namespaces().Get(t.Context(), namespace, metav1.GetOptions{})
	require.NoError(t, err)
}

// hub is the smallest cluster.
func hub() devstack.ClusterOptions {
	return devstack.ClusterOptions{Name: "hub", ControlPlaneOnly: true}
}
