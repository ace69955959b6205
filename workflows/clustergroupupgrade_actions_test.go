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
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/rollout"
	"drydock.dev/drydock/internal/temporal"
)

// withActions marks clusters "begun" before the rollout, and "done" in place of it when they are complete.
func withActions(object ranv1.ClusterGroupUpgrade) ranv1.ClusterGroupUpgrade {
	object.Spec.Actions = ranv1.Actions{
		BeforeEnable:    &ranv1.BeforeEnable{AddClusterLabels: map[string]string{"begun": ""}},
		AfterCompletion: &ranv1.AfterCompletion{AddClusterLabels: map[string]string{"done": ""}, RemoveClusterLabels: []string{"begun"}},
	}
	return object
}

// changed returns the clusters that were labelled, by the label that was added, in order.
func (w *world) changed() map[string][]string {
	found := map[string][]string{}
	for _, in := range w.inputsOf("ChangeClusters") {
		in := in.(activities.ChangeClustersInput)
		for label, value := range in.Change.Labels {
			if value != nil {
				found[label] = append(found[label], in.Clusters...)
			}
		}
	}
	return found
}

func TestClustersAreLabelledBeforeTheRolloutAndAsTheyComplete(t *testing.T) {
	w, clusters := newGroupWorld(t, []string{"c1", "c2"}, []string{"c3"})
	w.plan.Skipped = []rollout.SkippedCluster{{Cluster: "c4", Reason: rollout.ReasonAlreadyCompliant}}
	var first []string
	clusters.ends["c1"] = func(workflow.Context) error {
		first = w.changed()["begun"]
		return nil
	}
	clusters.ends["c2"] = clusterFails
	var early []string
	clusters.ends["c3"] = func(ctx workflow.Context) error {
		err := workflow.Sleep(ctx, time.Minute)
		early = w.changed()["done"]
		return err
	}
	w.ExecuteWorkflow(ClusterGroupUpgrade, ClusterGroupUpgradeInput{Object: withActions(aRollout())})

	requireFailure[groupStatus](w, ranv1.ReasonFailed)
	require.Equal(t, []string{"c1", "c2", "c3"}, first, "all that are worked on, before any is")
	require.Equal(t, first, w.changed()["begun"], "once")
	require.Subset(t, early, []string{"c1", "c4"}, "those that are complete do not wait for the others")
	require.ElementsMatch(t, []string{"c1", "c3", "c4"}, w.changed()["done"], "and not the one that failed")
}

func TestARolloutWithoutARemediationOnlyDoesItsActions(t *testing.T) {
	w, clusters := newGroupWorld(t)
	w.plan.Skipped = []rollout.SkippedCluster{{Cluster: "c1"}, {Cluster: "c2"}}
	object := withActions(aRollout())
	object.Spec.NodeMaintenance = nil
	w.ExecuteWorkflow(ClusterGroupUpgrade, ClusterGroupUpgradeInput{Object: object})

	requireResult[groupStatus](w)
	require.Empty(t, clusters.story())
	require.Equal(t, map[string][]string{"begun": {"c1", "c2"}, "done": {"c1", "c2"}}, w.changed())
}

func TestARolloutWithoutActionsAsksForNoChange(t *testing.T) {
	w, _ := newGroupWorld(t, []string{"c1"})
	object := aRollout()
	object.Spec.Actions.AfterCompletion = &ranv1.AfterCompletion{DeleteObjects: new(true)}
	w.ExecuteWorkflow(ClusterGroupUpgrade, ClusterGroupUpgradeInput{Object: object})
	requireResult[groupStatus](w)
	require.Empty(t, w.inputsOf("ChangeClusters"))
}

