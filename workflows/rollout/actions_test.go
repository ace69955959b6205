package rollout_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/workflow"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/drydock/activities/rollouts"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/rollout"
	"drydock.dev/drydock/internal/temporal"
	rolloutworkflow "drydock.dev/drydock/workflows/rollout"
	"drydock.dev/drydock/workflows/workflowtest"
)

func TestClustersAreLabelledBeforeTheRolloutAndAsTheyComplete(t *testing.T) {
	w, clusters := workflowtest.NewGroupWorld(t, []string{"c1", "c2"}, []string{"c3"})
	w.Plan.Skipped = []rollout.SkippedCluster{{Cluster: "c4", Reason: rollout.ReasonAlreadyCompliant}, {Cluster: "c5", Reason: rollout.ReasonNotBound}}
	var first []string
	clusters.Outcomes["c1"] = func(workflow.Context) error {
		first = w.LabelledClusters()["begun"]
		return nil
	}
	clusters.Outcomes["c2"] = workflowtest.ClusterFails
	var early []string
	clusters.Outcomes["c3"] = func(ctx workflow.Context) error {
		err := workflow.Sleep(ctx, time.Minute)
		early = w.LabelledClusters()["done"]
		return err
	}
	w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, rolloutworkflow.Input{Object: workflowtest.WithActions(workflowtest.ARollout())})

	workflowtest.RequireFailure[workflowtest.GroupStatus](w, ranv1.ReasonFailed)
	require.Equal(t, []string{"c1", "c2", "c3"}, first, "all clusters that start, before the first one")
	require.Equal(t, first, w.LabelledClusters()["begun"], "once")
	require.Subset(t, early, []string{"c1", "c4"}, "complete clusters do not wait for the others")
	require.ElementsMatch(t, []string{"c1", "c3", "c4"}, w.LabelledClusters()["done"], "not the failed one")
}

func TestARolloutWithoutARemediationOnlyRunsItsActions(t *testing.T) {
	w, clusters := workflowtest.NewGroupWorld(t)
	w.Plan.Skipped = []rollout.SkippedCluster{{Cluster: "c1", Reason: rollout.ReasonAlreadyCompliant}, {Cluster: "c2", Reason: rollout.ReasonAlreadyCompliant}}
	object := workflowtest.WithActions(workflowtest.ARollout())
	object.Spec.NodeMaintenance = nil
	w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, rolloutworkflow.Input{Object: object})

	workflowtest.RequireResult[workflowtest.GroupStatus](w)
	require.Empty(t, clusters.EventsInOrder())
	require.Equal(t, map[string][]string{"begun": {"c1", "c2"}, "done": {"c1", "c2"}}, w.LabelledClusters())
}

func TestARolloutWithoutActionsChangesNoCluster(t *testing.T) {
	w, _ := workflowtest.NewGroupWorld(t, []string{"c1"})
	object := workflowtest.ARollout()
	object.Spec.Actions.AfterCompletion = &ranv1.AfterCompletion{DeleteObjects: new(true)}
	w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, rolloutworkflow.Input{Object: object})
	workflowtest.RequireResult[workflowtest.GroupStatus](w)
	require.Empty(t, w.InputsOf("ChangeClusters"))
}

func TestARolloutEndsAfterItsActions(t *testing.T) {
	w, _ := workflowtest.NewGroupWorld(t, []string{"c1"})
	recovers := w.Now().Add(3 * time.Hour)
	w.Fail["ChangeClusters"] = func(call int) error {
		if call > 1 && w.Now().Before(recovers) {
			return errors.New("the hub is unreachable")
		}
		return nil
	}
	w.RegisterDelayedCallback(func() {
		status := workflowtest.StatusOf[workflowtest.GroupStatus](w)
		require.Equal(t, ranv1.ClusterComplete, status.Clusters[0].State)
		require.Contains(t, status.Wait.Message, "afterCompletion on c1: the hub is unreachable")
	}, 2*time.Hour)
	w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, rolloutworkflow.Input{Object: workflowtest.WithActions(workflowtest.ARollout())})
	workflowtest.RequireResult[workflowtest.GroupStatus](w)
	require.Contains(t, w.LabelledClusters()["done"], "c1")
}

