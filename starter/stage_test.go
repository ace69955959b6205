package main

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/interceptor"
	sdktemporal "go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"drydock.dev/drydock/activities/drain"
	"drydock.dev/drydock/activities/health"
	"drydock.dev/drydock/activities/holds"
	"drydock.dev/drydock/activities/jobs"
	"drydock.dev/drydock/activities/lockcontroller"
	locksactivities "drydock.dev/drydock/activities/locks"
	"drydock.dev/drydock/activities/node"
	"drydock.dev/drydock/activities/notifications"
	"drydock.dev/drydock/activities/objects"
	"drydock.dev/drydock/activities/portals"
	"drydock.dev/drydock/activities/requests"
	"drydock.dev/drydock/activities/rollouts"
	"drydock.dev/drydock/activities/scheduler"
	sweeperactivities "drydock.dev/drydock/activities/sweeper"
	"drydock.dev/drydock/activities/windows"
	"drydock.dev/drydock/internal/allow"
	lcmv1 "drydock.dev/drydock/internal/apis/lcm/v1alpha1"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/devstack"
	"drydock.dev/drydock/internal/devstack/devstacktest"
	drains "drydock.dev/drydock/internal/drain"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/locks"
	"drydock.dev/drydock/internal/rollout"
	"drydock.dev/drydock/internal/scheduling"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/clusterupgrade"
	"drydock.dev/drydock/workflows/emergencystop"
	"drydock.dev/drydock/workflows/kit"
	locksworkflow "drydock.dev/drydock/workflows/locks"
	"drydock.dev/drydock/workflows/nodemaintenance"
	"drydock.dev/drydock/workflows/notification"
	"drydock.dev/drydock/workflows/portal"
	"drydock.dev/drydock/workflows/preflight"
	rolloutworkflow "drydock.dev/drydock/workflows/rollout"
	"drydock.dev/drydock/workflows/slots"
	"drydock.dev/drydock/workflows/sweeper"
	"drydock.dev/drydock/workflows/window"
)

// stage is a real Temporal server with a worker that runs the real workflows of rollouts and nodes. The tests simulate the clusters.
type stage struct {
	client client.Client
	// drained lets the drain of a node end.
	drained chan struct{}
	// orphans has the next result of a sweeper's search.
	orphans chan sweeperactivities.Orphans
	// accepts accepts requests, and worker does all else.
	worker, accepts worker.Worker
	// allowed is what requests may use.
	allowed allow.List
	// saved has the rollouts that the hub has saved, by name.
	saved sync.Map
}

// newStage starts the server, prepares it with `drydock setup` and starts the worker.
func newStage(t *testing.T) *stage {
	isolate(t)
	// Rollouts continue as new between their batches, and a watch follows the new run.
	stack := devstacktest.Start(t, devstack.Options{Temporal: &devstack.TemporalOptions{
		DynamicConfig: map[string]string{"limit.historyCount.suggestContinueAsNew": "40"},
	}})
	t.Setenv("TEMPORAL_ADDRESS", stack.Temporal.Address)
	options, err := temporal.Connection{}.Options(nil, nil)
	require.NoError(t, err)
	s := &stage{drained: make(chan struct{}), orphans: make(chan sweeperactivities.Orphans, 1), allowed: allowedOnStage(t)}
	s.client, err = temporal.Dial(t.Context(), options)
	require.NoError(t, err)
	t.Cleanup(s.client.Close)
	return s
}

