package policy

import (
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/emergency"
	"drydock.dev/drydock/internal/policies"
	"drydock.dev/drydock/internal/rollout"
)

// Reasons of running clusters.
const (
	reasonSoaking = "Soaking"
	// reasonRemoving: the cluster still has its previous item.
	reasonRemoving = "RemovingPrevious"
	ReasonPaused   = rollout.ReasonPaused // a held cluster has emergency.ReasonHeld
	reasonPending  = "Pending"
)

// status is the status of a running cluster.
func (s *sequence) status(m *member) ranv1.ClusterStatus {
	compliance := m.compliance.Of(m.progress.Policy)
	status := ranv1.ClusterStatus{Name: m.Cluster, State: m.step.State, Reason: compliance.String(), Message: s.items.WaitMessage()}
	if status.Reason == "" {
		status.Reason = reasonPending
	}
	if m.installPlans != "" {
		status.Message += "; " + m.installPlans
	}
	s.items.Describe(&status, m.progress.Policy, compliance)
	switch {
	case m.placement == isHeld:
		status.Reason, status.Message = s.holdReason(m)
	case m.placement == isRemoving:
		status.Reason, status.Message = reasonRemoving, "waiting until the agent of the cluster has removed the previous one"
	case m.placement == isRefused:
		status.Reason, status.Message = m.refusal.Reason, m.refusal.Message+"; retried until the timeout"
	case m.step.State == ranv1.ClusterSoaking:
		status.Reason, status.Message = reasonSoaking, "must stay so until "+m.step.Until.UTC().Format("15:04:05Z")
	case m.step.Waiting:
		status.Reason, status.Message = s.holdReason(m)
	case m.unselectable != "" && compliance != policies.Compliant:
		status.Reason, status.Message = ranv1.ReasonWaitingForPlacement, m.unselectable
	case compliance == policies.Outdated:
		status.Message = "it complied before the policy was changed or enforced; waiting for its next report"
	case m.placement == isPlaced && m.replacing:
		status.Message += "; " + s.items.ReplacedMessage()
	}
	return status
}

// holdReason is why the current item, or the next one, may not start on a cluster.
func (s *sequence) holdReason(m *member) (reason, message string) {
	which := "the next"
	switch {
	case m.placement == isHeld:
		which = "it"
	case !m.progress.Begun:
		which = "the first"
	}
	if hold := s.rollout.Hold(m.Cluster); hold != nil {
		return emergency.Reason(*hold), which + " may not begin: " + hold.String()
	}
	return ReasonPaused, which + " may not begin while the rollout is paused"
}
