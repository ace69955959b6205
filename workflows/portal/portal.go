// Package portal holds the workflow of a status portal: components, their maintenances and incidents.
package portal

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/activities/portals"
	"drydock.dev/drydock/internal/portal"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/kit"
)

// Input carries the state of the previous run; it is empty in the first run. Updates and windows supply the content.
type Input struct {
	Carried *Carried `json:"carried,omitempty"`
}

// Carried is the state that a run carries to the next one.
type Carried struct {
	Portal portal.Portal `json:"portal"`
	// Claims are objects that other portals must be notified of. ToldOnce are claims that are sent a second time. Unsought: not all windows have been
	// asked yet.
	Claims   portal.Move `json:"claims,omitzero"`
	ToldOnce portal.Move `json:"toldOnce,omitzero"`
	Unsought bool        `json:"unsought,omitempty"`
}

// StatusPortal keeps the content of a status page: the components and maintenances that users apply, and the openings of the windows that name the
// portal. Cancelling the workflow deletes the content; it ends when nothing is shown.
func StatusPortal(ctx workflow.Context, in Input) (portal.View, error) {
	listening, _ := workflow.NewDisconnectedContext(ctx)
	s := newStatusPortal(listening, in)
	if err := s.listen(listening); err != nil {
		return portal.View{}, err
	}
	kit.OnCancellation(ctx, listening, func() {
		s.order(func(now time.Time) { s.portal.Delete(portal.DeleteRequest{All: true}, now) })
	})
	return s.run(listening)
}

// statusPortal is one run of the workflow.
type statusPortal struct {
	ctx    workflow.Context
	portal portal.Portal
	// claims are objects that other portals must be notified of, toldOnce those that are sent a second time. sought: all windows were asked to
	// announce themselves.
	claims     portal.Move
	toldOnce   portal.Move
	sought     bool
	changed    bool
	messages   int
	attributes *kit.SearchAttributes
	status     string
	kit.Background

	portals *portals.Activities
}

func newStatusPortal(ctx workflow.Context, in Input) *statusPortal {
	s := &statusPortal{
		ctx: ctx, attributes: &kit.SearchAttributes{Ctx: ctx},
		portal: portal.Portal{Name: strings.TrimPrefix(workflow.GetInfo(ctx).WorkflowExecution.ID, temporal.StatusPortalPrefix)},
	}
	if c := in.Carried; c != nil {
		s.portal, s.claims, s.toldOnce, s.sought = c.Portal, c.Claims, c.ToldOnce, !c.Unsought
	}
	return s
}

