package rollout_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"drydock.dev/drydock/activities/health"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/emergency"
	"drydock.dev/drydock/internal/rollout"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/internal/windows"
	rolloutworkflow "drydock.dev/drydock/workflows/rollout"
	"drydock.dev/drydock/workflows/workflowtest"
)

// stop temporarily prevents the start of clusters.
type stop struct {
	name, reason string
	begin, end   func(w *workflowtest.World)
}

func everyStop() []stop {
	return []stop{
		{
			"a pause", "Paused",
			func(w *workflowtest.World) {
				w.SignalWorkflow(temporal.SignalPause, temporal.SignalRequest{Actor: "bob"})
			},
			func(w *workflowtest.World) {
				w.SignalWorkflow(temporal.SignalResume, temporal.SignalRequest{Actor: "bob"})
			},
		},
		{
			"a hold of all", emergency.ReasonHeld,
			func(w *workflowtest.World) { w.SignalWorkflow(temporal.SignalHeld, workflowtest.HeldState(2, "all")) },
			func(w *workflowtest.World) { w.SignalWorkflow(temporal.SignalHeld, workflowtest.HeldState(3)) },
		},
		{
			"a hold of the clusters", emergency.ReasonHeld,
			func(w *workflowtest.World) {
				w.SignalWorkflow(temporal.SignalHeld, workflowtest.HeldState(2, "cluster/c1", "cluster/c2"))
			},
			func(w *workflowtest.World) {
				w.SignalWorkflow(temporal.SignalHeld, workflowtest.HeldState(3, "cluster/c2"))
			},
		},
		{
			"a closed window", emergency.ReasonWaitingForWindow,
			func(w *workflowtest.World) {
				w.SignalWorkflow(temporal.SignalWindow, workflowtest.OpensAt(2, w.Now().Add(14*time.Hour)))
			},
			func(w *workflowtest.World) {
				w.SignalWorkflow(temporal.SignalWindow, workflowtest.OpenUntil(3, w.Now().Add(4*time.Hour)))
			},
		},
	}
}

// gatedInWindows returns a rollout with health checks and a window that is open for days.
func gatedInWindows(w *workflowtest.World) rolloutworkflow.Input {
	open := workflowtest.OpenUntil(1, w.Now().Add(72*time.Hour))
	open.Schedule.Openings[0].Start = w.Now().Add(-time.Hour)
	w.Windows = map[string]windows.Snapshot{workflowtest.NightWindow: open}
	in := workflowtest.RolloutInWindow()
	in.Object = withHealthChecks(in.Object)
	return in
}

// requireStopped requires that no cluster has started, and that the status shows the reason.
func requireStopped(w *workflowtest.World, clusters *workflowtest.Children, reason string) {
	w.T.Helper()
	require.Empty(w.T, clusters.Events)
	status := workflowtest.StatusOf[workflowtest.GroupStatus](w)
	require.NotNil(w.T, status.Wait)
	require.Equal(w.T, reason, status.Wait.Reason)
	require.Nil(w.T, status.Status.CurrentBatchDeadline, "the clock is paused")
	require.Nil(w.T, status.Status.Deadline)
}

// requireCheckedAfter requires that a health check ran after that time.
func requireCheckedAfter(w *workflowtest.World, first int, then time.Time) {
	w.T.Helper()
	checks := w.InputsOf("AwaitClusterHealthy")
	require.False(w.T, checks[first].(health.AwaitClusterHealthyInput).Since.Before(then), "%d", first)
}

func TestTheHealthGateRunsWhenAClusterMayStart(t *testing.T) {
	for _, stop := range everyStop() {
		t.Run(stop.name, func(t *testing.T) {
			w, clusters := workflowtest.NewGroupWorld(t, []string{"c1"}, []string{"c2"})
			in := gatedInWindows(w)
			start := w.Now()
			w.Fail["PlanRollout"] = func(int) error { stop.begin(w); return nil }
			if stop.reason == emergency.ReasonWaitingForWindow {
				w.Windows[workflowtest.NightWindow] = workflowtest.OpensAt(1, start.Add(14*time.Hour))
			}
			w.RegisterDelayedCallback(func() {
				requireStopped(w, clusters, stop.reason)
				require.Empty(t, checkedClusters(w))
			}, 13*time.Hour)
			w.RegisterDelayedCallback(func() { stop.end(w) }, 14*time.Hour)
			if stop.name == "a hold of the clusters" {
				w.ReceiveHolds(15*time.Hour, workflowtest.HeldState(4))
			}
			w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, in)
			require.Equal(t, int32(2), workflowtest.RequireResult[workflowtest.GroupStatus](w).Counts.Complete)
			require.Len(t, checkedClusters(w), 4)
			requireCheckedAfter(w, 0, start.Add(14*time.Hour))
		})
	}
}

