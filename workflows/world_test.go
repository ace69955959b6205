package workflows

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
	"go.temporal.io/sdk/interceptor"
	sdktemporal "go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/activities"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/emergency"
	"drydock.dev/drydock/internal/rollout"
	"drydock.dev/drydock/internal/scheduling"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/internal/windows"
)

// world plays the activities of a workflow test: each call is recorded, and answered at once unless the test says otherwise. Time is
// skipped.
type world struct {
	*testsuite.TestWorkflowEnvironment
	t *testing.T

	mu    sync.Mutex
	calls []string
	// locked: the cluster serves workload locks.
	locked bool
	// fail answers a call of an activity with an error as long as the function returns one.
	fail map[string]func(call int) error
	// blocked activities wait until they are cancelled.
	blocked map[string]bool
	inputs  map[string][]any
	// plan and nodes are what the hub and the cluster answer.
	plan  activities.RolloutPlan
	nodes rollout.NodePlan
	// recalledRollout is what the hub has kept of a rollout that begins once more.
	recalledRollout activities.LoadedRollout
	// vanished are the clusters that the hub does not have any more.
	vanished []string
	// vanishing are the activities that wait for some to vanish.
	vanishing []vanishing
	// scheduler is the simulated scheduler of the cluster.
	scheduler simulatedScheduler
	// staleness is what is answered of the maintenance at work, one after the other.
	staleness []scheduling.Staleness
	// heldAgain are locks that hold a node again while it is out of service, one after the other.
	heldAgain [][]drydockv1.Blocker
	// told is what workflows told others, but for the scheduler, by the signal's name.
	told map[string][]any
	// jobs are the errors of the Jobs that prepare clusters, by kind and cluster.
	jobs map[string]error
	// held is what the emergency stop answers to those that follow it. untold: it does not answer.
	held   emergency.State
	untold bool
	// windows are what maintenance windows answer to those that follow them; one that is not among them does not answer.
	windows map[string]windows.Standing
	// selected are the clusters that selectors pick.
	selected []string
	// recalled is what the hub keeps of what was held before; followers are those that are found.
	recalled  emergency.State
	followers []temporal.Subscription
	// counters are what workflows counted, by name and tags.
	counters *counters
}

func newWorld(t *testing.T) *world {
	t.Helper()
	suite, counted := &testsuite.WorkflowTestSuite{}, newCounters()
	suite.SetMetricsHandler(counted)
	w := &world{
		counters:                counted,
		TestWorkflowEnvironment: suite.NewTestWorkflowEnvironment(), t: t,
		fail: map[string]func(int) error{}, blocked: map[string]bool{}, inputs: map[string][]any{}, scheduler: simulatedScheduler{capacity: 1}, told: map[string][]any{},
		held: emergency.State{Number: 1},
	}
	w.SetTestTimeout(time.Minute)
	// The SDK hashes the test's binary during the first workflow task, which on a busy machine takes longer than the second after which it
	// assumes a deadlock.
	w.SetWorkerOptions(worker.Options{DeadlockDetectionTimeout: time.Minute, Interceptors: []interceptor.WorkerInterceptor{&SignalOrder{}}})
	w.register()
	return w
}

// RegisterDelayedCallback calls back after that much workflow time. A workflow that ends before that fails the test: assertions that never run prove nothing.
func (w *world) RegisterDelayedCallback(callback func(), after time.Duration) {
	_, file, line, _ := runtime.Caller(1)
	fired := false
	w.simulateAfter(after, func() {
		fired = true
		callback()
	})
	w.t.Cleanup(func() {
		require.True(w.t, fired, "%s:%d: the workflow ended before this callback, which is due after %s", filepath.Base(file), line, after)
	})
}

// simulateAfter lets something happen around the workflow after that much workflow time. The workflow may end before.
func (w *world) simulateAfter(after time.Duration, event func()) {
	w.TestWorkflowEnvironment.RegisterDelayedCallback(event, after)
}

