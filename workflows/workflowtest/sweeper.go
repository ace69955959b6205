package workflowtest

import (
	"testing"

	sdktemporal "go.temporal.io/sdk/temporal"

	"drydock.dev/drydock/activities/jobs"
	sweeperactivities "drydock.dev/drydock/activities/sweeper"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/sweeper"
)

// SweeperWorld simulates a cluster with marks: each scan returns the next of a list of results. After the last, scans wait.
type SweeperWorld struct {
	*World
	found []sweeperactivities.Orphans
	// Marked: a check finds marks in the cluster.
	Marked bool
	// Cluster to sweep; empty: the hub.
	Cluster string
}

// NewSweeperWorld returns a world whose scans return the given results, one after the other.
func NewSweeperWorld(t *testing.T, found ...sweeperactivities.Orphans) *SweeperWorld {
	w := &SweeperWorld{World: NewWorld(t), found: found, Cluster: "c1"}
	w.Blocked["AwaitOrphans"] = len(found) == 0
	Simulate(w.World, "AwaitOrphans", func(sweeperactivities.AwaitOrphansInput) any {
		w.Mu.Lock()
		defer w.Mu.Unlock()
		next := w.found[0]
		w.found = w.found[1:]
		w.Blocked["AwaitOrphans"] = len(w.found) == 0
		return next
	})
	Simulate(w.World, "AnyMarks", func(string) any { return w.Marked })
	Simulate(w.World, "RemoveOrphanedJob", func(jobs.OrphanedJob) any { return nil })
	Simulate(w.World, "RemoveOrphanedObject", func(sweeperactivities.OrphanedObject) any { return nil })
	return w
}

// Scans returns the inputs of the scans so far.
func (w *SweeperWorld) Scans() []sweeperactivities.AwaitOrphansInput {
	w.Mu.Lock()
	defer w.Mu.Unlock()
	var scans []sweeperactivities.AwaitOrphansInput
	for _, in := range w.Inputs["AwaitOrphans"] {
		scans = append(scans, in.(sweeperactivities.AwaitOrphansInput))
	}
	return scans
}

// RunUntil runs the sweeper until that many scans have started and the condition holds, then checks the status and cancels the sweeper.
func (w *SweeperWorld) RunUntil(scans int, condition func(sweeper.Status) bool, check func(sweeper.Status)) {
	w.T.Helper()
	w.When(func() bool { return len(w.Scans()) >= scans && condition(StatusOf[sweeper.Status](w.World)) }, func() {
		check(StatusOf[sweeper.Status](w.World))
		w.SignalWorkflow(temporal.SignalCancel, nil)
	})
	w.ExecuteWorkflow(sweeper.Sweeper, sweeper.Input{Cluster: w.Cluster, Hub: w.Cluster == ""})
	RequireCancelled[sweeper.Status](w.World)
}

// Whenever holds for every status.
func Whenever(sweeper.Status) bool { return true }

const (
	// NodeOwner is the owner of the marks of a node maintenance.
	NodeOwner = "node/c1/ops/n1/first-run"
	// ClusterOwner is the owner of the marks of a cluster of a rollout.
	ClusterOwner = "cgu/ops/june/c1/first-run"
)

// OrphansOfAMaintenance are all kinds of objects that a terminated maintenance can leave behind.
func OrphansOfAMaintenance() []sweeperactivities.Orphan {
	return []sweeperactivities.Orphan{
		Orphan(sweeperactivities.Mark{Kind: sweeperactivities.MarkJob, Namespace: "ops", Name: "n1-1234", Owner: NodeOwner}),
		Orphan(sweeperactivities.Mark{Kind: sweeperactivities.MarkNode, Name: "n1", Node: "n1", Owner: NodeOwner}),
		Orphan(sweeperactivities.Mark{Kind: sweeperactivities.MarkNodeRequest, Name: "drydock-n1-1234", Node: "n1", Owner: NodeOwner}),
	}
}

// Orphan returns a mark whose workflow was terminated.
func Orphan(mark sweeperactivities.Mark) sweeperactivities.Orphan {
	return sweeperactivities.Orphan{Mark: mark, Ended: "Terminated at 2026-11-20T12:00:00Z by ann"}
}

// MarkChecks counts the checks for marks that have started.
func (w *SweeperWorld) MarkChecks() int { return len(w.InputsOf("AnyMarks")) }

// Terminated returns the error of a child that was terminated.
func Terminated() error { return &sdktemporal.TerminatedError{} }
