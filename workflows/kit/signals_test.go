package kit_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	"pgregory.net/rapid"

	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/emergency"
	"drydock.dev/drydock/internal/portal"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/internal/windows"
	"drydock.dev/drydock/workflows/clusterupgrade"
	"drydock.dev/drydock/workflows/emergencystop"
	"drydock.dev/drydock/workflows/kit"
	"drydock.dev/drydock/workflows/nodemaintenance"
	portalworkflow "drydock.dev/drydock/workflows/portal"
	"drydock.dev/drydock/workflows/rollout"
	"drydock.dev/drydock/workflows/sweeper"
	"drydock.dev/drydock/workflows/window"
	"drydock.dev/drydock/workflows/workflowtest"
)

// listener hears signals a, b and c, from a while after its beginning on, and returns them in the order in which it heard them.
func listener(ctx workflow.Context, deafFor time.Duration) ([]string, error) {
	if err := workflow.Sleep(ctx, deafFor); err != nil {
		return nil, err
	}
	var heard []string
	over := false
	for _, name := range []string{"c", "a", "b"} {
		kit.OnSignal(ctx, name, "", func(number int) { heard = append(heard, fmt.Sprintf("%s%d", name, number)) })
	}
	kit.OnSignal(ctx, "over", "", func(struct{}) { over = true })
	err := workflow.Await(ctx, func() bool { return over })
	kit.HandlePendingSignals(ctx)
	return heard, err
}

func TestSignalsAreHeardInTheOrderInWhichTheyWereSent(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		names := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c", "nobody's"}), 1, 12).Draw(r, "names")
		deafFor := rapid.SampledFrom([]time.Duration{0, time.Hour}).Draw(r, "deaf for")
		unreadable := rapid.IntRange(0, len(names)).Draw(r, "unreadable")
		w := workflowtest.NewWorld(t)
		var sent []workflowtest.Sending
		var want []string
		for i, name := range names {
			switch {
			case i == unreadable:
				sent = append(sent, workflowtest.Sending{Name: name, Payload: "no number"})
				continue
			case name != "nobody's":
				want = append(want, fmt.Sprintf("%s%d", name, i))
			}
			sent = append(sent, workflowtest.Sending{Name: name, Payload: i})
		}
		w.RegisterDelayedCallback(func() { w.SendTogether(append(sent, workflowtest.Sending{Name: "over"})...) }, time.Minute)
		w.ExecuteWorkflow(listener, deafFor)
		var heard []string
		require.NoError(r, w.GetWorkflowError())
		require.NoError(r, w.GetWorkflowResult(&heard))
		require.Equal(r, want, heard)
	})
}

func TestWhatIsPausedAndResumedInOneMomentIsAsWasSaidLast(t *testing.T) {
	rollouts := func(w *workflowtest.World) {
		w.ExecuteWorkflow(rollout.ClusterGroupUpgrade, rollout.Input{Object: workflowtest.ARollout()})
	}
	for name, scene := range map[string]struct {
		begin  func() (*workflowtest.World, *workflowtest.Children)
		run    func(*workflowtest.World)
		paused func(*workflowtest.World) bool
	}{
		"a rollout": {
			func() (*workflowtest.World, *workflowtest.Children) {
				return workflowtest.NewGroupWorld(t, []string{"c1"})
			}, rollouts,
			func(w *workflowtest.World) bool { return workflowtest.StatusOf[workflowtest.GroupStatus](w).Paused },
		},
		"a cluster": {
			func() (*workflowtest.World, *workflowtest.Children) { return workflowtest.NewClusterWorld(t, 0, 1, 1) },
			func(w *workflowtest.World) {
				w.ExecuteWorkflow(clusterupgrade.ClusterUpgrade, workflowtest.OneCluster())
			},
			func(w *workflowtest.World) bool { return workflowtest.StatusOf[ranv1.ClusterUpgradeStatus](w).Paused },
		},
	} {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(r *rapid.T) {
				said := rapid.SliceOfN(rapid.SampledFrom([]string{temporal.SignalPause, temporal.SignalResume}), 1, 6).Draw(r, "said")
				w, work := scene.begin()
				work.Ends["c1"], work.Ends["w0"] = workflowtest.Never, workflowtest.Never
				var paused bool
				w.RegisterDelayedCallback(func() { w.SayTogether(said...) }, time.Minute)
				w.RegisterDelayedCallback(func() {
					paused = scene.paused(w)
					w.SignalWorkflow(temporal.SignalCancel, nil)
				}, 2*time.Minute)
				scene.run(w)
				require.True(r, w.IsWorkflowCompleted())
				require.Equal(r, said[len(said)-1] == temporal.SignalPause, paused)
			})
		})
	}
}