func TestACancelledRolloutNotesActionsThatDidNotRun(t *testing.T) {
	w, clusters := workflowtest.NewGroupWorld(t, []string{"c1"}, []string{"c2"})
	clusters.Outcomes["c2"] = workflowtest.UntilCancelled
	w.Fail["ChangeClusters"] = func(call int) error {
		if call > 1 {
			return errors.New("the hub is unreachable")
		}
		return nil
	}
	w.RegisterDelayedCallback(func() { w.SignalWorkflow(temporal.SignalCancel, nil) }, 10*time.Minute)
	w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, rolloutworkflow.Input{Object: workflowtest.WithActions(workflowtest.ARollout())})
	status := workflowtest.RequireCancelled[workflowtest.GroupStatus](w)
	require.Contains(t, status.Notes, "actions.afterCompletion did not run on c1")
}

func TestAClusterThatRefusesLabelsDoesNotBlockOthers(t *testing.T) {
	w, _ := workflowtest.NewGroupWorld(t, []string{"c1", "c2"}, []string{"c3"})
	w.RefuseChanges(w.Now().Add(3*time.Hour), false, "c1")
	var during workflowtest.GroupStatus
	var done []string
	w.RegisterDelayedCallback(func() {
		during, done = workflowtest.StatusOf[workflowtest.GroupStatus](w), w.LabelledClusters()["done"]
	}, 2*time.Hour)
	w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, rolloutworkflow.Input{Object: workflowtest.WithActions(workflowtest.ARollout())})
	workflowtest.RequireResult[workflowtest.GroupStatus](w)
	require.Subset(t, done, []string{"c2", "c3"})
	require.Equal(t, "ClustersRefused", during.Wait.Reason)
	require.Equal(t, "afterCompletion: ManagedCluster c1: frozen", during.Wait.Message)
	retry := 0
	for _, in := range w.InputsOf("ChangeClusters")[2:] {
		if slices.Equal(in.(rollouts.ChangeClustersInput).Clusters, []string{"c1"}) {
			retry++
		}
	}
	require.Greater(t, retry, 10, "it is retried alone")
	require.Less(t, retry, 60, "the pauses grow")
}

func TestACancelledRolloutNamesClustersThatRefusedLabels(t *testing.T) {
	w, _ := workflowtest.NewGroupWorld(t, []string{"c1", "c2"})
	w.RefuseChanges(w.Now().Add(300*time.Hour), false, "c1")
	w.RegisterDelayedCallback(func() { w.SignalWorkflow(temporal.SignalCancel, nil) }, time.Hour)
	w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, rolloutworkflow.Input{Object: workflowtest.WithActions(workflowtest.ARollout())})
	status := workflowtest.RequireResult[workflowtest.GroupStatus](w)
	require.Equal(t, map[string]ranv1.ClusterState{"c1": "complete", "c2": "complete"}, workflowtest.ClusterStates(status), "all work was complete")
	require.Contains(t, status.Notes, "actions.afterCompletion did not run on c1: ManagedCluster c1: frozen")
}

func TestALabelThatAClusterCanNeverHaveIsNoted(t *testing.T) {
	w, _ := workflowtest.NewGroupWorld(t, []string{"c1", "c2"})
	w.RefuseChanges(w.Now().Add(300*time.Hour), true, "c1")
	w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, rolloutworkflow.Input{Object: workflowtest.WithActions(workflowtest.ARollout())})
	require.Equal(t, []string{"actions.afterCompletion failed: ManagedCluster c1: frozen"}, workflowtest.RequireResult[workflowtest.GroupStatus](w).Notes)
}

