package node_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"drydock.dev/drydock/activities/activitykit"
	"drydock.dev/drydock/activities/activitytest"
	"drydock.dev/drydock/activities/drain"
	jobsactivities "drydock.dev/drydock/activities/jobs"
	locksactivities "drydock.dev/drydock/activities/locks"
	"drydock.dev/drydock/activities/node"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/temporal"
)

// The workflow checks only before the first attempt; the cluster may be held before a retry.
func TestARetryDisruptsNothingOnAHeldCluster(t *testing.T) {
	workflow := &activitytest.HeldWorkflow{}
	waits := activitykit.Waits{Workflows: workflow}
	nodes, drains, jobs := &node.Activities{Clusters: activitytest.Clusters, Waits: waits}, &drain.Activities{Clusters: activitytest.Clusters, Waits: waits}, &jobsactivities.Activities{Clusters: activitytest.Clusters, Waits: waits}
	requireHeld := func(step, in any) {
		workflow.Hold = &drydockv1.Hold{Scope: drydockv1.HoldAll, By: "ann", Reason: "flood"}
		err := activitytest.RunAttempt(2, step, in)
		require.Equal(t, temporal.ErrHeld, temporal.ErrorType(err), "%v", err)
		require.ErrorContains(t, err, "by ann: flood")
		workflow.Hold = nil
	}
	ref := activitytest.TestNode(t)
	requireHeld(nodes.AcquireNode, node.AcquireNodeInput{NodeRef: ref, Cordon: true})
	requireHeld(nodes.Cordon, node.CordonInput{NodeRef: ref, Cordon: true})
	require.Empty(t, kube.Owner(activitytest.GetNode(t, ref.Node)))
	require.NoError(t, activitytest.RunAttempt(2, nodes.Cordon, node.CordonInput{NodeRef: ref, Cordon: true}), "the hold was released")

	shop := activitytest.NewTenant(t)
	shop.Pod(t, ref.Node, "web-0")
	requireHeld(drains.Drain, drain.Input{NodeRef: ref})
	require.Equal(t, []string{"web-0"}, shop.Left(t))

	job := activitytest.Firmware(t, ref, activitytest.Lasting("0s"))
	begun := job
	begun.Held = &drydockv1.Hold{Scope: drydockv1.HoldAll, By: "ann", Reason: "flood"}
	requireNone := func(in jobsactivities.RunJobInput) {
		err := activitytest.RunAttempt(1, jobs.RunJob, in)
		require.Equal(t, temporal.ErrHeld, temporal.ErrorType(err), "%v", err)
		require.Nil(t, activitytest.JobOf(t, in))
	}
	requireNone(begun)
	begun.Deadline = activitytest.InSeconds(-1)
	requireNone(begun)
	begun.Deadline = nil
	requireHeld(jobs.RunJob, job)
	require.Nil(t, activitytest.JobOf(t, job))
	require.NoError(t, activitytest.RunAttempt(2, jobs.RunJob, job))
	workflow.Hold = &drydockv1.Hold{Scope: drydockv1.HoldAll}
	require.NoError(t, activitytest.RunAttempt(2, jobs.RunJob, job), "a running Job is followed")
	require.NoError(t, activitytest.RunAttempt(1, jobs.RunJob, begun), "even if its workflow does not know of it")
	started := workflow.Asked
	require.NoError(t, activitytest.RunAttempt(1, nodes.Cordon, node.CordonInput{NodeRef: ref, Cordon: true}))
	require.Equal(t, started, workflow.Asked, "the workflow has just checked")
}

// Without workers, the workflow has not noticed the time that has passed either.
func TestNothingStartsAfterTheWindowsHaveClosed(t *testing.T) {
	workflow := &activitytest.HeldWorkflow{}
	waits := activitykit.Waits{Workflows: workflow}
	nodes, drains, jobs := &node.Activities{Clusters: activitytest.Clusters, Waits: waits}, &drain.Activities{Clusters: activitytest.Clusters, Waits: waits}, &jobsactivities.Activities{Clusters: activitytest.Clusters, Waits: waits}
	closes := time.Date(2026, 11, 20, 2, 0, 0, 0, time.UTC)
	early, late := activitytest.Attempt{Number: 1, At: closes.Add(-time.Second)}, activitytest.Attempt{Number: 1, At: closes}
	requireClosed := func(step, in any) {
		t.Helper()
		for _, a := range []activitytest.Attempt{late, {Number: 2, At: closes.Add(3 * time.Hour)}} {
			err := a.Run(step, in, nil)
			require.Equal(t, temporal.ErrHeld, temporal.ErrorType(err), "%v", err)
			require.ErrorContains(t, err, "since 2026-11-20 02:00:00Z: the maintenance windows have closed")
		}
	}
	ref, other := activitytest.TestNode(t), activitytest.TestNode(t)
	acquire, cordon := node.AcquireNodeInput{NodeRef: ref, Cordon: true, Closes: &closes}, node.CordonInput{NodeRef: other, Cordon: true, Closes: &closes}
	locks := activitytest.Initiator()
	locks.Waits = waits
	requireClosed(locks.RequestClusterMaintenance, locksactivities.ClusterLockInput{Cluster: ref.Cluster, Owner: ref.Owner, Closes: &closes})
	requireClosed(nodes.AcquireNode, acquire)
	requireClosed(nodes.Cordon, cordon)
	require.Empty(t, kube.Owner(activitytest.GetNode(t, ref.Node)))
	require.Empty(t, kube.Owner(activitytest.GetNode(t, other.Node)))
	require.NoError(t, early.Run(nodes.AcquireNode, acquire, nil), "regardless of the clock of the worker")
	require.NoError(t, early.Run(nodes.Cordon, cordon, nil))

	shop := activitytest.NewTenant(t)
	shop.Pod(t, ref.Node, "web-0")
	drain := drain.Input{NodeRef: ref, Closes: &closes}
	requireClosed(drains.Drain, drain)
	require.Equal(t, []string{"web-0"}, shop.Left(t))
	begun := temporal.Observation{Drain: &maintenancev1.DrainStatus{EvictionPods: 2, Evicted: 1}}
	require.NoError(t, late.Run(drains.Drain, drain, &begun), "it has started")
	require.Empty(t, shop.Left(t))

	job := activitytest.Firmware(t, ref, activitytest.Lasting("0s"))
	job.Closes = &closes
	requireClosed(jobs.RunJob, job)
	require.Nil(t, activitytest.JobOf(t, job))
	require.NoError(t, early.Run(jobs.RunJob, job, nil))
	require.NoError(t, late.Run(jobs.RunJob, job, nil), "a running Job is followed")
}
