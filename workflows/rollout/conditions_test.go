package rollout_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/emergency"
	"drydock.dev/drydock/internal/rollout"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/kit"
	rolloutworkflow "drydock.dev/drydock/workflows/rollout"
	"drydock.dev/drydock/workflows/workflowtest"
)

// row is a row of the table of conditions.
type row struct {
	name string
	// play simulates a rollout of c1 and c2 that reaches the row. The condition is checked after that time; 0: at the end.
	play  func(w *workflowtest.World, clusters *workflowtest.Children, object *ranv1.ClusterGroupUpgrade)
	after time.Duration
	// conditionType, status and reason are expected. words is the start of the message, as in the original operator.
	conditionType string
	status        metav1.ConditionStatus
	reason, words string
}

func nothing(*workflowtest.World, *workflowtest.Children, *ranv1.ClusterGroupUpgrade) {}

// conditionRows are the conditions that the workflow sets.
func conditionRows() []row {
	const progressing, succeeded = ranv1.ConditionProgressing, ranv1.ConditionSucceeded
	stuck := func(_ *workflowtest.World, c *workflowtest.Children, _ *ranv1.ClusterGroupUpgrade) {
		c.Outcomes["c1"] = workflowtest.UntilCancelled
	}
	failing := func(_ *workflowtest.World, c *workflowtest.Children, _ *ranv1.ClusterGroupUpgrade) {
		c.Outcomes["c1"] = workflowtest.ClusterFails
	}
	at := func(after time.Duration, w *workflowtest.World, signal string) {
		w.RegisterDelayedCallback(func() { w.SignalWorkflow(signal, nil) }, after)
	}
	return []row{
		{"the clusters are selected", nothing, 0, ranv1.ConditionClustersSelected, "True", "ClusterSelectionCompleted", ""},
		{"a cluster is missing", func(w *workflowtest.World, _ *workflowtest.Children, _ *ranv1.ClusterGroupUpgrade) {
			w.Plan = planWithoutClusters("Unable to select clusters: c9")
		}, time.Minute, ranv1.ConditionClustersSelected, "False", "ClusterNotFound", "Unable to select clusters: c9"},
		{"the plan is valid", nothing, 0, ranv1.ConditionValidated, "True", "ValidationCompleted", ""},
		{"running", stuck, time.Minute, progressing, "True", "InProgress", "Maintaining nodes"},
		{"paused", func(w *workflowtest.World, c *workflowtest.Children, o *ranv1.ClusterGroupUpgrade) {
			stuck(w, c, o)
			at(time.Minute, w, temporal.SignalPause)
		}, 2 * time.Minute, progressing, "True", "InProgress", "Paused; Maintaining nodes"},
		{"held", func(w *workflowtest.World, _ *workflowtest.Children, _ *ranv1.ClusterGroupUpgrade) {
			w.Holds = emergency.State{Number: 2, Holds: []drydockv1.Hold{{Scope: drydockv1.HoldAll}}}
		}, 2 * time.Minute, progressing, "True", "InProgress", "Held; Maintaining nodes"},
		{"soaking", func(_ *workflowtest.World, _ *workflowtest.Children, o *ranv1.ClusterGroupUpgrade) {
			o.Spec.RemediationStrategy.SoakSeconds = 3600
		}, 2 * time.Minute, progressing, "True", "InProgress", "Soaking; Maintaining nodes"},
		{"waiting for an approval", func(_ *workflowtest.World, _ *workflowtest.Children, o *ranv1.ClusterGroupUpgrade) {
			o.Spec.Approvals = &ranv1.Approvals{BeforeEachBatch: true}
		}, time.Minute, progressing, "True", "InProgress", "WaitingForApproval; Maintaining nodes"},
		{"blocked", func(w *workflowtest.World, c *workflowtest.Children, o *ranv1.ClusterGroupUpgrade) {
			stuck(w, c, o)
			w.RegisterDelayedCallback(func() {
				w.SignalWorkflow(temporal.SignalClusterProgress, ranv1.ClusterStatus{Name: "c1", Step: "w2: Draining", Reason: "DisruptionBudgetNever", Message: "budget shop/web"})
			}, time.Minute)
		}, 2 * time.Minute, progressing, "True", "InProgress", "DisruptionBudgetNever; Maintaining nodes"},
		{"not enabled", func(_ *workflowtest.World, _ *workflowtest.Children, o *ranv1.ClusterGroupUpgrade) {
			o.Spec.Enable = new(bool)
		}, time.Minute, progressing, "False", "NotEnabled", "Not enabled"},
		{"a blocker is missing", blockedAs(rollout.Blocking{Missing: blockers}), 2 * time.Minute, progressing, "False", "MissingBlockingCR", "Missing blocking CRs: [base]; "},
		{"a blocker is not complete", blockedAs(rollout.Blocking{Incomplete: blockers}), 2 * time.Minute, progressing, "False", "IncompleteBlockingCR", "Blocking CRs that are not completed: [base]; "},
		{"complete", nothing, 0, progressing, "False", "Completed", "Node maintenance is complete on all clusters"},
		{"timed out", stuck, 0, progressing, "False", "TimedOut", "Node maintenance took too long; timed out: c1"},
		{"cancelled", func(w *workflowtest.World, c *workflowtest.Children, o *ranv1.ClusterGroupUpgrade) {
			stuck(w, c, o)
			at(time.Minute, w, temporal.SignalCancel)
		}, 0, progressing, "False", "Cancelled", "Cancelled; cancelled: c1"},
		{"aborted", func(w *workflowtest.World, c *workflowtest.Children, o *ranv1.ClusterGroupUpgrade) {
			failing(w, c, o)
			w.Plan.ComputedMaxFailures = 1
		}, 0, progressing, "False", "Aborted", "Aborted because too many clusters failed; failed: c1"},
		{"completed with a failure", failing, 0, progressing, "False", "Completed", "Failed on 1 of 2 clusters; failed: c1"},
		{"succeeded", nothing, 0, succeeded, "True", "Completed", "Node maintenance is complete on all clusters"},
		{"timed out", stuck, 0, succeeded, "False", "TimedOut", "Node maintenance took too long; timed out: c1"},
		{"timed out on a canary", func(w *workflowtest.World, c *workflowtest.Children, o *ranv1.ClusterGroupUpgrade) {
			stuck(w, c, o)
			o.Spec.RemediationStrategy.Canaries = []string{"c1"}
		}, 0, succeeded, "False", "TimedOut", "Node maintenance took too long on canary clusters; timed out: c1"},
		{"timed out with Abort", func(w *workflowtest.World, c *workflowtest.Children, o *ranv1.ClusterGroupUpgrade) {
			stuck(w, c, o)
			o.Spec.BatchTimeoutAction = ranv1.BatchTimeoutAbort
		}, 0, succeeded, "False", "TimedOut", "Node maintenance took too long on some clusters; timed out: c1"},
		{"failed", failing, 0, succeeded, "False", "Failed", "Failed on 1 of 2 clusters; failed: c1"},
		{"cancelled", func(w *workflowtest.World, _ *workflowtest.Children, o *ranv1.ClusterGroupUpgrade) {
			o.Spec.Enable = new(bool)
			at(time.Minute, w, temporal.SignalCancel)
		}, 0, succeeded, "False", "Cancelled", "Cancelled; not started: c1, c2"},
		{"aborted", func(_ *workflowtest.World, _ *workflowtest.Children, o *ranv1.ClusterGroupUpgrade) {
			o.Spec.Approvals = &ranv1.Approvals{BeforeEachBatch: true, Expiry: 5}
		}, 0, succeeded, "False", "Aborted", "Aborted because an approval was not given in time; not started: c1, c2"},
	}
}

