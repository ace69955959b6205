package workflows

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/workflow"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/drydock/activities"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/emergency"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/internal/windows"
)

const nightWindow = "ops/night"

// opensAt is what a closed window tells that opens then, for four hours.
func opensAt(number int64, start time.Time) windows.Standing {
	return windows.Standing{
		Window: nightWindow, Number: number, OnOverrun: drydockv1.OverrunFinish,
		Outlook: windows.Outlook{Name: nightWindow, Openings: []windows.Opening{{Start: start, End: start.Add(4 * time.Hour)}}, Last: true},
	}
}

// openUntil is what a window tells that is open until then, and opens again a day later.
func openUntil(number int64, end time.Time) windows.Standing {
	s := opensAt(number, end.Add(20*time.Hour))
	s.Outlook.Openings = append([]windows.Opening{{Start: end.Add(-4 * time.Hour), End: end, Begun: true}}, s.Outlook.Openings...)
	return s
}

// tells lets the window say something a while after the workflow began.
func (w *world) tells(after time.Duration, standing windows.Standing) {
	w.RegisterDelayedCallback(func() { w.SignalWorkflow(temporal.SignalWindow, standing) }, after)
}

// inWindows is a rollout that may be at work while the window is open.
func inWindows() ClusterGroupUpgradeInput {
	object := aRollout()
	object.Namespace = "ops"
	object.Spec.MaintenanceWindows = []drydockv1.WindowName{"night"}
	return ClusterGroupUpgradeInput{Object: object}
}

func requireWindowWait(t *testing.T, s groupStatus, says string) {
	t.Helper()
	require.NotNil(t, s.Wait)
	require.Equal(t, emergency.ReasonWaitingForWindow, s.Wait.Reason)
	require.Contains(t, s.Wait.Message, says)
	require.Equal(t, "WaitingForWindow; Maintaining nodes", meta.FindStatusCondition(s.Conditions, ranv1.ConditionProgressing).Message)
	require.Nil(t, s.Status.CurrentBatchDeadline, "the clock stands still")
	require.Nil(t, s.Status.Deadline)
}

func TestARolloutWaitsForItsWindowAndItsClockStandsStill(t *testing.T) {
	w, clusters := newGroupWorld(t, []string{"c1"}, []string{"c2"})
	start := w.Now()
	opening := start.Add(10 * time.Hour)
	w.windows = map[string]windows.Standing{nightWindow: opensAt(1, opening)}
	w.lookAfter(9*time.Hour, func() {
		require.Empty(t, clusters.events)
		status := statusOf[groupStatus](w)
		requireWindowWait(t, status, "window ops/night is closed; it opens "+opening.UTC().Format(clockFormat))
		require.WithinDuration(t, opening, status.Wait.Until.Time, time.Second)
		require.Equal(t, emergency.ReasonWaitingForWindow, status.Clusters[0].Reason)
	})
	w.tells(10*time.Hour, openUntil(2, opening.Add(4*time.Hour)))
	w.ExecuteWorkflow(ClusterGroupUpgrade, inWindows())
	status := requireResult[groupStatus](w)
	require.Equal(t, int32(2), status.Counts.Complete)
	require.Nil(t, status.Held)
	require.Len(t, w.toldOf(temporal.SignalLeaveWindow), 1)
}

// confirmed is what a closed window tells that opens then whatever happens to it meanwhile.
func confirmed(number int64, start time.Time) windows.Standing {
	s := opensAt(number, start)
	s.Outlook.Openings[0].Confirmed = true
	s.Next = new(start.Add(4 * time.Hour))
	return s
}

func TestARolloutBeginsAtTheStartOfAnOpeningThatWasConfirmed(t *testing.T) {
	w, clusters := newGroupWorld(t, []string{"c1"})
	opening := w.Now().Add(10 * time.Hour)
	w.windows = map[string]windows.Standing{nightWindow: opensAt(1, opening)}
	w.tells(10*time.Hour-time.Minute, confirmed(2, opening))
	w.lookAfter(10*time.Hour-time.Second, func() { require.Empty(t, clusters.events) })
	w.ExecuteWorkflow(ClusterGroupUpgrade, inWindows())
	require.Equal(t, int32(1), requireResult[groupStatus](w).Counts.Complete)
	require.WithinDuration(t, opening, w.Now(), time.Minute)
}

func TestAMaintenanceBeginsAtTheStartOfAnOpeningThatWasConfirmed(t *testing.T) {
	w := newWorld(t)
	opening := w.Now().Add(10 * time.Hour)
	w.windows = map[string]windows.Standing{nightWindow: confirmed(1, opening)}
	w.lookAfter(10*time.Hour-time.Second, func() { require.Empty(t, w.schedulerCalls) })
	w.ExecuteWorkflow(NodeMaintenance, maintenanceInWindow())
	require.Nil(t, requireResult[nodeStatus](w).Held)
	require.WithinDuration(t, opening, w.Now(), time.Minute)
}

func TestNothingBeginsInAnOpeningThatWasCancelledAfterItWasConfirmed(t *testing.T) {
	w, clusters := newGroupWorld(t, []string{"c1"})
	opening := w.Now().Add(10 * time.Hour)
	w.windows = map[string]windows.Standing{nightWindow: confirmed(1, opening)}
	w.tells(10*time.Hour-time.Second, opensAt(2, opening.Add(24*time.Hour)))
	w.lookAfter(20*time.Hour, func() {
		require.Empty(t, clusters.events)
		requireWindowWait(t, statusOf[groupStatus](w), "window ops/night is closed")
	})
	w.tells(34*time.Hour, openUntil(3, opening.Add(28*time.Hour)))
	w.ExecuteWorkflow(ClusterGroupUpgrade, inWindows())
	require.Equal(t, int32(1), requireResult[groupStatus](w).Counts.Complete)
}

// The first cluster takes as long as the window is open: the second has its turn in the next opening.
func TestARolloutThatNeedsTwoOpeningsGoesOnWhereItStood(t *testing.T) {
	w, clusters := newGroupWorld(t, []string{"c1", "c2"}, []string{"c3"})
	clusters.ends["c2"] = func(ctx workflow.Context) error { return workflow.Sleep(ctx, 50*time.Minute) }
	start := w.Now()
	w.windows = map[string]windows.Standing{nightWindow: openUntil(1, start.Add(20*time.Minute))}
	w.tells(20*time.Minute, opensAt(2, start.Add(24*time.Hour)))
	w.lookAfter(23*time.Hour, func() {
		require.Equal(t, []string{"+c1", "+c2", "-c1", "-c2"}, clusters.story(), "what is at work finishes")
		requireWindowWait(t, statusOf[groupStatus](w), "window ops/night is closed")
	})
	w.tells(24*time.Hour, openUntil(3, start.Add(28*time.Hour)))
	w.ExecuteWorkflow(ClusterGroupUpgrade, inWindows())
	require.Equal(t, int32(3), requireResult[groupStatus](w).Counts.Complete, "60 minutes are enough: the time outside the window is not charged")
}

