package rollout_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"

	jobsactivities "drydock.dev/drydock/activities/jobs"
	viewsactivities "drydock.dev/drydock/activities/views"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/emergency"
	"drydock.dev/drydock/internal/precache"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/kit"
	"drydock.dev/drydock/workflows/rollout"
	"drydock.dev/drydock/workflows/workflowtest"
)

// A Job whose attempts failed does not start while the cluster is held or the rollout is paused.
func TestNoJobStartsOnAHeldOrPausedCluster(t *testing.T) {
	for name, outage := range map[string]struct {
		calls int
		err   error
	}{
		"between rounds": {kit.RoundAttempts, temporal.Error(temporal.ErrClusterUnreachable, "no answer", nil)},
		"during a round": {1, temporal.Error(temporal.ErrHeld, "cluster c1 is held", nil)},
	} {
		for by, test := range workflowtest.Stops {
			t.Run(by+" "+name, func(t *testing.T) {
				w, _ := workflowtest.NewPreparedWorld(t, nil, []string{"c1"})
				var deadlines []time.Time
				w.OnActivity("RunClusterJob", mock.Anything, mock.Anything).Return(func(_ context.Context, job jobsactivities.ClusterJob) error {
					deadlines = append(deadlines, job.Deadline)
					if len(deadlines) == outage.calls {
						test.Stop(w)
					}
					if len(deadlines) <= outage.calls {
						return outage.err
					}
					return nil
				})
				start := w.Now()
				w.RegisterDelayedCallback(func() {
					require.Len(t, deadlines, outage.calls)
					status := workflowtest.StatusOf[workflowtest.GroupStatus](w)
					require.Equal(t, map[string]ranv1.PreparationState{"c1": "PreparingToStart"}, status.Precaching.Status)
					require.Equal(t, test.Reason, status.Wait.Reason)
				}, 99*time.Hour)
				w.RegisterDelayedCallback(func() { test.Resume(w) }, 100*time.Hour)
				object := workflowtest.ARollout()
				object.Spec.PreCaching = true
				w.ExecuteWorkflow(rollout.ClusterGroupUpgrade, rollout.Input{Object: object})
				require.Equal(t, map[string]ranv1.PreparationState{"c1": "Succeeded"}, workflowtest.RequireResult[workflowtest.GroupStatus](w).Precaching.Status)
				require.Len(t, deadlines, outage.calls+1)
				require.True(t, deadlines[outage.calls].After(start.Add(100*time.Hour+time.Hour)), "it has its full time")
			})
		}
	}
}

func TestARunningJobContinuesDuringAHold(t *testing.T) {
	w := workflowtest.NewWorld(t)
	calls := 0
	w.OnActivity("RunClusterJob", mock.Anything, mock.Anything).Return(func(context.Context, jobsactivities.ClusterJob) error {
		calls++
		if calls == 1 {
			w.SignalWorkflow(temporal.SignalObserved, temporal.Observation{Cluster: "c1", Wait: &drydockv1.Wait{Reason: jobsactivities.ReasonJobRunning}})
			workflowtest.Stops["held"].Stop(w)
		}
		if calls <= kit.RoundAttempts {
			return temporal.Error(temporal.ErrClusterUnreachable, "no answer", nil)
		}
		return nil
	})
	w.ExecuteWorkflow(rollout.ClusterPreparation, rollout.PreparationInput{
		Work: precache.Work{Kind: precache.Backup, Timeout: time.Hour}, Clusters: []rollout.ClusterToPrepare{{Name: "c1", TaskQueue: temporal.TaskQueue}},
	})
	require.Equal(t, ranv1.PreparationSucceeded, workflowtest.RequireResult[map[string]precache.Progress](w)["c1"].State)
}

