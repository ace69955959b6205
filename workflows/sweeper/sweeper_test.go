package sweeper_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/activities/activitykit"
	"drydock.dev/drydock/activities/locks"
	"drydock.dev/drydock/activities/node"
	sweeperactivities "drydock.dev/drydock/activities/sweeper"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/rollout"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/clusterupgrade"
	"drydock.dev/drydock/workflows/kit"
	"drydock.dev/drydock/workflows/nodemaintenance"
	"drydock.dev/drydock/workflows/sweeper"
	"drydock.dev/drydock/workflows/workflowtest"
)

func TestTheLeftoversOfATerminatedMaintenanceAreCleanedUpInOrder(t *testing.T) {
	w := workflowtest.NewSweeperWorld(t, sweeperactivities.Orphans{Orphans: workflowtest.OrphansOfAMaintenance()})
	w.RunUntil(2, workflowtest.Whenever, func(status sweeper.Status) {
		require.Equal(t, sweeper.Watching, status.State)
		require.Equal(t, "Watching", status.Wait.Reason)
		require.Equal(t, 3, status.CleanedUp)
		var findings []string
		for _, f := range status.Findings {
			findings = append(findings, fmt.Sprintf("%s %s: %s", f, f.State, f.Message))
			require.Equal(t, "node/c1/ops/n1", f.Workflow)
			require.Equal(t, "Terminated at 2026-11-20T12:00:00Z by ann", f.Ended)
			require.False(t, f.FoundAt.IsZero())
			require.NotNil(t, f.SettledAt)
		}
		require.Equal(t, []string{
			"Job ops/n1-1234 CleanedUp: removed, or kept without its mark if it had failed",
			"Node n1 CleanedUp: uncordoned, marks removed",
			"NodeMaintenanceRequest drydock-n1-1234 CleanedUp: deleted",
		}, findings)
	})
	require.Equal(t, []string{"LocateCluster", "AwaitOrphans", "RemoveOrphanedJob", "ReturnNode", "WithdrawNodeMaintenance", "AwaitOrphans"}, w.Called())
	require.Equal(t, node.ReturnNodeInput{NodeRef: activitykit.NodeRef{Cluster: "c1", Node: "n1", Owner: workflowtest.NodeOwner}}, w.Inputs["ReturnNode"][0])
	require.Equal(t, workflowtest.NodeOwner, w.Scans()[1].Later[0].Owner, "the watch may lag behind")
	require.Equal(t, []string{
		"Sweeper enters a state cluster=c1 state=Watching",
		"Sweeper enters a state cluster=c1 state=CleaningUp",
		"Closed workflow left an object; cleaning up cluster=c1 object=Job ops/n1-1234",
		"Closed workflow left an object; cleaning up cluster=c1 object=Node n1",
		"Closed workflow left an object; cleaning up cluster=c1 object=NodeMaintenanceRequest drydock-n1-1234",
		"Object cleaned up cluster=c1 object=Job ops/n1-1234",
		"Object cleaned up cluster=c1 object=Node n1",
		"Object cleaned up cluster=c1 object=NodeMaintenanceRequest drydock-n1-1234",
		"Sweeper enters a state cluster=c1 state=Watching",
		"Sweeper enters a state cluster=c1 state=Cancelled",
	}, w.Log.Lines("cluster", "object", "state"))
}

func TestAMaintenanceRequestForAClusterIsWithdrawnForItsOwner(t *testing.T) {
	mark := sweeperactivities.Mark{Kind: sweeperactivities.MarkClusterRequest, Name: "drydock-1234", Owner: workflowtest.ClusterOwner}
	w := workflowtest.NewSweeperWorld(t, sweeperactivities.Orphans{Orphans: []sweeperactivities.Orphan{workflowtest.Orphan(mark)}})
	w.RunUntil(2, workflowtest.Whenever, func(status sweeper.Status) { require.Equal(t, sweeper.FindingCleanedUp, status.Findings[0].State) })
	require.Equal(t, []any{locks.ClusterLockInput{Cluster: "c1", Owner: workflowtest.ClusterOwner}}, w.Inputs["WithdrawClusterMaintenance"])
}

