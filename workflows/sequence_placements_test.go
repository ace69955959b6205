package workflows

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/workflow"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/drydock/activities"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/emergency"
	"drydock.dev/drydock/internal/policies"
	"drydock.dev/drydock/internal/rollout"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/internal/windows"
)

// stops are what keeps anything new from being put on c1, and what ends that.
var stops = map[string]struct {
	reason     string
	stop, goOn func(*world)
}{
	"held": {
		emergency.ReasonHeld,
		func(w *world) { w.SignalWorkflow(temporal.SignalHeld, heldState(2, "cluster/c1")) },
		func(w *world) { w.SignalWorkflow(temporal.SignalHeld, heldState(3)) },
	},
	"paused": {
		reasonPaused,
		func(w *world) { w.SignalWorkflow(temporal.SignalPause, nil) },
		func(w *world) { w.SignalWorkflow(temporal.SignalResume, nil) },
	},
}

// The hub did not answer when the first item was to be put on the clusters: what was only tried has not begun.
func TestNothingIsPutOnAClusterThatIsHeldOrPausedWhenTheHubAnswersAgain(t *testing.T) {
	for name, away := range map[string]struct {
		calls int
		err   error
	}{
		"between rounds": {roundAttempts, errors.New("503")},
		"in a round":     {1, temporal.Error(temporal.ErrHeld, "an attempt has asked", nil)},
	} {
		for by, test := range stops {
			for _, items := range []string{"policies", "works"} {
				t.Run(items+" "+by+" "+name, func(t *testing.T) {
					w, place, story := newPolicyWorld(t, []string{"c1", "c2"}), "PlacePolicies", new([]string)
					run := func() { w.run() }
					if items == "works" {
						w, story = newWorkWorld(t, nil, []string{"c1", "c2"})
						place, run = "PlaceManifestWorks", func() { w.runWorks() }
					}
					w.fail[place] = func(call int) error {
						if call == away.calls {
							test.stop(w.world)
						}
						if call <= away.calls {
							return away.err
						}
						return nil
					}
					w.RegisterDelayedCallback(func() {
						require.NotContains(t, slices.Concat(w.enforced[0], w.enforced[1]), "c1")
						require.NotContains(t, *story, "+os c1")
						status := statusOf[groupStatus](w.world)
						waiting := statusOfCluster(status, "c1")
						require.Equal(t, test.reason, waiting.Reason)
						require.Contains(t, waiting.Message, "it may not begin")
						if by == "held" {
							require.Equal(t, ranv1.ClusterComplete, statusOfCluster(status, "c2").State, "it goes on")
						}
					}, 99*time.Hour)
					w.RegisterDelayedCallback(func() { test.goOn(w.world) }, 100*time.Hour)
					run()
					require.Equal(t, int32(2), requireResult[groupStatus](w.world).Counts.Complete)
				})
			}
		}
	}
}

func TestAWorkThatTheHubRefusesIsNotMadeWhileItsClusterIsHeld(t *testing.T) {
	for by, test := range stops {
		t.Run(by, func(t *testing.T) {
			w, story := newWorkWorld(t, nil, []string{"c1"})
			w.refuses = map[string]activities.RefusedPlacement{"c1": {Reason: "NotPlaced", Message: "namespace c1 of the hub is being deleted"}}
			w.RegisterDelayedCallback(func() { test.stop(w.world) }, 3*time.Minute)
			w.RegisterDelayedCallback(func() { delete(w.refuses, "c1") }, 5*time.Minute)
			w.RegisterDelayedCallback(func() {
				require.Empty(t, *story)
				require.Equal(t, test.reason, statusOfCluster(statusOf[groupStatus](w.world), "c1").Reason)
			}, 99*time.Hour)
			w.RegisterDelayedCallback(func() { test.goOn(w.world) }, 100*time.Hour)
			w.runWorks()
			requireResult[groupStatus](w.world)
			require.Equal(t, "+os c1", (*story)[0])
		})
	}
}

