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
	// MaxOutOfService is how many nodes may be out of service at the same time.
	MaxOutOfService int
	// Maintained are the nodes that must be maintained exactly once. Other nodes may be maintained at most once.
	Maintained []string
	// MaintainedTwice are nodes with two successive requests, which may be maintained for each.
	MaintainedTwice []string
	// WithJob are the nodes that must have had a Job, each as often as it is listed.
	WithJob []string
	// AnswersLost are times when answers to Drydock were lost. It may then repeat an eviction. The repetition is harmless: the first eviction set the
	// deletionTimestamp, and the second has the same UID and no grace period, so the API server changes nothing.
	AnswersLost []Interval
}

// Interval is a time in which answers were lost, including both ends.
type Interval struct{ From, To time.Time }

// answerLatency is the longest time between an answer and its arrival.
const answerLatency = time.Second

// contains reports whether the answer of an action may be lost.
func (i Interval) contains(d fleet.Action) bool {
	return !d.Received.After(i.To) && !d.At.Before(i.From.Add(-answerLatency))
}

// Violations returns forbidden actions, in order, and then missing ones.
func (c Cluster) Violations() []string {
	actions := slices.Clone(c.Actions)
	// Sort by arrival: a request that another one caused arrives later, but may be answered earlier.
	slices.SortStableFunc(actions, func(a, b fleet.Action) int { return a.Received.Compare(b.Received) })
	r := replay{
		cluster: c, nodes: map[string]*node{}, locks: map[string]lock{}, clusterLocks: map[string]bool{},
		evicted: map[types.UID]fleet.Action{}, requests: map[string]string{},
	}
	for _, action := range actions {
		r.now = action
		r.apply()
	}
	r.checkEnd()
	return r.violations
}

// node is the state of a node after the actions so far.
type node struct {
	// cordonedBy is the user who cordoned the node; empty: it is not cordoned.
	cordonedBy string
	// owner is the maintenance of the node; empty: none.
	owner string
	// lost is when another user deleted the node or removed our mark.
	lost time.Time
	// maintenances since the start, in order.
	maintenances []*maintenance
}

// maintenance is what one owner did on a node.
type maintenance struct {
	owner           string
	starts, returns int
	jobs            int
}

type lock struct {
	node     string
	inactive bool
	// managed: Drydock manages the lock. served are the requests for which it was released: those that existed then or when the node was taken out of
	// service.
	managed bool
	served  []string
}

