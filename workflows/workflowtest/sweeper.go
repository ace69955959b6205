package workflowtest

import (
	"testing"

	sdktemporal "go.temporal.io/sdk/temporal"

	"drydock.dev/drydock/activities/jobs"
	sweeperactivities "drydock.dev/drydock/activities/sweeper"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/sweeper"
)

// SweptWorld is a world with marks: each look finds the next of what there is, and after the last nothing is found any more.
type SweptWorld struct {
	*World
	found []sweeperactivities.Orphans
	// Marked is what a glance at the cluster finds.
	Marked bool
}

func NewSweptWorld(t *testing.T, found ...sweeperactivities.Orphans) *SweptWorld {
	w := &SweptWorld{World: NewWorld(t), found: found}
	w.Blocked["AwaitOrphans"] = len(found) == 0
	Play(w.World, "AwaitOrphans", func(sweeperactivities.AwaitOrphansInput) any {
		w.Mu.Lock()
		defer w.Mu.Unlock()
		next := w.found[0]
		w.found = w.found[1:]
		w.Blocked["AwaitOrphans"] = len(w.found) == 0
		return next
	})
	Play(w.World, "AnyMarks", func(string) any { return w.Marked })
	Play(w.World, "RemoveOrphanedJob", func(jobs.OrphanedJob) any { return nil })
	return w
}

// Looks returns what the looks were asked, so far.
func (w *SweptWorld) Looks() []sweeperactivities.AwaitOrphansInput {
	w.Mu.Lock()
	defer w.Mu.Unlock()
	var looks []sweeperactivities.AwaitOrphansInput
	for _, in := range w.Inputs["AwaitOrphans"] {
		looks = append(looks, in.(sweeperactivities.AwaitOrphansInput))
	}
	return looks
}

// RunUntil runs the sweeper until so many looks have begun and the condition holds, then checks the status and cancels it.
func (w *SweptWorld) RunUntil(looks int, condition func(sweeper.Status) bool, check func(sweeper.Status)) {
	w.T.Helper()
	w.When(func() bool { return len(w.Looks()) >= looks && condition(StatusOf[sweeper.Status](w.World)) }, func() {
		check(StatusOf[sweeper.Status](w.World))
		w.SignalWorkflow(temporal.SignalCancel, nil)
	})
	w.ExecuteWorkflow(sweeper.Sweeper, sweeper.Input{Cluster: "c1"})
	RequireCancelled[sweeper.Status](w.World)
}

func Whenever(sweeper.Status) bool { return true }

const (
	NodeOwner    = "node/c1/ops/n1/first-run"
	ClusterOwner = "cgu/ops/june/c1/first-run"
)

// LeftByAMaintenance is all that a maintenance can leave behind.
func LeftByAMaintenance() []sweeperactivities.Orphan {
	return []sweeperactivities.Orphan{
		Orphan(sweeperactivities.Mark{Kind: sweeperactivities.MarkJob, Namespace: "ops", Name: "n1-1234", Owner: NodeOwner}),
		Orphan(sweeperactivities.Mark{Kind: sweeperactivities.MarkNode, Name: "n1", Node: "n1", Owner: NodeOwner}),
		Orphan(sweeperactivities.Mark{Kind: sweeperactivities.MarkNodeRequest, Name: "drydock-n1-1234", Node: "n1", Owner: NodeOwner}),
	}
}

func Orphan(mark sweeperactivities.Mark) sweeperactivities.Orphan {
	return sweeperactivities.Orphan{Mark: mark, Ended: "Terminated at 2026-11-20T12:00:00Z by ann"}
}

// Glances counts the glances that have begun.
func (w *SweptWorld) Glances() int { return len(w.InputsOf("AnyMarks")) }

// Terminated is the error by which a parent learns that its child was terminated.
func Terminated() error { return &sdktemporal.TerminatedError{} }
