package gates_test

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
	"drydock.dev/drydock/workflows/clusterupgrade"
	"drydock.dev/drydock/workflows/kit"
	"drydock.dev/drydock/workflows/rollout"
	"drydock.dev/drydock/workflows/workflowtest"
)

func requireWindowWait(t *testing.T, s workflowtest.GroupStatus, message string) {
	t.Helper()
	require.NotNil(t, s.Wait)
	require.Equal(t, emergency.ReasonWaitingForWindow, s.Wait.Reason)
	require.Contains(t, s.Wait.Message, message)
	require.Equal(t, "WaitingForWindow; Maintaining nodes", meta.FindStatusCondition(s.Conditions, ranv1.ConditionProgressing).Message)
	require.Nil(t, s.Status.CurrentBatchDeadline, "the clock has stopped")
	require.Nil(t, s.Status.Deadline)
}

func TestARolloutWaitsForItsWindowAndItsClockStops(t *testing.T) {
	w, clusters := workflowtest.NewGroupWorld(t, []string{"c1"}, []string{"c2"})
	start := w.Now()
	opening := start.Add(10 * time.Hour)
	w.Windows = map[string]windows.Snapshot{workflowtest.NightWindow: workflowtest.OpensAt(1, opening)}
	w.RegisterDelayedCallback(func() {
		require.Empty(t, clusters.Events)
		status := workflowtest.StatusOf[workflowtest.GroupStatus](w)
		requireWindowWait(t, status, "window ops/night is closed; it opens "+opening.UTC().Format(kit.TimeFormat))
		require.WithinDuration(t, opening, status.Wait.Until.Time, time.Second)
		require.Equal(t, emergency.ReasonWaitingForWindow, status.Clusters[0].Reason)
	}, 9*time.Hour)
	w.ReceiveWindow(10*time.Hour, workflowtest.OpenUntil(2, opening.Add(4*time.Hour)))
	w.ExecuteWorkflow(rollout.ClusterGroupUpgrade, workflowtest.RolloutInWindow())
	status := workflowtest.RequireResult[workflowtest.GroupStatus](w)
	require.Equal(t, int32(2), status.Counts.Complete)
	require.Nil(t, status.Held)
	require.Len(t, w.SentSignals(temporal.SignalUnsubscribeWindow), 1)
}

func TestARolloutStartsAtTheStartOfAConfirmedOpening(t *testing.T) {
	w, clusters := workflowtest.NewGroupWorld(t, []string{"c1"})
	opening := w.Now().Add(10 * time.Hour)
	w.Windows = map[string]windows.Snapshot{workflowtest.NightWindow: workflowtest.OpensAt(1, opening)}
	w.ReceiveWindow(10*time.Hour-time.Minute, workflowtest.ConfirmedOpening(2, opening))
	w.RegisterDelayedCallback(func() { require.Empty(t, clusters.Events) }, 10*time.Hour-time.Second)
	w.ExecuteWorkflow(rollout.ClusterGroupUpgrade, workflowtest.RolloutInWindow())
	require.Equal(t, int32(1), workflowtest.RequireResult[workflowtest.GroupStatus](w).Counts.Complete)
	require.WithinDuration(t, opening, w.Now(), time.Minute)
}

func TestNothingStartsInAConfirmedOpeningThatIsCancelled(t *testing.T) {
	w, clusters := workflowtest.NewGroupWorld(t, []string{"c1"})
	opening := w.Now().Add(10 * time.Hour)
	w.Windows = map[string]windows.Snapshot{workflowtest.NightWindow: workflowtest.ConfirmedOpening(1, opening)}
	w.ReceiveWindow(10*time.Hour-time.Second, workflowtest.OpensAt(2, opening.Add(24*time.Hour)))
	w.RegisterDelayedCallback(func() {
		require.Empty(t, clusters.Events)
		requireWindowWait(t, workflowtest.StatusOf[workflowtest.GroupStatus](w), "window ops/night is closed")
	}, 20*time.Hour)
	w.ReceiveWindow(34*time.Hour, workflowtest.OpenUntil(3, opening.Add(28*time.Hour)))
	w.ExecuteWorkflow(rollout.ClusterGroupUpgrade, workflowtest.RolloutInWindow())
	require.Equal(t, int32(1), workflowtest.RequireResult[workflowtest.GroupStatus](w).Counts.Complete)
}