func TestARolloutThatIsEnabledAndCancelledInOneMomentIsCancelled(t *testing.T) {
	for _, said := range [][]string{{temporal.SignalEnable, temporal.SignalCancel}, {temporal.SignalCancel, temporal.SignalEnable}} {
		w, clusters := workflowtest.NewGroupWorld(t, []string{"c1"})
		object := workflowtest.ARollout()
		object.Spec.Enable = new(bool)
		w.RegisterDelayedCallback(func() { w.SayTogether(said...) }, time.Minute)
		w.ExecuteWorkflow(rollout.ClusterGroupUpgrade, rollout.Input{Object: object})
		workflowtest.RequireCancelled[workflowtest.GroupStatus](w)
		require.Empty(t, clusters.Events)
	}
}

func TestANodeWhoseWorkFailsAndRecoversInOneMomentIsAsWasSaidLast(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		said := rapid.SliceOfN(rapid.SampledFrom([]string{temporal.SignalFail, temporal.SignalRecover}), 1, 6).Draw(r, "said")
		want := map[string]maintenancev1.NodeState{temporal.SignalFail: maintenancev1.NodeRequestorFailed, temporal.SignalRecover: maintenancev1.NodeReady}
		w := workflowtest.NewWorld(t)
		var state maintenancev1.NodeState
		w.RegisterDelayedCallback(func() { w.SayTogether(said...) }, time.Hour)
		w.RegisterDelayedCallback(func() {
			state = workflowtest.StatusOf[workflowtest.NodeStatus](w).State
			w.SignalWorkflow(temporal.SignalDone, nil)
		}, 2*time.Hour)
		w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, workflowtest.HandOver())
		require.NoError(r, w.GetWorkflowError())
		require.Equal(r, want[said[len(said)-1]], state)
	})
}

// A requestor that has said done, or cancel, has nothing more to say.
func TestANodeEndsAsWasSaidInOneMoment(t *testing.T) {
	done, fail, again, cancel := temporal.SignalDone, temporal.SignalFail, temporal.SignalRecover, temporal.SignalCancel
	for _, tt := range []struct {
		said []string
		want maintenancev1.NodeState
	}{
		{[]string{fail, done}, maintenancev1.NodeCompleted},
		{[]string{done, fail}, maintenancev1.NodeCompleted},
		{[]string{fail, again, done}, maintenancev1.NodeCompleted},
		{[]string{fail, cancel}, maintenancev1.NodeFailed},
		{[]string{cancel, fail}, maintenancev1.NodeCancelled},
		{[]string{again, fail, cancel}, maintenancev1.NodeFailed},
		{[]string{fail, again, cancel}, maintenancev1.NodeCancelled},
		{[]string{cancel, done}, maintenancev1.NodeCancelled},
		{[]string{done, cancel}, maintenancev1.NodeCompleted},
	} {
		t.Run(fmt.Sprint(tt.said), func(t *testing.T) {
			w := workflowtest.NewWorld(t)
			w.RegisterDelayedCallback(func() { w.SayTogether(tt.said...) }, time.Hour)
			w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, workflowtest.HandOver())
			require.True(t, w.IsWorkflowCompleted())
			states := workflowtest.States(workflowtest.StatusOf[workflowtest.NodeStatus](w))
			require.Equal(t, tt.want, states[len(states)-1])
			require.Equal(t, slices.Contains(tt.said, done) && tt.said[0] != cancel, slices.Contains(w.Called(), "AwaitNodeHealthy"),
				"what was worked on is looked at, though it was cancelled then")
		})
	}
}

