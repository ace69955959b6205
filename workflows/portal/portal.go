// Package portal holds the workflow of a status portal: components, their maintenances and incidents.
package portal

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/activities/objects"
	"drydock.dev/drydock/activities/portals"
	"drydock.dev/drydock/internal/portal"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/kit"
)

// Input carries the state of the previous run; it is empty in the first run. Updates and windows supply the content.
type Input struct {
	Carried *Carried `json:"carried,omitempty"`
}

// Continues implements kit.Continued.
func (in Input) Continues() bool { return in.Carried != nil }

// Carried is the state that a run carries to the next one.
type Carried struct {
	Portal portal.Portal `json:"portal"`
	// Claims are the objects that this portal shows now and other portals must remove. Repeat are claims to send a second time. NotSearched: not all
	// windows have been asked for announcements.
	Claims      portal.Move `json:"claims,omitzero"`
	Repeat      portal.Move `json:"repeat,omitzero"`
	NotSearched bool        `json:"notSearched,omitempty"`
}

// StatusPortal keeps the content of a status page: the components, maintenances and incidents that users apply, and the openings of the windows that name the
// portal. A cancellation deletes the content. The workflow ends when the portal stays empty.
func StatusPortal(ctx workflow.Context, in Input) (portal.View, error) {
	listening, _ := workflow.NewDisconnectedContext(ctx)
	s := newStatusPortal(listening, in)
	if err := s.listen(listening); err != nil {
		return portal.View{}, err
	}
	kit.OnCancellation(ctx, listening, func() {
		s.change(func(now time.Time) { s.portal.Delete(portal.DeleteRequest{All: true}, now) })
	})
	return s.run(listening)
}

// statusPortal is one run of the workflow.
type statusPortal struct {
	ctx    workflow.Context
	portal portal.Portal
	// claims, repeat and searched are as in Carried; searched is the opposite of NotSearched.
	claims     portal.Move
	repeat     portal.Move
	searched   bool
	changed    bool
	messages   int
	attributes *kit.SearchAttributes
	status     string
	kit.Background

	portals *portals.Activities
	objects *objects.Activities
}

func newStatusPortal(ctx workflow.Context, in Input) *statusPortal {
	s := &statusPortal{
		ctx: ctx, attributes: &kit.SearchAttributes{Ctx: ctx},
		portal: portal.Portal{Name: strings.TrimPrefix(workflow.GetInfo(ctx).WorkflowExecution.ID, temporal.StatusPortalPrefix)},
	}
	if c := in.Carried; c != nil {
		s.portal, s.claims, s.repeat, s.searched = c.Portal, c.Claims, c.Repeat, !c.NotSearched
	}
	return s
}

// run handles changes, and sleeps until the next one.
func (s *statusPortal) run(ctx workflow.Context) (portal.View, error) {
	working, stop := workflow.WithCancel(ctx)
	s.Stop = stop
	s.Go(working, "claim", s.claim)
	s.Go(working, "claim again", s.claimAgain)
	s.Go(working, "publish", s.publish)
	if !s.searched {
		s.Go(working, "request announcements", s.requestAnnouncements)
	}
	for {
		s.changed = false
		s.askOverdueWindows(ctx)
		s.show(ctx)
		switch {
		case s.changed:
			continue
		case kit.ShouldContinueAsNew(ctx, s.messages):
			return portal.View{}, s.continueAsNew(ctx)
		}
		if s.sleep(ctx) {
			s.end(ctx)
			if !s.changed { // no signal arrived at the last moment
				return s.portal.View(), nil
			}
			return portal.View{}, s.continueAsNew(ctx)
		}
	}
}

// askOverdueWindows advances the portal to the current time, and requests overdue announcements of windows. It removes windows that no longer exist.
func (s *statusPortal) askOverdueWindows(ctx workflow.Context) {
	silent := s.portal.Overdue(workflow.Now(ctx))
	answers := make([]workflow.Future, len(silent))
	inquiry := portal.Inquiry{Portal: s.portal.Name, Shown: true}
	for i, window := range silent {
		answers[i] = workflow.SignalExternalWorkflow(ctx, temporal.MaintenanceWindowPrefix+window, "", temporal.SignalAnnounce, inquiry)
	}
	for i, answer := range answers {
		if answer.Get(ctx, nil) != nil {
			s.portal.RemoveWindow(silent[i], workflow.Now(ctx))
		}
	}
}

