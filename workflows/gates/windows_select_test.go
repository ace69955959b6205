package gates_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/workflow"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/emergency"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/internal/windows"
	"drydock.dev/drydock/workflows/kit"
	"drydock.dev/drydock/workflows/nodemaintenance"
	"drydock.dev/drydock/workflows/rollout"
	"drydock.dev/drydock/workflows/workflowtest"
)

const otherWindow = "ops/other"

// onlyFor gives a window a selector for the clusters of a site.
func onlyFor(site string, snapshot windows.Snapshot) windows.Snapshot {
	snapshot.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"site": site}}
	return snapshot
}

func ofOther(snapshot windows.Snapshot) windows.Snapshot {
	snapshot.Window, snapshot.Schedule.Name = otherWindow, otherWindow
	return snapshot
}

// A window without a known selector would apply to all clusters.
func TestNothingStartsBeforeTheWindowsOfTheClusterAreKnown(t *testing.T) {
	start := time.Now()
	for name, tt := range map[string]struct{ before, then windows.Snapshot }{
		"the window answers late":            {windows.Snapshot{}, onlyFor("b", ofOther(workflowtest.OpenUntil(2, start.AddDate(10, 0, 0))))},
		"the window was for other clusters":  {onlyFor("b", ofOther(workflowtest.OpensAt(1, start.AddDate(1, 0, 0)))), onlyFor("c", ofOther(workflowtest.OpenUntil(2, start.AddDate(10, 0, 0))))},
		"the window was for all clusters":    {ofOther(workflowtest.OpensAt(1, start.AddDate(1, 0, 0))), onlyFor("c", ofOther(workflowtest.OpenUntil(2, start.AddDate(10, 0, 0))))},
		"the window is for all clusters now": {onlyFor("b", ofOther(workflowtest.OpensAt(1, start.AddDate(1, 0, 0)))), ofOther(workflowtest.OpenUntil(2, start.AddDate(10, 0, 0)))},
	} {
		t.Run(name, func(t *testing.T) {
			w, clusters := workflowtest.NewGroupWorld(t, []string{"c1"})
			begin := w.Now()
			w.Windows = map[string]windows.Snapshot{workflowtest.NightWindow: onlyFor("a", workflowtest.OpensAt(1, w.Now().AddDate(1, 0, 0)))}
			if tt.before.Number > 0 {
				w.Windows[otherWindow] = tt.before
			}
			w.BlockSelection(30 * time.Minute)
			w.ReceiveWindow(time.Hour, tt.then)
			w.RegisterDelayedCallback(func() {
				require.Empty(t, clusters.Events)
				requireWindowWait(t, workflowtest.StatusOf[workflowtest.GroupStatus](w), "unknown since "+begin.Add(time.Hour).UTC().Format(kit.TimeFormat)+" which of the windows are for the cluster")
				w.SignalWorkflow(temporal.SignalCancel, nil)
			}, 2*time.Hour)
			in := workflowtest.RolloutInWindow()
			in.Object.Spec.MaintenanceWindows = append(in.Object.Spec.MaintenanceWindows, drydockv1.WindowName("other"))
			w.ExecuteWorkflow(rollout.ClusterGroupUpgrade, in)
			workflowtest.RequireCancelled[workflowtest.GroupStatus](w)
		})
	}
}

func TestAMaintenanceShowsWhyItsWindowsAreUnknown(t *testing.T) {
	for name, tt := range map[string]struct {
		errType, message string
		failures         int
	}{
		"a worker has no hub":            {temporal.ErrNoHub, "this worker knows no hub", 2 * kit.RoundAttempts},
		"the selector cannot be read":    {temporal.ErrInvalidSpec, "\"?\" is not a valid label selector operator", 1},
		"the hub is briefly unreachable": {temporal.ErrClusterUnreachable, "the hub does not answer", 20},
	} {
		t.Run(name, func(t *testing.T) {
			w := workflowtest.NewWorld(t)
			start := w.Now()
			in := workflowtest.MaintenanceInWindow()
			w.Windows = map[string]windows.Snapshot{workflowtest.NightWindow: onlyFor("a", workflowtest.OpenUntil(1, w.Now().Add(4*time.Hour)))}
			w.SelectedClusters = []string{in.Cluster}
			w.Fail["SelectClusters"] = func(call int) error {
				if call <= tt.failures {
					return temporal.Error(tt.errType, tt.message, nil)
				}
				return nil
			}
			w.RegisterDelayedCallback(func() {
				require.Empty(t, w.Scheduler.Sets)
				require.Contains(t, workflowtest.StatusOf[workflowtest.NodeStatus](w).Wait.Message, "unknown since "+start.UTC().Format(kit.TimeFormat)+" which of the windows are for the cluster")
				require.Contains(t, workflowtest.StatusOf[workflowtest.NodeStatus](w).Wait.Message, tt.message)
			}, 45*time.Second)
			w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, in)
			require.Equal(t, maintenancev1.NodeCompleted, workflowtest.RequireResult[workflowtest.NodeStatus](w).State)
		})
	}
}

