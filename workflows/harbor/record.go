package harbor

import (
	"slices"
	"strings"

	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/workflow"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	goharborv1 "drydock.dev/drydock/internal/apis/goharbor/v1beta1"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/kit"
)

// State is the state of the workflow that manages a HarborCluster.
type State string

// The states of a HarborCluster workflow.
const (
	Managed  State = "Managed"
	Deleting State = "Deleting"
	Deleted  State = "Deleted"
	// Unmanaged: the workflow was cancelled.
	Unmanaged State = "Unmanaged"
	Failed    State = "Failed"
)

// Status is the status of a HarborCluster and of its workflow.
type Status struct {
	Cluster   string `json:"cluster"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	State     State  `json:"state"`
	// Harbor is the status that the object has or is about to have. While there is a Wait it may be outdated.
	Harbor goharborv1.HarborClusterStatus `json:"harbor"`
	// Since is when Harbor.Status last changed.
	Since metav1.Time `json:"since"`
	// Held is the hold that forbids applying and removing.
	Held *drydockv1.Hold `json:"held,omitempty"`
	// Wait is why the workflow waits; nil while it watches.
	Wait *drydockv1.Wait `json:"wait,omitempty"`
	// Failures joins the failures of the last attempts to apply parts.
	Failures string `json:"failures,omitempty"`
	// Notes are messages for people, oldest first.
	Notes     []string    `json:"notes,omitempty"`
	StartedAt metav1.Time `json:"startedAt"`
}

// record keeps the status and publishes every change: the query, search attributes, current details of the Web UI, and log.
type record struct {
	ctx    workflow.Context
	status *Status
	reason kit.CurrentReason
	// shown is the value of the search attribute for the phase.
	shown string
	log   log.Logger
}

func newRecord(ctx workflow.Context, status *Status, in Input) *record {
	r := &record{ctx: ctx, status: status, log: log.With(workflow.GetLogger(ctx), "cluster", in.Cluster, "harbor", in.Namespace+"/"+in.Name)}
	r.reason = kit.CurrentReason{Attributes: &kit.SearchAttributes{Ctx: ctx}, Wait: &status.Wait, Show: r.show}
	now := metav1.NewTime(workflow.Now(ctx))
	if in.Carried != nil {
		*status = in.Carried.Status
		r.shown = r.phase()
	} else {
		*status = Status{Cluster: in.Cluster, Namespace: in.Namespace, Name: in.Name, Since: now, StartedAt: now}
		_ = workflow.UpsertTypedSearchAttributes(ctx, temporal.AttributeCluster.ValueSet(in.Cluster), temporal.AttributeGroup.ValueSet(in.Namespace+"/"+in.Name))
	}
	r.enter(Managed)
	return r
}

func (r *record) enter(state State) {
	r.status.State = state
	r.show()
}

// seen records the observed status.
func (r *record) seen(ctx workflow.Context, status goharborv1.HarborClusterStatus) {
	if r.status.Harbor.Status != status.Status {
		r.status.Since = metav1.NewTime(workflow.Now(ctx))
	}
	r.status.Harbor = status
	r.show()
}

// failures records the failures to apply parts; nil: all parts are applied.
func (r *record) failures(err error) {
	r.status.Failures = ""
	if err != nil {
		r.status.Failures = strings.ReplaceAll(err.Error(), "\n", "; ")
	}
	r.show()
}

func (r *record) note(note string) {
	r.log.Info("Harbor note", "message", note)
	r.status.Notes = append(r.status.Notes, note)
	r.show()
}

// appliedLimit is the maximum length in bytes of the note about an apply.
const appliedLimit = 500

// applied notes why the object was last applied.
func (r *record) applied(by temporal.SignalRequest) {
	const note = "applied"
	r.status.Notes = slices.DeleteFunc(r.status.Notes, func(earlier string) bool { return strings.HasPrefix(earlier, note+" by ") })
	r.note(temporal.Cut(note+kit.ActorSuffix(by), appliedLimit))
}

// phase is the value of the search attribute: the status of a managed Harbor, otherwise the state of the workflow.
func (r *record) phase() string {
	if r.status.State == Managed && r.status.Harbor.Status != "" {
		return string(r.status.Harbor.Status)
	}
	return string(r.status.State)
}

func (r *record) show() {
	if phase := r.phase(); phase != r.shown {
		r.shown = phase
		r.log.Info("Harbor enters a phase", "phase", phase)
		_ = workflow.UpsertTypedSearchAttributes(r.ctx, temporal.AttributePhase.ValueSet(phase))
	}
	workflow.SetCurrentDetails(r.ctx, details(r.status))
}

func details(s *Status) string {
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