func TestTheHubIsSweptWithoutBeingLocated(t *testing.T) {
	const owner = "cgu/ops/june/first-run"
	mark := sweeperactivities.Mark{Kind: sweeperactivities.MarkAction, Namespace: "edge-1", Name: "june-installplan-1234", Owner: owner}
	w := workflowtest.NewSweeperWorld(t, sweeperactivities.Orphans{Orphans: []sweeperactivities.Orphan{workflowtest.Orphan(mark)}})
	w.Cluster = ""
	w.RunUntil(2, workflowtest.Whenever, func(status sweeper.Status) {
		require.Equal(t, "ManagedClusterAction edge-1/june-installplan-1234 CleanedUp: deleted", fmt.Sprintf("%s %s: %s", status.Findings[0], status.Findings[0].State, status.Findings[0].Message))
	})
	require.Equal(t, []string{"AwaitOrphans", "RemoveOrphanedObject", "AwaitOrphans"}, w.Called())
	require.Equal(t, []any{sweeperactivities.OrphanedObject{Kind: sweeperactivities.MarkAction, Namespace: "edge-1", Name: "june-installplan-1234", Owner: owner}}, w.Inputs["RemoveOrphanedObject"])
}

func TestANodeStaysCordonedWhileItsJobCannotBeRemovedAndOtherOwnersAreCleanedUp(t *testing.T) {
	other := workflowtest.Orphan(sweeperactivities.Mark{Kind: sweeperactivities.MarkNode, Name: "n2", Node: "n2", Owner: "node/c1/ops/n2/first-run"})
	w := workflowtest.NewSweeperWorld(t, sweeperactivities.Orphans{Orphans: append(workflowtest.OrphansOfAMaintenance(), other)})
	w.Fail["RemoveOrphanedJob"] = workflowtest.Always(errors.New("job ops/n1-1234 was stopped; waiting until its pods are gone"))
	w.RunUntil(2, workflowtest.Whenever, func(status sweeper.Status) {
		require.Len(t, status.Findings, 4)
		require.Contains(t, status.Findings[0].Message, "waiting until its pods are gone")
		for _, f := range status.Findings[:3] {
			require.Equal(t, sweeper.FindingFailed, f.State)
		}
		require.Equal(t, "waits for the cleanup of Job ops/n1-1234", status.Findings[1].Message)
		require.Equal(t, "n2", status.Findings[3].Name)
		require.Equal(t, sweeper.FindingCleanedUp, status.Findings[3].State)
	})
	require.Len(t, w.Inputs["ReturnNode"], 1, "only the other node")
	later := w.Scans()[1].Later
	require.Len(t, later, 1, "the pause of the other node has ended")
	require.Equal(t, workflowtest.NodeOwner, later[0].Owner)
}

func TestAFailedCleanupIsRetried(t *testing.T) {
	w := workflowtest.NewSweeperWorld(t, sweeperactivities.Orphans{Orphans: workflowtest.OrphansOfAMaintenance()}, sweeperactivities.Orphans{Orphans: workflowtest.OrphansOfAMaintenance()})
	w.Fail["RemoveOrphanedJob"] = func(int) error {
		if len(w.Scans()) == 1 {
			return errors.New("its pods are not gone")
		}
		return nil
	}
	w.RunUntil(3, workflowtest.Whenever, func(status sweeper.Status) {
		require.Equal(t, 3, status.CleanedUp)
		require.Len(t, status.Findings, 3, "a retry adds no finding")
	})
}

func TestAFindingIsGoneWhenAPersonRemovesTheMarkAfterAFailedCleanup(t *testing.T) {
	left := workflowtest.OrphansOfAMaintenance()[:2]
	marks := []sweeperactivities.Mark{left[0].Mark, left[1].Mark}
	w := workflowtest.NewSweeperWorld(t, sweeperactivities.Orphans{Orphans: left}, sweeperactivities.Orphans{Gone: marks[1:]}, sweeperactivities.Orphans{Gone: marks[:1], Quiet: true})
	w.Fail["RemoveOrphanedJob"] = workflowtest.Always(errors.New("its pods are not gone"))
	w.When(func() bool {
		return len(w.Scans()) == 3 && workflowtest.StatusOf[sweeper.Status](w.World).State == sweeper.Resting
	}, func() {
		w.SignalWorkflow(temporal.SignalWake, nil)
	})
	w.RunUntil(4, workflowtest.Whenever, func(status sweeper.Status) {
		require.Len(t, status.Findings, 2)
		for _, f := range status.Findings {
			require.Equal(t, sweeper.FindingGone, f.State, "doctor reports nothing")
			require.NotNil(t, f.SettledAt)
		}
		require.Zero(t, status.CleanedUp)
	})
	require.Empty(t, w.Scans()[0].Left)
	require.Equal(t, marks, w.Scans()[1].Left)
	require.Equal(t, marks[:1], w.Scans()[2].Left)
	require.Empty(t, w.Scans()[3].Left)
}

