package rollout_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"

	"drydock.dev/drydock/activities/jobs"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/rollout"
	"drydock.dev/drydock/workflows/workflowtest"
)

// agentJobs are Jobs that agents run. Every minute some of them are complete.
type agentJobs struct {
	mu      sync.Mutex
	asked   []jobs.ClusterJob
	running []activity.Info
	most    int
	// leaves: the next cluster goes offline before its Job exists.
	leaves atomic.Bool
	// slow: no Job is complete.
	slow atomic.Bool
}

// worldOfAgents is a world whose clusters have no credentials.
func worldOfAgents(t *testing.T, clusters []string) (*workflowtest.World, *agentJobs) {
	w, _ := workflowtest.NewPreparedWorld(t, nil, slices.Collect(slices.Chunk(clusters, rollout.ClustersPerPreparation))...)
	a := &agentJobs{}
	w.OnActivity("RunClusterJob", mock.Anything, mock.Anything).Return(func(ctx context.Context, job jobs.ClusterJob) error {
		w.Mu.Lock()
		if a.leaves.Swap(false) {
			w.OfflineClusters = append(w.OfflineClusters, job.Cluster)
		}
		offline := slices.Contains(w.OfflineClusters, job.Cluster)
		w.Mu.Unlock()
		a.mu.Lock()
		defer a.mu.Unlock()
		a.asked = append(a.asked, job)
		if offline {
			return temporal.Error(temporal.ErrAgentOffline, "its ManagedCluster is not Available", nil)
		}
		a.running = append(a.running, activity.GetInfo(ctx))
		a.most = max(a.most, len(a.running))
		return activity.ErrResultPending
	})
	for minute := range 90 {
		w.SimulateAfter(time.Duration(minute)*time.Minute, func() { a.complete(w) })
	}
	return w, a
}

// complete completes as many Jobs as the test environment can at once.
func (a *agentJobs) complete(w *workflowtest.World) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.slow.Load() {
		return
	}
	number := min(100, len(a.running))
	children := map[string]bool{}
	for _, job := range a.running[:number] {
		_ = w.CompleteActivity(job.TaskToken, nil, nil)
		children[job.WorkflowExecution.ID] = true
	}
	for child := range children { // completed activities do not wake it
		_ = w.SignalWorkflowByID(child, temporal.SignalObserved, temporal.Observation{})
	}
	a.running = a.running[number:]
}

func manyClusters(number int) []string {
	var many []string
	for i := range number {
		many = append(many, fmt.Sprintf("c%04d", i))
	}
	return many
}

// Each part has an offline cluster. Its others are prepared, and the next part starts. The offline clusters take no activity slots, but for one watch.
func TestOfflineClustersDoNotBlockThePreparationOfOthers(t *testing.T) {
	many := manyClusters(rollout.MaxPreparations*rollout.ClustersPerPreparation + 1)
	w, agents := worldOfAgents(t, many)
	var offline []string
	for _, name := range many[:len(many)-1] {
		if strings.HasSuffix(name, "00") {
			offline = append(offline, name)
			w.GoOffline(name)
		}
	}
	w.RegisterDelayedCallback(func() {
		status := workflowtest.StatusOf[workflowtest.GroupStatus](w)
		require.Equal(t, ranv1.PreparationSucceeded, status.Precaching.Status[many[len(many)-1]], "it was in none of the first parts")
		require.Equal(t, ranv1.PreparationNotStarted, status.Precaching.Status[many[0]])
		require.Equal(t, []drydockv1.Blocker{{Kind: "ManagedCluster", Name: many[0], Reason: temporal.ErrAgentOffline, Message: "its ManagedCluster is not Available"}}, status.Wait.Blockers[:1])
		watches := w.InputsOf("AwaitClustersBack")
		require.Equal(t, offline, watches[len(watches)-1], "one activity watches all of them")
		require.Empty(t, agents.running)
		for _, name := range offline {
			w.ComeBack(name)
		}
	}, 30*time.Minute)
	object := workflowtest.ARollout()
	object.Spec.PreCaching, object.Spec.RemediationStrategy.OfflineAction = true, ranv1.OfflineFail
	w.ExecuteWorkflow(rollout.ClusterGroupUpgrade, rollout.Input{Object: object})
	status := workflowtest.RequireResult[workflowtest.GroupStatus](w)
	require.EqualValues(t, len(many), status.Counts.Complete)
}

