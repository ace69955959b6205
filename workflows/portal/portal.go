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

// Input is the state of the run before; empty in the first. What it shows comes by updates and from windows.
type Input struct {
	Carried *Carried `json:"carried,omitempty"`
}

// Carried is what a run hands to the next one.
type Carried struct {
	Portal portal.Portal `json:"portal"`
	// Claims are what other portals have not been told yet, and ToldOnce what they are to be told once more. Unsought: windows have not all been asked yet.
	Claims   portal.Move `json:"claims,omitzero"`
	ToldOnce portal.Move `json:"toldOnce,omitzero"`
	Unsought bool        `json:"unsought,omitempty"`
}

// StatusPortal keeps what a status page shows: the components and maintenances that people apply, and the openings of the windows that name it. To cancel
// it deletes all of that; it ends when there is nothing left to show.
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
	// claims are what other portals are to be told, and toldOnce what they are to be told once more; sought: all windows were asked to announce themselves.
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

// run goes from one moment at which something changes to the next.
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
			if !s.changed { // nothing has come in the last moment
				return s.portal.View(), nil
			}
			return portal.View{}, s.continueAsNew(ctx)
		}
	}
}

// ask lets time pass, and asks windows that should have told that they have opened. Those that are gone are shown no more.
func (s *statusPortal) ask(ctx workflow.Context) {
	silent := s.portal.Overdue(workflow.Now(ctx))
	answers := make([]workflow.Future, len(silent))
	inquiry := portal.Inquiry{Portal: s.portal.Name, Shown: true}
	for i, window := range silent {
		answers[i] = workflow.SignalExternalWorkflow(ctx, temporal.MaintenanceWindowPrefix+window, "", temporal.SignalAnnounce, inquiry)
	}
	for i, answer := range answers {
		if answer.Get(ctx, nil) != nil {
			s.portal.Lose(silent[i], workflow.Now(ctx))
		}
	}
}

// sleep returns when something changes by itself or was asked for; true: nothing is shown, and nobody has wanted that to change for a while.
func (s *statusPortal) sleep(ctx workflow.Context) (over bool) {
	now := workflow.Now(ctx)
	next, changes := s.portal.Next(s.portal.Counted) // it may have come while windows were asked
	ends := s.portal.Empty()
	summary := "as it is until " + next.UTC().Format(kit.TimeFormat)
	if ends {
		next, summary = now.Add(kit.UnusedTime), "ends unless something is to be shown"
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

// order carries out what changes the portal.
func (s *statusPortal) order(carryOut func(now time.Time)) {
	s.messages++
	s.changed = true
	carryOut(workflow.Now(s.ctx))
}

// listen takes in what people order, what windows tell, and what other portals show.
func (s *statusPortal) listen(ctx workflow.Context) error {
	p := &s.portal
	kit.OnSignal(ctx, temporal.SignalAnnouncement, "A window tells of its openings.", func(a portal.Announcement) {
		s.order(func(now time.Time) { p.Hear(a, now) })
	})
	kit.OnSignal(ctx, temporal.SignalMoved, "Another portal shows components or maintenances now.", func(m portal.Move) {
		s.order(func(now time.Time) { p.Yield(m, now) })
	})
	kit.OnSignal(ctx, temporal.SignalCancel, "Delete everything; then the portal ends.", func(r temporal.SignalRequest) {
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

// onPortalOrder takes in an update by which people change the portal. What was asked for together has been found good before the first counted, and is
// judged once more.
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

// inOneLine makes several problems one.
func inOneLine(problems error) error {
	if problems == nil {
		return nil
	}
	return errors.New(strings.ReplaceAll(problems.Error(), "\n", "; "))
}

// apply takes over what people declare. What is new here, another portal may have shown so far.
func (s *statusPortal) apply(r portal.ApplyRequest, now time.Time) portal.Answer {
	answer, added := s.portal.Apply(r, now)
	s.claims = s.claims.And(added)
	return answer
}

// claim tells other portals what this one shows now.
func (s *statusPortal) claim(ctx workflow.Context) {
	s.keepClaiming(ctx, &s.claims, 0, func(told portal.Move) { s.toldOnce = s.toldOnce.And(told) })
}

// claimAgain tells other portals once more, a while later: a list of workflows lags behind.
func (s *statusPortal) claimAgain(ctx workflow.Context) {
	s.keepClaiming(ctx, &s.toldOnce, kit.ListAgainAfter, func(portal.Move) {})
}

// keepClaiming tells other portals, after a pause, all that they are to be told.
func (s *statusPortal) keepClaiming(ctx workflow.Context, moved *portal.Move, pause time.Duration, done func(told portal.Move)) {
	for workflow.Await(ctx, func() bool { return !moved.Empty() }) == nil {
		told := *moved
		if !s.tellAfter(ctx, pause, "tell other portals what this one shows now", s.portals.ClaimObjects, told) {
			return
		}
		*moved = moved.Without(told)
		done(told)
	}
}

// seek asks all windows, twice, to announce themselves: those that this portal shows may have told one before that was terminated.
func (s *statusPortal) seek(ctx workflow.Context) {
	const summary = "ask windows to announce themselves"
	s.sought = s.tellAfter(ctx, 0, summary, s.portals.SeekWindows, s.portal.Name) && s.tellAfter(ctx, kit.ListAgainAfter, summary, s.portals.SeekWindows, s.portal.Name)
}

// tellAfter runs an activity a while later, and reports whether that was done.
func (s *statusPortal) tellAfter(ctx workflow.Context, pause time.Duration, summary string, activity, input any) bool {
	retrier := kit.HubRetrier(nil)
	if workflow.NewTimerWithOptions(ctx, pause, workflow.TimerOptions{Summary: "then, once more: " + summary}).Get(ctx, nil) != nil {
		return false
	}
	return retrier.Wait(ctx, summary, nil, "", activity, input, nil) == nil // there may be very many to tell
}

// end ends the work beside the main loop, and takes in what was said and not heard yet.
func (s *statusPortal) end(ctx workflow.Context) {
	s.Stop()
	_ = workflow.Await(ctx, func() bool { return s.Running == 0 && workflow.AllHandlersFinished(ctx) })
	kit.HandlePendingSignals(ctx)
}

// continueAsNew hands everything to a new run.
func (s *statusPortal) continueAsNew(ctx workflow.Context) error {
	s.end(ctx)
	carried := &Carried{Portal: s.portal, Claims: s.claims, ToldOnce: s.toldOnce, Unsought: !s.sought}
	return workflow.NewContinueAsNewError(ctx, temporal.StatusPortal, Input{Carried: carried})
}

// show makes visible to people what is shown.
func (s *statusPortal) show(ctx workflow.Context) {
	view := s.portal.Overview()
	if status := string(view.Status); status != s.status {
		s.status = status
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
