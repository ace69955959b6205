// Package workflowtest simulates the world around workflows for their tests: activities, the slot scheduler, child workflows, time.
package workflowtest

import (
	"context"
	"encoding/json"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	sdktemporal "go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/activities/drain"
	"drydock.dev/drydock/activities/health"
	"drydock.dev/drydock/activities/jobs"
	"drydock.dev/drydock/activities/locks"
	"drydock.dev/drydock/activities/node"
	"drydock.dev/drydock/activities/rollouts"
	"drydock.dev/drydock/activities/sweeper"
	windowsactivities "drydock.dev/drydock/activities/windows"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/emergency"
	"drydock.dev/drydock/internal/rollout"
	"drydock.dev/drydock/internal/scheduling"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/internal/windows"
	"drydock.dev/drydock/workflows/kit"
	"drydock.dev/drydock/workflows/kit/kittest"
	"drydock.dev/drydock/workflows/nodemaintenance"
	rolloutworkflow "drydock.dev/drydock/workflows/rollout"
)

// World plays the activities of a workflow test: each call is recorded, and answered at once unless the test says otherwise. Time is
// skipped.
type World struct {
	*testsuite.TestWorkflowEnvironment
	T *testing.T

	Mu    sync.Mutex
	calls []string
	// Locked: the cluster serves workload locks.
	Locked bool
	// Fail answers a call of an activity with an error as long as the function returns one.
	Fail map[string]func(call int) error
	// Blocked activities wait until they are cancelled.
	Blocked map[string]bool
	Inputs  map[string][]any
	// Plan and nodes are what the hub and the cluster answer.
	Plan  rollouts.Plan
	Nodes rollout.NodePlan
	// LoadedRollout is what the hub has saved of a rollout that is retried.
	LoadedRollout rollouts.LoadedRollout
	// Vanished are the clusters that the hub no longer has.
	Vanished []string
	// vanishedWaits are the activities that wait for some to vanish.
	vanishedWaits []vanishedWait
	// Scheduler is the simulated scheduler of the cluster.
	Scheduler simulatedScheduler
	// Staleness is how stale the current maintenance is, one answer after the other.
	Staleness []scheduling.Staleness
	// ReactivatedLocks are locks that hold a node again while it is out of service, one after the other.
	ReactivatedLocks [][]drydockv1.Blocker
	// sentSignals is what workflows told others, but for the scheduler, by the signal's name.
	sentSignals map[string][]any
	// Jobs are the errors of the Jobs that prepare clusters, by kind and cluster.
	Jobs map[string]error
	// Holds is what the emergency stop answers to those that follow it. untold: it does not answer.
	Holds        emergency.State
	HoldsUnknown bool
	// Windows are what maintenance windows answer to those that follow them; one that is not among them does not answer.
	Windows map[string]windows.Snapshot
	// SelectedClusters are the clusters that selectors pick.
	SelectedClusters []string
	// LoadedHolds is what the hub has saved of the state of the emergency stop; followers are the subscribers that are found.
	LoadedHolds emergency.State
	Subscribers []temporal.Subscription
	// Counters are what workflows counted, by name and tags.
	Counters *counters
	// Log is what workflows logged.
	Log *Log
}

func NewWorld(t *testing.T) *World {
	t.Helper()
	suite, counted := &testsuite.WorkflowTestSuite{}, newCounters()
	suite.SetMetricsHandler(counted)
	logged := &Log{}
	suite.SetLogger(logged)
	w := &World{
		Counters:                counted,
		Log:                     logged,
		TestWorkflowEnvironment: suite.NewTestWorkflowEnvironment(), T: t,
		Fail: map[string]func(int) error{}, Blocked: map[string]bool{}, Inputs: map[string][]any{}, Scheduler: simulatedScheduler{Capacity: 1}, sentSignals: map[string][]any{},
		Holds: emergency.State{Number: 1},
	}
	w.SetTestTimeout(time.Minute)
	w.SetWorkerOptions(kittest.WorkerOptions())
	w.register()
	return w
}

