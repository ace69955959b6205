// Package scheduling decides which maintenance requests of a cluster may start: fairly among requestors, within the cluster's budgets, and without unused
// slots. It is pure.
package scheduling

// Decision has the requests that may start now, and the reasons of the others. `drydock node schedule -o json` prints its JSON.
type Decision struct {
	// AvailableSlots is the number of further nodes that may be under maintenance.
	AvailableSlots int `json:"availableSlots"`
	// CanBecomeUnavailable is the number of further nodes that may become unavailable; nil: no limit.
	CanBecomeUnavailable *int `json:"canBecomeUnavailable"`
	// Granted requests in the order of granting.
	Granted []Request `json:"granted"`
	// Waiting requests in order of rank.
	Waiting []Waiting `json:"waiting"`

	// left is the remaining capacity of the whole cluster after the grants.
	left capacity
}

// capacity is the remaining capacity of the whole cluster.
type capacity struct {
	slots   int
	outages *int
}

func (c *cluster) capacity() capacity {
	all := c.pools[0]
	return capacity{slots: *all.operations.left(), outages: all.outages.left()}
}

// Remaining returns, after the grants, how many further nodes may be under maintenance, and how many may become unavailable; nil: no limit.
func (d Decision) Remaining() (slots int, outages *int) { return d.left.slots, d.left.outages }

// Waiting is a request that may not start, with the reason.
type Waiting struct {
	Request
	Reason  Reason `json:"reason"`
	Message string `json:"message"`
}

// Reason is why a request waits.
type Reason string

// The reasons, beside BudgetReason.
const (
	// NoSlot: maxParallelOperations allows no further node under maintenance.
	NoSlot Reason = "NoSlot"
	// MaxUnavailable: maxUnavailable allows no further unavailable node.
	MaxUnavailable Reason = "MaxUnavailable"
	// NodeBusy: the node is under maintenance already.
	NodeBusy Reason = "NodeBusy"
	// LowerRank: another request for the same node has a higher rank.
	LowerRank Reason = "LowerRank"
	// NodeNotFound: the node does not exist.
	NodeNotFound Reason = "NodeNotFound"
)

// BudgetReason is the reason of a request that waits for a budget of this name.
func BudgetReason(name string) Reason { return Reason("Budget/" + name) }

// Schedule grants the waiting requests that fit, in order of rank. A request that does not fit is skipped with its reason, so that it never blocks a slot
// that another request could use.
func Schedule(in Input) Decision {
	decision, _, _ := schedule(in)
	return decision
}

// schedule also returns the indexes in the input of the requests that the decision grants, and of those that it lets wait.
func schedule(in Input) (decision Decision, granted, waiting []int) {
	cluster := newCluster(in)
	free, candidates := cluster.capacity(), candidatesOf(in)
	decision = Decision{
		AvailableSlots: free.slots, CanBecomeUnavailable: free.outages,
		Granted: []Request{}, Waiting: make([]Waiting, 0, len(candidates)),
	}
	waiting = make([]int, 0, len(candidates))
	for _, candidate := range candidates {
		if reason, message := cluster.consider(&candidate.Request); reason != "" {
			decision.Waiting = append(decision.Waiting, Waiting{Request: candidate.Request, Reason: reason, Message: message})
			waiting = append(waiting, candidate.index)
			continue
		}
		decision.Granted = append(decision.Granted, candidate.Request)
		granted = append(granted, candidate.index)
	}
	decision.left = cluster.capacity()
	return decision, granted, waiting
}

// consider grants the request, or returns why it waits.
func (c *cluster) consider(request *Request) (Reason, string) {
	node := c.nodes[request.Node]
	switch {
	case node == nil:
		return NodeNotFound, "the cluster has no node " + request.Node
	case node.holder != nil:
		return NodeBusy, "node " + request.Node + " is under maintenance for " + node.holder.describe()
	case node.first != nil:
		return LowerRank, node.first.describe() + " goes first on node " + request.Node
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

// describe names the request and its requestor. A maintenance that is known only by its mark has no requestor, and its name is the workflow id.
func (r Request) describe() string {
	name := r.Name
	if r.Namespace != "" {
		name = r.Namespace + "/" + name
	}
	if r.Requestor == "" {
		return name
	}
	return r.Requestor + " (" + name + ")"
}
