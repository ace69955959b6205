package devstack_test

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"drydock.dev/drydock/internal/devstack"
	"drydock.dev/drydock/internal/devstack/devstacktest"
)

func TestTheServersOfAClusterHaveALowerPriority(t *testing.T) {
	stack := devstacktest.Start(t, devstack.Options{
		Clusters: []devstack.ClusterOptions{hub()},
		Temporal: &devstack.TemporalOptions{},
	})
	cluster := stack.Cluster("hub")
	engine := priority(t, stack.Temporal.Process)
	for _, server := range []*devstack.Process{cluster.APIServer, cluster.Etcd} {
		require.Less(t, priority(t, server), engine, server.Name)
	}
}

// priority returns the priority of a process. The kernel counts from 1 to 40, and 40 is the highest.
func priority(t *testing.T, process *devstack.Process) int {
	priority, err := syscall.Getpriority(syscall.PRIO_PROCESS, process.PID())
	require.NoError(t, err)
	return priority
}
