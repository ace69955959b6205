package workflows

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
)

const otherWindow = "ops/other"

// onlyFor lets a window be for the clusters of a site.
func onlyFor(site string, standing windows.Standing) windows.Standing {
	standing.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"site": site}}
	return standing
}

func ofOther(standing windows.Standing) windows.Standing {
	standing.Window, standing.Outlook.Name = otherWindow, otherWindow
	return standing
}

// noMoreSelecting lets nobody find out from then on which windows are for which clusters.
func (w *world) noMoreSelecting(after time.Duration) {
	w.RegisterDelayedCallback(func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.blocked["SelectClusters"] = true
	}, after)
}

// The window was for all clusters as long as it had told no selector.
func TestNothingBeginsInAWindowBeforeItIsKnownWhetherItIsForTheCluster(t *testing.T) {
	start := time.Now()
	for name, tt := range map[string]struct{ before, then windows.Standing }{
		"that answers late":           {windows.Standing{}, onlyFor("b", ofOther(openUntil(2, start.AddDate(10, 0, 0))))},
		"that was for others before":  {onlyFor("b", ofOther(opensAt(1, start.AddDate(1, 0, 0)))), onlyFor("c", ofOther(openUntil(2, start.AddDate(10, 0, 0))))},
		"that was for all before":     {ofOther(opensAt(1, start.AddDate(1, 0, 0))), onlyFor("c", ofOther(openUntil(2, start.AddDate(10, 0, 0))))},
		"that is for all from now on": {onlyFor("b", ofOther(opensAt(1, start.AddDate(1, 0, 0)))), ofOther(openUntil(2, start.AddDate(10, 0, 0)))},
	} {
		t.Run(name, func(t *testing.T) {
			w, clusters := newGroupWorld(t, []string{"c1"})
			begin := w.Now()
			w.windows = map[string]windows.Standing{nightWindow: onlyFor("a", opensAt(1, w.Now().AddDate(1, 0, 0)))}
			if tt.before.Number > 0 {
				w.windows[otherWindow] = tt.before
			}
			w.noMoreSelecting(30 * time.Minute)
			w.tells(time.Hour, tt.then)
			w.RegisterDelayedCallback(func() {
				require.Empty(t, clusters.events)
				requireWindowWait(t, statusOf[groupStatus](w), "unknown since "+begin.Add(time.Hour).UTC().Format(clockFormat)+" which of the windows are for the cluster")
				w.SignalWorkflow(temporal.SignalCancel, nil)
			}, 2*time.Hour)
			in := inWindows()
			in.Object.Spec.MaintenanceWindows = append(in.Object.Spec.MaintenanceWindows, drydockv1.WindowName("other"))
			w.ExecuteWorkflow(ClusterGroupUpgrade, in)
			requireCancelled[groupStatus](w)
		})
	}
}

func TestAMaintenanceSaysWhyItIsNotKnownWhetherAWindowIsForItsClusterAndGoesOnOnceItIs(t *testing.T) {
	for name, tt := range map[string]struct {
		errType, message string
		failures         int
	}{
		"a worker without a hub was asked":   {temporal.ErrNoHub, "this worker knows no hub", 2 * roundAttempts},
		"the selector could not be read":     {temporal.ErrInvalidSpec, "\"?\" is not a valid label selector operator", 1},
		"the hub does not answer for a time": {temporal.ErrClusterUnreachable, "the hub does not answer", 20},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			start := w.Now()
			in := maintenanceInWindow()
			w.windows = map[string]windows.Standing{nightWindow: onlyFor("a", openUntil(1, w.Now().Add(4*time.Hour)))}
			w.selected = []string{in.Cluster}
			w.fail["SelectClusters"] = func(call int) error {
				if call <= tt.failures {
					return temporal.Error(tt.errType, tt.message, nil)
				}
				return nil
			}
			w.RegisterDelayedCallback(func() {
				require.Empty(t, w.scheduler.sets)
				require.Contains(t, statusOf[nodeStatus](w).Wait.Message, "unknown since "+start.UTC().Format(clockFormat)+" which of the windows are for the cluster")
				require.Contains(t, statusOf[nodeStatus](w).Wait.Message, tt.message)
			}, 45*time.Second)
			w.ExecuteWorkflow(NodeMaintenance, in)
			require.Equal(t, maintenancev1.NodeCompleted, requireResult[nodeStatus](w).State)
		})
	}
}

// It was labelled meanwhile; who is asked first does not know the hub.
func TestAClusterThatIsSelectedLaterBeginsAlthoughThatCouldNotBeFoundOutAtOnce(t *testing.T) {
	w, clusters := newGroupWorld(t, []string{"c1", "c2"})
	start := w.Now()
	w.windows, w.selected = map[string]windows.Standing{nightWindow: onlyFor("a", openUntil(1, start.Add(4*time.Hour)))}, []string{"c2"}
	w.fail["SelectClusters"] = func(call int) error {
		if call == 2 {
			return temporal.Error(temporal.ErrNoHub, "this worker knows no hub", nil)
		}
		return nil
	}
	w.RegisterDelayedCallback(func() {
		require.Equal(t, []string{"+c2", "-c2"}, clusters.story())
		w.selected = []string{"c1", "c2"}
		w.SignalWorkflow(temporal.SignalWindow, onlyFor("a", openUntil(2, start.Add(4*time.Hour))))
	}, time.Hour)
	w.ExecuteWorkflow(ClusterGroupUpgrade, inWindows())
	require.Equal(t, int32(2), requireResult[groupStatus](w).Counts.Complete)
	require.WithinDuration(t, start.Add(time.Hour), w.Now(), 5*time.Minute)
}

