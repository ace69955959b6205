package sweeper_test

import (
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

func TestWhatATerminatedMaintenanceHasLeftIsTakenBackAsACleanUpWould(t *testing.T) {
	w := workflowtest.NewSweptWorld(t, sweeperactivities.Orphans{Orphans: workflowtest.LeftByAMaintenance()})
	w.RunUntil(2, workflowtest.Whenever, func(status sweeper.Status) {
		require.Equal(t, sweeper.Watching, status.State)
		require.Equal(t, "Watching", status.Wait.Reason)
		require.Equal(t, 3, status.TakenBack)
		var said []string
		for _, f := range status.Findings {
			said = append(said, fmt.Sprintf("%s %s: %s", f, f.State, f.Message))
			require.Equal(t, "node/c1/ops/n1", f.Workflow)
			require.Equal(t, "Terminated at 2026-11-20T12:00:00Z by ann", f.Ended)
			require.False(t, f.FoundAt.IsZero())
			require.NotNil(t, f.SettledAt)
		}
		require.Equal(t, []string{
			"Job ops/n1-1234 TakenBack: removed, or let go of if it had failed",
			"Node n1 TakenBack: uncordoned, marks removed",
			"NodeMaintenanceRequest drydock-n1-1234 TakenBack: deleted",
		}, said)
	})
	require.Equal(t, []string{"LocateCluster", "AwaitOrphans", "RemoveOrphanedJob", "ReturnNode", "WithdrawNodeMaintenance", "AwaitOrphans"}, w.Called())
	require.Equal(t, node.ReturnNodeInput{NodeRef: activitykit.NodeRef{Cluster: "c1", Node: "n1", Owner: workflowtest.NodeOwner}}, w.Inputs["ReturnNode"][0])
	require.Equal(t, workflowtest.NodeOwner, w.Looks()[1].Later[0].Owner, "what is watched may be behind")
}

func TestARequestForTheClusterIsWithdrawnInTheNameOfItsOwner(t *testing.T) {
	mark := sweeperactivities.Mark{Kind: sweeperactivities.MarkClusterRequest, Name: "drydock-1234", Owner: workflowtest.ClusterOwner}
	w := workflowtest.NewSweptWorld(t, sweeperactivities.Orphans{Orphans: []sweeperactivities.Orphan{workflowtest.Orphan(mark)}})
	w.RunUntil(2, workflowtest.Whenever, func(status sweeper.Status) { require.Equal(t, sweeper.FindingTakenBack, status.Findings[0].State) })
	require.Equal(t, []any{locks.ClusterLockInput{Cluster: "c1", Owner: workflowtest.ClusterOwner}}, w.Inputs["WithdrawClusterMaintenance"])
}

func TestANodeIsNotReturnedWhileItsJobCannotBeRemovedAndOthersAreNotHeldUp(t *testing.T) {
	other := workflowtest.Orphan(sweeperactivities.Mark{Kind: sweeperactivities.MarkNode, Name: "n2", Node: "n2", Owner: "node/c1/ops/n2/first-run"})
	w := workflowtest.NewSweptWorld(t, sweeperactivities.Orphans{Orphans: append(workflowtest.LeftByAMaintenance(), other)})
	w.Fail["RemoveOrphanedJob"] = workflowtest.Always(errors.New("job ops/n1-1234 was stopped; waiting until its pods are gone"))
	w.RunUntil(2, workflowtest.Whenever, func(status sweeper.Status) {
		require.Len(t, status.Findings, 4)
		require.Contains(t, status.Findings[0].Message, "waiting until its pods are gone")
		for _, f := range status.Findings[:3] {
			require.Equal(t, sweeper.FindingNotTakenBack, f.State)
		}
		require.Equal(t, "comes after Job ops/n1-1234", status.Findings[1].Message)
		require.Equal(t, "n2", status.Findings[3].Name)
		require.Equal(t, sweeper.FindingTakenBack, status.Findings[3].State)
	})
	require.Len(t, w.Inputs["ReturnNode"], 1, "only the other node")
	later := w.Looks()[1].Later
	require.Len(t, later, 1, "that of the other node is over")
	require.Equal(t, workflowtest.NodeOwner, later[0].Owner)
}

func TestWhatCouldNotBeTakenBackIsTriedAgain(t *testing.T) {
	w := workflowtest.NewSweptWorld(t, sweeperactivities.Orphans{Orphans: workflowtest.LeftByAMaintenance()}, sweeperactivities.Orphans{Orphans: workflowtest.LeftByAMaintenance()})
	w.Fail["RemoveOrphanedJob"] = func(int) error {
		if len(w.Looks()) == 1 {
			return errors.New("its pods are not gone")
		}
		return nil
	}
	w.RunUntil(3, workflowtest.Whenever, func(status sweeper.Status) {
		require.Equal(t, 3, status.TakenBack)
		require.Len(t, status.Findings, 3, "a second try is no second finding")
	})
}

func TestWhatCouldNotBeTakenBackAndIsRemovedByAPersonIsGone(t *testing.T) {
	left := workflowtest.LeftByAMaintenance()[:2]
	marks := []sweeperactivities.Mark{left[0].Mark, left[1].Mark}
	w := workflowtest.NewSweptWorld(t, sweeperactivities.Orphans{Orphans: left}, sweeperactivities.Orphans{Gone: marks[1:]}, sweeperactivities.Orphans{Gone: marks[:1], Quiet: true})
	w.Fail["RemoveOrphanedJob"] = workflowtest.Always(errors.New("its pods are not gone"))
	w.When(func() bool {
		return len(w.Looks()) == 3 && workflowtest.StatusOf[sweeper.Status](w.World).State == sweeper.Resting
	}, func() {
		w.SignalWorkflow(temporal.SignalWake, nil)
	})
	w.RunUntil(4, workflowtest.Whenever, func(status sweeper.Status) {
		require.Len(t, status.Findings, 2)
		for _, f := range status.Findings {
			require.Equal(t, sweeper.FindingGone, f.State, "doctor has nothing to say any more")
			require.NotNil(t, f.SettledAt)
		}
		require.Zero(t, status.TakenBack)
	})
	require.Empty(t, w.Looks()[0].Left)
	require.Equal(t, marks, w.Looks()[1].Left)
	require.Equal(t, marks[:1], w.Looks()[2].Left)
	require.Empty(t, w.Looks()[3].Left)
}

func TestAMarkOfAnUnknownHolderIsReportedAndNeverTouched(t *testing.T) {
	unknown := []sweeperactivities.Mark{{Kind: sweeperactivities.MarkNode, Name: "n1", Node: "n1", Owner: "node/c1/theirs/n1/other-run"}}
	w := workflowtest.NewSweptWorld(t, sweeperactivities.Orphans{Unknown: unknown}, sweeperactivities.Orphans{})
	w.RunUntil(3, workflowtest.Whenever, func(status sweeper.Status) {
		require.Len(t, status.Findings, 1)
		require.Equal(t, sweeper.FindingGone, status.Findings[0].State, "a person has removed it meanwhile")
		require.Empty(t, status.Findings[0].Ended)
	})
	require.Empty(t, w.Looks()[0].Unknown)
	require.Equal(t, unknown, w.Looks()[1].Unknown, "it is not reported twice")
	require.Empty(t, w.Looks()[2].Unknown)
	require.Equal(t, []string{"LocateCluster", "AwaitOrphans", "AwaitOrphans", "AwaitOrphans"}, w.Called())
}

func TestASweeperRestsWhileThereAreNoMarksAndLooksWhenItIsWoken(t *testing.T) {
	w := workflowtest.NewSweptWorld(t, sweeperactivities.Orphans{Quiet: true})
	workflowtest.SignalWhen(w.World, func(s sweeper.Status) bool { return s.State == sweeper.Resting && s.Wait.Reason == "NoMarks" }, temporal.SignalWake, nil)
	w.RunUntil(2, workflowtest.Whenever, func(status sweeper.Status) { require.Equal(t, sweeper.Watching, status.State) })
	require.Equal(t, []string{"LocateCluster", "AwaitOrphans", "LocateCluster", "AwaitOrphans"}, w.Called(), "who works on the cluster may have changed")
}

func TestASweeperAtRestGlancesAtItsClusterEveryTenMinutesAndLooksWhenThereIsAMark(t *testing.T) {
	w := workflowtest.NewSweptWorld(t, sweeperactivities.Orphans{Quiet: true}, sweeperactivities.Orphans{Orphans: workflowtest.LeftByAMaintenance()})
	began := time.Now()
	w.SetStartTime(began)
	w.When(func() bool {
		return w.Glances() == 2 && workflowtest.StatusOf[sweeper.Status](w.World).State == sweeper.Resting
	}, func() {
		require.InDelta(t, 20*time.Minute, w.Now().Sub(began), float64(5*time.Second))
		require.Nil(t, workflowtest.StatusOf[sweeper.Status](w.World).Trouble())
		w.Marked = true // of a write that was late
	})
	w.RunUntil(3, workflowtest.Whenever, func(status sweeper.Status) { require.Equal(t, 3, status.TakenBack) })
	require.Equal(t, []string{
		"LocateCluster", "AwaitOrphans", "LocateCluster", "AnyMarks", "LocateCluster", "AnyMarks", "LocateCluster", "AnyMarks", "AwaitOrphans",
	}, w.Called()[:9])
}

func TestAClusterThatDoesNotAnswerAGlanceIsSaidAndLeftAloneUntilTheNextOne(t *testing.T) {
	w := workflowtest.NewSweptWorld(t, sweeperactivities.Orphans{Quiet: true})
	unreachable := true
	w.Fail["AnyMarks"] = func(int) error {
		if unreachable {
			return temporal.Error(temporal.ErrClusterUnreachable, "cluster c1: its API server does not answer", nil)
		}
		return nil
	}
	w.RegisterDelayedCallback(func() {
		require.Contains(t, workflowtest.StatusOf[sweeper.Status](w.World).Trouble().Message, "its API server does not answer")
		require.LessOrEqual(t, w.Glances(), 2*kit.RoundAttempts)
		unreachable = false
	}, 14*time.Minute)
	w.RegisterDelayedCallback(func() {
		require.Nil(t, workflowtest.StatusOf[sweeper.Status](w.World).Trouble())
		w.SignalWorkflow(temporal.SignalWake, nil)
	}, 25*time.Minute)
	w.RunUntil(2, workflowtest.Whenever, func(sweeper.Status) {})
}

func TestASweeperWhoseClusterIsNotKnownAnyMoreDoesNotRestForEver(t *testing.T) {
	w := workflowtest.NewSweptWorld(t, sweeperactivities.Orphans{Quiet: true})
	w.Fail["LocateCluster"] = func(call int) error {
		if call == 1 {
			return nil
		}
		return temporal.Error(temporal.ErrNotFound, "cluster c1 is not known: add it", nil)
	}
	w.ExecuteWorkflow(sweeper.Sweeper, sweeper.Input{Cluster: "c1"})
	workflowtest.RequireFailure[sweeper.Status](w.World, temporal.ErrNotFound)
}

func TestAClusterThatNobodyHasForAWhileKeepsItsSweeper(t *testing.T) {
	w := workflowtest.NewSweptWorld(t, sweeperactivities.Orphans{Quiet: true}, sweeperactivities.Orphans{Orphans: workflowtest.LeftByAMaintenance()})
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
		require.Equal(t, "cluster c1 is not known: add it; asked again every 10 minutes for a day, then the sweeper ends", trouble.Message)
		known, woken = true, w.Now()
		w.SignalWorkflow(temporal.SignalWake, nil)
	})
	w.RunUntil(3, workflowtest.Whenever, func(status sweeper.Status) {
		require.Equal(t, 3, status.TakenBack)
		require.Nil(t, status.Trouble())
		for _, finding := range status.Findings {
			require.WithinDuration(t, woken, finding.FoundAt.Time, time.Minute, "it looks when it is woken, and not with the next question")
		}
	})
}

