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

// Input carries the state of the previous run; it is empty in the first run. An update defines the window.
type Input struct {
	Carried *Carried `json:"carried,omitempty"`
}

// Carried is the state that a run carries to the next one.
type Carried struct {
	Course      windows.State    `json:"course"`
	Trouble     string           `json:"trouble,omitempty"`
	Number      int64            `json:"number"`
	Subscribers []kit.Subscriber `json:"subscribers,omitempty"`
	Shown       shownOn          `json:"shown,omitzero"`
}

// MaintenanceWindow opens and closes a maintenance window by its calendar and by updates, and notifies subscribed workflows, the status portal and
// the window's receivers. It ends when the window has no further openings and no subscribers, or when its last subscriber leaves before it is defined.
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
	// name is namespace/name of the window.
	name   string
	course windows.State
	// trouble is why its calendar cannot be read.
	trouble string
	// number is that of the state that subscribers receive.
	number int64
	kit.Subscribers
	// shown records which portal was notified.
	shown shownOn
	// events have not been sent to receivers yet.
	events []windows.Event
	// turned: an opening has ended or was missed. The run then continues as new.
	turned  bool
	changed bool
	// defining counts the updates that are reading a calendar.
	defining   int
	messages   int
	attributes *kit.SearchAttributes
	phase      windows.Phase

	calendars *windowsactivities.Activities
}

func newMaintenanceWindow(ctx workflow.Context, in Input) *maintenanceWindow {
	w := &maintenanceWindow{
		name: strings.TrimPrefix(workflow.GetInfo(ctx).WorkflowExecution.ID, temporal.MaintenanceWindowPrefix),
		// A higher number than any that a terminated workflow of this window has sent; see renumber.
		number:     workflow.Now(ctx).UnixMicro(),
		attributes: &kit.SearchAttributes{Ctx: ctx},
	}
	if c := in.Carried; c != nil {
		w.course, w.trouble, w.number, w.Workflows, w.shown = c.Course, c.Trouble, c.Number, c.Subscribers, c.Shown
	}
	return w
}

// run handles what is due, notifies, and sleeps until the next change.
func (w *maintenanceWindow) run(ctx workflow.Context) error {
	for {
		w.changed = false
		w.pass(ctx)
		w.tell(ctx) // first, because subscribers wait for it
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
			if !w.changed && !w.unannounced() { // no signal arrived at the last moment
				return nil
			}
		}
	}
}

// pass handles what is due, and extends the schedule when it runs out.
func (w *maintenanceWindow) pass(ctx workflow.Context) {
	w.passTime(ctx)
	from, stale := w.course.Stale(workflow.Now(ctx))
	if !stale || w.trouble != "" {
		return
	}
	of := w.course.Window
	outlook, err := w.foresee(ctx, windowsactivities.ReadCalendarInput{Object: *of, From: from})
	if w.course.Window != of {
		return // the window was edited or cancelled in the meantime
	}
	if w.changed = true; err != nil {
		w.trouble = temporal.ErrorMessage(err)
	} else {
		w.course.SetSchedule(from, outlook)
	}
	w.renumber(ctx)
}

// passTime handles what is due.
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

// foresee reads the calendar of a window. An activity does it, because time zone data differs between worker images.
func (w *maintenanceWindow) foresee(ctx workflow.Context, in windowsactivities.ReadCalendarInput) (windows.Schedule, error) {
	retrier := kit.HubRetrier(nil)
	var outlook windows.Schedule
	err := retrier.Run(ctx, "read the calendar from "+in.From.UTC().Format(kit.TimeFormat)+" on", w.calendars.ReadCalendar, in, &outlook)
	return outlook, err
}

// order records an event, of which receivers and subscribers are notified.
func (w *maintenanceWindow) order(ctx workflow.Context, event windows.Event) {
	w.events = append(w.events, event)
	workflow.GetLogger(ctx).Info("Window event", "window", w.name, "event", event.Kind, "message", event.Message, "actor", event.By)
	w.changed = true
	w.renumber(ctx)
}

// renumber lets all subscribers be notified again. The number is at least the time, so that it grows even if the window was terminated and defined
// again.
func (w *maintenanceWindow) renumber(ctx workflow.Context) {
	w.number = max(w.number+1, workflow.Now(ctx).UnixMicro())
}

func (w *maintenanceWindow) standing(ctx workflow.Context) windows.Snapshot {
	standing := w.course.Snapshot(w.name, workflow.Now(ctx))
	standing.Number = w.number
	if w.trouble != "" {
		standing.Trouble = w.trouble
	}
	return standing
}

// tell notifies the subscribers that lack the current state.
func (w *maintenanceWindow) tell(ctx workflow.Context) {
	for w.AnyUnnotified(w.number) {
		standing := w.standing(ctx)
		w.Subscribers.Notify(ctx, standing.Number, temporal.SignalWindow, func(temporal.Subscription) any { return standing })
	}
}

// sleep returns when something is due or has changed. It returns true if the window is no longer needed.
func (w *maintenanceWindow) sleep(ctx workflow.Context) (over bool) {
	now := workflow.Now(ctx)
	next, changes := w.course.Next(now)
	untold := w.unannounced()
	idle := !changes || w.course.Phase(now) == windows.PhaseOver // only exclusions remain, and they matter only to subscribers
	ends := idle && len(w.Workflows) == 0 && !untold
	summary := fmt.Sprintf("%s until %s", w.course.Phase(now), next.UTC().Format(kit.TimeFormat))
	if ends {
		next, summary = now.Add(kit.UnusedTime), "ends unless a workflow subscribes"
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

// continueAsNew carries the state to a new run. Signals may add events while earlier ones are being sent.
func (w *maintenanceWindow) continueAsNew(ctx workflow.Context) error {
	for {
		_ = workflow.Await(ctx, func() bool { return workflow.AllHandlersFinished(ctx) })
		if kit.HandlePendingSignals(ctx); len(w.events) == 0 {
			break
		}
		w.notify(ctx)
	}
	carried := &Carried{Course: w.course, Trouble: w.trouble, Number: w.number, Subscribers: w.Workflows, Shown: w.shown}
	workflow.GetLogger(ctx).Info("Window continues as new", "window", w.name)
	return workflow.NewContinueAsNewError(ctx, temporal.MaintenanceWindow, Input{Carried: carried})
}

// show publishes the status as search attribute and current details.
func (w *maintenanceWindow) show(ctx workflow.Context) {
	status := w.status(ctx)
	if status.Phase != w.phase {
		w.phase = status.Phase
		workflow.GetLogger(ctx).Info("Window enters a phase", "window", w.name, "phase", status.Phase)
		w.attributes.Set(temporal.AttributePhase.ValueSet(string(status.Phase)))
	}
	workflow.SetCurrentDetails(ctx, windowDetails(status))
}

func (w *maintenanceWindow) status(ctx workflow.Context) windows.Status {
	status := w.course.Status(w.name, workflow.Now(ctx))
	status.Trouble = w.trouble
	for _, f := range w.Workflows {
		status.Subscribers = append(status.Subscribers, f.WorkflowID)
	}
	return status
}

func windowDetails(s windows.Status) string {
	var d kit.Details
	d.Head("window", s.Window)
	d.Row("phase", string(s.Phase))
	d.Row("**trouble**", s.Trouble)
	if s.Selector != nil {
		//workflowcheck:ignore the function sorts
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
	d.Row("subscribers", kit.JoinNames(s.Subscribers))
	d.WriteString("\n")
	d.Head("when", "event", "by")
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
