package policy_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"drydock.dev/drydock/activities/manifestworks"
	policiesactivities "drydock.dev/drydock/activities/policies"
	"drydock.dev/drydock/activities/remediation"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/policies"
	"drydock.dev/drydock/internal/rollout"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/internal/windows"
	"drydock.dev/drydock/workflows/kit"
	"drydock.dev/drydock/workflows/workflowtest"
)

// The attempts to place the first item failed, so it has not started.
func TestNothingIsPlacedOnAHeldOrPausedClusterAfterAnOutageOfTheHub(t *testing.T) {
	for name, outage := range map[string]struct {
		calls int
		err   error
	}{
		"between rounds": {kit.RoundAttempts, errors.New("503")},
		"during a round": {1, temporal.Error(temporal.ErrHeld, "cluster c1 is held", nil)},
	} {
		for by, test := range workflowtest.Stops {
			for _, items := range []string{"policies", "works"} {
				t.Run(items+" "+by+" "+name, func(t *testing.T) {
					w, place, events := workflowtest.NewPolicyWorld(t, []string{"c1", "c2"}), "PlacePolicies", new([]string)
					run := func() { w.Run() }
					if items == "works" {
						w, events = workflowtest.NewManifestWorkWorld(t, nil, []string{"c1", "c2"})
						place, run = "PlaceManifestWorks", func() { w.RunWorks() }
					}
					w.Fail[place] = func(call int) error {
						if call == outage.calls {
							test.Stop(w.World)
						}
						if call <= outage.calls {
							return outage.err
						}
						return nil
					}
					w.RegisterDelayedCallback(func() {
						require.NotContains(t, slices.Concat(w.Enforced[0], w.Enforced[1]), "c1")
						require.NotContains(t, *events, "+os c1")
						status := workflowtest.StatusOf[workflowtest.GroupStatus](w.World)
						waiting := workflowtest.StatusOfCluster(status, "c1")
						require.Equal(t, test.Reason, waiting.Reason)
						require.Contains(t, waiting.Message, "it may not begin")
						if by == "held" {
							require.Equal(t, ranv1.ClusterComplete, workflowtest.StatusOfCluster(status, "c2").State, "it continues")
						}
					}, 99*time.Hour)
					w.RegisterDelayedCallback(func() { test.Resume(w.World) }, 100*time.Hour)
					run()
					require.Equal(t, int32(2), workflowtest.RequireResult[workflowtest.GroupStatus](w.World).Counts.Complete)
				})
			}
		}
	}
}

func TestARefusedWorkIsNotCreatedWhileItsClusterIsHeld(t *testing.T) {
	for by, test := range workflowtest.Stops {
		t.Run(by, func(t *testing.T) {
			w, events := workflowtest.NewManifestWorkWorld(t, nil, []string{"c1"})
			w.Refusals = map[string]remediation.RefusedPlacement{"c1": {Reason: "NotPlaced", Message: "namespace c1 of the hub is being deleted"}}
			w.RegisterDelayedCallback(func() { test.Stop(w.World) }, 3*time.Minute)
			w.RegisterDelayedCallback(func() { delete(w.Refusals, "c1") }, 5*time.Minute)
			w.RegisterDelayedCallback(func() {
				require.Empty(t, *events)
				require.Equal(t, test.Reason, workflowtest.StatusOfCluster(workflowtest.StatusOf[workflowtest.GroupStatus](w.World), "c1").Reason)
			}, 99*time.Hour)
			w.RegisterDelayedCallback(func() { test.Resume(w.World) }, 100*time.Hour)
			w.RunWorks()
			workflowtest.RequireResult[workflowtest.GroupStatus](w.World)
			require.Equal(t, "+os c1", (*events)[0])
		})
	}
}

