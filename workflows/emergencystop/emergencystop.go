// Package emergencystop holds the workflow that records which clusters are held and notifies subscribed workflows.
package emergencystop

import (
	"errors"

	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/internal/emergency"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/kit"
)

// Input carries the state of the previous run; it is empty in the first run.
type Input struct {
	Carried *Carried `json:"carried,omitempty"`
}

// Continues implements kit.Continued.
func (in Input) Continues() bool { return in.Carried != nil }

// Carried is the state that a run carries to the next one.
type Carried struct {
	State       emergency.State  `json:"state"`
	Subscribers []kit.Subscriber `json:"subscribers,omitempty"`
	// Saved is the number of the state that is saved on the hub.
	Saved int64 `json:"saved,omitempty"`
	// NotLoaded: the earlier holds are not loaded yet. NotSearched: the earlier subscribers are not all found yet.
	NotLoaded   bool `json:"notLoaded,omitempty"`
	NotSearched bool `json:"notSearched,omitempty"`
	// NoHub: no worker has had a hub that could have earlier holds.
	NoHub bool `json:"noHub,omitempty"`
}

// Status lists the holds and counts the subscribers, which are rollouts, node maintenances and other workflows.
type Status struct {
	emergency.State
	Subscribers int `json:"subscribers"`
	// NotSaved is why the holds are not saved on the hub. Without that, a termination of this workflow loses them.
	NotSaved string `json:"notSaved,omitempty"`
}

// EmergencyStop records the holds and notifies every subscribed workflow, first when it subscribes and then of every change. It never ends and
// ignores cancellation, because its end would release everything.
func EmergencyStop(ctx workflow.Context, in Input) error {
	ctx, _ = workflow.NewDisconnectedContext(ctx)
	e := newEmergencyStop(in)
	if err := e.listen(ctx); err != nil {
		return err
	}
	return e.run(ctx)
}

// emergencyStop is one run of the workflow.
type emergencyStop struct {
	// state has number 0 until the earlier holds are known.
	state emergency.State
	kit.Subscribers
	messages int
	memory
}

func newEmergencyStop(in Input) *emergencyStop {
	e := &emergencyStop{}
	if c := in.Carried; c != nil {
		e.state, e.Workflows = c.State, c.Subscribers
		e.saved, e.loaded, e.searched, e.noHub = c.Saved, !c.NotLoaded, !c.NotSearched, c.NoHub
	}
	return e
}

// run notifies the subscribers of changes until it continues as new.
func (e *emergencyStop) run(ctx workflow.Context) error {
	e.startMemory(ctx)
	e.show(ctx)
	for {
		err := workflow.Await(ctx, func() bool { return e.anyUnnotified() || e.mustContinueAsNew(ctx) })
		if err != nil {
			return err
		}
		e.notify(ctx)
		if e.mustContinueAsNew(ctx) {
			return e.continueAsNew(ctx)
		}
	}
}

func (e *emergencyStop) listen(ctx workflow.Context) error {
	kit.OnSignal(ctx, temporal.SignalSubscribeHolds, "Subscribe a workflow to holds.", func(s temporal.Subscription) {
		e.messages++
		e.Add(s)
	})
	kit.OnSignal(ctx, temporal.SignalUnsubscribeHolds, "Unsubscribe a workflow that has ended.", func(s temporal.Subscription) {
		e.messages++
		e.Remove(s)
	})
	kit.OnSignal(ctx, temporal.SignalHold, "Hold clusters, or all. Like the update of this name, but without an answer.", func(r emergency.Request) {
		e.messages++
		e.early = append(e.early, r)
		e.holdEarly(ctx)
	})
	return errors.Join(
		workflow.SetQueryHandlerWithOptions(ctx, temporal.QueryStatus,
			func() (Status, error) {
				return Status{e.state, len(e.Workflows), e.saveTrouble}, nil
			},
			workflow.QueryHandlerOptions{Description: "The holds, with actor, reason and time."}),
		workflow.SetUpdateHandlerWithOptions(ctx, temporal.UpdateHold,
			func(ctx workflow.Context, r emergency.Request) (emergency.Answer, error) {
				if err := e.awaitKnown(ctx, func() error { return e.state.CheckHold(r) }); err != nil {
					return emergency.Answer{}, err
				}
				next, changes := e.state.Hold(r, workflow.Now(ctx))
				return e.change(ctx, next, changes), nil
			},
			workflow.UpdateHandlerOptions{
				Description: "Hold clusters, or all: no new disruption starts there.",
				Validator:   func(r emergency.Request) error { return e.refusal(r, e.state.CheckHold) },
			}),
		workflow.SetUpdateHandlerWithOptions(ctx, temporal.UpdateRelease,
			func(ctx workflow.Context, r emergency.Request) (emergency.Answer, error) {
				if err := e.awaitKnown(ctx, func() error { return e.state.CheckRelease(r) }); err != nil {
					return emergency.Answer{}, err
				}
				next, changes := e.state.Release(r)
				return e.change(ctx, next, changes), nil
			},
			workflow.UpdateHandlerOptions{
				Description: "Release clusters that are held, or all: work resumes.",
				Validator:   func(r emergency.Request) error { return e.refusal(r, e.state.CheckRelease) },
			}),
	)
}

