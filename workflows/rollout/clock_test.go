package rollout_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	sdktemporal "go.temporal.io/sdk/temporal"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/temporal"
	rolloutworkflow "drydock.dev/drydock/workflows/rollout"
	"drydock.dev/drydock/workflows/workflowtest"
)

// longTimers counts the timers of a rollout that run for longer than a test cluster works: those of batches.
func longTimers(w *workflowtest.World) *[]time.Duration {
	var timers []time.Duration
	w.SetOnTimerScheduledListener(func(_ string, pause time.Duration) {
		if pause > 10*time.Minute && pause < 10*time.Hour { // not those of simulated clusters
			timers = append(timers, pause.Round(time.Minute))
		}
	})
	return &timers
}

func TestABatchHasOneTimer(t *testing.T) {
	w, clusters := workflowtest.NewGroupWorld(t, []string{"c1"}, []string{"c2"})
	clusters.Outcomes["c1"], clusters.Outcomes["c2"] = workflowtest.Takes(9*time.Minute), workflowtest.Takes(9*time.Minute)
	timers := longTimers(w)
	w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, rolloutworkflow.Input{Object: workflowtest.ARollout()})
	workflowtest.RequireResult[workflowtest.GroupStatus](w)
	require.Equal(t, []time.Duration{30 * time.Minute, 51 * time.Minute}, *timers)
}

func TestTimeWithoutWorkersDoesNotCountForABatch(t *testing.T) {
	w, clusters := workflowtest.NewGroupWorld(t, []string{"c1"}, []string{"c2"})
	clusters.Outcomes["c1"] = workflowtest.UntilCancelled
	timers := longTimers(w)
	start := w.Now()
	w.RegisterDelayedCallback(func() { w.WorkersWereAway(start.Add(5*time.Minute), start.Add(15*time.Minute)) }, 15*time.Minute)
	w.RegisterDelayedCallback(func() { w.WorkersWereAway(start.Add(5*time.Minute), start.Add(15*time.Minute)) }, 16*time.Minute)
	w.RegisterDelayedCallback(func() {
		run := workflowtest.StatusOf[workflowtest.GroupStatus](w).Status
		require.WithinDuration(t, start.Add(40*time.Minute), run.CurrentBatchDeadline.Time, 5*time.Second)
		require.WithinDuration(t, start.Add(70*time.Minute), run.Deadline.Time, 5*time.Second)
	}, 17*time.Minute)
	w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, rolloutworkflow.Input{Object: workflowtest.ARollout()})

	status := workflowtest.RequireFailure[workflowtest.GroupStatus](w, ranv1.ReasonTimedOut)
	require.Equal(t, map[string]ranv1.ClusterState{"c1": ranv1.ClusterTimedOut, "c2": ranv1.ClusterComplete}, workflowtest.ClusterStates(status))
	require.WithinDuration(t, start.Add(40*time.Minute), workflowtest.StatusOfCluster(status, "c1").Since.Time, 5*time.Second, "ten minutes later")
	require.Len(t, status.Notes, 1)
	require.Contains(t, status.Notes[0], ": this time does not count")
	require.Equal(t, []time.Duration{30 * time.Minute, 25 * time.Minute, 29 * time.Minute}, *timers, "one for each deadline")
}

func TestTimeWithoutWorkersDuringAPauseIsNotTakenOff(t *testing.T) {
	w, clusters := workflowtest.NewGroupWorld(t, []string{"c1"})
	clusters.Outcomes["c1"] = workflowtest.UntilCancelled
	start := w.Now()
	w.RegisterDelayedCallback(func() { w.SignalWorkflow(temporal.SignalPause, nil) }, 5*time.Minute)
	w.RegisterDelayedCallback(func() { w.WorkersWereAway(start.Add(6*time.Minute), start.Add(15*time.Minute)) }, 15*time.Minute)
	w.RegisterDelayedCallback(func() { w.SignalWorkflow(temporal.SignalResume, nil) }, 20*time.Minute)
	w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, rolloutworkflow.Input{Object: workflowtest.ARollout()})
	status := workflowtest.RequireFailure[workflowtest.GroupStatus](w, ranv1.ReasonTimedOut)
	require.WithinDuration(t, start.Add(75*time.Minute), workflowtest.StatusOfCluster(status, "c1").Since.Time, 5*time.Second)
	require.Empty(t, status.Notes)
}

func TestASearchAttributeHasTheDeepestReason(t *testing.T) {
	w, clusters := workflowtest.NewGroupWorld(t, []string{"c1", "c2"})
	clusters.Outcomes["c1"], clusters.Outcomes["c2"] = workflowtest.Takes(10*time.Minute), workflowtest.Takes(10*time.Minute)
	var reasons []string
	upserts := 0
	w.OnUpsertTypedSearchAttributes(mock.MatchedBy(func(set sdktemporal.SearchAttributes) bool {
		upserts++
		if set.ContainsKey(temporal.AttributeReason) {
			reason, _ := set.GetKeyword(temporal.AttributeReason)
			reasons = append(reasons, reason)
		}
		return true
	})).Return(nil)
	progress := func(after time.Duration, cluster, reason, message string) {
		w.RegisterDelayedCallback(func() {
			w.SignalWorkflow(temporal.SignalClusterProgress, ranv1.ClusterStatus{Name: cluster, Step: "w2: Draining", Reason: reason, Message: message})
		}, after)
	}
	progress(time.Minute, "c1", "DisruptionBudgetNever", "budget shop/web allows none of 4")
	progress(2*time.Minute, "c1", "DisruptionBudgetNever", "budget shop/web allows none of 5")
	progress(3*time.Minute, "c2", "DisruptionBudget", "budget shop/db allows 0 of 3")
	progress(4*time.Minute, "c1", "", "")
	progress(5*time.Minute, "c2", "Evicting", "")
	w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, rolloutworkflow.Input{Object: workflowtest.ARollout()})
	workflowtest.RequireResult[workflowtest.GroupStatus](w)
	require.Equal(t, []string{ranv1.ReasonBatchInProgress, "DisruptionBudgetNever", "DisruptionBudget", ranv1.ReasonBatchInProgress}, reasons, "only when it changes")
	require.LessOrEqual(t, upserts, 8, "the changes of one task are one event")
}