func TestAMarkOfAnUnknownOwnerIsReportedAndNotRemoved(t *testing.T) {
	unknown := []sweeperactivities.Mark{{Kind: sweeperactivities.MarkNode, Name: "n1", Node: "n1", Owner: "node/c1/theirs/n1/other-run"}}
	w := workflowtest.NewSweeperWorld(t, sweeperactivities.Orphans{Unknown: unknown}, sweeperactivities.Orphans{})
	w.RunUntil(3, workflowtest.Whenever, func(status sweeper.Status) {
		require.Len(t, status.Findings, 1)
		require.Equal(t, sweeper.FindingGone, status.Findings[0].State, "the mark was removed manually")
		require.Empty(t, status.Findings[0].Ended)
	})
	require.Empty(t, w.Scans()[0].Unknown)
	require.Equal(t, unknown, w.Scans()[1].Unknown, "it is not reported twice")
	require.Empty(t, w.Scans()[2].Unknown)
	require.Equal(t, []string{"LocateCluster", "AwaitOrphans", "AwaitOrphans", "AwaitOrphans"}, w.Called())
}

func TestASweeperRestsWithoutMarksAndScansWhenWoken(t *testing.T) {
	w := workflowtest.NewSweeperWorld(t, sweeperactivities.Orphans{Quiet: true})
	workflowtest.SignalWhen(w.World, func(s sweeper.Status) bool { return s.State == sweeper.Resting && s.Wait.Reason == "NoMarks" }, temporal.SignalWake, nil)
	w.RunUntil(2, workflowtest.Whenever, func(status sweeper.Status) { require.Equal(t, sweeper.Watching, status.State) })
	require.Equal(t, []string{"LocateCluster", "AwaitOrphans", "LocateCluster", "AwaitOrphans"}, w.Called(), "the cluster may have moved to another worker")
}

func TestARestingSweeperScansWhenAMaintenanceBegins(t *testing.T) {
	w := workflowtest.NewSweeperWorld(t, sweeperactivities.Orphans{Quiet: true})
	workflowtest.SignalWhen(w.World, func(s sweeper.Status) bool { return s.State == sweeper.Resting }, temporal.SignalKeepAwake, nil)
	w.RunUntil(2, workflowtest.Whenever, func(status sweeper.Status) { require.Equal(t, sweeper.Watching, status.State) })
}

func TestARestingSweeperChecksForMarksEveryTenMinutes(t *testing.T) {
	w := workflowtest.NewSweeperWorld(t, sweeperactivities.Orphans{Quiet: true}, sweeperactivities.Orphans{Orphans: workflowtest.OrphansOfAMaintenance()})
	began := time.Now()
	w.SetStartTime(began)
	w.When(func() bool {
		return w.MarkChecks() == 2 && workflowtest.StatusOf[sweeper.Status](w.World).State == sweeper.Resting
	}, func() {
		require.InDelta(t, 20*time.Minute, w.Now().Sub(began), float64(5*time.Second))
		require.Nil(t, workflowtest.StatusOf[sweeper.Status](w.World).Trouble())
		w.Marked = true // by a late write
	})
	w.RunUntil(3, workflowtest.Whenever, func(status sweeper.Status) { require.Equal(t, 3, status.CleanedUp) })
	require.Equal(t, []string{
		"LocateCluster", "AwaitOrphans", "LocateCluster", "AnyMarks", "LocateCluster", "AnyMarks", "LocateCluster", "AnyMarks", "AwaitOrphans",
	}, w.Called()[:9])
}