// refusal checks a request. Until the state is known, only its form is checked; the handler then checks the rest.
func (e *emergencyStop) refusal(r emergency.Request, check func(emergency.Request) error) error {
	if !e.known() {
		return kit.InvalidSpec(r.Check())
	}
	return kit.InvalidSpec(check(r))
}

func (e *emergencyStop) change(ctx workflow.Context, next emergency.State, changes []emergency.Change) emergency.Answer {
	e.messages++
	e.state = next
	logChanges(ctx, changes)
	e.show(ctx)
	return emergency.Answer{Changes: changes, Holds: next.Holds, Subscribers: len(e.Workflows)}
}

// logChanges logs each hold that was set, changed or released.
func logChanges(ctx workflow.Context, changes []emergency.Change) {
	logger := workflow.GetLogger(ctx)
	for _, c := range changes {
		if c.After == nil {
			logger.Info("Hold released", "scope", c.Before.Scope)
		} else {
			logger.Warn("Hold set", "scope", c.After.Scope, "actor", c.After.By, "reason", c.After.Reason)
		}
	}
}

func (e *emergencyStop) anyUnnotified() bool { return e.Subscribers.AnyUnnotified(e.state.Number) }

// notify sends the holds to subscribers that have not received the current state.
func (e *emergencyStop) notify(ctx workflow.Context) {
	e.Subscribers.Notify(ctx, e.state.Number, temporal.SignalHeld, func(s temporal.Subscription) any { return e.state.ForCluster(s.Cluster) })
}

func (e *emergencyStop) mustContinueAsNew(ctx workflow.Context) bool {
	return e.known() && kit.ShouldContinueAsNew(ctx, e.messages)
}

// continueAsNew carries the state to a new run once background activities and handlers have finished: the server refuses continue-as-new while
// results are arriving. Signals that arrive until then are applied, and the next run notifies of them.
func (e *emergencyStop) continueAsNew(ctx workflow.Context) error {
	e.Stop()
	idle := func() bool { return e.Running == 0 && workflow.AllHandlersFinished(ctx) }
	for !idle() {
		if err := workflow.Await(ctx, func() bool { return e.anyUnnotified() || idle() }); err != nil {
			return err
		}
		e.notify(ctx)
	}
	kit.HandlePendingSignals(ctx)
	workflow.GetLogger(ctx).Info("Emergency stop continues as new", "holds", len(e.state.Holds), "subscribers", len(e.Workflows))
	carried := &Carried{State: e.state, Subscribers: e.Workflows, Saved: e.saved, NotLoaded: !e.loaded, NotSearched: !e.searched, NoHub: e.noHub}
	return workflow.NewContinueAsNewError(ctx, temporal.EmergencyStop, Input{Carried: carried})
}

// show publishes the holds as current details. It sets no search attribute, so that the emergency stop works in a namespace without Drydock's.
func (e *emergencyStop) show(ctx workflow.Context) {
	workflow.SetCurrentDetails(ctx, details(e.state, e.saveTrouble))
}

func details(s emergency.State, saveTrouble string) string {
	var d kit.Details
	switch {
	case s.Number == 0:
		return "The earlier holds are being loaded.\n"
	case len(s.Holds) == 0:
		return "No cluster is held.\n"
	}
	d.Head("held", "since", "by", "reason", "release with")
	for _, h := range s.Holds {
		d.Line(h.Scope.String(), h.Since.UTC().Format(kit.TimeFormat), h.By, h.Reason, "`"+emergency.ReleaseCommand(h.Scope)+"`")
	}
	if saveTrouble != "" {
		d.Line("not saved on the hub", "", "", saveTrouble, "")
	}
	return d.Text()
}