func TestAWindowThatIsNotKnownIsClosedAndTheRolloutSaysSo(t *testing.T) {
	for name, tt := range map[string]struct {
		windows map[string]windows.Standing
		says    string
	}{
		"because it does not answer":        {nil, "window ops/night has not said yet whether it is open"},
		"because nobody has defined it":     {map[string]windows.Standing{nightWindow: {Window: nightWindow, Number: 1, Trouble: "nobody has defined it"}}, "counts as closed: nobody has defined it"},
		"because its calendar is no longer": {map[string]windows.Standing{nightWindow: {Window: nightWindow, Number: 1, Trouble: "spec.timeZone: unknown"}}, "counts as closed: spec.timeZone: unknown"},
	} {
		t.Run(name, func(t *testing.T) {
			w, clusters := newGroupWorld(t, []string{"c1"})
			w.windows = tt.windows
			w.lookAfter(time.Hour, func() {
				require.Empty(t, clusters.events)
				requireWindowWait(t, statusOf[groupStatus](w), tt.says)
			})
			w.tells(2*time.Hour, openUntil(2, w.Now().Add(4*time.Hour)))
			w.ExecuteWorkflow(ClusterGroupUpgrade, inWindows())
			require.Equal(t, int32(1), requireResult[groupStatus](w).Counts.Complete)
		})
	}
}

// Its workflow was terminated: it is asked once more, which starts one that nobody has defined.
func TestAWindowThatSaysNothingWhenItShouldIsAskedAgain(t *testing.T) {
	w, clusters := newGroupWorld(t, []string{"c1"})
	start := w.Now()
	silent := opensAt(1, start.Add(time.Hour))
	silent.Next = new(start.Add(time.Hour))
	w.windows = map[string]windows.Standing{nightWindow: silent}
	w.lookAfter(30*time.Minute, func() {
		w.windows[nightWindow] = windows.Standing{Window: nightWindow, Number: 2, Trouble: "nobody has defined it"}
	})
	w.lookAfter(2*time.Hour, func() {
		require.Empty(t, clusters.events)
		requireWindowWait(t, statusOf[groupStatus](w), "nobody has defined it")
		w.SignalWorkflow(temporal.SignalCancel, nil)
	})
	w.ExecuteWorkflow(ClusterGroupUpgrade, inWindows())
	requireCancelled[groupStatus](w)
}

// It said that nothing would happen by itself, or nothing at all: neither is believed for ever.
func TestAWindowThatNeedNotSayAnythingIsAskedEveryHour(t *testing.T) {
	for name, first := range map[string]map[string]windows.Standing{
		"because nobody had defined it":    {nightWindow: {Window: nightWindow, Number: 1, Trouble: "nobody has defined it"}},
		"because it has not even answered": {},
	} {
		t.Run(name, func(t *testing.T) {
			w, _ := newGroupWorld(t, []string{"c1"})
			start := w.Now()
			w.windows = first
			w.lookAfter(30*time.Minute, func() { w.windows[nightWindow] = openUntil(2, start.Add(4*time.Hour)) })
			w.ExecuteWorkflow(ClusterGroupUpgrade, inWindows())
			require.Equal(t, int32(1), requireResult[groupStatus](w).Counts.Complete)
			require.WithinDuration(t, start.Add(time.Hour), w.Now(), 5*time.Minute)
		})
	}
}

func TestAClusterThatWouldNotBeDoneInTimeWaitsForTheNextOpening(t *testing.T) {
	w, clusters := newGroupWorld(t, []string{"c1"}, []string{"c2"})
	clusters.takes = 25 * time.Minute
	start := w.Now()
	w.windows = map[string]windows.Standing{nightWindow: openUntil(1, start.Add(45*time.Minute))}
	w.lookAfter(40*time.Minute, func() {
		require.Equal(t, []string{"+c1", "-c1"}, clusters.story())
		requireWindowWait(t, statusOf[groupStatus](w), "closes before what is next would be done")
	})
	w.tells(21*time.Hour, openUntil(2, start.Add(25*time.Hour)))
	w.ExecuteWorkflow(ClusterGroupUpgrade, inWindows())
	require.Equal(t, int32(2), requireResult[groupStatus](w).Counts.Complete)
}

// The first cluster is at work over a day in which the window is closed, and took half an hour of it. It would not have fitted otherwise: an opening in sight is
// long enough.
func TestTheTimeInWhichAWindowWasClosedIsNoPartOfHowLongAClusterTakes(t *testing.T) {
	w, clusters := newGroupWorld(t, []string{"c1"}, []string{"c2"})
	clusters.ends["c1"] = func(ctx workflow.Context) error { return workflow.Sleep(ctx, 24*time.Hour+10*time.Minute) }
	start := w.Now()
	w.windows = map[string]windows.Standing{nightWindow: openUntil(1, start.Add(20*time.Minute))}
	w.tells(20*time.Minute, opensAt(2, start.Add(24*time.Hour)))
	again := openUntil(3, start.Add(26*time.Hour))
	again.Outlook.Openings[1].End = again.Outlook.Openings[1].Start.AddDate(0, 0, 3)
	w.tells(24*time.Hour, again)
	w.ExecuteWorkflow(ClusterGroupUpgrade, inWindows())
	require.Equal(t, int32(2), requireResult[groupStatus](w).Counts.Complete)
	require.WithinDuration(t, start.Add(24*time.Hour+11*time.Minute), w.Now(), 5*time.Minute, "the second begins at once")
}

func TestOnlyClustersThatAWindowSelectsAreStartedInIt(t *testing.T) {
	w, clusters := newGroupWorld(t, []string{"c1", "c2"})
	standing := openUntil(1, w.Now().Add(4*time.Hour))
	standing.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"site": "a"}}
	w.windows, w.selected = map[string]windows.Standing{nightWindow: standing}, []string{"c2"}
	clusters.ends["c2"] = takes(30 * time.Minute)
	w.lookAfter(10*time.Minute, func() {
		status := statusOf[groupStatus](w)
		require.NotNil(t, status.Status.CurrentBatchDeadline, "the clock runs for the one that is at work")
		require.Nil(t, status.Held)
		require.Equal(t, emergency.ReasonWaitingForWindow, status.Clusters[0].Reason)
	})
	w.lookAfter(time.Hour, func() {
		require.Nil(t, statusOf[groupStatus](w).Status.CurrentBatchDeadline, "it stands still while only held ones are left")
		require.Equal(t, []string{"+c2", "-c2"}, clusters.story())
		require.Contains(t, statusOf[groupStatus](w).Clusters[0].Message, "none of the maintenance windows selects the cluster")
	})
	all := openUntil(2, w.Now().Add(4*time.Hour))
	w.tells(2*time.Hour, all)
	w.ExecuteWorkflow(ClusterGroupUpgrade, inWindows())
	require.Equal(t, int32(2), requireResult[groupStatus](w).Counts.Complete)
}

