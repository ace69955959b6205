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

// decideCluster applies the rules of the cluster's lock: it lets go for a request once the application is healthy, and then stays so,
// healthy or not, until that request is gone.
func (a *application) decideCluster() {
	d := &a.cluster
	switch {
	case len(a.requests) == 0 && d.From == lcmv1.LockInactive:
		d.be(lcmv1.LockActive, RequestGone, "")
	case len(a.requests) == 0:
		d.be(lcmv1.LockActive, NoRequest, "")
	case a.hasLetGo():
		d.be(lcmv1.LockInactive, RequestStands, "")
	default:
		a.letGoWhenHealthy()
	}
	if d.To == lcmv1.LockInactive {
		a.after.Cluster = served(a.requests)
	}
}

// hasLetGo reports whether the cluster's lock has let go for a request that stands.
func (a *application) hasLetGo() bool {
	lastServed := a.before.Cluster
	if len(lastServed) == 0 {
		lastServed = served(a.requests) // someone else made it inactive, for what was asked then
	}
	return a.cluster.From == lcmv1.LockInactive && stands(lastServed, a.requests)
}

// wholeNow is now as it reads after it was written: the API keeps whole seconds.
func (a *application) wholeNow() metav1.Time {
	return metav1.NewTime(a.now.UTC().Truncate(time.Second))
}

// lookAt has the decision made again then at the latest.
func (a *application) lookAt(instant time.Time) {
	if a.nextLook == nil || instant.Before(*a.nextLook) {
		a.nextLook = &instant
	}
}

// settle decides about a node as far as it does not depend on other nodes: the rest want to let go, and grant decides.
func (a *application) settle(n *node) {
	d := &n.decided
	inMaintenance := n.turn != nil && stands(n.turn.Requests, n.requests)
	out := n.turn != nil && d.From != lcmv1.LockActive
	switch {
	case out && d.From != lcmv1.LockFailed && len(n.requests) > 0:
		// Whoever asks and finds the lock inactive takes the node out, whomever it has let go for. One that was deleted has let go, too.
		d.be(lcmv1.LockInactive, RequestStands, "")
		n.keeps = &Turn{Requests: served(n.requests)}
		d.EndsTurn = !inMaintenance
	case out && !inMaintenance && !n.presence.ready:
		a.awaitReturn(n)
	case out && !n.presence.ready:
		d.be(lcmv1.LockFailed, MarkedFailed, d.Message)
		n.keeps = &Turn{Requests: served(n.requests)}
	case !n.presence.ready && (len(n.requests) > 0 || d.From == lcmv1.LockFailed):
		a.awaitPod(n)
	case len(n.requests) == 0 && out:
		d.be(lcmv1.LockActive, RequestGone, "")
	case len(n.requests) == 0:
		d.be(lcmv1.LockActive, NoRequest, "")
	default:
		n.wants = true
	}
}

// awaitReturn keeps a node that was maintained out, and others held back for it, until its pod is ready. One whose lock is failed still
// counts as out.
func (a *application) awaitReturn(n *node) {
	since := a.wholeNow()
	if n.turn.AwaitedSince != nil {
		since = *n.turn.AwaitedSince
	}
	n.keeps = &Turn{Requests: n.turn.Requests, AwaitedSince: &since}
	if !a.fails(n, since, notBackInTime) {
		n.decided.be(lcmv1.LockInactive, PodNotBack, fmt.Sprintf("its maintenance is over, but since %s the application is not back: %s",
			since.UTC().Format(time.RFC3339), n.presence.message))
	}
}

// awaitPod holds a node that is asked for while its pod is not ready: it would go down twice. Once the lock is failed it stays so until the pod is ready,
// whoever asks.
func (a *application) awaitPod(n *node) {
	d := &n.decided
	missing, known := a.before.Missing[n.name]
	if !known || d.From != lcmv1.LockFailed && !stands(missing.Requests, n.requests) {
		missing.Since = a.wholeNow()
	}
	if !a.fails(n, missing.Since, notReadyInTime) {
		d.be(lcmv1.LockActive, PodNotReady, n.presence.message)
	}
	if d.Reason == MarkedFailed || d.Reason == PodNotReady && a.policy.NodePodDeadlineSeconds == nil {
		return
	}
	if a.after.Missing == nil {
		a.after.Missing = map[string]Missing{}
	}
	a.after.Missing[n.name] = Missing{Requests: served(n.requests), Since: missing.Since}
}