// The result of an interrupted check is ignored, whether it passed or failed.
func TestInterruptedHealthChecksAreRepeated(t *testing.T) {
	for _, stop := range everyStop() {
		for name, seen := range map[string]error{"failing checks": unhealthyRegistry("c1"), "passing checks": nil} {
			t.Run(stop.name+" during "+name, func(t *testing.T) {
				w, clusters := workflowtest.NewGroupWorld(t, []string{"c1"})
				in := gatedInWindows(w)
				start := w.Now()
				w.Fail["AwaitClusterHealthy"] = func(call int) error {
					if call > 1 {
						return nil
					}
					stop.begin(w)
					return seen
				}
				w.RegisterDelayedCallback(func() { requireStopped(w, clusters, stop.reason) }, 13*time.Hour)
				w.RegisterDelayedCallback(func() { stop.end(w) }, 14*time.Hour)
				w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, in)
				require.Equal(t, int32(1), workflowtest.RequireResult[workflowtest.GroupStatus](w).Counts.Complete)
				require.Len(t, checkedClusters(w), 3, "the interrupted check, the repeated check, and the check after the work")
				requireCheckedAfter(w, 1, start.Add(14*time.Hour))
			})
		}
	}
}

func TestAPauseOrHoldAfterTheHealthGateRepeatsTheChecks(t *testing.T) {
	for _, stop := range everyStop() {
		t.Run(stop.name, func(t *testing.T) {
			w, clusters := workflowtest.NewGroupWorld(t, []string{"c1"})
			in := gatedInWindows(w)
			start := w.Now()
			w.Fail["LookUpClusters"] = func(call int) error {
				if call == 2 { // the first is for the gate: now the batch has started, but its cluster has not
					require.Len(t, checkedClusters(w), 1)
					stop.begin(w)
				}
				return nil
			}
			w.RegisterDelayedCallback(func() { requireStopped(w, clusters, stop.reason) }, 13*time.Hour)
			w.RegisterDelayedCallback(func() { stop.end(w) }, 14*time.Hour)
			w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, in)
			require.Equal(t, int32(1), workflowtest.RequireResult[workflowtest.GroupStatus](w).Counts.Complete)
			require.Len(t, checkedClusters(w), 3)
			requireCheckedAfter(w, 1, start.Add(14*time.Hour))
		})
	}
}

// The approval is valid for an hour.
func TestAnExpiredApprovalIsRequiredAgainBeforeTheFirstCluster(t *testing.T) {
	for _, stop := range everyStop() {
		for when, activity := range map[string]string{"during the checks": "AwaitClusterHealthy", "after the checks": "LookUpClusters"} {
			for _, point := range []ranv1.Approvals{{BeforeCanaries: true, Expiry: 60}, {BeforeEachBatch: true, Expiry: 60}} {
				t.Run(stop.name+" "+when, func(t *testing.T) {
					w, clusters := workflowtest.NewGroupWorld(t, []string{"c1"})
					in := gatedInWindows(w)
					in.Object.Spec.Approvals = &point
					workflowtest.SendUpdateWhen(w, workflowtest.AwaitsApproval, temporal.UpdateApprove, rollout.ApprovalRequest{Actor: "bob"})
					w.Fail[activity] = func(call int) error {
						if call == 1 && activity != "LookUpClusters" || call == 2 && activity == "LookUpClusters" { // its first call is for the gate
							stop.begin(w)
						}
						return nil
					}
					w.RegisterDelayedCallback(func() { requireStopped(w, clusters, stop.reason) }, 13*time.Hour)
					w.RegisterDelayedCallback(func() { stop.end(w) }, 14*time.Hour)
					w.RegisterDelayedCallback(func() {
						require.Empty(t, clusters.Events)
						require.True(t, workflowtest.AwaitsApproval(workflowtest.StatusOf[workflowtest.GroupStatus](w)))
						w.SendUpdate(temporal.UpdateApprove, rollout.ApprovalRequest{Actor: "eve"})
					}, 14*time.Hour+10*time.Minute)
					w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, in)
					status := workflowtest.RequireResult[workflowtest.GroupStatus](w)
					require.Len(t, status.Approvals, 2)
					require.Equal(t, status.Approvals[0].Point, status.Approvals[1].Point)
				})
			}
		}
	}
}

