package workflows

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/interceptor"
	sdktemporal "go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/drydock/activities"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/emergency"
	"drydock.dev/drydock/internal/rollout"
	"drydock.dev/drydock/internal/temporal"
)

// handedOn is what a run has handed to the next one; nil: it has ended.
func handedOn[In any](w *world) *In {
	w.t.Helper()
	var next *workflow.ContinueAsNewError
	if !errors.As(w.GetWorkflowError(), &next) {
		return nil
	}
	in := new(In)
	require.NoError(w.t, converter.GetDefaultDataConverter().FromPayloads(next.Input, in))
	return in
}

// remediated is a rollout of one kind of remediation, and the hub that it works on.
type remediated struct {
	name   string
	object func() ranv1.ClusterGroupUpgrade
	// world plays the hub as the run before has left it; nil: there was none.
	world func(t *testing.T, before *policyWorld, batches ...[]string) *policyWorld
	// once are the activities that are called as often as in one piece, however many runs there are.
	once []string
}

func everyRemediation() []remediated {
	inherit := func(w, before *policyWorld) *policyWorld {
		if before != nil {
			w.compliance, w.enforced = before.compliance, before.enforced
		}
		return w
	}
	always := []string{"PlanRollout", "ChangeClusters", "SaveRollout"}
	return []remediated{
		{"nodes", func() ranv1.ClusterGroupUpgrade { return aRollout() }, func(t *testing.T, _ *policyWorld, batches ...[]string) *policyWorld {
			w, _ := newGroupWorld(t, batches...)
			return &policyWorld{world: w}
		}, always},
		{"policies", policyRollout, func(t *testing.T, before *policyWorld, batches ...[]string) *policyWorld {
			return inherit(newPolicyWorld(t, batches...), before)
		}, append([]string{"PreparePolicies", "CleanUpPolicies"}, always...)},
		{"manifest works", func() ranv1.ClusterGroupUpgrade {
			object := aRollout()
			object.Spec.NodeMaintenance, object.Spec.ManifestWorkTemplates = nil, []string{"os", "firmware"}
			return object
		}, func(t *testing.T, before *policyWorld, batches ...[]string) *policyWorld {
			w, _ := newWorkWorld(t, nil, batches...)
			return inherit(w, before)
		}, append([]string{"PrepareManifestWorks", "CleanUpManifestWorks"}, always...)},
	}
}

// ending is how a rollout ended, as far as that does not depend on when.
type ending struct {
	clusters   map[string]ranv1.ClusterState
	conditions []string
	rest       groupStatus
	calls      map[string]int
}

func (r remediated) ending(status groupStatus, calls map[string]int) ending {
	e := ending{clusters: clusterStates(status), rest: status, calls: calls}
	for _, c := range status.Conditions {
		e.conditions = append(e.conditions, fmt.Sprintf("%s %s %s: %s", c.Type, c.Status, c.Reason, c.Message))
	}
	e.rest.Clusters, e.rest.Conditions, e.rest.Status = nil, nil, ranv1.RunStatus{}
	return e
}

// play runs the rollout to its end; in pieces: each run is told after a second that its history is long.
func (r remediated) play(t *testing.T, pieces bool) (e ending, runs int) {
	batches := [][]string{{"c1"}, {"c2", "c3"}, {"c4"}}
	in := &ClusterGroupUpgradeInput{Object: withActions(r.object()), StartedBy: "ann"}
	calls := map[string]int{}
	var w *policyWorld
	for in != nil {
		runs++
		w = r.world(t, w, batches...)
		w.plan.Skipped = []rollout.SkippedCluster{{Cluster: "c5", Reason: rollout.ReasonAlreadyCompliant}}
		if pieces {
			w.RegisterDelayedCallback(func() { w.SetContinueAsNewSuggested(true) }, time.Second)
		}
		w.ExecuteWorkflow(ClusterGroupUpgrade, *in)
		for _, activity := range r.once {
			calls[activity] += len(w.inputsOf(activity))
		}
		in = handedOn[ClusterGroupUpgradeInput](w.world)
	}
	w.requireNothingEnforced()
	return r.ending(requireResult[groupStatus](w.world), calls), runs
}

func TestARolloutInManyRunsIsTheSameAsInOne(t *testing.T) {
	for _, r := range everyRemediation() {
		t.Run(r.name, func(t *testing.T) {
			whole, runs := r.play(t, false)
			require.Equal(t, 1, runs)
			pieces, runs := r.play(t, true)
			require.Equal(t, 3, runs, "one for each batch")
			require.Equal(t, whole, pieces)
		})
	}
}

