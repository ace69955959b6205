package workflowtest

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"

	"go.temporal.io/sdk/activity"
	"k8s.io/apimachinery/pkg/types"

	"drydock.dev/drydock/activities/drain"
	"drydock.dev/drydock/activities/events"
	"drydock.dev/drydock/activities/health"
	"drydock.dev/drydock/activities/jobs"
	"drydock.dev/drydock/activities/locks"
	"drydock.dev/drydock/activities/node"
	"drydock.dev/drydock/activities/objects"
	"drydock.dev/drydock/activities/rollouts"
	"drydock.dev/drydock/activities/sweeper"
	viewsactivities "drydock.dev/drydock/activities/views"
	windowsactivities "drydock.dev/drydock/activities/windows"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/emergency"
	"drydock.dev/drydock/internal/precache"
	"drydock.dev/drydock/internal/temporal"
	rolloutworkflow "drydock.dev/drydock/workflows/rollout"
)

func (w *World) register() {
	cordoned := node.CordonResult{CordonedByUs: true, NodeUID: NodeUID}
	Simulate(w, "PlanMaintenance", func(node.PlanMaintenanceInput) any { return node.PlanMaintenanceResult{} })
	Simulate(w, "ReadRequest", func(temporal.Object) any { return objects.Request{} })
	Simulate(w, "PublishStatus", func(objects.PublishStatusInput) any { return objects.PublishStatusResult{} })
	Simulate(w, "AwaitNodeFree", func(node.AwaitNodeFreeInput) any { return nil })
	Simulate(w, "Cordon", func(node.CordonInput) any { return cordoned })
	Simulate(w, "ReturnNode", func(node.ReturnNodeInput) any { return node.ReturnNodeResult{Uncordoned: true} })
	Simulate(w, "Drain", func(drain.Input) any {
		return maintenancev1.DrainStatus{EvictionPods: 3, Evicted: 3, DrainProgress: 100}
	})
	Simulate(w, "AwaitPodCompletion", func(drain.AwaitPodCompletionInput) any { return drain.AwaitPodCompletionResult{} })
	Simulate(w, "AnnounceState", func(node.AnnounceStateInput) any { return nil })
	Simulate(w, "RunJob", func(jobs.RunJobInput) any { return nil })
	Simulate(w, "RemoveJob", func(jobs.RunJobInput) any { return nil })
	Simulate(w, "AwaitNodeHealthy", func(in health.AwaitNodeHealthyInput) any {
		if in.Return == nil {
			return health.AwaitNodeHealthyResult{}
		}
		returned, err := w.call("ReturnNode", *in.Return)
		if err != nil {
			return health.AwaitNodeHealthyResult{}
		}
		return health.AwaitNodeHealthyResult{Returned: new(returned.(node.ReturnNodeResult))}
	})
	Simulate(w, "AwaitClusterHealthy", func(health.AwaitClusterHealthyInput) any { return nil })
	Simulate(w, "AcquireNode", func(node.AcquireNodeInput) any {
		if w.Locked {
			return node.AcquireNodeResult{Locks: locks.NodeLocks{Asked: true}}
		}
		return node.AcquireNodeResult{Cordon: &cordoned}
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
	Simulate(w, "PlanRollout", func(rollouts.PlanInput) any { return w.Plan })
	w.RegisterActivityWithOptions(func(ctx context.Context, in rollouts.AwaitOtherPlanInput) error {
		w.Mu.Lock()
		defer w.Mu.Unlock()
		w.Inputs["AwaitOtherPlan"] = append(w.Inputs["AwaitOtherPlan"], in)
		w.planWait = activity.GetInfo(ctx).TaskToken
		return activity.ErrResultPending
	}, activity.RegisterOptions{Name: "AwaitOtherPlan"})
	Simulate(w, "LookUpRelease", func(last precache.LookedUp) any {
		last.Image, last.Problem = "release:"+last.Version, ""
		return last
	})
	Simulate(w, "LookUpClusters", func(names []string) any {
		return rollouts.SeenClusters{Deleted: among(names, w.DeletedClusters), Offline: among(names, w.OfflineClusters)}
	})
	w.RegisterActivityWithOptions(w.awaitAvailabilityChange, activity.RegisterOptions{Name: "AwaitAvailabilityChange"})
	w.RegisterActivityWithOptions(w.awaitClustersBack, activity.RegisterOptions{Name: "AwaitClustersBack"})
	w.RegisterActivityWithOptions(w.awaitDeletedClusters, activity.RegisterOptions{Name: "AwaitDeletedClusters"})
	w.RegisterActivityWithOptions(func(_ context.Context, job jobs.ClusterJob) error {
		w.Mu.Lock()
		defer w.Mu.Unlock()
		w.Inputs["RunClusterJob"] = append(w.Inputs["RunClusterJob"], job)
		if w.Blocked["RunClusterJob"] || w.Blocked["RunClusterJob "+job.Cluster] || slices.Contains(w.OfflineClusters, job.Cluster) {
			return activity.ErrResultPending
		}
		return w.Jobs[string(job.Work.Kind)+" "+job.Cluster]
	}, activity.RegisterOptions{Name: "RunClusterJob"})
	Simulate(w, "RemoveClusterJob", func(jobs.ClusterJob) any { return nil })
	Simulate(w, "RemoveViews", func(viewsactivities.RemoveViewsInput) any { return nil })
	w.RegisterAs(temporal.ClusterPreparation, rolloutworkflow.ClusterPreparation)
	Simulate(w, "ChangeClusters", func(rollouts.ChangeClustersInput) any { return nil })
	Simulate(w, "LoadHolds", func(struct{}) any { return w.LoadedHolds })
	Simulate(w, "SaveHolds", func(emergency.State) any { return nil })
	Simulate(w, "FindSubscribers", func(struct{}) any { return w.Subscribers })
	Simulate(w, "AwaitBlockers", func(ranv1.ClusterGroupUpgrade) any { return w.Unblocked })
	Simulate(w, "CheckRollout", func(object ranv1.ClusterGroupUpgrade) any { return object })
	Simulate(w, "LoadRollout", func(rollouts.LoadRolloutInput) any { return w.LoadedRollout })
	Simulate(w, "SaveRollout", func(rollouts.SaveRolloutInput) any { return nil })
	Simulate(w, "InspectCluster", func(node.InspectClusterInput) any { return w.Nodes })
	w.RegisterActivityWithOptions(func(_ context.Context, s temporal.Subscription) (emergency.State, error) {
		if w.HoldsUnknown {
			return emergency.State{}, nil
		}
		return w.Holds.ForCluster(s.Cluster), nil
	}, activity.RegisterOptions{Name: "SubscribeToHolds"})
	w.RegisterActivityWithOptions(func(_ context.Context, in windowsactivities.SubscribeToWindowInput) error {
		if state, known := w.Windows[in.Window]; known {
			w.SignalWorkflow(temporal.SignalWindow, state)
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
	// It runs concurrently with other activities: its place in the order of calls varies.
	registerEffect(w, "WakeSweeper", func(in sweeper.WakeSweeperInput) error {
		w.Mu.Lock()
		defer w.Mu.Unlock()
		w.Inputs["WakeSweeper"] = append(w.Inputs["WakeSweeper"], in)
		return nil
	})
	w.RegisterActivityWithOptions(w.acceptMaintenance, activity.RegisterOptions{Name: "AcceptMaintenance"})
	SimulateConcurrent(w, "AwaitHeldAgain", func(in locks.AwaitHeldAgainInput) (any, bool) {
		if len(w.ReactivatedLocks) == 0 {
			return nil, false
		}
		found := w.ReactivatedLocks[0]
		w.ReactivatedLocks = w.ReactivatedLocks[1:]
		return found, true
	})
	SimulateConcurrent(w, "FollowLocks", func(locks.ClusterLockInput) (any, bool) { return nil, false })
	SimulateConcurrent(w, "AwaitStale", func(in node.AwaitStaleInput) (any, bool) {
		if in.Announce != nil {
			w.calls = append(w.calls, "AnnounceState")
			w.Inputs["AnnounceState"] = append(w.Inputs["AnnounceState"], *in.Announce)
		}
		if len(w.Staleness) == 0 {
			return nil, false
		}
		found := w.Staleness[0]
		w.Staleness = w.Staleness[1:]
		return found, true
	})
	simulateScheduler(w)
}

// SimulateConcurrent registers an activity that runs concurrently with others, so that it is not in the order of calls. It
// waits while there is no answer.
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

// Simulate registers an activity whose calls are recorded.
func Simulate[In any](w *World, name string, answer func(In) any) {
	register(w, name, func(in In) (any, error) {
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
	})
}

// register registers a simulated activity, which another may call.
func register[In any](w *World, name string, simulated func(In) (any, error)) {
	keep(w, name, simulated)
	w.RegisterActivityWithOptions(func(_ context.Context, in In) (any, error) { return simulated(in) }, activity.RegisterOptions{Name: name})
}

// registerEffect registers a simulated activity without a result.
func registerEffect[In any](w *World, name string, simulated func(In) error) {
	keep(w, name, func(in In) (any, error) { return nil, simulated(in) })
	w.RegisterActivityWithOptions(func(_ context.Context, in In) error { return simulated(in) }, activity.RegisterOptions{Name: name})
}

func keep[In any](w *World, name string, simulated func(In) (any, error)) {
	w.Mu.Lock()
	defer w.Mu.Unlock()
	w.simulated[name] = func(in any) (any, error) { return simulated(in.(In)) }
}

// Called returns the names of the activities that were called, in order.
func (w *World) Called() []string {
	w.Mu.Lock()
	defer w.Mu.Unlock()
	return slices.Clone(w.calls)
}

// InputsOf returns the inputs of the calls of an activity so far.
func (w *World) InputsOf(activity string) []any {
	w.Mu.Lock()
	defer w.Mu.Unlock()
	return slices.Clone(w.Inputs[activity])
}

// Published returns the writes of statuses, object by object, the last one of the workflow last. The test environment does not wait for a write that the
// workflow cancels, so that write may be recorded after the last one, with Events that the last one repeats.
func (w *World) Published() []objects.PublishStatusInput {
	var uids []types.UID
	var all []objects.PublishStatusInput
	for _, in := range w.InputsOf("PublishStatus") {
		all = append(all, in.(objects.PublishStatusInput))
		if uid := all[len(all)-1].Object.UID; !slices.Contains(uids, uid) {
			uids = append(uids, uid)
		}
	}
	slices.SortStableFunc(all, func(a, b objects.PublishStatusInput) int {
		return cmp.Or(cmp.Compare(slices.Index(uids, a.Object.UID), slices.Index(uids, b.Object.UID)), boolean(a.Final)-boolean(b.Final))
	})
	return all
}

func boolean(b bool) int {
	if b {
		return 1
	}
	return 0
}

// PublishedEvents returns the Events of the writes of statuses, each once, in the order of their numbers.
func (w *World) PublishedEvents() []events.ObjectEvent {
	var all []events.ObjectEvent
	for _, write := range w.Published() {
		all = append(all, write.Events...)
	}
	byNumber := func(a, b events.ObjectEvent) int { return cmp.Compare(a.Number, b.Number) }
	slices.SortStableFunc(all, byNumber)
	return slices.CompactFunc(all, func(a, b events.ObjectEvent) bool { return a.Number == b.Number })
}

// Once fails only the first call.
func Once(err error) func(int) error {
	return func(call int) error {
		if call == 1 {
			return err
		}
		return nil
	}
}

// Always fails every call.
func Always(err error) func(int) error { return func(int) error { return err } }

// NodeUID is the UID of every maintained node.
const NodeUID = "uid-of-the-node"