// RegisterDelayedCallback calls back after that much workflow time. A workflow that ends before that fails the test: assertions that never run prove nothing.
func (w *World) RegisterDelayedCallback(callback func(), after time.Duration) {
	_, file, line, _ := runtime.Caller(1)
	fired := false
	w.SimulateAfter(after, func() {
		fired = true
		callback()
	})
	w.T.Cleanup(func() {
		require.True(w.T, fired, "%s:%d: the workflow ended before this callback, which is due after %s", filepath.Base(file), line, after)
	})
}

// SimulateAfter lets something happen around the workflow after that much workflow time. The workflow may end before.
func (w *World) SimulateAfter(after time.Duration, event func()) {
	w.TestWorkflowEnvironment.RegisterDelayedCallback(event, after)
}

// ExecuteWorkflow runs the workflow to its end, a maintenance under the id that it must have. Progress that it reports to a parent is taken in silence.
func (w *World) ExecuteWorkflow(run, in any) {
	if m, ok := in.(nodemaintenance.Input); ok {
		w.SetStartWorkflowOptions(client.StartWorkflowOptions{ID: temporal.NodeMaintenanceID(m.Cluster, m.Object.Namespace, m.Object.Name), TaskQueue: temporal.TaskQueue})
	}
	w.SimulateSignals()
	w.TestWorkflowEnvironment.ExecuteWorkflow(run, in)
}

// NodeUID is that of the node of every maintenance.
const NodeUID = "uid-of-the-node"

