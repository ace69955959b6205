package activities

import (
	"context"
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	lcmv1 "drydock.dev/drydock/internal/apis/lcm/v1alpha1"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/devstack/operators"
	"drydock.dev/drydock/internal/harbor"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/policies"
	"drydock.dev/drydock/internal/precache"
	"drydock.dev/drydock/internal/temporal"
)

// heldWorkflow is a workflow that answers what holds it; nil: nothing.
type heldWorkflow struct {
	hold  *drydockv1.Hold
	asked int
	// query is what it was asked last, and about is about which clusters.
	query string
	about []any
}

func (w *heldWorkflow) QueryWorkflow(_ context.Context, _, _, query string, args ...any) (converter.EncodedValue, error) {
	w.asked++
	w.query, w.about = query, args
	return maintenanceStatus{Held: w.hold}, nil
}

type maintenanceStatus maintenancev1.NodeMaintenanceStatus

func (maintenanceStatus) HasValue() bool { return true }

func (s maintenanceStatus) Get(into any) error {
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}

// attempt makes every attempt at an activity that of its number, which was handed out then; the zero time: now.
type attempt struct {
	interceptor.WorkerInterceptorBase
	number int32
	at     time.Time
}

func (a *attempt) InterceptActivity(_ context.Context, next interceptor.ActivityInboundInterceptor) interceptor.ActivityInboundInterceptor {
	in := &attemptInbound{attempt: a}
	in.Next = next
	return in
}

type attemptInbound struct {
	interceptor.ActivityInboundInterceptorBase
	attempt *attempt
}

func (i *attemptInbound) Init(next interceptor.ActivityOutboundInterceptor) error {
	out := &attemptOutbound{attempt: i.attempt}
	out.Next = next
	return i.Next.Init(out)
}

type attemptOutbound struct {
	interceptor.ActivityOutboundInterceptorBase
	attempt *attempt
}

func (o *attemptOutbound) GetInfo(ctx context.Context) activity.Info {
	info := o.Next.GetInfo(ctx)
	info.Attempt = o.attempt.number
	if at := o.attempt.at; !at.IsZero() {
		info.ScheduledTime, info.StartedTime = at, at
	}
	return info
}

// runAttempt runs an attempt of that number at an activity.
func runAttempt(number int32, step, in any) error {
	return attempt{number: number}.run(step, in, nil)
}

// run makes the attempt. Seen is what those before it have observed; nil: nothing.
func (a attempt) run(step, in any, seen *temporal.Observation) error {
	var suite testsuite.WorkflowTestSuite
	environment := suite.NewTestActivityEnvironment()
	environment.SetWorkerOptions(worker.Options{Interceptors: []interceptor.WorkerInterceptor{&temporal.Lease{}, &a}})
	environment.RegisterActivity(step)
	if seen != nil {
		environment.SetHeartbeatDetails(*seen)
	}
	_, err := environment.ExecuteActivity(step, in)
	return err
}

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

func TestNothingBeginsOnClustersOfARolloutWhenItIsHandedOutAfterTheWindowsHaveClosed(t *testing.T) {
	waits := Waits{Workflows: &heldWorkflow{}}
	closes := time.Date(2026, 11, 20, 2, 0, 0, 0, time.UTC)
	late := attempt{number: 1, at: closes}
	requireClosed := func(step, in any) {
		t.Helper()
		err := late.run(step, in, nil)
		require.Equal(t, temporal.ErrHeld, temporal.ErrorType(err), "%v", err)
		require.ErrorContains(t, err, "the maintenance windows have closed")
	}
	s := newPolicyScene(t, ranv1.EnforceCopy, nil)
	places := &Policies{Clusters: clusters, Waits: waits}
	place := PlacePoliciesInput{Rollout: s.rollout, Desired: []policies.DesiredPlacement{{Item: 0, Clusters: s.clusters}}, Closes: &closes}
	requireClosed(places.PlacePolicies, place)
	require.NoError(t, attempt{number: 1, at: closes.Add(-1)}.run(places.PlacePolicies, place, nil))
	place.Desired[0].Clusters = s.clusters[:1]
	require.NoError(t, late.run(places.PlacePolicies, place, nil), "a cluster is taken off all the same")

	m := newWorkScene(t)
	works := &ManifestWorks{Clusters: clusters, Waits: waits}
	bring := PlaceWorksInput{Rollout: m.rollout, Desired: []policies.DesiredPlacement{{Item: 0, Clusters: slices.Sorted(slices.Values(m.clusters))}}, Closes: &closes}
	requireClosed(works.PlaceManifestWorks, bring)
	require.Equal(t, "UU", string(m.compliance(m.clusters[0])), "there is no work")
}