func (s *stage) startWorker(t *testing.T) {
	s.worker = worker.New(s.client, temporal.TaskQueue, worker.Options{
		MaxHeartbeatThrottleInterval: 100 * time.Millisecond, Interceptors: []interceptor.WorkerInterceptor{&kit.SignalOrder{}},
	})
	s.worker.RegisterWorkflowWithOptions(rolloutworkflow.ClusterGroupUpgrade, workflow.RegisterOptions{Name: temporal.ClusterGroupUpgrade})
	s.worker.RegisterWorkflowWithOptions(preflight.Preflight, workflow.RegisterOptions{Name: temporal.Preflight})
	s.worker.RegisterWorkflowWithOptions(nodemaintenance.NodeMaintenance, workflow.RegisterOptions{Name: temporal.NodeMaintenance})
	s.worker.RegisterWorkflowWithOptions(locksworkflow.WorkloadLockController, workflow.RegisterOptions{Name: temporal.WorkloadLockController})
	s.worker.RegisterWorkflowWithOptions(slots.MaintenanceScheduler, workflow.RegisterOptions{Name: temporal.MaintenanceScheduler})
	s.worker.RegisterWorkflowWithOptions(sweeper.Sweeper, workflow.RegisterOptions{Name: temporal.Sweeper})
	s.worker.RegisterWorkflowWithOptions(emergencystop.EmergencyStop, workflow.RegisterOptions{Name: temporal.EmergencyStop})
	s.worker.RegisterWorkflowWithOptions(window.MaintenanceWindow, workflow.RegisterOptions{Name: temporal.MaintenanceWindow})
	s.worker.RegisterWorkflowWithOptions(portal.StatusPortal, workflow.RegisterOptions{Name: temporal.StatusPortal})
	s.worker.RegisterActivity(&holds.Activities{Temporal: s.client, Hub: noHub{}})
	s.worker.RegisterWorkflowWithOptions(window.WindowNotification, workflow.RegisterOptions{Name: temporal.WindowNotification})
	s.worker.RegisterWorkflowWithOptions(notification.Notification, workflow.RegisterOptions{Name: temporal.Notification})
	s.worker.RegisterActivity(&notifications.Activities{Allowed: s.allowed})
	s.worker.RegisterActivity(&windows.Activities{Temporal: s.client, Workflows: s.client, Allowed: s.allowed})
	s.worker.RegisterActivity(&portals.Activities{Temporal: s.client})
	s.worker.RegisterWorkflowWithOptions(simulatedCluster, workflow.RegisterOptions{Name: temporal.ClusterUpgrade})
	hub := &rollouts.Activities{Clusters: kube.New(kube.Source{}.Allowing(s.allowed), kube.Options{})}
	for name, play := range map[string]any{
		"PlanRollout": func(_ context.Context, in rollouts.PlanInput) (rollouts.Plan, error) {
			inventory := rollout.Inventory{Clusters: []rollout.Cluster{{Name: "spoke-1"}, {Name: "spoke-2"}, {Name: "spoke-3"}}}
			return rollouts.Plan{Plan: rollout.NewPlan(&in.Object, inventory, time.Now())}, nil
		},
		"CheckNodeMaintenance": hub.CheckNodeMaintenance,
		"LocateCluster":        func(context.Context, string) (string, error) { return temporal.TaskQueue, nil },
		"ForeseeDrains":        foreseeDrains,
		"PlanMaintenance": func(context.Context, node.PlanMaintenanceInput) (node.PlanMaintenanceResult, error) {
			return node.PlanMaintenanceResult{}, nil
		},
		"RequestSlots":     (&scheduler.Activities{Temporal: s.client}).RequestSlots,
		"FindClosedOwners": (&scheduler.Activities{Temporal: s.client}).FindClosedOwners,
		"SendResponses":    (&scheduler.Activities{Temporal: s.client}).SendResponses,
		"RequestResync":    (&scheduler.Activities{Temporal: s.client}).RequestResync,
		// Clusters of rollouts are simulated, and have no slots.
		"FindSlotOwners": func(context.Context, string) ([]string, error) { return nil, nil },
		"AnnounceState":  func(context.Context, node.AnnounceStateInput) error { return nil },
		"WatchNodes":     s.watchNodes,
		"AwaitStale": func(ctx context.Context, _ node.AwaitStaleInput) (scheduling.Staleness, error) {
			return scheduling.Staleness{}, untilCancelled(ctx, nil)
		},
		"AcquireNode": acquireNode,
		"WithdrawNodeMaintenance": func(context.Context, locksactivities.NodeLockInput) (locksactivities.NodeLocks, error) {
			return locksactivities.NodeLocks{}, nil
		},
		"ApplyWorkloadLocks": func(context.Context, lockcontroller.Input) (locks.Report, error) { return reportedLocks, nil },
		"ObserveWorkloadLocks": func(ctx context.Context, _ lockcontroller.Input) (lockcontroller.Due, error) {
			return lockcontroller.Due{}, untilCancelled(ctx, nil)
		},
		"LookUpClusters": func(context.Context, []string) (rollouts.SeenClusters, error) { return rollouts.SeenClusters{}, nil },
		"AwaitDeletedClusters": func(ctx context.Context, _ []string) (rollouts.SeenClusters, error) {
			return rollouts.SeenClusters{}, untilCancelled(ctx, nil)
		},
		"AwaitOtherPlan":   func(ctx context.Context, _ rollouts.AwaitOtherPlanInput) error { return untilCancelled(ctx, nil) },
		"SaveRollout":      s.saveRollout,
		"LoadRollout":      s.loadRollout,
		"CheckRollout":     hub.CheckRollout,
		"WakeSweeper":      (&sweeperactivities.Activities{Temporal: s.client}).WakeSweeper,
		"AwaitOrphans":     s.awaitOrphans,
		"Drain":            s.drain,
		"RunJob":           func(ctx context.Context, _ jobs.RunJobInput) error { return untilCancelled(ctx, nil) },
		"RemoveJob":        func(context.Context, jobs.RunJobInput) error { return nil },
		"AwaitNodeHealthy": func(context.Context, health.AwaitNodeHealthyInput) error { return nil },
		"ReturnNode": func(context.Context, node.ReturnNodeInput) (node.ReturnNodeResult, error) {
			return node.ReturnNodeResult{Uncordoned: true}, nil
		},
	} {
		s.worker.RegisterActivityWithOptions(play, activity.RegisterOptions{Name: name})
	}
	for name, play := range lockActivities(5) {
		s.worker.RegisterActivityWithOptions(play, activity.RegisterOptions{Name: name})
	}
	s.accepts = worker.New(s.client, temporal.RequestTaskQueue, worker.Options{DisableWorkflowWorker: true})
	s.accepts.RegisterActivityWithOptions(s.acceptMaintenance, activity.RegisterOptions{Name: "AcceptMaintenance"})
	require.NoError(t, s.accepts.Start())
	require.NoError(t, s.worker.Start())
	workerRuns.Store(true)
}

