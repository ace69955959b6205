package harbor

import (
	"strings"

	"go.temporal.io/sdk/workflow"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	goharborv1 "drydock.dev/drydock/internal/apis/goharbor/v1beta1"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/kit"
)

// State is what is done about a HarborCluster.
type State string

// The states.
const (
	Kept     State = "Kept"
	Deleting State = "Deleting"
	Deleted  State = "Deleted"
	// Left: the workflow was cancelled.
	Left   State = "Left"
	Failed State = "Failed"
)

// Status is how a HarborCluster is, and what is done about it.
type Status struct {
	Cluster   string `json:"cluster"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	State     State  `json:"state"`
	// Harbor is what the object's own status says, or is about to. While there is a Wait it may be over.
	Harbor goharborv1.HarborClusterStatus `json:"harbor"`
	// Since is when it became that.
	Since metav1.Time `json:"since"`
	// Held is what keeps anything from being applied or removed.
	Held *drydockv1.Hold `json:"held,omitempty"`
	// Wait is why nothing is seen or done.
	Wait *drydockv1.Wait `json:"wait,omitempty"`
	// Failures are what could not be applied last, all of it.
	Failures string `json:"failures,omitempty"`
	// Notes are things a person should know, in the order they happened.
	Notes     []string    `json:"notes,omitempty"`
	StartedAt metav1.Time `json:"startedAt"`
}

// harborRecord keeps the status and shows every change of it: in the query, the search attributes and the current details of the Web UI.
type harborRecord struct {
	ctx    workflow.Context
	status *Status
	reason kit.CurrentReason
	// shown is the phase that the search attribute has.
	shown string
}

func newHarborRecord(ctx workflow.Context, status *Status, in Input) *harborRecord {
	r := &harborRecord{ctx: ctx, status: status}
	r.reason = kit.CurrentReason{Attributes: &kit.SearchAttributes{Ctx: ctx}, Wait: &status.Wait, Show: r.show}
	now := metav1.NewTime(workflow.Now(ctx))
	if in.Carried != nil {
		*status = in.Carried.Status
		r.shown = r.phase()
	} else {
		*status = Status{Cluster: in.Cluster, Namespace: in.Namespace, Name: in.Name, Since: now, StartedAt: now}
		_ = workflow.UpsertTypedSearchAttributes(ctx, temporal.AttributeCluster.ValueSet(in.Cluster), temporal.AttributeGroup.ValueSet(in.Namespace+"/"+in.Name))
	}
	r.enter(Kept)
	return r
}

func (r *harborRecord) enter(state State) {
	r.status.State = state
	r.show()
}

// seen takes in how the Harbor is.
func (r *harborRecord) seen(ctx workflow.Context, status goharborv1.HarborClusterStatus) {
	if r.status.Harbor.Status != status.Status {
		r.status.Since = metav1.NewTime(workflow.Now(ctx))
	}
	r.status.Harbor = status
	r.show()
}

// failures takes in what could not be applied; nil: nothing.
func (r *harborRecord) failures(err error) {
	r.status.Failures = ""
	if err != nil {
		r.status.Failures = strings.ReplaceAll(err.Error(), "\n", "; ")
	}
	r.show()
}

func (r *harborRecord) note(note string) {
	r.status.Notes = append(r.status.Notes, note)
	r.show()
}

// phase is the word by which the workflow is found: how the Harbor is, or what becomes of it.
func (r *harborRecord) phase() string {
	if r.status.State == Kept && r.status.Harbor.Status != "" {
		return string(r.status.Harbor.Status)
	}
	return string(r.status.State)
}

func (r *harborRecord) show() {
	if phase := r.phase(); phase != r.shown {
		r.shown = phase
		_ = workflow.UpsertTypedSearchAttributes(r.ctx, temporal.AttributePhase.ValueSet(phase))
	}
	workflow.SetCurrentDetails(r.ctx, harborDetails(r.status))
}

func harborDetails(s *Status) string {
	var d kit.Details
	d.Head("Harbor cluster", s.Namespace+"/"+s.Name+" in "+s.Cluster)
	d.Row("state", string(s.State))
	d.Row("status", string(s.Harbor.Status)+" since "+s.Since.UTC().Format(kit.TimeFormat))
	d.Held(s.Held)
	d.Wait(s.Wait)
	for _, note := range s.Notes {
		d.Row("note", note)
	}
	d.WriteString("\n")
	d.Head("condition", "status", "reason", "message")
	for _, c := range s.Harbor.Conditions {
		d.Line(string(c.Type), string(c.Status), c.Reason, c.Message)
	}
	return d.Text()
}
