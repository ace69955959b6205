// Package invariants checks the invariants of rollouts after failures. It reads only the audit logs of API servers
// and the histories of Temporal, never Drydock's own status.
package invariants

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"drydock.dev/drydock/internal/devstack/fleet"
)

// Cluster is a cluster that was maintained, with its limits and expectations.
type Cluster struct {
	Name string
	// Actions are all actions on the cluster, including those before the maintenance.
	Actions []fleet.Action
	// Since is the start of the maintenance. Earlier violations are ignored.
	Since time.Time
	// ControlPlane are nodes that must be maintained one at a time.
	ControlPlane []string
	// AtOnce is how many nodes may be out of service.
	AtOnce int
	// Maintained are the nodes that must be maintained exactly once. Other nodes may be maintained at most once.
	Maintained []string
	// Again are nodes with two successive requests, which may be maintained for each.
	Again []string
	// Worked are the nodes that must have had a Job, each as often as it is listed.
	Worked []string
	// AnswersLost are times when answers to Drydock were lost. It may repeat an eviction then. This is harmless: the first eviction set the
	// deletionTimestamp, and the second has the same UID and no grace period, so the API server changes nothing.
	AnswersLost []Interval
}

// Interval is a time in which answers were lost, including both ends.
type Interval struct{ From, To time.Time }

// onItsWay is the longest time that an answer takes to Drydock.
const onItsWay = time.Second

// lost reports whether the answer of an action may be lost.
func (i Interval) lost(d fleet.Action) bool {
	return !d.Received.After(i.To) && !d.At.Before(i.From.Add(-onItsWay))
}

// Violations returns forbidden actions, in order, and then missing ones.
func (c Cluster) Violations() []string {
	actions := slices.Clone(c.Actions)
	// Sort by arrival: a request that another one caused arrived later, but its answer may be earlier.
	slices.SortStableFunc(actions, func(a, b fleet.Action) int { return a.Received.Compare(b.Received) })
	r := replay{
		cluster: c, nodes: map[string]*node{}, locks: map[string]lock{}, clusterLocks: map[string]bool{},
		evicted: map[types.UID]fleet.Action{}, requests: map[string]string{},
	}
	for _, action := range actions {
		r.now = action
		r.take()
	}
	r.judgeEnd()
	return r.violations
}

// node is the state of a node after the actions so far.
type node struct {
	// cordonedBy is the user who cordoned the node; empty: it is not cordoned.
	cordonedBy string
	// owner is the maintenance that has the node out of service; empty: none.
	owner string
	// lost is when another user deleted the node or removed our mark.
	lost time.Time
	// maintenances since the start, in order.
	maintenances []*maintenance
}

// maintenance is what one owner did on a node.
type maintenance struct {
	owner            string
	takings, returns int
	jobs             int
}

type lock struct {
	node     string
	inactive bool
	// managed by Drydock. served are the requests that it was released for: those that existed then, and when the node was taken out of service.
	kept   bool
	served []string
}

// replay processes the actions of a cluster.
type replay struct {
	cluster      Cluster
	now          fleet.Action
	nodes        map[string]*node
	locks        map[string]lock
	clusterLocks map[string]bool            // whether inactive
	evicted      map[types.UID]fleet.Action // the last time
	requests     map[string]string          // node by the name of its request
	violations   []string
}

func (r *replay) violated(format string, args ...any) {
	if !r.now.At.Before(r.cluster.Since) {
		at := r.now.At.UTC().Format("15:04:05.000")
		r.violations = append(r.violations, fmt.Sprintf("%s %s: ", at, r.cluster.Name)+fmt.Sprintf(format, args...))
	}
}

func (r *replay) node(name string) *node {
	if r.nodes[name] == nil {
		r.nodes[name] = &node{}
	}
	return r.nodes[name]
}

func (r *replay) take() {
	d := r.now
	switch d.What {
	case fleet.ActionLock:
		r.locks[d.Object] = lock{node: d.Node}
	case fleet.ActionLockGone:
		delete(r.locks, d.Object)
	case fleet.ActionLockInactive, fleet.ActionLockActive, fleet.ActionLockFailed:
		r.takeLock()
	case fleet.ActionClusterLock, fleet.ActionClusterLockInactive, fleet.ActionClusterLockActive, fleet.ActionClusterLockFailed:
		r.clusterLocks[d.Object] = d.What == fleet.ActionClusterLockInactive
	case fleet.ActionClusterLockGone:
		delete(r.clusterLocks, d.Object)
	case fleet.ActionNodeGone:
		r.nodes[d.Object] = &node{lost: d.At, maintenances: r.node(d.Object).maintenances}
	case fleet.ActionForeign:
		r.violated("Drydock has changed a foreign object: %s", d.Object)
	default:
		r.takeMaintenance()
	}
}

