// Package scheduling decides which maintenance requests of a cluster may start: fairly among requestors, within the cluster's budgets,
// and without wasting a slot. It is pure.
package scheduling

import (
	"fmt"
	"slices"
	"strings"

)

// Decision says which requests may start now, and why each of the others waits. Its JSON is what `drydock node schedule -o json` prints.
type Decision struct {
	// AvailableSlots is how many more nodes may be under maintenance.
	AvailableSlots int `json:"availableSlots"`
	// CanBecomeUnavailable is how many more nodes may become unavailable; nil when there is no limit.
	CanBecomeUnavailable *int `json:"canBecomeUnavailable"`
	// Granted requests in the order of granting.
	Granted []Request `json:"granted"`
	// Waiting requests in order of rank.
	Waiting []Waiting `json:"waiting"`
}

// Waiting is a request that may not start, and the one reason why.
type Waiting struct {
	Request
	Reason  Reason `json:"reason"`
	Message string `json:"message"`
}

// Reason is why a request waits.
type Reason string

// The reasons.
const (
	// NoSlot: as many nodes are under maintenance as maxParallelOperations allows.
	NoSlot Reason = "NoSlot"
	// MaxUnavailable: the node would become unavailable, and maxUnavailable allows no more.
	MaxUnavailable Reason = "MaxUnavailable"
	// NodeBusy: the node is under maintenance already.
	NodeBusy Reason = "NodeBusy"
	// LowerRank: another request for the same node goes first.
	LowerRank Reason = "LowerRank"
	// NodeNotFound: the cluster has no such node.
	NodeNotFound Reason = "NodeNotFound"
)

// Schedule walks all pending requests in order of rank and grants those that fit. One that does not fit is passed over with its reason
// and costs nothing, so that a blocked request never wastes a slot that another could use.
func Schedule(in Input) Decision {
	cluster := observe(in)
	walk := walk{
		cluster:  cluster,
		slots:    cluster.availableSlots(in.Config),
		budget:   cluster.canBecomeUnavailable(in.Config),
		firstFor: map[string]Request{},
	}
	decision := Decision{AvailableSlots: walk.slots, Granted: []Request{}, Waiting: []Waiting{}}
	if walk.budget != nil {
		decision.CanBecomeUnavailable = new(*walk.budget)
	}
	for _, request := range Ranked(in) {
		if reason, message := walk.consider(request); reason != "" {
			decision.Waiting = append(decision.Waiting, Waiting{Request: request, Reason: reason, Message: message})
			continue
		}
		decision.Granted = append(decision.Granted, request)
	}
	return decision
}

// walk is what is left of the budgets while requests are considered in order of rank.
type walk struct {
	cluster cluster
	slots   int
	// budget is nil when there is no limit.
	budget *int
	// firstFor is the highest ranked request of each node.
	firstFor map[string]Request
}

// consider grants the request and returns no reason, or returns why it waits.
func (w *walk) consider(request Request) (Reason, string) {
	node, exists := w.cluster.nodes[request.Node]
	if !exists {
		return NodeNotFound, fmt.Sprintf("the cluster has no node %s", request.Node)
	}
	if holder, busy := w.cluster.underMaintenance[request.Node]; busy {
		return NodeBusy, fmt.Sprintf("node %s is under maintenance for %s (%s/%s)", request.Node, holder.Requestor, holder.Namespace, holder.Name)
	}
	if first, taken := w.firstFor[request.Node]; taken {
		return LowerRank, fmt.Sprintf("%s/%s of %s goes first on node %s", first.Namespace, first.Name, first.Requestor, request.Node)
	}
	w.firstFor[request.Node] = request
	if w.slots == 0 {
		return NoSlot, fmt.Sprintf("maxParallelOperations allows no more nodes under maintenance%s", w.cluster.holders())
	}
	if !node.Unavailable {
		if w.budget != nil && *w.budget == 0 {
			return MaxUnavailable, fmt.Sprintf("node %s is available, and maxUnavailable allows no more nodes to become unavailable%s",
				request.Node, w.cluster.missing())
		}
		if w.budget != nil {
			*w.budget--
		}
	}
	w.slots--
	return "", ""
}

// holders names the nodes under maintenance, as the end of a sentence.
func (c cluster) holders() string { return listed("under maintenance", keys(c.underMaintenance)) }

// missing names the nodes that are unavailable, as the end of a sentence.
func (c cluster) missing() string {
	return listed("unavailable or under maintenance", keys(c.unavailable))
}

func keys[V any](set map[string]V) []string {
	names := make([]string, 0, len(set))
	for name := range set {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// listed names at most five nodes.
func listed(title string, names []string) string {
	const most = 5
	if len(names) == 0 {
		return ""
	}
	text := strings.Join(names[:min(len(names), most)], ", ")
	if len(names) > most {
		text += fmt.Sprintf(" and %d more", len(names)-most)
	}
	return fmt.Sprintf(" (%s: %s)", title, text)
}
