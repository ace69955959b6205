package policy_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"drydock.dev/drydock/activities/manifestworks"
	"drydock.dev/drydock/activities/remediation"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	internalworks "drydock.dev/drydock/internal/manifestworks"
	"drydock.dev/drydock/internal/policies"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/rollout"
	"drydock.dev/drydock/workflows/rollout/policy"
	"drydock.dev/drydock/workflows/workflowtest"
)

func TestAClusterGetsWorksInOrder(t *testing.T) {
	w, events := workflowtest.NewManifestWorkWorld(t, nil, []string{"c1"}, []string{"c2"})
	w.RunWorks()
	status := workflowtest.RequireResult[workflowtest.GroupStatus](w.World)
	workflowtest.RequireCondition(t, status, ranv1.ConditionSucceeded, metav1.ConditionTrue, ranv1.ReasonCompleted)
	require.Equal(t, "All manifestworks rolled out successfully on all clusters", status.Conditions[len(status.Conditions)-1].Message)
	require.Equal(t, []string{
		"+os c1", "-os c1", "+firmware c1", "-firmware c1", "+os c2", "-os c2", "+firmware c2", "-firmware c2",
	}, *events)
	require.Equal(t, map[string]string{"june-os": "safe-os", "june-firmware": "safe-firmware"}, status.SafeResourceNames)
	for i, in := range w.InputsOf("PlaceManifestWorks") {
		require.Equal(t, []string{"1", "2"}, in.(manifestworks.PlaceWorksInput).Rollout.Pins, "call %d", i)
	}
	require.Len(t, w.InputsOf("CleanUpManifestWorks"), 1)
}

// The agent of c1 takes ten minutes to remove the first work. That neither blocks c2, nor shows the rollout as blocked.
func TestTheNextWorkFollowsTheRemovalOfThePreviousOne(t *testing.T) {
	w, events := workflowtest.NewManifestWorkWorld(t, nil, []string{"c1", "c2"})
	w.Removes = map[string]time.Duration{"c1": 10 * time.Minute}
	w.RegisterDelayedCallback(func() {
		status := workflowtest.StatusOf[workflowtest.GroupStatus](w.World)
		c1 := workflowtest.StatusOfCluster(status, "c1")
		require.Equal(t, "RemovingPrevious: waiting until the agent of the cluster has removed the previous one", c1.Reason+": "+c1.Message)
		require.Equal(t, ranv1.ClusterComplete, workflowtest.StatusOfCluster(status, "c2").State)
		require.NotContains(t, *events, "+firmware c1")
	}, 5*time.Minute)
	w.RunWorks()
	workflowtest.RequireResult[workflowtest.GroupStatus](w.World)
	require.Contains(t, *events, "+firmware c1")
	require.LessOrEqual(t, len(w.InputsOf("PlaceManifestWorks")), 7, "nothing polls")
}

func TestATimedOutWorkIsDeletedAndReported(t *testing.T) {
	w, events := workflowtest.NewManifestWorkWorld(t, []string{"c1"}, []string{"c1"}, []string{"c2"})
	w.RunWorks()
	status := workflowtest.RequireFailure[workflowtest.GroupStatus](w.World, ranv1.ReasonTimedOut)
	require.Equal(t, map[string]ranv1.ClusterState{"c1": "timedout", "c2": "complete"}, workflowtest.ClusterStates(status))
	late := workflowtest.StatusOfCluster(status, "c1")
	require.Equal(t, &ranv1.ManifestWorkStatus{Name: "os"}, late.CurrentManifestWork)
	require.Less(t, slices.Index(*events, "-os c1"), slices.Index(*events, "+os c2"), "it is deleted before the next batch")
}

func TestATimedOutWorkKeepsTheStatusOfItsManifests(t *testing.T) {
	w, _ := workflowtest.NewManifestWorkWorld(t, []string{"c1", "c3"}, []string{"c1", "c2"}, []string{"c3"})
	w.LeftStatus = &ranv1.ManifestResourceStatus{Manifests: []ranv1.ManifestCondition{{Conditions: []metav1.Condition{}, ResourceMeta: ranv1.ManifestResourceMeta{Kind: "ConfigMap", Name: "os"}}}}
	w.RunWorks()
	status := workflowtest.RequireFailure[workflowtest.GroupStatus](w.World, ranv1.ReasonTimedOut)
	require.Equal(t, &ranv1.ManifestWorkStatus{Name: "os", Status: w.LeftStatus}, workflowtest.StatusOfCluster(status, "c1").CurrentManifestWork)
	require.Equal(t, ranv1.ClusterComplete, workflowtest.StatusOfCluster(status, "c2").State)

	const all = 64 << 10
	left := all
	for _, in := range w.InputsOf("PlaceManifestWorks") {
		in := in.(manifestworks.PlaceWorksInput)
		for _, unfinished := range in.Unfinished {
			require.Equal(t, 0, unfinished.Item)
			require.Equal(t, left, in.LeftLimit, "the statuses of the rollout have a limit together")
			left -= internalworks.StatusSize(w.LeftStatus)
		}
	}
	require.Equal(t, all-2*internalworks.StatusSize(w.LeftStatus), left, "c1 and c3, but not c2, which has finished its works")
}