// ExecuteWorkflow runs the workflow to its end, a maintenance under the id that it must have. Progress that it reports to a parent is taken in silence.
func (w *world) ExecuteWorkflow(run, in any) {
	if m, ok := in.(NodeMaintenanceInput); ok {
		w.SetStartWorkflowOptions(client.StartWorkflowOptions{ID: temporal.NodeMaintenanceID(m.Cluster, m.Object.Namespace, m.Object.Name), TaskQueue: temporal.TaskQueue})
	}
	w.onSignals()
	w.TestWorkflowEnvironment.ExecuteWorkflow(run, in)
}

// takenUID is that of the node of every maintenance.
const takenUID = "uid-of-the-node"

func (w *world) register() {
	taken := activities.CordonResult{CordonedByUs: true, NodeUID: takenUID}
	play(w, "PlanMaintenance", func(activities.PlanMaintenanceInput) any { return activities.PlanMaintenanceResult{} })
	play(w, "AwaitNodeFree", func(activities.AwaitNodeFreeInput) any { return nil })
	play(w, "Cordon", func(activities.CordonInput) any { return taken })
	play(w, "ReturnNode", func(activities.ReturnNodeInput) any { return activities.ReturnNodeResult{Uncordoned: true} })
	play(w, "Drain", func(activities.DrainInput) any {
		return maintenancev1.DrainStatus{PodsToEvict: 3, Evicted: 3, DrainProgress: 100}
	})
	play(w, "AwaitPodCompletion", func(activities.AwaitPodCompletionInput) any { return activities.AwaitPodCompletionResult{} })
	play(w, "AnnounceState", func(activities.AnnounceStateInput) any { return nil })
	play(w, "RunJob", func(activities.RunJobInput) any { return nil })
	play(w, "RemoveJob", func(activities.RunJobInput) any { return nil })
	play(w, "AwaitNodeHealthy", func(activities.AwaitNodeHealthyInput) any { return nil })
	play(w, "AwaitClusterHealthy", func(activities.AwaitClusterHealthyInput) any { return nil })
	play(w, "TakeNode", func(activities.TakeNodeInput) any {
		if w.locked {
			return activities.TakeNodeResult{Locks: activities.NodeLocks{Asked: true}}
		}
		return activities.TakeNodeResult{Cordon: &taken}
	})
	play(w, "AwaitNodeLocks", func(activities.NodeLockInput) any { return nil })
	play(w, "AwaitRequestsServed", func(activities.RequestsServedInput) any { return nil })
	play(w, "WithdrawNodeMaintenance", func(activities.NodeLockInput) any { return activities.NodeLocks{} })
	play(w, "AwaitNodeLocksActive", func(activities.NodeLockInput) any { return []drydockv1.Blocker{} })
	play(w, "RequestClusterMaintenance", func(activities.ClusterLockInput) any { return w.locked })
	play(w, "AwaitClusterLocks", func(activities.ClusterLockInput) any { return nil })
	play(w, "WithdrawClusterMaintenance", func(activities.ClusterLockInput) any { return nil })
	play(w, "CheckNodeMaintenance", func(json.RawMessage) any { return nil })
	play(w, "LocateCluster", func(string) any { return temporal.TaskQueue })
	play(w, "PlanRollout", func(any) any { return w.plan })
	play(w, "VanishedClusters", func(names []string) any {
		return slices.DeleteFunc(names, func(name string) bool { return !slices.Contains(w.vanished, name) })
	})
	w.RegisterActivityWithOptions(w.awaitVanished, activity.RegisterOptions{Name: "AwaitVanished"})
	w.RegisterActivityWithOptions(func(_ context.Context, job activities.ClusterJob) error {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.inputs["RunClusterJob"] = append(w.inputs["RunClusterJob"], job)
		if w.blocked["RunClusterJob"] {
			return activity.ErrResultPending
		}
		return w.jobs[string(job.Work.Kind)+" "+job.Cluster]
	}, activity.RegisterOptions{Name: "RunClusterJob"})
	play(w, "RemoveClusterJob", func(activities.ClusterJob) any { return nil })
	w.registerAs(temporal.ClusterPreparation, ClusterPreparation)
	play(w, "ChangeClusters", func(activities.ChangeClustersInput) any { return nil })
	play(w, "RecallHolds", func(struct{}) any { return w.recalled })
	play(w, "KeepHolds", func(emergency.State) any { return nil })
	play(w, "FindFollowers", func(struct{}) any { return w.followers })
	play(w, "AwaitBlockers", func(ranv1.ClusterGroupUpgrade) any { return nil })
	play(w, "CheckRollout", func(object ranv1.ClusterGroupUpgrade) any { return object })
	play(w, "LoadRollout", func(activities.LoadRolloutInput) any { return w.recalledRollout })
	play(w, "SaveRollout", func(activities.SaveRolloutInput) any { return nil })
	play(w, "InspectCluster", func(activities.InspectClusterInput) any { return w.nodes })
	w.RegisterActivityWithOptions(func(_ context.Context, s temporal.Subscription) error {
		if !w.untold {
			w.SignalWorkflow(temporal.SignalHeld, w.held.About(s.Cluster))
		}
		return nil
	}, activity.RegisterOptions{Name: "FollowHolds"})
	w.RegisterActivityWithOptions(func(_ context.Context, in activities.FollowWindowInput) error {
		if standing, told := w.windows[in.Window]; told {
			w.SignalWorkflow(temporal.SignalWindow, standing)
		}
		return nil
	}, activity.RegisterOptions{Name: "FollowWindow"})
	play(w, "SelectClusters", func(in activities.SelectClustersInput) any {
		selected := make([][]string, len(in.Selectors))
		for i := range selected {
			selected[i] = slices.DeleteFunc(slices.Clone(in.Clusters), func(name string) bool {
				return in.Selectors[i] != nil && !slices.Contains(w.selected, name)
			})
		}
		return selected
	})
	// Beside others, so that its place among the calls is not sure.
	w.RegisterActivityWithOptions(func(_ context.Context, in activities.WakeSweeperInput) error {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.inputs["WakeSweeper"] = append(w.inputs["WakeSweeper"], in)
		return nil
	}, activity.RegisterOptions{Name: "WakeSweeper"})
	beside(w, "AwaitHeldAgain", func(in activities.AwaitHeldAgainInput) (any, bool) {
		if len(w.heldAgain) == 0 {
			return nil, false
		}
		found := w.heldAgain[0]
		w.heldAgain = w.heldAgain[1:]
		return found, true
	})
	beside(w, "FollowLocks", func(activities.ClusterLockInput) (any, bool) { return nil, false })
	beside(w, "AwaitStale", func(activities.AwaitStaleInput) (any, bool) {
		if len(w.staleness) == 0 {
			return nil, false
		}
		found := w.staleness[0]
		w.staleness = w.staleness[1:]
		return found, true
	})
	simulateScheduler(w)
}

