package workflows

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/interceptor"
	sdktemporal "go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/activities"
	goharborv1 "drydock.dev/drydock/internal/apis/goharbor/v1beta1"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/temporal"
)

// ofTheHub are the activities that any worker does; all others are of the cluster.
var ofTheHub = []string{
	"CheckNodeMaintenance", "WakeSweeper", "FollowHolds", "RequestSlots", "ReturnSlot", "FindClosedOwners", "FindSlotOwners", "AwaitVanished", "VanishedClusters",
	"PlanRollout", "CheckRollout", "AwaitBlockers", "SaveRollout",
}

// movingCluster is a cluster that moves when the activity moves is about to begin: before, the workers of the task queue from have it, and then those
// of to. Nobody has it while that is empty.
type movingCluster struct {
	interceptor.WorkerInterceptorBase
	moves, from, to string
	// strangers are how many workers do not have it that are asked for it before one that has, and unanswered how many cannot ask the hub, before all others.
	strangers, unanswered int

	mu    sync.Mutex
	moved bool
	// located is how often it was asked who has the cluster. refused are the activities that came to a worker that has it not, and done those that came to
	// one that has it since the move.
	located       int
	refused, done []string
}

func (c *movingCluster) InterceptActivity(_ context.Context, next interceptor.ActivityInboundInterceptor) interceptor.ActivityInboundInterceptor {
	return &activitiesOfMoving{ActivityInboundInterceptorBase: interceptor.ActivityInboundInterceptorBase{Next: next}, cluster: c}
}

type activitiesOfMoving struct {
	interceptor.ActivityInboundInterceptorBase
	cluster *movingCluster
}

func (a *activitiesOfMoving) ExecuteActivity(ctx context.Context, in *interceptor.ExecuteActivityInput) (any, error) {
	switch info := activity.GetInfo(ctx); {
	case info.ActivityType.Name == "LocateCluster":
		return a.cluster.locate(ctx)
	case !slices.Contains(ofTheHub, info.ActivityType.Name):
		if err := a.cluster.serve(info.ActivityType.Name, info.TaskQueue); err != nil {
			return nil, err
		}
	}
	return a.Next.ExecuteActivity(ctx, in)
}

// serve answers an activity of the cluster.
func (c *movingCluster) serve(name, taskQueue string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.moved = c.moved || name == c.moves
	switch {
	case taskQueue == c.home():
		if c.moved {
			c.done = append(c.done, name)
		}
		return nil
	case taskQueue == temporal.TaskQueue:
		c.refused = append(c.refused, name)
		return temporal.Error(temporal.ErrClusterUnknown, "cluster c1 is not known; add it", nil)
	}
	c.refused = append(c.refused, name)
	return sdktemporal.NewTimeoutError(enumspb.TIMEOUT_TYPE_SCHEDULE_TO_START, nil)
}

// locate answers who has the cluster; a worker that has it not, and no hub, in its own words.
func (c *movingCluster) locate(ctx context.Context) (string, error) {
	c.mu.Lock()
	home := c.home()
	c.located++
	unanswered := c.located <= c.unanswered
	stranger := home == "" || c.located <= c.unanswered+c.strangers
	c.mu.Unlock()
	if unanswered {
		return "", errors.New("the hub does not answer")
	}
	if stranger {
		return (&activities.Rollouts{Clusters: kube.New(kube.FromConfigs(nil, nil), kube.Options{})}).LocateCluster(ctx, "c1")
	}
	return home, nil
}

func (c *movingCluster) home() string {
	if c.moved {
		return c.to
	}
	return c.from
}

// settle has the cluster at the workers of a task queue from now on.
func (c *movingCluster) settle(taskQueue string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.to = taskQueue
}

// since returns what was refused since the move, and what was done.
func (c *movingCluster) since() (refused, done []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.refused), slices.Clone(c.done)
}

// does reports whether the activity was done since the move.
func (c *movingCluster) does(name string) func() bool {
	return func() bool {
		_, done := c.since()
		return slices.Contains(done, name)
	}
}

// asked reports that so many rounds of attempts have been refused.
func (c *movingCluster) asked(rounds int) func() bool {
	return func() bool {
		refused, _ := c.since()
		return len(refused) > rounds*roundAttempts
	}
}

