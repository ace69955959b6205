package workflows

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	sdktemporal "go.temporal.io/sdk/temporal"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/drydock/activities"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/emergency"
	"drydock.dev/drydock/internal/rollout"
	"drydock.dev/drydock/internal/temporal"
)

// eachBatchApproved is a rollout of which somebody has to approve each batch; who asks first approves the first.
func eachBatchApproved(w *world, object ranv1.ClusterGroupUpgrade) ranv1.ClusterGroupUpgrade {
	object.Spec.Approvals = &ranv1.Approvals{BeforeEachBatch: true}
	askWhen(w, awaitsApproval, temporal.UpdateApprove, rollout.ApprovalRequest{Actor: "bob"})
	return object
}

// c1 has its time until half an hour is over, and returns its nodes for a minute.
func TestAfterABatchThatTimedOutTheStatusSaysWhatIsWaitedFor(t *testing.T) {
	for name, stands := range map[string]struct {
		reason, progress string
		during           func(*world)
	}{
		"an approval": {ranv1.ReasonWaitingForApproval, "WaitingForApproval; Maintaining nodes", func(*world) {}},
		"a pause": {"Paused", "Paused; Maintaining nodes", func(w *world) {
			w.SignalWorkflow(temporal.SignalPause, temporal.SignalRequest{Actor: "ann"})
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w, clusters := newGroupWorld(t, []string{"c1"}, []string{"c2"})
			clusters.ends["c1"] = never
			object := eachBatchApproved(w, aRollout())
			w.RegisterDelayedCallback(func() {
				require.Equal(t, "WithdrawingTimedOut", statusOf[groupStatus](w).Wait.Reason)
				stands.during(w)
			}, 30*time.Minute+30*time.Second)
			w.RegisterDelayedCallback(func() {
				status := statusOf[groupStatus](w)
				require.Equal(t, stands.reason, status.Wait.Reason, status.Wait.Message)
				require.Equal(t, stands.progress, progressMessage(status))
				w.SignalWorkflow(temporal.SignalCancel, nil)
			}, time.Hour)
			w.ExecuteWorkflow(ClusterGroupUpgrade, ClusterGroupUpgradeInput{Object: object})
			requireCancelled[groupStatus](w)
		})
	}
}

// Nobody has cancelled a rollout whose time ends while a cluster soaks.
func TestARolloutWhoseTimeEndsInASoakIsNotCancelling(t *testing.T) {
	w, _ := newGroupWorld(t, []string{"c1"}, []string{"c2"})
	object := aRollout()
	object.Spec.RemediationStrategy.SoakSeconds = 7200
	var reasons []string
	w.OnUpsertTypedSearchAttributes(mock.MatchedBy(func(set sdktemporal.SearchAttributes) bool {
		if reason, is := set.GetKeyword(temporal.AttributeReason); is {
			reasons = append(reasons, reason)
		}
		return true
	})).Return(nil)
	w.ExecuteWorkflow(ClusterGroupUpgrade, ClusterGroupUpgradeInput{Object: object})
	requireFailure[groupStatus](w, ranv1.ReasonTimedOut)
	require.Contains(t, reasons, ranv1.ReasonSoaking)
	require.NotContains(t, reasons, "Cancelling")
}

