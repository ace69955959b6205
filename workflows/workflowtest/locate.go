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

// hubActivities are the activities that any worker does; all others are of the cluster.
var hubActivities = []string{
	"CheckNodeMaintenance", "WakeSweeper", "SubscribeToHolds", "RequestSlots", "ReturnSlot", "FindClosedOwners", "FindSlotOwners", "AwaitDeletedClusters", "DeletedClusters",
	"PlanRollout", "CheckRollout", "AwaitBlockers", "SaveRollout",
}

// MovingCluster is a cluster that moves when the activity moves is about to begin: before, the workers of the task queue from have it, and then those
// of to. No worker has it while that is empty.
type MovingCluster struct {
	interceptor.WorkerInterceptorBase
	MovesBefore, From, To string
	// WrongWorkers are how many workers do not have it that are asked for it before one that has, and unanswered how many cannot ask the hub, before all others.
	WrongWorkers, FailedLookups int

	mu    sync.Mutex
	moved bool
	// Lookups is how often it was asked who has the cluster. refused are the activities that came to a worker that has it not, and done those that came to
	// one that has it since the move.
	Lookups                     int
	refusedCalls, executedCalls []string
}

func (c *MovingCluster) InterceptActivity(_ context.Context, next interceptor.ActivityInboundInterceptor) interceptor.ActivityInboundInterceptor {
	return &movingClusterInterceptor{ActivityInboundInterceptorBase: interceptor.ActivityInboundInterceptorBase{Next: next}, cluster: c}
}

type movingClusterInterceptor struct {
	interceptor.ActivityInboundInterceptorBase
	cluster *MovingCluster
}

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

// checkTaskQueue answers an activity of the cluster.
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

// locate answers who has the cluster; a worker that has it not, and no hub, in its own words.
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

// MoveTo has the cluster at the workers of a task queue from now on.
func (c *MovingCluster) MoveTo(taskQueue string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.To = taskQueue
}

// CallsSinceMove returns what was refused since the move, and what was done.
func (c *MovingCluster) CallsSinceMove() (refused, done []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.refusedCalls), slices.Clone(c.executedCalls)
}

// Executed reports whether the activity was done since the move.
func (c *MovingCluster) Executed(name string) func() bool {
	return func() bool {
		_, done := c.CallsSinceMove()
		return slices.Contains(done, name)
	}
}

// RefusedRounds reports that so many rounds of attempts have been refused.
func (c *MovingCluster) RefusedRounds(rounds int) func() bool {
	return func() bool {
		refused, _ := c.CallsSinceMove()
		return len(refused) > rounds*kit.RoundAttempts
	}
}

// WithMovingCluster has the cluster of a world move. What has not found it after a day will not.
func (w *World) WithMovingCluster(c *MovingCluster) *World {
	w.SimulateAfter(24*time.Hour, w.CancelWorkflow)
	w.SetWorkerOptions(worker.Options{DeadlockDetectionTimeout: time.Minute, Interceptors: []interceptor.WorkerInterceptor{&kit.SignalOrder{}, c}})
	return w
}
