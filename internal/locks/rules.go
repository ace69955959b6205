package locks

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	lcmv1 "drydock.dev/drydock/internal/apis/lcm/v1alpha1"
)

// decideCluster applies the rules of the cluster's lock: it is released for a request once the application is healthy, and then stays released,
// healthy or not, until that request is deleted.
func (a *application) decideCluster() {
	d := &a.cluster
	switch {
	case len(a.requests) == 0 && d.From == lcmv1.LockInactive:
		d.be(lcmv1.LockActive, RequestGone, "")
	case len(a.requests) == 0:
		d.be(lcmv1.LockActive, NoRequest, "")
	case a.otherRelease(a.requests) != "" && d.From != lcmv1.LockFailed:
		d.be(lcmv1.LockActive, OtherRelease, a.otherRelease(a.requests))
	case a.otherRelease(a.requests) != "":
		d.be(lcmv1.LockFailed, MarkedFailed, d.Message)
	case a.released():
		d.be(lcmv1.LockInactive, RequestStands, "")
	default:
		a.releaseWhenHealthy()
	}
	if d.To == lcmv1.LockInactive {
		a.after.Cluster = served(a.requests)
	}
}

// otherRelease says which release is requested if none of the requests is for that of the application; "": one is, or there are no requests.
func (a *application) otherRelease(requests []request) string {
	suits := func(r request) bool { return r.release == "" || r.release == a.policy.Release }
	if a.policy.Release == "" || len(requests) == 0 || slices.ContainsFunc(requests, suits) {
		return ""
	}
	return fmt.Sprintf("request %s is for release %s, and the application has release %s", requests[0].name, requests[0].release, a.policy.Release)
}

// released reports whether the cluster's lock was released for a request that still exists, by this release of the application.
func (a *application) released() bool {
	if a.policy.Release != "" && a.lock != nil && a.lock.Status.Release != a.policy.Release {
		return false
	}
	lastServed := a.before.Cluster
	if len(lastServed) == 0 {
		lastServed = served(a.requests) // another client made it inactive for the requests of that time
	}
	return a.cluster.From == lcmv1.LockInactive && anyExists(lastServed, a.requests)
}

// wholeNow is now as the API stores it, in whole seconds.
func (a *application) wholeNow() metav1.Time {
	return metav1.NewTime(a.now.UTC().Truncate(time.Second))
}

// recheckBy schedules the next decision at that time at the latest.
func (a *application) recheckBy(instant time.Time) {
	if a.recheckAt == nil || instant.Before(*a.recheckAt) {
		a.recheckAt = &instant
	}
}

// settle decides everything about a node that does not depend on other nodes; grant decides the rest.
func (a *application) settle(n *node) {
	d := &n.decided
	inMaintenance := n.permit != nil && anyExists(n.permit.Requests, n.requests)
	out := n.permit != nil && d.From != lcmv1.LockActive
	switch {
	case n.disabled:
		n.keepDisabled()
	case out && (d.From != lcmv1.LockFailed || n.deleting()) && len(n.requests) > 0:
		// A maintainer that finds the lock inactive takes the node out of service, no matter for which request it was released. A deleted lock is
		// released too.
		d.be(lcmv1.LockInactive, RequestStands, "")
		n.keeps = &Permit{Requests: served(n.requests)}
		d.EndsPermit = !inMaintenance
	case n.deleting():
		n.wants = true // the application leaves the node, ready or not
	case out && !inMaintenance && !n.presence.ready:
		a.awaitReturn(n)
	case out && !n.presence.ready:
		d.be(lcmv1.LockFailed, MarkedFailed, d.Message)
		n.keeps = &Permit{Requests: served(n.requests)}
	case !n.presence.ready && (len(n.requests) > 0 || d.From == lcmv1.LockFailed):
		a.awaitPod(n)
	case len(n.requests) == 0 && out:
		d.be(lcmv1.LockActive, RequestGone, "")
	case len(n.requests) == 0:
		d.be(lcmv1.LockActive, NoRequest, "")
	case a.otherRelease(n.requests) != "" && markedFailed(n):
		d.be(lcmv1.LockFailed, OtherRelease, d.Message)
	case a.otherRelease(n.requests) != "":
		d.be(lcmv1.LockActive, OtherRelease, a.otherRelease(n.requests))
	default:
		n.wants = true
	}
}