// vanishing is an activity that waits for some of the clusters to vanish.
type vanishing struct {
	token    []byte
	clusters []string
}

func (v vanishing) of(vanished []string) []string {
	return slices.DeleteFunc(slices.Clone(v.clusters), func(name string) bool { return !slices.Contains(vanished, name) })
}

func (w *world) awaitVanished(ctx context.Context, clusters []string) ([]string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.inputs["AwaitVanished"] = append(w.inputs["AwaitVanished"], clusters)
	if fail := w.fail["AwaitVanished"]; fail != nil {
		if err := fail(len(w.inputs["AwaitVanished"])); err != nil {
			return nil, err
		}
	}
	wait := vanishing{token: activity.GetInfo(ctx).TaskToken, clusters: clusters}
	if found := wait.of(w.vanished); len(found) > 0 {
		return found, nil
	}
	w.vanishing = append(w.vanishing, wait)
	return nil, activity.ErrResultPending
}

// lose deletes the ManagedCluster of a cluster, and the hub tells nobody.
func (w *world) lose(cluster string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.vanished = append(w.vanished, cluster)
}

// unregister deletes the ManagedCluster of a cluster, and tells those that wait for that.
func (w *world) unregister(cluster string) {
	w.mu.Lock()
	w.vanished = append(w.vanished, cluster)
	waiting := w.vanishing
	w.vanishing = nil
	w.mu.Unlock()
	for _, wait := range waiting {
		if found := wait.of([]string{cluster}); len(found) > 0 {
			_ = w.CompleteActivity(wait.token, found, nil) // one that was cancelled needs no news
		} else {
			w.mu.Lock()
			w.vanishing = append(w.vanishing, wait)
			w.mu.Unlock()
		}
	}
}

