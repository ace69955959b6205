package scheduling

// cluster has the nodes of a cluster and the limits that they count against.
type cluster struct {
	nodes map[string]*member
	// pools are all pools. The first has all nodes, for the limits of the whole cluster.
	pools   []*pool
	budgets []*budget
}

// member is a node with its pools.
type member struct {
	Node
	// pools whose limits apply to the node: the one of all nodes, then those of its budgets, by name.
	pools []*pool
	// holder is the request in progress on the node; nil if there is none.
	holder *Request
	// first is the highest ranked waiting request for the node, once it has been considered.
	first *Request
}

// newCluster counts the nodes and the granted requests of the input.
func newCluster(in Input) *cluster {
	c := &cluster{nodes: make(map[string]*member, len(in.Nodes)), pools: []*pool{{}}, budgets: budgetsOf(in.Config)}
	members := make([]member, len(in.Nodes))
	for i, node := range in.Nodes {
		members[i] = member{Node: node, pools: c.addToPools(node)}
		c.nodes[node.Name] = &members[i]
	}
	// A percentage refers to the size of the pool, so all nodes are counted first.
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
			absent = append(absent, c.addAbsent(request.Node))
		}
		c.nodes[request.Node].setHolder(&request.Request)
	}
	for i := range members {
		members[i].count()
	}
	for _, node := range absent {
		node.count()
	}
	return c
}

// addAbsent adds a node that does not exist and has a granted request. The node may return before the maintenance ends, so it keeps its slot. Its
// budgets are unknown.
func (c *cluster) addAbsent(name string) *member {
	absent := &member{Node: Node{Name: name}, pools: c.pools[:1]}
	c.nodes[name] = absent
	return absent
}

// addToPools adds a node to its pools and returns them.
func (c *cluster) addToPools(node Node) []*pool {
	c.pools[0].size++
	if len(c.budgets) == 0 {
		return c.pools[:1]
	}
	joined := append(make([]*pool, 0, 1+len(c.budgets)), c.pools[0])
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

// setHolder records a granted request. Of several for one node it keeps the first by name, so that the order of the input has no effect.
func (m *member) setHolder(request *Request) {
	if m.holder == nil || request.before(*m.holder) {
		m.holder = request
	}
}

// count counts a node that is out of service in its pools.
func (m *member) count() {
	switch {
	case m.holder != nil:
		m.occupy(*m.holder, false)
	case m.Unavailable:
		for _, pool := range m.pools {
			pool.outages.add(m.Name)
		}
	}
}

// occupy counts the node as under maintenance for a request, and as unavailable unless it is already counted so.
func (m *member) occupy(request Request, unavailable bool) {
	holder := request.Node
	switch {
	case request.Requestor != "":
		holder += " for " + request.Requestor
	case request.Name != "": // known only by its mark on the node
		holder += " with the mark of " + request.Name
	}
	for _, pool := range m.pools {
		pool.occupy(holder, unavailable)
	}
}