// The first cluster takes the whole opening. The second starts in the next one.
func TestARolloutThatNeedsTwoOpeningsResumesInTheSecond(t *testing.T) {
	w, clusters := workflowtest.NewGroupWorld(t, []string{"c1", "c2"}, []string{"c3"})
	clusters.Outcomes["c2"] = func(ctx workflow.Context) error { return workflow.Sleep(ctx, 50*time.Minute) }
	start := w.Now()
	w.Windows = map[string]windows.Snapshot{workflowtest.NightWindow: workflowtest.OpenUntil(1, start.Add(20*time.Minute))}
	w.ReceiveWindow(20*time.Minute, workflowtest.OpensAt(2, start.Add(24*time.Hour)))
	w.RegisterDelayedCallback(func() {
		require.Equal(t, []string{"+c1", "+c2", "-c1", "-c2"}, clusters.EventsInOrder(), "running clusters finish")
		requireWindowWait(t, workflowtest.StatusOf[workflowtest.GroupStatus](w), "window ops/night is closed")
	}, 23*time.Hour)
	w.ReceiveWindow(24*time.Hour, workflowtest.OpenUntil(3, start.Add(28*time.Hour)))
	w.ExecuteWorkflow(rollout.ClusterGroupUpgrade, workflowtest.RolloutInWindow())
	require.Equal(t, int32(3), workflowtest.RequireResult[workflowtest.GroupStatus](w).Counts.Complete, "60 minutes are enough: they exclude the time outside the window")
}

func TestARolloutDoesNotStartInAWindowOfUnknownState(t *testing.T) {
	for name, tt := range map[string]struct {
		windows map[string]windows.Snapshot
		message string
	}{
		"the window does not answer":     {nil, "window ops/night has not reported its state yet"},
		"the window is not defined":      {map[string]windows.Snapshot{workflowtest.NightWindow: {Window: workflowtest.NightWindow, Number: 1, Trouble: "the window is not defined"}}, "counts as closed: the window is not defined"},
		"the window has an invalid zone": {map[string]windows.Snapshot{workflowtest.NightWindow: {Window: workflowtest.NightWindow, Number: 1, Trouble: "spec.timeZone: unknown"}}, "counts as closed: spec.timeZone: unknown"},
	} {
		t.Run(name, func(t *testing.T) {
			w, clusters := workflowtest.NewGroupWorld(t, []string{"c1"})
			w.Windows = tt.windows
			w.RegisterDelayedCallback(func() {
				require.Empty(t, clusters.Events)
				requireWindowWait(t, workflowtest.StatusOf[workflowtest.GroupStatus](w), tt.message)
			}, time.Hour)
			w.ReceiveWindow(2*time.Hour, workflowtest.OpenUntil(2, w.Now().Add(4*time.Hour)))
			w.ExecuteWorkflow(rollout.ClusterGroupUpgrade, workflowtest.RolloutInWindow())
			require.Equal(t, int32(1), workflowtest.RequireResult[workflowtest.GroupStatus](w).Counts.Complete)
		})
	}
}

// The window's workflow was terminated. The new subscription starts one without a definition.
func TestARolloutSubscribesAgainWhenAnExpectedNotificationIsMissing(t *testing.T) {
	w, clusters := workflowtest.NewGroupWorld(t, []string{"c1"})
	start := w.Now()
	silent := workflowtest.OpensAt(1, start.Add(time.Hour))
	silent.Next = new(start.Add(time.Hour))
	w.Windows = map[string]windows.Snapshot{workflowtest.NightWindow: silent}
	w.RegisterDelayedCallback(func() {
		w.Windows[workflowtest.NightWindow] = windows.Snapshot{Window: workflowtest.NightWindow, Number: 2, Trouble: "the window is not defined"}
	}, 30*time.Minute)
	w.RegisterDelayedCallback(func() {
		require.Empty(t, clusters.Events)
		requireWindowWait(t, workflowtest.StatusOf[workflowtest.GroupStatus](w), "the window is not defined")
		w.SignalWorkflow(temporal.SignalCancel, nil)
	}, 2*time.Hour)
	w.ExecuteWorkflow(rollout.ClusterGroupUpgrade, workflowtest.RolloutInWindow())
	workflowtest.RequireCancelled[workflowtest.GroupStatus](w)
}

