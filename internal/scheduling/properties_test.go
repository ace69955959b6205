package scheduling_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"drydock.dev/drydock/internal/scheduling"
)

func TestGrantsStayWithinEveryLimit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := drawCluster(t)
		decision := c.schedule()
		require.LessOrEqual(t, len(decision.Granted), decision.AvailableSlots)
		require.Empty(t, c.exceeded(grantedNodes(decision)...))
		slots, outages := decision.Remaining()
		require.Equal(t, decision.AvailableSlots-len(decision.Granted), slots)
		require.Equal(t, decision.CanBecomeUnavailable == nil, outages == nil)
	})
}

func grantedNodes(decision scheduling.Decision) []string {
	var names []string
	for _, request := range decision.Granted {
		names = append(names, request.Node)
	}
	return names
}

func TestEveryPendingRequestIsGrantedOrWaitsForOneReason(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := drawCluster(t)
		decision := c.schedule()
		var want []string
		for _, request := range c.Requests {
			if stateOf(request) == "Pending" {
				want = append(want, request.Name)
			}
		}
		got := grantedNames(decision)
		for _, waiting := range decision.Waiting {
			require.NotEmpty(t, waiting.Reason)
			require.NotEmpty(t, waiting.Message)
			got = append(got, waiting.Name)
		}
		require.ElementsMatch(t, want, got)
	})
}

func TestANodeIsGrantedOnceAndNeverWhileItIsUnderMaintenance(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := drawCluster(t)
		busy := c.holding()
		for _, granted := range c.schedule().Granted {
			require.NotContains(t, busy, granted.Node)
			busy = append(busy, granted.Node)
		}
	})
}

func TestARequestThatFitsIsGranted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := drawCluster(t)
		decision := c.schedule()
		for _, waiting := range decision.Waiting {
			switch waiting.Reason {
			case scheduling.NodeBusy:
				require.Contains(t, c.holding(), waiting.Node)
			case scheduling.LowerRank:
				require.NotContains(t, c.holding(), waiting.Node)
			case scheduling.NodeNotFound:
				require.NotContains(t, c.holding(), waiting.Node)
				require.Contains(t, []string{"n0", "n1", "n2", "n3", "n4", "n5", "n6", "n7", "n8", "n9"}[len(c.Nodes):], waiting.Node)
			default:
				var reasons []scheduling.Reason
				for _, limit := range c.exceeded(append(grantedNodes(decision), waiting.Node)...) {
					reasons = append(reasons, limit.reason)
				}
				require.Contains(t, reasons, waiting.Reason, "%v", waiting)
			}
		}
	})
}

func TestTheOrderOfTheInputHasNoEffect(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := drawCluster(t)
		shuffled := cluster{
			Nodes:    rapid.Permutation(c.Nodes).Draw(t, "shuffled nodes"),
			Requests: rapid.Permutation(c.Requests).Draw(t, "shuffled requests"),
			Config:   c.Config,
		}
		shuffled.Config.Budgets = rapid.Permutation(c.Config.Budgets).Draw(t, "shuffled budgets")
		require.Equal(t, c.schedule(), shuffled.schedule())
		require.Equal(t, scheduling.Ranked(c.input()), scheduling.Ranked(shuffled.input()))
	})
}

func TestAnotherRequestNeverTakesAGrantFromAHigherRank(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := drawCluster(t)
		before := c.schedule()
		// An unrelated request has its own requestor, so that it changes no other rank.
		newcomer := pending("newcomer", "new.example.com", fmt.Sprintf("n%d", rapid.IntRange(0, 9).Draw(t, "node")), 0)
		c.Requests = append(c.Requests, newcomer)
		after := c.schedule()
		place := slices.IndexFunc(scheduling.Ranked(c.input()), func(r scheduling.Request) bool { return r.Name == "newcomer" })
		for _, higher := range scheduling.Ranked(c.input())[:place] {
			require.Equal(t, slices.Contains(before.Granted, higher), slices.Contains(after.Granted, higher), higher.Name)
		}
		if !slices.Contains(grantedNames(after), "newcomer") {
			require.Equal(t, before.Granted, after.Granted)
		}
	})
}

func TestRequestsThatWaitedTooLongGoFirstOldestFirst(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := drawCluster(t)
		in := c.input()
		since := map[string]int{}
		for _, ask := range in.Requests {
			since[ask.Name] = int(noon.Sub(ask.Since).Seconds())
		}
		var waited []int
		for _, request := range scheduling.Ranked(in) {
			waited = append(waited, since[request.Name])
		}
		limit := int(c.Config.AgingSeconds)
		aged := 0
		for aged < len(waited) && limit > 0 && waited[aged] > limit {
			aged++
		}
		require.True(t, slices.IsSortedFunc(waited[:aged], func(a, b int) int { return b - a }), "%v", waited)
		for _, fresh := range waited[aged:] {
			require.True(t, limit == 0 || fresh <= limit, "%v", waited)
		}
	})
}

func TestAnInputSurvivesJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := drawCluster(t).input()
		require.Equal(t, scheduling.Schedule(in), scheduling.Schedule(roundTrip(t, in)))
	})
}