// keepDisabled keeps the lock of a disabled node as it is. While that is not active, it counts against the maximum of inactive nodes.
func (n *node) keepDisabled() {
	state := n.decided.From
	switch {
	case state == "" && n.permit != nil: // a released lock was deleted
		state = lcmv1.LockInactive
	case state == "":
		state = lcmv1.LockActive
	}
	n.decided.be(state, NodeDisabled, n.decided.Message)
	if state != lcmv1.LockActive {
		n.keeps = n.permit
	}
}

// awaitReturn keeps a maintained node inactive, and others held for it, until its pod is ready. A failed lock still counts as inactive.
func (a *application) awaitReturn(n *node) {
	since := a.wholeNow()
	if n.permit.AwaitedSince != nil {
		since = *n.permit.AwaitedSince
	}
	n.keeps = &Permit{Requests: n.permit.Requests, AwaitedSince: &since}
	if !a.fails(n, since, notBackInTime) {
		n.decided.be(lcmv1.LockInactive, PodNotBack, fmt.Sprintf("the maintenance is over, but since %s the application is not back: %s",
			since.UTC().Format(time.RFC3339), n.presence.message))
	}
}

// awaitPod holds a requested node while its pod is not ready, which avoids a second interruption. A failed lock stays failed until the pod is ready,
// for any request.
func (a *application) awaitPod(n *node) {
	d := &n.decided
	missing, known := a.before.Missing[n.name]
	if !known || d.From != lcmv1.LockFailed && !anyExists(missing.Requests, n.requests) {
		missing.Since = a.wholeNow()
	}
	if !a.fails(n, missing.Since, notReadyInTime) {
		d.be(lcmv1.LockActive, PodNotReady, n.presence.message)
	}
	if d.Reason == MarkedFailed || d.Reason == PodNotReady && a.deadline() == nil {
		return
	}
	if a.after.Missing == nil {
		a.after.Missing = map[string]Missing{}
	}
	a.after.Missing[n.name] = Missing{Requests: served(n.requests), Since: missing.Since}
}

// The message of a node's lock that failed by its deadline starts with one of these, and no other message does. The time and the missing part follow.
const (
	notBackInTime  = "the maintenance is over, but the application has not been back since "
	notReadyInTime = "cannot release the node: the application is not ready since "
)

// fails marks a node's lock failed if its pod has not been ready since then and the deadline has passed or a person marked it, and reports whether it
// did. It stays failed if the policy changes its deadline or drops it. The message starts with prefix.
func (a *application) fails(n *node, since metav1.Time, prefix string) bool {
	d := &n.decided
	if markedFailed(n) {
		d.be(lcmv1.LockFailed, MarkedFailed, d.Message)
		return true
	}
	if limit := a.deadline(); d.From != lcmv1.LockFailed {
		if limit == nil {
			return false
		}
		if deadline := since.Add(time.Duration(*limit) * time.Second); a.now.Before(deadline) {
			a.recheckBy(deadline)
			return false
		}
	}
	d.be(lcmv1.LockFailed, PodDeadlinePassed, prefix+since.UTC().Format(time.RFC3339)+": "+n.presence.message)
	return true
}

// deadline is how long the application's pod may be missing or not ready, in seconds; nil: without limit.
func (a *application) deadline() *int32 {
	if limit := a.policy.NodePodDeadlineSeconds; limit != nil && *limit != 0 {
		return limit
	}
	return nil
}

// markedFailed reports whether a person, and not a deadline, marked the lock of a node failed.
func markedFailed(n *node) bool {
	d := n.decided
	overdue := strings.HasPrefix(d.Message, notBackInTime) || strings.HasPrefix(d.Message, notReadyInTime)
	return d.From == lcmv1.LockFailed && !overdue
}

// grant releases nodes in the order of their requests, up to the maximum that may be inactive. A recorded permit that was not used yet comes first.
func (a *application) grant() {
	var waiting []*node
	var out []string
	for _, n := range a.nodes {
		if n.wants {
			waiting = append(waiting, n)
		}
		if n.keeps != nil {
			out = append(out, n.name)
		}
	}
	slices.SortFunc(waiting, func(x, y *node) int {
		return cmp.Or(cmp.Compare(rank(x), rank(y)), byAge(x.requests[0], y.requests[0]), cmp.Compare(x.name, y.name))
	})
	for _, n := range waiting {
		if len(out) < a.maxInactiveNodes() {
			n.decided.be(lcmv1.LockInactive, n.releaseReason(), "")
			n.keeps = &Permit{Requests: served(n.requests)}
			out = append(out, n.name)
			continue
		}
		a.queue(n, out, len(a.waiting) < a.maxInactiveNodes())
		a.waiting = append(a.waiting, n.name)
	}
}