// Held, the second run starts no cluster before it is cancelled.
func TestARunThatStartsNothingTakesBackWhatThoseBeforeHaveMade(t *testing.T) {
	for _, r := range everyRemediation() {
		t.Run(r.name, func(t *testing.T) {
			first := r.world(t, nil, []string{"c1"}, []string{"c2"})
			first.RegisterDelayedCallback(func() {
				first.SetContinueAsNewSuggested(true)
				first.SignalWorkflow(temporal.SignalHeld, emergency.State{Number: 2, Holds: []drydockv1.Hold{{Scope: drydockv1.HoldCluster("c2")}}})
			}, time.Second)
			first.ExecuteWorkflow(ClusterGroupUpgrade, ClusterGroupUpgradeInput{Object: r.object()})
			in := handedOn[ClusterGroupUpgradeInput](first.world)
			require.NotNil(t, in)

			second := r.world(t, first)
			second.RegisterDelayedCallback(func() { second.SignalWorkflow(temporal.SignalCancel, nil) }, time.Minute)
			second.ExecuteWorkflow(ClusterGroupUpgrade, *in)
			require.Equal(t, map[string]ranv1.ClusterState{"c1": ranv1.ClusterComplete, "c2": ranv1.ClusterPending}, clusterStates(requireCancelled[groupStatus](second.world)))
			for _, activity := range []string{"CleanUpPolicies", "CleanUpManifestWorks"} {
				require.Equal(t, slices.Contains(r.once, activity), len(second.inputsOf(activity)) == 1, activity)
			}
		})
	}
}

// What could not be prepared may have been made in part.
func TestARunTakesBackWhatOneBeforeCouldNotPrepare(t *testing.T) {
	w := newPolicyWorld(t, []string{"c2"})
	started := metav1.NewTime(w.Now())
	carried := &ClusterGroupUpgradeCarried{Phase: phaseLookAgain, NextBatch: 1, Held: w.held, Status: groupStatus{
		RemediationPlan: [][]string{{"c1"}}, Clusters: []ranv1.ClusterStatus{{Name: "c1", State: ranv1.ClusterFailed, Batch: 1}},
		Status: ranv1.RunStatus{StartedAt: &started, CurrentBatch: 1, CurrentBatchStartedAt: &started},
	}}
	w.ExecuteWorkflow(ClusterGroupUpgrade, ClusterGroupUpgradeInput{Object: policyRollout(), Carried: carried})
	requireFailure[groupStatus](w.world, ranv1.ReasonFailed)
	require.Len(t, w.inputsOf("CleanUpPolicies"), 1)
}

func TestOnboardingInManyRunsIsTheSameAsInOne(t *testing.T) {
	play := func(pieces bool) (onboarded int, started map[string]int, runs int) {
		in, h := &OnboardingInput{}, newHubWorld(t)
		h.isNew["c1"], h.isNew["c2"] = []string{"first", "second"}, nil
		started = map[string]int{}
		for in != nil {
			runs++
			left := h.isNew
			h = newHubWorld(t)
			h.isNew = left
			h.RegisterDelayedCallback(func() {
				h.SetContinueAsNewSuggested(pieces && runs < 3)
				h.available(fmt.Sprintf("c%d", runs+2))
			}, 10*time.Second)
			h.simulateAfter(time.Hour, func() { h.SignalWorkflow(temporal.SignalCancel, nil) })
			h.ExecuteWorkflow(Onboarding, *in)
			for _, object := range h.started {
				started[object.Name]++
				require.Equal(t, object.Name == "c1", len(object.Spec.ManagedPolicies) == 2)
			}
			in = handedOn[OnboardingInput](h.world)
		}
		return requireCancelled[OnboardingStatus](h.world).Onboarded, started, runs
	}
	onboarded, started, runs := play(false)
	require.Equal(t, []int{3, 3, 1}, []int{onboarded, len(started), runs})
	onboarded, started, runs = play(true)
	require.Equal(t, []int{5, 5, 3}, []int{onboarded, len(started), runs}, "each run brings one more")
	require.Equal(t, map[string]int{"c1": 1, "c2": 1, "c3": 1, "c4": 1, "c5": 1}, started)
}

// elsewhere answers the start of a child as a server does where somebody else has started it; the test environment answers otherwise.
type elsewhere struct {
	interceptor.WorkerInterceptorBase
}

