package sweeper

import (
	"fmt"
	"slices"
	"strings"

	"go.temporal.io/sdk/workflow"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	sweeperactivities "drydock.dev/drydock/activities/sweeper"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/kit"
)

// State is what a sweeper does.
type State string

// The states of a sweeper.
const (
	// Watching: it watches the marks in the cluster.
	Watching State = "Watching"
	// TakingBack: it takes something back.
	TakingBack State = "TakingBack"
	// Resting: the cluster has no marks. The next maintenance wakes it.
	Resting   State = "Resting"
	Cancelled State = "Cancelled"
	Failed    State = "Failed"
)

// Status is what a sweeper has found and done.
type Status struct {
	Cluster string `json:"cluster"`
	State   State  `json:"state"`
	// Wait is the one reason why the sweeper does nothing now.
	Wait *drydockv1.Wait `json:"wait,omitempty"`
	// Message says how it ended.
	Message string `json:"message,omitempty"`
	// Findings are what was found, in that order: all that is still there, and the rest up to 100 in all.
	Findings []Finding `json:"findings,omitempty"`
	// TakenBack counts what was taken back since StartedAt.
	TakenBack int `json:"takenBack"`
	// MoreNotTouched marks of unknown holders are not among the findings.
	MoreNotTouched int         `json:"moreNotTouched,omitempty"`
	StartedAt      metav1.Time `json:"startedAt"`
}

// FindingState is what became of something that was found.
type FindingState string

// What becomes of findings.
const (
	// FindingAtWork: it is about to be taken back, or being so.
	FindingAtWork FindingState = "AtWork"
	// FindingTakenBack: what bore the mark was taken back.
	FindingTakenBack FindingState = "TakenBack"
	// FindingNotTakenBack: it could not be, and is tried again.
	FindingNotTakenBack FindingState = "NotTakenBack"
	// FindingNotTouched: nobody knows whether its workflow is over. A person has to look.
	FindingNotTouched FindingState = "NotTouched"
	// FindingGone: it was not taken back, and is left behind no more: somebody else has removed it since, say.
	FindingGone FindingState = "Gone"
)

// Reasons why a sweeper does nothing, or waits a moment. Any other is why it cannot look, or not take back.
const (
	reasonWatching   = "Watching"
	reasonTakingBack = "TakingBack"
	reasonNoMarks    = "NoMarks"
)

// Trouble returns why the sweeper cannot do its work, or nil.
func (s Status) Trouble() *drydockv1.Wait {
	if s.Wait == nil || s.Wait.Reason == reasonWatching || s.Wait.Reason == reasonTakingBack || s.Wait.Reason == reasonNoMarks {
		return nil
	}
	return s.Wait
}

// Settled reports whether nothing is left to be done.
func (s FindingState) Settled() bool { return s == FindingTakenBack || s == FindingGone }

// Finding is an object with the mark of a workflow that does not take it back.
type Finding struct {
	sweeperactivities.Mark
	// Workflow is the id of the workflow.
	Workflow string `json:"workflow"`
	// Ended says how the workflow ended; empty when Temporal does not know it.
	Ended   string       `json:"ended,omitempty"`
	State   FindingState `json:"state"`
	Message string       `json:"message"`
	FoundAt metav1.Time  `json:"foundAt"`
	// SettledAt is when it was taken back, or found gone.
	SettledAt *metav1.Time `json:"settledAt,omitempty"`
}

// maxFindings is how many findings are kept.
const maxFindings = 100

// whyNotTouched says of a mark that Temporal does not know its workflow.
const whyNotTouched = "Temporal does not know its workflow: it may be of another Temporal namespace, or have ended longer ago than Temporal remembers; if nobody is at work there, remove the mark"

// sweeperRecord keeps the status of a sweeper and shows every change of it: in the query, the search attributes, the current details of the
// Web UI, and the worker's log.
type sweeperRecord struct {
	ctx    workflow.Context
	status *Status
	reason kit.CurrentReason
}

func newSweeperRecord(ctx workflow.Context, status *Status, in Input) *sweeperRecord {
	r := &sweeperRecord{ctx: ctx, status: status}
	r.reason = kit.CurrentReason{Attributes: &kit.SearchAttributes{Ctx: ctx}, Wait: &status.Wait, Show: r.show}
	if in.Carried != nil {
		*status = *in.Carried
	} else {
		*status = Status{Cluster: in.Cluster, StartedAt: metav1.NewTime(workflow.Now(ctx))}
		_ = workflow.UpsertTypedSearchAttributes(ctx, temporal.AttributeCluster.ValueSet(in.Cluster))
	}
	r.enter(Watching)
	return r
}

func (r *sweeperRecord) enter(state State) {
	if r.status.State != state {
		r.status.State = state
		_ = workflow.UpsertTypedSearchAttributes(r.ctx, temporal.AttributePhase.ValueSet(string(state)))
	}
	r.waiting(r.ctx, "", "")
	r.show()
}

// waiting is the reason of an activity that does not succeed; without one, that of the state.
func (r *sweeperRecord) waiting(ctx workflow.Context, reason, message string) {
	if reason == "" {
		switch r.status.State {
		case Watching:
			reason, message = reasonWatching, "nothing to take back; looks at every change of what bears a mark, and asks every 30 s whether its workflow goes on"
		case TakingBack:
			reason, message = reasonTakingBack, fmt.Sprintf("%s after it was found, when nothing that is over can write any more", LastWrites)
		case Resting:
			reason, message = reasonNoMarks, "nothing in the cluster bears a mark; the next maintenance wakes the sweeper, which looks every 10 minutes all the same"
		}
	}
	r.reason.Set(ctx, reason, message)
}