// replay processes the actions of a cluster.
type replay struct {
	cluster      Cluster
	now          fleet.Action
	nodes        map[string]*node
	locks        map[string]lock
	clusterLocks map[string]bool            // whether inactive
	evicted      map[types.UID]fleet.Action // the last time
	requests     map[string]string          // node by name of its request
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

func (r *replay) apply() {
	d := r.now
	switch d.What {
	case fleet.ActionLock:
		r.locks[d.Object] = lock{node: d.Node}
	case fleet.ActionLockGone:
		delete(r.locks, d.Object)
	case fleet.ActionLockInactive, fleet.ActionLockActive, fleet.ActionLockFailed:
		r.applyLock()
	case fleet.ActionClusterLock, fleet.ActionClusterLockInactive, fleet.ActionClusterLockActive, fleet.ActionClusterLockFailed:
		r.clusterLocks[d.Object] = d.What == fleet.ActionClusterLockInactive
	case fleet.ActionClusterLockGone:
		delete(r.clusterLocks, d.Object)
	case fleet.ActionNodeGone:
		r.nodes[d.Object] = &node{lost: d.At, maintenances: r.node(d.Object).maintenances}
	case fleet.ActionForeign:
		r.violated("Drydock has changed a foreign object: %s", d.Object)
	default:
		r.applyMaintenance()
	}
}

// applyLock checks a lock that Drydock manages: it releases one node at a time, only on request, and becomes active again only when the request is
// gone.
func (r *replay) applyLock() {
	d, before := r.now, r.locks[r.now.Object]
	now := lock{node: before.node, inactive: d.What == fleet.ActionLockInactive, managed: d.ByLockController(), served: before.served}
	r.locks[d.Object] = now
	if !now.managed || now.inactive == before.inactive {
		return
	}
	if !now.inactive {
		for _, request := range before.served {
			if _, exists := r.requests[request]; exists {
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
		if l := r.locks[other]; other != d.Object && l.managed && l.inactive {
			r.violated("lock %s releases %s while %s has released %s", d.Object, now.node, other, l.node)
		}
	}
}

// requestsFor returns the requests for a node.
func (r *replay) requestsFor(node string) (requests []string) {
	for _, request := range sorted(r.requests) {
		if r.requests[request] == node {
			requests = append(requests, request)
		}
	}
	return requests
}

// applyMaintenance checks the actions of maintenances, and manual cordons.
func (r *replay) applyMaintenance() {
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
		r.takeOutOfService()
	case fleet.ActionUncordon, fleet.ActionUnmark:
		r.returnToService()
	case fleet.ActionEviction:
		r.evict()
	case fleet.ActionJob:
		r.startJob()
	}
}

// takeOutOfService checks the cordon of a node, or the mark of a node that another user has cordoned.
func (r *replay) takeOutOfService() {
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
	r.requireLocksReleased("take out of service", d.Node)
	for name, l := range r.locks {
		if l.node == d.Node && l.inactive {
			l.served = r.requestsFor(d.Node) // a released lock is released for all requests
			r.locks[name] = l
		}
	}
	r.requireCapacity(d.Node)
	if !d.At.Before(r.cluster.Since) {
		m := n.maintenanceOf(d.Owner)
		if m.starts++; m.starts > 1 {
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

// returnToService checks the uncordon of a node, or the removal of our mark.
func (r *replay) returnToService() {
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
		r.violated("the eviction of %s has no UID", d.Object)
		return
	}
	if before, again := r.evicted[d.UID]; again && !r.cluster.answerLost(before) {
		r.violated("pod %s (%s) is evicted twice", d.Object, d.UID)
	}
	r.evicted[d.UID] = d
	if d.Node == "" {
		r.violated("pod %s is evicted, but is on no node", d.Object)
		return
	}
	r.requireOutOfService("the eviction of "+d.Object+" from", d.Node)
}

// answerLost reports whether the answer of an action may have been lost.
func (c Cluster) answerLost(d fleet.Action) bool {
	return slices.ContainsFunc(c.AnswersLost, func(i Interval) bool { return i.contains(d) })
}

func (r *replay) startJob() {
	d := r.now
	if !d.ByDrydock() || d.NotScheduled {
		return
	}
	r.requireOutOfService("job "+d.Object+" on", d.Node)
	if d.At.Before(r.cluster.Since) {
		return
	}
	m := r.node(d.Node).maintenanceOf(d.Owner)
	if m.jobs++; m.jobs > 1 {
		r.violated("the work on %s for %s is done twice", d.Node, d.Owner)
	}
}

// noticeLimit is how long Drydock may take to notice that another user removed its mark.
const noticeLimit = 2 * time.Second

// requireOutOfService requires, for a disruption, that the node is out of service and its locks are inactive.
func (r *replay) requireOutOfService(what, name string) {
	if n := r.node(name); n.owner == "" && r.now.Received.After(n.lost.Add(noticeLimit)) {
		r.violated("%s %s, which is not under maintenance", what, name)
	}
	r.requireLocksReleased(what, name)
}

func (r *replay) requireLocksReleased(what, name string) {
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

// requireCapacity requires that at most MaxOutOfService nodes are out of service, and no other node together with a control-plane node.
func (r *replay) requireCapacity(node string) {
	var out []string
	for _, name := range sorted(r.nodes) {
		if r.nodes[name].owner != "" {
			out = append(out, name)
		}
	}
	switch {
	case len(out) > r.cluster.MaxOutOfService:
		r.violated("%d nodes are out of service, %d may be: %v", len(out), r.cluster.MaxOutOfService, out)
	case len(out) > 1 && slices.ContainsFunc(out, func(name string) bool { return slices.Contains(r.cluster.ControlPlane, name) }):
		r.violated("%s is taken out of service, and a node of the control plane is not alone: %v", node, out)
	}
}

// checkEnd checks that all nodes are returned and all expected maintenances happened.
func (r *replay) checkEnd() {
	for _, name := range sorted(r.nodes) {
		n := r.nodes[name]
		if n.owner != "" {
			r.violated("%s is still out of service for %s", name, n.owner)
		}
		if len(n.maintenances) > 1 && !(len(n.maintenances) == 2 && slices.Contains(r.cluster.MaintainedTwice, name)) {
			r.violated("%s is maintained %d times", name, len(n.maintenances))
		}
	}
	for _, name := range r.cluster.Maintained {
		maintenances := r.node(name).maintenances
		if len(maintenances) == 0 {
			r.violated("%s is not maintained", name)
		}
		wanted, jobs := count(r.cluster.WithJob, name), 0
		for _, m := range maintenances {
			jobs += m.jobs
		}
		for _, m := range maintenances {
			if m.starts != 1 || m.returns != 1 || wanted > 0 && jobs != wanted {
				r.violated("%s is taken out of service %d times, worked on %d times and returned %d times", name, m.starts, m.jobs, m.returns)
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