func (*elsewhere) InterceptWorkflow(_ workflow.Context, next interceptor.WorkflowInboundInterceptor) interceptor.WorkflowInboundInterceptor {
	in := &elsewhereInbound{}
	in.Next = next
	return in
}

type elsewhereInbound struct {
	interceptor.WorkflowInboundInterceptorBase
}

func (i *elsewhereInbound) Init(next interceptor.WorkflowOutboundInterceptor) error {
	out := &elsewhereOutbound{}
	out.Next = next
	return i.Next.Init(out)
}

type elsewhereOutbound struct {
	interceptor.WorkflowOutboundInterceptorBase
}

func (*elsewhereOutbound) ExecuteChildWorkflow(ctx workflow.Context, _ string, _ ...any) workflow.ChildWorkflowFuture {
	started, settle := workflow.NewFuture(ctx)
	settle.SetError(&sdktemporal.ChildWorkflowExecutionAlreadyStartedError{})
	return childElsewhere{started: started}
}

type childElsewhere struct {
	workflow.ChildWorkflowFuture
	started workflow.Future
}

func (c childElsewhere) GetChildWorkflowExecution() workflow.Future { return c.started }

// A rollout that somebody else has started may be over before the next run asks for it.
func TestAClusterWhoseRolloutSomebodyElseHasStartedKeepsItsPolicies(t *testing.T) {
	h := newHubWorld(t)
	h.SetWorkerOptions(worker.Options{DeadlockDetectionTimeout: time.Minute, Interceptors: []interceptor.WorkerInterceptor{&SignalOrder{}, &elsewhere{}}})
	h.isNew["c1"] = []string{"first", "second"}
	h.blocked["AwaitRollout"] = true
	h.RegisterDelayedCallback(func() {
		h.SetContinueAsNewSuggested(true)
		h.available("c2")
	}, time.Minute)
	h.ExecuteWorkflow(Onboarding, OnboardingInput{})
	require.Contains(t, h.inputsOf("AwaitRollout"), activities.RolloutRun{Namespace: "ztp-install", Name: "c1"}, "it is followed")
	in := handedOn[OnboardingInput](h.world)
	require.NotNil(t, in, "%v", h.GetWorkflowError())

	next := newHubWorld(t)
	next.RegisterDelayedCallback(func() { next.SignalWorkflow(temporal.SignalCancel, nil) }, time.Hour)
	next.ExecuteWorkflow(Onboarding, *in)
	require.Equal(t, 2, requireCancelled[OnboardingStatus](next.world).Onboarded)
	i := slices.IndexFunc(next.started, func(object ranv1.ClusterGroupUpgrade) bool { return object.Name == "c1" })
	require.Equal(t, []string{"first", "second"}, next.started[i].Spec.ManagedPolicies)
}

func TestAnEditOfTheTimeoutReachesTheBatchThatARunBeforeHasBegun(t *testing.T) {
	w, clusters := newGroupWorld(t)
	clusters.ends["c2"] = never
	start := w.Now()
	now := &metav1.Time{Time: start}
	carried := &ClusterGroupUpgradeCarried{Phase: phaseBatches, Used: time.Minute, Begun: &BatchBudget{Budget: 10 * time.Minute}, Held: w.held, Status: groupStatus{
		Paused: true, RemediationPlan: [][]string{{"c1", "c2"}}, Status: ranv1.RunStatus{StartedAt: now, CurrentBatch: 1, CurrentBatchStartedAt: now},
		Clusters: []ranv1.ClusterStatus{{Name: "c1", State: ranv1.ClusterComplete, Batch: 1}, {Name: "c2", State: ranv1.ClusterPending, Batch: 1}},
	}}
	w.RegisterDelayedCallback(func() {
		longer := aRollout().Spec
		longer.RemediationStrategy.Timeout = 90
		w.ask(temporal.UpdateEdit, rollout.EditRequest{Spec: longer})
	}, time.Hour)
	w.RegisterDelayedCallback(func() { w.SignalWorkflow(temporal.SignalResume, nil) }, 2*time.Hour)
	w.ExecuteWorkflow(ClusterGroupUpgrade, ClusterGroupUpgradeInput{Object: aRollout(), Carried: carried})
	status := requireFailure[groupStatus](w, ranv1.ReasonTimedOut)
	require.NotNil(t, meta.FindStatusCondition(status.Conditions, ranv1.ConditionSucceeded))
	require.WithinDuration(t, start.Add(2*time.Hour+90*time.Minute), w.Now(), 5*time.Second, "the last batch has all of the new time: 89 minutes, and one for the withdrawal")
}