func TestARolloutIsNotOverBeforeItsActionsAreDone(t *testing.T) {
	w, _ := newGroupWorld(t, []string{"c1"})
	away := w.Now().Add(3 * time.Hour)
	w.fail["ChangeClusters"] = func(call int) error {
		if call > 1 && w.Now().Before(away) {
			return errors.New("the hub is away")
		}
		return nil
	}
	w.RegisterDelayedCallback(func() {
		status := statusOf[groupStatus](w)
		require.Equal(t, ranv1.ClusterComplete, status.Clusters[0].State)
		require.Contains(t, status.Wait.Message, "afterCompletion on c1: the hub is away")
	}, 2*time.Hour)
	w.ExecuteWorkflow(ClusterGroupUpgrade, ClusterGroupUpgradeInput{Object: withActions(aRollout())})
	requireResult[groupStatus](w)
	require.Contains(t, w.changed()["done"], "c1")
}

func TestACancelledRolloutGivesUpOnItsActionsAndSaysSo(t *testing.T) {
	w, clusters := newGroupWorld(t, []string{"c1"}, []string{"c2"})
	clusters.ends["c2"] = never
	w.fail["ChangeClusters"] = func(call int) error {
		if call > 1 {
			return errors.New("the hub is away")
		}
		return nil
	}
	w.RegisterDelayedCallback(func() { w.SignalWorkflow(temporal.SignalCancel, nil) }, 10*time.Minute)
	w.ExecuteWorkflow(ClusterGroupUpgrade, ClusterGroupUpgradeInput{Object: withActions(aRollout())})
	status := requireCancelled[groupStatus](w)
	require.Contains(t, status.Notes, "actions.afterCompletion was not carried out on c1")
}

// refuseChanges lets clusters refuse what afterCompletion asks for, until then.
func (w *world) refuseChanges(until time.Time, final bool, clusters ...string) {
	play(w, "ChangeClusters", func(in activities.ChangeClustersInput) any {
		refused := []activities.RefusedChange{}
		for _, cluster := range in.Clusters {
			if _, after := in.Change.Labels["done"]; after && slices.Contains(clusters, cluster) && w.Now().Before(until) {
				refused = append(refused, activities.RefusedChange{Cluster: cluster, Message: "ManagedCluster " + cluster + ": frozen", Final: final})
			}
		}
		return refused
	})
}

func TestAClusterThatRefusesItsLabelsKeepsNoOtherFromThemAndTheRolloutSaysSo(t *testing.T) {
	w, _ := newGroupWorld(t, []string{"c1", "c2"}, []string{"c3"})
	w.refuseChanges(w.Now().Add(3*time.Hour), false, "c1")
	var during groupStatus
	var done []string
	w.RegisterDelayedCallback(func() { during, done = statusOf[groupStatus](w), w.changed()["done"] }, 2*time.Hour)
	w.ExecuteWorkflow(ClusterGroupUpgrade, ClusterGroupUpgradeInput{Object: withActions(aRollout())})
	requireResult[groupStatus](w)
	require.Subset(t, done, []string{"c2", "c3"})
	require.Equal(t, "ClustersRefused", during.Wait.Reason)
	require.Equal(t, "afterCompletion: ManagedCluster c1: frozen", during.Wait.Message)
	again := 0
	for _, in := range w.inputsOf("ChangeClusters")[2:] {
		if slices.Equal(in.(activities.ChangeClustersInput).Clusters, []string{"c1"}) {
			again++
		}
	}
	require.Greater(t, again, 10, "asked again, alone")
	require.Less(t, again, 60, "less and less often")
}

func TestARolloutThatIsNotToWaitForLabelsNamesTheClustersThatRefusedThem(t *testing.T) {
	w, _ := newGroupWorld(t, []string{"c1", "c2"})
	w.refuseChanges(w.Now().Add(300*time.Hour), false, "c1")
	w.RegisterDelayedCallback(func() { w.SignalWorkflow(temporal.SignalCancel, nil) }, time.Hour)
	w.ExecuteWorkflow(ClusterGroupUpgrade, ClusterGroupUpgradeInput{Object: withActions(aRollout())})
	status := requireResult[groupStatus](w)
	require.Equal(t, map[string]ranv1.ClusterState{"c1": "complete", "c2": "complete"}, clusterStates(status), "there was nothing else to cancel")
	require.Contains(t, status.Notes, "actions.afterCompletion was not carried out on c1: ManagedCluster c1: frozen")
}

