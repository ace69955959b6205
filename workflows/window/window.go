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

// Continues implements kit.Continued.
func (in Input) Continues() bool { return in.Carried != nil }

// Carried is the state that a run carries to the next one.
type Carried struct {
	State       windows.State    `json:"state"`
	Trouble     string           `json:"trouble,omitempty"`
	Number      int64            `json:"number"`
	Subscribers []kit.Subscriber `json:"subscribers,omitempty"`
	Shown       shownOn          `json:"shown,omitzero"`
	// Source is the object that defines the window; nil: updates did.
	Source *source `json:"source,omitempty"`
	// Requests of objects that are not handled yet.
	Requests []ObjectRequest `json:"requests,omitempty"`
}

// MaintenanceWindow opens and closes a maintenance window by its calendar and by updates. It notifies subscribed workflows, the status portal and the
// window's receivers. It ends when the window has no further openings and no subscribers, or when its last subscriber leaves before it is defined.
func MaintenanceWindow(ctx workflow.Context, in Input) error {
	listening, _ := workflow.NewDisconnectedContext(ctx)
	w := newMaintenanceWindow(listening, in)
	if err := w.listen(listening); err != nil {
		return err
	}
	kit.OnCancellation(ctx, listening, func() { w.cancel(listening, windows.Request{}) })
	workflow.GoNamed(listening, "announce", w.keepAnnouncing)
	w.publishingCtx, w.publishing.Stop = workflow.WithCancel(listening)
	if w.source != nil {
		w.publishTo(listening)
	}
	return w.run(listening)
}

// maintenanceWindow is one run of the workflow.
type maintenanceWindow struct {
	// name is namespace/name of the window.
	name  string
	state windows.State
	// trouble is the error of its calendar.
	trouble string
	// number is the version of the state that subscribers receive.
	number int64
	kit.Subscribers
	// shown records which portal was notified.
	shown shownOn
	// events have not been sent to receivers yet.
	events []windows.Event
	// openingEnded: an opening has ended or was missed. The run then continues as new.
	openingEnded bool
	changed      bool
	// defining counts the updates that are reading a calendar.
	defining   int
	messages   int
	attributes *kit.SearchAttributes
	phase      windows.Phase

	// source is the object that defines the window; nil: updates did. publisher writes its status. requests of objects are not handled yet.
	source    *source
	publisher *kit.Publisher
	requests  []ObjectRequest
	// publishing runs the writes to the object. releasing: the last one is in progress.
	publishing    kit.Background
	publishingCtx workflow.Context
	releasing     bool

	calendars *windowsactivities.Activities
}

func newMaintenanceWindow(ctx workflow.Context, in Input) *maintenanceWindow {
	w := &maintenanceWindow{
		name: strings.TrimPrefix(workflow.GetInfo(ctx).WorkflowExecution.ID, temporal.MaintenanceWindowPrefix),
		// Higher than any number of a terminated workflow of this window; see renumber.
		number:     workflow.Now(ctx).UnixMicro(),
		attributes: &kit.SearchAttributes{Ctx: ctx},
	}
	if c := in.Carried; c != nil {
		w.state, w.trouble, w.number, w.Workflows, w.shown = c.State, c.Trouble, c.Number, c.Subscribers, c.Shown
		w.source, w.requests = c.Source, c.Requests
	}
	return w
}

// run handles due events, notifies of them, and sleeps until the next change.
func (w *maintenanceWindow) run(ctx workflow.Context) error {
	for {
		w.changed = false
		w.followObject(ctx)
		w.update(ctx)
		w.notifySubscribers(ctx) // first, because subscribers wait for it
		w.show(ctx)
		w.notifyReceivers(ctx)
		w.releaseObject()
		switch {
		case kit.ShouldContinueAsNew(ctx, w.messages):
			return w.continueAsNew(ctx)
		case w.changed:
			continue
		case w.openingEnded:
			return w.continueAsNew(ctx)
		}
		if w.sleep(ctx) {
			kit.HandlePendingSignals(ctx)
			if !w.changed && !w.unannounced() && w.finish(ctx) { // no signal arrived at the last moment
				return nil
			}
		}
	}
}

// update handles due events, and reads the calendar again when the schedule runs out.
func (w *maintenanceWindow) update(ctx workflow.Context) {
	w.advance(ctx)
	from, stale := w.state.Stale(workflow.Now(ctx))
	if !stale || w.trouble != "" {
		return
	}
	object := w.state.Window
	schedule, err := w.readCalendar(ctx, windowsactivities.ReadCalendarInput{Object: *object, From: from})
	if w.state.Window != object {
		return // the window was edited or cancelled since
	}
	if w.changed = true; err != nil {
		w.trouble = temporal.ErrorMessage(err)
	} else {
		w.state.SetSchedule(from, schedule)
	}
	w.renumber(ctx)
}

// advance handles due events.
func (w *maintenanceWindow) advance(ctx workflow.Context) {
	confirmed := w.state.Confirmed
	for _, event := range w.state.Advance(workflow.Now(ctx)) {
		w.openingEnded = w.openingEnded || event.Kind == windows.EventEnded || event.Kind == windows.EventMissed
		before := w.number
		if w.recordEvent(ctx, event); event.Confirmed {
			w.Skip(before, w.number)
		}
	}
	excluded := w.state.ExclusionChanged(workflow.Now(ctx))
	if excluded || !w.state.Confirmed.Equal(confirmed) {
		w.changed = true
		w.renumber(ctx)
	}
}