// The checks take longer than an approval is valid, also if another run continues them.
func TestAnApprovalDoesNotExpireDuringHealthChecks(t *testing.T) {
	for _, again := range []bool{false, true} {
		var batch []string
		for i := range rolloutworkflow.MaxHealthChecks + 1 {
			batch = append(batch, fmt.Sprintf("c%02d", i))
		}
		w, clusters := workflowtest.NewGroupWorld(t, batch)
		object := withHealthChecks(workflowtest.ARollout())
		object.Spec.HealthChecks[0].TimeoutSeconds = new(int32(3600))
		object.Spec.Approvals = &ranv1.Approvals{BeforeEachBatch: true, Expiry: 2}
		var approved *workflowtest.UpdateResult
		w.RegisterDelayedCallback(func() {
			approved = w.SendUpdate(temporal.UpdateApprove, rollout.ApprovalRequest{Actor: "bob"})
		}, time.Minute)
		healthy := w.Now().Add(6 * time.Minute)
		w.Fail["AwaitClusterHealthy"] = func(int) error {
			if w.Now().Before(healthy) {
				return temporal.Error(temporal.ErrClusterUnreachable, "no answer", nil)
			}
			return nil
		}
		if again {
			w.RegisterDelayedCallback(func() { w.SetContinueAsNewSuggested(true) }, 4*time.Minute)
		}
		w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, rolloutworkflow.Input{Object: object})
		require.NoError(t, approved.Rejected)
		if again {
			next := workflowtest.NextRunInput[rolloutworkflow.Input](w)
			require.NotNil(t, next)
			require.Equal(t, rolloutworkflow.MaxHealthChecks, next.PreviousRun.HealthyClusters)
			require.Empty(t, clusters.Events)
			later := w.Now()
			w, _ = workflowtest.NewGroupWorld(t)
			w.SetStartTime(later)
			w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, *next)
		}
		status := workflowtest.RequireResult[workflowtest.GroupStatus](w)
		require.Equal(t, int32(len(batch)), status.Counts.Complete)
		require.Len(t, status.Approvals, 1)
	}
}

// No cluster of the first batch was started. Its approval and its checks do not count for the second batch.
func TestABatchWithoutStartedClustersNeedsItsApprovalAgain(t *testing.T) {
	w, clusters := workflowtest.NewGroupWorld(t, []string{"c1"}, []string{"c2"})
	object := withHealthChecks(workflowtest.ARollout())
	object.Spec.Approvals = &ranv1.Approvals{BeforeEachBatch: true}
	w.DeletedClusters = []string{"c1"}
	w.RegisterDelayedCallback(func() { w.SendUpdate(temporal.UpdateApprove, rollout.ApprovalRequest{Actor: "bob"}) }, time.Minute)
	w.RegisterDelayedCallback(func() {
		status := workflowtest.StatusOf[workflowtest.GroupStatus](w)
		require.NotNil(t, status.Wait)
		require.Equal(t, ranv1.ReasonWaitingForApproval, status.Wait.Reason)
		require.Empty(t, clusters.Events)
		require.ElementsMatch(t, []string{"c1", "c2"}, checkedClusters(w))
		w.SendUpdate(temporal.UpdateApprove, rollout.ApprovalRequest{Actor: "bob"})
	}, time.Hour)
	w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, rolloutworkflow.Input{Object: object})
	require.ErrorContains(t, w.GetWorkflowError(), "failed: c1")
	require.Equal(t, []string{"+c2", "-c2"}, clusters.Events)
	require.ElementsMatch(t, []string{"c1", "c2", "c2", "c2"}, checkedClusters(w), "c2 is checked again before and after its work")
}

