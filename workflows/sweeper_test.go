package workflows

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	sdktemporal "go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/activities"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/rollout"
	"drydock.dev/drydock/internal/temporal"
)

// sweptWorld is a world with marks: each look finds the next of what there is, and after the last nothing is found any more.
type sweptWorld struct {
	*world
	found []activities.Orphans
	// marked is what a glance at the cluster finds.
	marked bool
}

func newSweptWorld(t *testing.T, found ...activities.Orphans) *sweptWorld {
	w := &sweptWorld{world: newWorld(t), found: found}
	w.blocked["AwaitOrphans"] = len(found) == 0
	play(w.world, "AwaitOrphans", func(activities.AwaitOrphansInput) any {
		w.mu.Lock()
		defer w.mu.Unlock()
		next := w.found[0]
		w.found = w.found[1:]
		w.blocked["AwaitOrphans"] = len(w.found) == 0
		return next
	})
	play(w.world, "AnyMarks", func(string) any { return w.marked })
	play(w.world, "RemoveOrphanedJob", func(activities.OrphanedJob) any { return nil })
	return w
}

// looks returns what the looks were asked, so far.
func (w *sweptWorld) looks() []activities.AwaitOrphansInput {
	w.mu.Lock()
	defer w.mu.Unlock()
	var looks []activities.AwaitOrphansInput
	for _, in := range w.inputs["AwaitOrphans"] {
		looks = append(looks, in.(activities.AwaitOrphansInput))
	}
	return looks
}

// runUntil runs the sweeper until so many looks have begun and the condition holds, then checks the status and cancels it.
func (w *sweptWorld) runUntil(looks int, condition func(SweeperStatus) bool, check func(SweeperStatus)) {
	w.t.Helper()
	w.when(func() bool { return len(w.looks()) >= looks && condition(statusOf[SweeperStatus](w.world)) }, func() {
		check(statusOf[SweeperStatus](w.world))
		w.SignalWorkflow(temporal.SignalCancel, nil)
	})
	w.ExecuteWorkflow(Sweeper, SweeperInput{Cluster: "c1"})
	requireCancelled[SweeperStatus](w.world)
}

func whenever(SweeperStatus) bool { return true }

const (
	nodeOwner    = "node/c1/ops/n1/first-run"
	clusterOwner = "cgu/ops/june/c1/first-run"
)

// leftByAMaintenance is all that a maintenance can leave behind.
func leftByAMaintenance() []activities.Orphan {
	return []activities.Orphan{
		orphan(activities.Mark{Kind: activities.MarkJob, Namespace: "ops", Name: "n1-1234", Owner: nodeOwner}),
		orphan(activities.Mark{Kind: activities.MarkNode, Name: "n1", Node: "n1", Owner: nodeOwner}),
		orphan(activities.Mark{Kind: activities.MarkNodeRequest, Name: "drydock-n1-1234", Node: "n1", Owner: nodeOwner}),
	}
}

func orphan(mark activities.Mark) activities.Orphan {
	return activities.Orphan{Mark: mark, Ended: "Terminated at 2026-11-20T12:00:00Z by ann"}
}