// takeLock checks an application whose locks Drydock manages: it releases one node at a time, only on request, and holds it again only afterwards.
func (r *replay) takeLock() {
	d, before := r.now, r.locks[r.now.Object]
	now := lock{node: before.node, inactive: d.What == fleet.ActionLockInactive, kept: d.ByLockController(), served: before.served}
	r.locks[d.Object] = now
	if !now.kept || now.inactive == before.inactive {
		return
	}
	if !now.inactive {
		for _, request := range before.served {
			if _, stands := r.requests[request]; stands {
				r.violated("lock %s is held again during request %s", d.Object, request)
			}
		}
		return
	}
	now.served = r.requestsFor(now.node)
	r.locks[d.Object] = now
	if len(now.served) == 0 {
		r.violated("lock %s releases %s without a request", d.Object, now.node)
	}
	for _, other := range sorted(r.locks) {
		if l := r.locks[other]; other != d.Object && l.kept && l.inactive {
			r.violated("lock %s releases %s while %s has released %s", d.Object, now.node, other, l.node)
		}
	}
}

// requestsFor are the requests for a node.
func (r *replay) requestsFor(node string) (requests []string) {
	for _, request := range sorted(r.requests) {
		if r.requests[request] == node {
			requests = append(requests, request)
		}
	}
	return requests
}

// takeMaintenance checks the actions of maintenances, and manual cordons.
func (r *replay) takeMaintenance() {
	d := r.now
	switch d.What {
	case fleet.ActionRequestNode:
		r.requests[d.Object] = d.Node
	case fleet.ActionWithdrawNode:
		if name := r.requests[d.Object]; name != "" && d.ByDrydock() && r.node(name).owner != "" {
			r.violated("the request for %s is withdrawn while the node is out of service", name)
		}
		delete(r.requests, d.Object)
	case fleet.ActionCordon, fleet.ActionMark:
		r.takeOut()
	case fleet.ActionUncordon, fleet.ActionUnmark:
		r.giveBack()
	case fleet.ActionEviction:
		r.evict()
	case fleet.ActionJob:
		r.startJob()
	}
}

// takeOut checks a node that goes out of service: it is cordoned, or marked if another user has cordoned it.
func (r *replay) takeOut() {
	d, n := r.now, r.node(r.now.Node)
	if d.What == fleet.ActionCordon && n.cordonedBy == "" {
		n.cordonedBy = d.By
	}
	if !d.ByDrydock() {
		return
	}
	if n.owner != "" && n.owner != d.Owner {
		r.violated("%s is taken out of service for %s while it is for %s", d.Node, d.Owner, n.owner)
	}
	n.owner = d.Owner
	r.requireLetGo("take out of service", d.Node)
	for name, l := range r.locks {
		if l.node == d.Node && l.inactive {
			l.served = r.requestsFor(d.Node) // a released lock is released for all requests
			r.locks[name] = l
		}
	}
	r.requireRoom(d.Node)
	if !d.At.Before(r.cluster.Since) {
		m := n.maintenanceOf(d.Owner)
		if m.takings++; m.takings > 1 {
			r.violated("%s is taken out of service twice for %s", d.Node, d.Owner)
		}
	}
}

func (n *node) maintenanceOf(owner string) *maintenance {
	for _, m := range n.maintenances {
		if m.owner == owner {
			return m
		}
	}
	m := &maintenance{owner: owner}
	n.maintenances = append(n.maintenances, m)
	return m
}

// giveBack checks a node that returns to service, or loses our mark.
func (r *replay) giveBack() {
	d, n := r.now, r.node(r.now.Node)
	if d.ByDrydock() {
		switch {
		case n.owner == "":
			r.violated("%s of %s, which is not under maintenance", d.What, d.Node)
		case d.What == fleet.ActionUncordon && n.cordonedBy != "" && n.cordonedBy != d.By:
			r.violated("%s is uncordoned, which %s had cordoned", d.Node, n.cordonedBy)
		}
		if n.owner != "" && !d.At.Before(r.cluster.Since) {
			n.maintenanceOf(n.owner).returns++
		}
	}
	if d.What == fleet.ActionUncordon {
		n.cordonedBy = ""
	}
	switch {
	case d.ByDrydock():
		n.owner = ""
	case d.What == fleet.ActionUnmark:
		n.owner, n.lost = "", d.At
	}
}