// moving has the cluster of a world move. What has not found it after a day will not.
func (w *world) moving(c *movingCluster) *world {
	w.simulateAfter(24*time.Hour, w.CancelWorkflow)
	w.SetWorkerOptions(worker.Options{DeadlockDetectionTimeout: time.Minute, Interceptors: []interceptor.WorkerInterceptor{&SignalOrder{}, c}})
	return w
}

func TestAClusterThatMovesToOtherWorkersIsFoundThere(t *testing.T) {
	within := temporal.ClusterTaskQueue("c1")
	for _, way := range []struct{ name, from, to string }{
		{"into the cluster", temporal.TaskQueue, within},
		{"out of the cluster", within, temporal.TaskQueue},
	} {
		for _, tt := range []struct {
			name, moves string
			run         func(t *testing.T, c *movingCluster)
			refused     []string
			last        string
		}{
			{"a maintenance", "Drain", func(t *testing.T, c *movingCluster) {
				w := newWorld(t).moving(c)
				w.ExecuteWorkflow(NodeMaintenance, wholeMaintenance())
				requireResult[nodeStatus](w)
			}, []string{"Drain"}, "ReturnNode"},
			{"a cluster of a rollout", "InspectCluster", func(t *testing.T, c *movingCluster) {
				w, _ := newClusterWorld(t, 1, 2, 2)
				var children []string
				w.SetOnChildWorkflowStartedListener(func(_ *workflow.Info, _ workflow.Context, args converter.EncodedValues) {
					var in NodeMaintenanceInput
					require.NoError(t, args.Get(&in))
					children = append(children, in.TaskQueue)
				})
				in := oneCluster()
				in.TaskQueue = c.from
				w.moving(c).ExecuteWorkflow(ClusterUpgrade, in)
				require.Equal(t, ranv1.ClusterComplete, requireResult[ranv1.ClusterStatus](w).State)
				require.Equal(t, []string{c.to, c.to, c.to}, children, "they need not find out for themselves")
			}, []string{"InspectCluster"}, "WithdrawClusterMaintenance"},
			{"a preparation", "RunClusterJob", func(t *testing.T, c *movingCluster) {
				w, _ := newPreparedWorld(t, nil, []string{"c1"})
				w.plan.TaskQueues = map[string]string{"c1": c.from}
				object := aRollout()
				object.Spec.PreCaching = true
				w.moving(c).ExecuteWorkflow(ClusterGroupUpgrade, ClusterGroupUpgradeInput{Object: object})
				require.Equal(t, map[string]ranv1.PreparationState{"c1": "Succeeded"}, requireResult[groupStatus](w).Precaching.Status)
			}, []string{"RunClusterJob"}, "RemoveClusterJob"},
			{"a scheduler", "WatchNodes", func(t *testing.T, c *movingCluster) {
				w := newSchedulerWorld(t)
				w.moving(c)
				w.after(func() { w.request("june", slotFor("a", 1)) }, func() {}, func() {
					require.True(t, c.does("WatchNodes")())
					w.seeAll()
				})
				w.carried()
			}, []string{"WatchNodes"}, "WatchNodes"},
			{"a lock controller", "ObserveWorkloadLocks", func(t *testing.T, c *movingCluster) {
				w := newLockWorld(t)
				w.moving(c).when(c.does("ObserveWorkloadLocks"), func() {
					require.Equal(t, LockControllerRunning, statusOf[WorkloadLockControllerStatus](w.world).State)
					w.SignalWorkflow(temporal.SignalCancel, nil)
				})
				w.run(lockInput())
				requireCancelled[WorkloadLockControllerStatus](w.world)
			}, []string{"ObserveWorkloadLocks", "ApplyWorkloadLocks"}, "ObserveWorkloadLocks"},
			{"a Harbor", "AwaitHarborDue", func(t *testing.T, c *movingCluster) {
				h := newHarborWorld(t)
				h.moving(c)
				require.Equal(t, goharborv1.StatusHealthy, h.keep(time.Hour).Harbor.Status)
			}, []string{"AwaitHarborDue"}, "ReleaseHarborCluster"},
			{"a sweeper", "AwaitOrphans", func(t *testing.T, c *movingCluster) {
				w := newSweptWorld(t, activities.Orphans{Orphans: leftByAMaintenance()})
				w.moving(c)
				w.runUntil(2, whenever, func(status SweeperStatus) { require.Equal(t, 3, status.TakenBack) })
			}, []string{"AwaitOrphans"}, "AwaitOrphans"},
		} {
			t.Run(tt.name+" "+way.name, func(t *testing.T) {
				c := &movingCluster{moves: tt.moves, from: way.from, to: way.to}
				tt.run(t, c)
				refused, done := c.since()
				require.Equal(t, tt.refused, slices.Compact(refused), "where it is now is remembered")
				require.NotEmpty(t, done)
				require.Equal(t, tt.last, done[len(done)-1])
			})
		}
	}
}