func TestALabelThatAClusterCanNeverHaveIsNoted(t *testing.T) {
	w, _ := newGroupWorld(t, []string{"c1", "c2"})
	w.refuseChanges(w.Now().Add(300*time.Hour), true, "c1")
	w.ExecuteWorkflow(ClusterGroupUpgrade, ClusterGroupUpgradeInput{Object: withActions(aRollout())})
	require.Equal(t, []string{"actions.afterCompletion failed: ManagedCluster c1: frozen"}, requireResult[groupStatus](w).Notes)
}

func TestNothingIsWorkedOnBeforeEveryClusterHasTakenItsLabels(t *testing.T) {
	w, clusters := newGroupWorld(t, []string{"c1", "c2"})
	from := w.Now()
	play(w, "ChangeClusters", func(in activities.ChangeClustersInput) any {
		if slices.Contains(in.Clusters, "c1") && w.Now().Before(from.Add(time.Hour)) {
			return []activities.RefusedChange{{Cluster: "c1", Message: "ManagedCluster c1: frozen"}}
		}
		return nil
	})
	w.RegisterDelayedCallback(func() {
		require.Empty(t, clusters.story())
		require.Equal(t, "beforeEnable: ManagedCluster c1: frozen", statusOf[groupStatus](w).Wait.Message)
	}, 30*time.Minute)
	w.ExecuteWorkflow(ClusterGroupUpgrade, ClusterGroupUpgradeInput{Object: withActions(aRollout())})
	requireResult[groupStatus](w)
}

func TestLabelsThatCannotBeSetEndTheRolloutBeforeAnythingIsDone(t *testing.T) {
	w, clusters := newGroupWorld(t, []string{"c1"})
	w.fail["ChangeClusters"] = always(temporal.Error(temporal.ErrInvalidSpec, "no such label", nil))
	w.ExecuteWorkflow(ClusterGroupUpgrade, ClusterGroupUpgradeInput{Object: withActions(aRollout())})
	requireFailure[groupStatus](w, temporal.ErrInvalidSpec)
	require.Empty(t, clusters.story())
}

func TestWhatIsToBeDoneToCompleteClustersIsHandedToTheNextRun(t *testing.T) {
	w, _ := newGroupWorld(t)
	carried := &ClusterGroupUpgradeCarried{Phase: phaseBatches, Completed: []string{"c1"}}
	w.ExecuteWorkflow(ClusterGroupUpgrade, ClusterGroupUpgradeInput{Object: withActions(aRollout()), Carried: carried})
	requireResult[groupStatus](w)
	require.Equal(t, map[string][]string{"done": {"c1"}}, w.changed(), "and beforeEnable is not done again")
}

func TestManyClustersAreChangedInParts(t *testing.T) {
	var many []string
	for i := range 2*changedAtOnce + 1 {
		many = append(many, string(rune('a'+i%26))+time.Duration(i).String())
	}
	w, _ := newGroupWorld(t)
	for _, name := range many {
		w.plan.Skipped = append(w.plan.Skipped, rollout.SkippedCluster{Cluster: name})
	}
	object := withActions(aRollout())
	object.Spec.NodeMaintenance = nil
	w.ExecuteWorkflow(ClusterGroupUpgrade, ClusterGroupUpgradeInput{Object: object})
	requireResult[groupStatus](w)
	require.Len(t, w.inputsOf("ChangeClusters"), 6)
	require.Equal(t, many, w.changed()["done"])
}

