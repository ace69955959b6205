// Package window holds the workflow of a maintenance window: recurrence, phases, exclusions, notifications.
package window

import (
	"fmt"
	"strings"

	"go.temporal.io/sdk/workflow"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	windowsactivities "drydock.dev/drydock/activities/windows"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/internal/windows"
	"drydock.dev/drydock/workflows/kit"
)

// Input is the state of the run before; empty in the first. The window is defined by an update.
type Input struct {
	Carried *Carried `json:"carried,omitempty"`
}

// Carried is what a run hands to the next one.
type Carried struct {
	Course    windows.Course   `json:"course"`
	Trouble   string           `json:"trouble,omitempty"`
	Number    int64            `json:"number"`
	Followers []kit.Subscriber `json:"followers,omitempty"`
	Shown     shownOn          `json:"shown,omitzero"`
}

// MaintenanceWindow opens and closes a maintenance window by its calendar, and by what people order, and tells all that to those that follow it. It
// ends when the window has no more openings and nobody follows it, and is asked in vain while nobody has defined it.
func MaintenanceWindow(ctx workflow.Context, in Input) error {
	listening, _ := workflow.NewDisconnectedContext(ctx)
	w := newMaintenanceWindow(listening, in)
	if err := w.listen(listening); err != nil {
		return err
	}
	kit.OnCancellation(ctx, listening, func() { w.cancel(listening, windows.Request{}) })
	workflow.GoNamed(listening, "announce", w.keepAnnouncing)
	return w.run(listening)
}

// maintenanceWindow is one run of the workflow.
type maintenanceWindow struct {
	// name of the window: namespace/name.
	name   string
	course windows.Course
	// trouble is why its calendar cannot be read any more.
	trouble string
	// number of what is told.
	number int64
	kit.Subscribers
	// shown is which portal was told how it stands.
	shown shownOn
	// events that receivers have not been told of yet.
	events []windows.Event
	// turned: an opening has had its turn, and the run with it.
	turned  bool
	changed bool
	// defining is how many updates read a calendar.
	defining   int
	messages   int
	attributes *kit.SearchAttributes
	phase      windows.Phase

	calendars *windowsactivities.Activities
}

func newMaintenanceWindow(ctx workflow.Context, in Input) *maintenanceWindow {
	w := &maintenanceWindow{
		name: strings.TrimPrefix(workflow.GetInfo(ctx).WorkflowExecution.ID, temporal.MaintenanceWindowPrefix),
		// Greater than what a run before has told that was terminated: see renumber.
		number:     workflow.Now(ctx).UnixMicro(),
		attributes: &kit.SearchAttributes{Ctx: ctx},
	}
	if c := in.Carried; c != nil {
		w.course, w.trouble, w.number, w.Workflows, w.shown = c.Course, c.Trouble, c.Number, c.Followers, c.Shown
	}
	return w
}

// run goes from one moment at which something happens to the next.
func (w *maintenanceWindow) run(ctx workflow.Context) error {
	for {
		w.changed = false
		w.pass(ctx)
		w.tell(ctx) // first: who follows waits for it
		w.show(ctx)
		w.notify(ctx)
		switch {
		case kit.ShouldContinueAsNew(ctx, w.messages):
			return w.continueAsNew(ctx)
		case w.changed:
			continue
		case w.turned:
			return w.continueAsNew(ctx)
		}
		if w.sleep(ctx) {
			kit.HandlePendingSignals(ctx)
			if !w.changed && !w.unannounced() { // nobody has come in the last moment
				return nil
			}
		}
	}
}

// pass lets happen what is due, and reads the calendar further.
func (w *maintenanceWindow) pass(ctx workflow.Context) {
	w.passTime(ctx)
	from, stale := w.course.Stale(workflow.Now(ctx))
	if !stale || w.trouble != "" {
		return
	}
	of := w.course.Window
	outlook, err := w.foresee(ctx, windowsactivities.ForeseeWindowInput{Object: *of, From: from})
	if w.course.Window != of {
		return // it was edited or cancelled meanwhile
	}
	if w.changed = true; err != nil {
		w.trouble = temporal.ErrorMessage(err)
	} else {
		w.course.Foresee(from, outlook)
	}
	w.renumber(ctx)
}

// passTime lets happen what is due.
func (w *maintenanceWindow) passTime(ctx workflow.Context) {
	confirmed := w.course.Confirmed
	for _, event := range w.course.Pass(workflow.Now(ctx)) {
		w.turned = w.turned || event.Kind == windows.EventEnded || event.Kind == windows.EventMissed
		before := w.number
		if w.order(ctx, event); event.Foretold {
			w.Skip(before, w.number)
		}
	}
	crossed := w.course.Crossed(workflow.Now(ctx))
	if crossed || !w.course.Confirmed.Equal(confirmed) {
		w.changed = true
		w.renumber(ctx)
	}
}

// foresee reads the calendar of a window. It is done by an activity: zones differ between the images of workers.
func (w *maintenanceWindow) foresee(ctx workflow.Context, in windowsactivities.ForeseeWindowInput) (windows.Outlook, error) {
	retrier := kit.HubRetrier(nil)
	var outlook windows.Outlook
	err := retrier.Run(ctx, "read the calendar from "+in.From.UTC().Format(kit.TimeFormat)+" on", w.calendars.ForeseeWindow, in, &outlook)
	return outlook, err
}

