package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
)

func (s *stage) maintainsANode(t *testing.T) {
	t.Setenv(clusterVariable, "spoke-1")
	started := succeeds(t, "node", "maintain", "worker-1", "--requestor", "kim.example.com")
	require.Equal(t, "maintenance default/worker-1-kim.example.com in cluster spoke-1 of node worker-1 started; "+
		"follow it with `drydock node status default/worker-1-kim.example.com --cluster spoke-1 --watch`\n", started)

	draining := nodeReaches(t, "worker-1-kim.example.com", maintenancev1.NodeDraining)
	require.Equal(t, "node/spoke-1/default/worker-1-kim.example.com", draining.Metadata.WorkflowID)
	require.Equal(t, "worker-1", draining.Metadata.Node)
	require.Equal(t, "kim.example.com", draining.Metadata.Requestor)
	require.Equal(t, outcome{
		status: exitFailed,
		stderr: "error: maintenance default/worker-1-kim.example.com in cluster spoke-1 is Draining: the node is not handed over; wait for Ready, or cancel\n",
	}, drydock(t, "node", "done", "worker-1-kim.example.com"))

	watch := begin(t, "node", "status", "worker-1-kim.example.com", "--watch")
	watch.prints(t, "worker-1: Draining")
	close(s.drained)
	watch.prints(t, "worker-1: Ready")
	require.Contains(t, succeeds(t, "node", "fail", "default/worker-1-kim.example.com", "--reason", "no power"), "has failed")
	watch.prints(t, "worker-1: RequestorFailed")
	watch.prints(t, "no power")
	require.Equal(t, outcome{
		status: exitFailed, stderr: "error: maintenance default/worker-1-kim.example.com in cluster spoke-1 has no requestor lee.example.com; it has kim.example.com\n",
	}, drydock(t, "node", "recover", "worker-1-kim.example.com", "--requestor", "lee.example.com"))
	require.Contains(t, succeeds(t, "node", "recover", "worker-1-kim.example.com"), "has recovered")
	watch.prints(t, "kim.example.com; waiting for done")

	// Temporal's visibility lags behind: until it knows the node, the name is unknown.
	require.Eventually(t, func() bool { return drydock(t, "node", "done", "worker-1").status == exitDone }, patience, tick)
	got := watch.end(t)
	require.Equal(t, exitDone, got.status, got.stderr)
	require.Contains(t, got.stdout, "worker-1: Completed")

	table := succeeds(t, "node", "status", "worker-1-kim.example.com")
	require.Contains(t, table, "node worker-1 in cluster spoke-1   Completed   maintenance default/worker-1-kim.example.com for kim.example.com\n")
	require.Regexp(t, `(?m)^Draining +\d\d:\d\d:\d\d +\S+$`, table)
	becomes(t, func(list listing) bool {
		return len(list.Items) == 1 && list.Items[0].Phase == string(maintenancev1.NodeCompleted)
	}, "node", "list", "--cluster", "spoke-1")
	require.Equal(t, outcome{
		status: exitFailed,
		stderr: "error: there is no maintenance default/worker-9 in cluster spoke-1, and none at work on a node worker-9: `drydock node list --cluster spoke-1` lists those there are\n",
	}, drydock(t, "node", "cancel", "worker-9"))
}

func nodeReaches(t *testing.T, name string, state maintenancev1.NodeState) maintenanceStatus {
	t.Helper()
	return becomes(t, func(s maintenanceStatus) bool { return s.Status.State == state }, "node", "status", name)
}