// afterCompletion on c1 does not succeed for a while, while the rollout waits for somebody.
func TestWhatARolloutWaitsForIsSaidAgainWhenAnActivityRecovers(t *testing.T) {
	for name, fails := range map[string]func(*world){
		"from errors": func(w *world) {
			w.fail["ChangeClusters"] = func(call int) error {
				if call > 1 && call <= 1+roundAttempts {
					return errors.New("the hub does not answer")
				}
				return nil
			}
		},
		"from refusals": func(w *world) {
			play(w, "ChangeClusters", func(in activities.ChangeClustersInput) any {
				if len(w.inputsOf("ChangeClusters")) == 2 {
					return []activities.RefusedChange{{Cluster: "c1", Message: "c1 refuses"}}
				}
				return nil
			})
		},
	} {
		for _, reason := range []string{ranv1.ReasonWaitingForApproval, reasonPaused, emergency.ReasonHeld} {
			t.Run(name+" "+reason, func(t *testing.T) {
				w, clusters := newGroupWorld(t, []string{"c1"}, []string{"c2"})
				fails(w)
				clusters.takes = 10 * time.Minute
				object := withActions(aRollout())
				switch reason {
				case reasonPaused:
					w.RegisterDelayedCallback(func() { w.SignalWorkflow(temporal.SignalPause, nil) }, 5*time.Minute)
				case emergency.ReasonHeld:
					w.hear(5*time.Minute, heldState(2, "all"))
				default:
					object = eachBatchApproved(w, object)
				}
				w.RegisterDelayedCallback(func() {
					require.Len(t, clusters.story(), 2)
					require.Greater(t, len(w.inputsOf("ChangeClusters")), 2)
					status := statusOf[groupStatus](w)
					require.NotNil(t, status.Wait)
					require.Equal(t, reason, status.Wait.Reason)
					w.SignalWorkflow(temporal.SignalCancel, nil)
				}, time.Hour)
				w.ExecuteWorkflow(ClusterGroupUpgrade, ClusterGroupUpgradeInput{Object: object})
				requireCancelled[groupStatus](w)
			})
		}
	}
}

// The hub recovers while c2 returns its nodes for a minute.
func TestARolloutThatIsCancelledSaysSoWhenAnActivityRecovers(t *testing.T) {
	w, clusters := newGroupWorld(t, []string{"c1", "c2"})
	clusters.ends["c2"] = never
	recovers := w.Now().Add(30*time.Minute + 20*time.Second)
	w.fail["ChangeClusters"] = func(call int) error {
		if call > 1 && w.Now().Before(recovers) {
			return errors.New("the hub does not answer")
		}
		return nil
	}
	w.RegisterDelayedCallback(func() { w.SignalWorkflow(temporal.SignalCancel, nil) }, 30*time.Minute)
	w.RegisterDelayedCallback(func() {
		require.Len(t, w.changed()["done"], len(w.inputsOf("ChangeClusters"))-1)
		status := statusOf[groupStatus](w)
		require.NotNil(t, status.Wait)
		require.Equal(t, "Cancelling", status.Wait.Reason)
	}, 30*time.Minute+50*time.Second)
	w.ExecuteWorkflow(ClusterGroupUpgrade, ClusterGroupUpgradeInput{Object: withActions(aRollout())})
	requireCancelled[groupStatus](w)
}

// While c1 soaks the hub cannot be watched, and when it has nothing is watched any more.
func TestAPausedRolloutSaysSoWhenWhatDidNotSucceedIsNotTriedAnyMore(t *testing.T) {
	w := newPolicyWorld(t, []string{"c1"}, []string{"c2"})
	w.soaks[1] = time.Hour
	w.RegisterDelayedCallback(func() { w.SignalWorkflow(temporal.SignalPause, temporal.SignalRequest{Actor: "bob"}) }, 10*time.Minute)
	w.fail["AwaitCompliance"] = func(int) error {
		if string(w.compliance["c1"]) == "CC" {
			return temporal.Error(temporal.ErrClusterUnreachable, "the hub does not answer", nil)
		}
		return nil
	}
	w.RegisterDelayedCallback(func() {
		require.Equal(t, temporal.ErrClusterUnreachable, statusOf[groupStatus](w.world).Wait.Reason)
	}, 30*time.Minute)
	w.RegisterDelayedCallback(func() {
		status := statusOf[groupStatus](w.world)
		require.Equal(t, ranv1.ClusterComplete, clusterStates(status)["c1"])
		require.Equal(t, reasonPaused, status.Wait.Reason, status.Wait.Message)
		w.SignalWorkflow(temporal.SignalCancel, nil)
	}, 2*time.Hour)
	w.run()
	requireCancelled[groupStatus](w.world)
}