func TestARolloutSubscribesEveryHourIfItExpectsNoNotification(t *testing.T) {
	for name, first := range map[string]map[string]windows.Snapshot{
		"the window is not defined": {workflowtest.NightWindow: {Window: workflowtest.NightWindow, Number: 1, Trouble: "the window is not defined"}},
		"the window never answered": {},
	} {
		t.Run(name, func(t *testing.T) {
			w, _ := workflowtest.NewGroupWorld(t, []string{"c1"})
			start := w.Now()
			w.Windows = first
			w.RegisterDelayedCallback(func() { w.Windows[workflowtest.NightWindow] = workflowtest.OpenUntil(2, start.Add(4*time.Hour)) }, 30*time.Minute)
			w.ExecuteWorkflow(rollout.ClusterGroupUpgrade, workflowtest.RolloutInWindow())
			require.Equal(t, int32(1), workflowtest.RequireResult[workflowtest.GroupStatus](w).Counts.Complete)
			require.WithinDuration(t, start.Add(time.Hour), w.Now(), 5*time.Minute)
		})
	}
}

func TestAClusterThatDoesNotFitWaitsForTheNextOpening(t *testing.T) {
	w, clusters := workflowtest.NewGroupWorld(t, []string{"c1"}, []string{"c2"})
	clusters.Duration = 25 * time.Minute
	start := w.Now()
	w.Windows = map[string]windows.Snapshot{workflowtest.NightWindow: workflowtest.OpenUntil(1, start.Add(45*time.Minute))}
	w.RegisterDelayedCallback(func() {
		require.Equal(t, []string{"+c1", "-c1"}, clusters.EventsInOrder())
		requireWindowWait(t, workflowtest.StatusOf[workflowtest.GroupStatus](w), "closes before the next step would finish")
	}, 40*time.Minute)
	w.ReceiveWindow(21*time.Hour, workflowtest.OpenUntil(2, start.Add(25*time.Hour)))
	w.ExecuteWorkflow(rollout.ClusterGroupUpgrade, workflowtest.RolloutInWindow())
	require.Equal(t, int32(2), workflowtest.RequireResult[workflowtest.GroupStatus](w).Counts.Complete)
}

// The first cluster runs through a closed day and uses half an hour of open time. If the day counted, the second would not fit into an opening.
func TestTheDurationOfAClusterExcludesClosedWindows(t *testing.T) {
	w, clusters := workflowtest.NewGroupWorld(t, []string{"c1"}, []string{"c2"})
	clusters.Outcomes["c1"] = func(ctx workflow.Context) error { return workflow.Sleep(ctx, 24*time.Hour+10*time.Minute) }
	start := w.Now()
	w.Windows = map[string]windows.Snapshot{workflowtest.NightWindow: workflowtest.OpenUntil(1, start.Add(20*time.Minute))}
	w.ReceiveWindow(20*time.Minute, workflowtest.OpensAt(2, start.Add(24*time.Hour)))
	again := workflowtest.OpenUntil(3, start.Add(26*time.Hour))
	again.Schedule.Openings[1].End = again.Schedule.Openings[1].Start.AddDate(0, 0, 3)
	w.ReceiveWindow(24*time.Hour, again)
	w.ExecuteWorkflow(rollout.ClusterGroupUpgrade, workflowtest.RolloutInWindow())
	require.Equal(t, int32(2), workflowtest.RequireResult[workflowtest.GroupStatus](w).Counts.Complete)
	require.WithinDuration(t, start.Add(24*time.Hour+11*time.Minute), w.Now(), 5*time.Minute, "the second starts immediately")
}

func TestAnEmergencyOverrideResumesARollout(t *testing.T) {
	w, _ := workflowtest.NewGroupWorld(t, []string{"c1"})
	start := w.Now()
	w.Windows = map[string]windows.Snapshot{workflowtest.NightWindow: workflowtest.OpensAt(1, start.Add(24*time.Hour))}
	overridden := workflowtest.OpensAt(2, start.Add(24*time.Hour))
	overridden.Override = &windows.Override{By: "ann", Reason: "CVE", Since: start, Until: start.Add(2 * time.Hour)}
	w.ReceiveWindow(time.Hour, overridden)
	w.ExecuteWorkflow(rollout.ClusterGroupUpgrade, workflowtest.RolloutInWindow())
	workflowtest.RequireResult[workflowtest.GroupStatus](w)
	require.WithinDuration(t, start.Add(61*time.Minute), w.Now(), 2*time.Minute)
}

