package activities

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/temporal"
)

// The workflow looks only before the first attempt: a cluster that answers again may be held meanwhile.
func TestALaterAttemptDisruptsNothingWhileTheClusterIsHeld(t *testing.T) {
	workflow := &heldWorkflow{}
	waits := Waits{Workflows: workflow}
	nodes, drains, jobs := &Nodes{Clusters: clusters, Waits: waits}, &Drains{Clusters: clusters, Waits: waits}, &Jobs{Clusters: clusters, Waits: waits}
	requireHeld := func(step, in any) {
		workflow.hold = &drydockv1.Hold{Scope: drydockv1.HoldAll, By: "ann", Reason: "flood"}
		err := runAttempt(2, step, in)
		require.Equal(t, temporal.ErrHeld, temporal.ErrorType(err), "%v", err)
		require.ErrorContains(t, err, "by ann: flood")
		workflow.hold = nil
	}
	ref := testNode(t)
	requireHeld(nodes.TakeNode, TakeNodeInput{NodeRef: ref, Cordon: true})
	requireHeld(nodes.Cordon, CordonInput{NodeRef: ref, Cordon: true})
	require.Empty(t, kube.Owner(getNode(t, ref.Node)))
	require.NoError(t, runAttempt(2, nodes.Cordon, CordonInput{NodeRef: ref, Cordon: true}), "nothing is held any more")

	shop := newTenant(t)
	shop.pod(t, ref.Node, "web-0")
	requireHeld(drains.Drain, DrainInput{NodeRef: ref})
	require.Equal(t, []string{"web-0"}, shop.left(t))

	job := firmware(t, ref, lasting("0s"))
	begun := job
	begun.Held = &drydockv1.Hold{Scope: drydockv1.HoldAll, By: "ann", Reason: "flood"}
	requireNone := func(in RunJobInput) {
		err := runAttempt(1, jobs.RunJob, in)
		require.Equal(t, temporal.ErrHeld, temporal.ErrorType(err), "%v", err)
		require.Nil(t, jobOf(t, in))
	}
	requireNone(begun)
	begun.Deadline = inSeconds(-1)
	requireNone(begun)
	begun.Deadline = nil
	requireHeld(jobs.RunJob, job)
	require.Nil(t, jobOf(t, job))
	require.NoError(t, runAttempt(2, jobs.RunJob, job))
	workflow.hold = &drydockv1.Hold{Scope: drydockv1.HoldAll}
	require.NoError(t, runAttempt(2, jobs.RunJob, job), "a Job that is at work is looked after")
	require.NoError(t, runAttempt(1, jobs.RunJob, begun), "also when its workflow had not heard of it")
	asked := workflow.asked
	require.NoError(t, runAttempt(1, nodes.Cordon, CordonInput{NodeRef: ref, Cordon: true}))
	require.Equal(t, asked, workflow.asked, "the workflow has just looked")
}

// The workflow that is asked knows as little of the time that has passed as whoever asks: no worker was there.
func TestNothingBeginsWhenItIsHandedOutAfterTheWindowsHaveClosed(t *testing.T) {
	workflow := &heldWorkflow{}
	waits := Waits{Workflows: workflow}
	nodes, drains, jobs := &Nodes{Clusters: clusters, Waits: waits}, &Drains{Clusters: clusters, Waits: waits}, &Jobs{Clusters: clusters, Waits: waits}
	closes := time.Date(2026, 11, 20, 2, 0, 0, 0, time.UTC)
	early, late := attempt{number: 1, at: closes.Add(-time.Second)}, attempt{number: 1, at: closes}
	requireClosed := func(step, in any) {
		t.Helper()
		for _, a := range []attempt{late, {number: 2, at: closes.Add(3 * time.Hour)}} {
			err := a.run(step, in, nil)
			require.Equal(t, temporal.ErrHeld, temporal.ErrorType(err), "%v", err)
			require.ErrorContains(t, err, "since 2026-11-20 02:00:00Z: the maintenance windows have closed")
		}
	}
	ref, other := testNode(t), testNode(t)
	take, cordon := TakeNodeInput{NodeRef: ref, Cordon: true, Closes: &closes}, CordonInput{NodeRef: other, Cordon: true, Closes: &closes}
	locks := initiator()
	locks.Waits = waits
	requireClosed(locks.RequestClusterMaintenance, ClusterLockInput{Cluster: ref.Cluster, Owner: ref.Owner, Closes: &closes})
	requireClosed(nodes.TakeNode, take)
	requireClosed(nodes.Cordon, cordon)
	require.Empty(t, kube.Owner(getNode(t, ref.Node)))
	require.Empty(t, kube.Owner(getNode(t, other.Node)))
	require.NoError(t, early.run(nodes.TakeNode, take, nil), "whatever the clock of the worker shows")
	require.NoError(t, early.run(nodes.Cordon, cordon, nil))

	shop := newTenant(t)
	shop.pod(t, ref.Node, "web-0")
	drain := DrainInput{NodeRef: ref, Closes: &closes}
	requireClosed(drains.Drain, drain)
	require.Equal(t, []string{"web-0"}, shop.left(t))
	begun := temporal.Observation{Drain: &maintenancev1.DrainStatus{PodsToEvict: 2, Evicted: 1}}
	require.NoError(t, late.run(drains.Drain, drain, &begun), "it has begun")
	require.Empty(t, shop.left(t))

	job := firmware(t, ref, lasting("0s"))
	job.Closes = &closes
	requireClosed(jobs.RunJob, job)
	require.Nil(t, jobOf(t, job))
	require.NoError(t, early.run(jobs.RunJob, job, nil))
	require.NoError(t, late.run(jobs.RunJob, job, nil), "a Job that is at work is looked after")
}
