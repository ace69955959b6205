// Package workflowtest simulates the world around workflows for their tests: activities, the slot scheduler, child workflows, time.
package workflowtest

import (
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/activities/rollouts"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	"drydock.dev/drydock/internal/emergency"
	"drydock.dev/drydock/internal/rollout"
	"drydock.dev/drydock/internal/scheduling"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/internal/windows"
	"drydock.dev/drydock/workflows/kit/kittest"
	"drydock.dev/drydock/workflows/nodemaintenance"
)

// World plays the activities of a workflow test: each call is recorded, and answered at once unless the test says otherwise. Time is
// skipped.
type World struct {
	*testsuite.TestWorkflowEnvironment
	T *testing.T

	Mu    sync.Mutex
	calls []string
	// Locked: the cluster serves workload locks.
	Locked bool
	// Fail answers a call of an activity with an error as long as the function returns one.
	Fail map[string]func(call int) error
	// Blocked activities wait until they are cancelled.
	Blocked map[string]bool
	Inputs  map[string][]any
	// Plan and nodes are what the hub and the cluster answer.
	Plan  rollouts.Plan
	Nodes rollout.NodePlan
	// LoadedRollout is what the hub has saved of a rollout that is retried.
	LoadedRollout rollouts.LoadedRollout
	// Vanished are the clusters that the hub no longer has.
	Vanished []string
	// vanishedWaits are the activities that wait for some to vanish.
	vanishedWaits []vanishedWait
	// Scheduler is the simulated scheduler of the cluster.
	Scheduler simulatedScheduler
	// Staleness is how stale the current maintenance is, one answer after the other.
	Staleness []scheduling.Staleness
	// ReactivatedLocks are locks that hold a node again while it is out of service, one after the other.
	ReactivatedLocks [][]drydockv1.Blocker
	// sentSignals is what workflows told others, but for the scheduler, by the signal's name.
	sentSignals map[string][]any
	// Jobs are the errors of the Jobs that prepare clusters, by kind and cluster.
	Jobs map[string]error
	// Holds is what the emergency stop answers to those that follow it. untold: it does not answer.
	Holds        emergency.State
	HoldsUnknown bool
	// Windows are what maintenance windows answer to those that follow them; one that is not among them does not answer.
	Windows map[string]windows.Snapshot
	// SelectedClusters are the clusters that selectors pick.
	SelectedClusters []string
	// LoadedHolds is what the hub has saved of the state of the emergency stop; followers are the subscribers that are found.
	LoadedHolds emergency.State
	Subscribers []temporal.Subscription
	// Counters are what workflows counted, by name and tags.
	Counters *counters
	// Log is what workflows logged.
	Log *Log
}

func NewWorld(t *testing.T) *World {
	t.Helper()
	suite, counted := &testsuite.WorkflowTestSuite{}, newCounters()
	suite.SetMetricsHandler(counted)
	logged := &Log{}
	suite.SetLogger(logged)
	w := &World{
		Counters:                counted,
		Log:                     logged,
		TestWorkflowEnvironment: suite.NewTestWorkflowEnvironment(), T: t,
		Fail: map[string]func(int) error{}, Blocked: map[string]bool{}, Inputs: map[string][]any{}, Scheduler: simulatedScheduler{Capacity: 1}, sentSignals: map[string][]any{},
		Holds: emergency.State{Number: 1},
	}
	w.SetTestTimeout(time.Minute)
	w.SetWorkerOptions(kittest.WorkerOptions())
	w.register()
	return w
}

// RegisterDelayedCallback calls back after that much workflow time. A workflow that ends before that fails the test: assertions that never run prove nothing.
func (w *World) RegisterDelayedCallback(callback func(), after time.Duration) {
	_, file, line, _ := runtime.Caller(1)
	fired := false
	w.SimulateAfter(after, func() {
		fired = true
		callback()
	})
	w.T.Cleanup(func() {
		require.True(w.T, fired, "%s:%d: the workflow ended before this callback, which is due after %s", filepath.Base(file), line, after)
	})
}

// SimulateAfter lets something happen around the workflow after that much workflow time. The workflow may end before.
func (w *World) SimulateAfter(after time.Duration, event func()) {
	w.TestWorkflowEnvironment.RegisterDelayedCallback(event, after)
}

// ExecuteWorkflow runs the workflow to its end, a maintenance under the id that it must have. Progress that it reports to a parent is taken in silence.
func (w *World) ExecuteWorkflow(run, in any) {
	if m, ok := in.(nodemaintenance.Input); ok {
		w.SetStartWorkflowOptions(client.StartWorkflowOptions{ID: temporal.NodeMaintenanceID(m.Cluster, m.Object.Namespace, m.Object.Name), TaskQueue: temporal.TaskQueue})
	}
	w.SimulateSignals()
	w.TestWorkflowEnvironment.ExecuteWorkflow(run, in)
}

// RegisterAs registers a workflow that plays a child.
func (w *World) RegisterAs(name string, child any) {
	w.RegisterWorkflowWithOptions(child, workflow.RegisterOptions{Name: name})
}
