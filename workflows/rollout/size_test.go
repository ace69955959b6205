package rollout

import (
	"math/rand"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/drydock/activities/rollouts"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/rollout"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/internal/windows"
	"drydock.dev/drydock/workflows/gates"
)

// refusedFrom is the size in bytes from which the server refuses a payload.
const refusedFrom = 2 << 20

// largest returns the state of the largest supported rollout: 10,000 clusters, listed by name, each with its own worker, precaching, backup and policies. The
// names have the maximum length, and names and messages are random, so that they do not compress.
func largest(states ...ranv1.ClusterState) (*groupUpgrade, Input) {
	const clusters, batchSize = 10_000, 500
	random := rand.New(rand.NewSource(1))
	text := func(length int) string {
		letters := make([]byte, length)
		for i := range letters {
			letters[i] = "abcdefghijklmnopqrstuvwxyz0123456789"[random.Intn(36)]
		}
		return string(letters)
	}
	g := &groupUpgrade{record: &groupRecord{}, remediator: nodeRemediator{}, taskQueues: map[string]string{}, notBound: map[string][]int{}, phase: PhaseBatches}
	g.status.Precaching = &ranv1.PrecachingStatus{Status: map[string]ranv1.PreparationState{}}
	g.status.Backup = &ranv1.BackupStatus{Status: map[string]ranv1.PreparationState{}}
	at := time.Date(2026, 11, 21, 6, 0, 0, 0, time.UTC)
	for i := range clusters {
		began, ended := metav1.NewTime(at.Add(time.Duration(i)*time.Second)), metav1.NewTime(at.Add(time.Duration(2*i)*time.Second))
		c := ranv1.ClusterStatus{
			Name: text(63), Batch: int32(i/batchSize + 1), State: states[random.Intn(len(states))], Reason: "DrainTimedOut", Message: text(1000),
			StartedAt: &began, Since: &ended, CompletedAt: &ended, CurrentPolicy: &ranv1.PolicyStatus{Name: "kernel", Status: "NonCompliant"},
			Nodes: ranv1.NodeCounts{Total: 12, Done: 5, Failed: 1, Evicted: int32(random.Intn(300))},
		}
		if i%(clusters/16) == 0 { // together they have the maximum
			condition := metav1.Condition{Type: "Applied", Status: metav1.ConditionFalse, Reason: "Failed", Message: text(3800), LastTransitionTime: ended}
			c.CurrentManifestWork = &ranv1.ManifestWorkStatus{Name: "os", Status: &ranv1.ManifestResourceStatus{
				Manifests: []ranv1.ManifestCondition{{Conditions: []metav1.Condition{condition}}},
			}}
		}
		if i%batchSize == 0 {
			g.status.RemediationPlan = append(g.status.RemediationPlan, nil)
		}
		g.status.RemediationPlan[c.Batch-1] = append(g.status.RemediationPlan[c.Batch-1], c.Name)
		g.status.Clusters = append(g.status.Clusters, c)
		g.taskQueues[c.Name] = temporal.ClusterTaskQueue(c.Name)
		g.status.Precaching.Status[c.Name] = []ranv1.PreparationState{ranv1.PreparationSucceeded, ranv1.PrecacheTimeout}[random.Intn(2)]
		g.status.Backup.Status[c.Name] = []ranv1.PreparationState{ranv1.PreparationSucceeded, ranv1.BackupTimeout}[random.Intn(2)]
		g.notBound[c.Name] = random.Perm(10)[:1+random.Intn(9)]
		g.spec.Clusters = append(g.spec.Clusters, c.Name)
	}
	in := Input{Object: ranv1.ClusterGroupUpgrade{ObjectMeta: metav1.ObjectMeta{Namespace: "fleet", Name: "june"}, Spec: g.spec}}
	return g, in
}

// requireFits requires that the server accepts a value, and returns it decoded.
func requireFits[Value any](t *testing.T, value Value) (arrived Value) {
	t.Helper()
	payloads, err := temporal.DataConverter().ToPayloads(value)
	require.NoError(t, err)
	t.Logf("%T: %d bytes", value, payloads.Size())
	require.Less(t, payloads.Size(), refusedFrom)
	require.NoError(t, temporal.DataConverter().FromPayloads(payloads, &arrived))
	return arrived
}