func TestAFailedCheckForMarksIsReportedUntilTheNextOne(t *testing.T) {
	w := workflowtest.NewSweeperWorld(t, sweeperactivities.Orphans{Quiet: true})
	unreachable := true
	w.Fail["AnyMarks"] = func(int) error {
		if unreachable {
			return temporal.Error(temporal.ErrClusterUnreachable, "cluster c1: its API server does not answer", nil)
		}
		return nil
	}
	w.RegisterDelayedCallback(func() {
		require.Contains(t, workflowtest.StatusOf[sweeper.Status](w.World).Trouble().Message, "its API server does not answer")
		require.LessOrEqual(t, w.MarkChecks(), 2*kit.RoundAttempts)
		unreachable = false
	}, 14*time.Minute)
	w.RegisterDelayedCallback(func() {
		require.Nil(t, workflowtest.StatusOf[sweeper.Status](w.World).Trouble())
		w.SignalWorkflow(temporal.SignalWake, nil)
	}, 25*time.Minute)
	w.RunUntil(2, workflowtest.Whenever, func(sweeper.Status) {})
}

func TestASweeperFailsWhenItsClusterStaysUnknown(t *testing.T) {
	w := workflowtest.NewSweeperWorld(t, sweeperactivities.Orphans{Quiet: true})
	w.Fail["LocateCluster"] = func(call int) error {
		if call == 1 {
			return nil
		}
		return temporal.Error(temporal.ErrNotFound, "cluster c1 is not known: add it", nil)
	}
	w.ExecuteWorkflow(sweeper.Sweeper, sweeper.Input{Cluster: "c1"})
	workflowtest.RequireFailure[sweeper.Status](w.World, temporal.ErrNotFound)
}

func TestASweeperWaitsForAClusterThatNoWorkerServesForAWhile(t *testing.T) {
	w := workflowtest.NewSweeperWorld(t, sweeperactivities.Orphans{Quiet: true}, sweeperactivities.Orphans{Orphans: workflowtest.OrphansOfAMaintenance()})
	known := false
	w.Fail["LocateCluster"] = func(call int) error {
		if call > 1 && !known {
			return temporal.Error(temporal.ErrNotFound, "cluster c1 is not known: add it", nil)
		}
		return nil
	}
	var woken time.Time
	w.When(func() bool { return len(w.InputsOf("LocateCluster")) == 7 }, func() {
		trouble := workflowtest.StatusOf[sweeper.Status](w.World).Trouble()
		require.Equal(t, temporal.ErrNotFound, trouble.Reason)
		require.Equal(t, "cluster c1 is not known: add it; retried every 10 minutes for a day, then the sweeper ends", trouble.Message)
		known, woken = true, w.Now()
		w.SignalWorkflow(temporal.SignalWake, nil)
	})
	w.RunUntil(3, workflowtest.Whenever, func(status sweeper.Status) {
		require.Equal(t, 3, status.CleanedUp)
		require.Nil(t, status.Trouble())
		for _, finding := range status.Findings {
			require.WithinDuration(t, woken, finding.FoundAt.Time, time.Minute, "the wake starts the scan, not the next check")
		}
	})
}

func TestASweeperOfANeverServedClusterFailsWithoutRetries(t *testing.T) {
	w := workflowtest.NewSweeperWorld(t)
	w.Fail["LocateCluster"] = workflowtest.Always(temporal.Error(temporal.ErrNotFound, "cluster c1 is not known: add it", nil))
	w.ExecuteWorkflow(sweeper.Sweeper, sweeper.Input{Cluster: "c1"})
	workflowtest.RequireFailure[sweeper.Status](w.World, temporal.ErrNotFound)
	require.Len(t, w.InputsOf("LocateCluster"), 1)
}

func TestASweeperContinuesAsNewWhileItRestsAndWhileScansFail(t *testing.T) {
	for _, tt := range []struct {
		name   string
		world  func() *workflowtest.SweeperWorld
		enough func(*workflowtest.SweeperWorld) bool
	}{
		{
			"resting",
			func() *workflowtest.SweeperWorld {
				return workflowtest.NewSweeperWorld(t, sweeperactivities.Orphans{Quiet: true})
			},
			func(w *workflowtest.SweeperWorld) bool { return w.MarkChecks() == 3 },
		},
		{
			"the cluster does not answer",
			func() *workflowtest.SweeperWorld {
				w := workflowtest.NewSweeperWorld(t)
				w.Fail["AwaitOrphans"] = workflowtest.Always(errors.New("connection refused"))
				return w
			},
			func(w *workflowtest.SweeperWorld) bool { return len(w.Scans()) > 2*kit.RoundAttempts },
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := tt.world()
			w.When(func() bool { return tt.enough(w) }, func() { w.SetContinueAsNewSuggested(true) })
			w.ExecuteWorkflow(sweeper.Sweeper, sweeper.Input{Cluster: "c1"})
			require.True(t, workflow.IsContinueAsNewError(w.GetWorkflowError()), "%v", w.GetWorkflowError())
		})
	}
}

