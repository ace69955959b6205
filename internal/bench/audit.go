package bench

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"drydock.dev/drydock/internal/devstack/fleet"
)

// observed is what the audit log of the spoke has of the rounds of one method.
type observed struct {
	// actions are those of the method, requests those of all users.
	actions  []fleet.Action
	requests []auditv1.Event
}

// Requests are numbers of requests for one node or cluster.
type Requests struct {
	Total  float64            `json:"total"`
	ByVerb map[string]float64 `json:"byVerb"`
	// ByTarget counts verb and resource, such as "patch nodes/status".
	ByTarget map[string]float64 `json:"byTarget"`
}

// observe reads the actions of users with a name prefix, and all requests during their rounds, from the audit log. It returns an error unless they
// maintained every node in every round and evicted every pod.
func (s *measurement) observe(users string, rounds []round) (observed, error) {
	actions, err := fleet.Actions(s.spoke)
	if err != nil {
		return observed{}, err
	}
	events, err := s.spoke.AuditEvents()
	if err != nil {
		return observed{}, err
	}
	found := observed{
		actions:  slices.DeleteFunc(actions, func(d fleet.Action) bool { return !strings.HasPrefix(d.By, users) }),
		requests: events,
	}.during(rounds...)
	count := fleet.Count(nil, found.actions)
	for what, wanted := range map[string]int{
		fleet.ActionCordon: s.size.maintenances(), fleet.ActionUncordon: s.size.maintenances(), fleet.ActionEviction: s.size.maintenances() * s.size.Pods,
	} {
		if count[what] != wanted {
			return observed{}, fmt.Errorf("the audit log has %d %ss by %s*, not %d", count[what], what, users, wanted)
		}
	}
	return found, nil
}

// during returns what was observed in rounds.
func (o observed) during(rounds ...round) observed {
	in := func(at time.Time) bool { return slices.ContainsFunc(rounds, func(r round) bool { return r.has(at) }) }
	var found observed
	for _, action := range o.actions {
		if in(action.At) {
			found.actions = append(found.actions, action)
		}
	}
	for _, event := range o.requests {
		if in(event.RequestReceivedTimestamp.Time) {
			found.requests = append(found.requests, event)
		}
	}
	return found
}

// at returns the times of an action, in order.
func (o observed) at(what string) []time.Time {
	var instants []time.Time
	for _, action := range o.actions {
		if action.What == what {
			instants = append(instants, action.At)
		}
	}
	slices.SortFunc(instants, time.Time.Compare)
	return instants
}

// slotIdle is how long each slot was free between the return of a node and the cordon of the next node. Slots are interchangeable: with five slots,
// the first return allows the sixth cordon, the second the seventh. Between rounds no node waits for a slot.
func (o observed) slotIdle(size Size) []time.Duration {
	cordons, uncordons := o.at(fleet.ActionCordon), o.at(fleet.ActionUncordon)
	var gaps []time.Duration
	for round := range size.Rounds {
		first := round * size.Nodes
		for i := first + size.AtOnce; i < first+size.Nodes; i++ {
			gaps = append(gaps, max(0, cordons[i].Sub(uncordons[i-size.AtOnce])))
		}
	}
	return gaps
}

// uncordonAfter returns when a node was uncordoned that was released at that time.
func (o observed) uncordonAfter(node string, released time.Time) (time.Time, bool) {
	for _, action := range o.actions {
		if action.What == fleet.ActionUncordon && action.Object == node && action.At.After(released) {
			return action.At, true
		}
	}
	return time.Time{}, false
}

// String lists the numbers of requests by verb.
func (r Requests) String() string {
	var texts []string
	for _, verb := range slices.Sorted(maps.Keys(r.ByVerb)) {
		texts = append(texts, fmt.Sprintf("%.0f %s", r.ByVerb[verb], verb))
	}
	return strings.Join(texts, ", ")
}

// requestsOf counts the requests of users with a name prefix, per node or cluster. A watch counts at its start, because most never end.
func requestsOf(events []auditv1.Event, users string, count int) Requests {
	r := Requests{ByVerb: map[string]float64{}, ByTarget: map[string]float64{}}
	one := 1 / float64(count)
	for _, event := range events {
		wanted := auditv1.StageResponseComplete
		if event.Verb == "watch" {
			wanted = auditv1.StageResponseStarted
		}
		if event.Stage != wanted || event.ObjectRef == nil || !strings.HasPrefix(event.User.Username, users) {
			continue
		}
		target := event.Verb + " " + event.ObjectRef.Resource
		if event.ObjectRef.Subresource != "" {
			target += "/" + event.ObjectRef.Subresource
		}
		r.Total += one
		r.ByVerb[event.Verb] += one
		r.ByTarget[target] += one
	}
	return r
}