func TestAnEmergencyOverrideLetsARolloutGoOn(t *testing.T) {
	w, _ := newGroupWorld(t, []string{"c1"})
	start := w.Now()
	w.windows = map[string]windows.Standing{nightWindow: opensAt(1, start.Add(24*time.Hour))}
	overridden := opensAt(2, start.Add(24*time.Hour))
	overridden.Override = &windows.Override{By: "ann", Reason: "CVE", Since: start, Until: start.Add(2 * time.Hour)}
	w.tells(time.Hour, overridden)
	w.ExecuteWorkflow(ClusterGroupUpgrade, inWindows())
	requireResult[groupStatus](w)
	require.WithinDuration(t, start.Add(61*time.Minute), w.Now(), 2*time.Minute)
}

func TestARolloutThatWaitsForAWindowContinuesAsNewAndKnowsIt(t *testing.T) {
	w, clusters := newGroupWorld(t, []string{"c1"}, []string{"c2"})
	w.windows = map[string]windows.Standing{nightWindow: openUntil(7, w.Now().Add(4*time.Hour))}
	clusters.ends["c1"] = func(workflow.Context) error {
		w.SetContinueAsNewSuggested(true)
		return nil
	}
	w.ExecuteWorkflow(ClusterGroupUpgrade, inWindows())
	var next *workflow.ContinueAsNewError
	require.ErrorAs(t, w.GetWorkflowError(), &next)
	var in ClusterGroupUpgradeInput
	require.NoError(t, converter.GetDefaultDataConverter().FromPayloads(next.Input, &in))
	second, _ := newGroupWorld(t) // its window does not answer again
	second.SetStartTime(w.Now())
	second.ExecuteWorkflow(ClusterGroupUpgrade, in)
	require.Equal(t, int32(2), requireResult[groupStatus](second).Counts.Complete)
}

// Nothing is at work, so that the history need not grow until the window opens: it may do so for months.
func TestARolloutContinuesAsNewWhileItsWindowIsClosed(t *testing.T) {
	w, clusters := newGroupWorld(t, []string{"c1"}, []string{"c2"})
	start := w.Now()
	w.windows = map[string]windows.Standing{nightWindow: openUntil(1, start.Add(50*time.Minute))}
	clusters.ends["c1"] = takes(30 * time.Minute) // another would not fit any more
	w.tells(50*time.Minute, opensAt(2, start.Add(24*time.Hour)))
	w.RegisterDelayedCallback(func() { w.SetContinueAsNewSuggested(true) }, 2*time.Hour)
	w.tells(3*time.Hour, opensAt(3, start.Add(24*time.Hour)))
	w.ExecuteWorkflow(ClusterGroupUpgrade, inWindows())
	require.WithinDuration(t, start.Add(2*time.Hour), w.Now(), time.Hour)
	in := handedOn[ClusterGroupUpgradeInput](w)
	require.NotNil(t, in)
	require.LessOrEqual(t, in.Carried.Used, time.Hour)

	second, _ := newGroupWorld(t) // its window does not answer again
	second.SetStartTime(w.Now())
	opening := start.Add(24 * time.Hour)
	second.lookAfter(20*time.Hour, func() {
		requireWindowWait(t, statusOf[groupStatus](second), "window ops/night is closed; it opens "+opening.UTC().Format(clockFormat))
	})
	second.tells(opening.Sub(w.Now()), openUntil(4, opening.Add(4*time.Hour)))
	second.ExecuteWorkflow(ClusterGroupUpgrade, *in)
	require.Equal(t, int32(2), requireResult[groupStatus](second).Counts.Complete)
	require.WithinDuration(t, opening, second.Now(), time.Hour)
}

func TestAClusterContinuesAsNewWhileItsWindowIsClosed(t *testing.T) {
	w, nodes := newClusterWorld(t, 0, 2, 1)
	nodes.takes = 10 * time.Minute
	w.RegisterDelayedCallback(func() { w.SignalWorkflow(temporal.SignalHeld, closedState(2, drydockv1.OverrunFinish)) }, 5*time.Minute)
	w.RegisterDelayedCallback(func() { w.SetContinueAsNewSuggested(true) }, time.Hour)
	w.RegisterDelayedCallback(func() { w.SignalWorkflow(temporal.SignalHeld, closedState(3, drydockv1.OverrunFinish)) }, 2*time.Hour)
	w.ExecuteWorkflow(ClusterUpgrade, oneCluster())
	in := handedOn[ClusterUpgradeInput](w)
	require.NotNil(t, in)
	require.Equal(t, nightWindow, in.Held.Of("c1").Window, "it does not believe that its window is open")

	second, nodes := newClusterWorld(t, 0, 2, 1)
	second.lookAfter(time.Hour, func() { require.Empty(t, nodes.story()) })
	second.releaseAfter(2*time.Hour, 4)
	second.ExecuteWorkflow(ClusterUpgrade, *in)
	require.Equal(t, int32(2), requireResult[ranv1.ClusterStatus](second).Nodes.Done)
}

// A replay does not know of queries: what they remembered, commands would depend on.
func TestAQueryRemembersNothingOfWhatWindowsAnswered(t *testing.T) {
	w := newWorld(t)
	w.registerAs("queried", func(ctx workflow.Context) (ranv1.ClusterGroupUpgradeStatus, error) {
		g := &groupUpgrade{batch: &batch{first: 1, last: 1}}
		g.status.Clusters = []ranv1.ClusterStatus{{Name: "c1", Batch: 1, State: ranv1.ClusterPending}}
		closed := opensAt(1, workflow.Now(ctx).Add(time.Hour))
		g.holds.windows = windowKeeper{ctx: ctx, names: []string{nightWindow}, told: map[string]windows.Standing{nightWindow: closed}}
		status := g.withHolds(g.status)
		require.Empty(t, g.holds.windows.answers)
		return status, nil
	})
	w.TestWorkflowEnvironment.ExecuteWorkflow("queried")
	require.Equal(t, nightWindow, requireResult[ranv1.ClusterGroupUpgradeStatus](w).Clusters[0].Held.Window)
}