// sleep waits for the next change or request. It returns true if the portal has stayed empty for kit.UnusedTime.
func (s *statusPortal) sleep(ctx workflow.Context) (over bool) {
	now := workflow.Now(ctx)
	next, changes := s.portal.Next(s.portal.Counted) // it may have passed during the requests to windows
	ends := s.portal.Empty()
	summary := "next change at " + next.UTC().Format(kit.TimeFormat)
	if ends {
		next, summary = now.Add(kit.UnusedTime), "ends unless content is added"
	}
	sleeping, wake := workflow.WithCancel(ctx)
	due := func() bool { return false }
	if changes || ends {
		due = workflow.NewTimerWithOptions(sleeping, max(0, next.Sub(now)), workflow.TimerOptions{Summary: summary}).IsReady
	}
	_ = workflow.Await(ctx, func() bool { return s.changed || due() || kit.ShouldContinueAsNew(ctx, s.messages) })
	wake()
	return ends && due() && !s.changed
}

// change applies a change to the portal.
func (s *statusPortal) change(apply func(now time.Time)) {
	s.messages++
	s.changed = true
	apply(workflow.Now(s.ctx))
}

// listen handles updates, announcements of windows, and moves to other portals.
func (s *statusPortal) listen(ctx workflow.Context) error {
	p := &s.portal
	kit.OnSignal(ctx, temporal.SignalAnnouncement, "Show the openings of a window.", func(a portal.Announcement) {
		s.change(func(now time.Time) { p.Receive(a, now) })
	})
	kit.OnSignal(ctx, temporal.SignalObject, "Check whether objects on the hub still exist.", func(of portal.ObjectName) {
		s.change(func(time.Time) { p.Recheck(of) })
	})
	kit.OnSignal(ctx, temporal.SignalMoved, "Remove components, maintenances or incidents that another portal shows now.", func(m portal.Move) {
		s.change(func(now time.Time) { p.RemoveMoved(m, now) })
	})
	kit.OnSignal(ctx, temporal.SignalCancel, "Delete everything. The portal then ends.", func(r temporal.SignalRequest) {
		s.change(func(now time.Time) {
			p.Delete(portal.DeleteRequest{Request: portal.Request{Actor: r.Actor, Reason: r.Reason}, All: true}, now)
		})
	})
	return errors.Join(
		workflow.SetQueryHandlerWithOptions(ctx, temporal.QueryStatus, func() (portal.View, error) { return p.View(), nil },
			workflow.QueryHandlerOptions{Description: "What the status page shows."}),
		onRequest(ctx, s, temporal.UpdateApply, "Add or change components and maintenances.",
			func(r portal.ApplyRequest, _ time.Time) error { return p.CheckApply(r) }, s.apply),
		onRequest(ctx, s, temporal.UpdateDeclare, "Show an object on the hub, or withdraw it.",
			func(r portal.ObjectRequest, _ time.Time) error { return p.CheckDeclare(r) }, s.declare),
		onRequest(ctx, s, temporal.UpdateDelete, "Delete components and maintenances, or all.",
			func(r portal.DeleteRequest, _ time.Time) error { return p.CheckDelete(r) }, p.Delete),
		onRequest(ctx, s, temporal.UpdateCancelMaintenance, "Cancel a maintenance; one in progress ends now.", p.CheckCancel, p.Cancel),
	)
}

// onRequest registers an update that changes the portal. The handler checks again, because two updates may pass validation together.
func onRequest[R any](ctx workflow.Context, s *statusPortal, name, description string, check func(R, time.Time) error, apply func(R, time.Time) portal.Answer) error {
	validate := func(ctx workflow.Context, r R) error { return kit.InvalidSpec(joinLines(check(r, workflow.Now(ctx)))) }
	return workflow.SetUpdateHandlerWithOptions(ctx, name,
		func(ctx workflow.Context, r R) (portal.Answer, error) {
			if err := validate(ctx, r); err != nil {
				return portal.Answer{}, err
			}
			var answer portal.Answer
			s.change(func(now time.Time) { answer = apply(r, now) })
			return answer, nil
		},
		workflow.UpdateHandlerOptions{Description: description, Validator: validate})
}

// joinLines joins the lines of an error.
func joinLines(problems error) error {
	if problems == nil {
		return nil
	}
	return errors.New(strings.ReplaceAll(problems.Error(), "\n", "; "))
}

// apply applies objects that users declare, and claims the new ones: another portal may show them.
func (s *statusPortal) apply(r portal.ApplyRequest, now time.Time) portal.Answer {
	answer, added := s.portal.Apply(r, now)
	s.claims = s.claims.And(added)
	return answer
}

// claim notifies other portals of the objects that this one shows now.
func (s *statusPortal) claim(ctx workflow.Context) {
	s.notifyPortals(ctx, &s.claims, 0, func(sent portal.Move) { s.repeat = s.repeat.And(sent) })
}

