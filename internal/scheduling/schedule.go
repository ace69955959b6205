// Package scheduling decides which maintenance requests of a cluster may start: fairly among requestors, within the cluster's budgets,
// and without wasting a slot. It is pure.
package scheduling

import (
	"fmt"
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

	// left is what the grants leave of the budgets of the whole cluster.
	left capacity
}

// capacity is the rest of the budgets of the whole cluster.
type capacity struct {
	slots   int
	outages *int
}

func (c *cluster) capacity() capacity {
	all := c.pools[0]
	return capacity{slots: *all.operations.left(), outages: all.outages.left()}
}

// Left is how many more nodes may be under maintenance, and how many more may become unavailable, after the grants of this decision; nil is no limit.
func (d Decision) Left() (slots int, outages *int) { return d.left.slots, d.left.outages }

// Waiting is a request that may not start, and the one reason why.
type Waiting struct {
	Request
	Reason  Reason `json:"reason"`
	Message string `json:"message"`
}

// Reason is why a request waits.
type Reason string

// The reasons, beside BudgetReason.
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

// BudgetReason is the reason of a request that waits for a budget of this name.
func BudgetReason(name string) Reason { return Reason("Budget/" + name) }

// Schedule walks all pending requests in order of rank and grants those that fit. One that does not fit is passed over with its reason
// and costs nothing, so that a blocked request never wastes a slot that another could use.
func Schedule(in Input) Decision {
	cluster := observe(in)
	free, ranked := cluster.capacity(), Ranked(in)
	decision := Decision{
		AvailableSlots: free.slots, CanBecomeUnavailable: free.outages,
		Granted: []Request{}, Waiting: make([]Waiting, 0, len(ranked)),
	}
	for i := range ranked {
		if reason, message := cluster.consider(&ranked[i]); reason != "" {
			decision.Waiting = append(decision.Waiting, Waiting{Request: ranked[i], Reason: reason, Message: message})
			continue
		}
		decision.Granted = append(decision.Granted, ranked[i])
	}
	decision.left = cluster.capacity()
	return decision
}

// consider grants the request and returns no reason, or returns why it waits.
func (c *cluster) consider(request *Request) (Reason, string) {
	node := c.nodes[request.Node]
	switch {
	case node == nil:
		return NodeNotFound, "the cluster has no node " + request.Node
	case node.holder != nil:
		return NodeBusy, fmt.Sprintf("node %s is under maintenance for %s", request.Node, node.holder.described())
	case node.first != nil:
		return LowerRank, fmt.Sprintf("%s goes first on node %s", node.first.described(), request.Node)
	}
	node.first = request
	for _, pool := range node.pools {
		if reason, message := pool.refuse(node.Unavailable); reason != "" {
			return reason, message
		}
	}
	node.occupy(*request, node.Unavailable)
	return "", ""
}

// described names the request and who asked for it. Of a maintenance that is known only by its mark, that is the workflow.
func (r Request) described() string {
	name := r.Name
	if r.Namespace != "" {
		name = r.Namespace + "/" + name
	}
	if r.Requestor == "" {
		return name
	}
	return r.Requestor + " (" + name + ")"
}