// closedState is what a rollout tells its clusters while its windows are closed.
func closedState(number int64, action drydockv1.OverrunAction) emergency.State {
	return emergency.State{Number: number, Holds: []drydockv1.Hold{{
		Scope: drydockv1.HoldAll, Window: nightWindow, Reason: "window ops/night is closed", OnOverrun: action,
	}}}
}

func TestWhatBecomesOfNodesAtWorkWhenTheWindowCloses(t *testing.T) {
	for action, state := range map[drydockv1.OverrunAction]maintenancev1.NodeState{
		drydockv1.OverrunFinish: maintenancev1.NodeCompleted,
		drydockv1.OverrunPause:  maintenancev1.NodeCompleted, // a played node does not heed what it is told
		drydockv1.OverrunCancel: maintenancev1.NodePending,
	} {
		t.Run(string(action), func(t *testing.T) {
			w, nodes := newClusterWorld(t, 0, 2, 1)
			nodes.takes = 10 * time.Minute
			w.RegisterDelayedCallback(func() { w.SignalWorkflow(temporal.SignalHeld, closedState(2, action)) }, 5*time.Minute)
			w.lookAfter(10*time.Hour, func() {
				require.Equal(t, []string{"+w0", "-w0"}, nodes.story())
				status := statusOf[ranv1.ClusterUpgradeStatus](w)
				require.Equal(t, emergency.ReasonWaitingForWindow, status.Wait.Reason)
				require.Equal(t, state, status.Nodes[0].State)
			})
			w.releaseAfter(11*time.Hour, 3)
			w.ExecuteWorkflow(ClusterUpgrade, oneCluster())
			require.Equal(t, int32(2), requireResult[ranv1.ClusterStatus](w).Nodes.Done, "those that were returned have their turn again")
		})
	}
}

func TestNodesAtWorkAreReturnedWhenTheWindowClosesWhileTheClusterIsHeld(t *testing.T) {
	w, nodes := newClusterWorld(t, 0, 1, 1)
	nodes.takes = time.Hour
	held, closed := heldState(2, drydockv1.HoldCluster("c1")), closedState(3, drydockv1.OverrunCancel)
	closed.Holds = append(slices.Clone(held.Holds), closed.Holds...)
	w.RegisterDelayedCallback(func() { w.SignalWorkflow(temporal.SignalHeld, held) }, 5*time.Minute)
	w.RegisterDelayedCallback(func() { w.SignalWorkflow(temporal.SignalHeld, closed) }, 10*time.Minute)
	w.lookAfter(15*time.Minute, func() {
		require.Equal(t, []string{"+w0", "-w0"}, nodes.story())
		require.Equal(t, emergency.ReasonHeld, statusOf[ranv1.ClusterUpgradeStatus](w).Wait.Reason)
	})
	w.releaseAfter(11*time.Hour, 4)
	w.ExecuteWorkflow(ClusterUpgrade, oneCluster())
	require.Equal(t, int32(1), requireResult[ranv1.ClusterStatus](w).Nodes.Done)
}

// closesAt is what a rollout tells its clusters while its window is open.
func closesAt(number int64, at time.Time) emergency.State {
	hold := closedState(number, drydockv1.OverrunFinish).Holds[0]
	return emergency.State{Number: number, Closes: &emergency.Closing{At: at, Hold: hold}}
}

func TestClustersAreToldInAdvanceWhenTheWindowCloses(t *testing.T) {
	w := newWorld(t)
	w.registerAs("told", func(ctx workflow.Context) (emergency.State, error) {
		open := openUntil(1, workflow.Now(ctx).Add(4*time.Hour))
		open.Outlook.Openings[0].Cutoff = time.Hour
		k := holdKeeper{windows: windowKeeper{ctx: ctx, names: []string{nightWindow}, told: map[string]windows.Standing{nightWindow: open}}}
		return k.about("c1"), nil
	})
	start := w.Now()
	w.TestWorkflowEnvironment.ExecuteWorkflow("told")
	state := requireResult[emergency.State](w)
	require.Empty(t, state.Holds)
	require.WithinDuration(t, start.Add(3*time.Hour), state.Closes.At, time.Second, "the cutoff")
	require.Equal(t, nightWindow, state.Closes.Hold.Window)
	require.Contains(t, state.Closes.Hold.Reason, "was open for new work until")
	require.Zero(t, state.Closes.StopsAt, "what is at work is finished")
}

func TestClustersAreToldInAdvanceWhenNodesAtWorkStop(t *testing.T) {
	for _, action := range []drydockv1.OverrunAction{drydockv1.OverrunPause, drydockv1.OverrunCancel} {
		w := newWorld(t)
		w.registerAs("told", func(ctx workflow.Context) (emergency.State, error) {
			open := openUntil(1, workflow.Now(ctx).Add(4*time.Hour))
			open.OnOverrun, open.Outlook.Openings[0].Cutoff = action, time.Hour
			k := holdKeeper{windows: windowKeeper{ctx: ctx, names: []string{nightWindow}, told: map[string]windows.Standing{nightWindow: open}}}
			return k.about("c1"), nil
		})
		start := w.Now()
		w.TestWorkflowEnvironment.ExecuteWorkflow("told")
		closes := requireResult[emergency.State](w).Closes
		require.WithinDuration(t, start.Add(3*time.Hour), closes.At, time.Second, "nothing new begins")
		require.WithinDuration(t, start.Add(4*time.Hour), closes.StopsAt, time.Second)
	}
}

func TestNodesAtWorkStopWhenTheWindowClosesAlsoIfNothingIsToldAfterItsCutoff(t *testing.T) {
	w := newWorld(t)
	start := w.Now()
	open := openUntil(1, start.Add(4*time.Hour))
	open.OnOverrun, open.Outlook.Openings[0].Cutoff = drydockv1.OverrunPause, time.Hour
	w.windows = map[string]windows.Standing{nightWindow: open}
	cutOff := open
	cutOff.Number = 2
	w.fail["AwaitPodCompletion"] = func(int) error {
		if w.Now().Before(start.Add(3*time.Hour + time.Minute)) {
			return temporal.Error(temporal.ErrClusterUnreachable, "no answer", nil)
		}
		return nil
	}
	w.tells(3*time.Hour, cutOff)
	w.ExecuteWorkflow(NodeMaintenance, maintenanceInWindow())
	require.Equal(t, maintenancev1.NodeCompleted, requireResult[nodeStatus](w).State)
	require.WithinDuration(t, start.Add(4*time.Hour), *w.inputs["Drain"][0].(activities.DrainInput).Closes, time.Second)
}

