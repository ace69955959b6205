package rollout_test

import (
	"fmt"
	"math/rand"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/workflow"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/drydock/activities"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/rollout"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/internal/windows"
	"drydock.dev/drydock/workflows/gates"
	rolloutworkflow "drydock.dev/drydock/workflows/rollout"
	"drydock.dev/drydock/workflows/workflowtest"
)

// refusedFrom is how many bytes the server refuses for good.
const refusedFrom = 2 << 20

// largest is a rollout of 10,000 clusters that are listed by name, each with a worker of its own, precached and backed up, with some policies of ten and in some windows of 16. Their names are as long as the API
// allows and have nothing in common, and so have their messages: nothing is longer.
func largest(states ...ranv1.ClusterState) (*rolloutworkflow.GroupUpgrade, rolloutworkflow.Input) {
	const clusters, atOnce = 10_000, 500
	random := rand.New(rand.NewSource(1))
	text := func(length int) string {
		letters := make([]byte, length)
		for i := range letters {
			letters[i] = "abcdefghijklmnopqrstuvwxyz0123456789"[random.Intn(36)]
		}
		return string(letters)
	}
	g := &rolloutworkflow.GroupUpgrade{Record: &rolloutworkflow.GroupRecord{}, Remediator: rolloutworkflow.NodeRemediator{}, TaskQueues: map[string]string{}, NotBound: map[string][]int{}, Phase: rolloutworkflow.PhaseBatches}
	g.Status.Precaching = &ranv1.PrecachingStatus{Status: map[string]ranv1.PreparationState{}}
	g.Status.Backup = &ranv1.BackupStatus{Status: map[string]ranv1.PreparationState{}}
	at := time.Date(2026, 11, 21, 6, 0, 0, 0, time.UTC)
	for i := range clusters {
		began, ended := metav1.NewTime(at.Add(time.Duration(i)*time.Second)), metav1.NewTime(at.Add(time.Duration(2*i)*time.Second))
		c := ranv1.ClusterStatus{
			Name: text(63), Batch: int32(i/atOnce + 1), State: states[random.Intn(len(states))], Reason: "DrainTimedOut", Message: text(1000),
			StartedAt: &began, Since: &ended, CompletedAt: &ended, CurrentPolicy: &ranv1.PolicyStatus{Name: "kernel", Status: "NonCompliant"},
			Nodes: ranv1.NodeCounts{Total: 12, Done: 5, Failed: 1, Evicted: int32(random.Intn(300))},
		}
		if i%atOnce == 0 {
			g.Status.RemediationPlan = append(g.Status.RemediationPlan, nil)
		}
		g.Status.RemediationPlan[c.Batch-1] = append(g.Status.RemediationPlan[c.Batch-1], c.Name)
		g.Status.Clusters = append(g.Status.Clusters, c)
		g.TaskQueues[c.Name] = temporal.ClusterTaskQueue(c.Name)
		g.Status.Precaching.Status[c.Name] = []ranv1.PreparationState{ranv1.PreparationSucceeded, ranv1.PrecacheTimeout}[random.Intn(2)]
		g.Status.Backup.Status[c.Name] = []ranv1.PreparationState{ranv1.PreparationSucceeded, ranv1.BackupTimeout}[random.Intn(2)]
		g.NotBound[c.Name] = random.Perm(10)[:1+random.Intn(9)]
		g.Spec.Clusters = append(g.Spec.Clusters, c.Name)
	}
	g.Holds.Windows = gates.Windows{Names: make([]string, 16), Told: map[string]windows.Standing{}, Selected: map[string][]string{}, Clusters: func() []string { return g.Spec.Clusters }}
	for i := range g.Holds.Windows.Names {
		g.Holds.Windows.Names[i] = text(63)
	}
	for _, name := range g.Spec.Clusters {
		g.Holds.Windows.Selected[name] = g.Holds.Windows.Names[:random.Intn(17)]
	}
	in := rolloutworkflow.Input{Object: ranv1.ClusterGroupUpgrade{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: "june"}, Spec: g.Spec}}
	return g, in
}

// requireFits requires that the server takes a value, and that it arrives.
func requireFits[Value any](t *testing.T, value Value) (arrived Value) {
	t.Helper()
	payloads, err := temporal.DataConverter().ToPayloads(value)
	require.NoError(t, err)
	t.Logf("%T: %d bytes", value, payloads.Size())
	require.Less(t, payloads.Size(), refusedFrom)
	require.NoError(t, temporal.DataConverter().FromPayloads(payloads, &arrived))
	return arrived
}

func TestTenThousandClustersFitIntoWhatOneRunHandsToTheNext(t *testing.T) {
	g, in := largest(ranv1.ClusterFailed, ranv1.ClusterTimedOut, ranv1.ClusterPending) // of those that are complete, less is handed on
	in.Carried = g.Carry(time.Now())
	carried := requireFits(t, in).Carried
	require.Equal(t, g.TaskQueues, carried.TaskQueues)
	require.Equal(t, g.NotBoundStill(), rollout.ExpandNotBound(carried.NotBound, rollout.NamesOf(carried.Status.Clusters)))
	for i, cluster := range g.Spec.Clusters {
		selected := []string{}
		for _, place := range carried.Windows.Selected[i] {
			selected = append(selected, g.Holds.Windows.Names[place])
		}
		require.Equal(t, g.Holds.Windows.Selected[cluster], selected)
	}
	status := rollout.Expand(carried.Status)
	require.Equal(t, g.Status.RemediationPlan, status.RemediationPlan)
	require.Equal(t, g.Status.Precaching, status.Precaching)
	require.Equal(t, g.Status.Backup, status.Backup)
	for i, c := range status.Clusters {
		before := g.Status.Clusters[i]
		require.Equal(t, before.State, c.State)
		require.Contains(t, before.Message, c.Message[:10], "of messages the beginning is left")
	}
}

