// Package invariants checks what must be true of rollouts after any failure. It judges by the API servers' audit logs
// and Temporal's histories alone, never by what Drydock reports about itself.
package invariants

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"drydock.dev/drydock/internal/devstack/fleet"
)

// Cluster is a cluster on which maintenance was done, and what was allowed and promised.
type Cluster struct {
	Name string
	// Actions of the cluster's whole life: what stood before the maintenance counts.
	Actions []fleet.Action
	// Since is when the maintenance began. What was wrong before is not told.
	Since time.Time
	// ControlPlane are the nodes that go alone.
	ControlPlane []string
	// AtOnce is how many nodes may be out of service.
	AtOnce int
	// Maintained are the nodes that must have been maintained, exactly once. No other node may be more than once.
	Maintained []string
	// Again are nodes that two have asked for, one after the other, and that may have been maintained for each of them.
	Again []string
	// Worked are the nodes that must have had a Job, each as often as it is named.
	Worked []string
	// AnswersLost are the times in which requests were cut off before Drydock had the answer. Then it cannot know that a pod was evicted,
	// and may ask again: harmless, since the first eviction set the pod's deletionTimestamp, and the second names the very same UID and
	// leaves the pod's own grace period as it is, so that the API server changes nothing.
	AnswersLost []Interval
}

// Interval is a time in which answers were lost, both ends included.
type Interval struct{ From, To time.Time }

// onItsWay is how long an answer may take to Drydock.
const onItsWay = time.Second

// lost reports whether Drydock may not have heard that the action was done.
func (i Interval) lost(d fleet.Action) bool {
	return !d.Received.After(i.To) && !d.At.Before(i.From.Add(-onItsWay))
}

// Violations returns what was done that must not be, in the order it was done, and then what is missing.
func (c Cluster) Violations() []string {
	actions := slices.Clone(c.Actions)
	// What one request caused, another request, was received later. Answers may overtake each other.
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

// node is a node as the actions so far have left it.
type node struct {
	// cordonedBy is the user whose cordon stands; empty: none.
	cordonedBy string
	// owner is the maintenance it is out of service for; empty: none.
	owner string
	// lost is when someone else has deleted the node, or removed our mark from it.
	lost time.Time
	// since the maintenance began: those that it was out of service for, in order, and what happened in them.
	maintenances []*maintenance
}

// maintenance is what one owner has done to a node.
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

// replay goes through the actions of a cluster.
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
		r.violated("Drydock has touched what is not its own: %s", d.Object)
	default:
		r.takeMaintenance()
	}
}

// takeLock: for an application whose locks Drydock manages, it releases one node at a time, only on request, and holds it again only afterwards.
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
				r.violated("lock %s is held again while %s stands", d.Object, request)
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

// takeMaintenance is about what is done in a maintenance, and people's cordons.
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

// takeOut is a node that goes out of service: cordoned, or marked where someone else's cordon stands.
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
			l.served = r.requestsFor(d.Node) // released for any request, it is released for these
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

// giveBack is a node that comes back to service, or is only no longer ours.
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
		r.violated("pod %s is evicted, which was on no node", d.Object)
		return
	}
	r.requireOut("the eviction of "+d.Object+" from", d.Node)
}

// unheard reports whether the answer to an action may have been lost.
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

// noticing is how long Drydock has to see that someone else has taken a node from it.
const noticing = 2 * time.Second

// requireOut: what disrupts a node needs it out of service, and its locks open.
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

// requireRoom: no more nodes than allowed are out of service at once, and a control-plane node goes alone.
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

// judgeEnd is about what is missing when all is over.
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
