package scheduling

import (
	"k8s.io/apimachinery/pkg/util/intstr"

	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
)

// cluster is what counts of a cluster's nodes and of the requests at work.
type cluster struct {
	nodes map[string]Node
	// underMaintenance is each node with a request in progress, and that request. A node that is gone holds nothing.
	underMaintenance map[string]Request
	// unavailable nodes, those under maintenance included: a node that is both counts once.
	unavailable map[string]struct{}
}

func observe(in Input) cluster {
	c := cluster{
		nodes:            map[string]Node{},
		underMaintenance: map[string]Request{},
		unavailable:      map[string]struct{}{},
	}
	for _, node := range in.Nodes {
		c.nodes[node.Name] = node
		if node.Unavailable {
			c.unavailable[node.Name] = struct{}{}
		}
	}
	for _, ask := range in.Asks {
		if _, exists := c.nodes[ask.Node]; exists && ask.Granted {
			c.hold(ask.Request)
		}
	}
	return c
}

// hold records a request in progress; of several on one node, the first by name, so that the input's order does not show.
func (c *cluster) hold(request Request) {
	if holder, held := c.underMaintenance[request.Node]; !held || request.before(holder) {
		c.underMaintenance[request.Node] = request
	}
	c.unavailable[request.Node] = struct{}{}
}

// availableSlots is the limit of parallel operations, 1 if unset, less the nodes under maintenance; never below 0. A percentage of all
// nodes rounds up.
func (c cluster) availableSlots(config maintenancev1.MaintenanceOperatorConfigSpec) int {
	limit := 1
	if config.MaxParallelOperations != nil {
		limit = scaled(*config.MaxParallelOperations, len(c.nodes), true)
	}
	return max(limit-len(c.underMaintenance), 0)
}

// canBecomeUnavailable is how many more nodes may become unavailable, never below 0; nil if there is no limit. A percentage of all nodes
// rounds down.
func (c cluster) canBecomeUnavailable(config maintenancev1.MaintenanceOperatorConfigSpec) *int {
	if config.MaxUnavailable == nil {
		return nil
	}
	return new(max(scaled(*config.MaxUnavailable, len(c.nodes), false)-len(c.unavailable), 0))
}

// scaled turns a number or a percentage into a number. What is neither allows nothing.
func scaled(value intstr.IntOrString, nodes int, roundUp bool) int {
	number, err := intstr.GetScaledValueFromIntOrPercent(&value, nodes, roundUp)
	if err != nil {
		return 0
	}
	return number
}
