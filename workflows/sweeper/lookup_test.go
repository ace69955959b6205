package sweeper_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	sweeperactivities "drydock.dev/drydock/activities/sweeper"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/sweeper"
	"drydock.dev/drydock/workflows/workflowtest"
)

const open = temporal.ChainOpen

func lookUps(w *workflowtest.SweeperWorld, answered func(sweeperactivities.LookUpOwnersInput)) {
	workflowtest.Simulate(w.World, "LookUpOwners", func(in sweeperactivities.LookUpOwnersInput) any {
		answered(in)
		answers := []sweeperactivities.OwnerAnswer{}
		for _, owner := range in.Owners {
			answers = append(answers, sweeperactivities.OwnerAnswer{Owner: owner, State: open, At: w.Now()})
		}
		return answers
	})
}

func TestOwnersAreLookedUpForAWorkerWithoutAccessToTemporal(t *testing.T) {
	w := workflowtest.NewSweeperWorld(t,
		sweeperactivities.Orphans{LookUp: []string{workflowtest.NodeOwner, workflowtest.ClusterOwner}}, sweeperactivities.Orphans{LookUp: []string{workflowtest.NodeOwner}})
	lookUps(w, func(sweeperactivities.LookUpOwnersInput) {})
	w.RunUntil(3, workflowtest.Whenever, func(s sweeper.Status) { require.Equal(t, sweeper.Watching, s.State) })
	scans := w.Scans()
	require.Empty(t, scans[0].Answers)
	require.Len(t, scans[1].Answers, 2)
	require.Len(t, scans[2].Answers, 2, "an answer replaces the older one")
}

// Thousands of forged marks must not keep the sweeper and Temporal busy.
func TestLookUpsThatFollowEachOtherBecomeRare(t *testing.T) {
	var asked []time.Time
	endless := make([]sweeperactivities.Orphans, 40)
	for i := range endless {
		endless[i] = sweeperactivities.Orphans{LookUp: []string{workflowtest.NodeOwner}}
	}
	w := workflowtest.NewSweeperWorld(t, endless...)
	lookUps(w, func(sweeperactivities.LookUpOwnersInput) { asked = append(asked, w.Now()) })
	w.RunUntil(41, workflowtest.Whenever, func(sweeper.Status) {})
	require.Less(t, asked[9].Sub(asked[0]), time.Second)
	require.GreaterOrEqual(t, asked[39].Sub(asked[38]), 30*time.Second)
	require.Less(t, asked[39].Sub(asked[38]), 31*time.Second)
}

func TestAWakeDuringAPauseLooksUpAllOwnersAnew(t *testing.T) {
	many := make([]sweeperactivities.Orphans, 14)
	for i := range many {
		many[i] = sweeperactivities.Orphans{LookUp: []string{workflowtest.ClusterOwner}}
	}
	many[13] = sweeperactivities.Orphans{LookUp: []string{workflowtest.NodeOwner}}
	w := workflowtest.NewSweeperWorld(t, many...)
	count := 0
	lookUps(w, func(sweeperactivities.LookUpOwnersInput) { count++ })
	w.When(func() bool { return len(w.Scans()) == 14 && count == 13 }, func() { w.SignalWorkflow(temporal.SignalWake, nil) })
	w.RunUntil(15, workflowtest.Whenever, func(sweeper.Status) {})
	scans := w.Scans()
	require.Len(t, scans[14].Answers, 1)
	require.Equal(t, workflowtest.NodeOwner, scans[14].Answers[0].Owner, "older answers are dropped, and the new one is kept")
}