func TestNoClusterStartsBeforeAllAcceptBeforeEnable(t *testing.T) {
	w, clusters := workflowtest.NewGroupWorld(t, []string{"c1", "c2"})
	from := w.Now()
	workflowtest.Simulate(w, "ChangeClusters", func(in rollouts.ChangeClustersInput) any {
		if slices.Contains(in.Clusters, "c1") && w.Now().Before(from.Add(time.Hour)) {
			return []rollouts.RefusedChange{{Cluster: "c1", Message: "ManagedCluster c1: frozen"}}
		}
		return nil
	})
	w.RegisterDelayedCallback(func() {
		require.Empty(t, clusters.EventsInOrder())
		require.Equal(t, "beforeEnable: ManagedCluster c1: frozen", workflowtest.StatusOf[workflowtest.GroupStatus](w).Wait.Message)
	}, 30*time.Minute)
	w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, rolloutworkflow.Input{Object: workflowtest.WithActions(workflowtest.ARollout())})
	workflowtest.RequireResult[workflowtest.GroupStatus](w)
}

func TestInvalidLabelsEndTheRolloutBeforeAnyClusterStarts(t *testing.T) {
	w, clusters := workflowtest.NewGroupWorld(t, []string{"c1"})
	w.Fail["ChangeClusters"] = workflowtest.Always(temporal.Error(temporal.ErrInvalidSpec, "no such label", nil))
	w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, rolloutworkflow.Input{Object: workflowtest.WithActions(workflowtest.ARollout())})
	workflowtest.RequireFailure[workflowtest.GroupStatus](w, temporal.ErrInvalidSpec)
	require.Empty(t, clusters.EventsInOrder())
}

func TestDueActionsContinueInTheNextRun(t *testing.T) {
	w, _ := workflowtest.NewGroupWorld(t)
	carried := &rolloutworkflow.PreviousRun{Phase: rolloutworkflow.PhaseBatches, Completed: []string{"c1"}}
	w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, rolloutworkflow.Input{Object: workflowtest.WithActions(workflowtest.ARollout()), PreviousRun: carried})
	workflowtest.RequireResult[workflowtest.GroupStatus](w)
	require.Equal(t, map[string][]string{"done": {"c1"}}, w.LabelledClusters(), "beforeEnable does not run again")
}

func TestManyClustersAreChangedInSeveralActivities(t *testing.T) {
	var many []string
	for i := range 2*rolloutworkflow.ChangesPerActivity + 1 {
		many = append(many, string(rune('a'+i%26))+time.Duration(i).String())
	}
	w, _ := workflowtest.NewGroupWorld(t)
	for _, name := range many {
		w.Plan.Skipped = append(w.Plan.Skipped, rollout.SkippedCluster{Cluster: name, Reason: rollout.ReasonAlreadyCompliant})
	}
	object := workflowtest.WithActions(workflowtest.ARollout())
	object.Spec.NodeMaintenance = nil
	w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, rolloutworkflow.Input{Object: object})
	workflowtest.RequireResult[workflowtest.GroupStatus](w)
	require.Len(t, w.InputsOf("ChangeClusters"), 6)
	require.Equal(t, many, w.LabelledClusters()["done"])
}

// retried retries an ended rollout with actions.
func retried(t *testing.T, ended workflowtest.GroupStatus, request rollout.RetryRequest) *workflowtest.World {
	t.Helper()
	next, err := rollout.Retry(ended, nil, request)
	require.NoError(t, err)
	w, _ := workflowtest.NewGroupWorld(t)
	w.LoadedRollout.Object = workflowtest.WithActions(workflowtest.ARollout())
	w.LoadedRollout.Object.Status = next
	w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, rolloutworkflow.Input{Object: ranv1.ClusterGroupUpgrade{ObjectMeta: workflowtest.ARollout().ObjectMeta}, Retry: &request})
	return w
}