func TestAWorkThatSomebodyDeletesIsNotMadeAgainWhileItsClusterIsHeld(t *testing.T) {
	for by, test := range stops {
		t.Run(by, func(t *testing.T) {
			w, story := newWorkWorld(t, []string{"c1"}, []string{"c1"})
			w.RegisterDelayedCallback(func() { test.stop(w.world) }, time.Minute)
			w.RegisterDelayedCallback(func() { w.comply("c1", 0, policies.Unknown) }, 2*time.Minute)
			w.RegisterDelayedCallback(func() {
				require.Equal(t, []string{"+os c1"}, *story)
				waiting := statusOfCluster(statusOf[groupStatus](w.world), "c1")
				require.Equal(t, test.reason, waiting.Reason)
				require.NotContains(t, waiting.Message, "placed again")
			}, 99*time.Hour)
			w.RegisterDelayedCallback(func() { test.goOn(w.world) }, 100*time.Hour)
			w.RegisterDelayedCallback(func() {
				require.Equal(t, []string{"+os c1", "+os c1"}, *story)
				require.Contains(t, statusOfCluster(statusOf[groupStatus](w.world), "c1").Message, "placed again")
			}, 100*time.Hour+time.Minute)
			w.RegisterDelayedCallback(func() { w.comply("c1", 0, policies.Compliant) }, 100*time.Hour+2*time.Minute)
			w.RegisterDelayedCallback(func() { w.comply("c1", 1, policies.Compliant) }, 100*time.Hour+4*time.Minute)
			w.runWorks()
			requireResult[groupStatus](w.world)
		})
	}
}

// An attempt of which nobody has heard may have made the work.
func TestAWorkThatMayHaveBeenMadeIsTakenOffWhenItsClusterLeaves(t *testing.T) {
	for name, stays := range map[string][]string{"at once": nil, "also when the hub refuses that first": {"c1"}} {
		t.Run(name, func(t *testing.T) {
			w, story := newWorkWorld(t, []string{"c1"}, []string{"c1"})
			w.stays = stays
			w.fail["PlaceManifestWorks"] = func(call int) error {
				switch call {
				case 1:
					w.bring("c1", 0)
					stops["held"].stop(w.world)
					return temporal.Error(temporal.ErrHeld, "an attempt has asked", nil)
				case 4:
					w.stays = nil
				}
				return nil
			}
			w.RegisterDelayedCallback(func() { w.SignalWorkflow(temporal.SignalCancel, nil) }, time.Hour)
			w.runWorks()
			requireCancelled[groupStatus](w.world)
			require.Equal(t, []string{"+os c1", "-os c1"}, *story)
			placed := w.inputsOf("PlaceManifestWorks")
			require.Equal(t, []policies.DesiredPlacement{{Item: 0, Held: []string{"c1"}}}, placed[1].(activities.PlaceWorksInput).Desired, "what may be there is looked for")
			for _, later := range placed[2:] {
				require.Equal(t, []policies.DesiredPlacement{{Item: policies.Nowhere, Clusters: []string{"c1"}}}, later.(activities.PlaceWorksInput).Desired)
			}
		})
	}
}

func TestWhoPutsAnythingOnAClusterKnowsWhenItsWindowCloses(t *testing.T) {
	inWindow := func(spec *ranv1.ClusterGroupUpgradeSpec) {
		spec.MaintenanceWindows = []drydockv1.WindowName{nightWindow}
	}
	open := func(w *world) time.Time {
		cutoff := w.Now().Add(3 * time.Hour)
		standing := openUntil(1, cutoff.Add(time.Hour))
		standing.Outlook.Openings[0].Cutoff = time.Hour
		w.windows = map[string]windows.Standing{nightWindow: standing}
		return cutoff
	}
	t.Run("policies", func(t *testing.T) {
		w := newPolicyWorld(t, []string{"c1"})
		cutoff := open(w.world)
		w.run(inWindow)
		requireResult[groupStatus](w.world)
		placed := w.inputsOf("PlacePolicies")
		require.WithinDuration(t, cutoff, *placed[0].(activities.PlacePoliciesInput).Closes, time.Second)
		require.Nil(t, placed[len(placed)-1].(activities.PlacePoliciesInput).Closes, "it only takes off")
	})
	t.Run("works", func(t *testing.T) {
		w, _ := newWorkWorld(t, nil, []string{"c1"})
		cutoff := open(w.world)
		w.runWorks(inWindow)
		requireResult[groupStatus](w.world)
		require.WithinDuration(t, cutoff, *w.inputsOf("PlaceManifestWorks")[0].(activities.PlaceWorksInput).Closes, time.Second)
	})
}

