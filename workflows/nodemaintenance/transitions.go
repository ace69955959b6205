package nodemaintenance

import (
	"fmt"
	"slices"

	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
)

// transition is a named change of the state of a maintenance.
type transition string

const (
	begin           transition = "begin"           // the request is read
	grant           transition = "grant"           // the maintenance has a slot: workload locks are requested
	cordonNode      transition = "cordon"          // the locks of the node are inactive
	requeue         transition = "requeue"         // another maintenance goes first, or the window closed
	awaitCompletion transition = "awaitCompletion" // selected pods finish by themselves
	drainNode       transition = "drain"
	becomeReady     transition = "ready"   // requestors or a Job work on the node
	fail            transition = "fail"    // the work of a requestor failed
	recoverWork     transition = "recover" // the work continues after a failure
	checkNode       transition = "check"   // no requestor needs the node
	cleanUp         transition = "cleanUp" // after success, failure and cancellation
	complete        transition = "complete"
	endFailed       transition = "endFailed"
	endCancelled    transition = "endCancelled"
	endNodeGone     transition = "endNodeGone"
	endRequeued     transition = "endRequeued" // the rollout requests another slot, and starts another maintenance
)

// stateNone is the state before the first transition.
const stateNone maintenancev1.NodeState = ""

// change has the states before a transition and the state after it.
type change struct {
	from []maintenancev1.NodeState
	to   maintenancev1.NodeState
}

// transitions returns all changes of the state of a maintenance. Every path to a final state goes through CleaningUp, which undoes the effects on the node.
func transitions() map[transition]change {
	const (
		pending, scheduled, cordoned = maintenancev1.NodePending, maintenancev1.NodeScheduled, maintenancev1.NodeCordon
		waiting, draining            = maintenancev1.NodeWaitForPodCompletion, maintenancev1.NodeDraining
		ready, failed, checks        = maintenancev1.NodeReady, maintenancev1.NodeRequestorFailed, maintenancev1.NodeHealthChecks
		cleaning                     = maintenancev1.NodeCleaningUp
	)
	from := func(states ...maintenancev1.NodeState) []maintenancev1.NodeState { return states }
	return map[transition]change{
		begin:           {from(stateNone), pending},
		grant:           {from(pending, cordoned), scheduled}, // from Cordon if a lock or a hold prevented the cordon
		cordonNode:      {from(scheduled), cordoned},
		requeue:         {from(scheduled, cordoned), pending},
		awaitCompletion: {from(cordoned), waiting},
		drainNode:       {from(cordoned, waiting), draining},
		becomeReady:     {from(cordoned, waiting, draining), ready},
		fail:            {from(ready), failed},
		recoverWork:     {from(failed), ready},
		checkNode:       {from(draining, ready, failed), checks},
		cleanUp:         {from(pending, scheduled, cordoned, waiting, draining, ready, failed, checks), cleaning},
		complete:        {from(cleaning), maintenancev1.NodeCompleted},
		endFailed:       {from(cleaning), maintenancev1.NodeFailed},
		endCancelled:    {from(cleaning), maintenancev1.NodeCancelled},
		endNodeGone:     {from(cleaning), maintenancev1.NodeGone},
		endRequeued:     {from(cleaning), pending},
	}
}

// after returns the state after a transition. A transition outside the table is a bug in this package: the workflow stops until a fixed worker runs, and
// then resumes.
func after(state maintenancev1.NodeState, t transition) maintenancev1.NodeState {
	change := transitions()[t]
	if state != change.to && !slices.Contains(change.from, state) {
		panic(fmt.Sprintf("node maintenance: no transition %s from state %q", t, state))
	}
	return change.to
}

// ending returns the transition that ends a maintenance in that state.
func ending(state maintenancev1.NodeState) transition {
	return map[maintenancev1.NodeState]transition{
		maintenancev1.NodeCompleted: complete, maintenancev1.NodeFailed: endFailed, maintenancev1.NodeCancelled: endCancelled,
		maintenancev1.NodeGone: endNodeGone, maintenancev1.NodePending: endRequeued,
	}[state]
}