func (w *World) register() {
	taken := node.CordonResult{CordonedByUs: true, NodeUID: NodeUID}
	Simulate(w, "PlanMaintenance", func(node.PlanMaintenanceInput) any { return node.PlanMaintenanceResult{} })
	Simulate(w, "AwaitNodeFree", func(node.AwaitNodeFreeInput) any { return nil })
	Simulate(w, "Cordon", func(node.CordonInput) any { return taken })
	Simulate(w, "ReturnNode", func(node.ReturnNodeInput) any { return node.ReturnNodeResult{Uncordoned: true} })
	Simulate(w, "Drain", func(drain.Input) any {
		return maintenancev1.DrainStatus{PodsToEvict: 3, Evicted: 3, DrainProgress: 100}
	})
	Simulate(w, "AwaitPodCompletion", func(drain.AwaitPodCompletionInput) any { return drain.AwaitPodCompletionResult{} })
	Simulate(w, "AnnounceState", func(node.AnnounceStateInput) any { return nil })
	Simulate(w, "RunJob", func(jobs.RunJobInput) any { return nil })
	Simulate(w, "RemoveJob", func(jobs.RunJobInput) any { return nil })
	Simulate(w, "AwaitNodeHealthy", func(health.AwaitNodeHealthyInput) any { return nil })
	Simulate(w, "AwaitClusterHealthy", func(health.AwaitClusterHealthyInput) any { return nil })
	Simulate(w, "AcquireNode", func(node.AcquireNodeInput) any {
		if w.Locked {
			return node.AcquireNodeResult{Locks: locks.NodeLocks{Asked: true}}
		}
		return node.AcquireNodeResult{Cordon: &taken}
	})
	Simulate(w, "AwaitNodeLocks", func(locks.NodeLockInput) any { return nil })
	Simulate(w, "AwaitRequestsServed", func(locks.RequestsServedInput) any { return nil })
	Simulate(w, "WithdrawNodeMaintenance", func(locks.NodeLockInput) any { return locks.NodeLocks{} })
	Simulate(w, "AwaitNodeLocksActive", func(locks.NodeLockInput) any { return []drydockv1.Blocker{} })
	Simulate(w, "RequestClusterMaintenance", func(locks.ClusterLockInput) any { return w.Locked })
	Simulate(w, "AwaitClusterLocks", func(locks.ClusterLockInput) any { return nil })
	Simulate(w, "WithdrawClusterMaintenance", func(locks.ClusterLockInput) any { return nil })
	Simulate(w, "CheckNodeMaintenance", func(json.RawMessage) any { return nil })
	Simulate(w, "LocateCluster", func(string) any { return temporal.TaskQueue })
	Simulate(w, "PlanRollout", func(any) any { return w.Plan })
	Simulate(w, "VanishedClusters", func(names []string) any {
		return slices.DeleteFunc(names, func(name string) bool { return !slices.Contains(w.Vanished, name) })
	})
	w.RegisterActivityWithOptions(w.awaitVanished, activity.RegisterOptions{Name: "AwaitVanished"})
	w.RegisterActivityWithOptions(func(_ context.Context, job jobs.ClusterJob) error {
		w.Mu.Lock()
		defer w.Mu.Unlock()
		w.Inputs["RunClusterJob"] = append(w.Inputs["RunClusterJob"], job)
		if w.Blocked["RunClusterJob"] {
			return activity.ErrResultPending
		}
		return w.Jobs[string(job.Work.Kind)+" "+job.Cluster]
	}, activity.RegisterOptions{Name: "RunClusterJob"})
	Simulate(w, "RemoveClusterJob", func(jobs.ClusterJob) any { return nil })
	w.RegisterAs(temporal.ClusterPreparation, rolloutworkflow.ClusterPreparation)
	Simulate(w, "ChangeClusters", func(rollouts.ChangeClustersInput) any { return nil })
	Simulate(w, "LoadHolds", func(struct{}) any { return w.LoadedHolds })
	Simulate(w, "SaveHolds", func(emergency.State) any { return nil })
	Simulate(w, "FindSubscribers", func(struct{}) any { return w.Subscribers })
	Simulate(w, "AwaitBlockers", func(ranv1.ClusterGroupUpgrade) any { return nil })
	Simulate(w, "CheckRollout", func(object ranv1.ClusterGroupUpgrade) any { return object })
	Simulate(w, "LoadRollout", func(rollouts.LoadRolloutInput) any { return w.LoadedRollout })
	Simulate(w, "SaveRollout", func(rollouts.SaveRolloutInput) any { return nil })
	Simulate(w, "InspectCluster", func(node.InspectClusterInput) any { return w.Nodes })
	w.RegisterActivityWithOptions(func(_ context.Context, s temporal.Subscription) error {
		if !w.HoldsUnknown {
			w.SignalWorkflow(temporal.SignalHeld, w.Holds.About(s.Cluster))
		}
		return nil
	}, activity.RegisterOptions{Name: "SubscribeToHolds"})
	w.RegisterActivityWithOptions(func(_ context.Context, in windowsactivities.SubscribeToWindowInput) error {
		if standing, told := w.Windows[in.Window]; told {
			w.SignalWorkflow(temporal.SignalWindow, standing)
		}
		return nil
	}, activity.RegisterOptions{Name: "SubscribeToWindow"})
	Simulate(w, "SelectClusters", func(in rollouts.SelectClustersInput) any {
		selected := make([][]string, len(in.Selectors))
		for i := range selected {
			selected[i] = slices.DeleteFunc(slices.Clone(in.Clusters), func(name string) bool {
				return in.Selectors[i] != nil && !slices.Contains(w.SelectedClusters, name)
			})
		}
		return selected
	})
	// Beside others, so that its place among the calls is not sure.
	w.RegisterActivityWithOptions(func(_ context.Context, in sweeper.WakeSweeperInput) error {
		w.Mu.Lock()
		defer w.Mu.Unlock()
		w.Inputs["WakeSweeper"] = append(w.Inputs["WakeSweeper"], in)
		return nil
	}, activity.RegisterOptions{Name: "WakeSweeper"})
	SimulateConcurrent(w, "AwaitHeldAgain", func(in locks.AwaitHeldAgainInput) (any, bool) {
		if len(w.ReactivatedLocks) == 0 {
			return nil, false
		}
		found := w.ReactivatedLocks[0]
		w.ReactivatedLocks = w.ReactivatedLocks[1:]
		return found, true
	})
	SimulateConcurrent(w, "FollowLocks", func(locks.ClusterLockInput) (any, bool) { return nil, false })
	SimulateConcurrent(w, "AwaitStale", func(node.AwaitStaleInput) (any, bool) {
		if len(w.Staleness) == 0 {
			return nil, false
		}
		found := w.Staleness[0]
		w.Staleness = w.Staleness[1:]
		return found, true
	})
	simulateScheduler(w)
}