// What the emergency stop holds does not even finish.
func TestClustersAreToldOfTheEmergencyStopBeforeTheirWindows(t *testing.T) {
	w := newWorld(t)
	w.registerAs("told", func(ctx workflow.Context) ([]emergency.State, error) {
		closed := opensAt(1, workflow.Now(ctx).Add(4*time.Hour))
		k := holdKeeper{windows: windowKeeper{ctx: ctx, names: []string{nightWindow}, told: map[string]windows.Standing{nightWindow: closed}}}
		k.state = heldState(1, drydockv1.HoldAll)
		held := k.about("c1")
		k.state = heldState(2)
		return []emergency.State{held, k.about("c1")}, nil
	})
	w.TestWorkflowEnvironment.ExecuteWorkflow("told")
	told := requireResult[[]emergency.State](w)
	require.Equal(t, "ann", told[0].Of("c1").By)
	require.Equal(t, nightWindow, told[0].Closed("c1").Window, "it may want the nodes at work back")
	require.Equal(t, nightWindow, told[1].Holds[0].Window)
}

// Nobody was there to tell them.
func TestNoNodeIsStartedAfterTheWindowHasClosedWhateverWasTold(t *testing.T) {
	w, nodes := newClusterWorld(t, 0, 2, 1)
	nodes.takes = 20 * time.Minute
	in := oneCluster()
	in.Held = closesAt(1, w.Now().Add(10*time.Minute))
	w.lookAfter(10*time.Hour, func() {
		require.Equal(t, []string{"+w0", "-w0"}, nodes.story())
		require.Equal(t, emergency.ReasonWaitingForWindow, statusOf[ranv1.ClusterUpgradeStatus](w).Wait.Reason)
	})
	w.releaseAfter(11*time.Hour, 2)
	w.ExecuteWorkflow(ClusterUpgrade, in)
	require.Equal(t, int32(2), requireResult[ranv1.ClusterStatus](w).Nodes.Done)
}

func TestNoNodeIsCordonedAfterTheWindowHasClosedWhateverWasTold(t *testing.T) {
	w := newWorld(t)
	w.locked = true
	w.fail["Cordon"] = func(call int) error {
		if call == 1 {
			return temporal.Error(temporal.ErrLockRefused, "taken back in the last moment", nil)
		}
		return nil
	}
	in := ofRollout()
	in.Held = closesAt(2, w.Now().Add(lockRefusedPause/2))
	w.ExecuteWorkflow(NodeMaintenance, in)
	require.Equal(t, maintenancev1.NodePending, requireResult[nodeStatus](w).State)
	require.Len(t, w.inputs["Cordon"], 1)
}

// closesOf is from when on what a step does is not to begin any more, by its input.
func closesOf(in any) *time.Time {
	switch in := in.(type) {
	case activities.TakeNodeInput:
		return in.Closes
	case activities.CordonInput:
		return in.Closes
	case activities.DrainInput:
		return in.Closes
	case activities.ClusterLockInput:
		return in.Closes
	default:
		return in.(activities.RunJobInput).Closes
	}
}

// answersWhen makes the cluster answer a step from then on, and the step refuse by the clock what came too late, as activities do. It returns when it began.
func (w *world) answersWhen(step string, then time.Time) (began *time.Time) {
	began = &time.Time{}
	w.fail[step] = func(call int) error {
		now := w.Now()
		if now.Before(then) {
			return temporal.Error(temporal.ErrClusterUnreachable, "no answer", nil)
		}
		if closes := closesOf(w.inputsOf(step)[call-1]); closes != nil && !now.Before(*closes) {
			return temporal.Error(temporal.ErrHeld, "the maintenance windows have closed", nil)
		}
		if began.IsZero() {
			*began = now
		}
		return nil
	}
	return began
}

// overruns are what becomes, after its window has closed, of a step that was only tried before. Only what has begun is finished.
var overruns = []struct {
	step   string
	action drydockv1.OverrunAction
	begins bool
}{
	{"TakeNode", drydockv1.OverrunFinish, false},
	{"TakeNode", drydockv1.OverrunPause, false},
	{"Cordon", drydockv1.OverrunFinish, false},
	{"Cordon", drydockv1.OverrunCancel, false},
	{"Drain", drydockv1.OverrunFinish, true},
	{"Drain", drydockv1.OverrunPause, false},
	{"RunJob", drydockv1.OverrunFinish, true},
	{"RunJob", drydockv1.OverrunPause, false},
}

// The workflow hears only afterwards that the window has closed: no attempt ends before, and nobody tells it.
func TestWhatAnAttemptIsToldKeepsItFromBeginningAfterTheWindowHasClosed(t *testing.T) {
	for _, tt := range overruns {
		t.Run(tt.step+" "+string(tt.action), func(t *testing.T) {
			w := newWorld(t)
			start := w.Now()
			closes := start.Add(2 * time.Second)
			w.locked = true
			open, again := openUntil(1, closes), openUntil(2, start.Add(28*time.Hour))
			open.OnOverrun, again.OnOverrun = tt.action, tt.action
			w.windows = map[string]windows.Standing{nightWindow: open}
			began := w.answersWhen(tt.step, closes)
			w.tells(24*time.Hour, again)
			w.ExecuteWorkflow(NodeMaintenance, maintenanceInWindow())
			require.Equal(t, maintenancev1.NodeCompleted, requireResult[nodeStatus](w).State)
			if tt.begins {
				require.WithinDuration(t, closes, *began, time.Minute, "it is finished")
			} else {
				require.WithinDuration(t, start.Add(24*time.Hour), *began, time.Minute, "it begins when the window opens again")
			}
		})
	}
}

// A rollout's node is told by its parent, which hears of it no earlier.
func TestWhatAnAttemptOfARolloutIsToldKeepsItFromBeginningAfterTheWindowHasClosed(t *testing.T) {
	for _, tt := range overruns {
		t.Run(tt.step+" "+string(tt.action), func(t *testing.T) {
			w := newWorld(t)
			start := w.Now()
			closes := start.Add(2 * time.Second)
			w.locked = true
			in := ofRollout()
			in.Held = closesAt(2, closes)
			if tt.action != drydockv1.OverrunFinish {
				in.Held.Closes.StopsAt = closes
			}
			began := w.answersWhen(tt.step, closes)
			w.releaseAfter(24*time.Hour, 3)
			w.ExecuteWorkflow(NodeMaintenance, in)
			state := requireResult[nodeStatus](w).State
			switch {
			case tt.begins:
				require.Equal(t, maintenancev1.NodeCompleted, state)
				require.WithinDuration(t, closes, *began, time.Minute, "it is finished")
			case tt.step == "TakeNode", tt.step == "Cordon":
				require.Equal(t, maintenancev1.NodePending, state, "it waits for another turn")
				require.Zero(t, *began)
			default:
				require.Equal(t, maintenancev1.NodeCompleted, state)
				require.WithinDuration(t, start.Add(24*time.Hour), *began, time.Minute)
			}
		})
	}
}

