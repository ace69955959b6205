package statuspage

import (
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	sreportalv1 "drydock.dev/drydock/internal/apis/sreportal/v1alpha1"
	"drydock.dev/drydock/internal/portal"
	"drydock.dev/drydock/internal/rollout"
	statusv1 "drydock.dev/drydock/internal/statuspage/proto/drydock/v1"
)

// Conversions of the view to API messages.

// statusMessages are the statuses of the API; any other status is unspecified.
var statusMessages = map[sreportalv1.ServiceStatus]statusv1.ServiceStatus{
	sreportalv1.StatusOperational:   statusv1.ServiceStatus_SERVICE_STATUS_OPERATIONAL,
	sreportalv1.StatusUnknown:       statusv1.ServiceStatus_SERVICE_STATUS_UNKNOWN,
	sreportalv1.StatusMaintenance:   statusv1.ServiceStatus_SERVICE_STATUS_MAINTENANCE,
	sreportalv1.StatusDegraded:      statusv1.ServiceStatus_SERVICE_STATUS_DEGRADED,
	sreportalv1.StatusPartialOutage: statusv1.ServiceStatus_SERVICE_STATUS_PARTIAL_OUTAGE,
	sreportalv1.StatusMajorOutage:   statusv1.ServiceStatus_SERVICE_STATUS_MAJOR_OUTAGE,
}

// heldText describes a hold; empty without one.
func heldText(hold *drydockv1.Hold) string {
	if hold == nil {
		return ""
	}
	return hold.String()
}

// phaseMessages are the phases of the API.
var phaseMessages = map[sreportalv1.MaintenancePhase]statusv1.MaintenancePhase{
	sreportalv1.PhaseUpcoming:   statusv1.MaintenancePhase_MAINTENANCE_PHASE_UPCOMING,
	sreportalv1.PhaseInProgress: statusv1.MaintenancePhase_MAINTENANCE_PHASE_IN_PROGRESS,
	sreportalv1.PhaseCompleted:  statusv1.MaintenancePhase_MAINTENANCE_PHASE_COMPLETED,
}

// severityMessages and incidentPhaseMessages are those of the API.
var (
	severityMessages = map[sreportalv1.IncidentSeverity]statusv1.IncidentSeverity{
		sreportalv1.SeverityMinor:    statusv1.IncidentSeverity_INCIDENT_SEVERITY_MINOR,
		sreportalv1.SeverityMajor:    statusv1.IncidentSeverity_INCIDENT_SEVERITY_MAJOR,
		sreportalv1.SeverityCritical: statusv1.IncidentSeverity_INCIDENT_SEVERITY_CRITICAL,
	}
	incidentPhaseMessages = map[sreportalv1.IncidentPhase]statusv1.IncidentPhase{
		sreportalv1.IncidentInvestigating: statusv1.IncidentPhase_INCIDENT_PHASE_INVESTIGATING,
		sreportalv1.IncidentIdentified:    statusv1.IncidentPhase_INCIDENT_PHASE_IDENTIFIED,
		sreportalv1.IncidentMonitoring:    statusv1.IncidentPhase_INCIDENT_PHASE_MONITORING,
		sreportalv1.IncidentResolved:      statusv1.IncidentPhase_INCIDENT_PHASE_RESOLVED,
	}
)

// phaseOf is the reverse of phaseMessages; empty: unspecified.
func phaseOf(message statusv1.MaintenancePhase) sreportalv1.MaintenancePhase {
	for phase, m := range phaseMessages {
		if m == message {
			return phase
		}
	}
	return ""
}

// statusOf is the reverse of statusMessages; empty: unspecified.
func statusOf(message statusv1.ServiceStatus) sreportalv1.ServiceStatus {
	for status, m := range statusMessages {
		if m == message {
			return status
		}
	}
	return ""
}

func freshnessOf(v *View) *statusv1.Freshness {
	freshness := &statusv1.Freshness{AsOf: instant(v.AsOf)}
	if v.Trouble != nil {
		freshness.Stale, freshness.StaleSince, freshness.Trouble = true, instant(v.Trouble.Since), v.Trouble.Message
	}
	return freshness
}

func componentMessage(c portal.ComponentView) *statusv1.Component {
	message := &statusv1.Component{
		Name: c.Name, DisplayName: c.DisplayName, Description: c.Description, Group: c.Group, Link: c.Link,
		Status: statusMessages[c.Status], Declared: statusMessages[c.Declared], Since: instant(c.Since),
		Because: c.Because, BecauseMore: int32(c.BecauseMore),
	}
	for _, day := range c.Days {
		message.Days = append(message.Days, &statusv1.Day{Date: day.Date, Worst: statusMessages[day.Worst]})
	}
	return message
}

