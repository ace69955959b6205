package onboarding_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/interceptor"
	sdktemporal "go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	onboardingactivities "drydock.dev/drydock/activities/onboarding"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/kit"
	"drydock.dev/drydock/workflows/onboarding"
	"drydock.dev/drydock/workflows/workflowtest"
)

func TestOnboardingInManyRunsHasTheSameResult(t *testing.T) {
	play := func(pieces bool) (onboarded int, started map[string]int, runs int) {
		in, h := &onboarding.Input{}, workflowtest.NewOnboardingWorld(t)
		h.NewClusters["c1"], h.NewClusters["c2"] = []string{"first", "second"}, nil
		started = map[string]int{}
		for in != nil {
			runs++
			left := h.NewClusters
			h = workflowtest.NewOnboardingWorld(t)
			h.NewClusters = left
			h.RegisterDelayedCallback(func() {
				h.SetContinueAsNewSuggested(pieces && runs < 3)
				h.Available(fmt.Sprintf("c%d", runs+2))
			}, 10*time.Second)
			h.SimulateAfter(time.Hour, func() { h.SignalWorkflow(temporal.SignalCancel, nil) })
			h.ExecuteWorkflow(onboarding.Onboarding, *in)
			for _, object := range h.Started {
				started[object.Name]++
				require.Equal(t, object.Name == "c1", len(object.Spec.ManagedPolicies) == 2)
			}
			in = workflowtest.NextRunInput[onboarding.Input](h.World)
		}
		return workflowtest.RequireCancelled[onboarding.Status](h.World).Onboarded, started, runs
	}
	onboarded, started, runs := play(false)
	require.Equal(t, []int{3, 3, 1}, []int{onboarded, len(started), runs})
	onboarded, started, runs = play(true)
	require.Equal(t, []int{5, 5, 3}, []int{onboarded, len(started), runs}, "each run onboards one more")
	require.Equal(t, map[string]int{"c1": 1, "c2": 1, "c3": 1, "c4": 1, "c5": 1}, started)
}

// A rollout that was started outside of onboarding may end before the next run finds it.
func TestAClusterWithAForeignRolloutKeepsItsPolicies(t *testing.T) {
	h := workflowtest.NewOnboardingWorld(t)
	h.SetWorkerOptions(worker.Options{DeadlockDetectionTimeout: time.Minute, Interceptors: []interceptor.WorkerInterceptor{&kit.SignalOrder{}, &runningChild{}}})
	h.NewClusters["c1"] = []string{"first", "second"}
	h.Blocked["AwaitRollout"] = true
	h.RegisterDelayedCallback(func() {
		h.SetContinueAsNewSuggested(true)
		h.Available("c2")
	}, time.Minute)
	h.ExecuteWorkflow(onboarding.Onboarding, onboarding.Input{})
	require.Contains(t, h.InputsOf("AwaitRollout"), onboardingactivities.RolloutRun{Namespace: "ztp-install", Name: "c1"}, "it is watched")
	in := workflowtest.NextRunInput[onboarding.Input](h.World)
	require.NotNil(t, in, "%v", h.GetWorkflowError())

	next := workflowtest.NewOnboardingWorld(t)
	next.RegisterDelayedCallback(func() { next.SignalWorkflow(temporal.SignalCancel, nil) }, time.Hour)
	next.ExecuteWorkflow(onboarding.Onboarding, *in)
	require.Equal(t, 2, workflowtest.RequireCancelled[onboarding.Status](next.World).Onboarded)
	i := slices.IndexFunc(next.Started, func(object ranv1.ClusterGroupUpgrade) bool { return object.Name == "c1" })
	require.Equal(t, []string{"first", "second"}, next.Started[i].Spec.ManagedPolicies)
}

// runningChild answers the start of a running child like a server; the test environment does not.
type runningChild struct {
	interceptor.WorkerInterceptorBase
}

func (*runningChild) InterceptWorkflow(_ workflow.Context, next interceptor.WorkflowInboundInterceptor) interceptor.WorkflowInboundInterceptor {
	in := &runningChildInbound{}
	in.Next = next
	return in
}

type runningChildInbound struct {
	interceptor.WorkflowInboundInterceptorBase
}

func (i *runningChildInbound) Init(next interceptor.WorkflowOutboundInterceptor) error {
	out := &runningChildOutbound{}
	out.Next = next
	return i.Next.Init(out)
}

type runningChildOutbound struct {
	interceptor.WorkflowOutboundInterceptorBase
}

func (*runningChildOutbound) ExecuteChildWorkflow(ctx workflow.Context, _ string, _ ...any) workflow.ChildWorkflowFuture {
	started, settle := workflow.NewFuture(ctx)
	settle.SetError(&sdktemporal.ChildWorkflowExecutionAlreadyStartedError{})
	return runningChildFuture{started: started}
}

type runningChildFuture struct {
	workflow.ChildWorkflowFuture
	started workflow.Future
}

func (c runningChildFuture) GetChildWorkflowExecution() workflow.Future { return c.started }