// vanishedWait is an activity that waits for some of the clusters to vanish.
type vanishedWait struct {
	token    []byte
	clusters []string
}

func (v vanishedWait) of(vanished []string) []string {
	return slices.DeleteFunc(slices.Clone(v.clusters), func(name string) bool { return !slices.Contains(vanished, name) })
}

func (w *World) awaitVanished(ctx context.Context, clusters []string) ([]string, error) {
	w.Mu.Lock()
	defer w.Mu.Unlock()
	w.Inputs["AwaitVanished"] = append(w.Inputs["AwaitVanished"], clusters)
	if fail := w.Fail["AwaitVanished"]; fail != nil {
		if err := fail(len(w.Inputs["AwaitVanished"])); err != nil {
			return nil, err
		}
	}
	wait := vanishedWait{token: activity.GetInfo(ctx).TaskToken, clusters: clusters}
	if found := wait.of(w.Vanished); len(found) > 0 {
		return found, nil
	}
	w.vanishedWaits = append(w.vanishedWaits, wait)
	return nil, activity.ErrResultPending
}

// DeleteClusterSilently deletes the ManagedCluster of a cluster, and the hub does not report it.
func (w *World) DeleteClusterSilently(cluster string) {
	w.Mu.Lock()
	defer w.Mu.Unlock()
	w.Vanished = append(w.Vanished, cluster)
}

// DeleteCluster deletes the ManagedCluster of a cluster, and tells those that wait for that.
func (w *World) DeleteCluster(cluster string) {
	w.Mu.Lock()
	w.Vanished = append(w.Vanished, cluster)
	waiting := w.vanishedWaits
	w.vanishedWaits = nil
	w.Mu.Unlock()
	for _, wait := range waiting {
		if found := wait.of([]string{cluster}); len(found) > 0 {
			_ = w.CompleteActivity(wait.token, found, nil) // one that was cancelled needs no news
		} else {
			w.Mu.Lock()
			w.vanishedWaits = append(w.vanishedWaits, wait)
			w.Mu.Unlock()
		}
	}
}

// SimulateConcurrent registers an activity that waits beside others, so that its place among the calls is not sure; while there is no answer, it waits for as long as
// the test runs.
func SimulateConcurrent[In any](w *World, name string, answer func(In) (any, bool)) {
	w.RegisterActivityWithOptions(func(_ context.Context, in In) (any, error) {
		w.Mu.Lock()
		defer w.Mu.Unlock()
		w.Inputs[name] = append(w.Inputs[name], in)
		result, answered := answer(in)
		if !answered {
			return nil, activity.ErrResultPending
		}
		return result, nil
	}, activity.RegisterOptions{Name: name})
}

// Simulate registers an activity that records its calls.
func Simulate[In any](w *World, name string, answer func(In) any) {
	w.RegisterActivityWithOptions(func(_ context.Context, in In) (any, error) {
		w.Mu.Lock()
		w.calls = append(w.calls, name)
		w.Inputs[name] = append(w.Inputs[name], in)
		call, fail, blocked := len(w.Inputs[name]), w.Fail[name], w.Blocked[name]
		w.Mu.Unlock()
		if fail != nil {
			if err := fail(call); err != nil {
				return nil, err
			}
		}
		if blocked {
			return nil, activity.ErrResultPending
		}
		return answer(in), nil
	}, activity.RegisterOptions{Name: name})
}

// Called returns the recorded calls, in order.
func (w *World) Called() []string {
	w.Mu.Lock()
	defer w.Mu.Unlock()
	return slices.Clone(w.calls)
}