func maintenanceMessage(m portal.MaintenanceView) *statusv1.Maintenance {
	return &statusv1.Maintenance{
		Name: m.Name, Title: m.Title, Description: m.Description, Components: m.Components, Start: instant(m.Start), End: instant(m.End),
		Phase: phaseMessages[m.Phase], AffectedStatus: statusMessages[m.AffectedStatus], Window: m.Window, Cancelled: m.Cancelled,
	}
}

func incidentMessage(i portal.IncidentView) *statusv1.Incident {
	return &statusv1.Incident{
		Name: i.Name, Title: i.Title, Severity: severityMessages[i.Severity], Phase: incidentPhaseMessages[i.Phase], Components: i.Components,
		StartedAt: instant(i.StartedAt), ResolvedAt: instantAt(i.ResolvedAt), Message: i.Message,
	}
}

// upgradeMessage describes a rollout as it is now.
func upgradeMessage(u Upgrade, ui webUI, now time.Time) *statusv1.Upgrade {
	state, words := verdict(u)
	run, counts := u.Status.Status, u.Status.Counts
	message := &statusv1.Upgrade{
		Namespace: u.Namespace, Name: u.Name, WorkflowId: u.WorkflowID, RunId: u.RunID, Running: u.Running(),
		State: state, StateMessage: words, Paused: u.Status.Paused,
		Batch: run.CurrentBatch, Batches: max(int32(len(u.Status.RemediationPlan)), run.Batches), Percentage: u.Status.Percentage,
		Counts: &statusv1.ClusterCounts{
			Total: counts.Total, Pending: counts.Pending, Running: counts.Running, Complete: counts.Complete, Failed: counts.Failed,
			TimedOut: counts.TimedOut, Cancelled: counts.Cancelled, Skipped: counts.Skipped, Offline: counts.Offline,
		},
		StartedAt: instant(u.StartedAt), EndedAt: instantAt(u.CompletedAt), Trouble: troubleText(u.Trouble), Url: ui.link(u.WorkflowID, u.RunID), Known: u.Known,
	}
	if run.StartedAt != nil {
		message.StartedAt = instant(run.StartedAt.Time)
	}
	if u.Running() {
		message.Wait, message.Held = waitMessage(u.Status.Wait), heldText(u.Status.Held)
		if estimate := rollout.ExpectationOf(&u.Status, now).Estimate; estimate != nil {
			message.EstimatedEnd = instant(estimate.End.Time)
		}
	}
	return message
}

func clusterMessage(c ranv1.ClusterStatus) *statusv1.Cluster {
	return &statusv1.Cluster{
		Name: c.Name, State: string(c.State), Batch: c.Batch, Step: c.Step, Reason: c.Reason, Message: c.Message, Nodes: c.Nodes.Total, NodesDone: c.Nodes.Done,
	}
}

func nodeMessage(n Node, ui webUI) *statusv1.Node {
	message := &statusv1.Node{
		Cluster: n.Cluster, Node: n.Node, Namespace: n.Namespace, Name: n.Name, WorkflowId: n.WorkflowID, RunId: n.RunID, Running: n.Running(),
		Requestor: n.Requestor, State: stateOf(n), StartedAt: instant(n.StartedAt), EndedAt: instantAt(n.CompletedAt),
		Trouble: troubleText(n.Trouble), Url: ui.link(n.WorkflowID, n.RunID), Known: n.Known,
	}
	if n.Running() {
		message.Wait, message.Held = waitMessage(n.Status.Wait), heldText(n.Status.Held)
	}
	for _, entered := range n.Status.States {
		message.States = append(message.States, &statusv1.State{State: string(entered.State), At: instant(entered.At.Time)})
	}
	if failure := n.Status.Failure; failure != nil {
		message.Failure = failure.Reason + ": " + failure.Message
	}
	return message
}

func waitMessage(wait *drydockv1.Wait) *statusv1.Wait {
	if wait == nil {
		return nil
	}
	message := &statusv1.Wait{Reason: wait.Reason, Message: wait.Message, Since: instant(wait.Since.Time), Until: instantOf(wait.Until)}
	for _, b := range wait.Blockers {
		message.Blockers = append(message.Blockers, &statusv1.Blocker{Kind: b.Kind, Namespace: b.Namespace, Name: b.Name, Reason: b.Reason, Message: b.Message})
	}
	return message
}

func troubleText(trouble *Trouble) string {
	if trouble == nil {
		return ""
	}
	return trouble.Message + " since " + trouble.Since.UTC().Format(time.RFC3339)
}

// instant converts a time; nil for an unknown one.
func instant(at time.Time) *timestamppb.Timestamp {
	if at.IsZero() {
		return nil
	}
	return timestamppb.New(at)
}

func instantAt(at *time.Time) *timestamppb.Timestamp {
	if at == nil {
		return nil
	}
	return instant(*at)
}

func instantOf(at *metav1.Time) *timestamppb.Timestamp {
	if at == nil {
		return nil
	}
	return instant(at.Time)
}