func (r *replay) evict() {
	d := r.now
	if !d.ByDrydock() {
		return
	}
	if d.UID == "" {
		r.violated("the eviction of %s does not say which pod of that name is meant", d.Object)
		return
	}
	if before, again := r.evicted[d.UID]; again && !r.cluster.unheard(before) {
		r.violated("pod %s (%s) is evicted twice", d.Object, d.UID)
	}
	r.evicted[d.UID] = d
	if d.Node == "" {
		r.violated("pod %s is evicted, but is on no node", d.Object)
		return
	}
	r.requireOut("the eviction of "+d.Object+" from", d.Node)
}

// unheard reports whether the answer of an action may have been lost.
func (c Cluster) unheard(d fleet.Action) bool {
	return slices.ContainsFunc(c.AnswersLost, func(i Interval) bool { return i.lost(d) })
}

func (r *replay) startJob() {
	d := r.now
	if !d.ByDrydock() || d.InVain {
		return
	}
	r.requireOut("job "+d.Object+" on", d.Node)
	if d.At.Before(r.cluster.Since) {
		return
	}
	m := r.node(d.Node).maintenanceOf(d.Owner)
	if m.jobs++; m.jobs > 1 {
		r.violated("the work on %s for %s is done twice", d.Node, d.Owner)
	}
}

// noticing is how long Drydock may take to notice that another user removed its mark.
const noticing = 2 * time.Second

// requireOut requires, for a disruption, that the node is out of service and its locks are inactive.
func (r *replay) requireOut(what, name string) {
	if n := r.node(name); n.owner == "" && r.now.Received.After(n.lost.Add(noticing)) {
		r.violated("%s %s, which is not under maintenance", what, name)
	}
	r.requireLetGo(what, name)
}

func (r *replay) requireLetGo(what, name string) {
	for _, object := range sorted(r.locks) {
		if l := r.locks[object]; l.node == name && !l.inactive {
			r.violated("%s %s while lock %s is held", what, name, object)
		}
	}
	for _, object := range sorted(r.clusterLocks) {
		if !r.clusterLocks[object] {
			r.violated("%s %s while the lock %s of the cluster is held", what, name, object)
		}
	}
}

// requireRoom requires that at most AtOnce nodes are out of service, and a control-plane node only alone.
func (r *replay) requireRoom(taken string) {
	var out []string
	for _, name := range sorted(r.nodes) {
		if r.nodes[name].owner != "" {
			out = append(out, name)
		}
	}
	switch {
	case len(out) > r.cluster.AtOnce:
		r.violated("%d nodes are out of service, %d may be: %v", len(out), r.cluster.AtOnce, out)
	case len(out) > 1 && slices.ContainsFunc(out, func(name string) bool { return slices.Contains(r.cluster.ControlPlane, name) }):
		r.violated("%s is taken out of service, and a node of the control plane is not alone: %v", taken, out)
	}
}

// judgeEnd checks what is missing at the end.
func (r *replay) judgeEnd() {
	for _, name := range sorted(r.nodes) {
		n := r.nodes[name]
		if n.owner != "" {
			r.violated("%s is still out of service for %s", name, n.owner)
		}
		if len(n.maintenances) > 1 && !(len(n.maintenances) == 2 && slices.Contains(r.cluster.Again, name)) {
			r.violated("%s is maintained %d times", name, len(n.maintenances))
		}
	}
	for _, name := range r.cluster.Maintained {
		maintenances := r.node(name).maintenances
		if len(maintenances) == 0 {
			r.violated("%s is not maintained", name)
		}
		wanted, jobs := count(r.cluster.Worked, name), 0
		for _, m := range maintenances {
			jobs += m.jobs
		}
		for _, m := range maintenances {
			if m.takings != 1 || m.returns != 1 || wanted > 0 && jobs != wanted {
				r.violated("%s is taken out of service %d times, worked on %d times and returned %d times", name, m.takings, m.jobs, m.returns)
			}
		}
	}
}

func count(names []string, name string) (times int) {
	for _, n := range names {
		if n == name {
			times++
		}
	}
	return times
}

func sorted[K cmp.Ordered, V any](m map[K]V) []K {
	keys := make([]K, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}
