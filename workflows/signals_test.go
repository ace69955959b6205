package workflows

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
)

// sending is a signal with its payload.
type sending struct {
	name    string
	payload any
}

// sendTogether sends signals that one workflow task brings: of all but the last, no task is told.
func (w *world) sendTogether(signals ...sending) {
	last := len(signals) - 1
	for _, s := range signals[:last] {
		w.SignalWorkflowSkippingWorkflowTask(s.name, s.payload)
	}
	w.SignalWorkflow(signals[last].name, signals[last].payload)
}

// sayTogether sends signals without a payload.
func (w *world) sayTogether(names ...string) {
	var signals []sending
	for _, name := range names {
		signals = append(signals, sending{name: name})
	}
	w.sendTogether(signals...)
}

// listener hears signals a, b and c, from a while after its beginning on, and returns them in the order in which it heard them.
func listener(ctx workflow.Context, deafFor time.Duration) ([]string, error) {
	if err := workflow.Sleep(ctx, deafFor); err != nil {
		return nil, err
	}
	var heard []string
	over := false
	for _, name := range []string{"c", "a", "b"} {
		onSignal(ctx, name, "", func(number int) { heard = append(heard, fmt.Sprintf("%s%d", name, number)) })
	}
	onSignal(ctx, "over", "", func(struct{}) { over = true })
	err := workflow.Await(ctx, func() bool { return over })
	hearSignals(ctx)
	return heard, err
}

func TestSignalsAreHeardInTheOrderInWhichTheyWereSent(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		names := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c", "nobody's"}), 1, 12).Draw(r, "names")
		deafFor := rapid.SampledFrom([]time.Duration{0, time.Hour}).Draw(r, "deaf for")
		unreadable := rapid.IntRange(0, len(names)).Draw(r, "unreadable")
		w := newWorld(t)
		var sent []sending
		var want []string
		for i, name := range names {
			switch {
			case i == unreadable:
				sent = append(sent, sending{name, "no number"})
				continue
			case name != "nobody's":
				want = append(want, fmt.Sprintf("%s%d", name, i))
			}
			sent = append(sent, sending{name, i})
		}
		w.RegisterDelayedCallback(func() { w.sendTogether(append(sent, sending{name: "over"})...) }, time.Minute)
		w.ExecuteWorkflow(listener, deafFor)
		var heard []string
		require.NoError(r, w.GetWorkflowError())
		require.NoError(r, w.GetWorkflowResult(&heard))
		require.Equal(r, want, heard)
	})
}

func TestWhatIsPausedAndResumedInOneMomentIsAsWasSaidLast(t *testing.T) {
	rollouts := func(w *world) { w.ExecuteWorkflow(ClusterGroupUpgrade, ClusterGroupUpgradeInput{Object: aRollout()}) }
	for name, scene := range map[string]struct {
		begin  func() (*world, *children)
		run    func(*world)
		paused func(*world) bool
	}{
		"a rollout": {
			func() (*world, *children) { return newGroupWorld(t, []string{"c1"}) }, rollouts,
			func(w *world) bool { return statusOf[groupStatus](w).Paused },
		},
		"a cluster": {
			func() (*world, *children) { return newClusterWorld(t, 0, 1, 1) },
			func(w *world) { w.ExecuteWorkflow(ClusterUpgrade, oneCluster()) },
			func(w *world) bool { return statusOf[ranv1.ClusterUpgradeStatus](w).Paused },
		},
	} {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(r *rapid.T) {
				said := rapid.SliceOfN(rapid.SampledFrom([]string{temporal.SignalPause, temporal.SignalResume}), 1, 6).Draw(r, "said")
				w, work := scene.begin()
				work.ends["c1"], work.ends["w0"] = never, never
				var paused bool
				w.RegisterDelayedCallback(func() { w.sayTogether(said...) }, time.Minute)
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
		w, clusters := newGroupWorld(t, []string{"c1"})
		object := aRollout()
		object.Spec.Enable = new(bool)
		w.RegisterDelayedCallback(func() { w.sayTogether(said...) }, time.Minute)
		w.ExecuteWorkflow(ClusterGroupUpgrade, ClusterGroupUpgradeInput{Object: object})
		requireCancelled[groupStatus](w)
		require.Empty(t, clusters.events)
	}
}

func TestANodeWhoseWorkFailsAndRecoversInOneMomentIsAsWasSaidLast(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		said := rapid.SliceOfN(rapid.SampledFrom([]string{temporal.SignalFail, temporal.SignalRecover}), 1, 6).Draw(r, "said")
		want := map[string]maintenancev1.NodeState{temporal.SignalFail: maintenancev1.NodeRequestorFailed, temporal.SignalRecover: maintenancev1.NodeReady}
		w := newWorld(t)
		var state maintenancev1.NodeState
		w.RegisterDelayedCallback(func() { w.sayTogether(said...) }, time.Hour)
		w.RegisterDelayedCallback(func() {
			state = statusOf[nodeStatus](w).State
			w.SignalWorkflow(temporal.SignalDone, nil)
		}, 2*time.Hour)
		w.ExecuteWorkflow(NodeMaintenance, handOver())
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
			w := newWorld(t)
			w.RegisterDelayedCallback(func() { w.sayTogether(tt.said...) }, time.Hour)
			w.ExecuteWorkflow(NodeMaintenance, handOver())
			require.True(t, w.IsWorkflowCompleted())
			states := states(statusOf[nodeStatus](w))
			require.Equal(t, tt.want, states[len(states)-1])
			require.Equal(t, slices.Contains(tt.said, done) && tt.said[0] != cancel, slices.Contains(w.called(), "AwaitNodeHealthy"),
				"what was worked on is looked at, though it was cancelled then")
		})
	}
}

