package rollout_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	sdktemporal "go.temporal.io/sdk/temporal"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/drydock/activities/rollouts"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/emergency"
	"drydock.dev/drydock/internal/rollout"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/kit"
	rolloutworkflow "drydock.dev/drydock/workflows/rollout"
	"drydock.dev/drydock/workflows/rollout/policy"
	"drydock.dev/drydock/workflows/workflowtest"
)

// eachBatchApproved requires an approval of each batch, and approves the first one.
func eachBatchApproved(w *workflowtest.World, object ranv1.ClusterGroupUpgrade) ranv1.ClusterGroupUpgrade {
	object.Spec.Approvals = &ranv1.Approvals{BeforeEachBatch: true}
	workflowtest.SendUpdateWhen(w, workflowtest.AwaitsApproval, temporal.UpdateApprove, rollout.ApprovalRequest{Actor: "bob"})
	return object
}

// c1 times out after half an hour, and needs a minute to return its nodes.
func TestTheStatusShowsTheWaitAfterATimedOutBatch(t *testing.T) {
	for name, test := range map[string]struct {
		reason, Progress string
		during           func(*workflowtest.World)
	}{
		"an approval": {ranv1.ReasonWaitingForApproval, "WaitingForApproval; Maintaining nodes", func(*workflowtest.World) {}},
		"a pause": {"Paused", "Paused; Maintaining nodes", func(w *workflowtest.World) {
			w.SignalWorkflow(temporal.SignalPause, temporal.SignalRequest{Actor: "ann"})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w, clusters := workflowtest.NewGroupWorld(t, []string{"c1"}, []string{"c2"})
			clusters.Outcomes["c1"] = workflowtest.UntilCancelled
			object := eachBatchApproved(w, workflowtest.ARollout())
			w.RegisterDelayedCallback(func() {
				require.Equal(t, "CancellingTimedOut", workflowtest.StatusOf[workflowtest.GroupStatus](w).Wait.Reason)
				test.during(w)
			}, 30*time.Minute+30*time.Second)
			w.RegisterDelayedCallback(func() {
				status := workflowtest.StatusOf[workflowtest.GroupStatus](w)
				require.Equal(t, test.reason, status.Wait.Reason, status.Wait.Message)
				require.Equal(t, test.Progress, progressMessage(status))
				w.SignalWorkflow(temporal.SignalCancel, nil)
			}, time.Hour)
			w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, rolloutworkflow.Input{Object: object})
			workflowtest.RequireCancelled[workflowtest.GroupStatus](w)
		})
	}
}

func TestARolloutThatTimesOutDuringASoakIsNotShownAsCancelling(t *testing.T) {
	w, _ := workflowtest.NewGroupWorld(t, []string{"c1"}, []string{"c2"})
	object := workflowtest.ARollout()
	object.Spec.RemediationStrategy.SoakSeconds = 7200
	var reasons []string
	w.OnUpsertTypedSearchAttributes(mock.MatchedBy(func(set sdktemporal.SearchAttributes) bool {
		if reason, is := set.GetKeyword(temporal.AttributeReason); is {
			reasons = append(reasons, reason)
		}
		return true
	})).Return(nil)
	w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, rolloutworkflow.Input{Object: object})
	workflowtest.RequireFailure[workflowtest.GroupStatus](w, ranv1.ReasonTimedOut)
	require.Contains(t, reasons, ranv1.ReasonSoaking)
	require.NotContains(t, reasons, "Cancelling")
}

