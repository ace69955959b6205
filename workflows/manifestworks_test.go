package workflows

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"drydock.dev/drydock/activities"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/policies"
	"drydock.dev/drydock/internal/temporal"
)

// newWorkWorld plays a hub on which a work that is brought to a cluster is done a minute later, but for those of the clusters that are stuck.
func newWorkWorld(t *testing.T, stuck []string, batches ...[]string) (*policyWorld, *[]string) {
	w := &policyWorld{world: newWorld(t), compliance: map[string][]byte{}, enforced: map[int][]string{}}
	w.plan = planOf(batches...)
	for _, cluster := range slices.Concat(batches...) {
		w.compliance[cluster] = []byte("UU")
	}
	var story []string
	play(w.world, "PrepareManifestWorks", func(in activities.WorkRollout) any {
		return []activities.PreparedWork{{Template: "os", Work: "safe-os", Pin: "1"}, {Template: "firmware", Work: "safe-firmware", Pin: "2"}}
	})
	w.bring = func(cluster string, item int) {
		story = append(story, "+"+workTemplates[item]+" "+cluster)
		w.enforced[item] = append(w.enforced[item], cluster)
		w.simulateAfter(time.Second, func() { w.comply(cluster, item, policies.Pending) })
		if !slices.Contains(stuck, cluster) {
			w.simulateAfter(time.Minute, func() { w.comply(cluster, item, policies.Compliant) })
		}
	}
	play(w.world, "PlaceManifestWorks", func(in activities.PlaceWorksInput) any {
		w.mu.Lock()
		defer w.mu.Unlock()
		var placed activities.Placed
		refuse := func(cluster string, refusal activities.RefusedPlacement) {
			refusal.Clusters = []string{cluster}
			placed.Refused = append(placed.Refused, refusal)
		}
		for _, desired := range in.Desired {
			for _, cluster := range slices.Concat(desired.Clusters, desired.Held) {
				for item := range workTemplates {
					switch {
					case item == desired.Item, !slices.Contains(w.enforced[item], cluster):
					case slices.Contains(w.stays, cluster):
						refuse(cluster, activities.RefusedPlacement{Reason: "NotPlaced", Message: "the hub forbids it"})
					default:
						story = append(story, "-"+workTemplates[item]+" "+cluster)
						w.enforced[item] = slices.DeleteFunc(w.enforced[item], func(name string) bool { return name == cluster })
						w.compliance[cluster][item] = byte(policies.Unknown)
					}
				}
				refusal, refused := w.refuses[cluster]
				switch {
				case desired.Item == policies.Nowhere, slices.Contains(w.enforced[desired.Item], cluster):
				case slices.Contains(desired.Held, cluster):
					placed.Waiting = append(placed.Waiting, cluster)
				case refused:
					refuse(cluster, refusal)
				default:
					w.bring(cluster, desired.Item)
				}
			}
		}
		return placed
	})
	play(w.world, "CleanUpManifestWorks", func(activities.CleanUpWorksInput) any { return nil })
	play(w.world, "ReadManifestWorks", func(in activities.ReadWorksInput) any {
		w.mu.Lock()
		defer w.mu.Unlock()
		var seen []policies.ClusterCompliance
		for _, cluster := range in.Clusters {
			seen = append(seen, policies.ClusterCompliance{Cluster: cluster, Status: policies.ComplianceStatus(w.compliance[cluster])})
		}
		return seen
	})
	w.RegisterActivityWithOptions(func(ctx context.Context, in activities.AwaitWorksInput) ([]policies.ClusterCompliance, error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		await := activities.AwaitComplianceInput{Clusters: in.Clusters}
		if news := w.news(await); len(news) > 0 {
			return news, nil
		}
		w.watch(ctx, await)
		return nil, activity.ErrResultPending
	}, activity.RegisterOptions{Name: "AwaitManifestWorks"})
	return w, &story
}

// workTemplates are those of the rollouts of works.
var workTemplates = []string{"os", "firmware"}

func (w *policyWorld) runWorks(changes ...func(*ranv1.ClusterGroupUpgradeSpec)) {
	w.run(append([]func(*ranv1.ClusterGroupUpgradeSpec){func(spec *ranv1.ClusterGroupUpgradeSpec) {
		spec.ManagedPolicies, spec.ManifestWorkTemplates = nil, workTemplates
	}}, changes...)...)
}

func statusOfCluster(status groupStatus, name string) ranv1.ClusterStatus {
	return status.Clusters[slices.IndexFunc(status.Clusters, func(c ranv1.ClusterStatus) bool { return c.Name == name })]
}