// The agent of an offline cluster keeps the finalizer of a work that an earlier run deleted.
func TestARefusedWorkShowsTheReasonAndDoesNotStopOthers(t *testing.T) {
	w, events := workflowtest.NewManifestWorkWorld(t, nil, []string{"c1", "c2", "c3", "c4"}, []string{"c5"})
	offline := remediation.RefusedPlacement{Reason: "NotPlaced", Message: "ManifestWork c1/safe-os is still being deleted"}
	w.Refusals = map[string]remediation.RefusedPlacement{
		"c1": offline, "c4": offline,
		"c2": {Reason: ranv1.ReasonClusterDeleted, Message: "the hub has no namespace for the cluster", Final: true},
	}
	w.RegisterDelayedCallback(func() { delete(w.Refusals, "c4") }, 4*time.Minute)
	var during workflowtest.GroupStatus
	w.RegisterDelayedCallback(func() { during = workflowtest.StatusOf[workflowtest.GroupStatus](w.World) }, 3*time.Minute)
	w.RunWorks()

	waiting := workflowtest.StatusOfCluster(during, "c1")
	require.Equal(t, "NotPlaced", waiting.Reason)
	require.Equal(t, "ManifestWork c1/safe-os is still being deleted; retried until the timeout", waiting.Message)
	require.Equal(t, "manifest work os", waiting.Step)
	require.Equal(t, ranv1.ClusterComplete, workflowtest.StatusOfCluster(during, "c3").State)

	status := workflowtest.RequireFailure[workflowtest.GroupStatus](w.World, ranv1.ReasonTimedOut)
	require.Equal(t, map[string]ranv1.ClusterState{"c1": "timedout", "c2": "failed", "c3": "complete", "c4": "complete", "c5": "complete"}, workflowtest.ClusterStates(status))
	require.Contains(t, workflowtest.StatusOfCluster(status, "c1").Message, "ManifestWork c1/safe-os is still being deleted")
	require.Equal(t, ranv1.ReasonClusterDeleted, workflowtest.StatusOfCluster(status, "c2").Reason)
	require.NotContains(t, *events, "-os c1", "it was never created")
	require.Less(t, len(w.InputsOf("PlaceManifestWorks")), 70, "the pauses grow")
}

// The work of c1 was refused. The cluster times out during the next attempt.
func TestATimedOutClusterKeepsTheReasonOfItsRefusedWork(t *testing.T) {
	w, _ := workflowtest.NewManifestWorkWorld(t, nil, []string{"c1"})
	w.Refusals = map[string]remediation.RefusedPlacement{"c1": {Reason: "NotPlaced", Message: "ManifestWork c1/safe-os is still being deleted"}}
	start := w.Now()
	w.Fail["PlaceManifestWorks"] = func(int) error {
		if since := w.Now().Sub(start); since > 2*time.Minute && since < 5*time.Minute {
			return errors.New("the hub does not answer")
		}
		return nil
	}
	w.RegisterDelayedCallback(func() {
		require.Equal(t, rollout.ReasonClusterTimedOut, workflowtest.StatusOfCluster(workflowtest.StatusOf[workflowtest.GroupStatus](w.World), "c1").Reason)
		delete(w.Refusals, "c1")
	}, 4*time.Minute)
	w.RunWorks(func(spec *ranv1.ClusterGroupUpgradeSpec) { spec.RemediationStrategy.ClusterTimeout = 3 })
	late := workflowtest.StatusOfCluster(workflowtest.RequireFailure[workflowtest.GroupStatus](w.World, ranv1.ReasonTimedOut), "c1")
	require.Equal(t, ranv1.ClusterTimedOut, late.State)
	require.Equal(t, rollout.ReasonClusterTimedOut, late.Reason)
	require.Contains(t, late.Message, "is still being deleted")
}

