package node_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"drydock.dev/drydock/activities/activitytest"
	"drydock.dev/drydock/activities/drain"
	"drydock.dev/drydock/internal/devstack"
	"drydock.dev/drydock/internal/temporal"
)

// replaced deletes a node and registers another one with its name, and waits for the caches of the activities.
func replaced(t *testing.T, name string) *corev1.Node {
	t.Helper()
	require.NoError(t, activitytest.TestCluster(t).Client.Delete(t.Context(), activitytest.GetNode(t, name)))
	require.NoError(t, activitytest.Stack.Cluster(activitytest.SpokeName).AddNodes(t.Context(), devstack.Node{Name: name}))
	other := activitytest.GetNode(t, name)
	activitytest.Settled(t, activitytest.SpokeName, other)
	return other
}

func TestANodeReplacedUnderItsNameIsGone(t *testing.T) {
	ref := activitytest.TestNode(t)
	job := activitytest.Firmware(t, ref, nil)
	job.NodeUID = activitytest.Cordon(t, ref).NodeUID
	require.NotEqual(t, job.NodeUID, replaced(t, ref.Node).UID)

	drains := &drain.Activities{Clusters: activitytest.Clusters}
	_, err := drains.AwaitPodCompletion(t.Context(), drain.AwaitPodCompletionInput{NodeRef: ref, NodeUID: job.NodeUID})
	require.Equal(t, temporal.ErrNodeGone, temporal.ErrorType(err), "%v", err)
	_, err = drains.Drain(t.Context(), drain.Input{NodeRef: ref, NodeUID: job.NodeUID, Attempt: 1})
	require.Equal(t, temporal.ErrNodeGone, temporal.ErrorType(err), "%v", err)
	err = activitytest.Jobs().RunJob(t.Context(), job)
	require.Equal(t, temporal.ErrNodeGone, temporal.ErrorType(err), "%v", err)

	activitytest.RemoveJob(t, job)
	activitytest.RequireJobGone(t, job)
	require.False(t, activitytest.ReturnNode(t, ref).LeftCordoned)
	activitytest.RequireNoTrace(t, ref.Node)
}