// claimAgain repeats the notification later, because the list of portals is eventually consistent.
func (s *statusPortal) claimAgain(ctx workflow.Context) {
	s.notifyPortals(ctx, &s.repeat, kit.ListAgainAfter, func(portal.Move) {})
}

// notifyPortals notifies other portals of all pending objects, after a pause, and then calls done.
func (s *statusPortal) notifyPortals(ctx workflow.Context, pending *portal.Move, pause time.Duration, done func(sent portal.Move)) {
	for workflow.Await(ctx, func() bool { return !pending.Empty() }) == nil {
		sent := *pending
		if !s.runAfter(ctx, pause, "notify other portals of moved objects", s.portals.ClaimObjects, sent) {
			return
		}
		*pending = pending.Without(sent)
		done(sent)
	}
}

// requestAnnouncements asks all windows for announcements, twice: an earlier workflow of this portal, which was terminated, may have received them.
func (s *statusPortal) requestAnnouncements(ctx workflow.Context) {
	const summary = "request announcements of windows"
	s.searched = s.runAfter(ctx, 0, summary, s.portals.RequestAnnouncements, s.portal.Name) && s.runAfter(ctx, kit.ListAgainAfter, summary, s.portals.RequestAnnouncements, s.portal.Name)
}

// runAfter runs an activity after a pause, and reports whether it succeeded.
func (s *statusPortal) runAfter(ctx workflow.Context, pause time.Duration, summary string, activity, input any) bool {
	retrier := kit.HubRetrier(nil)
	if workflow.NewTimerWithOptions(ctx, pause, workflow.TimerOptions{Summary: "pause before: " + summary}).Get(ctx, nil) != nil {
		return false
	}
	return retrier.Wait(ctx, summary, nil, "", activity, input, nil) == nil // no deadline: there may be thousands of portals and windows
}

// end stops the background activities and handles pending signals.
func (s *statusPortal) end(ctx workflow.Context) {
	s.Stop()
	_ = workflow.Await(ctx, func() bool { return s.Running == 0 && workflow.AllHandlersFinished(ctx) })
	kit.HandlePendingSignals(ctx)
}

// continueAsNew carries the state to a new run.
func (s *statusPortal) continueAsNew(ctx workflow.Context) error {
	s.end(ctx)
	carried := &Carried{Portal: s.portal, Claims: s.claims, Repeat: s.repeat, NotSearched: !s.searched}
	workflow.GetLogger(ctx).Info("Portal continues as new", "portal", s.portal.Name)
	return workflow.NewContinueAsNewError(ctx, temporal.StatusPortal, Input{Carried: carried})
}

// show publishes the status as search attribute and current details.
func (s *statusPortal) show(ctx workflow.Context) {
	view := s.portal.Overview()
	if status := string(view.Status); status != s.status {
		s.status = status
		workflow.GetLogger(ctx).Info("Portal status changed", "portal", view.Name, "status", status)
		s.attributes.Set(temporal.AttributePhase.ValueSet(status))
	}
	workflow.SetCurrentDetails(ctx, portalDetails(view))
}

func portalDetails(v portal.View) string {
	var d kit.Details
	d.Head("portal", v.Name)
	d.Row("status", string(v.Status))
	d.Row("components", fmt.Sprint(len(v.Components)))
	for _, problem := range v.Problems {
		d.Row("**problem**", problem)
	}
	d.WriteString("\n")
	d.Head("component", "status", "since", "because of")
	for _, c := range v.Components {
		if c.Status != c.Declared || len(c.Because) > 0 {
			d.Line(c.Name, string(c.Status), c.Since.Format(kit.TimeFormat), c.BecauseOf())
		}
	}
	if slices.ContainsFunc(v.Incidents, func(i portal.IncidentView) bool { return i.ResolvedAt == nil }) {
		d.WriteString("\n")
		d.Head("incident", "severity", "phase", "since")
		for _, i := range v.Incidents {
			if i.ResolvedAt == nil {
				d.Line(i.Title, string(i.Severity), string(i.Phase), i.StartedAt.Format(kit.TimeFormat))
			}
		}
	}
	d.WriteString("\n")
	d.Head("maintenance", "phase", "from", "to")
	for _, maintenances := range [][]portal.MaintenanceView{v.InProgress, v.Upcoming} {
		for _, m := range maintenances {
			d.Line(m.Title, string(m.Phase), m.Start.Format(kit.TimeFormat), m.End.Format(kit.TimeFormat))
		}
	}
	return d.Text()
}