// order takes in something that has happened, of which everybody is to be told.
func (w *maintenanceWindow) order(ctx workflow.Context, event windows.Event) {
	w.events = append(w.events, event)
	w.changed = true
	w.renumber(ctx)
}

// renumber makes everybody be told anew. The numbers of a window that is defined once more, after it was terminated, are higher.
func (w *maintenanceWindow) renumber(ctx workflow.Context) {
	w.number = max(w.number+1, workflow.Now(ctx).UnixMicro())
}

func (w *maintenanceWindow) standing(ctx workflow.Context) windows.Standing {
	standing := w.course.Standing(w.name, workflow.Now(ctx))
	standing.Number = w.number
	if w.trouble != "" {
		standing.Trouble = w.trouble
	}
	return standing
}

// tell tells those that follow how the window stands.
func (w *maintenanceWindow) tell(ctx workflow.Context) {
	for w.AnyUnnotified(w.number) {
		standing := w.standing(ctx)
		w.Subscribers.Notify(ctx, standing.Number, temporal.SignalWindow, func(temporal.Subscription) any { return standing })
	}
}

// sleep returns when something is due or was asked for; true: nobody needs the window any more.
func (w *maintenanceWindow) sleep(ctx workflow.Context) (over bool) {
	now := workflow.Now(ctx)
	next, changes := w.course.Next(now)
	untold := w.unannounced()
	idle := !changes || w.course.Phase(now) == windows.PhaseOver // what is left are exclusions, for those that follow it
	ends := idle && len(w.Workflows) == 0 && !untold
	summary := fmt.Sprintf("%s until %s", w.course.Phase(now), next.UTC().Format(kit.TimeFormat))
	if ends {
		next, summary = now.Add(kit.UnusedTime), "ends unless somebody follows it"
	}
	sleeping, wake := workflow.WithCancel(ctx)
	due := func() bool { return false }
	if changes || ends {
		due = workflow.NewTimerWithOptions(sleeping, next.Sub(now), workflow.TimerOptions{Summary: summary}).IsReady
	}
	_ = workflow.Await(ctx, func() bool {
		return w.changed || due() || kit.ShouldContinueAsNew(ctx, w.messages) || untold && !w.unannounced()
	})
	wake()
	return ends && due() && !w.changed && w.defining == 0
}

// continueAsNew hands everything to a new run. More may be said while receivers are told of what was heard last.
func (w *maintenanceWindow) continueAsNew(ctx workflow.Context) error {
	for {
		_ = workflow.Await(ctx, func() bool { return workflow.AllHandlersFinished(ctx) })
		if kit.HandlePendingSignals(ctx); len(w.events) == 0 {
			break
		}
		w.notify(ctx)
	}
	carried := &Carried{Course: w.course, Trouble: w.trouble, Number: w.number, Followers: w.Workflows, Shown: w.shown}
	return workflow.NewContinueAsNewError(ctx, temporal.MaintenanceWindow, Input{Carried: carried})
}

// show makes visible to people how the window stands.
func (w *maintenanceWindow) show(ctx workflow.Context) {
	status := w.status(ctx)
	if status.Phase != w.phase {
		w.phase = status.Phase
		w.attributes.Set(temporal.AttributePhase.ValueSet(string(status.Phase)))
	}
	workflow.SetCurrentDetails(ctx, windowDetails(status))
}

func (w *maintenanceWindow) status(ctx workflow.Context) windows.Status {
	status := w.course.Status(w.name, workflow.Now(ctx))
	status.Trouble = w.trouble
	for _, f := range w.Workflows {
		status.Followers = append(status.Followers, f.WorkflowID)
	}
	return status
}

func windowDetails(s windows.Status) string {
	var d kit.Details
	d.Head("window", s.Window)
	d.Row("stands", string(s.Phase))
	d.Row("**trouble**", s.Trouble)
	if s.Selector != nil {
		//workflowcheck:ignore it is written in one order
		d.Row("only for clusters with", metav1.FormatLabelSelector(s.Selector))
	}
	if o := s.Override; o != nil {
		d.Row("**override**", fmt.Sprintf("by %s until %s: %s", o.By, o.Until.UTC().Format(kit.TimeFormat), o.Reason))
	}
	if s.ExcludedUntil != nil {
		d.Row("excluded until", s.ExcludedUntil.UTC().Format(kit.TimeFormat))
	}
	if o := s.Opening; o != nil {
		d.Row("closes", o.End.UTC().Format(kit.TimeFormat))
	}
	for _, o := range s.Coming {
		d.Row("opens", o.Start.UTC().Format(kit.TimeFormat)+" to "+o.End.UTC().Format(kit.TimeFormat))
	}
	d.Row("followed by", kit.JoinNames(s.Followers))
	d.WriteString("\n")
	d.Head("when", "what", "by")
	for i := len(s.Events) - 1; i >= 0; i-- {
		e := s.Events[i]
		what := e.Message
		if !strings.HasPrefix(what, string(e.Kind)) {
			what = string(e.Kind) + ": " + what
		}
		d.Line(e.At.UTC().Format(kit.TimeFormat), what, strings.TrimSuffix(e.By+": "+e.Reason, ": "))
	}
	return d.Text()
}