// The cluster has a new label, and the first worker does not serve the hub.
func TestAClusterThatIsSelectedLaterStartsAfterAFailedSelection(t *testing.T) {
	w, clusters := workflowtest.NewGroupWorld(t, []string{"c1", "c2"})
	start := w.Now()
	w.Windows, w.SelectedClusters = map[string]windows.Snapshot{workflowtest.NightWindow: onlyFor("a", workflowtest.OpenUntil(1, start.Add(4*time.Hour)))}, []string{"c2"}
	w.Fail["SelectClusters"] = func(call int) error {
		if call == 2 {
			return temporal.Error(temporal.ErrNoHub, "this worker knows no hub", nil)
		}
		return nil
	}
	w.RegisterDelayedCallback(func() {
		require.Equal(t, []string{"+c2", "-c2"}, clusters.EventsInOrder())
		w.SelectedClusters = []string{"c1", "c2"}
		w.SignalWorkflow(temporal.SignalWindow, onlyFor("a", workflowtest.OpenUntil(2, start.Add(4*time.Hour))))
	}, time.Hour)
	w.ExecuteWorkflow(rollout.ClusterGroupUpgrade, workflowtest.RolloutInWindow())
	require.Equal(t, int32(2), workflowtest.RequireResult[workflowtest.GroupStatus](w).Counts.Complete)
	require.WithinDuration(t, start.Add(time.Hour), w.Now(), 5*time.Minute)
}

// The window was edited while the hub was unreachable, and the wait continues in another run, which shows the same start time and reason.
func TestTheTimeSinceWhichWindowsAreUnknownIsCarriedToTheNextRun(t *testing.T) {
	w := workflowtest.NewWorld(t)
	start := w.Now()
	w.Windows, w.SelectedClusters = map[string]windows.Snapshot{workflowtest.NightWindow: onlyFor("a", workflowtest.OpensAt(1, start.AddDate(0, 0, 2)))}, []string{"c1"}
	unreachable := func(call int) error {
		if w.Now().After(start.Add(time.Hour)) {
			return temporal.Error(temporal.ErrClusterUnreachable, "the hub does not answer", nil)
		}
		return nil
	}
	w.Fail["SelectClusters"] = unreachable
	w.ReceiveWindow(2*time.Hour, onlyFor("b", workflowtest.OpensAt(2, start.AddDate(0, 0, 2))))
	w.RegisterDelayedCallback(func() { w.SetContinueAsNewSuggested(true) }, 3*time.Hour)
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, workflowtest.MaintenanceInWindow())
	in := workflowtest.NextRunInput[nodemaintenance.Input](w)
	require.NotNil(t, in)

	second := workflowtest.NewWorld(t)
	second.SetStartTime(w.Now())
	second.Fail["SelectClusters"] = workflowtest.Always(temporal.Error(temporal.ErrClusterUnreachable, "the hub does not answer", nil))
	second.RegisterDelayedCallback(func() {
		wait := workflowtest.StatusOf[workflowtest.NodeStatus](second).Wait
		require.Contains(t, wait.Message, "unknown since "+start.Add(2*time.Hour).UTC().Format(kit.TimeFormat)+" which of the windows are for the cluster: ")
		require.Contains(t, wait.Message, "the hub does not answer")
		second.SignalWorkflow(temporal.SignalCancel, nil)
	}, time.Hour)
	second.ExecuteWorkflow(nodemaintenance.NodeMaintenance, *in)
	require.Equal(t, maintenancev1.NodeCancelled, workflowtest.RequireCancelled[workflowtest.NodeStatus](second).State)
}