func TestMessagesThatFitAreHandedOnWhole(t *testing.T) {
	g, _ := largest(ranv1.ClusterFailed)
	g.Status.Clusters = g.Status.Clusters[:500]
	require.Equal(t, g.Status.Clusters, g.Carry(time.Now()).Status.Clusters)
}

func TestTenThousandClustersFitIntoAPlanAndIntoASavedRollout(t *testing.T) {
	g, in := largest(ranv1.ClusterFailed)
	plan := activities.RolloutPlan{TaskQueues: g.TaskQueues, Plan: rollout.Plan{RemediationPlan: g.Status.RemediationPlan, StartPolicyIndex: map[string]int{}}}
	for i, name := range g.Spec.Clusters {
		plan.StartPolicyIndex[name] = i % 3
	}
	plan.NotBound = rollout.CompactNotBound(g.NotBound, g.Spec.Clusters)
	require.Equal(t, plan.TaskQueues, requireFits(t, plan).TaskQueues)

	g.Status.Conditions = []metav1.Condition{{Type: ranv1.ConditionSucceeded, Status: metav1.ConditionFalse, Reason: ranv1.ReasonFailed}}
	retried, err := rollout.Retry(g.Status, nil, rollout.RetryRequest{})
	require.NoError(t, err)
	in.Object.Status = rollout.Compact(retried)
	saved := requireFits(t, activities.LoadedRollout{Object: in.Object, TaskQueues: g.TaskQueues, NotBound: plan.NotBound})
	require.Equal(t, retried.RemediationPlan, rollout.Expand(saved.Object.Status).RemediationPlan)
}

func TestTenThousandClustersFitIntoTheFinalResult(t *testing.T) {
	g, in := largest(ranv1.ClusterComplete, ranv1.ClusterFailed, ranv1.ClusterTimedOut, ranv1.ClusterCancelled)
	in.Object.Status = g.Result()
	kept := requireFits(t, activities.SaveRolloutInput{Object: in.Object}).Object.Status
	require.Equal(t, g.Status.RemediationPlan, kept.RemediationPlan)
	require.Greater(t, len(kept.Clusters), 50)
}

// A rollout that cannot go on may have as many clusters as one that is over.
func TestARolloutThatEndsBeforeItsFirstBatchSaysSoShortly(t *testing.T) {
	var clusters []string
	for i := range 600 {
		clusters = append(clusters, fmt.Sprintf("c%d", i))
	}
	w, _ := workflowtest.NewGroupWorld(t, clusters)
	w.Fail["AwaitClusterHealthy"] = workflowtest.Always(unhealthyRegistry("c0"))
	w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, rolloutworkflow.Input{Object: withHealthChecks(workflowtest.ARollout())})
	status := workflowtest.RequireFailure[workflowtest.GroupStatus](w, temporal.ErrHealthGateFailed)
	require.Len(t, status.Clusters, rolloutworkflow.ResultClusters)
	require.EqualValues(t, 600, status.Counts.Total)
}

func TestAPlanWithVeryManyProblemsHasMessagesThatTheAPIAllows(t *testing.T) {
	w, _ := workflowtest.NewGroupWorld(t)
	w.Plan = planWithoutClusters("Unable to select clusters: " + strings.Repeat("cluster edge is not a ManagedCluster; ", 10_000))
	w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, rolloutworkflow.Input{Object: workflowtest.ARollout()})
	status := workflowtest.RequireFailure[workflowtest.GroupStatus](w, ranv1.ReasonFailed)
	require.NotEmpty(t, status.Conditions)
	for _, condition := range status.Conditions {
		require.LessOrEqual(t, len(condition.Message), 32768, condition.Type)
	}
}

func TestAStatusKeepsTheLatestOfVeryManyNotesAndTheBeginningOfEach(t *testing.T) {
	w, _ := workflowtest.NewGroupWorld(t)
	w.RegisterAs("notes", func(ctx workflow.Context) (workflowtest.GroupStatus, error) {
		var status workflowtest.GroupStatus
		record := rolloutworkflow.NewGroupRecord(ctx, &status, "fleet/june", rollout.ManagedPolicies)
		for i := range 1000 {
			record.Note(fmt.Sprintf("note %d: ", i) + strings.Repeat("x", 10_000))
		}
		return status, nil
	})
	w.ExecuteWorkflow("notes", nil)
	notes := workflowtest.RequireResult[workflowtest.GroupStatus](w).Notes
	require.Len(t, notes, rolloutworkflow.NotesKept)
	require.Contains(t, notes[rolloutworkflow.NotesKept-1], "note 999: ")
	require.Len(t, notes[0], rolloutworkflow.NoteLimit)
}