// InputsOf returns the inputs of an activity so far; one that the workflow no longer waits for may still be called.
func (w *World) InputsOf(activity string) []any {
	w.Mu.Lock()
	defer w.Mu.Unlock()
	return slices.Clone(w.Inputs[activity])
}

// SentSignals is what workflows have told others by that signal so far.
func (w *World) SentSignals(signal string) []any {
	w.Mu.Lock()
	defer w.Mu.Unlock()
	return slices.Clone(w.sentSignals[signal])
}

// Once fails the first call with the error, and no other.
func Once(err error) func(int) error {
	return func(call int) error {
		if call == 1 {
			return err
		}
		return nil
	}
}

func Always(err error) func(int) error { return func(int) error { return err } }

// SignalWhen sends the signal when the query's status first satisfies the condition, which is looked at every second of workflow time.
func SignalWhen[S any](w *World, condition func(S) bool, signal string, payload any) {
	w.When(func() bool { return condition(StatusOf[S](w)) }, func() { w.SignalWorkflow(signal, payload) })
}

// When runs then as soon as the condition holds; it is looked at every second of workflow time, after minutes less and less often.
func (w *World) When(condition func() bool, then func()) {
	begun, look := w.Now(), func() {}
	look = func() {
		if condition() {
			then()
			return
		}
		waited := w.Now().Sub(begun)
		w.RegisterDelayedCallback(look, max(time.Second, (waited/500).Truncate(time.Second)))
	}
	w.RegisterDelayedCallback(look, time.Second)
}

func StatusOf[S any](w *World) S {
	w.T.Helper()
	value, err := w.QueryWorkflow(temporal.QueryStatus)
	require.NoError(w.T, err)
	var status S
	require.NoError(w.T, value.Get(&status))
	return status
}

// RequireFailure requires that the workflow ended in an error of that type, and returns the status it carries.
func RequireFailure[S any](w *World, errType string) S {
	w.T.Helper()
	require.True(w.T, w.IsWorkflowCompleted())
	err := w.GetWorkflowError()
	require.Error(w.T, err)
	require.Equal(w.T, errType, temporal.ErrorType(err), "%v", err)
	var status S
	require.True(w.T, kit.DetailsOf(err, &status), "the error carries the status")
	return status
}

// RequireCancelled requires that the workflow ended cancelled, and returns the status it carries.
func RequireCancelled[S any](w *World) S {
	w.T.Helper()
	require.True(w.T, w.IsWorkflowCompleted())
	err := w.GetWorkflowError()
	require.True(w.T, sdktemporal.IsCanceledError(err), "%v", err)
	var status S
	require.True(w.T, kit.DetailsOf(err, &status), "the error carries the status")
	return status
}

func RequireResult[S any](w *World) S {
	w.T.Helper()
	require.True(w.T, w.IsWorkflowCompleted())
	require.NoError(w.T, w.GetWorkflowError())
	var status S
	require.NoError(w.T, w.GetWorkflowResult(&status))
	return status
}

// RegisterAs registers a workflow that plays a child.
func (w *World) RegisterAs(name string, child any) {
	w.RegisterWorkflowWithOptions(child, workflow.RegisterOptions{Name: name})
}

// SignalWithPayload is a signal with its payload.
type SignalWithPayload struct {
	Name    string
	Payload any
}

// SendInOneTask sends signals that one workflow task brings: of all but the last, no task is told.
func (w *World) SendInOneTask(signals ...SignalWithPayload) {
	last := len(signals) - 1
	for _, s := range signals[:last] {
		w.SignalWorkflowSkippingWorkflowTask(s.Name, s.Payload)
	}
	w.SignalWorkflow(signals[last].Name, signals[last].Payload)
}

// SignalInOneTask sends signals without a payload.
func (w *World) SignalInOneTask(names ...string) {
	var signals []SignalWithPayload
	for _, name := range names {
		signals = append(signals, SignalWithPayload{Name: name})
	}
	w.SendInOneTask(signals...)
}
