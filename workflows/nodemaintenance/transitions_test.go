package nodemaintenance

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
)

// next returns the transitions from a state, in a fixed order.
func next(state maintenancev1.NodeState) []transition {
	var names []transition
	for name, change := range transitions() {
		if slices.Contains(change.from, state) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// isEnding reports whether a transition ends the maintenance.
func isEnding(t transition) bool {
	return slices.Contains([]transition{complete, endFailed, endCancelled, endNodeGone, endRequeued}, t)
}

// reachable returns the states that can be reached from a state without the excluded transitions.
func reachable(from maintenancev1.NodeState, excluded ...transition) []maintenancev1.NodeState {
	states := []maintenancev1.NodeState{from}
	for i := 0; i < len(states); i++ {
		for _, t := range next(states[i]) {
			if to := transitions()[t].to; !slices.Contains(excluded, t) && !slices.Contains(states, to) {
				states = append(states, to)
			}
		}
	}
	return states
}

func TestEveryStateOfAMaintenanceIsReachable(t *testing.T) {
	require.ElementsMatch(t, append(maintenancev1.NodeStates(), stateNone), reachable(stateNone))
}

func TestEveryPathOfAMaintenanceCleansUpBeforeItEnds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		state, cleaned := stateNone, false
		for range 100 {
			taken := rapid.SampledFrom(next(state)).Draw(t, "transition")
			require.Equal(t, cleaned, isEnding(taken), "%s from %s: a maintenance ends after its cleanup", taken, state)
			state = after(state, taken)
			if isEnding(taken) {
				return
			}
			cleaned = state == maintenancev1.NodeCleaningUp
		}
	})
}

func TestNoStateOfAMaintenanceEndsWithoutCleanup(t *testing.T) {
	for _, state := range maintenancev1.NodeStates() {
		if state.Over() {
			require.Empty(t, next(state), "%s is final", state)
			continue
		}
		require.Contains(t, reachable(state), maintenancev1.NodeCompleted, "%s can end", state)
		if state != maintenancev1.NodeCleaningUp {
			require.Contains(t, next(state), cleanUp, "%s can be cancelled", state)
			require.False(t, slices.ContainsFunc(reachable(state, cleanUp), maintenancev1.NodeState.Over), "%s ends only through cleanup", state)
		}
	}
}

func TestNoMaintenanceDrainsANodeThatIsNotCordoned(t *testing.T) {
	for _, state := range []maintenancev1.NodeState{maintenancev1.NodeWaitForPodCompletion, maintenancev1.NodeDraining, maintenancev1.NodeReady} {
		require.NotContains(t, reachable(stateNone, cordonNode), state)
	}
}

func TestATransitionOutsideTheTableIsRefused(t *testing.T) {
	require.PanicsWithValue(t, `node maintenance: no transition drain from state "Pending"`, func() { after(maintenancev1.NodePending, drainNode) })
	require.Equal(t, maintenancev1.NodePending, after(maintenancev1.NodePending, requeue), "the maintenance is in that state already")
}

func TestEveryResultOfAMaintenanceHasATransition(t *testing.T) {
	for _, state := range append(maintenancev1.NodeStates(), maintenancev1.NodePending) {
		if state.Over() || state == maintenancev1.NodePending {
			require.Equal(t, state, after(maintenancev1.NodeCleaningUp, ending(state)))
		}
	}
}