// A person may have removed a label since.
func TestARetryRunsAfterCompletionOnlyWhereItDidNotRun(t *testing.T) {
	run := func(t *testing.T, shape func(w *workflowtest.World, clusters *workflowtest.Children)) *workflowtest.World {
		w, clusters := workflowtest.NewGroupWorld(t, []string{"c1", "c2"}, []string{"c3"})
		w.Plan.Skipped = []rollout.SkippedCluster{{Cluster: "c4", Reason: rollout.ReasonAlreadyCompliant}}
		shape(w, clusters)
		w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, rolloutworkflow.Input{Object: workflowtest.WithActions(workflowtest.ARollout())})
		return w
	}
	t.Run("a failed cluster and a final refusal", func(t *testing.T) {
		w := run(t, func(w *workflowtest.World, clusters *workflowtest.Children) {
			clusters.Outcomes["c2"] = workflowtest.ClusterFails
			w.RefuseChanges(w.Now().Add(300*time.Hour), true, "c3")
		})
		require.Subset(t, w.LabelledClusters()["done"], []string{"c1", "c4"})
		retry := retried(t, workflowtest.RequireFailure[workflowtest.GroupStatus](w, ranv1.ReasonFailed), rollout.RetryRequest{})
		require.Nil(t, workflowtest.RequireResult[workflowtest.GroupStatus](retry).AfterCompletion.NotDone)
		require.ElementsMatch(t, []string{"c2", "c3"}, retry.LabelledClusters()["done"])
		require.Equal(t, []string{"c2"}, retry.LabelledClusters()["begun"])
	})
	t.Run("a cancelled rollout", func(t *testing.T) {
		w := run(t, func(w *workflowtest.World, clusters *workflowtest.Children) {
			clusters.Outcomes["c3"] = workflowtest.UntilCancelled
			w.RefuseChanges(w.Now().Add(300*time.Hour), false, "c1")
			w.RegisterDelayedCallback(func() { w.SignalWorkflow(temporal.SignalCancel, nil) }, 10*time.Minute)
		})
		retry := retried(t, workflowtest.RequireCancelled[workflowtest.GroupStatus](w), rollout.RetryRequest{Unfinished: true})
		workflowtest.RequireResult[workflowtest.GroupStatus](retry)
		require.ElementsMatch(t, []string{"c1", "c3"}, retry.LabelledClusters()["done"])
	})
	t.Run("a rollout that failed before its actions", func(t *testing.T) {
		w := run(t, func(w *workflowtest.World, _ *workflowtest.Children) {
			w.Fail["ChangeClusters"] = workflowtest.Always(temporal.Error(temporal.ErrInvalidSpec, "no such label", nil))
		})
		require.Empty(t, w.LabelledClusters()["done"])
		retry := retried(t, workflowtest.RequireFailure[workflowtest.GroupStatus](w, temporal.ErrInvalidSpec), rollout.RetryRequest{Unfinished: true})
		workflowtest.RequireResult[workflowtest.GroupStatus](retry)
		require.ElementsMatch(t, []string{"c1", "c2", "c3", "c4"}, retry.LabelledClusters()["done"])
	})
	t.Run("a complete cluster that was deleted", func(t *testing.T) {
		ended := workflowtest.GroupStatus{
			RemediationPlan: [][]string{{"c1"}}, Clusters: []ranv1.ClusterStatus{{Name: "c1", State: ranv1.ClusterFailed, Batch: 1}},
			AfterCompletion: &ranv1.AfterCompletionStatus{NotDone: []string{"c1"}},
			Conditions:      []metav1.Condition{{Type: ranv1.ConditionSucceeded, Reason: ranv1.ReasonFailed}},
		}
		retry := retried(t, ended, rollout.RetryRequest{})
		workflowtest.RequireResult[workflowtest.GroupStatus](retry)
		require.Equal(t, []string{"c1"}, retry.LabelledClusters()["done"], "once, when it completes")
	})
}
