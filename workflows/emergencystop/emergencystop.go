// Package emergencystop holds the workflow that keeps which clusters are held and notifies the workflows that subscribe to it.
package emergencystop

import (
	"errors"

	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/internal/emergency"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/kit"
)

// Input is the state of the run before; empty in the first.
type Input struct {
	Carried *Carried `json:"carried,omitempty"`
}

// Carried is what a run hands to the next one.
type Carried struct {
	State     emergency.State  `json:"state"`
	Followers []kit.Subscriber `json:"followers,omitempty"`
	// Kept is the number of the state that is kept on the hub.
	Kept int64 `json:"kept,omitempty"`
	// Unrecalled: what was held before has not been read yet. Unsought: those that followed before have not all been found yet.
	Unrecalled bool `json:"unrecalled,omitempty"`
	Unsought   bool `json:"unsought,omitempty"`
}

// Status is what is held, and how many rollouts and node maintenances are told of it.
type Status struct {
	emergency.State
	Followers int `json:"followers"`
	// NotKept says why what is held is not kept on the hub as well: it would be forgotten if this workflow were terminated.
	NotKept string `json:"notKept,omitempty"`
}

// EmergencyStop keeps what is held, and tells it to every workflow that follows it: when it begins to follow, and whenever that changes. It never
// ends: a request to cancel it is not heard, for what is held would be forgotten.
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
	// state is unknown until what was held before is, or that cannot be waited for.
	state emergency.State
	kit.Subscribers
	messages int
	memory
}

// run tells the followers what they do not know yet.
func (e *emergencyStop) run(ctx workflow.Context) error {
	e.remember(ctx)
	e.show(ctx)
	for {
		err := workflow.Await(ctx, func() bool { return e.anyUntold() || e.mustContinueAsNew(ctx) })
		if err != nil {
			return err
		}
		e.tell(ctx)
		if e.mustContinueAsNew(ctx) {
			return e.continueAsNew(ctx)
		}
	}
}

func (e *emergencyStop) listen(ctx workflow.Context) error {
	kit.OnSignal(ctx, temporal.SignalFollowHolds, "A workflow wants to be told what is held.", func(s temporal.Subscription) {
		e.messages++
		e.Add(s)
	})
	kit.OnSignal(ctx, temporal.SignalLeaveHolds, "A workflow is over and wants to be told nothing more.", func(s temporal.Subscription) {
		e.messages++
		e.Remove(s)
	})
	kit.OnSignal(ctx, temporal.SignalHold, "Hold clusters, or all; as the update of this name, but without an answer.", func(r emergency.Request) {
		e.messages++
		e.early = append(e.early, r)
		e.holdEarly(ctx)
	})
	return errors.Join(
		workflow.SetQueryHandlerWithOptions(ctx, temporal.QueryStatus,
			func() (Status, error) {
				return Status{e.state, len(e.Workflows), e.notKept}, nil
			},
			workflow.QueryHandlerOptions{Description: "What is held, by whom, why and since when."}),
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
				Description: "Release clusters that are held, or all: work goes on.",
				Validator:   func(r emergency.Request) error { return e.refusal(r, e.state.CheckRelease) },
			}),
	)
}

// refusal refuses a request by a check. What cannot be checked before it is known what is held is checked then.
func (e *emergencyStop) refusal(r emergency.Request, check func(emergency.Request) error) error {
	if !e.known() {
		return kit.InvalidSpec(r.Check())
	}
	return kit.InvalidSpec(check(r))
}

func (e *emergencyStop) change(ctx workflow.Context, next emergency.State, changes []emergency.Change) emergency.Answer {
	e.messages++
	e.state = next
	e.show(ctx)
	return emergency.Answer{Changes: changes, Holds: next.Holds, Followers: len(e.Workflows)}
}

func (e *emergencyStop) anyUntold() bool { return e.Subscribers.AnyUnnotified(e.state.Number) }

// tell tells followers what is held.
func (e *emergencyStop) tell(ctx workflow.Context) {
	e.Subscribers.Notify(ctx, e.state.Number, temporal.SignalHeld, func(s temporal.Subscription) any { return e.state.About(s.Cluster) })
}

func (e *emergencyStop) mustContinueAsNew(ctx workflow.Context) bool {
	return e.known() && kit.ShouldContinueAsNew(ctx, e.messages)
}

// continueAsNew hands everything to a new run. It comes from the main loop only, when nothing is being told, kept or looked for: an answer that
// arrives in that moment makes the server refuse the end of the run. What else arrives until then is taken in, and told by the next run.
func (e *emergencyStop) continueAsNew(ctx workflow.Context) error {
	e.Stop()
	idle := func() bool { return e.Running == 0 && workflow.AllHandlersFinished(ctx) }
	for !idle() {
		if err := workflow.Await(ctx, func() bool { return e.anyUntold() || idle() }); err != nil {
			return err
		}
		e.tell(ctx)
	}
	kit.HandlePendingSignals(ctx)
	carried := &Carried{State: e.state, Followers: e.Workflows, Kept: e.kept, Unrecalled: !e.recalled, Unsought: !e.sought}
	return workflow.NewContinueAsNewError(ctx, temporal.EmergencyStop, Input{Carried: carried})
}

// show makes what is held visible to people. It sets no search attribute: an emergency stop works in a namespace that lacks them, too.
func (e *emergencyStop) show(ctx workflow.Context) {
	workflow.SetCurrentDetails(ctx, emergencyStopDetails(e.state, e.notKept))
}

func emergencyStopDetails(s emergency.State, notKept string) string {
	var d kit.Details
	switch {
	case s.Number == 0:
		return "What was held before is being read.\n"
	case len(s.Holds) == 0:
		return "Nothing is held.\n"
	}
	d.Head("held", "since", "by", "reason", "goes on with")
	for _, h := range s.Holds {
		d.Line(h.Scope.String(), h.Since.UTC().Format(kit.TimeFormat), h.By, h.Reason, "`"+emergency.ReleaseCommand(h.Scope)+"`")
	}
	if notKept != "" {
		d.Line("not kept on the hub", "", "", notKept, "")
	}
	return d.Text()
}