// A running Job is deleted while its cluster is held or its rollout is paused. It is created again afterwards.
func TestADeletedJobIsNotRecreatedDuringAHoldOrPause(t *testing.T) {
	for name, test := range map[string]struct {
		calls int
		err   error
	}{
		"an attempt finds no Job":     {1, temporal.Error(temporal.ErrHeld, "cluster c1 is held", nil)},
		"the cluster does not answer": {kit.RoundAttempts, temporal.Error(temporal.ErrClusterUnreachable, "no answer", nil)},
		"its workers stop":            {kit.RoundAttempts, temporal.Error(temporal.ErrWorkerShutdown, "the worker stops", nil)},
	} {
		for by, stop := range workflowtest.Stops {
			t.Run(by+", "+name, func(t *testing.T) {
				w := workflowtest.NewWorld(t)
				var jobs []jobsactivities.ClusterJob
				released := false
				w.OnActivity("RunClusterJob", mock.Anything, mock.Anything).Return(func(_ context.Context, job jobsactivities.ClusterJob) error {
					jobs = append(jobs, job)
					if len(jobs) == 1 {
						w.SignalWorkflow(temporal.SignalObserved, temporal.Observation{Cluster: "c1", Wait: &drydockv1.Wait{Reason: jobsactivities.ReasonJobRunning}})
						stop.Stop(w)
					}
					switch {
					case len(jobs) <= test.calls:
						return test.err
					case !released:
						require.NotEmpty(t, job.Held, "the attempt must not create the Job")
						return temporal.Error(temporal.ErrHeld, job.Held, nil)
					}
					return nil
				})
				w.RegisterDelayedCallback(func() {
					require.LessOrEqual(t, len(jobs), test.calls+1)
					progress := workflowtest.StatusOf[map[string]precache.Progress](w)["c1"]
					require.Equal(t, ranv1.PreparationPreparingToStart, progress.State)
					require.Equal(t, stop.Reason, progress.Reason)
					released = true
					stop.Resume(w)
				}, 10*time.Hour)
				start := w.Now()
				w.ExecuteWorkflow(rollout.ClusterPreparation, rollout.PreparationInput{
					Work: precache.Work{Kind: precache.Backup, Timeout: time.Hour}, Clusters: []rollout.ClusterToPrepare{{Name: "c1", TaskQueue: temporal.TaskQueue}},
				})
				require.Equal(t, ranv1.PreparationSucceeded, workflowtest.RequireResult[map[string]precache.Progress](w)["c1"].State)
				last := jobs[len(jobs)-1]
				require.Empty(t, last.Held)
				require.True(t, last.Deadline.After(start.Add(11*time.Hour)), "it has its full time")
			})
		}
	}
}

// The agent of the cluster may have been asked to create the Job. Held clusters start none, so that is taken back.
func TestAJobThatWaitsForAnAgentIsNotCreatedDuringAHoldOrPause(t *testing.T) {
	for by, stop := range workflowtest.Stops {
		t.Run(by, func(t *testing.T) {
			w := workflowtest.NewWorld(t)
			w.Blocked["RunClusterJob"] = true
			w.RegisterDelayedCallback(func() {
				w.SignalWorkflow(temporal.SignalObserved, temporal.Observation{Cluster: "c1", Wait: &drydockv1.Wait{Reason: jobsactivities.ReasonAgentPending, Message: "waiting for the agent"}})
			}, time.Minute)
			w.RegisterDelayedCallback(func() {
				progress := workflowtest.StatusOf[map[string]precache.Progress](w)["c1"]
				require.Equal(t, precache.Progress{State: ranv1.PreparationPreparingToStart, Reason: jobsactivities.ReasonAgentPending, Message: "waiting for the agent"}, progress)
				stop.Stop(w)
			}, 2*time.Minute)
			w.RegisterDelayedCallback(func() {
				require.Len(t, w.InputsOf("RunClusterJob"), 1)
				require.Equal(t, []any{viewsactivities.RemoveViewsInput{Owner: "cgu/ops/june/run", Clusters: []string{"c1"}}}, w.InputsOf("RemoveViews"))
				progress := workflowtest.StatusOf[map[string]precache.Progress](w)["c1"]
				require.Equal(t, ranv1.PreparationPreparingToStart, progress.State)
				require.Equal(t, stop.Reason, progress.Reason)
				w.Blocked["RunClusterJob"] = false
				stop.Resume(w)
			}, 10*time.Hour)
			start := w.Now()
			w.ExecuteWorkflow(rollout.ClusterPreparation, rollout.PreparationInput{
				Owner: "cgu/ops/june/run", Interval: 10 * time.Second,
				Work: precache.Work{Kind: precache.Backup, Timeout: time.Hour}, Clusters: []rollout.ClusterToPrepare{{Name: "c1", TaskQueue: temporal.TaskQueue}},
			})
			require.Equal(t, ranv1.PreparationSucceeded, workflowtest.RequireResult[map[string]precache.Progress](w)["c1"].State)
			jobs := w.InputsOf("RunClusterJob")
			require.Len(t, jobs, 2)
			require.True(t, jobs[1].(jobsactivities.ClusterJob).Deadline.After(start.Add(11*time.Hour)), "it has its full time")
			require.Equal(t, 10*time.Second, jobs[1].(jobsactivities.ClusterJob).Interval)
		})
	}
}