// Whoever pauses and resumes meanwhile, the rollout says what it waits for.
func TestAPauseUntilItIsKnownWhatIsHeldLeavesNoWaitWithoutAReason(t *testing.T) {
	for name, object := range map[string]ranv1.ClusterGroupUpgrade{"before the first batch": aRollout(), "before clusters are precached": prepared(aRollout())} {
		t.Run(name, func(t *testing.T) {
			w, clusters := newPreparedWorld(t, nil, []string{"c1"})
			w.untold = true
			requireReason := func(after time.Duration, reason string) {
				w.RegisterDelayedCallback(func() {
					wait := statusOf[groupStatus](w).Wait
					require.NotNil(t, wait, "after %v", after)
					require.Equal(t, reason, wait.Reason, "after %v: %s", after, wait.Message)
				}, after)
			}
			signal := func(after time.Duration, name string) {
				w.RegisterDelayedCallback(func() { w.SignalWorkflow(name, temporal.SignalRequest{Actor: "bob"}) }, after)
			}
			signal(time.Hour, temporal.SignalPause)
			requireReason(2*time.Hour, reasonPaused)
			signal(3*time.Hour, temporal.SignalResume)
			requireReason(4*time.Hour, emergency.ReasonUnknown)
			signal(5*time.Hour, temporal.SignalPause)
			w.hear(6*time.Hour, heldState(1))
			requireReason(7*time.Hour, reasonPaused)
			signal(8*time.Hour, temporal.SignalResume)
			w.ExecuteWorkflow(ClusterGroupUpgrade, ClusterGroupUpgradeInput{Object: object})
			require.Nil(t, requireResult[groupStatus](w).Wait)
			require.Equal(t, []string{"+c1", "-c1"}, clusters.story())
		})
	}
}

// c1 refuses what afterCompletion asks for, which is what the rollout waits for last when its run ends.
func TestAPauseIsHandedToTheNextRunWhateverElseIsWaitedFor(t *testing.T) {
	first, clusters := newGroupWorld(t, []string{"c1", "c2"}, []string{"c3"})
	clusters.ends["c2"] = takes(20 * time.Minute)
	first.refuseChanges(first.Now().Add(300*time.Hour), false, "c1")
	var paused metav1.Time
	first.RegisterDelayedCallback(func() {
		first.SignalWorkflow(temporal.SignalPause, temporal.SignalRequest{Actor: "bob", Reason: "audit"})
		first.SetContinueAsNewSuggested(true)
		paused = metav1.NewTime(first.Now())
	}, 30*time.Second)
	first.ExecuteWorkflow(ClusterGroupUpgrade, ClusterGroupUpgradeInput{Object: withActions(aRollingRollout())})
	in := handedOn[ClusterGroupUpgradeInput](first)
	require.NotNil(t, in, "%v", first.GetWorkflowError())
	require.Equal(t, reasonRefused, in.Carried.Status.Wait.Reason)

	second, again := newGroupWorld(t)
	second.refuseChanges(second.Now().Add(time.Hour), false, "c1")
	second.RegisterDelayedCallback(func() {
		require.Empty(t, again.events)
		wait := statusOf[groupStatus](second).Wait
		require.NotNil(t, wait)
		require.Equal(t, "paused by bob: audit; what is at work finishes; waiting for resume", wait.Message)
		require.WithinDuration(t, paused.Time, wait.Since.Time, time.Second)
		second.SignalWorkflow(temporal.SignalResume, nil)
	}, 5*time.Hour)
	second.ExecuteWorkflow(ClusterGroupUpgrade, *in)
	require.Equal(t, int32(3), requireResult[groupStatus](second).Counts.Complete)
}

func TestAnApprovalDoesNotBeginThePauseAnew(t *testing.T) {
	w, _ := newGroupWorld(t, []string{"c1"}, []string{"c2"})
	start := w.Now()
	w.RegisterDelayedCallback(func() { w.SignalWorkflow(temporal.SignalPause, temporal.SignalRequest{Actor: "eve"}) }, 10*time.Minute)
	w.RegisterDelayedCallback(func() { w.ask(temporal.UpdateApprove, rollout.ApprovalRequest{Actor: "bob"}) }, 20*time.Minute)
	w.RegisterDelayedCallback(func() {
		wait := statusOf[groupStatus](w).Wait
		require.Equal(t, reasonPaused, wait.Reason)
		require.Contains(t, wait.Message, "paused by eve")
		require.WithinDuration(t, start.Add(10*time.Minute), wait.Since.Time, time.Second)
		w.SignalWorkflow(temporal.SignalResume, nil)
	}, time.Hour)
	w.ExecuteWorkflow(ClusterGroupUpgrade, ClusterGroupUpgradeInput{Object: approvedRollout(), StartedBy: "ann"})
	requireResult[groupStatus](w)
}
