package kit_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/activities/rollouts"
	sweeperactivities "drydock.dev/drydock/activities/sweeper"
	goharborv1 "drydock.dev/drydock/internal/apis/goharbor/v1beta1"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/clusterupgrade"
	"drydock.dev/drydock/workflows/kit"
	"drydock.dev/drydock/workflows/locks"
	"drydock.dev/drydock/workflows/nodemaintenance"
	"drydock.dev/drydock/workflows/rollout"
	"drydock.dev/drydock/workflows/sweeper"
	"drydock.dev/drydock/workflows/workflowtest"
)

func TestAClusterThatMovesToOtherWorkersIsLocatedAgain(t *testing.T) {
	within := temporal.ClusterTaskQueue("c1")
	for _, way := range []struct{ name, from, to string }{
		{"moves into the cluster", temporal.TaskQueue, within},
		{"moves out of the cluster", within, temporal.TaskQueue},
	} {
		for _, tt := range []struct {
			name, moves string
			run         func(t *testing.T, c *workflowtest.MovingCluster)
			InvalidSpec []string
			last        string
		}{
			{"a maintenance", "Drain", func(t *testing.T, c *workflowtest.MovingCluster) {
				w := workflowtest.NewWorld(t).WithMovingCluster(c)
				w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, workflowtest.FullMaintenance())
				workflowtest.RequireResult[workflowtest.NodeStatus](w)
			}, []string{"Drain"}, "ReturnNode"},
			{"a cluster of a rollout", "InspectCluster", func(t *testing.T, c *workflowtest.MovingCluster) {
				w, _ := workflowtest.NewClusterWorld(t, 1, 2, 2)
				var children []string
				w.SetOnChildWorkflowStartedListener(func(_ *workflow.Info, _ workflow.Context, args converter.EncodedValues) {
					var in nodemaintenance.Input
					require.NoError(t, args.Get(&in))
					children = append(children, in.TaskQueue)
				})
				in := workflowtest.OneCluster()
				in.TaskQueue = c.From
				w.WithMovingCluster(c).ExecuteWorkflow(clusterupgrade.ClusterUpgrade, in)
				require.Equal(t, ranv1.ClusterComplete, workflowtest.RequireResult[ranv1.ClusterStatus](w).State)
				require.Equal(t, []string{c.To, c.To, c.To}, children, "the children need not locate the cluster")
			}, []string{"InspectCluster"}, "WithdrawClusterMaintenance"},
			{"a preparation", "RunClusterJob", func(t *testing.T, c *workflowtest.MovingCluster) {
				w, _ := workflowtest.NewPreparedWorld(t, nil, []string{"c1"})
				w.Plan.TaskQueues = map[string]string{"c1": c.From}
				object := workflowtest.ARollout()
				object.Spec.PreCaching = true
				w.WithMovingCluster(c).ExecuteWorkflow(rollout.ClusterGroupUpgrade, rollout.Input{Object: object})
				require.Equal(t, map[string]ranv1.PreparationState{"c1": "Succeeded"}, workflowtest.RequireResult[workflowtest.GroupStatus](w).Precaching.Status)
			}, []string{"RunClusterJob"}, "RemoveClusterJob"},
			{"a scheduler", "WatchNodes", func(t *testing.T, c *workflowtest.MovingCluster) {
				w := workflowtest.NewSchedulerWorld(t)
				w.WithMovingCluster(c)
				w.RunSteps(func() { w.Request("june", workflowtest.SlotFor("a", 1)) }, func() {}, func() {
					require.True(t, c.Executed("WatchNodes")())
					w.ShowAllNodes()
				})
				w.Carried()
			}, []string{"WatchNodes"}, "WatchNodes"},
			{"a lock controller", "ObserveWorkloadLocks", func(t *testing.T, c *workflowtest.MovingCluster) {
				w := workflowtest.NewLockWorld(t)
				w.WithMovingCluster(c).When(c.Executed("ObserveWorkloadLocks"), func() {
					require.Equal(t, locks.Running, workflowtest.StatusOf[locks.Status](w.World).State)
					w.SignalWorkflow(temporal.SignalCancel, nil)
				})
				w.Run(workflowtest.LockInput())
				workflowtest.RequireCancelled[locks.Status](w.World)
			}, []string{"ObserveWorkloadLocks", "ApplyWorkloadLocks"}, "ObserveWorkloadLocks"},
			{"a Harbor", "AwaitHarborDue", func(t *testing.T, c *workflowtest.MovingCluster) {
				h := workflowtest.NewHarborWorld(t)
				h.WithMovingCluster(c)
				require.Equal(t, goharborv1.StatusHealthy, h.RunFor(time.Hour).Harbor.Status)
			}, []string{"AwaitHarborDue"}, "RemoveHarborFinalizer"},
			{"a sweeper", "AwaitOrphans", func(t *testing.T, c *workflowtest.MovingCluster) {
				w := workflowtest.NewSweeperWorld(t, sweeperactivities.Orphans{Orphans: workflowtest.OrphansOfAMaintenance()})
				w.WithMovingCluster(c)
				w.RunUntil(2, workflowtest.Whenever, func(status sweeper.Status) { require.Equal(t, 3, status.CleanedUp) })
			}, []string{"AwaitOrphans"}, "AwaitOrphans"},
		} {
			t.Run(tt.name+" "+way.name, func(t *testing.T) {
				c := &workflowtest.MovingCluster{MovesBefore: tt.moves, From: way.from, To: way.to}
				tt.run(t, c)
				refused, done := c.CallsSinceMove()
				require.Equal(t, tt.InvalidSpec, slices.Compact(refused), "the new task queue is remembered")
				require.NotEmpty(t, done)
				require.Equal(t, tt.last, done[len(done)-1])
			})
		}
	}
}

