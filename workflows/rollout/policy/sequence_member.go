package policy

import (
	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/activities/remediation"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/policies"
)

// member is a cluster that is running, or from which an item is still to be removed.
type member struct {
	*ClusterWork
	state    memberState
	progress policies.Progress
	step     policies.Step
	// compliance is the observed compliance status; "": none yet.
	compliance policies.ComplianceStatus
	// desired is the generation of the last change of the cluster's target, and placed the generation that was last observed on the hub.
	desired, placed int64
	placement       memberPlacement
	// refusal is why the hub refuses the placement; nil: it does not refuse it.
	refusal *remediation.RefusedPlacement
	// replacing: the current item was deleted from the cluster, and is placed again.
	replacing bool
	// unselectable is why placements on the hub cannot select the cluster; "": they can.
	unselectable string
	// installPlans is what its Subscriptions wait for; "": nothing.
	installPlans string
	// left is the status of the manifest work that the cluster lost when it was cancelled; nil: not known.
	left *ranv1.ManifestResourceStatus
}

// memberState is the state of a cluster in a sequence.
type memberState string

// A cluster is waiting, then active, and ends. If it is cancelled while active, its item is removed before it ends.
const (
	// memberWaiting: the first item has not started. The cluster has no item.
	memberWaiting memberState = "waiting"
	// memberActive: the target is the current item.
	memberActive memberState = "active"
	// memberCancelling: the target is no item. The work ends when that is observed.
	memberCancelling memberState = "cancelling"
	// memberEnded: the work has ended. The target is no item, unless the cluster keeps its last one.
	memberEnded memberState = "ended"
)

// memberPlacement is the observed placement of the current item of an active cluster.
type memberPlacement string

const (
	// notObserved: the hub was not read yet.
	notObserved memberPlacement = ""
	// isPlaced: the cluster has the item.
	isPlaced memberPlacement = "placed"
	// isHeld: the cluster does not have the item, and may not start it now.
	isHeld memberPlacement = "held"
	// isRemoving: the cluster still has its previous item, which is being removed.
	isRemoving memberPlacement = "removing"
	// isRefused: the hub refuses to place the item, or to remove another one.
	isRefused memberPlacement = "refused"
)

// running reports whether the work on the cluster continues.
func (m *member) running() bool { return m.state == memberWaiting || m.state == memberActive }

// waiting reports whether the cluster is ready for an item that may not start yet.
func (m *member) waiting() bool { return m.running() && m.step.Waiting }

// soaking reports whether the cluster must stay compliant with its item for some time.
func (m *member) soaking() bool { return m.running() && m.step.State == ranv1.ClusterSoaking }

// target is the desired item of the cluster.
func (m *member) target(mayBegin bool) policies.Target {
	if m.state != memberActive {
		return policies.Target{Cluster: m.Cluster, Item: policies.NoItem}
	}
	return policies.Target{Cluster: m.Cluster, Item: m.progress.Policy, Held: !mayBegin, Displaced: m.replacing}
}

// activate starts the current item on a cluster.
func (s *sequence) activate(m *member) {
	m.state, m.placement, m.refusal, m.replacing, m.installPlans = memberActive, notObserved, nil, false, ""
	s.requestPlacement(m, true)
}

// replaceDeletedItem places the current item again after it was deleted from a cluster.
func (s *sequence) replaceDeletedItem(ctx workflow.Context, m *member) {
	s.log(ctx, m, m.progress.Policy, "Item deleted")
	m.placement, m.replacing = notObserved, true
	s.requestPlacement(m, true)
}

// awaitCancel cancels the work on a cluster if its context is cancelled before the work has ended.
func (s *sequence) awaitCancel(ctx workflow.Context, m *member) {
	ended := func() bool { return m.state == memberEnded }
	if workflow.Await(ctx, ended) == nil || ended() {
		return
	}
	ctx, _ = workflow.NewDisconnectedContext(ctx)
	s.log(ctx, m, m.progress.Policy, "Cluster cancelled")
	if m.state == memberActive {
		m.state = memberCancelling
		s.requestPlacement(m, true)
		s.awaitRemoved(ctx, m)
	}
	s.end(ctx, m, ranv1.ClusterStatus{State: ranv1.ClusterCancelled})
}

// end ends the work on a cluster. Later calls do nothing.
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
		if result.CurrentManifestWork != nil {
			result.CurrentManifestWork.Status = m.left
		}
	default: // a retry needs the planned item
		result.CurrentPolicy = s.rollout.Cluster(m.Cluster).CurrentPolicy
	}
	m.Ended(ctx, result)
}

// recordPlacement records the observed placement of a cluster. It reports whether the status of the cluster changes.
func (s *sequence) recordPlacement(ctx workflow.Context, m *member, held, removing bool, refusal *remediation.RefusedPlacement) bool {
	before, item := m.placement, m.progress.Policy
	m.refusal = refusal
	switch {
	case refusal != nil:
		m.placement = isRefused
	case held:
		m.placement = isHeld
	case removing:
		m.placement = isRemoving
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
	return m.running() && (refusal != nil || m.placement != before && (before != notObserved || held || removing || m.replacing))
}

// logStep logs the progress of a cluster with an item, given the step before.
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

// log logs a transition of a cluster. All transitions go through it.
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
