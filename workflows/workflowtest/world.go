// Package workflowtest simulates the world around workflows for their tests: activities, the slot scheduler, child workflows, time.
package workflowtest

import (
	"context"
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
	"drydock.dev/drydock/workflows/kit"
	"drydock.dev/drydock/workflows/kit/kittest"
	"drydock.dev/drydock/workflows/nodemaintenance"
)

// World simulates what a workflow depends on. It records each activity call, and answers at once unless the test configures
// another result. Time is skipped.
type World struct {
	*testsuite.TestWorkflowEnvironment
	T *testing.T

	Mu    sync.Mutex
	calls []string
	// Locked: the cluster serves workload locks.
	Locked bool
	// Fail returns the error of a call of an activity; nil: the call succeeds.
	Fail map[string]func(call int) error
	// Blocked activities wait until they are cancelled.
	Blocked map[string]bool
	// simulated are the simulated activities that others may call, by name. locate finds the cluster; nil: the simulated activity does.
	simulated map[string]func(any) (any, error)
	locate    func(context.Context) (string, error)
	// Inputs are the inputs of all calls, by activity.
	Inputs map[string][]any
	// Plan and Nodes are the plan of the rollout and of the cluster.
	Plan  rollouts.Plan
	Nodes rollout.NodePlan
	// LoadedRollout is the saved state of a rollout that is retried.
	LoadedRollout rollouts.LoadedRollout
	// Unblocked is the result of the wait for blockers.
	Unblocked rollout.Unblocked
	// DeletedClusters are clusters whose ManagedCluster was deleted.
	DeletedClusters []string
	// OfflineClusters are clusters whose ManagedCluster is not Available.
	OfflineClusters []string
	// availabilityWait is the call of AwaitAvailabilityChange that waits, with the token of its activity.
	availabilityWait struct {
		token []byte
		rollouts.AvailabilityWatch
	}
	// returnWaits are the calls of AwaitClustersBack that wait.
	returnWaits []clusterWait
	// deletionWaits are the calls of AwaitDeletedClusters that wait.
	deletionWaits []clusterWait
	// planWait is the task token of the call of AwaitOtherPlan that waits.
	planWait []byte
	// Scheduler is the simulated scheduler of the cluster.
	Scheduler simulatedScheduler
	// Staleness are the results of AwaitStale, in order.
	Staleness []scheduling.Staleness
	// ReactivatedLocks are the results of AwaitHeldAgain, in order: locks that became active during the maintenance.
	ReactivatedLocks [][]drydockv1.Blocker
	// sentSignals are the payloads of signals to other workflows except the scheduler, by signal.
	sentSignals map[string][]any
	// Jobs are the errors of the Jobs that prepare clusters, by kind and cluster.
	Jobs map[string]error
	// Holds is the state that subscribers of the emergency stop receive. With HoldsUnknown they receive none.
	Holds        emergency.State
	HoldsUnknown bool
	// Windows are the states that subscribers of windows receive. A window without a state does not answer.
	Windows map[string]windows.Snapshot
	// SelectedClusters are the clusters that match every selector.
	SelectedClusters []string
	// LoadedHolds is the saved state of the emergency stop. Subscribers are those that it finds.
	LoadedHolds emergency.State
	Subscribers []temporal.Subscription
	// Counters are the metrics that workflows counted, by name and tags.
	Counters *counters
	// Log is what workflows logged.
	Log *Log
}

// NewWorld returns a world with one slot, without holds and without locks.
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
		simulated: map[string]func(any) (any, error){},
		Fail:      map[string]func(int) error{}, Blocked: map[string]bool{}, Inputs: map[string][]any{}, Scheduler: simulatedScheduler{Capacity: 1}, sentSignals: map[string][]any{},
		Holds: emergency.State{Number: 1},
	}
	w.SetTestTimeout(time.Minute)
	w.SetWorkerOptions(kittest.WorkerOptions())
	w.register()
	return w
}

// RegisterDelayedCallback calls back after that much workflow time. The test fails if the workflow ends earlier: an assertion
// that never runs proves nothing.
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

// SimulateAfter runs an event after that much workflow time, unless the workflow ends earlier.
func (w *World) SimulateAfter(after time.Duration, event func()) {
	w.TestWorkflowEnvironment.RegisterDelayedCallback(event, after)
}

// ExecuteWorkflow runs the workflow to its end. A node maintenance gets the workflow ID that it requires. Signals to other
// workflows are accepted.
func (w *World) ExecuteWorkflow(run, in any) {
	if m, ok := in.(nodemaintenance.Input); ok {
		w.SetStartWorkflowOptions(client.StartWorkflowOptions{ID: temporal.NodeMaintenanceID(m.Cluster, m.Object.Namespace, m.Object.Name), TaskQueue: temporal.TaskQueue})
	}
	if continued, ok := in.(kit.Continued); ok && continued.Continues() {
		w.SetContinuedExecutionRunID("previous-run")
	}
	w.SimulateSignals()
	w.TestWorkflowEnvironment.ExecuteWorkflow(run, in)
}

// RegisterAs registers a workflow that simulates a child.
func (w *World) RegisterAs(name string, child any) {
	w.RegisterWorkflowWithOptions(child, workflow.RegisterOptions{Name: name})
}
