package activities

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/temporal"
)

// heldWorkflow is a workflow that answers what holds it; nil: nothing.
type heldWorkflow struct {
	hold  *drydockv1.Hold
	asked int
}

func (w *heldWorkflow) QueryWorkflow(context.Context, string, string, string, ...any) (converter.EncodedValue, error) {
	w.asked++
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

// attempt makes every attempt at an activity that of its number.
type attempt struct {
	interceptor.WorkerInterceptorBase
	number int32
}

func (a *attempt) InterceptActivity(_ context.Context, next interceptor.ActivityInboundInterceptor) interceptor.ActivityInboundInterceptor {
	in := &attemptInbound{number: a.number}
	in.Next = next
	return in
}

type attemptInbound struct {
	interceptor.ActivityInboundInterceptorBase
	number int32
}

func (i *attemptInbound) Init(next interceptor.ActivityOutboundInterceptor) error {
	out := &attemptOutbound{number: i.number}
	out.Next = next
	return i.Next.Init(out)
}

type attemptOutbound struct {
	interceptor.ActivityOutboundInterceptorBase
	number int32
}

func (o *attemptOutbound) GetInfo(ctx context.Context) activity.Info {
	info := o.Next.GetInfo(ctx)
	info.Attempt = o.number
	return info
}

// runAttempt runs an attempt of that number at an activity.
func runAttempt(number int32, step, in any) error {
	var suite testsuite.WorkflowTestSuite
	environment := suite.NewTestActivityEnvironment()
	environment.SetWorkerOptions(worker.Options{Interceptors: []interceptor.WorkerInterceptor{&attempt{number: number}}})
	environment.RegisterActivity(step)
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