func (s *stage) stopWorker() {
	workerRuns.Store(false)
	s.worker.Stop()
	s.accepts.Stop()
}

func (s *stage) acceptMaintenance(ctx context.Context, in requests.AcceptMaintenanceInput) (requests.Accepted, error) {
	checks := &rollouts.Activities{Clusters: kube.New(kube.Source{}.Allowing(s.allowed), kube.Options{})}
	if err := checks.CheckNodeMaintenance(ctx, in.Written); err != nil {
		return requests.Accepted{}, err
	}
	if err := (&sweeperactivities.Activities{Temporal: s.client}).WakeSweeper(ctx, in.Wake); err != nil {
		return requests.Accepted{}, err
	}
	held, err := (&holds.Activities{Temporal: s.client}).SubscribeToHolds(ctx, in.Subscription)
	return requests.Accepted{TaskQueue: temporal.TaskQueue, Holds: held, Request: &objects.Request{}}, err
}

func (s *stage) saveRollout(_ context.Context, in rollouts.SaveRolloutInput) error {
	s.saved.Store(in.Object.Name, in.Object)
	return nil
}

func (s *stage) loadRollout(_ context.Context, in rollouts.LoadRolloutInput) (rollouts.LoadedRollout, error) {
	saved, _ := s.saved.Load(in.Name)
	object, known := saved.(ranv1.ClusterGroupUpgrade)
	if !known {
		return rollouts.LoadedRollout{}, temporal.Error(temporal.ErrNotFound, "rollout "+in.Name+" is not saved on the hub", nil)
	}
	var err error
	if object.Status, err = rollout.Retry(object.Status, object.Spec.RemediationStrategy.Canaries, in.Request); err != nil {
		err = temporal.Error(temporal.ErrInvalidSpec, err.Error(), nil)
	}
	return rollouts.LoadedRollout{Object: object}, err
}

// noHub is the hub of an installation without one.
type noHub struct{}

func (noHub) Hub(context.Context) (*kube.Cluster, error) {
	return nil, temporal.Error(temporal.ErrNotFound, "there is no hub", nil)
}

// reportedLocks are the locks of an application that has released one of its nodes.
var reportedLocks = locks.Report{
	Cluster: locks.LockDecision{Kind: locks.ClusterLockKind, To: lcmv1.LockActive, Reason: locks.NoRequest},
	Nodes:   []locks.LockDecision{{Node: "worker-1", To: lcmv1.LockInactive, Reason: locks.PodReady}},
	Total:   2, Active: 1, Inactive: 1,
}