func TestAHoldThatWasSaidBeforeAReleaseIsReleased(t *testing.T) {
	w := workflowtest.NewToldWorld(t)
	var release *workflowtest.Answer
	w.At(1, func() { w.Asks(temporal.UpdateHold, workflowtest.HoldC1) })
	w.At(2, func() {
		w.SignalWorkflowSkippingWorkflowTask(temporal.SignalHold, workflowtest.HoldC1)
		release = w.Asks(temporal.UpdateRelease, workflowtest.HoldC1)
	})
	w.Ends(3)
	carried := w.CarriedOver(emergencystop.Input{})
	require.True(t, release.Done)
	require.Empty(t, carried.State.Holds)
}

func TestAReleaseThatCannotSeeTheHoldYetIsRefusedAndTheClusterHeld(t *testing.T) {
	w := workflowtest.NewToldWorld(t)
	var release *workflowtest.Answer
	w.At(2, func() {
		w.SignalWorkflowSkippingWorkflowTask(temporal.SignalHold, workflowtest.HoldC1)
		release = w.Asks(temporal.UpdateRelease, workflowtest.HoldC1)
	})
	w.Ends(3)
	carried := w.CarriedOver(emergencystop.Input{})
	require.ErrorContains(t, release.Refused, "clusters[0]: c1 is not held by its name")
	require.Equal(t, []string{"cluster/c1"}, workflowtest.Scopes(carried.State))
}

func TestAHoldThatWasSaidAfterAReleaseHolds(t *testing.T) {
	w := workflowtest.NewToldWorld(t)
	w.At(1, func() { w.Asks(temporal.UpdateHold, workflowtest.HoldC1) })
	w.At(2, func() {
		w.Asks(temporal.UpdateRelease, workflowtest.HoldC1)
		w.SignalWorkflow(temporal.SignalHold, workflowtest.HoldC1)
	})
	w.Ends(3)
	require.Equal(t, []string{"cluster/c1"}, workflowtest.Scopes(w.CarriedOver(emergencystop.Input{}).State))
}

func TestAPortalShowsAWindowThatIsAnnouncedAfterAllWasDeleted(t *testing.T) {
	announced, deleted := workflowtest.Sending{Name: temporal.SignalAnnouncement, Payload: workflowtest.NightAnnounced(1, workflowtest.Noon.Add(time.Hour))}, workflowtest.Sending{Name: temporal.SignalCancel}
	for openings, said := range map[int][]workflowtest.Sending{2: {deleted, announced}, 0: {announced, deleted}} {
		w := workflowtest.NewPortalWorld(t)
		w.Order(0, temporal.UpdateApply, workflowtest.Shop())
		w.RegisterDelayedCallback(func() { w.SendTogether(said...) }, time.Minute)
		var view portal.View
		w.RegisterDelayedCallback(func() { view = workflowtest.StatusOf[portal.View](w.World) }, time.Minute+time.Second)
		w.ExecuteWorkflow(portalworkflow.StatusPortal, portalworkflow.Input{})
		require.Len(t, view.Upcoming, openings)
	}
}

func TestAWindowKnowsWhoFollowsItWhateverElseIsSaidInThatMoment(t *testing.T) {
	follow := func(run string) workflowtest.Sending {
		return workflowtest.Sending{Name: temporal.SignalFollowWindow, Payload: temporal.Subscription{WorkflowID: "cgu/ops/june", FirstRunID: run}}
	}
	leave := func(run string) workflowtest.Sending {
		return workflowtest.Sending{Name: temporal.SignalLeaveWindow, Payload: temporal.Subscription{WorkflowID: "cgu/ops/june", FirstRunID: run}}
	}
	for _, tt := range []struct {
		name string
		said []workflowtest.Sending
		want []string
	}{
		{"one that leaves", []workflowtest.Sending{follow("1"), leave("1")}, nil},
		{"one that leaves, and the next of its id", []workflowtest.Sending{leave("1"), follow("2")}, []string{"cgu/ops/june"}},
		{"one that comes back", []workflowtest.Sending{follow("1"), leave("1"), follow("1")}, []string{"cgu/ops/june"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := workflowtest.NewWindowWorld(t, workflowtest.Noon)
			w.Order(0, temporal.UpdateDefine, workflowtest.Defined())
			w.RegisterDelayedCallback(func() { w.SendTogether(tt.said...) }, time.Minute)
			var followers []string
			w.RegisterDelayedCallback(func() { followers = workflowtest.StatusOf[windows.Status](w.World).Followers }, 2*time.Minute)
			w.RunsOn(window.Input{})
			require.Equal(t, tt.want, followers)
		})
	}
}