// The restarted workers do not serve the cluster. Later one does.
func TestWorkflowsShowThatNoWorkerServesTheClusterAndResumeAfterwards(t *testing.T) {
	const message = "found no worker that serves the cluster: cluster c1 is not known; add it"
	t.Run("a lock controller", func(t *testing.T) {
		w, c := workflowtest.NewLockWorld(t), &workflowtest.MovingCluster{MovesBefore: "ObserveWorkloadLocks", From: temporal.TaskQueue}
		w.WithMovingCluster(c).When(c.RefusedRounds(4), func() {
			wait := workflowtest.StatusOf[locks.Status](w.World).Wait
			require.Equal(t, temporal.ErrClusterUnknown, wait.Reason)
			require.Contains(t, wait.Message, message)
			c.MoveTo(temporal.TaskQueue)
		})
		w.When(c.Executed("ObserveWorkloadLocks"), func() { w.SignalWorkflow(temporal.SignalCancel, nil) })
		w.Run(workflowtest.LockInput())
		workflowtest.RequireCancelled[locks.Status](w.World)
	})
	t.Run("a maintenance returns its node", func(t *testing.T) {
		w, c := workflowtest.NewWorld(t), &workflowtest.MovingCluster{MovesBefore: "AwaitNodeHealthy", From: temporal.TaskQueue}
		w.WithMovingCluster(c).When(c.RefusedRounds(4), func() {
			wait := workflowtest.StatusOf[workflowtest.NodeStatus](w).Wait
			require.Equal(t, temporal.ErrClusterUnknown, wait.Reason)
			require.Contains(t, wait.Message, message)
			c.MoveTo(temporal.TaskQueue)
		})
		w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, workflowtest.FullMaintenance())
		workflowtest.RequireResult[workflowtest.NodeStatus](w)
		require.True(t, c.Executed("ReturnNode")())
	})
	t.Run("a cluster of a rollout, until its timeout", func(t *testing.T) {
		w, _ := workflowtest.NewClusterWorld(t, 0, 1, 1)
		c := &workflowtest.MovingCluster{MovesBefore: "AwaitClusterHealthy", From: temporal.TaskQueue}
		w.WithMovingCluster(c).When(c.RefusedRounds(4), func() {
			wait := workflowtest.StatusOf[ranv1.ClusterUpgradeStatus](w).Wait
			require.Equal(t, temporal.ErrClusterUnknown, wait.Reason)
			require.Contains(t, wait.Message, message)
		})
		w.ExecuteWorkflow(clusterupgrade.ClusterUpgrade, workflowtest.OneCluster())
		require.Contains(t, workflowtest.RequireFailure[ranv1.ClusterStatus](w, temporal.ErrHealthGateFailed).Message, "cluster c1 is not known; add it")
	})
}

func TestAClusterIsRefusedEarlyOnlyIfNoWorkerServesIt(t *testing.T) {
	require.LessOrEqual(t, rollouts.WorkerAttempts, kit.RoundAttempts, "or an unknown name would need a second round")

	w, c := workflowtest.NewWorld(t), &workflowtest.MovingCluster{From: temporal.TaskQueue, WrongWorkers: rollouts.WorkerAttempts - 1}
	w.WithMovingCluster(c).ExecuteWorkflow(nodemaintenance.NodeMaintenance, workflowtest.FullMaintenance())
	workflowtest.RequireResult[workflowtest.NodeStatus](w)

	w, c = workflowtest.NewWorld(t), &workflowtest.MovingCluster{From: temporal.TaskQueue, FailedLookups: kit.RoundAttempts - 1, WrongWorkers: rollouts.WorkerAttempts - 1}
	w.WithMovingCluster(c).ExecuteWorkflow(nodemaintenance.NodeMaintenance, workflowtest.FullMaintenance())
	workflowtest.RequireResult[workflowtest.NodeStatus](w)

	w, c = workflowtest.NewWorld(t), &workflowtest.MovingCluster{}
	w.WithMovingCluster(c).ExecuteWorkflow(nodemaintenance.NodeMaintenance, workflowtest.FullMaintenance())
	status := workflowtest.RequireFailure[workflowtest.NodeStatus](w, temporal.ErrNotFound)
	require.Contains(t, status.Failure.Message, "cluster c1 is not known: add it to the worker's clusters file")
	require.Equal(t, []string{"CheckNodeMaintenance"}, slices.Compact(w.Called()), "nothing is changed")
	require.Equal(t, rollouts.WorkerAttempts, c.Lookups, "in one round")
}