// run handles changes, and sleeps until the next one.
func (s *statusPortal) run(ctx workflow.Context) (portal.View, error) {
	working, rest := workflow.WithCancel(ctx)
	s.Stop = rest
	s.Go(working, "claim", s.claim)
	s.Go(working, "claim again", s.claimAgain)
	if !s.sought {
		s.Go(working, "seek windows", s.seek)
	}
	for {
		s.changed = false
		s.ask(ctx)
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

// ask lets time pass, and asks windows whose announcement is overdue. Windows that no longer exist are removed.
func (s *statusPortal) ask(ctx workflow.Context) {
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

// sleep returns when something changes or was requested. It returns true if the portal has been empty for a while.
func (s *statusPortal) sleep(ctx workflow.Context) (over bool) {
	now := workflow.Now(ctx)
	next, changes := s.portal.Next(s.portal.Counted) // it may have passed while windows were asked
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

// order applies a change to the portal.
func (s *statusPortal) order(carryOut func(now time.Time)) {
	s.messages++
	s.changed = true
	carryOut(workflow.Now(s.ctx))
}

// listen handles updates, announcements of windows, and moves to other portals.
func (s *statusPortal) listen(ctx workflow.Context) error {
	p := &s.portal
	kit.OnSignal(ctx, temporal.SignalAnnouncement, "Show the openings of a window.", func(a portal.Announcement) {
		s.order(func(now time.Time) { p.Receive(a, now) })
	})
	kit.OnSignal(ctx, temporal.SignalMoved, "Remove components or maintenances that another portal shows now.", func(m portal.Move) {
		s.order(func(now time.Time) { p.Yield(m, now) })
	})
	kit.OnSignal(ctx, temporal.SignalCancel, "Delete everything. The portal then ends.", func(r temporal.SignalRequest) {
		s.order(func(now time.Time) {
			p.Delete(portal.DeleteRequest{Request: portal.Request{Actor: r.Actor, Reason: r.Reason}, All: true}, now)
		})
	})
	return errors.Join(
		workflow.SetQueryHandlerWithOptions(ctx, temporal.QueryStatus, func() (portal.View, error) { return p.View(), nil },
			workflow.QueryHandlerOptions{Description: "What the status page shows."}),
		onPortalOrder(ctx, s, temporal.UpdateApply, "Add or change components and maintenances.",
			func(r portal.ApplyRequest, _ time.Time) error { return p.CheckApply(r) }, s.apply),
		onPortalOrder(ctx, s, temporal.UpdateDelete, "Delete components and maintenances, or all.",
			func(r portal.DeleteRequest, _ time.Time) error { return p.CheckDelete(r) }, p.Delete),
		onPortalOrder(ctx, s, temporal.UpdateCancelMaintenance, "Cancel a maintenance; one in progress ends now.", p.CheckCancel, p.Cancel),
	)
}

// onPortalOrder registers an update that changes the portal. The handler checks again, because two updates may pass validation together.
func onPortalOrder[R any](ctx workflow.Context, s *statusPortal, name, description string, check func(R, time.Time) error, carryOut func(R, time.Time) portal.Answer) error {
	judge := func(ctx workflow.Context, r R) error { return kit.InvalidSpec(inOneLine(check(r, workflow.Now(ctx)))) }
	return workflow.SetUpdateHandlerWithOptions(ctx, name,
		func(ctx workflow.Context, r R) (portal.Answer, error) {
			if err := judge(ctx, r); err != nil {
				return portal.Answer{}, err
			}
			var answer portal.Answer
			s.order(func(now time.Time) { answer = carryOut(r, now) })
			return answer, nil
		},
		workflow.UpdateHandlerOptions{Description: description, Validator: judge})
}

// inOneLine joins several problems in one line.
func inOneLine(problems error) error {
	if problems == nil {
		return nil
	}
	return errors.New(strings.ReplaceAll(problems.Error(), "\n", "; "))
}

// apply applies objects that users declare. Another portal may have shown the new ones until now, so they are claimed.
func (s *statusPortal) apply(r portal.ApplyRequest, now time.Time) portal.Answer {
	answer, added := s.portal.Apply(r, now)
	s.claims = s.claims.And(added)
	return answer
}

// claim notifies other portals of the objects that this one shows now.
func (s *statusPortal) claim(ctx workflow.Context) {
	s.keepClaiming(ctx, &s.claims, 0, func(told portal.Move) { s.toldOnce = s.toldOnce.And(told) })
}

// claimAgain repeats the notification a minute later, because visibility may have missed a portal.
func (s *statusPortal) claimAgain(ctx workflow.Context) {
	s.keepClaiming(ctx, &s.toldOnce, kit.ListAgainAfter, func(portal.Move) {})
}

// keepClaiming notifies other portals, after a pause, of all objects in moved.
func (s *statusPortal) keepClaiming(ctx workflow.Context, moved *portal.Move, pause time.Duration, done func(told portal.Move)) {
	for workflow.Await(ctx, func() bool { return !moved.Empty() }) == nil {
		told := *moved
		if !s.tellAfter(ctx, pause, "notify other portals of moved objects", s.portals.ClaimObjects, told) {
			return
		}
		*moved = moved.Without(told)
		done(told)
	}
}

// seek asks all windows, twice, to announce themselves. The windows of this portal may have notified an earlier workflow of it that was terminated.
func (s *statusPortal) seek(ctx workflow.Context) {
	const summary = "ask windows to announce themselves"
	s.sought = s.tellAfter(ctx, 0, summary, s.portals.SeekWindows, s.portal.Name) && s.tellAfter(ctx, kit.ListAgainAfter, summary, s.portals.SeekWindows, s.portal.Name)
}

// tellAfter runs an activity after a pause, and reports whether it succeeded.
func (s *statusPortal) tellAfter(ctx workflow.Context, pause time.Duration, summary string, activity, input any) bool {
	retrier := kit.HubRetrier(nil)
	if workflow.NewTimerWithOptions(ctx, pause, workflow.TimerOptions{Summary: "pause before: " + summary}).Get(ctx, nil) != nil {
		return false
	}
	return retrier.Wait(ctx, summary, nil, "", activity, input, nil) == nil // without a deadline, because there may be thousands of portals and windows
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
	carried := &Carried{Portal: s.portal, Claims: s.claims, ToldOnce: s.toldOnce, Unsought: !s.sought}
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
	d.WriteString("\n")
	d.Head("maintenance", "phase", "from", "to")
	for _, maintenances := range [][]portal.MaintenanceView{v.InProgress, v.Upcoming} {
		for _, m := range maintenances {
			d.Line(m.Title, string(m.Phase), m.Start.Format(kit.TimeFormat), m.End.Format(kit.TimeFormat))
		}
	}
	return d.Text()
}