func TestAWakeRestartsTheScan(t *testing.T) {
	w := workflowtest.NewSweeperWorld(t)
	w.When(func() bool { return len(w.Scans()) == 1 }, func() { w.SignalWorkflow(temporal.SignalWake, temporal.SignalRequest{Actor: "node/c1/ops/n2"}) })
	w.RunUntil(2, workflowtest.Whenever, func(sweeper.Status) {})
	require.Equal(t, []string{"LocateCluster", "AwaitOrphans", "AwaitOrphans"}, w.Called())
}

func TestAWakeThatArrivesAsTheScanEndsStartsAnother(t *testing.T) {
	w := workflowtest.NewSweeperWorld(t, sweeperactivities.Orphans{Quiet: true})
	w.SetOnActivityCompletedListener(func(info *activity.Info, _ converter.EncodedValue, _ error) {
		if info.ActivityType.Name == "AwaitOrphans" && len(w.Scans()) == 1 {
			w.SignalWorkflow(temporal.SignalWake, nil)
		}
	})
	w.RunUntil(2, workflowtest.Whenever, func(sweeper.Status) {})
}

// Each scan asks Temporal about every workflow with a mark.
func TestAMaintenanceThatBeginsDoesNotRestartTheScan(t *testing.T) {
	w := workflowtest.NewSweeperWorld(t)
	begun := false
	w.When(func() bool { return len(w.Scans()) == 1 }, func() {
		w.SignalWorkflow(temporal.SignalKeepAwake, temporal.SignalRequest{Actor: "node/c1/ops/n2"})
		w.RegisterDelayedCallback(func() { begun = true }, time.Second)
	})
	w.RunUntil(1, func(sweeper.Status) bool { return begun }, func(sweeper.Status) {})
	require.Equal(t, []string{"LocateCluster", "AwaitOrphans"}, w.Called())
}

// The scan may end without a mark right before the maintenance sets its own.
func TestASweeperDoesNotRestAfterAMaintenanceBegan(t *testing.T) {
	w := workflowtest.NewSweeperWorld(t, sweeperactivities.Orphans{Quiet: true})
	w.SetOnActivityStartedListener(func(info *activity.Info, _ context.Context, _ converter.EncodedValues) {
		if info.ActivityType.Name == "AwaitOrphans" && len(w.Scans()) == 0 {
			w.SignalWorkflow(temporal.SignalKeepAwake, nil)
		}
	})
	w.RunUntil(2, workflowtest.Whenever, func(status sweeper.Status) { require.Equal(t, sweeper.Watching, status.State) })
	require.Equal(t, []string{"LocateCluster", "AwaitOrphans", "AwaitOrphans"}, w.Called(), "without a rest, after which the cluster is located again")
}

func TestASweeperContinuesAsNewWithItsFindings(t *testing.T) {
	w := workflowtest.NewSweeperWorld(t, sweeperactivities.Orphans{Orphans: workflowtest.OrphansOfAMaintenance()})
	w.When(func() bool { return len(w.Scans()) == 2 }, func() {
		w.SetContinueAsNewSuggested(true)
		w.SignalWorkflow(temporal.SignalWake, nil)
	})
	w.ExecuteWorkflow(sweeper.Sweeper, sweeper.Input{Cluster: "c1"})
	var next *workflow.ContinueAsNewError
	require.ErrorAs(t, w.GetWorkflowError(), &next)
	var in sweeper.Input
	require.NoError(t, converter.GetDefaultDataConverter().FromPayloads(next.Input, &in))

	again := workflowtest.NewSweeperWorld(t)
	again.When(func() bool { return len(again.Scans()) == 1 }, func() {
		status := workflowtest.StatusOf[sweeper.Status](again.World)
		require.Len(t, status.Findings, 3)
		require.Equal(t, 3, status.CleanedUp)
		again.CancelWorkflow()
	})
	again.ExecuteWorkflow(sweeper.Sweeper, in)
	workflowtest.RequireCancelled[sweeper.Status](again.World)
}

