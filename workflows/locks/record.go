package locks

import (
	"fmt"
	"strings"

	"go.temporal.io/sdk/workflow"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/drydock/activities/lockcontroller"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	lcmv1 "drydock.dev/drydock/internal/apis/lcm/v1alpha1"
	"drydock.dev/drydock/internal/locks"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/kit"
)

// State is whether a lock controller is at work.
type State string

// The states of a lock controller.
const (
	Running   State = "Running"
	Cancelled State = "Cancelled"
	Failed    State = "Failed"
)

// Status is what is known of an application's locks.
type Status struct {
	Cluster string                           `json:"cluster"`
	Policy  drydockv1.WorkloadLockPolicySpec `json:"policy"`
	State   State                            `json:"state"`
	// Locks as they were put right last; nil before the first time.
	Locks *locks.Report `json:"locks,omitempty"`
	// Wait is the one reason why the controller does nothing now.
	Wait *drydockv1.Wait `json:"wait,omitempty"`
	// Notes are things a person should know, in the order they happened.
	Notes     []string    `json:"notes,omitempty"`
	StartedAt metav1.Time `json:"startedAt"`
}

// lockRecord keeps the status of a lock controller and shows every change of it: in the query, the search attributes and the current details
// of the Web UI.
type lockRecord struct {
	ctx    workflow.Context
	status *Status
	reason kit.CurrentReason
}

func newLockRecord(ctx workflow.Context, status *Status, in Input) *lockRecord {
	r := &lockRecord{ctx: ctx, status: status}
	r.reason = kit.CurrentReason{Attributes: &kit.SearchAttributes{Ctx: ctx}, Wait: &status.Wait, Show: r.show}
	if in.Carried != nil {
		*status = *in.Carried
	} else {
		*status = Status{Cluster: in.Cluster, StartedAt: metav1.NewTime(workflow.Now(ctx))}
	}
	status.Policy = in.Policy.Spec
	r.enter(Running)
	return r
}

func (r *lockRecord) enter(state State) {
	r.status.State = state
	_ = workflow.UpsertTypedSearchAttributes(r.ctx,
		temporal.AttributeCluster.ValueSet(r.status.Cluster), temporal.AttributePhase.ValueSet(string(state)))
	r.show()
}

// report takes over how the locks are now. What is left to wait for is the reason.
func (r *lockRecord) report(ctx workflow.Context, report locks.Report) {
	r.status.Locks = &report
	wait := report.Wait()
	wait.Since = metav1.NewTime(workflow.Now(ctx))
	r.reason.Replace(&wait)
}

// end records that the controller is over, and what that means for the locks.
func (r *lockRecord) end(ctx workflow.Context, state State, why string) {
	r.reason.Set(ctx, "", "")
	r.status.Notes = append(r.status.Notes, why+"; "+leftBehind(r.status.Locks))
	r.enter(state)
}

// leftBehind says of locks that nobody keeps any more what they do.
func leftBehind(report *locks.Report) string {
	if report == nil {
		return "no lock was written"
	}
	said := fmt.Sprintf("the locks stay as they are: %d of %d node locks hold until the controller is started again or they are deleted", report.Total-report.Inactive, report.Total)
	switch report.Cluster.To {
	case lcmv1.LockInactive:
		said += ", the cluster's lock has let go and does not take that back"
	default:
		said += ", and so does the cluster's lock"
	}
	var letGo []string
	for _, lock := range report.Nodes {
		if lock.To == lcmv1.LockInactive {
			letGo = append(letGo, lock.Node)
		}
	}
	if len(letGo) > 0 {
		said += "; " + strings.Join(letGo, ", ") + " stay let go of after their maintenance"
	}
	return said
}

func (r *lockRecord) show() { workflow.SetCurrentDetails(r.ctx, lockControllerDetails(r.status)) }

func lockControllerDetails(s *Status) string {
	var d kit.Details
	d.Head("application", s.Policy.ControllerName+" in "+s.Cluster)
	d.Row("state", string(s.State))
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
		d.WriteString("\n| node | lock | reason | message |\n|---|---|---|---|\n")
		for _, lock := range s.Locks.Nodes {
			d.WriteString("| " + strings.Join([]string{lock.Node, string(lock.To), string(lock.Reason), kit.Cell(lock.Message)}, " | ") + " |\n")
		}
	}
	return d.Text()
}

// applySummary says in the Web UI what is put right.
func applySummary(due lockcontroller.Due) string {
	summary := ""
	for i, change := range due.Changes {
		said := changeText(change)
		if len(summary)+len(said) > kit.SummaryLimit {
			return strings.TrimPrefix(fmt.Sprintf("%s and %d more", summary, len(due.Changes)-i+due.More), " and ")
		}
		if i > 0 {
			summary += ", "
		}
		summary += said
	}
	if summary == "" {
		return "see to the locks"
	}
	return summary
}

// changeText names a change as people do: "worker-7 inactive".
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