// An action that its agent has not begun would take effect later.
func TestViewsAndActionsAreRemovedEvenIfAJobIsNot(t *testing.T) {
	w := workflowtest.NewWorld(t)
	w.Fail["RemoveClusterJob"] = workflowtest.Always(errors.New("the hub does not answer"))
	w.ExecuteWorkflow(rollout.ClusterPreparation, rollout.PreparationInput{
		Owner: "cgu/ops/june/run", Work: precache.Work{Kind: precache.Backup, Timeout: time.Hour}, Clusters: []rollout.ClusterToPrepare{{Name: "c1", TaskQueue: temporal.TaskQueue}},
	})
	require.Equal(t, ranv1.PreparationSucceeded, workflowtest.RequireResult[map[string]precache.Progress](w)["c1"].State)
	require.Equal(t, []any{viewsactivities.RemoveViewsInput{Owner: "cgu/ops/june/run", Clusters: []string{"c1"}}}, w.InputsOf("RemoveViews"))
}

func TestTheSweeperOfTheHubIsAwakeBeforeAnAgentIsAsked(t *testing.T) {
	w := workflowtest.NewWorld(t)
	w.OnActivity("WakeSweeper", mock.Anything, mock.Anything).After(time.Minute).Return(nil)
	var started time.Time
	w.OnActivity("RunClusterJob", mock.Anything, mock.Anything).Return(func(context.Context, jobsactivities.ClusterJob) error {
		started = w.Now()
		return nil
	})
	begin := w.Now()
	w.ExecuteWorkflow(rollout.ClusterPreparation, rollout.PreparationInput{
		Work: precache.Work{Kind: precache.Backup, Timeout: time.Hour}, Clusters: []rollout.ClusterToPrepare{{Name: "c1", TaskQueue: temporal.TaskQueue}},
	})
	workflowtest.RequireResult[map[string]precache.Progress](w)
	require.False(t, started.Before(begin.Add(time.Minute)))
}

// The first cluster of each part does not answer, and is then held. Its part waits, and another part may start.
func TestHeldClustersDoNotBlockThePreparationOfOthers(t *testing.T) {
	var many []string
	var held []drydockv1.HoldScope
	for i := range rollout.MaxPreparations*rollout.ClustersPerPreparation + 1 {
		many = append(many, fmt.Sprintf("c%04d", i))
		if i%rollout.ClustersPerPreparation == 0 && i < rollout.MaxPreparations*rollout.ClustersPerPreparation {
			held = append(held, drydockv1.HoldScope("cluster/"+many[i]))
		}
	}
	w, _ := workflowtest.NewPreparedWorld(t, nil, slices.Collect(slices.Chunk(many, rollout.ClustersPerPreparation))...)
	released, tried, trying := false, map[string]bool{}, sync.Mutex{}
	w.OnActivity("RunClusterJob", mock.Anything, mock.Anything).Return(func(_ context.Context, job jobsactivities.ClusterJob) error {
		if released || !slices.Contains(held, drydockv1.HoldScope("cluster/"+job.Cluster)) {
			return nil
		}
		trying.Lock()
		defer trying.Unlock()
		if tried[job.Cluster] = true; len(tried) == len(held) {
			w.SignalWorkflow(temporal.SignalHeld, workflowtest.HeldState(2, held...))
		}
		return temporal.Error(temporal.ErrClusterUnreachable, "no answer", nil)
	})
	w.RegisterDelayedCallback(func() {
		status := workflowtest.StatusOf[workflowtest.GroupStatus](w)
		require.Equal(t, ranv1.PreparationSucceeded, status.Precaching.Status[many[len(many)-1]], "it was in none of the first parts")
		require.Equal(t, ranv1.PreparationPreparingToStart, status.Precaching.Status[many[0]])
		require.Equal(t, emergency.ReasonHeld, status.Wait.Reason)
		released = true
		w.SignalWorkflow(temporal.SignalHeld, workflowtest.HeldState(3))
	}, 99*time.Hour)
	object := workflowtest.ARollout()
	object.Spec.PreCaching = true
	w.ExecuteWorkflow(rollout.ClusterGroupUpgrade, rollout.Input{Object: object})
	status := workflowtest.RequireResult[workflowtest.GroupStatus](w)
	require.EqualValues(t, len(many), status.Counts.Complete)
}