func TestAHoldThatWasSaidBeforeAReleaseIsReleased(t *testing.T) {
	w := newToldWorld(t)
	var release *answer
	w.at(1, func() { w.asks(temporal.UpdateHold, holdC1) })
	w.at(2, func() {
		w.SignalWorkflowSkippingWorkflowTask(temporal.SignalHold, holdC1)
		release = w.asks(temporal.UpdateRelease, holdC1)
	})
	w.ends(3)
	carried := w.carriedOver(EmergencyStopInput{})
	require.True(t, release.done)
	require.Empty(t, carried.State.Holds)
}

func TestAReleaseThatCannotSeeTheHoldYetIsRefusedAndTheClusterHeld(t *testing.T) {
	w := newToldWorld(t)
	var release *answer
	w.at(2, func() {
		w.SignalWorkflowSkippingWorkflowTask(temporal.SignalHold, holdC1)
		release = w.asks(temporal.UpdateRelease, holdC1)
	})
	w.ends(3)
	carried := w.carriedOver(EmergencyStopInput{})
	require.ErrorContains(t, release.refused, "clusters[0]: c1 is not held by its name")
	require.Equal(t, []string{"cluster/c1"}, scopes(carried.State))
}

func TestAHoldThatWasSaidAfterAReleaseHolds(t *testing.T) {
	w := newToldWorld(t)
	w.at(1, func() { w.asks(temporal.UpdateHold, holdC1) })
	w.at(2, func() {
		w.asks(temporal.UpdateRelease, holdC1)
		w.SignalWorkflow(temporal.SignalHold, holdC1)
	})
	w.ends(3)
	require.Equal(t, []string{"cluster/c1"}, scopes(w.carriedOver(EmergencyStopInput{}).State))
}

func TestAPortalShowsAWindowThatIsAnnouncedAfterAllWasDeleted(t *testing.T) {
	announced, deleted := sending{temporal.SignalAnnouncement, nightAnnounced(1, noon.Add(time.Hour))}, sending{name: temporal.SignalCancel}
	for openings, said := range map[int][]sending{2: {deleted, announced}, 0: {announced, deleted}} {
		w := newPortalWorld(t)
		w.order(0, temporal.UpdateApply, shop())
		w.RegisterDelayedCallback(func() { w.sendTogether(said...) }, time.Minute)
		var view portal.View
		w.RegisterDelayedCallback(func() { view = statusOf[portal.View](w.world) }, time.Minute+time.Second)
		w.ExecuteWorkflow(StatusPortal, StatusPortalInput{})
		require.Len(t, view.Upcoming, openings)
	}
}

