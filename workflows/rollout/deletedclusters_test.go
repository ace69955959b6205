package rollout_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/workflow"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/rollout"
	"drydock.dev/drydock/internal/temporal"
	rolloutworkflow "drydock.dev/drydock/workflows/rollout"
	"drydock.dev/drydock/workflows/workflowtest"
)

// deletedAt deletes the ManagedCluster of a cluster at that time. It returns the status of the cluster a second later.
func deletedAt(w *workflowtest.World, then time.Duration, cluster string) (seen func() ranv1.ClusterStatus) {
	var at ranv1.ClusterStatus
	w.RegisterDelayedCallback(func() { w.DeleteCluster(cluster) }, then)
	w.RegisterDelayedCallback(func() { at = workflowtest.StatusOfCluster(workflowtest.StatusOf[workflowtest.GroupStatus](w), cluster) }, then+time.Second)
	return func() ranv1.ClusterStatus { return at }
}

func TestADeletedRunningClusterFailsAndIsCancelled(t *testing.T) {
	w, clusters := workflowtest.NewGroupWorld(t, []string{"c1", "c2"}, []string{"c3"})
	clusters.Outcomes["c1"] = func(ctx workflow.Context) error {
		_ = workflow.Sleep(ctx, time.Hour)
		clean, _ := workflow.NewDisconnectedContext(ctx)
		_ = workflow.Sleep(clean, 4*time.Minute) // its nodes are returned
		return ctx.Err()
	}
	clusters.Outcomes["c2"] = workflowtest.Takes(2 * time.Minute)
	seen := deletedAt(w, time.Minute, "c1")
	w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, rolloutworkflow.Input{Object: workflowtest.ARollout()})

	status := workflowtest.RequireFailure[workflowtest.GroupStatus](w, ranv1.ReasonFailed)
	require.Equal(t, ranv1.ClusterFailed, seen().State)
	require.Equal(t, ranv1.ReasonClusterDeleted, seen().Reason)
	c1 := workflowtest.StatusOfCluster(status, "c1")
	require.Equal(t, ranv1.ClusterFailed, c1.State)
	require.Equal(t, ranv1.ReasonClusterDeleted, c1.Reason)
	require.Equal(t, "its ManagedCluster is no longer on the hub", c1.Message)
	require.Equal(t, 5*time.Minute, c1.CompletedAt.Sub(c1.StartedAt.Time).Round(time.Minute))
	require.Equal(t, ranv1.ClusterCounts{Total: 3, Complete: 2, Failed: 1}, status.Counts)
	require.ElementsMatch(t, []string{"+c1", "+c2"}, clusters.Events[:2])
	require.Equal(t, []string{"-c2", "-c1", "+c3", "-c3"}, clusters.Events[2:], "its place is free when its nodes are returned")
}

func TestADeletedSoakingOrPendingClusterFails(t *testing.T) {
	w, clusters := workflowtest.NewGroupWorld(t, []string{"c1"}, []string{"c2"}, []string{"c3"}, []string{"c4"})
	object := aRollingRollout()
	object.Spec.RemediationStrategy.SoakSeconds = 600
	waiting, seen := deletedAt(w, 4*time.Minute, "c3"), deletedAt(w, 5*time.Minute, "c1")
	w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, rolloutworkflow.Input{Object: object})

	status := workflowtest.RequireFailure[workflowtest.GroupStatus](w, ranv1.ReasonFailed)
	require.Equal(t, ranv1.ReasonClusterDeleted, seen().Reason)
	require.Equal(t, ranv1.ClusterFailed, waiting().State, "pending clusters are watched, too")
	require.Equal(t, ranv1.ClusterCounts{Total: 4, Complete: 2, Failed: 2}, status.Counts)
	require.NotContains(t, clusters.Events, "+c3")
}

