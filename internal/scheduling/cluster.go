package scheduling

// cluster is what counts of a cluster's nodes and of the requests in progress.
type cluster struct {
	nodes map[string]*member
	// pools are all there are; the first is that of all nodes, which the configuration's own limits are about.
	pools   []*pool
	budgets []*budget
}

// member is a node with what it belongs to.
type member struct {
	Node
	// pools whose limits it is held to: that of all nodes, then those of the budgets that cover it, by name.
	pools []*pool
	// holder is the request in progress on the node; nil if there is none.
	holder *Request
	// first is the highest ranked request that waits for the node, once it has been considered.
	first *Request
}

func observe(in Input) *cluster {
	c := &cluster{nodes: make(map[string]*member, len(in.Nodes)), pools: []*pool{{}}, budgets: budgetsOf(in.Config)}
	members := make([]member, len(in.Nodes))
	for i, node := range in.Nodes {
		members[i] = member{Node: node, pools: c.join(node)}
		c.nodes[node.Name] = &members[i]
	}
	// A percentage is one of all the pool's nodes, so these are counted first.
	for _, pool := range c.pools {
		pool.limit(in.Config)
	}
	var absent []*member
	for i := range in.Requests {
		request := &in.Requests[i]
		if !request.Granted {
			continue
		}
		if c.nodes[request.Node] == nil {
			absent = append(absent, c.remember(request.Node))
		}
		c.nodes[request.Node].hold(&request.Request)
	}
	for i := range members {
		members[i].count()
	}
	for _, node := range absent {
		node.count()
	}
	return c
}

// remember adds a node that is gone and has a request in progress. It may be back before that ends, so it holds its slot; which budgets covered it
// is not known.
func (c *cluster) remember(name string) *member {
	gone := &member{Node: Node{Name: name}, pools: c.pools[:1]}
	c.nodes[name] = gone
	return gone
}

// join adds a node to the pools that it belongs to, and returns those.
func (c *cluster) join(node Node) []*pool {
	joined := append(make([]*pool, 0, 1+len(c.budgets)), c.pools[0])
	c.pools[0].size++
	for _, budget := range c.budgets {
		pool := budget.zoneOf(node)
		if pool == nil {
			continue
		}
		if pool.size == 0 {
			c.pools = append(c.pools, pool)
		}
		pool.size++
		joined = append(joined, pool)
	}
	return joined
}

// hold records a request in progress; of several on one node, the first by name, so that the input's order does not show.
func (m *member) hold(request *Request) {
	if m.holder == nil || request.before(*m.holder) {
		m.holder = request
	}
}

// count counts the node in its pools, if it is out of service.
func (m *member) count() {
	switch {
	case m.holder != nil:
		m.occupy(*m.holder, false)
	case m.Unavailable:
		for _, pool := range m.pools {
			pool.outages.take(m.Name)
		}
	}
}

// occupy counts the node as under maintenance for a request; and as unavailable, unless it is counted as that already.
func (m *member) occupy(request Request, unavailable bool) {
	holder := request.Node
	switch {
	case request.Requestor != "":
		holder += " for " + request.Requestor
	case request.Name != "": // it has no slot, only the mark on the node
		holder += " with the mark of " + request.Name
	}
	for _, pool := range m.pools {
		pool.occupy(holder, unavailable)
	}
}