// What a rollout begins on several clusters by itself, and asks of their locks, is not done by a later attempt, either.
func TestALaterAttemptBeginsNothingOnAClusterThatIsHeld(t *testing.T) {
	workflow := &heldWorkflow{}
	waits := Waits{Workflows: workflow}
	requireHeld := func(step, in any, query string, about ...any) {
		t.Helper()
		workflow.hold = &drydockv1.Hold{Scope: drydockv1.HoldAll, By: "ann", Reason: "flood"}
		err := runAttempt(2, step, in)
		require.Equal(t, temporal.ErrHeld, temporal.ErrorType(err), "%v", err)
		require.Equal(t, query, workflow.query)
		require.Equal(t, about, workflow.about)
		workflow.hold = nil
	}

	s := newPolicyScene(t, ranv1.EnforceCopy, nil)
	places := &Policies{Clusters: clusters, Waits: waits}
	s.place(0, s.clusters[0])
	place := PlacePoliciesInput{Rollout: s.rollout, Desired: []policies.DesiredPlacement{{Item: 0, Clusters: s.clusters}}}
	requireHeld(places.PlacePolicies, place, temporal.QueryHeld, s.clusters[1:])
	require.NoError(t, runAttempt(2, places.PlacePolicies, place))
	workflow.hold = &drydockv1.Hold{Scope: drydockv1.HoldAll}
	place.Desired[0].Clusters = s.clusters[:1]
	require.NoError(t, runAttempt(2, places.PlacePolicies, place), "a cluster is taken off also while it is held")

	m := newWorkScene(t)
	works := &ManifestWorks{Clusters: clusters, Waits: waits}
	bring := PlaceWorksInput{Rollout: m.rollout, Desired: []policies.DesiredPlacement{{Item: 0, Clusters: slices.Sorted(slices.Values(m.clusters))}}}
	requireHeld(works.PlaceManifestWorks, bring, temporal.QueryHeld, bring.Desired[0].Clusters)
	require.Equal(t, "UU", string(m.compliance(m.clusters[0])), "there is no work")
	require.NoError(t, runAttempt(2, works.PlaceManifestWorks, bring))
	require.Equal(t, "PU", string(m.compliance(m.clusters[0])))

	job := preparation("held", precache.Backup)
	jobs := &Jobs{Clusters: clusters, Waits: waits}
	requireHeld(jobs.RunClusterJob, job, temporal.QueryHeld, []string{job.Cluster})
	require.Nil(t, clusterJob(t, job))

	locks := &Locks{Clusters: clusters, Waits: waits}
	ask := ClusterLockInput{Cluster: spokeName, Owner: "cgu/ops/held/" + spokeName + "/first-run"}
	requireHeld(locks.RequestClusterMaintenance, ask, temporal.QueryStatus)
	requests := &lcmv1.ClusterMaintenanceRequestList{}
	require.NoError(t, testCluster(t).Client.List(t.Context(), requests))
	for i := range requests.Items {
		require.NotEqual(t, ask.Owner, kube.Owner(&requests.Items[i]))
	}
}

// harborHeld: a cluster may be held before another worker comes to what one that died has begun.
func harborHeld(t *testing.T, played *operators.Operators) {
	r := newRegistry(t, played, "incluster.yaml", "expose:\n    core:", "deletionPolicy: Delete\n  expose:\n    core:")
	workflow := &heldWorkflow{}
	h := &Harbor{Clusters: r.clusters, Waits: Waits{Workflows: workflow}}
	requireHeldFirst := func(step, in any, unchanged func()) {
		t.Helper()
		workflow.hold = &drydockv1.Hold{Scope: drydockv1.HoldAll, By: "ann", Reason: "flood"}
		err := runAttempt(2, step, in)
		require.Equal(t, temporal.ErrHeld, temporal.ErrorType(err), "%v", err)
		unchanged()
		workflow.hold = nil
		require.NoError(t, runAttempt(2, step, in), "nothing is held any more")
	}
	due, err := h.AwaitHarborDue(t.Context(), AwaitHarborDueInput{HarborRef: r.ref, Known: r.known})
	require.NoError(t, err)
	require.Equal(t, harbor.PartDatabase, due.Parts[0].Part)
	requireHeldFirst(h.ApplyHarborPart, ApplyHarborPartInput{HarborRef: r.ref, Due: due.Parts[0], Generation: due.Generation}, func() {
		require.Nil(t, r.object(harbor.Postgresql, r.postgres()))
	})
	require.NotNil(t, r.object(harbor.Postgresql, r.postgres()))

	require.NoError(t, h.DeleteHarborCluster(t.Context(), r.ref))
	requireHeldFirst(h.RemoveHarborPart, RemoveHarborPartInput{HarborRef: r.ref, Part: harbor.PartDatabase}, func() {
		require.Nil(t, r.object(harbor.Postgresql, r.postgres()).GetDeletionTimestamp())
	})
	require.Nil(t, r.object(harbor.Postgresql, r.postgres()))
	require.NoError(t, h.ReleaseHarborCluster(t.Context(), ReleaseHarborClusterInput{HarborRef: r.ref, Removed: true}))
}