func TestWorksAreBroughtToEachClusterOneAfterTheOther(t *testing.T) {
	w, story := newWorkWorld(t, nil, []string{"c1"}, []string{"c2"})
	w.runWorks()
	status := requireResult[groupStatus](w.world)
	requireCondition(t, status, ranv1.ConditionSucceeded, metav1.ConditionTrue, ranv1.ReasonCompleted)
	require.Equal(t, "All manifestworks rolled out successfully on all clusters", status.Conditions[len(status.Conditions)-1].Message)
	require.Equal(t, []string{
		"+os c1", "-os c1", "+firmware c1", "-firmware c1", "+os c2", "-os c2", "+firmware c2", "-firmware c2",
	}, *story)
	require.Equal(t, map[string]string{"june-os": "safe-os", "june-firmware": "safe-firmware"}, status.SafeResourceNames)
	for i, in := range w.inputsOf("PlaceManifestWorks") {
		require.Equal(t, []string{"1", "2"}, in.(activities.PlaceWorksInput).Rollout.Pins, "call %d", i)
	}
	require.Len(t, w.inputsOf("CleanUpManifestWorks"), 1)
}

func TestAWorkThatIsNotDoneInTimeIsTakenBackAndTheRolloutSaysSo(t *testing.T) {
	w, story := newWorkWorld(t, []string{"c1"}, []string{"c1"}, []string{"c2"})
	w.runWorks()
	status := requireFailure[groupStatus](w.world, ranv1.ReasonTimedOut)
	require.Equal(t, map[string]ranv1.ClusterState{"c1": "timedout", "c2": "complete"}, clusterStates(status))
	late := statusOfCluster(status, "c1")
	require.Equal(t, &ranv1.ManifestWorkStatus{Name: "os"}, late.CurrentManifestWork)
	require.Less(t, slices.Index(*story, "-os c1"), slices.Index(*story, "+os c2"), "taken back before the next batch")
}

// The agent of a cluster that is offline does not let go of the work that an earlier run has deleted.
func TestAClusterWhoseWorkCannotBeMadeWaitsAloneAndSaysWhy(t *testing.T) {
	w, story := newWorkWorld(t, nil, []string{"c1", "c2", "c3", "c4"}, []string{"c5"})
	offline := activities.RefusedPlacement{Reason: "NotPlaced", Message: "ManifestWork c1/safe-os is still being deleted"}
	w.refuses = map[string]activities.RefusedPlacement{
		"c1": offline, "c4": offline,
		"c2": {Reason: ranv1.ReasonClusterVanished, Message: "the hub has no namespace for the cluster", Final: true},
	}
	w.RegisterDelayedCallback(func() { delete(w.refuses, "c4") }, 4*time.Minute)
	var during groupStatus
	w.RegisterDelayedCallback(func() { during = statusOf[groupStatus](w.world) }, 3*time.Minute)
	w.runWorks()

	waiting := statusOfCluster(during, "c1")
	require.Equal(t, "NotPlaced", waiting.Reason)
	require.Equal(t, "ManifestWork c1/safe-os is still being deleted; retried until the time is over", waiting.Message)
	require.Equal(t, "manifest work os", waiting.Step)
	require.Equal(t, ranv1.ClusterComplete, statusOfCluster(during, "c3").State)

	status := requireFailure[groupStatus](w.world, ranv1.ReasonTimedOut)
	require.Equal(t, map[string]ranv1.ClusterState{"c1": "timedout", "c2": "failed", "c3": "complete", "c4": "complete", "c5": "complete"}, clusterStates(status))
	require.Contains(t, statusOfCluster(status, "c1").Message, "ManifestWork c1/safe-os is still being deleted")
	require.Equal(t, ranv1.ReasonClusterVanished, statusOfCluster(status, "c2").Reason)
	require.NotContains(t, *story, "-os c1", "it was never there")
	require.Less(t, len(w.inputsOf("PlaceManifestWorks")), 70, "the hub is asked less and less often")
}

// The work of c1 was refused, and is just being asked for again when the time of the cluster is over: the answer comes after that, and the work was there never.
func TestAClusterWhoseTimeIsOverWhileItsWorkIsAskedForKeepsTheReason(t *testing.T) {
	w, _ := newWorkWorld(t, nil, []string{"c1"})
	w.refuses = map[string]activities.RefusedPlacement{"c1": {Reason: "NotPlaced", Message: "ManifestWork c1/safe-os is still being deleted"}}
	start := w.Now()
	w.fail["PlaceManifestWorks"] = func(int) error {
		if since := w.Now().Sub(start); since > 2*time.Minute && since < 5*time.Minute {
			return errors.New("the hub does not answer")
		}
		return nil
	}
	w.RegisterDelayedCallback(func() {
		require.Equal(t, reasonClusterTimedOut, statusOfCluster(statusOf[groupStatus](w.world), "c1").Reason)
		delete(w.refuses, "c1")
	}, 4*time.Minute)
	w.runWorks(func(spec *ranv1.ClusterGroupUpgradeSpec) { spec.RemediationStrategy.ClusterTimeout = 3 })
	late := statusOfCluster(requireFailure[groupStatus](w.world, ranv1.ReasonTimedOut), "c1")
	require.Equal(t, ranv1.ClusterTimedOut, late.State)
	require.Equal(t, reasonClusterTimedOut, late.Reason)
	require.Contains(t, late.Message, "is still being deleted")
}

