package workflowtest

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/interceptor"
	sdktemporal "go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"

	"drydock.dev/drydock/activities/rollouts"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/kit"
)

// hubActivities run on any worker; all others need a worker with access to the cluster.
var hubActivities = []string{
	"AcceptMaintenance", "CheckNodeMaintenance", "WakeSweeper", "LookUpOwners", "SubscribeToHolds", "RequestSlots", "ReturnSlot", "FindClosedOwners", "FindSlotOwners", "RequestResync", "SendResponses", "AwaitDeletedClusters", "LookUpClusters", "AwaitClustersBack", "AwaitAvailabilityChange",
	"PlanRollout", "CheckRollout", "AwaitBlockers", "SaveRollout",
}

// MovingCluster moves from the workers of task queue From to those of task queue To when activity MovesBefore is about to start.
// If To is empty, no worker has the cluster after the move.
type MovingCluster struct {
	interceptor.WorkerInterceptorBase
	MovesBefore, From, To string
	// The first FailedLookups lookups fail, because the hub does not answer. The next WrongWorkers lookups reach a worker without the cluster.
	WrongWorkers, FailedLookups int

	mu    sync.Mutex
	moved bool
	// Lookups counts the calls of LocateCluster. refusedCalls are activities that reached a worker without the cluster, executedCalls those
	// that reached one with the cluster since the move.
	Lookups                     int
	refusedCalls, executedCalls []string
}

// InterceptActivity implements interceptor.WorkerInterceptor.
func (c *MovingCluster) InterceptActivity(_ context.Context, next interceptor.ActivityInboundInterceptor) interceptor.ActivityInboundInterceptor {
	return &movingClusterInterceptor{ActivityInboundInterceptorBase: interceptor.ActivityInboundInterceptorBase{Next: next}, cluster: c}
}

type movingClusterInterceptor struct {
	interceptor.ActivityInboundInterceptorBase
	cluster *MovingCluster
}

// ExecuteActivity implements interceptor.ActivityInboundInterceptor.
func (a *movingClusterInterceptor) ExecuteActivity(ctx context.Context, in *interceptor.ExecuteActivityInput) (any, error) {
	switch info := activity.GetInfo(ctx); {
	case info.ActivityType.Name == "LocateCluster":
		return a.cluster.locate(ctx)
	case !slices.Contains(hubActivities, info.ActivityType.Name):
		if err := a.cluster.checkTaskQueue(info.ActivityType.Name, info.TaskQueue); err != nil {
			return nil, err
		}
	}
	return a.Next.ExecuteActivity(ctx, in)
}

// checkTaskQueue refuses an activity whose task queue has no worker with the cluster.
func (c *MovingCluster) checkTaskQueue(name, taskQueue string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.moved = c.moved || name == c.MovesBefore
	switch {
	case taskQueue == c.taskQueue():
		if c.moved {
			c.executedCalls = append(c.executedCalls, name)
		}
		return nil
	case taskQueue == temporal.TaskQueue:
		c.refusedCalls = append(c.refusedCalls, name)
		return temporal.Error(temporal.ErrClusterUnknown, "cluster c1 is not known; add it", nil)
	}
	c.refusedCalls = append(c.refusedCalls, name)
	return sdktemporal.NewTimeoutError(enumspb.TIMEOUT_TYPE_SCHEDULE_TO_START, nil)
}

// locate returns the task queue whose workers have the cluster. A worker without it returns the real error.
func (c *MovingCluster) locate(ctx context.Context) (string, error) {
	c.mu.Lock()
	home := c.taskQueue()
	c.Lookups++
	unanswered := c.Lookups <= c.FailedLookups
	stranger := home == "" || c.Lookups <= c.FailedLookups+c.WrongWorkers
	c.mu.Unlock()
	if unanswered {
		return "", errors.New("the hub does not answer")
	}
	if stranger {
		return (&rollouts.Activities{Clusters: kube.New(kube.FromConfigs(nil, nil), kube.Options{})}).LocateCluster(ctx, "c1")
	}
	return home, nil
}

func (c *MovingCluster) taskQueue() string {
	if c.moved {
		return c.To
	}
	return c.From
}

// MoveTo moves the cluster to the workers of a task queue.
func (c *MovingCluster) MoveTo(taskQueue string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.To = taskQueue
}

// CallsSinceMove returns the refused activities, and those that were executed since the move.
func (c *MovingCluster) CallsSinceMove() (refused, done []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.refusedCalls), slices.Clone(c.executedCalls)
}

// Executed returns whether the activity was executed since the move.
func (c *MovingCluster) Executed(name string) func() bool {
	return func() bool {
		_, done := c.CallsSinceMove()
		return slices.Contains(done, name)
	}
}

// RefusedRounds returns whether more than that many rounds of attempts were refused.
func (c *MovingCluster) RefusedRounds(rounds int) func() bool {
	return func() bool {
		refused, _ := c.CallsSinceMove()
		return len(refused) > rounds*kit.RoundAttempts
	}
}

// WithMovingCluster adds the cluster to the world. After a day the workflow is cancelled.
func (w *World) WithMovingCluster(c *MovingCluster) *World {
	w.SimulateAfter(24*time.Hour, w.CancelWorkflow)
	w.locate = c.locate
	w.SetWorkerOptions(worker.Options{DeadlockDetectionTimeout: time.Minute, Interceptors: []interceptor.WorkerInterceptor{&kit.SignalOrder{}, &kit.FirstRun{}, c}})
	return w
}
