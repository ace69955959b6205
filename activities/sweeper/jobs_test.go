package sweeper

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"drydock.dev/drydock/activities/activitykit"
	"drydock.dev/drydock/activities/activitytest"
	"drydock.dev/drydock/activities/jobs"
)

func TestAJobCreatedAfterItsNodeReturnedIsDeleted(t *testing.T) {
	ref := activitytest.TestNode(t)
	in := activitytest.Firmware(t, ref, nil)
	late, err := jobs.JobFor(in)
	require.NoError(t, err)
	activitytest.ReturnNode(t, ref)
	require.NoError(t, activitytest.TestCluster(t).Client.Create(t.Context(), late), "the request was in flight")
	require.Eventually(t, func() bool { return len(activitytest.PodsIn(t, in.Job.Namespace)) == 1 }, activitytest.EventTimeout, 20*time.Millisecond)

	next := activitytest.Firmware(t, activitykit.NodeRef{Cluster: ref.Cluster, Node: ref.Node, Owner: ref.Owner + "-2"}, nil)
	require.NoError(t, activitytest.Jobs().RunJob(t.Context(), next), "the Job of the next maintenance succeeds")
	activitytest.ReturnNode(t, next.NodeRef)
	pod := activitytest.PodsIn(t, in.Job.Namespace)[0]
	require.Empty(t, pod.Spec.NodeName, "the late Job is not scheduled")
	require.Equal(t, corev1.PodPending, pod.Status.Phase)

	server := activitytest.NewWorkflows()
	server.Set(ref.Owner, activitytest.WasTerminated)
	left := look(t, server, AwaitOrphansInput{}).Orphans
	require.Equal(t, []MarkKind{MarkJob}, kindsOf(left))
	orphan := jobs.OrphanedJob{Cluster: activitytest.SpokeName, Namespace: left[0].Namespace, Name: left[0].Name, Owner: left[0].Owner}
	require.NoError(t, activitytest.Jobs().RemoveOrphanedJob(t.Context(), orphan))
	activitytest.RequireJobGone(t, in)
	activitytest.RemoveJob(t, next)
}
