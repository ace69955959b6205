package emergencystop

import (
	"cmp"
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/activities/holds"
	"drydock.dev/drydock/internal/emergency"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/kit"
)

// memory is what lets the emergency stop survive that somebody terminates its workflow: what is held is kept on the hub as well, and a new
// workflow reads it there and finds those again that followed the one before.
type memory struct {
	// recalled: what was held before is known, or will never be. sought: those that followed before are found.
	recalled, sought bool
	// notRecalled says why it is not known yet what was held before.
	notRecalled string
	// kept is the number of the state that is kept; notKept says why a later one is not.
	kept    int64
	notKept string
	// background is the work of remembering.
	kit.Background
	// early are requests that came before it was known what is held.
	early []emergency.Request
}

// recallPatience is how long it may stay unknown what was held before. After that everything is held, so that requests and notifications do not wait any
// longer. It is less than the time for which the CLI waits for a worker.
const recallPatience = 8 * time.Second

func newEmergencyStop(in Input) *emergencyStop {
	e := &emergencyStop{}
	if c := in.Carried; c != nil {
		e.state, e.Workflows = c.State, c.Followers
		e.kept, e.recalled, e.sought = c.Kept, !c.Unrecalled, !c.Unsought
	}
	return e
}

// remember begins to keep what is held, and to find out what was before.
func (e *emergencyStop) remember(ctx workflow.Context) {
	ctx, e.Stop = workflow.WithCancel(ctx)
	if !e.recalled {
		e.Go(ctx, "recall holds", e.recall)
		e.Go(ctx, "doubt", e.doubt)
	}
	if !e.sought {
		e.Go(ctx, "seek followers", e.seek)
	}
	e.Go(ctx, "keep holds", e.keep)
}

func (e *emergencyStop) known() bool { return e.state.Number > 0 }

// know takes over what is held, and what was asked for meanwhile.
func (e *emergencyStop) know(ctx workflow.Context, state emergency.State) {
	e.state = state
	e.holdEarly(ctx)
	e.show(ctx)
}

// holdEarly does what signals have asked for, once it is known what is held.
func (e *emergencyStop) holdEarly(ctx workflow.Context) {
	if !e.known() {
		return
	}
	for _, r := range e.early {
		if e.state.CheckHold(r) == nil {
			e.state, _ = e.state.Hold(r, workflow.Now(ctx))
		}
	}
	e.early = nil
	e.show(ctx)
}

// awaitKnown waits until it is known what is held, and checks a request by that.
func (e *emergencyStop) awaitKnown(ctx workflow.Context, check func() error) error {
	if err := workflow.Await(ctx, e.known); err != nil {
		return err
	}
	return kit.InvalidSpec(check())
}

// recall reads what was held before. What nobody can read must be seen to by a person, and until then everything is held.
func (e *emergencyStop) recall(ctx workflow.Context) {
	var hub *holds.Activities
	var before emergency.State
	say := func(trouble string) { e.notRecalled = trouble }
	err := e.retrier(say).Run(ctx, "read what was held before", hub.RecallHolds, struct{}{}, &before)
	if err != nil && ctx.Err() != nil {
		return
	}
	state := e.state
	if !e.known() {
		state = emergency.First(workflow.Now(ctx))
	}
	switch {
	case err == nil:
		state = state.Load(before)
	case temporal.ErrorType(err) == temporal.ErrNotFound: // there is no hub where anything could have been kept
		state = state.Load(emergency.State{})
	default:
		state = state.Doubt(temporal.ErrorMessage(err), workflow.Now(ctx))
	}
	e.recalled = true
	if state.Same(before) {
		e.kept = state.Number // there is nothing else to keep
	}
	e.know(ctx, state)
}

// doubt holds everything when it stays unknown for too long what was held before.
func (e *emergencyStop) doubt(ctx workflow.Context) {
	waiting, stop := workflow.WithCancel(ctx)
	timer := workflow.NewTimerWithOptions(waiting, recallPatience, workflow.TimerOptions{Summary: "then everything is held"})
	_ = workflow.Await(ctx, func() bool { return e.recalled || timer.IsReady() })
	stop()
	if ctx.Err() == nil && !e.known() {
		why := cmp.Or(e.notRecalled, "the hub has not answered within "+recallPatience.String())
		e.know(ctx, emergency.First(workflow.Now(ctx)).Doubt(why, workflow.Now(ctx)))
	}
}

// seek finds those again that have followed a run which was terminated. Whoever begins to follow later asks for it.
func (e *emergencyStop) seek(ctx workflow.Context) {
	var hub *holds.Activities
	for _, pause := range []time.Duration{0, kit.ListAgainAfter} {
		options := workflow.TimerOptions{Summary: "then followers are looked for again"}
		if workflow.NewTimerWithOptions(ctx, pause, options).Get(ctx, nil) != nil {
			return
		}
		var found []temporal.Subscription
		if e.retrier(func(string) {}).Run(ctx, "find those that follow", hub.FindFollowers, struct{}{}, &found) != nil {
			return
		}
		for _, s := range found {
			if !slices.ContainsFunc(e.Workflows, func(f kit.Subscriber) bool { return f.WorkflowID == s.WorkflowID }) {
				e.Workflows = append(e.Workflows, kit.Subscriber{Subscription: s})
			}
		}
	}
	e.sought = true
}

// keep keeps what is held on the hub, whenever that has changed.
func (e *emergencyStop) keep(ctx workflow.Context) {
	var hub *holds.Activities
	say := func(trouble string) {
		e.notKept = trouble
		e.show(ctx)
	}
	for {
		if workflow.Await(ctx, func() bool { return e.recalled && e.kept != e.state.Number && !e.mustContinueAsNew(ctx) }) != nil {
			return
		}
		state := e.state
		err := e.retrier(say).Run(ctx, "keep what is held", hub.KeepHolds, state, nil)
		if err != nil && ctx.Err() != nil {
			return
		}
		e.kept = state.Number
		if err != nil {
			say(temporal.ErrorMessage(err))
		} else if e.notKept != "" {
			say("")
		}
	}
}

// retrier returns a retrier on the hub. Where no worker knows one after a round, there is none, and nothing waits for one to come: clusters can be
// maintained without. Unless something else is wrong in another round: then one of the workers knows it.
func (e *emergencyStop) retrier(say func(trouble string)) kit.Retrier {
	noHub, known := "", false
	return kit.Retrier{
		TaskQueue: temporal.TaskQueue,
		Report: func(_ workflow.Context, reason, message string) {
			switch reason {
			case temporal.ErrNoHub:
				noHub = message
			case "":
			default:
				known = true
			}
			say(message)
		},
		BeforeRound: func() error {
			if noHub == "" || known {
				return nil
			}
			return temporal.Error(temporal.ErrNotFound, noHub, nil)
		},
	}
}
