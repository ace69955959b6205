package sweeper

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/workflow"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	sweeperactivities "drydock.dev/drydock/activities/sweeper"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/kit"
)

// State is the state of a sweeper.
type State string

// The states of a sweeper.
const (
	// Watching: it watches the marks in the cluster.
	Watching State = "Watching"
	// CleaningUp: it cleans up after closed workflows.
	CleaningUp State = "CleaningUp"
	// Resting: the cluster has no marks. The next maintenance wakes the sweeper.
	Resting   State = "Resting"
	Cancelled State = "Cancelled"
	Failed    State = "Failed"
)

// Status is the status of a sweeper, with its findings.
type Status struct {
	Cluster string `json:"cluster"`
	State   State  `json:"state"`
	// Wait is the current reason why the sweeper waits.
	Wait *drydockv1.Wait `json:"wait,omitempty"`
	// Message describes how the sweeper ended.
	Message string `json:"message,omitempty"`
	// Findings are in the order in which they were found: all that are not settled, and older ones, up to 100 in total.
	Findings []Finding `json:"findings,omitempty"`
	// CleanedUp counts the objects that were cleaned up since StartedAt.
	CleanedUp int `json:"cleanedUp"`
	// MoreUnknownOwners counts the marks of unknown owners that are not among the findings.
	MoreUnknownOwners int `json:"moreUnknownOwners,omitempty"`
	// IgnoredMarks counts the marks that Drydock cannot have written.
	IgnoredMarks int         `json:"ignoredMarks,omitempty"`
	StartedAt    metav1.Time `json:"startedAt"`
}

// FindingState is the state of a finding.
type FindingState string

// The states of a finding.
const (
	// FindingInProgress: its cleanup runs or is about to start.
	FindingInProgress FindingState = "InProgress"
	// FindingCleanedUp: the object was cleaned up.
	FindingCleanedUp FindingState = "CleanedUp"
	// FindingFailed: the cleanup failed and will be retried.
	FindingFailed FindingState = "Failed"
	// FindingUnknownOwner: Temporal does not know the workflow. A person has to decide.
	FindingUnknownOwner FindingState = "UnknownOwner"
	// FindingGone: the mark is no longer there, or its workflow runs again, and the sweeper did not clean it up.
	FindingGone FindingState = "Gone"
)

// Reasons of a sweeper without trouble. Any other reason is why it cannot scan or clean up.
const (
	reasonWatching   = "Watching"
	reasonCleaningUp = "CleaningUp"
	reasonNoMarks    = "NoMarks"
)

// Trouble returns why the sweeper cannot do its work, or nil.
func (s Status) Trouble() *drydockv1.Wait {
	if s.Wait == nil || s.Wait.Reason == reasonWatching || s.Wait.Reason == reasonCleaningUp || s.Wait.Reason == reasonNoMarks {
		return nil
	}
	return s.Wait
}

// Settled reports whether the finding needs no further cleanup.
func (s FindingState) Settled() bool { return s == FindingCleanedUp || s == FindingGone }

// Finding is an object that is marked by a closed or unknown workflow.
type Finding struct {
	sweeperactivities.Mark
	// Workflow is the ID of the workflow.
	Workflow string `json:"workflow"`
	// Ended describes how the workflow ended; empty if Temporal does not know it.
	Ended   string       `json:"ended,omitempty"`
	State   FindingState `json:"state"`
	Message string       `json:"message"`
	FoundAt metav1.Time  `json:"foundAt"`
	// SettledAt is when the object was cleaned up, or its mark was found to be gone.
	SettledAt *metav1.Time `json:"settledAt,omitempty"`
}

// maxFindings is the largest number of findings in the status.
const maxFindings = 100

// unknownOwnerMessage explains why a mark of a workflow that Temporal does not know is left alone.
const unknownOwnerMessage = "Temporal does not know its workflow, which may belong to another Temporal namespace or be past retention; if no other Drydock uses the cluster, remove the mark"

// record keeps the status of a sweeper and publishes every change: the query, search attributes, current details of the Web UI, and log.
type record struct {
	ctx    workflow.Context
	status *Status
	reason kit.CurrentReason
	log    log.Logger
}

func newRecord(ctx workflow.Context, status *Status, in Input) *record {
	r := &record{ctx: ctx, status: status, log: log.With(workflow.GetLogger(ctx), "cluster", in.Cluster)}
	r.reason = kit.CurrentReason{Attributes: &kit.SearchAttributes{Ctx: ctx}, Wait: &status.Wait, Show: r.show}
	if in.Carried != nil {
		*status = *in.Carried
	} else {
		*status = Status{Cluster: in.Cluster, StartedAt: metav1.NewTime(workflow.Now(ctx))}
		if !in.Hub {
			_ = workflow.UpsertTypedSearchAttributes(ctx, temporal.AttributeCluster.ValueSet(in.Cluster))
		}
	}
	r.enter(Watching)
	return r
}

func (r *record) enter(state State) {
	if r.status.State != state {
		r.log.Info("Sweeper enters a state", "state", state)
		r.status.State = state
		_ = workflow.UpsertTypedSearchAttributes(r.ctx, temporal.AttributePhase.ValueSet(string(state)))
	}
	r.waiting(r.ctx, "", "")
	r.show()
}