func TestADeletedWorkIsNotRecreatedDuringAHold(t *testing.T) {
	for by, test := range workflowtest.Stops {
		t.Run(by, func(t *testing.T) {
			w, events := workflowtest.NewManifestWorkWorld(t, []string{"c1"}, []string{"c1"})
			w.RegisterDelayedCallback(func() { test.Stop(w.World) }, time.Minute)
			w.RegisterDelayedCallback(func() { w.Comply("c1", 0, policies.Unknown) }, 2*time.Minute)
			w.RegisterDelayedCallback(func() {
				require.Equal(t, []string{"+os c1"}, *events)
				waiting := workflowtest.StatusOfCluster(workflowtest.StatusOf[workflowtest.GroupStatus](w.World), "c1")
				require.Equal(t, test.Reason, waiting.Reason)
				require.NotContains(t, waiting.Message, "placed again")
			}, 99*time.Hour)
			w.RegisterDelayedCallback(func() { test.Resume(w.World) }, 100*time.Hour)
			w.RegisterDelayedCallback(func() {
				require.Equal(t, []string{"+os c1", "+os c1"}, *events)
				require.Contains(t, workflowtest.StatusOfCluster(workflowtest.StatusOf[workflowtest.GroupStatus](w.World), "c1").Message, "placed again")
			}, 100*time.Hour+time.Minute)
			w.RegisterDelayedCallback(func() { w.Comply("c1", 0, policies.Compliant) }, 100*time.Hour+2*time.Minute)
			w.RegisterDelayedCallback(func() { w.Comply("c1", 1, policies.Compliant) }, 100*time.Hour+4*time.Minute)
			w.RunWorks()
			workflowtest.RequireResult[workflowtest.GroupStatus](w.World)
		})
	}
}

// An unanswered attempt may have created the work.
func TestAWorkThatMayExistIsDeletedWhenItsClusterLeaves(t *testing.T) {
	for name, refusals := range map[string][]string{"the hub deletes it": nil, "the hub first refuses": {"c1"}} {
		t.Run(name, func(t *testing.T) {
			w, events := workflowtest.NewManifestWorkWorld(t, []string{"c1"}, []string{"c1"})
			w.Undeletable = refusals
			w.Fail["PlaceManifestWorks"] = func(call int) error {
				switch call {
				case 1:
					w.CreateWork("c1", 0)
					workflowtest.Stops["held"].Stop(w.World)
					return temporal.Error(temporal.ErrHeld, "cluster c1 is held", nil)
				case 4:
					w.Undeletable = nil
				}
				return nil
			}
			w.RegisterDelayedCallback(func() { w.SignalWorkflow(temporal.SignalCancel, nil) }, time.Hour)
			w.RunWorks()
			workflowtest.RequireCancelled[workflowtest.GroupStatus](w.World)
			require.Equal(t, []string{"+os c1", "-os c1"}, *events)
			placed := w.InputsOf("PlaceManifestWorks")
			require.Equal(t, []policies.DesiredPlacement{{Item: 0, Held: []string{"c1"}}}, placed[1].(manifestworks.PlaceWorksInput).Desired, "the workflow checks whether the work exists")
			for _, later := range placed[2:] {
				require.Equal(t, []policies.DesiredPlacement{{Item: policies.NoItem, Clusters: []string{"c1"}}}, later.(manifestworks.PlaceWorksInput).Desired)
			}
		})
	}
}