func TestANewRunOfAHeldRolloutRepeatsTheHealthChecks(t *testing.T) {
	w, clusters := workflowtest.NewGroupWorld(t, []string{"c1"})
	w.Fail["LookUpClusters"] = func(call int) error {
		if call == 2 { // the first is for the gate
			w.SignalWorkflow(temporal.SignalHeld, workflowtest.HeldState(2, "all"))
			w.SetContinueAsNewSuggested(true)
		}
		return nil
	}
	w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, rolloutworkflow.Input{Object: withHealthChecks(workflowtest.ARollout())})
	next := workflowtest.NextRunInput[rolloutworkflow.Input](w)
	require.NotNil(t, next)
	require.NotNil(t, next.PreviousRun.StartedBatch)
	require.Zero(t, next.PreviousRun.HealthyClusters, "the checks are outdated")
	require.Empty(t, clusters.Events)

	second, again := workflowtest.NewGroupWorld(t, []string{"c1"})
	start := second.Now()
	second.RegisterDelayedCallback(func() {
		requireStopped(second, again, emergency.ReasonHeld)
		require.Empty(t, checkedClusters(second))
	}, 13*time.Hour)
	second.ReceiveHolds(14*time.Hour, workflowtest.HeldState(3))
	second.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, *next)
	require.Equal(t, int32(1), workflowtest.RequireResult[workflowtest.GroupStatus](second).Counts.Complete)
	requireCheckedAfter(second, 0, start.Add(14*time.Hour))
}

func TestTheHealthGateIsNotRepeatedAfterTheFirstCluster(t *testing.T) {
	for _, again := range []bool{false, true} {
		w, clusters := workflowtest.NewGroupWorld(t, []string{"c1"}, []string{"c2"})
		clusters.Outcomes["c1"] = workflowtest.Takes(10 * time.Minute)
		w.ReceiveHolds(5*time.Minute, workflowtest.HeldState(2, "all"))
		w.ReceiveHolds(14*time.Hour, workflowtest.HeldState(3))
		if again {
			w.RegisterDelayedCallback(func() { w.SetContinueAsNewSuggested(true) }, 5*time.Minute)
		}
		w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, rolloutworkflow.Input{Object: withHealthChecks(workflowtest.ARollout())})
		checks := len(checkedClusters(w))
		if again {
			next := workflowtest.NextRunInput[rolloutworkflow.Input](w)
			require.NotNil(t, next)
			w, _ = workflowtest.NewGroupWorld(t, []string{"c1"}, []string{"c2"})
			w.ReceiveHolds(14*time.Hour, workflowtest.HeldState(3))
			w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, *next)
			checks += len(checkedClusters(w))
		}
		require.Equal(t, int32(2), workflowtest.RequireResult[workflowtest.GroupStatus](w).Counts.Complete)
		require.Equal(t, 4, checks)
	}
}

// During a hub outage no cluster starts, because deleted clusters are unknown.
func TestHealthChecksAreRepeatedAfterALongHubOutage(t *testing.T) {
	for name, test := range map[string]struct {
		outage time.Duration
		checks []string
	}{
		"ten minutes": {10 * time.Minute, []string{"c1", "c1", "c1"}},
		"ten seconds": {10 * time.Second, []string{"c1", "c1"}},
	} {
		t.Run(name, func(t *testing.T) {
			w, _ := workflowtest.NewGroupWorld(t, []string{"c1"})
			recovers := w.Now().Add(test.outage)
			w.Fail["LookUpClusters"] = func(call int) error {
				if call > 1 && w.Now().Before(recovers) { // the first is for the gate
					return temporal.Error(temporal.ErrClusterUnreachable, "the hub does not answer", nil)
				}
				return nil
			}
			w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, rolloutworkflow.Input{Object: withHealthChecks(workflowtest.ARollout())})
			require.Equal(t, int32(1), workflowtest.RequireResult[workflowtest.GroupStatus](w).Counts.Complete)
			require.Equal(t, test.checks, checkedClusters(w), "the last check follows the work")
			if len(test.checks) == 3 {
				requireCheckedAfter(w, 1, recovers)
			}
		})
	}
}