func TestAWaitForAWindowIsCarriedToTheNextRun(t *testing.T) {
	w, clusters := workflowtest.NewGroupWorld(t, []string{"c1"}, []string{"c2"})
	w.Windows = map[string]windows.Snapshot{workflowtest.NightWindow: workflowtest.OpenUntil(7, w.Now().Add(4*time.Hour))}
	clusters.Outcomes["c1"] = func(workflow.Context) error {
		w.SetContinueAsNewSuggested(true)
		return nil
	}
	w.ExecuteWorkflow(rollout.ClusterGroupUpgrade, workflowtest.RolloutInWindow())
	var next *workflow.ContinueAsNewError
	require.ErrorAs(t, w.GetWorkflowError(), &next)
	var in rollout.Input
	require.NoError(t, converter.GetDefaultDataConverter().FromPayloads(next.Input, &in))
	second, _ := workflowtest.NewGroupWorld(t) // its window does not answer again
	second.SetStartTime(w.Now())
	second.ExecuteWorkflow(rollout.ClusterGroupUpgrade, in)
	require.Equal(t, int32(2), workflowtest.RequireResult[workflowtest.GroupStatus](second).Counts.Complete)
}

// No cluster is running, and the wait for the window may last for months.
func TestARolloutContinuesAsNewWhileItsWindowIsClosed(t *testing.T) {
	w, clusters := workflowtest.NewGroupWorld(t, []string{"c1"}, []string{"c2"})
	start := w.Now()
	w.Windows = map[string]windows.Snapshot{workflowtest.NightWindow: workflowtest.OpenUntil(1, start.Add(50*time.Minute))}
	clusters.Outcomes["c1"] = workflowtest.Takes(30 * time.Minute) // the second does not fit
	w.ReceiveWindow(50*time.Minute, workflowtest.OpensAt(2, start.Add(24*time.Hour)))
	w.RegisterDelayedCallback(func() { w.SetContinueAsNewSuggested(true) }, 2*time.Hour)
	w.ReceiveWindow(3*time.Hour, workflowtest.OpensAt(3, start.Add(24*time.Hour)))
	w.ExecuteWorkflow(rollout.ClusterGroupUpgrade, workflowtest.RolloutInWindow())
	require.WithinDuration(t, start.Add(2*time.Hour), w.Now(), time.Hour)
	in := workflowtest.NextRunInput[rollout.Input](w)
	require.NotNil(t, in)
	require.LessOrEqual(t, in.PreviousRun.Used, time.Hour)

	second, _ := workflowtest.NewGroupWorld(t) // its window does not answer again
	second.SetStartTime(w.Now())
	opening := start.Add(24 * time.Hour)
	second.RegisterDelayedCallback(func() {
		requireWindowWait(t, workflowtest.StatusOf[workflowtest.GroupStatus](second), "window ops/night is closed; it opens "+opening.UTC().Format(kit.TimeFormat))
	}, 20*time.Hour)
	second.ReceiveWindow(opening.Sub(w.Now()), workflowtest.OpenUntil(4, opening.Add(4*time.Hour)))
	second.ExecuteWorkflow(rollout.ClusterGroupUpgrade, *in)
	require.Equal(t, int32(2), workflowtest.RequireResult[workflowtest.GroupStatus](second).Counts.Complete)
	require.WithinDuration(t, opening, second.Now(), time.Hour)
}

func TestAClusterContinuesAsNewWhileItsWindowIsClosed(t *testing.T) {
	w, nodes := workflowtest.NewClusterWorld(t, 0, 2, 1)
	nodes.Duration = 10 * time.Minute
	w.RegisterDelayedCallback(func() { w.SignalWorkflow(temporal.SignalHeld, workflowtest.ClosedState(2, drydockv1.OverrunFinish)) }, 5*time.Minute)
	w.RegisterDelayedCallback(func() { w.SetContinueAsNewSuggested(true) }, time.Hour)
	w.SimulateAfter(2*time.Hour, func() { w.SignalWorkflow(temporal.SignalHeld, workflowtest.ClosedState(3, drydockv1.OverrunFinish)) })
	w.ExecuteWorkflow(clusterupgrade.ClusterUpgrade, workflowtest.OneCluster())
	in := workflowtest.NextRunInput[clusterupgrade.Input](w)
	require.NotNil(t, in)
	require.Equal(t, workflowtest.NightWindow, in.Held.Of("c1").Window, "its parent's window is closed")

	second, nodes := workflowtest.NewClusterWorld(t, 0, 2, 1)
	second.RegisterDelayedCallback(func() { require.Empty(t, nodes.EventsInOrder()) }, time.Hour)
	second.ReleaseAfter(2*time.Hour, 4)
	second.ExecuteWorkflow(clusterupgrade.ClusterUpgrade, *in)
	require.Equal(t, int32(2), workflowtest.RequireResult[ranv1.ClusterStatus](second).Nodes.Done)
}