// One after the other is restarted without the cluster, and then one with it.
func TestWhileNoWorkerHasTheClusterAnyMoreWhatIsAtWorkSaysSoAndGoesOnAfterwards(t *testing.T) {
	const said = "found no worker that has the cluster: cluster c1 is not known; add it"
	t.Run("a lock controller", func(t *testing.T) {
		w, c := newLockWorld(t), &movingCluster{moves: "ObserveWorkloadLocks", from: temporal.TaskQueue}
		w.moving(c).when(c.asked(4), func() {
			wait := statusOf[WorkloadLockControllerStatus](w.world).Wait
			require.Equal(t, temporal.ErrClusterUnknown, wait.Reason)
			require.Contains(t, wait.Message, said)
			c.settle(temporal.TaskQueue)
		})
		w.when(c.does("ObserveWorkloadLocks"), func() { w.SignalWorkflow(temporal.SignalCancel, nil) })
		w.run(lockInput())
		requireCancelled[WorkloadLockControllerStatus](w.world)
	})
	t.Run("a maintenance returns its node", func(t *testing.T) {
		w, c := newWorld(t), &movingCluster{moves: "AwaitNodeHealthy", from: temporal.TaskQueue}
		w.moving(c).when(c.asked(4), func() {
			wait := statusOf[nodeStatus](w).Wait
			require.Equal(t, temporal.ErrClusterUnknown, wait.Reason)
			require.Contains(t, wait.Message, said)
			c.settle(temporal.TaskQueue)
		})
		w.ExecuteWorkflow(NodeMaintenance, wholeMaintenance())
		requireResult[nodeStatus](w)
		require.True(t, c.does("ReturnNode")())
	})
	t.Run("a cluster of a rollout, until its time is over", func(t *testing.T) {
		w, _ := newClusterWorld(t, 0, 1, 1)
		c := &movingCluster{moves: "AwaitClusterHealthy", from: temporal.TaskQueue}
		w.moving(c).when(c.asked(4), func() {
			wait := statusOf[ranv1.ClusterUpgradeStatus](w).Wait
			require.Equal(t, temporal.ErrClusterUnknown, wait.Reason)
			require.Contains(t, wait.Message, said)
		})
		w.ExecuteWorkflow(ClusterUpgrade, oneCluster())
		require.Contains(t, requireFailure[ranv1.ClusterStatus](w, temporal.ErrHealthGateFailed).Message, "cluster c1 is not known; add it")
	})
}

func TestAClusterIsRefusedEarlyOnlyWhenNoWorkerThatIsAskedHasIt(t *testing.T) {
	require.LessOrEqual(t, activities.WorkersAsked, roundAttempts, "or a name that nobody knows would be asked for in a second round")

	w, c := newWorld(t), &movingCluster{from: temporal.TaskQueue, strangers: activities.WorkersAsked - 1}
	w.moving(c).ExecuteWorkflow(NodeMaintenance, wholeMaintenance())
	requireResult[nodeStatus](w)

	w, c = newWorld(t), &movingCluster{from: temporal.TaskQueue, unanswered: roundAttempts - 1, strangers: activities.WorkersAsked - 1}
	w.moving(c).ExecuteWorkflow(NodeMaintenance, wholeMaintenance())
	requireResult[nodeStatus](w)

	w, c = newWorld(t), &movingCluster{}
	w.moving(c).ExecuteWorkflow(NodeMaintenance, wholeMaintenance())
	status := requireFailure[nodeStatus](w, temporal.ErrNotFound)
	require.Contains(t, status.Failure.Message, "cluster c1 is not known: add it to the worker's clusters file")
	require.Equal(t, []string{"CheckNodeMaintenance"}, w.called(), "nothing is touched")
	require.Equal(t, activities.WorkersAsked, c.located, "in one round")
}
