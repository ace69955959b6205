package workflows

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	sdktemporal "go.temporal.io/sdk/temporal"

	"drydock.dev/drydock/activities"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
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
			w.lookAfter(time.Hour, func() {
				status := statusOf[groupStatus](w)
				require.Equal(t, stands.reason, status.Wait.Reason, status.Wait.Message)
				require.Equal(t, stands.progress, progressMessage(status))
				w.SignalWorkflow(temporal.SignalCancel, nil)
			})
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
		for _, paused := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				w, clusters := newGroupWorld(t, []string{"c1"}, []string{"c2"})
				fails(w)
				if paused {
					clusters.takes = 10 * time.Minute
					w.RegisterDelayedCallback(func() { w.SignalWorkflow(temporal.SignalPause, nil) }, 5*time.Minute)
				}
				w.lookAfter(time.Hour, func() {
					require.Len(t, clusters.story(), 2)
					require.Greater(t, len(w.inputsOf("ChangeClusters")), 2)
					status := statusOf[groupStatus](w)
					require.NotNil(t, status.Wait)
					if paused {
						require.Equal(t, "Paused", status.Wait.Reason)
					} else {
						require.True(t, awaitsApproval(status), status.Wait.Reason)
					}
					w.SignalWorkflow(temporal.SignalCancel, nil)
				})
				object := eachBatchApproved(w, withActions(aRollout()))
				w.ExecuteWorkflow(ClusterGroupUpgrade, ClusterGroupUpgradeInput{Object: object})
				requireCancelled[groupStatus](w)
			})
		}
	}
}