func TestAWorkThatSomebodyDeletesIsMadeAgainAndTheStatusSaysSo(t *testing.T) {
	w, story := newWorkWorld(t, []string{"c1"}, []string{"c1"})
	w.RegisterDelayedCallback(func() { w.comply("c1", 0, policies.Unknown) }, 2*time.Minute)
	var during groupStatus
	w.RegisterDelayedCallback(func() { during = statusOf[groupStatus](w.world) }, 3*time.Minute)
	w.RegisterDelayedCallback(func() { w.comply("c1", 0, policies.Compliant) }, 4*time.Minute)
	w.RegisterDelayedCallback(func() { w.comply("c1", 1, policies.Compliant) }, 6*time.Minute)
	w.runWorks()
	require.Contains(t, statusOfCluster(during, "c1").Message, "its item was deleted, and was placed again")
	require.Equal(t, []string{"+os c1", "+os c1", "-os c1"}, (*story)[:3])
	requireResult[groupStatus](w.world)
}

func TestAHubThatKeepsAWorkKeepsNoRolloutFromItsEnd(t *testing.T) {
	for name, refuse := range map[string]func(*policyWorld){
		"of one cluster": func(w *policyWorld) { w.stays = []string{"c1"} },
		"of all clusters": func(w *policyWorld) {
			w.fail["PlaceManifestWorks"] = func(call int) error {
				if call == 1 {
					return nil
				}
				return errors.New("the hub does not answer")
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w, _ := newWorkWorld(t, []string{"c1", "c2"}, []string{"c1", "c2"})
			refuse(w)
			w.fail["CleanUpManifestWorks"] = always(errors.New("the hub forbids it"))
			start := w.Now()
			w.RegisterDelayedCallback(func() { w.SignalWorkflow(temporal.SignalCancel, temporal.SignalRequest{}) }, 5*time.Minute)
			w.runWorks()
			status := requireCancelled[groupStatus](w.world)
			require.Equal(t, map[string]ranv1.ClusterState{"c1": "cancelled", "c2": "cancelled"}, clusterStates(status))
			require.Less(t, w.Now().Sub(start), 40*time.Minute)
			require.Len(t, status.Notes, 1)
			require.Contains(t, status.Notes[0], "could not be removed from c1")
			require.Contains(t, status.Notes[0], "the hub forbids it")
		})
	}
}

func TestTheNextBatchDoesNotWaitForAHubThatKeepsAWork(t *testing.T) {
	w, story := newWorkWorld(t, []string{"c1"}, []string{"c1"}, []string{"c2"})
	w.stays = []string{"c1"}
	w.runWorks()
	status := requireFailure[groupStatus](w.world, ranv1.ReasonTimedOut)
	require.Equal(t, map[string]ranv1.ClusterState{"c1": "timedout", "c2": "complete"}, clusterStates(status))
	require.Contains(t, *story, "+os c2")
	require.Empty(t, status.Notes, "at last it was removed")
}

func TestWorksStayOnCompleteClustersOnRequest(t *testing.T) {
	keep := func(spec *ranv1.ClusterGroupUpgradeSpec) {
		spec.Actions.AfterCompletion = &ranv1.AfterCompletion{DeleteObjects: new(false)}
	}
	w, story := newWorkWorld(t, nil, []string{"c1"}, []string{"c2"})
	w.runWorks(keep)
	requireResult[groupStatus](w.world)
	require.Equal(t, []string{"+os c1", "-os c1", "+firmware c1", "+os c2", "-os c2", "+firmware c2"}, *story)
	require.Empty(t, w.inputsOf("CleanUpManifestWorks"))
}

func TestWorksStayOnCompleteClustersOnRequestWhateverBecomesOfTheOthers(t *testing.T) {
	keep := func(spec *ranv1.ClusterGroupUpgradeSpec) {
		spec.Actions.AfterCompletion = &ranv1.AfterCompletion{DeleteObjects: new(false)}
	}
	w, story := newWorkWorld(t, []string{"c2"}, []string{"c3", "c1"}, []string{"c2"})
	w.runWorks(keep)
	requireFailure[groupStatus](w.world, ranv1.ReasonTimedOut)
	require.NotContains(t, *story, "-firmware c1")
	withdrawn := w.inputsOf("CleanUpManifestWorks")
	require.Len(t, withdrawn, 1)
	require.Equal(t, []string{"c1", "c3"}, withdrawn[0].(activities.CleanUpWorksInput).Keep)

	w, _ = newWorkWorld(t, []string{"c2"}, []string{"c1"}, []string{"c2"})
	w.runWorks()
	requireFailure[groupStatus](w.world, ranv1.ReasonTimedOut)
	require.Empty(t, w.inputsOf("CleanUpManifestWorks")[0].(activities.CleanUpWorksInput).Keep, "nobody has asked for that")
}