var blockers = rollout.Blockers(&ranv1.ClusterGroupUpgrade{Spec: blockedRollout().Spec})

func blockedAs(blocking rollout.Blocking) func(*workflowtest.World, *workflowtest.Children, *ranv1.ClusterGroupUpgrade) {
	return func(w *workflowtest.World, _ *workflowtest.Children, o *ranv1.ClusterGroupUpgrade) {
		o.Spec.BlockingCRs = blockedRollout().Spec.BlockingCRs
		w.Blocked["AwaitBlockers"] = true
		w.RegisterDelayedCallback(func() {
			w.SignalWorkflow(temporal.SignalObserved, temporal.Observation{Activity: "AwaitBlockers", Wait: blocking.Wait()})
		}, time.Minute)
	}
}

func TestEveryDocumentedConditionIsReached(t *testing.T) {
	order := []string{
		ranv1.ConditionClustersSelected, ranv1.ConditionValidated, ranv1.ConditionPrecacheSpecValid, ranv1.ConditionPrecachingSucceeded,
		ranv1.ConditionBackupSucceeded, ranv1.ConditionProgressing, ranv1.ConditionSucceeded,
	}
	for _, row := range conditionRows() {
		t.Run(row.conditionType+" "+row.reason+": "+row.name, func(t *testing.T) {
			w, clusters := workflowtest.NewGroupWorld(t, []string{"c1"}, []string{"c2"})
			object := workflowtest.ARollout()
			row.play(w, clusters, &object)
			var status workflowtest.GroupStatus
			if row.after > 0 {
				w.RegisterDelayedCallback(func() {
					status = workflowtest.StatusOf[workflowtest.GroupStatus](w)
					w.CancelWorkflow()
				}, row.after)
			}
			w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, rolloutworkflow.Input{Object: object})
			if row.after == 0 {
				status = lastStatus(t, w)
				require.JSONEq(t, conditionsAndClusters(t, status), conditionsAndClusters(t, workflowtest.StatusOf[workflowtest.GroupStatus](w)), "the query returns the same status")
			}

			condition := meta.FindStatusCondition(status.Conditions, row.conditionType)
			require.NotNil(t, condition)
			require.Equal(t, row.status, condition.Status, condition.Message)
			require.Equal(t, row.reason, condition.Reason, condition.Message)
			require.True(t, strings.HasPrefix(condition.Message, row.words), condition.Message)
			places := make([]int, len(status.Conditions))
			for i, c := range status.Conditions {
				places[i] = slices.Index(order, c.Type)
			}
			require.True(t, slices.IsSorted(places), "%v", status.Conditions)
			require.NotContains(t, places, -1)
		})
	}
}

func conditionsAndClusters(t *testing.T, status workflowtest.GroupStatus) string {
	t.Helper()
	text, err := json.Marshal(workflowtest.GroupStatus{Conditions: status.Conditions, Clusters: status.Clusters})
	require.NoError(t, err)
	return string(text)
}

// lastStatus returns the status in the result or the error of the workflow.
func lastStatus(t *testing.T, w *workflowtest.World) workflowtest.GroupStatus {
	t.Helper()
	var status workflowtest.GroupStatus
	if err := w.GetWorkflowError(); err != nil {
		require.True(t, kit.DetailsOf(err, &status), "%v", err)
		return status
	}
	require.NoError(t, w.GetWorkflowResult(&status))
	return status
}
