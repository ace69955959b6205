package policy

import (
	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/activities/remediation"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/policies"
)

// member is a cluster that a sequence works on, or that may still have an item of it.
type member struct {
	*ClusterWork
	state    memberState
	progress policies.Progress
	step     policies.Step
	// compliance is the observed compliance status; "": it was not observed yet.
	compliance policies.ComplianceStatus
	// desired is the generation of the last change of where the cluster is to be, and placed the generation that was observed on the hub.
	desired, placed int64
	placement       memberPlacement
	// refusal is why the hub refuses the placement; nil: it does not.
	refusal *remediation.RefusedPlacement
	// replacing: the current item was deleted from the cluster, and is to be placed again.
	replacing bool
}

// memberState is what a sequence does with a cluster.
type memberState string

// A cluster is waiting, then active, and ends. One that is cancelled while it is active is withdrawn before it ends.
const (
	// memberWaiting: the first item has not begun. The cluster has no item.
	memberWaiting memberState = "waiting"
	// memberActive: the cluster is to have its current item.
	memberActive memberState = "active"
	// memberWithdrawing: the cluster is to have no item. Its work ends when that is observed.
	memberWithdrawing memberState = "withdrawing"
	// memberEnded: its work has ended. The cluster is to have no item, unless its last one stays.
	memberEnded memberState = "ended"
)

// memberPlacement is what was observed of the current item of an active cluster.
type memberPlacement string

const (
	// notObserved: the hub was not asked yet.
	notObserved memberPlacement = ""
	// isPlaced: the cluster has the item.
	isPlaced memberPlacement = "placed"
	// isHeld: the cluster does not have the item, which may not begin now.
	isHeld memberPlacement = "held"
	// isRefused: the hub refuses the item, or to remove another one.
	isRefused memberPlacement = "refused"
)

// running reports whether the cluster continues with its items.
func (m *member) running() bool { return m.state == memberWaiting || m.state == memberActive }

// waiting reports whether the cluster is ready for an item that may not begin.
func (m *member) waiting() bool { return m.running() && m.step.Waiting }

// soaking reports whether the cluster must stay compliant with its item for a while.
func (m *member) soaking() bool { return m.running() && m.step.State == ranv1.ClusterSoaking }

// target is where the cluster is to be.
func (m *member) target(mayBegin bool) policies.Target {
	if m.state != memberActive {
		return policies.Target{Cluster: m.Cluster, Item: policies.NoItem}
	}
	return policies.Target{Cluster: m.Cluster, Item: m.progress.Policy, Held: !mayBegin}
}

// activate begins the current item on a cluster.
func (s *sequence) activate(m *member) {
	m.state, m.placement, m.refusal, m.replacing = memberActive, notObserved, nil, false
	s.requestPlacement(m, true)
}

// replaceDeletedItem takes in that the current item was deleted from a cluster.
func (s *sequence) replaceDeletedItem(ctx workflow.Context, m *member) {
	s.log(ctx, m, m.progress.Policy, "Item deleted")
	m.placement, m.replacing = notObserved, true
	s.requestPlacement(m, true)
}

// awaitWithdrawal withdraws a cluster when its context is cancelled before its work has ended.
func (s *sequence) awaitWithdrawal(ctx workflow.Context, m *member) {
	ended := func() bool { return m.state == memberEnded }
	if workflow.Await(ctx, ended) == nil || ended() {
		return
	}
	ctx, _ = workflow.NewDisconnectedContext(ctx)
	s.log(ctx, m, m.progress.Policy, "Cluster withdrawn")
	if m.state == memberActive {
		m.state = memberWithdrawing
		s.requestPlacement(m, true)
		s.awaitRemoved(ctx, m)
	}
	s.end(ctx, m, ranv1.ClusterStatus{State: ranv1.ClusterCancelled})
}

// end ends the work on a cluster, once.
func (s *sequence) end(ctx workflow.Context, m *member, result ranv1.ClusterStatus) {
	before := m.state
	if before == memberEnded {
		return
	}
	m.state = memberEnded
	s.log(ctx, m, m.progress.Policy, "Cluster ended", "state", result.State, "reason", result.Reason)
	switch {
	case before == memberWaiting, result.State == ranv1.ClusterComplete && s.items.KeepsLastItem():
		delete(s.members, m.Cluster)
	case before == memberActive:
		s.requestPlacement(m, false)
	}
	switch {
	case result.State == ranv1.ClusterComplete:
	case m.progress.Begun:
		s.items.Describe(&result, m.progress.Policy, m.compliance.Of(m.progress.Policy))
	default: // a retry must know the item that was planned
		result.CurrentPolicy = s.rollout.Cluster(m.Cluster).CurrentPolicy
	}
	m.Ended(ctx, result)
}

// recordPlacement takes in what was observed of the placement of a cluster. It reports whether the cluster's status changes with it.
func (s *sequence) recordPlacement(ctx workflow.Context, m *member, held bool, refusal *remediation.RefusedPlacement) bool {
	before, item := m.placement, m.progress.Policy
	m.refusal = refusal
	switch {
	case refusal != nil:
		m.placement = isRefused
	case held:
		m.placement = isHeld
	case m.state == memberActive:
		m.placement, m.placed = isPlaced, m.desired
	default:
		delete(s.members, m.Cluster)
		s.log(ctx, m, item, "Cluster cleaned up")
		return false
	}
	if m.placement != before {
		s.log(ctx, m, item, "Item "+string(m.placement))
	}
	return m.running() && (refusal != nil || m.placement != before && (before != notObserved || held || m.replacing))
}

// logStep logs what the compliance of a cluster means for the item that it was on, after a step before.
func (s *sequence) logStep(ctx workflow.Context, m *member, item int, before policies.Step, relapsed bool) {
	passed := m.step.State == ranv1.ClusterComplete || m.progress.Policy != item
	switch {
	case m.state != memberActive:
	case passed:
		s.log(ctx, m, item, "Cluster compliant")
	case before.State == ranv1.ClusterSoaking && (relapsed || m.step.State == ranv1.ClusterRunning && !m.step.Waiting):
		s.log(ctx, m, item, "Cluster relapsed")
	case before.State != ranv1.ClusterSoaking && m.step.State == ranv1.ClusterSoaking:
		s.log(ctx, m, item, "Cluster soaking", "until", m.step.Until.UTC())
	}
}

// log is the one place that logs the transitions of clusters.
func (s *sequence) log(ctx workflow.Context, m *member, item int, transition string, details ...any) {
	object := s.rollout.Request()
	keys := []any{"rollout", object.Namespace + "/" + object.Name, "cluster", m.Cluster, "batch", m.Batch}
	if m.progress.Begun && item < s.items.Count() {
		keys = append(keys, "item", s.items.Name(item))
	}
	if m.refusal != nil {
		keys = append(keys, "reason", m.refusal.Reason, "message", m.refusal.Message)
	}
	workflow.GetLogger(ctx).Info(transition, append(keys, details...)...)
}