func TestWhatATerminatedMaintenanceHasLeftIsTakenBackAsACleanUpWould(t *testing.T) {
	w := newSweptWorld(t, activities.Orphans{Orphans: leftByAMaintenance()})
	w.runUntil(2, whenever, func(status SweeperStatus) {
		require.Equal(t, SweeperWatching, status.State)
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
	require.Equal(t, []string{"LocateCluster", "AwaitOrphans", "RemoveOrphanedJob", "ReturnNode", "WithdrawNodeMaintenance", "AwaitOrphans"}, w.called())
	require.Equal(t, activities.ReturnNodeInput{NodeRef: activities.NodeRef{Cluster: "c1", Node: "n1", Owner: nodeOwner}}, w.inputs["ReturnNode"][0])
	require.Equal(t, nodeOwner, w.looks()[1].Later[0].Owner, "what is watched may be behind")
}

func TestARequestForTheClusterIsWithdrawnInTheNameOfItsOwner(t *testing.T) {
	mark := activities.Mark{Kind: activities.MarkClusterRequest, Name: "drydock-1234", Owner: clusterOwner}
	w := newSweptWorld(t, activities.Orphans{Orphans: []activities.Orphan{orphan(mark)}})
	w.runUntil(2, whenever, func(status SweeperStatus) { require.Equal(t, FindingTakenBack, status.Findings[0].State) })
	require.Equal(t, []any{activities.ClusterLockInput{Cluster: "c1", Owner: clusterOwner}}, w.inputs["WithdrawClusterMaintenance"])
}

func TestANodeIsNotReturnedWhileItsJobCannotBeRemovedAndOthersAreNotHeldUp(t *testing.T) {
	other := orphan(activities.Mark{Kind: activities.MarkNode, Name: "n2", Node: "n2", Owner: "node/c1/ops/n2/first-run"})
	w := newSweptWorld(t, activities.Orphans{Orphans: append(leftByAMaintenance(), other)})
	w.fail["RemoveOrphanedJob"] = always(errors.New("job ops/n1-1234 was stopped; waiting until its pods are gone"))
	w.runUntil(2, whenever, func(status SweeperStatus) {
		require.Len(t, status.Findings, 4)
		require.Contains(t, status.Findings[0].Message, "waiting until its pods are gone")
		for _, f := range status.Findings[:3] {
			require.Equal(t, FindingNotTakenBack, f.State)
		}
		require.Equal(t, "comes after Job ops/n1-1234", status.Findings[1].Message)
		require.Equal(t, "n2", status.Findings[3].Name)
		require.Equal(t, FindingTakenBack, status.Findings[3].State)
	})
	require.Len(t, w.inputs["ReturnNode"], 1, "only the other node")
	later := w.looks()[1].Later
	require.Len(t, later, 1, "that of the other node is over")
	require.Equal(t, nodeOwner, later[0].Owner)
}

func TestWhatCouldNotBeTakenBackIsTriedAgain(t *testing.T) {
	w := newSweptWorld(t, activities.Orphans{Orphans: leftByAMaintenance()}, activities.Orphans{Orphans: leftByAMaintenance()})
	w.fail["RemoveOrphanedJob"] = func(int) error {
		if len(w.looks()) == 1 {
			return errors.New("its pods are not gone")
		}
		return nil
	}
	w.runUntil(3, whenever, func(status SweeperStatus) {
		require.Equal(t, 3, status.TakenBack)
		require.Len(t, status.Findings, 3, "a second try is no second finding")
	})
}

func TestWhatCouldNotBeTakenBackAndIsRemovedByAPersonIsGone(t *testing.T) {
	left := leftByAMaintenance()[:2]
	marks := []activities.Mark{left[0].Mark, left[1].Mark}
	w := newSweptWorld(t, activities.Orphans{Orphans: left}, activities.Orphans{Gone: marks[1:]}, activities.Orphans{Gone: marks[:1], Quiet: true})
	w.fail["RemoveOrphanedJob"] = always(errors.New("its pods are not gone"))
	w.when(func() bool { return len(w.looks()) == 3 && statusOf[SweeperStatus](w.world).State == SweeperResting }, func() {
		w.SignalWorkflow(temporal.SignalWake, nil)
	})
	w.runUntil(4, whenever, func(status SweeperStatus) {
		require.Len(t, status.Findings, 2)
		for _, f := range status.Findings {
			require.Equal(t, FindingGone, f.State, "doctor has nothing to say any more")
			require.NotNil(t, f.SettledAt)
		}
		require.Zero(t, status.TakenBack)
	})
	require.Empty(t, w.looks()[0].Left)
	require.Equal(t, marks, w.looks()[1].Left)
	require.Equal(t, marks[:1], w.looks()[2].Left)
	require.Empty(t, w.looks()[3].Left)
}

func TestAMarkOfAnUnknownHolderIsReportedAndNeverTouched(t *testing.T) {
	unknown := []activities.Mark{{Kind: activities.MarkNode, Name: "n1", Node: "n1", Owner: "node/c1/theirs/n1/other-run"}}
	w := newSweptWorld(t, activities.Orphans{Unknown: unknown}, activities.Orphans{})
	w.runUntil(3, whenever, func(status SweeperStatus) {
		require.Len(t, status.Findings, 1)
		require.Equal(t, FindingGone, status.Findings[0].State, "a person has removed it meanwhile")
		require.Empty(t, status.Findings[0].Ended)
	})
	require.Empty(t, w.looks()[0].Unknown)
	require.Equal(t, unknown, w.looks()[1].Unknown, "it is not reported twice")
	require.Empty(t, w.looks()[2].Unknown)
	require.Equal(t, []string{"LocateCluster", "AwaitOrphans", "AwaitOrphans", "AwaitOrphans"}, w.called())
}

func TestASweeperRestsWhileThereAreNoMarksAndLooksWhenItIsWoken(t *testing.T) {
	w := newSweptWorld(t, activities.Orphans{Quiet: true})
	signalWhen(w.world, func(s SweeperStatus) bool { return s.State == SweeperResting && s.Wait.Reason == "NoMarks" }, temporal.SignalWake, nil)
	w.runUntil(2, whenever, func(status SweeperStatus) { require.Equal(t, SweeperWatching, status.State) })
	require.Equal(t, []string{"LocateCluster", "AwaitOrphans", "LocateCluster", "AwaitOrphans"}, w.called(), "who works on the cluster may have changed")
}

// glances counts the glances that have begun.
func (w *sweptWorld) glances() int { return len(w.inputsOf("AnyMarks")) }

func TestASweeperAtRestGlancesAtItsClusterEveryTenMinutesAndLooksWhenThereIsAMark(t *testing.T) {
	w := newSweptWorld(t, activities.Orphans{Quiet: true}, activities.Orphans{Orphans: leftByAMaintenance()})
	began := time.Now()
	w.SetStartTime(began)
	w.when(func() bool { return w.glances() == 2 && statusOf[SweeperStatus](w.world).State == SweeperResting }, func() {
		require.InDelta(t, 20*time.Minute, w.Now().Sub(began), float64(5*time.Second))
		require.Nil(t, statusOf[SweeperStatus](w.world).Trouble())
		w.marked = true // of a write that was late
	})
	w.runUntil(3, whenever, func(status SweeperStatus) { require.Equal(t, 3, status.TakenBack) })
	require.Equal(t, []string{
		"LocateCluster", "AwaitOrphans", "LocateCluster", "AnyMarks", "LocateCluster", "AnyMarks", "LocateCluster", "AnyMarks", "AwaitOrphans",
	}, w.called()[:9])
}

func TestAClusterThatDoesNotAnswerAGlanceIsSaidAndLeftAloneUntilTheNextOne(t *testing.T) {
	w := newSweptWorld(t, activities.Orphans{Quiet: true})
	unreachable := true
	w.fail["AnyMarks"] = func(int) error {
		if unreachable {
			return temporal.Error(temporal.ErrClusterUnreachable, "cluster c1: its API server does not answer", nil)
		}
		return nil
	}
	w.RegisterDelayedCallback(func() {
		require.Contains(t, statusOf[SweeperStatus](w.world).Trouble().Message, "its API server does not answer")
		require.LessOrEqual(t, w.glances(), 2*roundAttempts)
		unreachable = false
	}, 14*time.Minute)
	w.RegisterDelayedCallback(func() {
		require.Nil(t, statusOf[SweeperStatus](w.world).Trouble())
		w.SignalWorkflow(temporal.SignalWake, nil)
	}, 25*time.Minute)
	w.runUntil(2, whenever, func(SweeperStatus) {})
}

func TestASweeperWhoseClusterIsNotKnownAnyMoreDoesNotRestForEver(t *testing.T) {
	w := newSweptWorld(t, activities.Orphans{Quiet: true})
	w.fail["LocateCluster"] = func(call int) error {
		if call == 1 {
			return nil
		}
		return temporal.Error(temporal.ErrNotFound, "cluster c1 is not known: add it", nil)
	}
	w.ExecuteWorkflow(Sweeper, SweeperInput{Cluster: "c1"})
	requireFailure[SweeperStatus](w.world, temporal.ErrNotFound)
}

func TestAClusterThatNobodyHasForAWhileKeepsItsSweeper(t *testing.T) {
	w := newSweptWorld(t, activities.Orphans{Quiet: true}, activities.Orphans{Orphans: leftByAMaintenance()})
	known := false
	w.fail["LocateCluster"] = func(call int) error {
		if call > 1 && !known {
			return temporal.Error(temporal.ErrNotFound, "cluster c1 is not known: add it", nil)
		}
		return nil
	}
	var woken time.Time
	w.when(func() bool { return len(w.inputsOf("LocateCluster")) == 7 }, func() {
		trouble := statusOf[SweeperStatus](w.world).Trouble()
		require.Equal(t, temporal.ErrNotFound, trouble.Reason)
		require.Equal(t, "cluster c1 is not known: add it; asked again every 10 minutes for a day, then the sweeper ends", trouble.Message)
		known, woken = true, w.Now()
		w.SignalWorkflow(temporal.SignalWake, nil)
	})
	w.runUntil(3, whenever, func(status SweeperStatus) {
		require.Equal(t, 3, status.TakenBack)
		require.Nil(t, status.Trouble())
		for _, finding := range status.Findings {
			require.WithinDuration(t, woken, finding.FoundAt.Time, time.Minute, "it looks when it is woken, and not with the next question")
		}
	})
}

// It is a name that somebody has mistyped: there is nothing to take back.
func TestASweeperWhoseClusterNobodyEverHadEndsAtOnce(t *testing.T) {
	w := newSweptWorld(t)
	w.fail["LocateCluster"] = always(temporal.Error(temporal.ErrNotFound, "cluster c1 is not known: add it", nil))
	w.ExecuteWorkflow(Sweeper, SweeperInput{Cluster: "c1"})
	requireFailure[SweeperStatus](w.world, temporal.ErrNotFound)
	require.Len(t, w.inputsOf("LocateCluster"), 1)
}

func TestNeitherARestNorALookThatDoesNotSucceedLetsTheHistoryGrowForEver(t *testing.T) {
	for _, tt := range []struct {
		name   string
		world  func() *sweptWorld
		enough func(*sweptWorld) bool
	}{
		{
			"at rest",
			func() *sweptWorld { return newSweptWorld(t, activities.Orphans{Quiet: true}) },
			func(w *sweptWorld) bool { return w.glances() == 3 },
		},
		{
			"the cluster does not answer",
			func() *sweptWorld {
				w := newSweptWorld(t)
				w.fail["AwaitOrphans"] = always(errors.New("connection refused"))
				return w
			},
			func(w *sweptWorld) bool { return len(w.looks()) > 2*roundAttempts },
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := tt.world()
			w.when(func() bool { return tt.enough(w) }, func() { w.SetContinueAsNewSuggested(true) })
			w.ExecuteWorkflow(Sweeper, SweeperInput{Cluster: "c1"})
			require.True(t, workflow.IsContinueAsNewError(w.GetWorkflowError()), "%v", w.GetWorkflowError())
		})
	}
}

func TestAWakeMakesALookThatIsUnderWayBeginAnew(t *testing.T) {
	w := newSweptWorld(t)
	w.when(func() bool { return len(w.looks()) == 1 }, func() { w.SignalWorkflow(temporal.SignalWake, temporal.SignalRequest{Actor: "node/c1/ops/n2"}) })
	w.runUntil(2, whenever, func(SweeperStatus) {})
	require.Equal(t, []string{"LocateCluster", "AwaitOrphans", "AwaitOrphans"}, w.called())
}

func TestAWakeThatArrivesWhileTheLookEndsIsNotLost(t *testing.T) {
	w := newSweptWorld(t, activities.Orphans{Quiet: true})
	w.SetOnActivityCompletedListener(func(info *activity.Info, _ converter.EncodedValue, _ error) {
		if info.ActivityType.Name == "AwaitOrphans" && len(w.looks()) == 1 {
			w.SignalWorkflow(temporal.SignalWake, nil)
		}
	})
	w.runUntil(2, whenever, func(SweeperStatus) {})
}

func TestASweeperContinuesAsNewWithItsFindingsAndLosesNoWake(t *testing.T) {
	w := newSweptWorld(t, activities.Orphans{Orphans: leftByAMaintenance()})
	w.when(func() bool { return len(w.looks()) == 2 }, func() {
		w.SetContinueAsNewSuggested(true)
		w.SignalWorkflow(temporal.SignalWake, nil)
	})
	w.ExecuteWorkflow(Sweeper, SweeperInput{Cluster: "c1"})
	var next *workflow.ContinueAsNewError
	require.ErrorAs(t, w.GetWorkflowError(), &next)
	var in SweeperInput
	require.NoError(t, converter.GetDefaultDataConverter().FromPayloads(next.Input, &in))

	again := newSweptWorld(t)
	again.when(func() bool { return len(again.looks()) == 1 }, func() {
		status := statusOf[SweeperStatus](again.world)
		require.Len(t, status.Findings, 3)
		require.Equal(t, 3, status.TakenBack)
		again.CancelWorkflow()
	})
	again.ExecuteWorkflow(Sweeper, in)
	requireCancelled[SweeperStatus](again.world)
}

func TestAClusterThatNobodyKnowsEndsItsSweeper(t *testing.T) {
	w := newSweptWorld(t)
	w.fail["LocateCluster"] = always(temporal.Error(temporal.ErrNotFound, "cluster c1 is not known: add it", nil))
	w.ExecuteWorkflow(Sweeper, SweeperInput{Cluster: "c1"})
	require.Equal(t, "cluster c1 is not known: add it", requireFailure[SweeperStatus](w.world, temporal.ErrNotFound).Message)
}

func TestTheLastHundredFindingsAreKeptAndWhatIsStillThereBeforeAll(t *testing.T) {
	unknown := activities.Mark{Kind: activities.MarkNode, Name: "theirs", Node: "theirs", Owner: "node/c1/theirs/n1/other-run"}
	found := []activities.Orphans{{Unknown: []activities.Mark{unknown}}}
	for round := range 3 {
		next := activities.Orphans{Unknown: found[0].Unknown}
		for i := range 50 {
			name := fmt.Sprintf("n%d-%02d", round, i)
			next.Orphans = append(next.Orphans, orphan(activities.Mark{Kind: activities.MarkNode, Name: name, Node: name, Owner: "node/c1/ops/" + name + "/run"}))
		}
		found = append(found, next)
	}
	w := newSweptWorld(t, found...)
	w.runUntil(5, whenever, func(status SweeperStatus) {
		require.Equal(t, 150, status.TakenBack)
		require.Len(t, status.Findings, 100)
		require.Equal(t, "theirs", status.Findings[0].Name)
		require.Equal(t, FindingNotTouched, status.Findings[0].State)
		require.True(t, strings.HasPrefix(status.Findings[99].Name, "n2-"))
		require.LessOrEqual(t, len(sweeperDetails(&status)), detailsLimit)
	})
}

func TestAMaintenanceThatNoRolloutStartedWakesTheSweeperBeforeAnythingIsTouched(t *testing.T) {
	w := newWorld(t)
	w.ExecuteWorkflow(NodeMaintenance, wholeMaintenance())
	requireResult[nodeStatus](w)
	require.Equal(t, []any{activities.WakeSweeperInput{Cluster: "c1", By: "node/c1/ops/n1", Why: "a maintenance of n1 begins"}}, w.inputsOf("WakeSweeper"))

	w = newWorld(t)
	in := wholeMaintenance()
	in.TaskQueue, in.Parent = temporal.TaskQueue, "cluster/c1/ops/june"
	w.ExecuteWorkflow(NodeMaintenance, in)
	requireResult[nodeStatus](w)
	require.Empty(t, w.inputsOf("WakeSweeper"), "the rollout has")
}

func TestAClusterWakesItsSweeperAtItsBeginningAndWhenAMaintenanceWasTerminated(t *testing.T) {
	w := newWorld(t)
	w.nodes = rollout.NodePlan{Workers: []string{"n1"}}
	w.registerAs(temporal.NodeMaintenance, func(workflow.Context, NodeMaintenanceInput) (maintenancev1.NodeMaintenanceStatus, error) {
		return maintenancev1.NodeMaintenanceStatus{}, terminated()
	})
	w.ExecuteWorkflow(ClusterUpgrade, oneCluster())
	require.Error(t, w.GetWorkflowError())
	var why []string
	for _, in := range w.inputsOf("WakeSweeper") {
		why = append(why, in.(activities.WakeSweeperInput).Why)
	}
	require.Equal(t, []string{"rollout ops/june begins", "a workflow was terminated"}, why)
}

// terminated is the error by which a parent learns that its child was terminated.
func terminated() error { return &sdktemporal.TerminatedError{} }