func TestTheLocksOfAClusterAreAskedForNothingAfterTheWindowHasClosedWhateverWasTold(t *testing.T) {
	w, _ := newClusterWorld(t, 0, 1, 1)
	start := w.Now()
	closes := start.Add(2 * time.Second)
	in := oneCluster()
	in.Held = closesAt(1, closes)
	began := w.answersWhen("RequestClusterMaintenance", closes)
	w.releaseAfter(24*time.Hour, 2)
	w.ExecuteWorkflow(ClusterUpgrade, in)
	require.Equal(t, int32(1), requireResult[ranv1.ClusterStatus](w).Nodes.Done)
	require.WithinDuration(t, start.Add(24*time.Hour), *began, time.Minute)
}

func TestNodesHearOfWindowsWhateverBecomesOfWorkThatHasBegun(t *testing.T) {
	w, nodes := newClusterWorld(t, 0, 1, 1)
	var heard []emergency.State
	nodes.ends["w0"] = func(ctx workflow.Context) error {
		for range 2 {
			var state emergency.State
			workflow.GetSignalChannel(ctx, temporal.SignalHeld).Receive(ctx, &state)
			heard = append(heard, state)
		}
		return nil
	}
	w.RegisterDelayedCallback(func() { w.SignalWorkflow(temporal.SignalHeld, closedState(2, drydockv1.OverrunFinish)) }, time.Minute)
	w.releaseAfter(2*time.Minute, 3)
	w.ExecuteWorkflow(ClusterUpgrade, oneCluster())
	requireResult[ranv1.ClusterStatus](w)
	require.Equal(t, nightWindow, heard[0].Holds[0].Window)
	require.Empty(t, heard[1].Holds)
}

// A rollout tells its nodes. What was only asked of a node's locks is not work that has begun, whether the emergency stop holds the cluster or not.
func TestANodeOfARolloutThatWasNotTakenWhenItsWindowClosedGivesBackItsSlotAndItsLocks(t *testing.T) {
	withdrawn := []string{"WithdrawNodeMaintenance", "AwaitNodeLocksActive", "ReturnNode"}
	for _, tt := range []struct {
		name, during, blocked string
		held                  bool
		then                  []string
	}{
		{name: "its locks are asked", during: "TakeNode", blocked: "AwaitNodeLocks", then: withdrawn},
		{name: "its locks are waited for", during: "AwaitNodeLocks", blocked: "AwaitNodeLocks", then: withdrawn},
		{name: "another has it", during: "AwaitNodeFree", blocked: "AwaitNodeFree", then: withdrawn[1:]},
		{name: "its locks are waited for, and its cluster is held", during: "AwaitNodeLocks", blocked: "AwaitNodeLocks", held: true, then: withdrawn},
		{name: "its locks have let go, and its cluster is held", during: "AwaitNodeLocks", held: true, then: withdrawn},
	} {
		t.Run("while "+tt.name, func(t *testing.T) {
			w := newWorld(t)
			w.locked, w.blocked[tt.blocked] = true, true
			if tt.blocked == "AwaitNodeFree" {
				w.fail["Cordon"] = once(temporal.Error(temporal.ErrNodeBusy, "another maintenance has it", nil))
			}
			closed := closedState(3, drydockv1.OverrunFinish)
			w.fail[tt.during] = func(int) error {
				if tt.held {
					held := heldState(2, drydockv1.HoldCluster("c1"))
					w.SignalWorkflow(temporal.SignalHeld, held)
					closed.Holds = append(held.Holds, closed.Holds...)
				}
				w.SignalWorkflow(temporal.SignalHeld, closed)
				return nil
			}
			in := ofRollout()
			start := w.Now()
			w.ExecuteWorkflow(NodeMaintenance, in)
			require.Equal(t, maintenancev1.NodePending, requireResult[nodeStatus](w).State, "it has its turn again when the rollout asks once more")
			require.WithinDuration(t, start.Add(standsBackAfter), w.Now(), 10*time.Second)
			called := w.called()
			require.NotContains(t, called[:len(called)-1], "ReturnNode")
			require.Equal(t, tt.then, called[len(called)-len(tt.then):])
			require.Equal(t, []any{activities.CallSchedulerInput{Cluster: "c1", Call: in.Slot.Return(false)}}, w.inputs["CallScheduler"])
		})
	}
}

func TestAMaintenanceWhoseWindowClosesWhileItWaitsForLocksGivesThemBackAndAsksAnewWhenItOpens(t *testing.T) {
	w := newWorld(t)
	start := w.Now()
	w.locked, w.blocked["AwaitNodeLocks"] = true, true
	w.windows = map[string]windows.Standing{nightWindow: openUntil(1, start.Add(time.Hour))}
	w.tells(time.Hour, opensAt(2, start.Add(24*time.Hour)))
	w.lookAfter(2*time.Hour, func() {
		called := w.called()
		require.Equal(t, []string{"TakeNode", "AwaitNodeLocks", "WithdrawNodeMaintenance", "AwaitNodeLocksActive", "WithdrawClusterMaintenance"}, called[len(called)-5:])
		require.True(t, w.book.Empty(), "others can have the slot")
		status := statusOf[nodeStatus](w)
		require.Equal(t, maintenancev1.NodePending, status.State)
		require.Equal(t, emergency.ReasonWaitingForWindow, status.Wait.Reason)
		require.InDelta(t, 3600-standsBackAfter.Seconds(), *status.LockTimeLeft.NodeSeconds, 10)
		w.mu.Lock()
		defer w.mu.Unlock()
		w.blocked["AwaitNodeLocks"] = false
	})
	w.tells(24*time.Hour, openUntil(3, start.Add(28*time.Hour)))
	in := maintenanceInWindow()
	in.Object.Spec.LockTimeoutSeconds = new(int32(2 * 3600))
	w.ExecuteWorkflow(NodeMaintenance, in)
	require.Equal(t, maintenancev1.NodeCompleted, requireResult[nodeStatus](w).State)
	waits := w.inputsOf("AwaitNodeLocks")
	require.Len(t, waits, 2)
	require.WithinDuration(t, start.Add(25*time.Hour-standsBackAfter), *waits[1].(activities.NodeLockInput).Deadline, 10*time.Second, "the locks have what was left of their time")
}