// The second item cannot be put on c1, nor on any cluster, while c2 has the first; the second batch waits for its approval.
func TestASequenceThatHasFailedIsTakenOffItsClusters(t *testing.T) {
	gone := temporal.Error(temporal.ErrInvalidSpec, "it has been changed since the rollout began", nil)
	failed := func(w *policyWorld) {
		status := statusOf[groupStatus](w.world)
		require.True(t, awaitsApproval(status))
		require.Equal(t, ranv1.ClusterFailed, statusOfCluster(status, "c1").State)
		require.Equal(t, ranv1.ClusterFailed, statusOfCluster(status, "c2").State)
		w.SignalWorkflow(temporal.SignalCancel, nil)
	}
	approved := func(w *policyWorld) func(*ranv1.ClusterGroupUpgradeSpec) {
		return func(spec *ranv1.ClusterGroupUpgradeSpec) {
			spec.Approvals = &ranv1.Approvals{BeforeEachBatch: true}
			askWhen(w.world, awaitsApproval, temporal.UpdateApprove, rollout.ApprovalRequest{Actor: "bob"})
		}
	}
	t.Run("policies", func(t *testing.T) {
		w := newPolicyWorld(t, []string{"c1", "c2"}, []string{"c3"})
		w.takes = func(cluster string, _ int) time.Duration {
			if cluster == "c2" {
				return -1
			}
			return time.Minute
		}
		w.fail["PlacePolicies"] = func(call int) error {
			if desired := w.inputsOf("PlacePolicies")[call-1].(activities.PlacePoliciesInput).Desired; len(desired) > 0 && desired[len(desired)-1].Item == 1 {
				return gone
			}
			return nil
		}
		w.RegisterDelayedCallback(func() {
			require.Empty(t, w.enforced[0])
			failed(w)
		}, 10*time.Hour)
		w.run(approved(w))
		requireCancelled[groupStatus](w.world)
	})
	t.Run("works", func(t *testing.T) {
		w, story := newWorkWorld(t, []string{"c2"}, []string{"c1", "c2"}, []string{"c3"})
		w.fail["PlaceManifestWorks"] = func(call int) error {
			for _, placed := range w.inputsOf("PlaceManifestWorks")[call-1].(activities.PlaceWorksInput).Desired {
				if placed.Item == 1 && len(placed.Clusters) > 0 {
					return gone
				}
			}
			return nil
		}
		w.RegisterDelayedCallback(func() {
			require.Contains(t, *story, "-os c1")
			require.Contains(t, *story, "-os c2")
			require.NotContains(t, *story, "+firmware c1")
			failed(w)
		}, 10*time.Hour)
		w.runWorks(approved(w))
		requireCancelled[groupStatus](w.world)
	})
}

// removable items are only removed.
type removable struct {
	items
	removed func()
}

func (r removable) cleanUp(workflow.Context, insistence) error {
	r.removed()
	return nil
}

func (removable) count() int { return 1 }

// A rollout is cancelled while a worker prepares it, who does not hear of that: what was removed meanwhile would be made again, and stay.
func TestNothingIsRemovedBeforeTheAttemptToMakeItIsOver(t *testing.T) {
	for name, end := range map[string]func(s *sequence, ctx workflow.Context){
		"at the end":          func(s *sequence, ctx workflow.Context) { s.CleanUp(ctx, false) },
		"before the next run": func(s *sequence, ctx workflow.Context) { s.Settle(ctx) },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.registerAs("Ends", func(ctx workflow.Context, _ string) error {
				began := metav1.NewTime(workflow.Now(ctx))
				g := &remediatedRollout{&groupUpgrade{record: &groupRecord{}, status: groupStatus{Status: ranv1.RunStatus{CurrentBatchStartedAt: &began}}}}
				s := newSequence(g, nil)
				s.items = removable{removed: func() { require.False(t, s.preparing) }}
				s.preparing = true
				workflow.Go(ctx, func(ctx workflow.Context) {
					_ = workflow.Sleep(ctx, effectTimeout)
					s.preparing = false
				})
				end(s, ctx)
				require.False(t, s.preparing)
				return nil
			})
			w.ExecuteWorkflow("Ends", "")
			require.NoError(t, w.GetWorkflowError())
		})
	}
}