// found records an orphan before it is touched.
func (r *sweeperRecord) found(ctx workflow.Context, orphan sweeperactivities.Orphan) {
	workflow.GetLogger(ctx).Warn("a workflow is over and has left something: it is taken back", "cluster", r.status.Cluster, "object", orphan.String(),
		"owner", orphan.Owner, "ended", orphan.Ended)
	f := r.finding(ctx, orphan.Mark)
	f.Ended, f.State, f.Message = orphan.Ended, FindingAtWork, "is about to be taken back"
	r.show()
}

// settle records what became of an orphan.
func (r *sweeperRecord) settle(ctx workflow.Context, orphan sweeperactivities.Orphan, how string, err error) {
	f := r.finding(ctx, orphan.Mark)
	if err != nil {
		workflow.GetLogger(ctx).Error("could not take back what an ended workflow left", "cluster", r.status.Cluster, "object", orphan.String(), "error", err)
		f.State, f.Message = FindingNotTakenBack, "could not be taken back, is tried again: "+temporal.ErrorMessage(err)
		r.show()
		return
	}
	workflow.GetLogger(ctx).Info("taken back", "cluster", r.status.Cluster, "object", orphan.String(), "owner", orphan.Owner, "how", how)
	now := metav1.NewTime(workflow.Now(ctx))
	f.State, f.Message, f.SettledAt = FindingTakenBack, how, &now
	r.status.TakenBack++
	r.show()
}

// held records the orphans whose turn comes after one that could not be taken back.
func (r *sweeperRecord) held(ctx workflow.Context, orphans []sweeperactivities.Orphan, by sweeperactivities.Orphan) {
	for _, orphan := range orphans {
		f := r.finding(ctx, orphan.Mark)
		f.State, f.Message = FindingNotTakenBack, "comes after "+by.String()
	}
	r.show()
}

// unknown takes over which marks are of unknown holders.
func (r *sweeperRecord) unknown(ctx workflow.Context, found sweeperactivities.Orphans) {
	now := metav1.NewTime(workflow.Now(ctx))
	for i := range r.status.Findings {
		f := &r.status.Findings[i]
		if f.State == FindingNotTouched && !slices.Contains(found.Unknown, f.Mark) {
			f.State, f.SettledAt, f.Message = FindingGone, &now, "not there any more"
		}
	}
	for _, mark := range found.Unknown {
		f := r.finding(ctx, mark)
		if f.State == FindingNotTouched {
			continue
		}
		f.State, f.Message = FindingNotTouched, whyNotTouched
		workflow.GetLogger(ctx).Warn("a mark of an unknown holder is not touched", "cluster", r.status.Cluster, "object", mark.String(), "owner", mark.Owner)
	}
	r.status.MoreNotTouched = found.MoreUnknown
	r.show()
}

// gone records which marks are left behind no more, although the sweeper has not taken them back.
func (r *sweeperRecord) gone(ctx workflow.Context, marks []sweeperactivities.Mark) {
	now := metav1.NewTime(workflow.Now(ctx))
	for i := range r.status.Findings {
		if f := &r.status.Findings[i]; !f.State.Settled() && slices.Contains(marks, f.Mark) {
			f.State, f.SettledAt, f.Message = FindingGone, &now, "not left behind any more: somebody else has removed the mark, or its workflow goes on again"
		}
	}
	r.show()
}

// marksOf are those of the findings in some states, in the order in which they are found.
func (r *sweeperRecord) marksOf(states ...FindingState) []sweeperactivities.Mark {
	var marks []sweeperactivities.Mark
	for _, f := range r.status.Findings {
		if slices.Contains(states, f.State) {
			marks = append(marks, f.Mark)
		}
	}
	slices.SortFunc(marks, sweeperactivities.CompareMarks)
	return marks
}

// finding returns the finding about a mark that is not settled, or a new one.
func (r *sweeperRecord) finding(ctx workflow.Context, mark sweeperactivities.Mark) *Finding {
	at := slices.IndexFunc(r.status.Findings, func(f Finding) bool { return f.Mark == mark && !f.State.Settled() })
	if at >= 0 {
		return &r.status.Findings[at]
	}
	if len(r.status.Findings) >= maxFindings {
		if oldest := slices.IndexFunc(r.status.Findings, func(f Finding) bool { return f.State.Settled() }); oldest >= 0 {
			r.status.Findings = slices.Delete(r.status.Findings, oldest, oldest+1)
		}
	}
	r.status.Findings = append(r.status.Findings, Finding{Mark: mark, Workflow: mark.Workflow(), FoundAt: metav1.NewTime(workflow.Now(ctx))})
	return &r.status.Findings[len(r.status.Findings)-1]
}

func (r *sweeperRecord) show() { workflow.SetCurrentDetails(r.ctx, sweeperDetails(r.status)) }

func sweeperDetails(s *Status) string {
	var d kit.Details
	d.Head("cluster", s.Cluster)
	d.Row("state", strings.TrimSpace(string(s.State)+" "+s.Message))
	d.Row("taken back", fmt.Sprint(s.TakenBack))
	d.Wait(s.Wait)
	if len(s.Findings) > 0 {
		d.WriteString("\n")
		d.Head("found", "object", "workflow", "ended", "what became of it")
	}
	for _, f := range slices.Backward(s.Findings) {
		d.Line(f.FoundAt.UTC().Format(kit.TimeFormat), f.String(), f.Workflow, f.Ended, string(f.State)+": "+f.Message)
	}
	return d.Text()
}