func TestAFailingWatchIsNotedOnceAndRetried(t *testing.T) {
	w, clusters := workflowtest.NewGroupWorld(t, []string{"c1"})
	w.Fail["AwaitDeletedClusters"] = func(call int) error {
		if call <= 2 {
			return temporal.Error(temporal.ErrInvalidSpec, "no such selector", nil)
		}
		return nil
	}
	clusters.Outcomes["c1"] = workflowtest.Takes(29 * time.Minute)
	w.RegisterDelayedCallback(func() { w.DeleteCluster("c1") }, 25*time.Minute)
	w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, rolloutworkflow.Input{Object: workflowtest.ARollout()})

	status := workflowtest.RequireFailure[workflowtest.GroupStatus](w, ranv1.ReasonFailed)
	c1 := workflowtest.StatusOfCluster(status, "c1")
	require.Equal(t, ranv1.ReasonClusterDeleted, c1.Reason)
	require.Equal(t, 25*time.Minute, c1.CompletedAt.Sub(c1.StartedAt.Time).Round(time.Minute), "it fails before its work ends")
	require.Equal(t, []string{"could not watch for deleted clusters: no such selector"}, status.Notes)
}

func TestADeletedCanaryEndsTheRollout(t *testing.T) {
	w, clusters := workflowtest.NewGroupWorld(t, []string{"c1"}, []string{"c2"})
	clusters.Outcomes["c1"] = workflowtest.UntilCancelled
	deletedAt(w, time.Minute, "c1")
	w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, rolloutworkflow.Input{Object: workflowtest.ARollout("c1")})
	status := workflowtest.RequireFailure[workflowtest.GroupStatus](w, ranv1.ReasonFailed)
	require.Equal(t, ranv1.ClusterFailed, workflowtest.ClusterStates(status)["c1"], "it fails before its batch times out")
	require.NotContains(t, clusters.Events, "+c2")
}

func TestARollingRolloutWatchesPendingClustersToo(t *testing.T) {
	w, _ := workflowtest.NewGroupWorld(t)
	var many []string
	for i := range 120 {
		many = append(many, fmt.Sprintf("c%03d", i))
	}
	w.Plan = workflowtest.PlanOf(slices.Collect(slices.Chunk(many, 2))...)
	w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, rolloutworkflow.Input{Object: aRollingRollout()})
	workflowtest.RequireResult[workflowtest.GroupStatus](w)
	require.Len(t, w.InputsOf("AwaitDeletedClusters"), 3, "fewer watches than clusters")
}

// A final error of one worker fails no cluster.
func TestAFailingDeletionCheckFailsNoCluster(t *testing.T) {
	for name, test := range map[string]struct {
		refusals int
		ends     string
		states   map[string]ranv1.ClusterState
		events   int
	}{
		"the check recovers":    {7, ranv1.ReasonCompleted, map[string]ranv1.ClusterState{"c1": "complete", "c2": "complete", "c3": "complete"}, 6},
		"the check never works": {1000, ranv1.ReasonTimedOut, map[string]ranv1.ClusterState{"c1": "timedout", "c2": "timedout", "c3": "timedout"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			w, clusters := workflowtest.NewGroupWorld(t, []string{"c1"}, []string{"c2", "c3"})
			w.Fail["LookUpClusters"] = func(call int) error {
				if call <= test.refusals {
					return temporal.Error(temporal.ErrNotFound, "there is no hub", nil)
				}
				return nil
			}
			w.RegisterDelayedCallback(func() {
				status := workflowtest.StatusOf[workflowtest.GroupStatus](w)
				require.Equal(t, "NotFound: look up the clusters of batch 1: there is no hub", status.Wait.Reason+": "+status.Wait.Message)
				require.Equal(t, ranv1.ClusterCounts{Total: 3, Pending: 3}, status.Counts)
			}, time.Minute)
			w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, rolloutworkflow.Input{Object: workflowtest.ARollout()})
			var status workflowtest.GroupStatus
			if test.ends == ranv1.ReasonCompleted {
				status = workflowtest.RequireResult[workflowtest.GroupStatus](w)
			} else {
				status = workflowtest.RequireFailure[workflowtest.GroupStatus](w, test.ends)
			}
			require.Equal(t, test.states, workflowtest.ClusterStates(status))
			require.Len(t, clusters.Events, test.events)
			require.Less(t, len(w.InputsOf("LookUpClusters")), 100, "the pauses grow")
		})
	}
}

