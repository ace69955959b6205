package sweeper

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"

	"drydock.dev/drydock/activities/activitytest"
	"drydock.dev/drydock/internal/temporal"
)

// blindSearch is an attempt of AwaitOrphans in a worker without access to Temporal.
func blindSearch(t *testing.T, in AwaitOrphansInput) *search {
	t.Helper()
	search := newSearch(t, nil, in)
	search.server, search.owners = nil, newOwners(t.Context(), nil, nil, in.Answers)
	return search
}

func TestAWorkerWithoutAccessToTemporalAsksForTheStatesOfOwners(t *testing.T) {
	ref := activitytest.TestNode(t)
	activitytest.Cordon(t, ref)
	found := blindSearch(t, AwaitOrphansInput{}).now(t)
	require.Contains(t, found.LookUp, ref.Owner)
	require.Empty(t, found.Orphans)

	answered := func(state temporal.ChainState, at time.Time) Orphans {
		return blindSearch(t, AwaitOrphansInput{Answers: []OwnerAnswer{{Owner: ref.Owner, State: state, Ended: "Terminated", At: at}}}).now(t)
	}
	found = answered(temporal.ChainOpen, time.Now())
	require.NotContains(t, found.LookUp, ref.Owner)
	require.Empty(t, found.Orphans)
	require.Contains(t, answered(temporal.ChainOpen, time.Now().Add(-askOpenAfter)).LookUp, ref.Owner, "the answer is too old")
	found = answered(temporal.ChainClosed, time.Now())
	require.Len(t, found.Orphans, 1)
	require.Equal(t, ref.Owner, found.Orphans[0].Owner)
	require.Equal(t, "Terminated", found.Orphans[0].Ended)
	require.Len(t, answered(temporal.ChainUnknown, time.Now()).Unknown, 1)
}

// A worker inside a cluster may be stolen: it must not learn of the workflows of other clusters.
func TestOnlyWorkflowsOfTheClusterAreLookedUp(t *testing.T) {
	server := activitytest.NewWorkflows()
	own, other := "node/spoke/default/a/run", "node/another/default/a/run"
	upgrade := "cgu/ops/june/spoke/run"
	for _, owner := range []string{own, other, upgrade} {
		server.Set(owner, activitytest.WasTerminated)
	}
	sweeper := &Activities{Temporal: server}
	sweeper.budgets.Store("spoke", rate.NewLimiter(0, 10))
	answers, err := sweeper.LookUpOwners(t.Context(), LookUpOwnersInput{Cluster: "spoke", Owners: []string{own, other, upgrade, "forged"}})
	require.NoError(t, err)
	states := map[string]temporal.ChainState{}
	for _, answer := range answers {
		states[answer.Owner] = answer.State
		require.Equal(t, answer.State == temporal.ChainClosed, answer.Ended != "")
	}
	require.Equal(t, map[string]temporal.ChainState{own: temporal.ChainClosed, upgrade: temporal.ChainClosed, other: temporal.ChainUnknown, "forged": temporal.ChainUnknown}, states)
	require.Zero(t, server.Reads(other))
}