// The last work of c1 was made by an attempt of which nobody has heard when the rollout is paused: c1 is complete, and keeps it.
func TestAWorkThatMayHaveBeenMadeStaysOnItsClusterOnRequest(t *testing.T) {
	keep := func(spec *ranv1.ClusterGroupUpgradeSpec) {
		spec.Actions.AfterCompletion = &ranv1.AfterCompletion{DeleteObjects: new(false)}
	}
	w, story := newWorkWorld(t, nil, []string{"c1"}, []string{"c2"})
	w.fail["PlaceManifestWorks"] = func(call int) error {
		for _, placed := range w.inputsOf("PlaceManifestWorks")[call-1].(activities.PlaceWorksInput).Desired {
			if placed.Item == 1 && slices.Equal(placed.Clusters, []string{"c1"}) {
				stops["paused"].stop(w.world)
				w.bring("c1", 1)
				return temporal.Error(temporal.ErrHeld, "an attempt has asked", nil)
			}
		}
		return nil
	}
	w.RegisterDelayedCallback(func() {
		require.Equal(t, ranv1.ClusterComplete, statusOfCluster(statusOf[groupStatus](w.world), "c1").State)
	}, 10*time.Hour)
	w.RegisterDelayedCallback(func() { stops["paused"].goOn(w.world) }, 11*time.Hour)
	w.runWorks(keep)
	require.Equal(t, int32(2), requireResult[groupStatus](w.world).Counts.Complete)
	require.NotContains(t, *story, "-firmware c1")
	require.Equal(t, "+firmware c2", (*story)[len(*story)-1])
}

// Many works are told in parts: what was told before the rollout is paused is not told again, and its clusters do not wait for it.
func TestWorksThatWereToldBeforeARolloutIsHeldOrPausedAreNotToldAgain(t *testing.T) {
	for by, test := range map[string]struct{ stop, goOn func(w *world, number int64) }{
		"held": {
			func(w *world, number int64) { w.SignalWorkflow(temporal.SignalHeld, heldState(number, "all")) },
			func(w *world, number int64) { w.SignalWorkflow(temporal.SignalHeld, heldState(number)) },
		},
		"paused": {
			func(w *world, _ int64) { stops["paused"].stop(w) },
			func(w *world, _ int64) { stops["paused"].goOn(w) },
		},
	} {
		t.Run(by, func(t *testing.T) {
			var clusters []string
			for i := range 2 * worksAtOnce {
				clusters = append(clusters, fmt.Sprintf("c%d", i))
			}
			w, story := newWorkWorld(t, clusters, clusters)
			stopped := false
			w.fail["PlaceManifestWorks"] = func(call int) error {
				if call == 1 { // so that most are told together afterwards
					test.stop(w.world, 2)
					return temporal.Error(temporal.ErrHeld, "an attempt has asked", nil)
				}
				if desired := w.inputsOf("PlaceManifestWorks")[call-1].(activities.PlaceWorksInput).Desired; !stopped && len(desired[0].Clusters) == worksAtOnce {
					stopped = true
					test.stop(w.world, 4)
				}
				return nil
			}
			w.RegisterDelayedCallback(func() {
				require.Empty(t, *story)
				test.goOn(w.world, 3)
			}, 2*time.Minute)
			w.RegisterDelayedCallback(func() {
				require.True(t, stopped, "the part was not told")
				waiting := 0
				for _, cluster := range statusOf[groupStatus](w.world).Clusters {
					if strings.Contains(cluster.Message, "it may not begin") {
						require.NotContains(t, *story, "+os "+cluster.Name)
						waiting++
					}
				}
				require.Positive(t, waiting, "there was no part left")
				test.goOn(w.world, 5)
			}, 5*time.Minute)
			w.runWorks(func(spec *ranv1.ClusterGroupUpgradeSpec) {
				spec.RemediationStrategy.MaxConcurrency = intstr.FromInt(len(clusters))
			})
			told := slices.DeleteFunc(*story, func(what string) bool { return !strings.HasPrefix(what, "+os ") })
			slices.Sort(told)
			require.Len(t, told, len(clusters))
			require.Len(t, slices.Compact(told), len(clusters), "some were told twice")
		})
	}
}