func TestADeletedWorkIsRecreatedAndReported(t *testing.T) {
	w, events := workflowtest.NewManifestWorkWorld(t, []string{"c1"}, []string{"c1"})
	w.RegisterDelayedCallback(func() { w.Comply("c1", 0, policies.Unknown) }, 2*time.Minute)
	var during workflowtest.GroupStatus
	w.RegisterDelayedCallback(func() { during = workflowtest.StatusOf[workflowtest.GroupStatus](w.World) }, 3*time.Minute)
	w.RegisterDelayedCallback(func() { w.Comply("c1", 0, policies.Compliant) }, 4*time.Minute)
	w.RegisterDelayedCallback(func() { w.Comply("c1", 1, policies.Compliant) }, 6*time.Minute)
	w.RunWorks()
	require.Contains(t, workflowtest.StatusOfCluster(during, "c1").Message, "its item was deleted, and is placed again")
	require.Equal(t, []string{"+os c1", "+os c1", "-os c1"}, (*events)[:3])
	workflowtest.RequireResult[workflowtest.GroupStatus](w.World)
}

func TestARefusedDeletionDoesNotBlockTheEndOfTheRollout(t *testing.T) {
	for name, refuse := range map[string]func(*workflowtest.PolicyWorld){
		"of one cluster": func(w *workflowtest.PolicyWorld) { w.Undeletable = []string{"c1"} },
		"of all clusters": func(w *workflowtest.PolicyWorld) {
			w.Fail["PlaceManifestWorks"] = func(call int) error {
				if call == 1 {
					return nil
				}
				return errors.New("the hub does not answer")
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, _ := workflowtest.NewManifestWorkWorld(t, []string{"c1", "c2"}, []string{"c1", "c2"})
			refuse(w)
			w.Fail["CleanUpManifestWorks"] = workflowtest.Always(errors.New("the hub forbids it"))
			start := w.Now()
			w.RegisterDelayedCallback(func() { w.SignalWorkflow(temporal.SignalCancel, temporal.SignalRequest{}) }, 5*time.Minute)
			w.RunWorks()
			status := workflowtest.RequireCancelled[workflowtest.GroupStatus](w.World)
			require.Equal(t, map[string]ranv1.ClusterState{"c1": "cancelled", "c2": "cancelled"}, workflowtest.ClusterStates(status))
			require.Less(t, w.Now().Sub(start), 40*time.Minute)
			require.Len(t, status.Notes, 1)
			require.Contains(t, status.Notes[0], "could not be removed from c1")
			require.Contains(t, status.Notes[0], "the hub forbids it")
		})
	}
}

func TestARefusedDeletionDoesNotBlockTheNextBatch(t *testing.T) {
	w, events := workflowtest.NewManifestWorkWorld(t, []string{"c1"}, []string{"c1"}, []string{"c2"})
	w.Undeletable = []string{"c1"}
	w.RunWorks()
	status := workflowtest.RequireFailure[workflowtest.GroupStatus](w.World, ranv1.ReasonTimedOut)
	require.Equal(t, map[string]ranv1.ClusterState{"c1": "timedout", "c2": "complete"}, workflowtest.ClusterStates(status))
	require.Contains(t, *events, "+os c2")
	require.Empty(t, status.Notes, "it was removed later")
}

func TestWorksStayOnCompleteClustersOnRequest(t *testing.T) {
	keep := func(spec *ranv1.ClusterGroupUpgradeSpec) {
		spec.Actions.AfterCompletion = &ranv1.AfterCompletion{DeleteObjects: new(false)}
	}
	w, events := workflowtest.NewManifestWorkWorld(t, nil, []string{"c1"}, []string{"c2"})
	w.RunWorks(keep)
	workflowtest.RequireResult[workflowtest.GroupStatus](w.World)
	require.Equal(t, []string{"+os c1", "-os c1", "+firmware c1", "+os c2", "-os c2", "+firmware c2"}, *events)
	require.Empty(t, w.InputsOf("CleanUpManifestWorks"))
}

func TestCompleteClustersKeepTheirWorksOnRequest(t *testing.T) {
	keep := func(spec *ranv1.ClusterGroupUpgradeSpec) {
		spec.Actions.AfterCompletion = &ranv1.AfterCompletion{DeleteObjects: new(false)}
	}
	w, events := workflowtest.NewManifestWorkWorld(t, []string{"c2"}, []string{"c3", "c1"}, []string{"c2"})
	w.RunWorks(keep)
	workflowtest.RequireFailure[workflowtest.GroupStatus](w.World, ranv1.ReasonTimedOut)
	require.NotContains(t, *events, "-firmware c1")
	cleanups := w.InputsOf("CleanUpManifestWorks")
	require.Len(t, cleanups, 1)
	require.Equal(t, []string{"c1", "c3"}, cleanups[0].(manifestworks.CleanUpWorksInput).Keep)

	w, _ = workflowtest.NewManifestWorkWorld(t, []string{"c2"}, []string{"c1"}, []string{"c2"})
	w.RunWorks()
	workflowtest.RequireFailure[workflowtest.GroupStatus](w.World, ranv1.ReasonTimedOut)
	require.Empty(t, w.InputsOf("CleanUpManifestWorks")[0].(manifestworks.CleanUpWorksInput).Keep, "the spec does not request it")
}

