package workflows

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/workflow"
	"k8s.io/apimachinery/pkg/api/meta"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
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
	w.simulateAfter(after, func() { w.SignalWorkflow(temporal.SignalWindow, standing) })
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
	w.RegisterDelayedCallback(func() {
		require.Empty(t, clusters.events)
		status := statusOf[groupStatus](w)
		requireWindowWait(t, status, "window ops/night is closed; it opens "+opening.UTC().Format(clockFormat))
		require.WithinDuration(t, opening, status.Wait.Until.Time, time.Second)
		require.Equal(t, emergency.ReasonWaitingForWindow, status.Clusters[0].Reason)
	}, 9*time.Hour)
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
	w.RegisterDelayedCallback(func() { require.Empty(t, clusters.events) }, 10*time.Hour-time.Second)
	w.ExecuteWorkflow(ClusterGroupUpgrade, inWindows())
	require.Equal(t, int32(1), requireResult[groupStatus](w).Counts.Complete)
	require.WithinDuration(t, opening, w.Now(), time.Minute)
}

func TestNothingBeginsInAnOpeningThatWasCancelledAfterItWasConfirmed(t *testing.T) {
	w, clusters := newGroupWorld(t, []string{"c1"})
	opening := w.Now().Add(10 * time.Hour)
	w.windows = map[string]windows.Standing{nightWindow: confirmed(1, opening)}
	w.tells(10*time.Hour-time.Second, opensAt(2, opening.Add(24*time.Hour)))
	w.RegisterDelayedCallback(func() {
		require.Empty(t, clusters.events)
		requireWindowWait(t, statusOf[groupStatus](w), "window ops/night is closed")
	}, 20*time.Hour)
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
	w.RegisterDelayedCallback(func() {
		require.Equal(t, []string{"+c1", "+c2", "-c1", "-c2"}, clusters.story(), "what is at work finishes")
		requireWindowWait(t, statusOf[groupStatus](w), "window ops/night is closed")
	}, 23*time.Hour)
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
			w.RegisterDelayedCallback(func() {
				require.Empty(t, clusters.events)
				requireWindowWait(t, statusOf[groupStatus](w), tt.says)
			}, time.Hour)
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
	w.RegisterDelayedCallback(func() {
		w.windows[nightWindow] = windows.Standing{Window: nightWindow, Number: 2, Trouble: "nobody has defined it"}
	}, 30*time.Minute)
	w.RegisterDelayedCallback(func() {
		require.Empty(t, clusters.events)
		requireWindowWait(t, statusOf[groupStatus](w), "nobody has defined it")
		w.SignalWorkflow(temporal.SignalCancel, nil)
	}, 2*time.Hour)
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
			w.RegisterDelayedCallback(func() { w.windows[nightWindow] = openUntil(2, start.Add(4*time.Hour)) }, 30*time.Minute)
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
	w.RegisterDelayedCallback(func() {
		require.Equal(t, []string{"+c1", "-c1"}, clusters.story())
		requireWindowWait(t, statusOf[groupStatus](w), "closes before what is next would be done")
	}, 40*time.Minute)
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
	second.RegisterDelayedCallback(func() {
		requireWindowWait(t, statusOf[groupStatus](second), "window ops/night is closed; it opens "+opening.UTC().Format(clockFormat))
	}, 20*time.Hour)
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
	w.simulateAfter(2*time.Hour, func() { w.SignalWorkflow(temporal.SignalHeld, closedState(3, drydockv1.OverrunFinish)) })
	w.ExecuteWorkflow(ClusterUpgrade, oneCluster())
	in := handedOn[ClusterUpgradeInput](w)
	require.NotNil(t, in)
	require.Equal(t, nightWindow, in.Held.Of("c1").Window, "it does not believe that its window is open")

	second, nodes := newClusterWorld(t, 0, 2, 1)
	second.RegisterDelayedCallback(func() { require.Empty(t, nodes.story()) }, time.Hour)
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