// afterCompletion on c1 fails for a time, during another wait of the rollout.
func TestTheWaitIsShownAgainWhenAnActivityRecovers(t *testing.T) {
	for name, fails := range map[string]func(*workflowtest.World){
		"after errors": func(w *workflowtest.World) {
			w.Fail["ChangeClusters"] = func(call int) error {
				if call > 1 && call <= 1+kit.RoundAttempts {
					return errors.New("the hub does not answer")
				}
				return nil
			}
		},
		"after refusals": func(w *workflowtest.World) {
			workflowtest.Simulate(w, "ChangeClusters", func(in rollouts.ChangeClustersInput) any {
				if len(w.InputsOf("ChangeClusters")) == 2 {
					return []rollouts.RefusedChange{{Cluster: "c1", Message: "c1 refuses"}}
				}
				return nil
			})
		},
	} {
		for _, reason := range []string{ranv1.ReasonWaitingForApproval, policy.ReasonPaused, emergency.ReasonHeld} {
			t.Run(name+" "+reason, func(t *testing.T) {
				w, clusters := workflowtest.NewGroupWorld(t, []string{"c1"}, []string{"c2"})
				fails(w)
				clusters.Duration = 10 * time.Minute
				object := workflowtest.WithActions(workflowtest.ARollout())
				switch reason {
				case policy.ReasonPaused:
					w.RegisterDelayedCallback(func() { w.SignalWorkflow(temporal.SignalPause, nil) }, 5*time.Minute)
				case emergency.ReasonHeld:
					w.ReceiveHolds(5*time.Minute, workflowtest.HeldState(2, "all"))
				default:
					object = eachBatchApproved(w, object)
				}
				w.RegisterDelayedCallback(func() {
					require.Len(t, clusters.EventsInOrder(), 2)
					require.Greater(t, len(w.InputsOf("ChangeClusters")), 2)
					status := workflowtest.StatusOf[workflowtest.GroupStatus](w)
					require.NotNil(t, status.Wait)
					require.Equal(t, reason, status.Wait.Reason)
					w.SignalWorkflow(temporal.SignalCancel, nil)
				}, time.Hour)
				w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, rolloutworkflow.Input{Object: object})
				workflowtest.RequireCancelled[workflowtest.GroupStatus](w)
			})
		}
	}
}

// The hub recovers while c2 returns its nodes.
func TestACancellationIsShownAgainWhenAnActivityRecovers(t *testing.T) {
	w, clusters := workflowtest.NewGroupWorld(t, []string{"c1", "c2"})
	clusters.Outcomes["c2"] = workflowtest.UntilCancelled
	recovers := w.Now().Add(30*time.Minute + 20*time.Second)
	w.Fail["ChangeClusters"] = func(call int) error {
		if call > 1 && w.Now().Before(recovers) {
			return errors.New("the hub does not answer")
		}
		return nil
	}
	w.RegisterDelayedCallback(func() { w.SignalWorkflow(temporal.SignalCancel, nil) }, 30*time.Minute)
	w.RegisterDelayedCallback(func() {
		require.Len(t, w.LabelledClusters()["done"], len(w.InputsOf("ChangeClusters"))-1)
		status := workflowtest.StatusOf[workflowtest.GroupStatus](w)
		require.NotNil(t, status.Wait)
		require.Equal(t, "Cancelling", status.Wait.Reason)
	}, 30*time.Minute+50*time.Second)
	w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, rolloutworkflow.Input{Object: workflowtest.WithActions(workflowtest.ARollout())})
	workflowtest.RequireCancelled[workflowtest.GroupStatus](w)
}

// The watch of the hub fails while c1 soaks, and ends with the soak.
func TestAPauseIsShownAfterARetryEnds(t *testing.T) {
	w := workflowtest.NewPolicyWorld(t, []string{"c1"}, []string{"c2"})
	w.Soaks[1] = time.Hour
	w.RegisterDelayedCallback(func() { w.SignalWorkflow(temporal.SignalPause, temporal.SignalRequest{Actor: "bob"}) }, 10*time.Minute)
	w.Fail["AwaitCompliance"] = func(int) error {
		if string(w.Compliance["c1"]) == "CC" {
			return temporal.Error(temporal.ErrClusterUnreachable, "the hub does not answer", nil)
		}
		return nil
	}
	w.RegisterDelayedCallback(func() {
		require.Equal(t, temporal.ErrClusterUnreachable, workflowtest.StatusOf[workflowtest.GroupStatus](w.World).Wait.Reason)
	}, 30*time.Minute)
	w.RegisterDelayedCallback(func() {
		status := workflowtest.StatusOf[workflowtest.GroupStatus](w.World)
		require.Equal(t, ranv1.ClusterComplete, workflowtest.ClusterStates(status)["c1"])
		require.Equal(t, policy.ReasonPaused, status.Wait.Reason, status.Wait.Message)
		w.SignalWorkflow(temporal.SignalCancel, nil)
	}, 2*time.Hour)
	w.Run()
	workflowtest.RequireCancelled[workflowtest.GroupStatus](w.World)
}