func TestAWindowKnowsWhoFollowsItWhateverElseIsSaidInThatMoment(t *testing.T) {
	follow := func(run string) sending {
		return sending{temporal.SignalFollowWindow, temporal.Subscription{WorkflowID: "cgu/ops/june", FirstRunID: run}}
	}
	leave := func(run string) sending {
		return sending{temporal.SignalLeaveWindow, temporal.Subscription{WorkflowID: "cgu/ops/june", FirstRunID: run}}
	}
	for _, tt := range []struct {
		name string
		said []sending
		want []string
	}{
		{"one that leaves", []sending{follow("1"), leave("1")}, nil},
		{"one that leaves, and the next of its id", []sending{leave("1"), follow("2")}, []string{"cgu/ops/june"}},
		{"one that comes back", []sending{follow("1"), leave("1"), follow("1")}, []string{"cgu/ops/june"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWindowWorld(t, noon)
			w.order(0, temporal.UpdateDefine, defined())
			w.RegisterDelayedCallback(func() { w.sendTogether(tt.said...) }, time.Minute)
			var followers []string
			w.RegisterDelayedCallback(func() { followers = statusOf[windows.Status](w.world).Followers }, 2*time.Minute)
			w.runsOn(MaintenanceWindowInput{})
			require.Equal(t, tt.want, followers)
		})
	}
}

func TestAWindowThatIsCancelledWhileAnEditReadsItsCalendarStaysCancelled(t *testing.T) {
	w := newWindowWorld(t, noon)
	w.order(0, temporal.UpdateDefine, defined())
	w.order(time.Minute, temporal.UpdateEdit, defined())
	w.RegisterDelayedCallback(func() { w.SignalWorkflow(temporal.SignalCancel, nil) }, time.Minute)
	w.ExecuteWorkflow(MaintenanceWindow, MaintenanceWindowInput{})
	require.NoError(t, w.GetWorkflowError(), "it opens no more")
	require.Len(t, w.refusals, 1)
	require.Contains(t, w.refusals[0], "the window was cancelled meanwhile: say it once more to have the window open again")
}

func TestAWindowThatIsEditedAfterItWasCancelledOpensAgain(t *testing.T) {
	w := newWindowWorld(t, noon)
	w.order(0, temporal.UpdateDefine, defined())
	w.RegisterDelayedCallback(func() { w.SignalWorkflowSkippingWorkflowTask(temporal.SignalCancel, nil) }, time.Minute)
	w.order(time.Minute, temporal.UpdateEdit, defined())
	w.runsOn(MaintenanceWindowInput{})
	require.Empty(t, w.refusals)
	require.WithinDuration(t, noon.Add(14*time.Hour), w.Now(), 2*time.Second)
}

func TestASweeperThatIsWokenAfterItWasCancelledGoesOn(t *testing.T) {
	for _, said := range [][]string{{temporal.SignalWake, temporal.SignalCancel}, {temporal.SignalCancel, temporal.SignalWake}} {
		w := newSweptWorld(t)
		w.when(func() bool { return len(w.looks()) == 1 }, func() { w.sayTogether(said...) })
		w.ExecuteWorkflow(Sweeper, SweeperInput{Cluster: "c1"})
		require.Equal(t, said[1] == temporal.SignalWake, workflow.IsContinueAsNewError(w.GetWorkflowError()), "%v", w.GetWorkflowError())
	}
}

func TestWhatWasSaidInTheLastMomentOfARunIsHeardInItsOrder(t *testing.T) {
	w := newToldWorld(t)
	subscribe := func(signal, run string) sending {
		return sending{signal, temporal.Subscription{WorkflowID: "cgu/ops/june", FirstRunID: run}}
	}
	w.at(1, func() {
		for _, s := range []sending{
			subscribe(temporal.SignalFollowHolds, "1"), subscribe(temporal.SignalLeaveHolds, "1"), subscribe(temporal.SignalFollowHolds, "1"),
			{temporal.SignalHold, emergency.Request{All: true}},
		} {
			w.SignalWorkflowSkippingWorkflowTask(s.name, s.payload)
		}
	})
	w.at(2, func() { w.SetContinueAsNewSuggested(true) })
	w.ExecuteWorkflow(EmergencyStop, EmergencyStopInput{Carried: &EmergencyStopCarried{State: emergency.State{Number: 1}, Kept: 1}})
	var next *workflow.ContinueAsNewError
	require.ErrorAs(t, w.GetWorkflowError(), &next)
	var in EmergencyStopInput
	require.NoError(t, converter.GetDefaultDataConverter().FromPayloads(next.Input, &in))
	require.Equal(t, []string{"all"}, scopes(in.Carried.State))
	require.Len(t, in.Carried.Followers, 1)
}

func TestAWorkerThatDoesNotKnowTheOrderOfSignalsRunsNothing(t *testing.T) {
	w := newWorld(t)
	w.SetWorkerOptions(worker.Options{DeadlockDetectionTimeout: time.Minute})
	w.ExecuteWorkflow(listener, time.Duration(0))
	require.ErrorContains(t, w.GetWorkflowError(), "SignalOrder is missing among the interceptors of this worker")
}