// It is a name that somebody has mistyped: there is nothing to take back.
func TestASweeperWhoseClusterNobodyEverHadEndsAtOnce(t *testing.T) {
	w := workflowtest.NewSweptWorld(t)
	w.Fail["LocateCluster"] = workflowtest.Always(temporal.Error(temporal.ErrNotFound, "cluster c1 is not known: add it", nil))
	w.ExecuteWorkflow(sweeper.Sweeper, sweeper.Input{Cluster: "c1"})
	workflowtest.RequireFailure[sweeper.Status](w.World, temporal.ErrNotFound)
	require.Len(t, w.InputsOf("LocateCluster"), 1)
}

func TestNeitherARestNorALookThatDoesNotSucceedLetsTheHistoryGrowForEver(t *testing.T) {
	for _, tt := range []struct {
		name   string
		world  func() *workflowtest.SweptWorld
		enough func(*workflowtest.SweptWorld) bool
	}{
		{
			"at rest",
			func() *workflowtest.SweptWorld {
				return workflowtest.NewSweptWorld(t, sweeperactivities.Orphans{Quiet: true})
			},
			func(w *workflowtest.SweptWorld) bool { return w.Glances() == 3 },
		},
		{
			"the cluster does not answer",
			func() *workflowtest.SweptWorld {
				w := workflowtest.NewSweptWorld(t)
				w.Fail["AwaitOrphans"] = workflowtest.Always(errors.New("connection refused"))
				return w
			},
			func(w *workflowtest.SweptWorld) bool { return len(w.Looks()) > 2*kit.RoundAttempts },
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

func TestAWakeMakesALookThatIsUnderWayBeginAnew(t *testing.T) {
	w := workflowtest.NewSweptWorld(t)
	w.When(func() bool { return len(w.Looks()) == 1 }, func() { w.SignalWorkflow(temporal.SignalWake, temporal.SignalRequest{Actor: "node/c1/ops/n2"}) })
	w.RunUntil(2, workflowtest.Whenever, func(sweeper.Status) {})
	require.Equal(t, []string{"LocateCluster", "AwaitOrphans", "AwaitOrphans"}, w.Called())
}

func TestAWakeThatArrivesWhileTheLookEndsIsNotLost(t *testing.T) {
	w := workflowtest.NewSweptWorld(t, sweeperactivities.Orphans{Quiet: true})
	w.SetOnActivityCompletedListener(func(info *activity.Info, _ converter.EncodedValue, _ error) {
		if info.ActivityType.Name == "AwaitOrphans" && len(w.Looks()) == 1 {
			w.SignalWorkflow(temporal.SignalWake, nil)
		}
	})
	w.RunUntil(2, workflowtest.Whenever, func(sweeper.Status) {})
}

func TestASweeperContinuesAsNewWithItsFindingsAndLosesNoWake(t *testing.T) {
	w := workflowtest.NewSweptWorld(t, sweeperactivities.Orphans{Orphans: workflowtest.LeftByAMaintenance()})
	w.When(func() bool { return len(w.Looks()) == 2 }, func() {
		w.SetContinueAsNewSuggested(true)
		w.SignalWorkflow(temporal.SignalWake, nil)
	})
	w.ExecuteWorkflow(sweeper.Sweeper, sweeper.Input{Cluster: "c1"})
	var next *workflow.ContinueAsNewError
	require.ErrorAs(t, w.GetWorkflowError(), &next)
	var in sweeper.Input
	require.NoError(t, converter.GetDefaultDataConverter().FromPayloads(next.Input, &in))

	again := workflowtest.NewSweptWorld(t)
	again.When(func() bool { return len(again.Looks()) == 1 }, func() {
		status := workflowtest.StatusOf[sweeper.Status](again.World)
		require.Len(t, status.Findings, 3)
		require.Equal(t, 3, status.TakenBack)
		again.CancelWorkflow()
	})
	again.ExecuteWorkflow(sweeper.Sweeper, in)
	workflowtest.RequireCancelled[sweeper.Status](again.World)
}

func TestAClusterThatNobodyKnowsEndsItsSweeper(t *testing.T) {
	w := workflowtest.NewSweptWorld(t)
	w.Fail["LocateCluster"] = workflowtest.Always(temporal.Error(temporal.ErrNotFound, "cluster c1 is not known: add it", nil))
	w.ExecuteWorkflow(sweeper.Sweeper, sweeper.Input{Cluster: "c1"})
	require.Equal(t, "cluster c1 is not known: add it", workflowtest.RequireFailure[sweeper.Status](w.World, temporal.ErrNotFound).Message)
}

func TestTheLastHundredFindingsAreKeptAndWhatIsStillThereBeforeAll(t *testing.T) {
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
	w := workflowtest.NewSweptWorld(t, found...)
	w.RunUntil(5, workflowtest.Whenever, func(status sweeper.Status) {
		require.Equal(t, 150, status.TakenBack)
		require.Len(t, status.Findings, 100)
		require.Equal(t, "theirs", status.Findings[0].Name)
		require.Equal(t, sweeper.FindingNotTouched, status.Findings[0].State)
		require.True(t, strings.HasPrefix(status.Findings[99].Name, "n2-"))
		require.LessOrEqual(t, len(sweeper.SweeperDetails(&status)), kit.DetailsLimit)
	})
}

func TestAMaintenanceThatNoRolloutStartedWakesTheSweeperBeforeAnythingIsTouched(t *testing.T) {
	w := workflowtest.NewWorld(t)
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, workflowtest.WholeMaintenance())
	workflowtest.RequireResult[workflowtest.NodeStatus](w)
	require.Equal(t, []any{sweeperactivities.WakeSweeperInput{Cluster: "c1", By: "node/c1/ops/n1", Why: "a maintenance of n1 begins"}}, w.InputsOf("WakeSweeper"))

	w = workflowtest.NewWorld(t)
	in := workflowtest.WholeMaintenance()
	in.TaskQueue, in.Parent = temporal.TaskQueue, "cluster/c1/ops/june"
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, in)
	workflowtest.RequireResult[workflowtest.NodeStatus](w)
	require.Empty(t, w.InputsOf("WakeSweeper"), "the rollout has")
}

func TestAClusterWakesItsSweeperAtItsBeginningAndWhenAMaintenanceWasTerminated(t *testing.T) {
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