func TestTenThousandClustersFitIntoTheInputOfTheNextRun(t *testing.T) {
	g, in := largest(ranv1.ClusterFailed, ranv1.ClusterTimedOut, ranv1.ClusterPending) // complete clusters need less
	in.PreviousRun = g.stateForNextRun(time.Now())
	in.PreviousRun.Windows = largestWindows(len(g.spec.Clusters))
	carried := requireFits(t, in).PreviousRun
	require.Equal(t, g.taskQueues, carried.TaskQueues)
	require.Equal(t, g.notBound, rollout.ExpandNotBound(carried.NotBound, rollout.NamesOf(carried.Status.Clusters)))
	require.Equal(t, in.PreviousRun.Windows, carried.Windows)
	status := rollout.Expand(carried.Status)
	require.Equal(t, g.status.RemediationPlan, status.RemediationPlan)
	require.Equal(t, g.status.Precaching, status.Precaching)
	require.Equal(t, g.status.Backup, status.Backup)
	for i, c := range status.Clusters {
		before := g.status.Clusters[i]
		require.Equal(t, before.State, c.State)
		require.Contains(t, before.Message, c.Message[:10], "messages are cut at the end")
	}
}

func TestShortMessagesAreNotCutForTheNextRun(t *testing.T) {
	g, _ := largest(ranv1.ClusterFailed)
	g.status.Clusters = g.status.Clusters[:500]
	require.Equal(t, g.status.Clusters, g.stateForNextRun(time.Now()).Status.Clusters)
}

func TestTenThousandClustersFitIntoAPlanAndIntoASavedRollout(t *testing.T) {
	g, in := largest(ranv1.ClusterFailed)
	plan := rollouts.Plan{TaskQueues: g.taskQueues, Plan: rollout.Plan{RemediationPlan: g.status.RemediationPlan, StartPolicyIndex: map[string]int{}}}
	for i, name := range g.spec.Clusters {
		plan.StartPolicyIndex[name] = i % 3
	}
	plan.NotBound = rollout.CompactNotBound(g.notBound, g.spec.Clusters)
	require.Equal(t, plan.TaskQueues, requireFits(t, plan).TaskQueues)

	g.status.Conditions = []metav1.Condition{{Type: ranv1.ConditionSucceeded, Status: metav1.ConditionFalse, Reason: ranv1.ReasonFailed}}
	retried, err := rollout.Retry(g.status, nil, rollout.RetryRequest{})
	require.NoError(t, err)
	in.Object.Status = rollout.Compact(retried)
	saved := requireFits(t, rollouts.LoadedRollout{Object: in.Object, TaskQueues: g.taskQueues, NotBound: plan.NotBound})
	require.Equal(t, retried.RemediationPlan, rollout.Expand(saved.Object.Status).RemediationPlan)
}

func TestTenThousandClustersFitIntoTheFinalResult(t *testing.T) {
	g, in := largest(ranv1.ClusterComplete, ranv1.ClusterFailed, ranv1.ClusterTimedOut, ranv1.ClusterCancelled)
	in.Object.Status = g.result()
	kept := requireFits(t, rollouts.SaveRolloutInput{Object: in.Object}).Object.Status
	require.Equal(t, g.status.RemediationPlan, kept.RemediationPlan)
	require.Greater(t, len(kept.Clusters), 50)
}

// largestWindows returns 16 windows, each of which selects some of the clusters.
func largestWindows(clusters int) gates.CarriedWindows {
	random := rand.New(rand.NewSource(2))
	var carried gates.CarriedWindows
	for range 16 {
		carried.Snapshots = append(carried.Snapshots, windows.Snapshot{Window: strings.Repeat("w", 63)})
	}
	for range clusters {
		carried.Selected = append(carried.Selected, random.Perm(16)[:random.Intn(17)])
	}
	return carried
}