func TestAPauseWhileHoldsAreUnknownAlwaysShowsAReason(t *testing.T) {
	for name, object := range map[string]ranv1.ClusterGroupUpgrade{"before the first batch": workflowtest.ARollout(), "before clusters are precached": prepared(workflowtest.ARollout())} {
		t.Run(name, func(t *testing.T) {
			w, clusters := workflowtest.NewPreparedWorld(t, nil, []string{"c1"})
			w.HoldsUnknown = true
			requireReason := func(after time.Duration, reason string) {
				w.RegisterDelayedCallback(func() {
					wait := workflowtest.StatusOf[workflowtest.GroupStatus](w).Wait
					require.NotNil(t, wait, "after %v", after)
					require.Equal(t, reason, wait.Reason, "after %v: %s", after, wait.Message)
				}, after)
			}
			signal := func(after time.Duration, name string) {
				w.RegisterDelayedCallback(func() { w.SignalWorkflow(name, temporal.SignalRequest{Actor: "bob"}) }, after)
			}
			signal(time.Hour, temporal.SignalPause)
			requireReason(2*time.Hour, policy.ReasonPaused)
			signal(3*time.Hour, temporal.SignalResume)
			requireReason(4*time.Hour, emergency.ReasonUnknown)
			signal(5*time.Hour, temporal.SignalPause)
			w.ReceiveHolds(6*time.Hour, workflowtest.HeldState(1))
			requireReason(7*time.Hour, policy.ReasonPaused)
			signal(8*time.Hour, temporal.SignalResume)
			w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, rolloutworkflow.Input{Object: object})
			require.Nil(t, workflowtest.RequireResult[workflowtest.GroupStatus](w).Wait)
			require.Equal(t, []string{"+c1", "-c1"}, clusters.EventsInOrder())
		})
	}
}

// c1 refuses afterCompletion, so the run ends with another wait.
func TestAPauseIsPassedToTheNextRun(t *testing.T) {
	first, clusters := workflowtest.NewGroupWorld(t, []string{"c1", "c2"}, []string{"c3"})
	clusters.Outcomes["c2"] = workflowtest.Takes(20 * time.Minute)
	first.RefuseChanges(first.Now().Add(300*time.Hour), false, "c1")
	var paused metav1.Time
	first.RegisterDelayedCallback(func() {
		first.SignalWorkflow(temporal.SignalPause, temporal.SignalRequest{Actor: "bob", Reason: "audit"})
		first.SetContinueAsNewSuggested(true)
		paused = metav1.NewTime(first.Now())
	}, 30*time.Second)
	first.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, rolloutworkflow.Input{Object: workflowtest.WithActions(aRollingRollout())})
	in := workflowtest.NextRunInput[rolloutworkflow.Input](first)
	require.NotNil(t, in, "%v", first.GetWorkflowError())
	require.Equal(t, rolloutworkflow.ReasonRefused, in.PreviousRun.Status.Wait.Reason)

	second, again := workflowtest.NewGroupWorld(t)
	second.RefuseChanges(second.Now().Add(time.Hour), false, "c1")
	second.RegisterDelayedCallback(func() {
		require.Empty(t, again.Events)
		wait := workflowtest.StatusOf[workflowtest.GroupStatus](second).Wait
		require.NotNil(t, wait)
		require.Equal(t, "paused by bob: audit; running clusters finish; waiting for resume", wait.Message)
		require.WithinDuration(t, paused.Time, wait.Since.Time, time.Second)
		second.SignalWorkflow(temporal.SignalResume, nil)
	}, 5*time.Hour)
	second.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, *in)
	require.Equal(t, int32(3), workflowtest.RequireResult[workflowtest.GroupStatus](second).Counts.Complete)
}

func TestAnApprovalDoesNotRestartThePause(t *testing.T) {
	w, _ := workflowtest.NewGroupWorld(t, []string{"c1"}, []string{"c2"})
	start := w.Now()
	w.RegisterDelayedCallback(func() { w.SignalWorkflow(temporal.SignalPause, temporal.SignalRequest{Actor: "eve"}) }, 10*time.Minute)
	w.RegisterDelayedCallback(func() { w.SendUpdate(temporal.UpdateApprove, rollout.ApprovalRequest{Actor: "bob"}) }, 20*time.Minute)
	w.RegisterDelayedCallback(func() {
		wait := workflowtest.StatusOf[workflowtest.GroupStatus](w).Wait
		require.Equal(t, policy.ReasonPaused, wait.Reason)
		require.Contains(t, wait.Message, "paused by eve")
		require.WithinDuration(t, start.Add(10*time.Minute), wait.Since.Time, time.Second)
		w.SignalWorkflow(temporal.SignalResume, nil)
	}, time.Hour)
	w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, rolloutworkflow.Input{Object: approvedRollout(), StartedBy: "ann"})
	workflowtest.RequireResult[workflowtest.GroupStatus](w)
}