// What the lock of a node says that has failed by the deadline, and no other does; since when, and what is missing, comes after it.
const (
	notBackInTime  = "its maintenance is over, but the application has not been back since "
	notReadyInTime = "it cannot let go, the application has not been ready since "
)

// fails has the lock of a node failed whose pod has not been ready since then, and reports whether it is: a person has marked it, or the deadline has passed,
// which tells whoever waits for it. It has passed also where the policy has another one now, or none. What the lock says then begins with these words.
func (a *application) fails(n *node, since metav1.Time, words string) bool {
	d := &n.decided
	if markedFailed(n) {
		d.be(lcmv1.LockFailed, MarkedFailed, d.Message)
		return true
	}
	if limit := a.policy.NodePodDeadlineSeconds; d.From != lcmv1.LockFailed {
		if limit == nil {
			return false
		}
		if deadline := since.Add(time.Duration(*limit) * time.Second); a.now.Before(deadline) {
			a.lookAt(deadline)
			return false
		}
	}
	d.be(lcmv1.LockFailed, PodDeadlinePassed, words+since.UTC().Format(time.RFC3339)+": "+n.presence.message)
	return true
}

// markedFailed reports whether it was a person who has marked the lock of a node failed, and no deadline.
func markedFailed(n *node) bool {
	d := n.decided
	overdue := strings.HasPrefix(d.Message, notBackInTime) || strings.HasPrefix(d.Message, notReadyInTime)
	return d.From == lcmv1.LockFailed && !overdue
}

// grant lets nodes go in the order in which they were asked for, as many as may be out at once. A turn that was recorded and not used
// yet comes first.
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
			n.decided.be(lcmv1.LockInactive, PodReady, "")
			n.keeps = &Turn{Requests: served(n.requests)}
			out = append(out, n.name)
			continue
		}
		a.queue(n, out)
	}
}

// queue holds a node whose turn has not come.
func (a *application) queue(n *node, out []string) {
	if markedFailed(n) {
		n.decided.be(lcmv1.LockFailed, MaxInactiveNodes, n.decided.Message)
		return
	}
	const named = 3
	slices.Sort(out)
	first := strings.Join(out[:min(named, len(out))], ", ")
	if len(out) > named {
		first += fmt.Sprintf(" and %d more", len(out)-named)
	}
	n.decided.be(lcmv1.LockActive, MaxInactiveNodes, fmt.Sprintf("its turn comes after %s (at most %d at once)", first, a.maxInactiveNodes()))
}

// rank is lower for a node that has a turn for what is asked now.
func rank(n *node) int {
	if n.turn != nil && stands(n.turn.Requests, n.requests) {
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

// decision puts together what was decided, with what has to be done for it.
func (a *application) decision() Decision {
	decision := Decision{NextLook: a.nextLook}
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
	decision.Turns, decision.RecordTurns = a.after, !a.after.same(a.before)
	return decision
}

// clusterDecision has the cluster's lock report the progress that was found: what the decision makes of it is so only once that is carried
// out, and is reported then.
func (a *application) clusterDecision(found Progress) LockDecision {
	d := a.cluster
	d.Progress = found.reported()
	d.act(a.lock != nil, a.lock != nil && !d.Matches(a.lock.Status))
	if a.lock != nil && a.lock.Status.InactivationProgress != nil {
		d.ReportsLess = d.Progress.Percentage < a.lock.Status.InactivationProgress.Percentage
	}
	return d
}

func (a *application) nodeDecision(n *node) LockDecision {
	d := n.decided
	_, had := a.before.Nodes[n.name]
	d.EndsTurn = had && (d.EndsTurn || n.keeps == nil)
	d.UpdatedFor = a.toRemember(n)
	d.Progress = nodeProgress(d.To)
	d.act(n.lock != nil, d.EndsTurn || d.UpdatedFor != "" || n.lock != nil && !d.Matches(n.lock.Status))
	return d
}

func (d *LockDecision) be(state lcmv1.LockState, reason Reason, message string) {
	d.To, d.Reason, d.Message = state, reason, message
}

// act says what has to be done with a lock that exists or not; differs: something of it is not as it should be.
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
