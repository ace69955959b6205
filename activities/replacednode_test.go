package activities

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"drydock.dev/drydock/internal/devstack"
	"drydock.dev/drydock/internal/temporal"
)

// replaced deletes a node and registers another under its name, as the activities see it afterwards.
func replaced(t *testing.T, name string) *corev1.Node {
	t.Helper()
	require.NoError(t, testCluster(t).Client.Delete(t.Context(), getNode(t, name)))
	require.NoError(t, stack.Cluster(spokeName).AddNodes(t.Context(), devstack.Node{Name: name}))
	other := getNode(t, name)
	settled(t, spokeName, other)
	return other
}

func TestANodeWhoseNameAnotherTookUnseenIsGone(t *testing.T) {
	ref := testNode(t)
	job := firmware(t, ref, nil)
	job.NodeUID = cordon(t, ref).NodeUID
	require.NotEqual(t, job.NodeUID, replaced(t, ref.Node).UID)

	drains := &Drains{Clusters: clusters}
	_, err := drains.AwaitPodCompletion(t.Context(), AwaitPodCompletionInput{NodeRef: ref, NodeUID: job.NodeUID})
	require.Equal(t, temporal.ErrNodeGone, temporal.ErrorType(err), "%v", err)
	_, err = drains.Drain(t.Context(), DrainInput{NodeRef: ref, NodeUID: job.NodeUID, Attempt: 1})
	require.Equal(t, temporal.ErrNodeGone, temporal.ErrorType(err), "%v", err)
	err = jobs().RunJob(t.Context(), job)
	require.Equal(t, temporal.ErrNodeGone, temporal.ErrorType(err), "%v", err)

	removeJob(t, job)
	requireJobGone(t, job)
	require.False(t, giveBack(t, ref).LeftCordoned)
	requireNoTrace(t, ref.Node)
}