// The hub is unreachable when the next run starts. The window is open, with the same selection.
func TestTheSelectionOfWindowsIsCarriedToTheNextRun(t *testing.T) {
	w, clusters := workflowtest.NewGroupWorld(t, []string{"c1"}, []string{"c2", "c3"})
	start := w.Now()
	w.Windows, w.SelectedClusters = map[string]windows.Snapshot{workflowtest.NightWindow: onlyFor("a", workflowtest.OpenUntil(7, start.Add(4*time.Hour)))}, []string{"c1", "c3"}
	clusters.Outcomes["c1"] = func(workflow.Context) error {
		w.SetContinueAsNewSuggested(true)
		return nil
	}
	w.ExecuteWorkflow(rollout.ClusterGroupUpgrade, workflowtest.RolloutInWindow())
	in := workflowtest.NextRunInput[rollout.Input](w)
	require.NotNil(t, in)

	second, clusters := workflowtest.NewGroupWorld(t) // its window does not answer again
	second.SetStartTime(w.Now())
	second.Fail["SelectClusters"] = workflowtest.Always(temporal.Error(temporal.ErrClusterUnreachable, "the hub does not answer", nil))
	second.RegisterDelayedCallback(func() {
		require.Equal(t, []string{"+c3", "-c3"}, clusters.EventsInOrder())
		require.Contains(t, workflowtest.StatusOf[workflowtest.GroupStatus](second).Clusters[1].Message, "none of the maintenance windows selects the cluster")
	}, time.Hour)
	second.ReceiveWindow(2*time.Hour, onlyFor("b", workflowtest.OpenUntil(8, start.Add(4*time.Hour))))
	second.RegisterDelayedCallback(func() {
		require.Equal(t, []string{"+c3", "-c3"}, clusters.EventsInOrder())
		require.Contains(t, workflowtest.StatusOf[workflowtest.GroupStatus](second).Clusters[1].Message, "unknown since ", "it may be for others now")
		second.SignalWorkflow(temporal.SignalCancel, nil)
	}, 3*time.Hour)
	second.ExecuteWorkflow(rollout.ClusterGroupUpgrade, *in)
	workflowtest.RequireCancelled[workflowtest.GroupStatus](second)
}

func TestOnlyClustersThatAWindowSelectsAreStartedInIt(t *testing.T) {
	w, clusters := workflowtest.NewGroupWorld(t, []string{"c1", "c2"})
	snapshot := workflowtest.OpenUntil(1, w.Now().Add(4*time.Hour))
	snapshot.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"site": "a"}}
	w.Windows, w.SelectedClusters = map[string]windows.Snapshot{workflowtest.NightWindow: snapshot}, []string{"c2"}
	clusters.Outcomes["c2"] = workflowtest.Takes(30 * time.Minute)
	w.RegisterDelayedCallback(func() {
		status := workflowtest.StatusOf[workflowtest.GroupStatus](w)
		require.NotNil(t, status.Status.CurrentBatchDeadline, "the clock runs for the running cluster")
		require.Nil(t, status.Held)
		require.Equal(t, emergency.ReasonWaitingForWindow, status.Clusters[0].Reason)
	}, 10*time.Minute)
	w.RegisterDelayedCallback(func() {
		require.Nil(t, workflowtest.StatusOf[workflowtest.GroupStatus](w).Status.CurrentBatchDeadline, "it stops while only held clusters are left")
		require.Equal(t, []string{"+c2", "-c2"}, clusters.EventsInOrder())
		require.Contains(t, workflowtest.StatusOf[workflowtest.GroupStatus](w).Clusters[0].Message, "none of the maintenance windows selects the cluster")
	}, time.Hour)
	all := workflowtest.OpenUntil(2, w.Now().Add(4*time.Hour))
	w.ReceiveWindow(2*time.Hour, all)
	w.ExecuteWorkflow(rollout.ClusterGroupUpgrade, workflowtest.RolloutInWindow())
	require.Equal(t, int32(2), workflowtest.RequireResult[workflowtest.GroupStatus](w).Counts.Complete)
}