func TestASweeperOfAnUnknownClusterFailsWithTheReason(t *testing.T) {
	w := workflowtest.NewSweeperWorld(t)
	w.Fail["LocateCluster"] = workflowtest.Always(temporal.Error(temporal.ErrNotFound, "cluster c1 is not known: add it", nil))
	w.ExecuteWorkflow(sweeper.Sweeper, sweeper.Input{Cluster: "c1"})
	require.Equal(t, "cluster c1 is not known: add it", workflowtest.RequireFailure[sweeper.Status](w.World, temporal.ErrNotFound).Message)
}

func TestTheStatusKeepsAHundredFindingsAndAllThatAreNotSettled(t *testing.T) {
	unknown := sweeperactivities.Mark{Kind: sweeperactivities.MarkNode, Name: "theirs", Node: "theirs", Owner: "node/c1/theirs/n1/other-run"}
	found := []sweeperactivities.Orphans{{Unknown: []sweeperactivities.Mark{unknown}}}
	for round := range 3 {
		next := sweeperactivities.Orphans{Unknown: found[0].Unknown}
		for i := range 50 {
			name := fmt.Sprintf("n%d-%02d", round, i)
			next.Orphans = append(next.Orphans, workflowtest.Orphan(sweeperactivities.Mark{Kind: sweeperactivities.MarkNode, Name: name, Node: name, Owner: "node/c1/ops/" + name + "/run"}))
		}
		found = append(found, next)
	}
	w := workflowtest.NewSweeperWorld(t, found...)
	w.RunUntil(5, workflowtest.Whenever, func(status sweeper.Status) {
		require.Equal(t, 150, status.CleanedUp)
		require.Len(t, status.Findings, 100)
		require.Equal(t, "theirs", status.Findings[0].Name)
		require.Equal(t, sweeper.FindingUnknownOwner, status.Findings[0].State)
		require.True(t, strings.HasPrefix(status.Findings[99].Name, "n2-"))
		require.LessOrEqual(t, len(sweeper.SweeperDetails(&status)), kit.DetailsLimit)
	})
}

func TestOnlyAMaintenanceWithoutARolloutWakesTheSweeper(t *testing.T) {
	w := workflowtest.NewWorld(t)
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, workflowtest.FullMaintenance())
	workflowtest.RequireResult[workflowtest.NodeStatus](w)
	require.Equal(t, []any{sweeperactivities.WakeSweeperInput{Cluster: "c1", By: "node/c1/ops/n1", Why: "a maintenance of n1 begins", Begins: true}}, w.InputsOf("WakeSweeper"))

	w = workflowtest.NewWorld(t)
	in := workflowtest.FullMaintenance()
	in.TaskQueue, in.Parent = temporal.TaskQueue, "cluster/c1/ops/june"
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, in)
	workflowtest.RequireResult[workflowtest.NodeStatus](w)
	require.Empty(t, w.InputsOf("WakeSweeper"), "the rollout has woken it")
}

func TestAClusterWakesItsSweeperWhenItStartsAndAfterATermination(t *testing.T) {
	w := workflowtest.NewWorld(t)
	w.Nodes = rollout.NodePlan{Workers: []string{"n1"}}
	w.RegisterAs(temporal.NodeMaintenance, func(workflow.Context, nodemaintenance.Input) (maintenancev1.NodeMaintenanceStatus, error) {
		return maintenancev1.NodeMaintenanceStatus{}, workflowtest.Terminated()
	})
	w.ExecuteWorkflow(clusterupgrade.ClusterUpgrade, workflowtest.OneCluster())
	require.Error(t, w.GetWorkflowError())
	var why []string
	for _, in := range w.InputsOf("WakeSweeper") {
		why = append(why, in.(sweeperactivities.WakeSweeperInput).Why)
	}
	require.Equal(t, []string{"rollout ops/june begins", "a workflow was terminated"}, why)
}