// An unanswered attempt has created the last work of c1 when the rollout is paused. c1 completes, and keeps the work.
func TestAWorkThatMayExistStaysOnItsClusterOnRequest(t *testing.T) {
	keep := func(spec *ranv1.ClusterGroupUpgradeSpec) {
		spec.Actions.AfterCompletion = &ranv1.AfterCompletion{DeleteObjects: new(false)}
	}
	w, events := workflowtest.NewManifestWorkWorld(t, nil, []string{"c1"}, []string{"c2"})
	w.Fail["PlaceManifestWorks"] = func(call int) error {
		for _, placed := range w.InputsOf("PlaceManifestWorks")[call-1].(manifestworks.PlaceWorksInput).Desired {
			if placed.Item == 1 && slices.Equal(placed.Clusters, []string{"c1"}) {
				workflowtest.Stops["paused"].Stop(w.World)
				w.CreateWork("c1", 1)
				return temporal.Error(temporal.ErrHeld, "cluster c1 is held", nil)
			}
		}
		return nil
	}
	w.RegisterDelayedCallback(func() {
		require.Equal(t, ranv1.ClusterComplete, workflowtest.StatusOfCluster(workflowtest.StatusOf[workflowtest.GroupStatus](w.World), "c1").State)
	}, 10*time.Hour)
	w.RegisterDelayedCallback(func() { workflowtest.Stops["paused"].Resume(w.World) }, 11*time.Hour)
	w.RunWorks(keep)
	require.Equal(t, int32(2), workflowtest.RequireResult[workflowtest.GroupStatus](w.World).Counts.Complete)
	require.NotContains(t, *events, "-firmware c1")
	require.Equal(t, "+firmware c2", (*events)[len(*events)-1])
}

// One activity places the works of some clusters. Works that it placed before the pause are not placed again.
func TestWorksPlacedBeforeAHoldOrPauseAreNotPlacedAgain(t *testing.T) {
	for by, test := range map[string]struct {
		stop, resume func(w *workflowtest.World, number int64)
	}{
		"held": {
			func(w *workflowtest.World, number int64) {
				w.SignalWorkflow(temporal.SignalHeld, workflowtest.HeldState(number, "all"))
			},
			func(w *workflowtest.World, number int64) {
				w.SignalWorkflow(temporal.SignalHeld, workflowtest.HeldState(number))
			},
		},
		"paused": {
			func(w *workflowtest.World, _ int64) { workflowtest.Stops["paused"].Stop(w) },
			func(w *workflowtest.World, _ int64) { workflowtest.Stops["paused"].Resume(w) },
		},
	} {
		t.Run(by, func(t *testing.T) {
			var clusters []string
			for i := range 2 * policy.ClustersPerPlacement {
				clusters = append(clusters, fmt.Sprintf("c%d", i))
			}
			w, events := workflowtest.NewManifestWorkWorld(t, clusters, clusters)
			stopped := false
			w.Fail["PlaceManifestWorks"] = func(call int) error {
				if call == 1 { // so that later calls place several works
					test.stop(w.World, 2)
					return temporal.Error(temporal.ErrHeld, "cluster c1 is held", nil)
				}
				if desired := w.InputsOf("PlaceManifestWorks")[call-1].(manifestworks.PlaceWorksInput).Desired; !stopped && len(desired[0].Clusters) == policy.ClustersPerPlacement {
					stopped = true
					test.stop(w.World, 4)
				}
				return nil
			}
			w.RegisterDelayedCallback(func() {
				require.Empty(t, *events)
				test.resume(w.World, 3)
			}, 2*time.Minute)
			w.RegisterDelayedCallback(func() {
				require.True(t, stopped, "no full part was placed")
				waiting := 0
				for _, cluster := range workflowtest.StatusOf[workflowtest.GroupStatus](w.World).Clusters {
					if strings.Contains(cluster.Message, "it may not begin") {
						require.NotContains(t, *events, "+os "+cluster.Name)
						waiting++
					}
				}
				require.Positive(t, waiting, "no cluster waits")
				test.resume(w.World, 5)
			}, 5*time.Minute)
			w.RunWorks(func(spec *ranv1.ClusterGroupUpgradeSpec) {
				spec.RemediationStrategy.MaxConcurrency = intstr.FromInt(len(clusters))
			})
			placed := slices.DeleteFunc(*events, func(what string) bool { return !strings.HasPrefix(what, "+os ") })
			slices.Sort(placed)
			require.Len(t, placed, len(clusters))
			require.Len(t, slices.Compact(placed), len(clusters), "a work was placed twice")
		})
	}
}