// waiting sets the reason why an activity does not succeed. An empty reason restores that of the state.
func (r *record) waiting(ctx workflow.Context, reason, message string) {
	if reason == "" {
		switch r.status.State {
		case Watching:
			reason, message = reasonWatching, "no leftovers; watching the marked objects, and checking every 30 s that their workflows run"
		case CleaningUp:
			reason, message = reasonCleaningUp, fmt.Sprintf("cleanup starts %s after the scan, when activities of closed workflows can no longer write", LateWriteLimit)
		case Resting:
			reason, message = reasonNoMarks, "the cluster has no marks; the sweeper checks every 10 minutes, and before the next maintenance"
		}
	}
	r.reason.Set(ctx, reason, message)
}

// found records an orphan before its cleanup.
func (r *record) found(ctx workflow.Context, orphan sweeperactivities.Orphan) {
	r.log.Warn("Closed workflow left an object; cleaning up", "object", orphan.String(),
		"owner", orphan.Owner, "ended", orphan.Ended)
	f := r.finding(ctx, orphan.Mark)
	f.Ended, f.State, f.Message = orphan.Ended, FindingInProgress, "cleanup is about to start"
	r.show()
}

// settle records the result of a cleanup.
func (r *record) settle(ctx workflow.Context, orphan sweeperactivities.Orphan, result string, err error) {
	f := r.finding(ctx, orphan.Mark)
	if err != nil {
		r.log.Error("Cleanup failed", "object", orphan.String(), "owner", orphan.Owner, "error", err)
		f.State, f.Message = FindingFailed, "cleanup failed, will be retried: "+temporal.ErrorMessage(err)
		r.show()
		return
	}
	r.log.Info("Object cleaned up", "object", orphan.String(), "owner", orphan.Owner, "result", result)
	now := metav1.NewTime(workflow.Now(ctx))
	f.State, f.Message, f.SettledAt = FindingCleanedUp, result, &now
	r.status.CleanedUp++
	r.show()
}

// blocked records the orphans whose cleanup waits for one that failed.
func (r *record) blocked(ctx workflow.Context, orphans []sweeperactivities.Orphan, by sweeperactivities.Orphan) {
	for _, orphan := range orphans {
		f := r.finding(ctx, orphan.Mark)
		f.State, f.Message = FindingFailed, "waits for the cleanup of "+by.String()
	}
	r.show()
}

// unknown records the marks of unknown owners.
func (r *record) unknown(ctx workflow.Context, found sweeperactivities.Orphans) {
	now := metav1.NewTime(workflow.Now(ctx))
	for i := range r.status.Findings {
		f := &r.status.Findings[i]
		if f.State == FindingUnknownOwner && !slices.Contains(found.Unknown, f.Mark) {
			f.State, f.SettledAt, f.Message = FindingGone, &now, "the mark was removed"
		}
	}
	for _, mark := range found.Unknown {
		f := r.finding(ctx, mark)
		if f.State == FindingUnknownOwner {
			continue
		}
		f.State, f.Message = FindingUnknownOwner, unknownOwnerMessage
		r.log.Warn("Object is marked by an unknown workflow; leaving it alone", "object", mark.String(), "owner", mark.Owner)
	}
	r.status.MoreUnknownOwners, r.status.IgnoredMarks = found.MoreUnknown, found.Ignored
	r.show()
}

// gone records marks that disappeared without a cleanup by the sweeper.
func (r *record) gone(ctx workflow.Context, marks []sweeperactivities.Mark) {
	now := metav1.NewTime(workflow.Now(ctx))
	for i := range r.status.Findings {
		if f := &r.status.Findings[i]; !f.State.Settled() && slices.Contains(marks, f.Mark) {
			f.State, f.SettledAt, f.Message = FindingGone, &now, "the mark was removed, or its workflow runs again"
		}
	}
	r.show()
}

// marksOf returns the sorted marks of the findings in the given states.
func (r *record) marksOf(states ...FindingState) []sweeperactivities.Mark {
	var marks []sweeperactivities.Mark
	for _, f := range r.status.Findings {
		if slices.Contains(states, f.State) {
			marks = append(marks, f.Mark)
		}
	}
	slices.SortFunc(marks, sweeperactivities.CompareMarks)
	return marks
}

// finding returns the unsettled finding for a mark, or adds one.
func (r *record) finding(ctx workflow.Context, mark sweeperactivities.Mark) *Finding {
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

func (r *record) show() { workflow.SetCurrentDetails(r.ctx, details(r.status)) }

func details(s *Status) string {
	var d kit.Details
	d.Head("cluster", cmp.Or(s.Cluster, "the hub"))
	d.Row("state", strings.TrimSpace(string(s.State)+" "+s.Message))
	d.Row("cleaned up", fmt.Sprint(s.CleanedUp))
	if s.IgnoredMarks > 0 {
		d.Row("ignored", fmt.Sprintf("%d marks that Drydock did not write", s.IgnoredMarks))
	}
	d.Wait(s.Wait)
	if len(s.Findings) > 0 {
		d.WriteString("\n")
		d.Head("found", "object", "workflow", "ended", "result")
	}
	for _, f := range slices.Backward(s.Findings) {
		d.Line(f.FoundAt.UTC().Format(kit.TimeFormat), f.String(), f.Workflow, f.Ended, string(f.State)+": "+f.Message)
	}
	return d.Text()
}
