package scheduling_test

import (
	"cmp"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"drydock.dev/drydock/internal/scheduling"
)

// plainlyRanked ranks requests by their criteria, one after the other.
func plainlyRanked(in scheduling.Input) (ranked []scheduling.Request) {
	working, count := map[string]bool{}, map[string]int{}
	var waiting []scheduling.SlotRequest
	for _, request := range in.Requests {
		if request.Granted {
			working[request.Requestor] = true
			continue
		}
		count[request.Requestor]++
		waiting = append(waiting, request)
	}
	last := func(is bool) int {
		if is {
			return 0
		}
		return 1
	}
	aged := func(r scheduling.SlotRequest) bool {
		return in.Config.AgingSeconds > 0 && !r.Since.IsZero() && in.Now.Sub(r.Since) > time.Duration(in.Config.AgingSeconds)*time.Second
	}
	slices.SortStableFunc(waiting, func(a, b scheduling.SlotRequest) int {
		fair := 0
		if !aged(a) && !aged(b) {
			fair = cmp.Or(cmp.Compare(last(working[a.Requestor]), last(working[b.Requestor])), cmp.Compare(count[a.Requestor], count[b.Requestor]))
		}
		return cmp.Or(
			cmp.Compare(last(aged(a)), last(aged(b))), fair, a.Since.Compare(b.Since),
			cmp.Compare(a.Node, b.Node), cmp.Compare(a.Requestor, b.Requestor), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name),
		)
	})
	for _, request := range waiting {
		ranked = append(ranked, request.Request)
	}
	return ranked
}

func TestTheRankIsThatOfThePlainCriteria(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := drawCluster(t).input()
		require.Equal(t, append([]scheduling.Request{}, plainlyRanked(in)...), scheduling.Ranked(in))
	})
}

// plainQueue returns the queue of a state by a search for each request, and by the decision of a command for the same input.
func plainQueue(state *scheduling.SlotState, now time.Time) []scheduling.QueueEntry {
	in := scheduling.Input{Config: state.Config, Now: now}
	queue := []scheduling.QueueEntry{}
	type waiting struct {
		owner scheduling.SlotOwner
		entry scheduling.SlotEntry
	}
	var waits []waiting
	marked := map[string]string{}
	for _, node := range state.Nodes {
		in.Nodes = append(in.Nodes, node.Node)
		counts := node.Maintenance != ""
		for _, r := range state.Requesters {
			for _, e := range r.Slots {
				held := e.Status == scheduling.SlotGranted || e.Status == scheduling.SlotEnding
				if held && e.Node == node.Name || e.Status == scheduling.SlotReturned && e.Maintenance == node.Maintenance {
					counts = false
				}
			}
		}
		if counts {
			marked[node.Name] = node.Maintenance
			in.Requests = append(in.Requests, scheduling.SlotRequest{Request: scheduling.Request{Node: node.Name, Name: node.Maintenance}, Granted: true})
		}
	}
	for _, r := range state.Requesters {
		for _, e := range r.Slots {
			switch e.Status {
			case scheduling.SlotGranted, scheduling.SlotEnding:
				queue = append(queue, scheduling.QueueEntry{Request: e.Request, Owner: r.Owner, Since: e.Since})
				in.Requests = append(in.Requests, scheduling.SlotRequest{Request: e.Request, Since: e.Since, Granted: true})
			case scheduling.SlotWaiting:
				waits = append(waits, waiting{r.Owner, e})
				in.Requests = append(in.Requests, scheduling.SlotRequest{Request: e.Request, Since: e.Since})
			}
		}
	}
	// Of two owners with equal requests, the older one goes first.
	slices.SortStableFunc(waits, func(a, b waiting) int { return a.entry.Since.Compare(b.entry.Since) })
	take := func(request scheduling.Request) waiting {
		at := slices.IndexFunc(waits, func(other waiting) bool { return other.entry.Request == request })
		taken := waits[at]
		waits = slices.Delete(waits, at, at+1)
		return taken
	}
	decision := scheduling.Schedule(in)
	for _, granted := range decision.Granted {
		take(granted)
	}
	for i, w := range decision.Waiting {
		if mark := marked[w.Node]; w.Reason == scheduling.NodeBusy && mark != "" {
			w.Message = "node " + w.Node + " is under maintenance by " + mark + "; it is next after the node is returned"
		}
		of := take(w.Request)
		queue = append(queue, scheduling.QueueEntry{
			Request: w.Request, Owner: of.owner, Since: of.entry.Since, Rank: i + 1, Reason: w.Reason, Message: w.Message,
		})
	}
	return queue
}