// releaseReason is why a node that waited is released.
func (n *node) releaseReason() Reason {
	if n.deleting() {
		return DeletionRequested
	}
	return PodReady
}

// queue holds a node that must wait for others. Only the next nodes name those: the locks of all others would be written again with each change.
func (a *application) queue(n *node, out []string, next bool) {
	if markedFailed(n) {
		n.decided.be(lcmv1.LockFailed, MaxInactiveNodes, n.decided.Message)
		return
	}
	const named = 3
	slices.Sort(out)
	first := strings.Join(out[:min(named, len(out))], ", ")
	switch {
	case !next:
		first = "nodes that were requested earlier"
	case len(out) > named:
		first += fmt.Sprintf(" and %d more", len(out)-named)
	}
	n.decided.be(lcmv1.LockActive, MaxInactiveNodes, fmt.Sprintf("waits for %s (at most %d inactive at once)", first, a.maxInactiveNodes()))
}

// rank is lower for a node that has a permit for its current requests.
func rank(n *node) int {
	if n.permit != nil && anyExists(n.permit.Requests, n.requests) {
		return 0
	}
	return 1
}

func (a *application) maxInactiveNodes() int {
	if limit := a.policy.MaxInactiveNodes; limit != nil {
		return int(*limit)
	}
	return 1
}

// decision assembles the decision, with the writes that it needs.
func (a *application) decision() Decision {
	decision := Decision{RecheckAt: a.recheckAt, Waiting: a.waiting}
	for _, n := range a.nodes {
		if n.keeps != nil {
			a.after.Nodes[n.name] = *n.keeps
		}
		decision.Locks = append(decision.Locks, a.nodeDecision(n))
	}
	found, decided := a.progress()
	decision.Locks = append(append(decision.Locks, a.clusterDecision(found)), a.surplus...)
	slices.SortStableFunc(decision.Locks, func(x, y LockDecision) int {
		return cmp.Or(cmp.Compare(x.Kind, y.Kind), cmp.Compare(x.Node, y.Node))
	})
	decision.Progress = decided
	decision.Permits, decision.RecordPermits = a.after, !a.after.same(a.before)
	return decision
}

// clusterDecision reports the observed progress on the cluster's lock: the progress of the decision itself becomes true, and is reported, after it is
// applied.
func (a *application) clusterDecision(found Progress) LockDecision {
	d := a.cluster
	d.Progress, d.Release = found.reported(), a.policy.Release
	d.act(a.lock != nil, a.lock != nil && !d.Matches(a.lock.Status))
	d.Forgets = slices.ContainsFunc(a.before.Cluster, func(s Served) bool { return !a.isRequested(s.UID) })
	if a.lock != nil && a.lock.Status.InactivationProgress != nil {
		d.Gain = d.Progress.Percentage - a.lock.Status.InactivationProgress.Percentage
	}
	return d
}

func (a *application) nodeDecision(n *node) LockDecision {
	d := n.decided
	_, had := a.before.Nodes[n.name]
	d.EndsPermit = had && (d.EndsPermit || n.keeps == nil)
	d.UpdatedFor, d.Forgets = a.maintenancesToRecord(n)
	d.Progress, d.Release = nodeProgress(d.To), a.policy.Release
	d.act(n.lock != nil, d.EndsPermit || d.UpdatedFor != "" || n.lock != nil && !d.Matches(n.lock.Status))
	return d
}

func (d *LockDecision) be(state lcmv1.LockState, reason Reason, message string) {
	d.To, d.Reason, d.Message = state, reason, message
}

// act sets the action for an existing or missing lock; differs: a field of it is not as desired.
func (d *LockDecision) act(exists, differs bool) {
	switch {
	case !exists:
		d.Action = Create
	case differs:
		d.Action = Update
	default:
		d.Action = Keep
	}
}