// The hub loses its agents, and gets them back. No more clusters than otherwise are prepared at once, so that other activities find slots.
func TestTheLimitHoldsWhenAllClustersComeBack(t *testing.T) {
	const limit = rollout.MaxPreparations * rollout.ClustersPerPreparation
	many := manyClusters(limit + 101)
	w, agents := worldOfAgents(t, many)
	for _, name := range many {
		w.GoOffline(name)
	}
	w.RegisterDelayedCallback(func() {
		require.Len(t, agents.asked, len(many), "the parts with offline clusters give way to the next ones")
		require.Empty(t, agents.running)
		w.Mu.Lock()
		w.OfflineClusters = many[:1]
		w.Mu.Unlock()
		w.ComeBack(many[0])
	}, 30*time.Minute)
	object := workflowtest.ARollout()
	object.Spec.PreCaching, object.Spec.RemediationStrategy.OfflineAction = true, ranv1.OfflineFail
	w.ExecuteWorkflow(rollout.ClusterGroupUpgrade, rollout.Input{Object: object})
	status := workflowtest.RequireResult[workflowtest.GroupStatus](w)
	require.EqualValues(t, len(many), status.Counts.Complete)
	require.LessOrEqual(t, agents.most, limit)
}

// Its Job has its full time when it is back, but Drydock waits no longer than that for it.
func TestAnAgentThatStaysOfflineTimesOut(t *testing.T) {
	w, agents := worldOfAgents(t, []string{"c1", "c2", "c3"})
	for _, name := range []string{"c1", "c2"} {
		w.GoOffline(name)
	}
	w.RegisterDelayedCallback(func() { w.ComeBack("c1") }, 50*time.Minute)
	object := workflowtest.ARollout() // of an hour
	object.Spec.PreCaching, object.Spec.Enable = true, new(bool)
	w.RegisterDelayedCallback(func() {
		status := workflowtest.StatusOf[workflowtest.GroupStatus](w)
		require.Equal(t, map[string]ranv1.PreparationState{"c1": ranv1.PreparationSucceeded, "c2": ranv1.PrecacheTimeout, "c3": ranv1.PreparationSucceeded}, status.Precaching.Status)
		require.Equal(t, "precaching: its agent was offline for 1h0m0s: its ManagedCluster is not Available", workflowtest.StatusOfCluster(status, "c2").Message)
		w.SignalWorkflow(temporal.SignalCancel, nil)
	}, 2*time.Hour)
	w.ExecuteWorkflow(rollout.ClusterGroupUpgrade, rollout.Input{Object: object})
	asked := agents.asked
	require.Equal(t, "c1", asked[len(asked)-1].Cluster)
	require.True(t, asked[len(asked)-1].Deadline.After(asked[0].Deadline.Add(45*time.Minute)))
}

// Its ClusterPreparation still works on another cluster when the wait for the agent is over.
func TestAnAgentThatStaysOfflineTimesOutBeforeTheOthersEnd(t *testing.T) {
	w, agents := worldOfAgents(t, []string{"c1", "c2"})
	agents.slow.Store(true)
	w.GoOffline("c1")
	w.SimulateAfter(61*time.Minute, func() { agents.slow.Store(false) })
	w.RegisterDelayedCallback(func() {
		status := workflowtest.StatusOf[workflowtest.GroupStatus](w)
		require.Equal(t, map[string]ranv1.PreparationState{"c1": ranv1.PrecacheTimeout, "c2": ranv1.PreparationSucceeded}, status.Precaching.Status)
		w.SignalWorkflow(temporal.SignalCancel, nil)
	}, 70*time.Minute)
	object := workflowtest.ARollout()
	object.Spec.PreCaching, object.Spec.Enable = true, new(bool)
	w.ExecuteWorkflow(rollout.ClusterGroupUpgrade, rollout.Input{Object: object})
}

func TestALatePreparationWaitsForAnAgentThatIsOfflineAgain(t *testing.T) {
	w, agents := worldOfAgents(t, []string{"c1"})
	w.GoOffline("c1")
	w.RegisterDelayedCallback(func() {
		agents.leaves.Store(true)
		w.ComeBack("c1")
	}, 10*time.Minute)
	w.RegisterDelayedCallback(func() {
		waiting := workflowtest.StatusOfCluster(workflowtest.StatusOf[workflowtest.GroupStatus](w), "c1")
		require.Equal(t, "running: Precaching: its ManagedCluster is not Available", string(waiting.State)+": "+waiting.Reason+": "+waiting.Message)
		w.ComeBack("c1")
	}, 20*time.Minute)
	object := workflowtest.ARollout()
	object.Spec.PreCaching = true
	w.ExecuteWorkflow(rollout.ClusterGroupUpgrade, rollout.Input{Object: object})
	status := workflowtest.RequireResult[workflowtest.GroupStatus](w)
	require.EqualValues(t, 1, status.Counts.Complete)
}
