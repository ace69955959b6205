package locks

import (
	"fmt"
	"strings"

	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/workflow"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/drydock/activities/lockcontroller"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	lcmv1 "drydock.dev/drydock/internal/apis/lcm/v1alpha1"
	"drydock.dev/drydock/internal/locks"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/kit"
)

// State is the state of a lock controller.
type State = drydockv1.LockControllerState

// The states of a lock controller.
const (
	Running   = drydockv1.LockControllerRunning
	Cancelled = drydockv1.LockControllerCancelled
	Failed    = drydockv1.LockControllerFailed
	Released  = drydockv1.LockControllerReleased
)

// Status is the status of an application's locks.
type Status struct {
	Cluster string                           `json:"cluster"`
	Policy  drydockv1.WorkloadLockPolicySpec `json:"policy"`
	State   State                            `json:"state"`
	// Source is the WorkloadLockPolicy that started the controller; nil: it was started without one.
	Source *temporal.Object `json:"source,omitempty"`
	// Locks is the last report about the locks; nil before the first.
	Locks *locks.Report `json:"locks,omitempty"`
	// Wait is the current reason why the controller waits.
	Wait *drydockv1.Wait `json:"wait,omitempty"`
	// Notes are messages for people, oldest first.
	Notes     []string    `json:"notes,omitempty"`
	StartedAt metav1.Time `json:"startedAt"`
}

// record keeps the status of a lock controller and publishes every change: the query, search attributes, current details of the Web UI, and log.
type record struct {
	ctx    workflow.Context
	status *Status
	reason kit.CurrentReason
	log    log.Logger
	// failing is why the policy cannot be followed now; nil: it is followed.
	failing   *drydockv1.Wait
	publisher kit.Publisher
}

func newRecord(ctx workflow.Context, status *Status, in Input) *record {
	r := &record{ctx: ctx, status: status}
	r.log = log.With(workflow.GetLogger(ctx), "cluster", in.Cluster, "controller", in.Policy.Spec.ControllerName)
	r.reason = kit.CurrentReason{Attributes: &kit.SearchAttributes{Ctx: ctx}, Wait: &status.Wait, Show: r.show}
	if in.Carried != nil {
		*status = *in.Carried
	} else {
		*status = Status{Cluster: in.Cluster, StartedAt: metav1.NewTime(workflow.Now(ctx))}
	}
	status.Policy, status.Source = in.Policy.Spec, in.Source
	r.enter(Running)
	return r
}

func (r *record) enter(state State) {
	r.status.State = state
	r.log.Info("Lock controller enters a state", "state", state)
	_ = workflow.UpsertTypedSearchAttributes(r.ctx,
		temporal.AttributeCluster.ValueSet(r.status.Cluster), temporal.AttributePhase.ValueSet(string(state)))
	r.show()
}

// trouble records why an activity is being retried. An empty reason clears it.
func (r *record) trouble(ctx workflow.Context, reason, message string) {
	r.reason.Set(ctx, reason, message)
	if reason != "" || r.status.Wait == nil {
		r.failing = r.status.Wait
	}
}

// report records the state of the locks. Their wait is the current reason.
func (r *record) report(ctx workflow.Context, report locks.Report) {
	r.status.Locks, r.failing = &report, nil
	wait := report.Wait()
	wait.Since = metav1.NewTime(workflow.Now(ctx))
	r.reason.Replace(&wait)
}

// end records the end of the controller, and the state of the remaining locks.
func (r *record) end(ctx workflow.Context, state State, why string) {
	r.reason.Set(ctx, "", "")
	r.status.Notes = append(r.status.Notes, why+"; "+leftBehind(r.status.Locks))
	r.enter(state)
}

// released records the end of a controller whose policy was deleted.
func (r *record) released(ctx workflow.Context, result lockcontroller.ReleaseResult) {
	r.reason.Set(ctx, "", "")
	note := fmt.Sprintf("the WorkloadLockPolicy was deleted: %d locks were removed", result.Removed)
	if result.KeptFor != "" {
		note = "the WorkloadLockPolicy was deleted: the locks stay for WorkloadLockPolicy " + result.KeptFor
	}
	r.status.Locks = nil
	r.status.Notes = append(r.status.Notes, note)
	r.enter(Released)
}

// leftBehind describes the effect of the locks that are no longer managed.
func leftBehind(report *locks.Report) string {
	if report == nil {
		return "no lock was written"
	}
	text := fmt.Sprintf("the locks stay as they are: %d of %d node locks block maintenance until the controller is started again or they are deleted", report.Total-report.Inactive, report.Total)
	switch report.Cluster.To {
	case lcmv1.LockInactive:
		text += ", and the cluster's lock stays inactive"
	default:
		text += ", and so does the cluster's lock"
	}
	var inactive []string
	for _, lock := range report.Nodes {
		if lock.To == lcmv1.LockInactive {
			inactive = append(inactive, lock.Node)
		}
	}
	if len(inactive) > 0 {
		text += "; " + strings.Join(inactive, ", ") + " stay inactive after their maintenance"
	}
	return text
}

func (r *record) show() {
	workflow.SetCurrentDetails(r.ctx, details(r.status))
	r.publisher.Change()
}

func details(s *Status) string {
	var d kit.Details
	d.Head("application", s.Policy.ControllerName+" in "+s.Cluster)
	d.Row("state", string(s.State))
	if s.Source != nil {
		d.Row("requested by", s.Source.String())
	}
	if s.Locks != nil {
		d.Row("cluster lock", string(s.Locks.Cluster.To))
		d.Row("node locks", fmt.Sprintf("%d active, %d inactive, %d failed", s.Locks.Active, s.Locks.Inactive, s.Locks.Failed))
		d.Row("progress", s.Locks.Progress.String())
	}
	d.Wait(s.Wait)
	for _, note := range s.Notes {
		d.Row("note", note)
	}
	if s.Locks != nil && len(s.Locks.Nodes) > 0 {
		d.WriteString("\n")
		d.Head("node", "lock", "reason", "message")
		for _, lock := range s.Locks.Nodes {
			d.Line(lock.Node, string(lock.To), string(lock.Reason), lock.Message)
		}
	}
	return d.Text()
}

// applied logs the changes that were applied.
func (r *record) applied(due lockcontroller.Due) {
	for _, change := range due.Changes {
		r.log.Info("Lock applied", "node", change.Node, "action", change.Action, "state", change.To, "reason", change.Reason)
	}
}

// applySummary describes the changes that are about to be applied, for the Web UI.
func applySummary(due lockcontroller.Due) string {
	summary := "locks: "
	for i, change := range due.Changes {
		text := changeText(change)
		if len(summary)+len(text) > kit.SummaryLimit {
			return fmt.Sprintf("%s and %d more", strings.TrimSpace(summary), len(due.Changes)-i+due.More)
		}
		if i > 0 {
			summary += ", "
		}
		summary += text
	}
	if len(due.Changes) == 0 {
		return "apply the lock policy"
	}
	return summary
}

// changeText describes a change, such as "worker-7 inactive".
func changeText(change locks.LockDecision) string {
	subject := change.Node
	if subject == "" {
		subject = "cluster"
	}
	switch {
	case change.Action == locks.Delete:
		return subject + " removed"
	case change.Action == locks.Create:
		return subject + " created"
	case change.From == change.To:
		return subject + " " + string(change.Reason)
	}
	return subject + " " + string(change.To)
}