func TestANodeGivesNothingBackBetweenTwoWindowsThatFollowEachOther(t *testing.T) {
	w := newWorld(t)
	w.locked, w.blocked["AwaitNodeLocks"] = true, true
	w.when(func() bool { return len(w.inputsOf("AwaitNodeLocks")) > 0 }, func() {
		w.SignalWorkflow(temporal.SignalHeld, closedState(2, drydockv1.OverrunFinish))
		w.releaseAfter(30*time.Second, 3)
	})
	w.lookAfter(10*time.Minute, func() {
		require.Equal(t, []string{"TakeNode", "AwaitNodeLocks"}, w.called())
		w.SignalWorkflow(temporal.SignalCancel, nil)
	})
	w.ExecuteWorkflow(NodeMaintenance, ofRollout())
	requireCancelled[nodeStatus](w)
}

// The server did not answer: the node may be out of service.
func TestANodeThatMayHaveBeenTakenWhenItsWindowClosedIsReturnedBeforeItsSlotIs(t *testing.T) {
	for _, step := range []string{"TakeNode", "Cordon"} {
		t.Run("during "+step, func(t *testing.T) {
			w := newWorld(t)
			start := w.Now()
			w.locked = true
			w.fail[step] = unansweredWhile(func() { w.SignalWorkflow(temporal.SignalHeld, closedState(2, drydockv1.OverrunFinish)) })
			w.fail["ReturnNode"] = func(int) error {
				if w.Now().Before(start.Add(time.Hour)) {
					return temporal.Error(temporal.ErrClusterUnreachable, "no answer", nil)
				}
				return nil
			}
			w.lookAfter(50*time.Minute, func() { require.Empty(t, w.inputsOf("CallScheduler")) })
			in := ofRollout()
			w.ExecuteWorkflow(NodeMaintenance, in)
			require.Equal(t, maintenancev1.NodePending, requireResult[nodeStatus](w).State)
			require.WithinDuration(t, start.Add(time.Hour), w.Now(), laterRetry+time.Second)
			called := w.called()
			require.Equal(t, []string{"ReturnNode", "WithdrawNodeMaintenance", "AwaitNodeLocksActive", "ReturnNode"}, called[len(called)-4:])
			require.Equal(t, []any{activities.CallSchedulerInput{Cluster: "c1", Call: in.Slot.Return(false)}}, w.inputs["CallScheduler"])
		})
	}
}

func TestAMaintenanceThatMayHaveTakenItsNodeWhenItsWindowClosedReturnsItAndWaits(t *testing.T) {
	w := newWorld(t)
	start := w.Now()
	w.windows = map[string]windows.Standing{nightWindow: openUntil(1, start.Add(time.Hour))}
	w.fail["TakeNode"] = unansweredWhile(func() { w.SignalWorkflow(temporal.SignalWindow, opensAt(2, start.Add(24*time.Hour))) })
	w.lookAfter(time.Hour, func() {
		called := w.called()
		require.Equal(t, []string{"ReturnNode", "PlanMaintenance"}, called[slices.Index(called, "ReturnNode"):][:2])
		require.Equal(t, maintenancev1.NodePending, w.inputsOf("ReturnNode")[0].(activities.ReturnNodeInput).Ended.State)
		require.True(t, w.book.Empty(), "others can have the slot")
		require.Equal(t, maintenancev1.NodePending, statusOf[nodeStatus](w).State)
	})
	w.tells(24*time.Hour, openUntil(3, start.Add(28*time.Hour)))
	w.ExecuteWorkflow(NodeMaintenance, maintenanceInWindow())
	require.Equal(t, maintenancev1.NodeCompleted, requireResult[nodeStatus](w).State)
}

// unansweredWhile answers nothing for the first round of attempts, in which something happens.
func unansweredWhile(happens func()) func(call int) error {
	return func(call int) error {
		if call == 1 {
			happens()
		}
		if call <= roundAttempts {
			return temporal.Error(temporal.ErrClusterUnreachable, "no answer", nil)
		}
		return nil
	}
}

func TestANodeThatWasTakenWhenItsWindowClosedIsFinished(t *testing.T) {
	w := newWorld(t)
	w.fail["AwaitPodCompletion"] = func(int) error {
		w.SignalWorkflow(temporal.SignalHeld, closedState(2, drydockv1.OverrunFinish))
		return nil
	}
	w.ExecuteWorkflow(NodeMaintenance, wholeMaintenance())
	require.Equal(t, maintenancev1.NodeCompleted, requireResult[nodeStatus](w).State)
}

// maintenanceInWindow is one that nobody's rollout has, and may begin while the window is open.
func maintenanceInWindow() NodeMaintenanceInput {
	in := wholeMaintenance()
	in.Object.Namespace = "ops"
	in.Object.Spec.MaintenanceWindows = []drydockv1.WindowName{"night"}
	return in
}

func TestAMaintenanceAsksForNoSlotWhileItsWindowIsClosed(t *testing.T) {
	w := newWorld(t)
	w.windows = map[string]windows.Standing{nightWindow: opensAt(1, w.Now().Add(10*time.Hour))}
	w.lookAfter(9*time.Hour, func() {
		require.Empty(t, w.schedulerCalls)
		require.NotContains(t, w.called(), "TakeNode")
		status := statusOf[nodeStatus](w)
		require.Equal(t, emergency.ReasonWaitingForWindow, status.Wait.Reason)
		require.Equal(t, nightWindow, status.Held.Window)
	})
	w.tells(10*time.Hour, openUntil(2, w.Now().Add(14*time.Hour)))
	w.ExecuteWorkflow(NodeMaintenance, maintenanceInWindow())
	require.Nil(t, requireResult[nodeStatus](w).Held)
}

func TestWhatBecomesOfAMaintenanceWhoseWindowCloses(t *testing.T) {
	for _, action := range []drydockv1.OverrunAction{drydockv1.OverrunFinish, drydockv1.OverrunPause, drydockv1.OverrunCancel} {
		t.Run(string(action), func(t *testing.T) {
			w := newWorld(t)
			start := w.Now()
			open, closed := openUntil(1, start.Add(4*time.Hour)), opensAt(2, start.Add(24*time.Hour))
			open.OnOverrun, closed.OnOverrun = action, action
			w.windows = map[string]windows.Standing{nightWindow: open}
			w.fail["AwaitPodCompletion"] = func(int) error {
				w.SignalWorkflow(temporal.SignalWindow, closed)
				return nil
			}
			again := openUntil(3, start.Add(28*time.Hour))
			if action == drydockv1.OverrunPause {
				w.lookAfter(23*time.Hour, func() {
					require.NotContains(t, w.called(), "Drain")
					require.Equal(t, emergency.ReasonWaitingForWindow, statusOf[nodeStatus](w).Wait.Reason)
				})
				w.tells(24*time.Hour, again)
			}
			w.ExecuteWorkflow(NodeMaintenance, maintenanceInWindow())
			if action == drydockv1.OverrunCancel {
				status := requireCancelled[nodeStatus](w)
				require.Equal(t, maintenancev1.NodeCancelled, status.State)
				require.Contains(t, status.Notes[0], "cancelled by window ops/night")
				require.Contains(t, w.called(), "ReturnNode")
				return
			}
			require.Equal(t, maintenancev1.NodeCompleted, requireResult[nodeStatus](w).State)
			require.Contains(t, w.called(), "Drain")
		})
	}
}