// beside registers an activity that waits beside others, so that its place among the calls is not sure; while there is no answer, it waits for as long as
// the test goes on.
func beside[In any](w *world, name string, answer func(In) (any, bool)) {
	w.RegisterActivityWithOptions(func(_ context.Context, in In) (any, error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.inputs[name] = append(w.inputs[name], in)
		result, answered := answer(in)
		if !answered {
			return nil, activity.ErrResultPending
		}
		return result, nil
	}, activity.RegisterOptions{Name: name})
}

// play registers an activity that records its calls.
func play[In any](w *world, name string, answer func(In) any) {
	w.RegisterActivityWithOptions(func(_ context.Context, in In) (any, error) {
		w.mu.Lock()
		w.calls = append(w.calls, name)
		w.inputs[name] = append(w.inputs[name], in)
		call, fail, blocked := len(w.inputs[name]), w.fail[name], w.blocked[name]
		w.mu.Unlock()
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

// called returns the recorded calls, in order.
func (w *world) called() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.calls)
}

// inputsOf returns the inputs of an activity so far; one that nobody waits for may be called still.
func (w *world) inputsOf(activity string) []any {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.inputs[activity])
}

// toldOf is what workflows have told others by that signal so far.
func (w *world) toldOf(signal string) []any {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.told[signal])
}

// once fails the first call with the error, and no other.
func once(err error) func(int) error {
	return func(call int) error {
		if call == 1 {
			return err
		}
		return nil
	}
}

func always(err error) func(int) error { return func(int) error { return err } }

// signalWhen sends the signal when the query's status first satisfies the condition, which is looked at every second of workflow time.
func signalWhen[S any](w *world, condition func(S) bool, signal string, payload any) {
	w.when(func() bool { return condition(statusOf[S](w)) }, func() { w.SignalWorkflow(signal, payload) })
}

// when runs then as soon as the condition holds; it is looked at every second of workflow time, after minutes less and less often.
func (w *world) when(condition func() bool, then func()) {
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

func statusOf[S any](w *world) S {
	w.t.Helper()
	value, err := w.QueryWorkflow(temporal.QueryStatus)
	require.NoError(w.t, err)
	var status S
	require.NoError(w.t, value.Get(&status))
	return status
}

// requireFailure requires that the workflow ended in an error of that type, and returns the status it carries.
func requireFailure[S any](w *world, errType string) S {
	w.t.Helper()
	require.True(w.t, w.IsWorkflowCompleted())
	err := w.GetWorkflowError()
	require.Error(w.t, err)
	require.Equal(w.t, errType, temporal.ErrorType(err), "%v", err)
	var status S
	require.True(w.t, detailsOf(err, &status), "the error carries the status")
	return status
}

// requireCancelled requires that the workflow ended cancelled, and returns the status it carries.
func requireCancelled[S any](w *world) S {
	w.t.Helper()
	require.True(w.t, w.IsWorkflowCompleted())
	err := w.GetWorkflowError()
	require.True(w.t, sdktemporal.IsCanceledError(err), "%v", err)
	var status S
	require.True(w.t, detailsOf(err, &status), "the error carries the status")
	return status
}

func requireResult[S any](w *world) S {
	w.t.Helper()
	require.True(w.t, w.IsWorkflowCompleted())
	require.NoError(w.t, w.GetWorkflowError())
	var status S
	require.NoError(w.t, w.GetWorkflowResult(&status))
	return status
}

// registerAs registers a workflow that plays a child.
func (w *world) registerAs(name string, child any) {
	w.RegisterWorkflowWithOptions(child, workflow.RegisterOptions{Name: name})
}