// watchNodes reports the nodes of the tests, all available, and a budget of half of them.
func (s *stage) watchNodes(ctx context.Context, _ string) error {
	config := &maintenancev1.MaintenanceOperatorConfigSpec{MaxParallelOperations: new(intstr.FromString("50%"))}
	update := scheduling.NodeUpdate{Watch: activity.GetInfo(ctx).StartedTime, First: true, Last: true, Config: config}
	for i := range 10 {
		update.Nodes = append(update.Nodes, scheduling.ObservedNode{Node: scheduling.Node{Name: fmt.Sprintf("worker-%d", i)}})
	}
	if err := s.client.SignalWorkflow(ctx, activity.GetInfo(ctx).WorkflowExecution.ID, "", temporal.SignalNodeUpdate, update); err != nil {
		return err
	}
	return untilCancelled(ctx, nil)
}

// drain lasts until the test ends it, or until it is cancelled.
func (s *stage) drain(ctx context.Context, _ drain.Input) (maintenancev1.DrainStatus, error) {
	err := untilCancelled(ctx, s.drained)
	return maintenancev1.DrainStatus{EvictionPods: 2, Evicted: 2, DrainProgress: 100}, err
}

// untilCancelled waits until the activity is cancelled or done is closed.
func untilCancelled(ctx context.Context, done <-chan struct{}) error {
	beat := time.NewTicker(50 * time.Millisecond)
	defer beat.Stop()
	for {
		select {
		case <-done:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-beat.C:
			activity.RecordHeartbeat(ctx)
		}
	}
}

// signalSimulation makes a simulated cluster report a step, or end in a state.
const signalSimulation = "play"

// simulatedCluster simulates the work on a cluster. It reports and ends as the test requests, and can be cancelled like the real one.
func simulatedCluster(ctx workflow.Context, in clusterupgrade.Input) (ranv1.ClusterStatus, error) {
	started := metav1.NewTime(workflow.Now(ctx))
	status := ranv1.ClusterStatus{Name: in.Cluster, State: ranv1.ClusterRunning, Batch: in.Batch, Nodes: ranv1.NodeCounts{Total: 2}}
	parent := workflow.GetInfo(ctx).ParentWorkflowExecution.ID
	for !status.State.Over() {
		status.StartedAt = &started
		if err := workflow.SignalExternalWorkflow(ctx, parent, "", temporal.SignalClusterProgress, status).Get(ctx, nil); err != nil {
			break
		}
		received := workflow.NewSelector(ctx)
		received.AddReceive(workflow.GetSignalChannel(ctx, signalSimulation), func(c workflow.ReceiveChannel, _ bool) {
			status = ranv1.ClusterStatus{}
			c.Receive(ctx, &status)
		})
		received.AddReceive(ctx.Done(), func(workflow.ReceiveChannel, bool) { status.State = ranv1.ClusterCancelled })
		received.Select(ctx)
	}
	switch status.State {
	case ranv1.ClusterComplete:
		return status, nil
	case ranv1.ClusterFailed:
		return status, sdktemporal.NewApplicationErrorWithOptions(status.Message, status.Reason, sdktemporal.ApplicationErrorOptions{NonRetryable: true, Details: []any{status}})
	}
	return status, sdktemporal.NewCanceledError(status)
}

// simulate makes the simulated work on a cluster of a rollout report a step or end.
func (s *stage) simulate(t *testing.T, rollout, cluster string, status ranv1.ClusterStatus) {
	t.Helper()
	status.Name = cluster
	id := temporal.ClusterUpgradeID("prod", rollout, cluster)
	require.Eventually(t, func() bool {
		return s.client.SignalWorkflow(t.Context(), id, "", signalSimulation, status) == nil
	}, patience, tick, "the work on %s has not started", cluster)
}

// foreseeDrains knows worker-1 to worker-8, and a budget that blocks worker-3.
func foreseeDrains(_ context.Context, in node.ForeseeDrainsInput) ([]drains.Forecast, error) {
	switch in.Node {
	case "":
		return []drains.Forecast{{Cluster: in.Cluster, Node: "worker-1", Evict: 2, Skip: 1}}, nil
	case "worker-9":
		return nil, temporal.Error(temporal.ErrNodeGone, "node worker-9 of cluster spoke-1 does not exist", nil)
	case "worker-3":
		return []drains.Forecast{{Cluster: in.Cluster, Node: in.Node, Block: 1, Warning: "the drain of node worker-3 would wait: 1 pod blocked"}}, nil
	}
	return nil, nil
}