// retried does a rollout with actions once more, as it has ended.
func retried(t *testing.T, over groupStatus, request rollout.RetryRequest) *world {
	t.Helper()
	next, err := rollout.Retry(over, nil, request)
	require.NoError(t, err)
	w, _ := newGroupWorld(t)
	w.recalledRollout.Object = withActions(aRollout())
	w.recalledRollout.Object.Status = next
	w.ExecuteWorkflow(ClusterGroupUpgrade, ClusterGroupUpgradeInput{Object: ranv1.ClusterGroupUpgrade{ObjectMeta: aRollout().ObjectMeta}, Retry: &request})
	return w
}

// Somebody may have taken a label away since.
func TestOnceMoreOnlyClustersThatNeverWereAreLabelledAsComplete(t *testing.T) {
	play := func(t *testing.T, shape func(w *world, clusters *children)) *world {
		w, clusters := newGroupWorld(t, []string{"c1", "c2"}, []string{"c3"})
		w.plan.Skipped = []rollout.SkippedCluster{{Cluster: "c4", Reason: rollout.ReasonAlreadyCompliant}}
		shape(w, clusters)
		w.ExecuteWorkflow(ClusterGroupUpgrade, ClusterGroupUpgradeInput{Object: withActions(aRollout())})
		return w
	}
	t.Run("one has failed, and one can never have it", func(t *testing.T) {
		w := play(t, func(w *world, clusters *children) {
			clusters.ends["c2"] = clusterFails
			w.refuseChanges(w.Now().Add(300*time.Hour), true, "c3")
		})
		require.Subset(t, w.changed()["done"], []string{"c1", "c4"})
		again := retried(t, requireFailure[groupStatus](w, ranv1.ReasonFailed), rollout.RetryRequest{})
		require.Nil(t, requireResult[groupStatus](again).AfterCompletion.NotDone)
		require.ElementsMatch(t, []string{"c2", "c3"}, again.changed()["done"])
		require.Equal(t, []string{"c2"}, again.changed()["begun"])
	})
	t.Run("the rollout did not wait for one", func(t *testing.T) {
		w := play(t, func(w *world, clusters *children) {
			clusters.ends["c3"] = never
			w.refuseChanges(w.Now().Add(300*time.Hour), false, "c1")
			w.RegisterDelayedCallback(func() { w.SignalWorkflow(temporal.SignalCancel, nil) }, 10*time.Minute)
		})
		again := retried(t, requireCancelled[groupStatus](w), rollout.RetryRequest{Unfinished: true})
		requireResult[groupStatus](again)
		require.ElementsMatch(t, []string{"c1", "c3"}, again.changed()["done"])
	})
	t.Run("it had not come so far, or an earlier program has not said", func(t *testing.T) {
		w := play(t, func(w *world, _ *children) {
			w.fail["ChangeClusters"] = always(temporal.Error(temporal.ErrInvalidSpec, "no such label", nil))
		})
		require.Empty(t, w.changed()["done"])
		again := retried(t, requireFailure[groupStatus](w, temporal.ErrInvalidSpec), rollout.RetryRequest{Unfinished: true})
		requireResult[groupStatus](again)
		require.ElementsMatch(t, []string{"c1", "c2", "c3", "c4"}, again.changed()["done"])
	})
	t.Run("one that was complete has vanished since", func(t *testing.T) {
		over := groupStatus{
			RemediationPlan: [][]string{{"c1"}}, Clusters: []ranv1.ClusterStatus{{Name: "c1", State: ranv1.ClusterFailed, Batch: 1}},
			AfterCompletion: &ranv1.AfterCompletionStatus{NotDone: []string{"c1"}},
			Conditions:      []metav1.Condition{{Type: ranv1.ConditionSucceeded, Reason: ranv1.ReasonFailed}},
		}
		again := retried(t, over, rollout.RetryRequest{})
		requireResult[groupStatus](again)
		require.Equal(t, []string{"c1"}, again.changed()["done"], "once, as it completes")
	})
}