// An emergency stop does not end because a window opens, nor the other way round.
func TestAMaintenanceBeginsWhenNeitherTheEmergencyStopNorItsWindowHoldsIt(t *testing.T) {
	for name, tt := range map[string]struct {
		opens, released time.Duration
		waits           string
	}{
		"the window opens first":     {5 * time.Hour, 10 * time.Hour, emergency.ReasonHeld},
		"the release comes first":    {10 * time.Hour, 5 * time.Hour, emergency.ReasonWaitingForWindow},
		"the window is open already": {0, 10 * time.Hour, emergency.ReasonHeld},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			start := w.Now()
			w.held = heldState(1, drydockv1.HoldAll)
			w.windows = map[string]windows.Standing{nightWindow: opensAt(1, start.Add(tt.opens))}
			w.tells(tt.opens, openUntil(2, start.Add(14*time.Hour)))
			w.releaseAfter(tt.released, 2)
			w.lookAfter(7*time.Hour, func() {
				require.NotContains(t, w.called(), "TakeNode")
				require.Equal(t, tt.waits, statusOf[nodeStatus](w).Wait.Reason)
			})
			w.ExecuteWorkflow(NodeMaintenance, maintenanceInWindow())
			requireResult[nodeStatus](w)
			require.WithinDuration(t, start.Add(10*time.Hour), w.Now(), time.Minute)
		})
	}
}

// A window that has closed lets it finish; the emergency stop does not.
func TestANodeAtWorkWhoseWindowHasClosedIsHeldByTheEmergencyStopAllTheSame(t *testing.T) {
	w := newWorld(t)
	start := w.Now()
	w.windows = map[string]windows.Standing{nightWindow: openUntil(1, start.Add(4*time.Hour))}
	w.fail["AwaitPodCompletion"] = func(int) error {
		w.SignalWorkflow(temporal.SignalHeld, heldState(2, drydockv1.HoldAll))
		w.SignalWorkflow(temporal.SignalWindow, opensAt(2, start.Add(24*time.Hour)))
		return nil
	}
	w.lookAfter(5*time.Hour, func() {
		require.NotContains(t, w.called(), "Drain")
		require.Equal(t, emergency.ReasonHeld, statusOf[nodeStatus](w).Wait.Reason)
	})
	w.releaseAfter(6*time.Hour, 3)
	w.ExecuteWorkflow(NodeMaintenance, maintenanceInWindow())
	requireResult[nodeStatus](w)
	require.WithinDuration(t, start.Add(6*time.Hour), w.Now(), time.Minute, "the closed window lets it finish")
}

func TestWhatBecomesOfANodeAtWorkWhenTheOverrideOfItsWindowExpires(t *testing.T) {
	for action, ends := range map[drydockv1.OverrunAction]time.Duration{
		drydockv1.OverrunFinish: time.Hour, drydockv1.OverrunPause: 24 * time.Hour, drydockv1.OverrunCancel: time.Hour,
	} {
		t.Run(string(action), func(t *testing.T) {
			w := newWorld(t)
			start := w.Now()
			closed := opensAt(1, start.Add(24*time.Hour))
			closed.OnOverrun = action
			overridden := closed
			overridden.Override = &windows.Override{By: "ann", Reason: "CVE", Since: start, Until: start.Add(time.Hour)}
			w.windows = map[string]windows.Standing{nightWindow: overridden}
			closed.Number = 2
			w.RegisterDelayedCallback(func() {
				require.Equal(t, maintenancev1.NodeWaitForPodCompletion, statusOf[nodeStatus](w).State)
				w.SignalWorkflow(temporal.SignalWindow, closed)
			}, time.Hour)
			w.fail["AwaitPodCompletion"] = func(int) error { // it takes until the override has expired
				if w.Now().Before(start.Add(time.Hour)) {
					return temporal.Error(temporal.ErrClusterUnreachable, "no answer", nil)
				}
				return nil
			}
			w.tells(24*time.Hour, openUntil(3, start.Add(28*time.Hour)))
			w.ExecuteWorkflow(NodeMaintenance, maintenanceInWindow())
			require.WithinDuration(t, start.Add(ends), w.Now(), 20*time.Minute)
			if action == drydockv1.OverrunCancel {
				require.Equal(t, maintenancev1.NodeCancelled, requireCancelled[nodeStatus](w).State)
				require.NotContains(t, w.called(), "Drain")
				return
			}
			require.Equal(t, maintenancev1.NodeCompleted, requireResult[nodeStatus](w).State)
		})
	}
}

// inBoth are two windows of a maintenance, of which the second begins when the first ends. Each returns what is at work.
func inBoth(early, late windows.Standing) map[string]windows.Standing {
	early.Window, early.OnOverrun, late.Window, late.OnOverrun = "ops/early", drydockv1.OverrunCancel, "ops/late", drydockv1.OverrunCancel
	return map[string]windows.Standing{early.Window: early, late.Window: late}
}

func TestANodeAtWorkPassesFromOneWindowToTheNext(t *testing.T) {
	for name, opens := range map[string]bool{"that opens a moment later": true, "but not when that was cancelled in the last moment": false} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			start := w.Now()
			seam := start.Add(time.Hour)
			w.windows = inBoth(openUntil(1, seam), opensAt(1, seam))
			closed := inBoth(opensAt(2, start.Add(24*time.Hour)), openUntil(2, seam.Add(4*time.Hour)))
			w.tells(time.Hour, closed["ops/early"])
			late := closed["ops/late"]
			if !opens {
				late.Outlook.Openings = late.Outlook.Openings[1:]
			}
			w.tells(time.Hour+5*time.Second, late)
			w.fail["AwaitPodCompletion"] = func(int) error {
				if w.Now().Before(seam.Add(time.Minute)) {
					return temporal.Error(temporal.ErrClusterUnreachable, "no answer", nil)
				}
				return nil
			}
			in := maintenanceInWindow()
			in.Object.Spec.MaintenanceWindows = []drydockv1.WindowName{"early", "late"}
			w.ExecuteWorkflow(NodeMaintenance, in)
			if opens {
				require.Equal(t, maintenancev1.NodeCompleted, requireResult[nodeStatus](w).State)
				return
			}
			require.Contains(t, requireCancelled[nodeStatus](w).Notes[0], "cancelled by window ops/early, ops/late")
		})
	}
}