// It was edited while the hub was away, and the wait goes on in another run: it says since when it is not known, and why.
func TestAMaintenanceSaysSinceWhenItIsNotKnownWhichWindowsAreForItsClusterWhateverRunItIs(t *testing.T) {
	w := newWorld(t)
	start := w.Now()
	w.windows, w.selected = map[string]windows.Standing{nightWindow: onlyFor("a", opensAt(1, start.AddDate(0, 0, 2)))}, []string{"c1"}
	away := func(call int) error {
		if w.Now().After(start.Add(time.Hour)) {
			return temporal.Error(temporal.ErrClusterUnreachable, "the hub does not answer", nil)
		}
		return nil
	}
	w.fail["SelectClusters"] = away
	w.tells(2*time.Hour, onlyFor("b", opensAt(2, start.AddDate(0, 0, 2))))
	w.RegisterDelayedCallback(func() { w.SetContinueAsNewSuggested(true) }, 3*time.Hour)
	w.ExecuteWorkflow(NodeMaintenance, maintenanceInWindow())
	in := handedOn[NodeMaintenanceInput](w)
	require.NotNil(t, in)

	second := newWorld(t)
	second.SetStartTime(w.Now())
	second.fail["SelectClusters"] = always(temporal.Error(temporal.ErrClusterUnreachable, "the hub does not answer", nil))
	second.RegisterDelayedCallback(func() {
		wait := statusOf[nodeStatus](second).Wait
		require.Contains(t, wait.Message, "unknown since "+start.Add(2*time.Hour).UTC().Format(clockFormat)+" which of the windows are for the cluster: ")
		require.Contains(t, wait.Message, "the hub does not answer")
		second.SignalWorkflow(temporal.SignalCancel, nil)
	}, time.Hour)
	second.ExecuteWorkflow(NodeMaintenance, *in)
	require.Equal(t, maintenancev1.NodeCancelled, requireCancelled[nodeStatus](second).State)
}

// The hub is away when the next run begins: its window is open, and for those that it was for.
func TestARolloutThatContinuesAsNewKnowsWhichWindowsAreForWhichClusters(t *testing.T) {
	w, clusters := newGroupWorld(t, []string{"c1"}, []string{"c2", "c3"})
	start := w.Now()
	w.windows, w.selected = map[string]windows.Standing{nightWindow: onlyFor("a", openUntil(7, start.Add(4*time.Hour)))}, []string{"c1", "c3"}
	clusters.ends["c1"] = func(workflow.Context) error {
		w.SetContinueAsNewSuggested(true)
		return nil
	}
	w.ExecuteWorkflow(ClusterGroupUpgrade, inWindows())
	in := handedOn[ClusterGroupUpgradeInput](w)
	require.NotNil(t, in)

	second, clusters := newGroupWorld(t) // its window does not answer again
	second.SetStartTime(w.Now())
	second.fail["SelectClusters"] = always(temporal.Error(temporal.ErrClusterUnreachable, "the hub does not answer", nil))
	second.RegisterDelayedCallback(func() {
		require.Equal(t, []string{"+c3", "-c3"}, clusters.story())
		require.Contains(t, statusOf[groupStatus](second).Clusters[1].Message, "none of the maintenance windows selects the cluster")
	}, time.Hour)
	second.tells(2*time.Hour, onlyFor("b", openUntil(8, start.Add(4*time.Hour))))
	second.RegisterDelayedCallback(func() {
		require.Equal(t, []string{"+c3", "-c3"}, clusters.story())
		require.Contains(t, statusOf[groupStatus](second).Clusters[1].Message, "unknown since ", "it may be for others now")
		second.SignalWorkflow(temporal.SignalCancel, nil)
	}, 3*time.Hour)
	second.ExecuteWorkflow(ClusterGroupUpgrade, *in)
	requireCancelled[groupStatus](second)
}

func TestOnlyClustersThatAWindowSelectsAreStartedInIt(t *testing.T) {
	w, clusters := newGroupWorld(t, []string{"c1", "c2"})
	standing := openUntil(1, w.Now().Add(4*time.Hour))
	standing.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"site": "a"}}
	w.windows, w.selected = map[string]windows.Standing{nightWindow: standing}, []string{"c2"}
	clusters.ends["c2"] = takes(30 * time.Minute)
	w.RegisterDelayedCallback(func() {
		status := statusOf[groupStatus](w)
		require.NotNil(t, status.Status.CurrentBatchDeadline, "the clock runs for the one that is at work")
		require.Nil(t, status.Held)
		require.Equal(t, emergency.ReasonWaitingForWindow, status.Clusters[0].Reason)
	}, 10*time.Minute)
	w.RegisterDelayedCallback(func() {
		require.Nil(t, statusOf[groupStatus](w).Status.CurrentBatchDeadline, "it stands still while only held ones are left")
		require.Equal(t, []string{"+c2", "-c2"}, clusters.story())
		require.Contains(t, statusOf[groupStatus](w).Clusters[0].Message, "none of the maintenance windows selects the cluster")
	}, time.Hour)
	all := openUntil(2, w.Now().Add(4*time.Hour))
	w.tells(2*time.Hour, all)
	w.ExecuteWorkflow(ClusterGroupUpgrade, inWindows())
	require.Equal(t, int32(2), requireResult[groupStatus](w).Counts.Complete)
}