func TestAWindowThatIsCancelledWhileAnEditReadsItsCalendarStaysCancelled(t *testing.T) {
	w := workflowtest.NewWindowWorld(t, workflowtest.Noon)
	w.Order(0, temporal.UpdateDefine, workflowtest.Defined())
	w.Order(time.Minute, temporal.UpdateEdit, workflowtest.Defined())
	w.RegisterDelayedCallback(func() { w.SignalWorkflow(temporal.SignalCancel, nil) }, time.Minute)
	w.ExecuteWorkflow(window.MaintenanceWindow, window.Input{})
	require.NoError(t, w.GetWorkflowError(), "it opens no more")
	require.Len(t, w.Refusals, 1)
	require.Contains(t, w.Refusals[0], "the window was cancelled meanwhile: say it once more to have the window open again")
}

func TestAWindowThatIsEditedAfterItWasCancelledOpensAgain(t *testing.T) {
	w := workflowtest.NewWindowWorld(t, workflowtest.Noon)
	w.Order(0, temporal.UpdateDefine, workflowtest.Defined())
	w.RegisterDelayedCallback(func() { w.SignalWorkflowSkippingWorkflowTask(temporal.SignalCancel, nil) }, time.Minute)
	w.Order(time.Minute, temporal.UpdateEdit, workflowtest.Defined())
	w.RunsOn(window.Input{})
	require.Empty(t, w.Refusals)
	require.WithinDuration(t, workflowtest.Noon.Add(14*time.Hour), w.Now(), 2*time.Second)
}

func TestASweeperThatIsWokenAfterItWasCancelledGoesOn(t *testing.T) {
	for _, said := range [][]string{{temporal.SignalWake, temporal.SignalCancel}, {temporal.SignalCancel, temporal.SignalWake}} {
		w := workflowtest.NewSweptWorld(t)
		w.When(func() bool { return len(w.Looks()) == 1 }, func() { w.SayTogether(said...) })
		w.ExecuteWorkflow(sweeper.Sweeper, sweeper.Input{Cluster: "c1"})
		require.Equal(t, said[1] == temporal.SignalWake, workflow.IsContinueAsNewError(w.GetWorkflowError()), "%v", w.GetWorkflowError())
	}
}

func TestWhatWasSaidInTheLastMomentOfARunIsHeardInItsOrder(t *testing.T) {
	w := workflowtest.NewToldWorld(t)
	subscribe := func(signal, run string) workflowtest.Sending {
		return workflowtest.Sending{Name: signal, Payload: temporal.Subscription{WorkflowID: "cgu/ops/june", FirstRunID: run}}
	}
	w.At(1, func() {
		for _, s := range []workflowtest.Sending{
			subscribe(temporal.SignalFollowHolds, "1"), subscribe(temporal.SignalLeaveHolds, "1"), subscribe(temporal.SignalFollowHolds, "1"),
			{Name: temporal.SignalHold, Payload: emergency.Request{All: true}},
		} {
			w.SignalWorkflowSkippingWorkflowTask(s.Name, s.Payload)
		}
	})
	w.At(2, func() { w.SetContinueAsNewSuggested(true) })
	w.ExecuteWorkflow(emergencystop.EmergencyStop, emergencystop.Input{Carried: &emergencystop.Carried{State: emergency.State{Number: 1}, Kept: 1}})
	var next *workflow.ContinueAsNewError
	require.ErrorAs(t, w.GetWorkflowError(), &next)
	var in emergencystop.Input
	require.NoError(t, converter.GetDefaultDataConverter().FromPayloads(next.Input, &in))
	require.Equal(t, []string{"all"}, workflowtest.Scopes(in.Carried.State))
	require.Len(t, in.Carried.Followers, 1)
}

func TestAWorkerThatDoesNotKnowTheOrderOfSignalsRunsNothing(t *testing.T) {
	w := workflowtest.NewWorld(t)
	w.SetWorkerOptions(worker.Options{DeadlockDetectionTimeout: time.Minute})
	w.ExecuteWorkflow(listener, time.Duration(0))
	require.ErrorContains(t, w.GetWorkflowError(), "SignalOrder is missing among the interceptors of this worker")
}