func TestPlacementsGetTheEndOfTheWindow(t *testing.T) {
	inWindow := func(spec *ranv1.ClusterGroupUpgradeSpec) {
		spec.MaintenanceWindows = []drydockv1.WindowName{workflowtest.NightWindow}
	}
	open := func(w *workflowtest.World) time.Time {
		cutoff := w.Now().Add(3 * time.Hour)
		standing := workflowtest.OpenUntil(1, cutoff.Add(time.Hour))
		standing.Schedule.Openings[0].Cutoff = time.Hour
		w.Windows = map[string]windows.Snapshot{workflowtest.NightWindow: standing}
		return cutoff
	}
	t.Run("policies", func(t *testing.T) {
		w := workflowtest.NewPolicyWorld(t, []string{"c1"})
		cutoff := open(w.World)
		w.Run(inWindow)
		workflowtest.RequireResult[workflowtest.GroupStatus](w.World)
		placed := w.InputsOf("PlacePolicies")
		require.WithinDuration(t, cutoff, *placed[0].(policiesactivities.PlacePoliciesInput).Closes, time.Second)
		require.Nil(t, placed[len(placed)-1].(policiesactivities.PlacePoliciesInput).Closes, "the call only removes items")
	})
	t.Run("works", func(t *testing.T) {
		w, _ := workflowtest.NewManifestWorkWorld(t, nil, []string{"c1"})
		cutoff := open(w.World)
		w.RunWorks(inWindow)
		workflowtest.RequireResult[workflowtest.GroupStatus](w.World)
		require.WithinDuration(t, cutoff, *w.InputsOf("PlaceManifestWorks")[0].(manifestworks.PlaceWorksInput).Closes, time.Second)
	})
}

// The second item cannot be placed on any cluster. c2 still has the first one, and the second batch waits for its approval.
func TestAFailedSequenceIsRemovedFromItsClusters(t *testing.T) {
	gone := temporal.Error(temporal.ErrInvalidSpec, "it has been changed since the rollout began", nil)
	failed := func(w *workflowtest.PolicyWorld) {
		status := workflowtest.StatusOf[workflowtest.GroupStatus](w.World)
		require.True(t, workflowtest.AwaitsApproval(status))
		require.Equal(t, ranv1.ClusterFailed, workflowtest.StatusOfCluster(status, "c1").State)
		require.Equal(t, ranv1.ClusterFailed, workflowtest.StatusOfCluster(status, "c2").State)
		w.SignalWorkflow(temporal.SignalCancel, nil)
	}
	approved := func(w *workflowtest.PolicyWorld) func(*ranv1.ClusterGroupUpgradeSpec) {
		return func(spec *ranv1.ClusterGroupUpgradeSpec) {
			spec.Approvals = &ranv1.Approvals{BeforeEachBatch: true}
			workflowtest.SendUpdateWhen(w.World, workflowtest.AwaitsApproval, temporal.UpdateApprove, rollout.ApprovalRequest{Actor: "bob"})
		}
	}
	t.Run("policies", func(t *testing.T) {
		w := workflowtest.NewPolicyWorld(t, []string{"c1", "c2"}, []string{"c3"})
		w.ComplyAfter = func(cluster string, _ int) time.Duration {
			if cluster == "c2" {
				return -1
			}
			return time.Minute
		}
		w.Fail["PlacePolicies"] = func(call int) error {
			if desired := w.InputsOf("PlacePolicies")[call-1].(policiesactivities.PlacePoliciesInput).Desired; len(desired) > 0 && desired[len(desired)-1].Item == 1 {
				return gone
			}
			return nil
		}
		w.RegisterDelayedCallback(func() {
			require.Empty(t, w.Enforced[0])
			failed(w)
		}, 10*time.Hour)
		w.Run(approved(w))
		workflowtest.RequireCancelled[workflowtest.GroupStatus](w.World)
	})
	t.Run("works", func(t *testing.T) {
		w, events := workflowtest.NewManifestWorkWorld(t, []string{"c2"}, []string{"c1", "c2"}, []string{"c3"})
		w.Fail["PlaceManifestWorks"] = func(call int) error {
			for _, placed := range w.InputsOf("PlaceManifestWorks")[call-1].(manifestworks.PlaceWorksInput).Desired {
				if placed.Item == 1 && len(placed.Clusters) > 0 {
					return gone
				}
			}
			return nil
		}
		w.RegisterDelayedCallback(func() {
			require.Contains(t, *events, "-os c1")
			require.Contains(t, *events, "-os c2")
			require.NotContains(t, *events, "+firmware c1")
			failed(w)
		}, 10*time.Hour)
		w.RunWorks(approved(w))
		workflowtest.RequireCancelled[workflowtest.GroupStatus](w.World)
	})
}
