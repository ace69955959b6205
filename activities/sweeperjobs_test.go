package activities

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
)

func TestAJobThatIsMadeWhenItsNodeWasReturnedNeverGetsThereAndIsCollected(t *testing.T) {
	ref := testNode(t)
	in := firmware(t, ref, nil)
	late, err := jobFor(in)
	require.NoError(t, err)
	giveBack(t, ref)
	require.NoError(t, testCluster(t).Client.Create(t.Context(), late), "the request was on its way all the while")
	require.Eventually(t, func() bool { return len(podsIn(t, in.Job.Namespace)) == 1 }, newsLimit, 20*time.Millisecond)

	next := firmware(t, NodeRef{Cluster: ref.Cluster, Node: ref.Node, Owner: ref.Owner + "-2"}, nil)
	require.NoError(t, jobs().RunJob(t.Context(), next), "the work of the next maintenance is done")
	giveBack(t, next.NodeRef)
	pod := podsIn(t, in.Job.Namespace)[0]
	require.Empty(t, pod.Spec.NodeName, "the late one is not, whoever has the node")
	require.Equal(t, corev1.PodPending, pod.Status.Phase)

	server := newWorkflows()
	server.set(ref.Owner, wasTerminated)
	left := look(t, server, AwaitOrphansInput{}).Orphans
	require.Equal(t, []MarkKind{MarkJob}, kindsOf(left))
	orphan := OrphanedJob{Cluster: spokeName, Namespace: left[0].Namespace, Name: left[0].Name, Owner: left[0].Owner}
	require.NoError(t, jobs().RemoveOrphanedJob(t.Context(), orphan))
	requireJobGone(t, in)
	removeJob(t, next)
}