// readCalendar reads the calendar of a window in an activity, because time zone data differs between worker images.
func (w *maintenanceWindow) readCalendar(ctx workflow.Context, in windowsactivities.ReadCalendarInput) (windows.Schedule, error) {
	retrier := kit.HubRetrier(nil)
	var schedule windows.Schedule
	err := retrier.Run(ctx, "read the calendar from "+in.From.UTC().Format(kit.TimeFormat)+" on", w.calendars.ReadCalendar, in, &schedule)
	return schedule, err
}

// recordEvent records an event for receivers and subscribers.
func (w *maintenanceWindow) recordEvent(ctx workflow.Context, event windows.Event) {
	w.events = append(w.events, event)
	w.publishEvent(ctx, event)
	workflow.GetLogger(ctx).Info("Window event", "window", w.name, "event", event.Kind, "message", event.Message, "actor", event.By)
	w.changed = true
	w.renumber(ctx)
}

// renumber increases the version, so that all subscribers are notified. The version is at least the time, so that it grows even if the window was
// terminated and defined again.
func (w *maintenanceWindow) renumber(ctx workflow.Context) {
	w.number = max(w.number+1, workflow.Now(ctx).UnixMicro())
}

// snapshot returns the state that subscribers receive.
func (w *maintenanceWindow) snapshot(ctx workflow.Context) windows.Snapshot {
	snapshot := w.state.Snapshot(w.name, workflow.Now(ctx))
	snapshot.Number = w.number
	if w.trouble != "" {
		snapshot.Trouble = w.trouble
	}
	return snapshot
}

// notifySubscribers notifies the subscribers that lack the current state.
func (w *maintenanceWindow) notifySubscribers(ctx workflow.Context) {
	for w.AnyUnnotified(w.number) {
		snapshot := w.snapshot(ctx)
		w.Subscribers.Notify(ctx, snapshot.Number, temporal.SignalWindow, func(temporal.Subscription) any { return snapshot })
	}
}

// sleep waits for the next due event or change. It returns true if the window is no longer needed.
func (w *maintenanceWindow) sleep(ctx workflow.Context) (over bool) {
	now := workflow.Now(ctx)
	next, changes := w.state.Next(now)
	unannounced := w.unannounced()
	idle := !changes || w.state.Phase(now) == windows.PhaseOver // only exclusions remain, and they matter only to subscribers
	ends := idle && len(w.Workflows) == 0 && !unannounced && !w.releasing
	summary := fmt.Sprintf("%s until %s", w.state.Phase(now), next.UTC().Format(kit.TimeFormat))
	if ends {
		next, summary = now.Add(kit.UnusedTime), "ends unless a workflow subscribes"
	}
	sleeping, wake := workflow.WithCancel(ctx)
	due := func() bool { return false }
	if changes || ends {
		due = workflow.NewTimerWithOptions(sleeping, next.Sub(now), workflow.TimerOptions{Summary: summary}).IsReady
	}
	_ = workflow.Await(ctx, func() bool {
		return w.changed || due() || kit.ShouldContinueAsNew(ctx, w.messages) || unannounced && !w.unannounced() || w.objectGone()
	})
	wake()
	return ends && due() && !w.changed && w.defining == 0
}

// continueAsNew carries the state to a new run. Signals may add events while earlier ones are being sent.
func (w *maintenanceWindow) continueAsNew(ctx workflow.Context) error {
	w.pauseObject(ctx)
	for {
		_ = workflow.Await(ctx, func() bool { return workflow.AllHandlersFinished(ctx) })
		if kit.HandlePendingSignals(ctx); len(w.events) == 0 {
			break
		}
		w.notifyReceivers(ctx)
	}
	carried := &Carried{State: w.state, Trouble: w.trouble, Number: w.number, Subscribers: w.Workflows, Shown: w.shown, Source: w.source, Requests: w.requests}
	if w.source != nil {
		w.source.Publisher = w.publisher.State
	}
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
	w.showObject(ctx)
	workflow.SetCurrentDetails(ctx, windowDetails(status))
}

func (w *maintenanceWindow) status(ctx workflow.Context) windows.Status {
	status := w.state.Status(w.name, workflow.Now(ctx))
	status.Trouble = w.trouble
	if w.source != nil {
		status.Source = w.source.Object.String()
	}
	status.Subscribers = w.subscriberIDs()
	return status
}

func (w *maintenanceWindow) subscriberIDs() []string {
	var ids []string
	for _, s := range w.Workflows {
		ids = append(ids, s.WorkflowID)
	}
	return ids
}

func windowDetails(s windows.Status) string {
	var d kit.Details
	d.Head("window", s.Window)
	d.Row("phase", string(s.Phase))
	d.Row("defined by", s.Source)
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
	for _, o := range s.Upcoming {
		d.Row("opens", o.Start.UTC().Format(kit.TimeFormat)+" to "+o.End.UTC().Format(kit.TimeFormat))
	}
	d.Row("subscribers", kit.JoinNames(s.Subscribers))
	d.WriteString("\n")
	d.Head("when", "event", "by")
	for i := len(s.Events) - 1; i >= 0; i-- {
		e := s.Events[i]
		text := e.Message
		if !strings.HasPrefix(text, string(e.Kind)) {
			text = string(e.Kind) + ": " + text
		}
		d.Line(e.At.UTC().Format(kit.TimeFormat), text, strings.TrimSuffix(e.By+": "+e.Reason, ": "))
	}
	return d.Text()
}