// After c1, c3 could start, but the hub does not answer whether its ManagedCluster exists.
func TestAnUnavailableHubOnlyStopsTheStartOfClusters(t *testing.T) {
	w, clusters := workflowtest.NewGroupWorld(t, []string{"c1", "c2"}, []string{"c3"})
	clusters.Outcomes["c1"], clusters.Outcomes["c2"] = workflowtest.Takes(10*time.Minute), workflowtest.UntilCancelled
	w.Fail["LookUpClusters"] = func(call int) error {
		if call > 1 {
			return temporal.Error(temporal.ErrClusterUnreachable, "the hub does not answer", nil)
		}
		return nil
	}
	object := aRollingRollout()
	shorter := object.DeepCopy().Spec
	shorter.RemediationStrategy.Timeout = 30
	w.RegisterDelayedCallback(func() {
		status := workflowtest.StatusOf[workflowtest.GroupStatus](w)
		require.Equal(t, "ClusterUnreachable: look up the clusters of batch 1: the hub does not answer", status.Wait.Reason+": "+status.Wait.Message)
		w.SendUpdate(temporal.UpdateEdit, rollout.EditRequest{Actor: "bob", Spec: shorter})
	}, 20*time.Minute)
	w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, rolloutworkflow.Input{Object: object})
	status := workflowtest.RequireFailure[workflowtest.GroupStatus](w, ranv1.ReasonTimedOut)
	require.Equal(t, map[string]ranv1.ClusterState{"c1": "complete", "c2": "timedout", "c3": "timedout"}, workflowtest.ClusterStates(status))
	require.Equal(t, 31*time.Minute, workflowtest.StatusOfCluster(status, "c2").CompletedAt.Sub(status.Status.StartedAt.Time).Round(time.Minute))
	require.NotContains(t, clusters.Events, "+c3")
}

func TestARunThatEndsDuringAHubOutageLeavesNoTimer(t *testing.T) {
	w, _ := workflowtest.NewGroupWorld(t, []string{"c1"})
	recovered := false
	w.Fail["LookUpClusters"] = func(int) error {
		if recovered {
			return nil
		}
		return temporal.Error(temporal.ErrClusterUnreachable, "the hub does not answer", nil)
	}
	timers := map[string]bool{}
	w.SetOnTimerScheduledListener(func(id string, _ time.Duration) { timers[id] = true })
	w.SetOnTimerFiredListener(func(id string) { delete(timers, id) })
	w.SetOnTimerCanceledListener(func(id string) { delete(timers, id) })
	w.RegisterDelayedCallback(func() {
		recovered = true
		w.SetContinueAsNewSuggested(true)
		w.SignalWorkflow(temporal.SignalPause, temporal.SignalRequest{Actor: "bob"}) // the signal wakes the workflow
	}, 5*time.Minute+7*time.Second)
	w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, rolloutworkflow.Input{Object: workflowtest.ARollout()})
	require.NotNil(t, workflowtest.NextRunInput[rolloutworkflow.Input](w))
	require.Empty(t, timers)
}

func TestAFailingDeletionCheckAtTheEndOfABatchIsNoted(t *testing.T) {
	w, _ := workflowtest.NewGroupWorld(t, []string{"c1"}, []string{"c2"})
	w.Fail["LookUpClusters"] = func(call int) error {
		if call == 2 {
			return temporal.Error(temporal.ErrNotFound, "there is no hub", nil)
		}
		return nil
	}
	w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, rolloutworkflow.Input{Object: workflowtest.ARollout()})
	status := workflowtest.RequireResult[workflowtest.GroupStatus](w)
	require.Equal(t, []string{"could not look up the clusters of batch 1: there is no hub"}, status.Notes)
}
