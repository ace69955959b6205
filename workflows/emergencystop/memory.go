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

// memory lets the holds survive a termination of the workflow. It saves them on the hub. A new workflow loads them from there and finds the subscribers
// again.
type memory struct {
	// loaded: loading the earlier holds has succeeded or failed finally. searched: the search for subscribers is complete.
	loaded, searched bool
	// loadTrouble is why loading is being retried.
	loadTrouble string
	// saved is the number of the state on the hub. saveTrouble is why saving a later one failed.
	saved       int64
	saveTrouble string
	// Background runs loading, searching and saving.
	kit.Background
	// noHub: no worker had a hub that could have earlier holds. They are looked for again, and before a state is saved.
	noHub bool
	// early are requests that arrived before the earlier holds were known.
	early []emergency.Request
}

// loadTimeout is how long the earlier holds may stay unknown. After that, all clusters are held, so that requests and subscribers get an answer.
// It is shorter than the time that the CLI waits for a worker.
const loadTimeout = 8 * time.Second

// startMemory starts to save the holds, to load earlier ones, and to search for subscribers.
func (e *emergencyStop) startMemory(ctx workflow.Context) {
	ctx, e.Stop = workflow.WithCancel(ctx)
	if !e.loaded {
		e.Go(ctx, "load holds", e.load)
		e.Go(ctx, "hold everything if loading takes too long", e.holdIfUnknown)
	}
	if e.noHub {
		e.Go(ctx, "look for a hub again", e.awaitHub)
	}
	if !e.searched {
		e.Go(ctx, "find subscribers", e.search)
	}
	e.Go(ctx, "save holds", e.save)
}

func (e *emergencyStop) known() bool { return e.state.Number > 0 }

// setState sets the state, and applies the requests that arrived before.
func (e *emergencyStop) setState(ctx workflow.Context, state emergency.State) {
	logChanges(ctx, state.ChangesFrom(e.state))
	e.state = state
	e.holdEarly(ctx)
	e.show(ctx)
}

// holdEarly applies the requests of early signals once the state is known.
func (e *emergencyStop) holdEarly(ctx workflow.Context) {
	if !e.known() {
		return
	}
	for _, r := range e.early {
		if e.state.CheckHold(r) == nil {
			var changes []emergency.Change
			e.state, changes = e.state.Hold(r, workflow.Now(ctx))
			logChanges(ctx, changes)
		}
	}
	e.early = nil
	e.show(ctx)
}

// awaitKnown waits until the state is known, and then checks a request against it.
func (e *emergencyStop) awaitKnown(ctx workflow.Context, check func() error) error {
	if err := workflow.Await(ctx, e.known); err != nil {
		return err
	}
	return kit.InvalidSpec(check())
}

// load reads the earlier holds from the hub. If they are unreadable, everything is held until a person releases it.
func (e *emergencyStop) load(ctx workflow.Context) {
	var hub *holds.Activities
	var before emergency.State
	report := func(trouble string) { e.loadTrouble = trouble }
	err := e.retrier(report).Run(ctx, "load earlier holds", hub.LoadHolds, struct{}{}, &before)
	if err != nil && ctx.Err() != nil {
		return
	}
	state := e.state
	if !e.known() {
		state = emergency.Initial(workflow.Now(ctx))
	}
	switch {
	case err == nil:
		workflow.GetLogger(ctx).Info("Earlier holds loaded", "holds", len(before.Holds))
		state = state.Load(before)
	case temporal.ErrorType(err) == temporal.ErrNotFound: // there is no hub that could have saved any
		workflow.GetLogger(ctx).Info("No earlier holds loaded, because there is no hub", "message", temporal.ErrorMessage(err))
		state = state.Load(emergency.State{})
		e.noHub = true
		e.Go(ctx, "look for a hub again", e.awaitHub)
	default:
		state = state.HoldUnknown(temporal.ErrorMessage(err), workflow.Now(ctx))
	}
	e.loaded = true
	if state.Same(before) {
		e.saved = state.Number // the hub has this state already
	}
	e.setState(ctx, state)
}

// lastLook is the longest pause between looks for a hub that no worker had. There are seven looks.
const lastLook = time.Hour

// awaitHub looks for a hub that no worker had at first: workers may start in any order.
func (e *emergencyStop) awaitHub(ctx workflow.Context) {
	options := workflow.TimerOptions{Summary: "next look for a hub"}
	for pause := kit.ListAgainAfter; pause <= lastLook && e.noHub; pause *= 2 {
		if workflow.NewTimerWithOptions(ctx, pause, options).Get(ctx, nil) != nil {
			return
		}
		e.lookForHub(ctx)
	}
}

// lookForHub adds the holds of a hub that no worker had before.
func (e *emergencyStop) lookForHub(ctx workflow.Context) {
	var hub *holds.Activities
	var before emergency.State
	if !e.noHub || e.retrier(func(string) {}).Run(ctx, "load earlier holds", hub.LoadHolds, struct{}{}, &before) != nil || !e.noHub {
		return
	}
	e.noHub = false
	if len(before.Holds) > 0 {
		workflow.GetLogger(ctx).Info("Earlier holds loaded", "holds", len(before.Holds))
		e.setState(ctx, e.state.Load(before))
	}
}

// holdIfUnknown holds everything if the earlier holds stay unknown for too long.
func (e *emergencyStop) holdIfUnknown(ctx workflow.Context) {
	waiting, stop := workflow.WithCancel(ctx)
	timer := workflow.NewTimerWithOptions(waiting, loadTimeout, workflow.TimerOptions{Summary: "then all clusters are held until the earlier holds are loaded"})
	_ = workflow.Await(ctx, func() bool { return e.loaded || timer.IsReady() })
	stop()
	if ctx.Err() == nil && !e.known() {
		why := cmp.Or(e.loadTrouble, "the hub has not answered within "+loadTimeout.String())
		e.setState(ctx, emergency.Initial(workflow.Now(ctx)).HoldUnknown(why, workflow.Now(ctx)))
	}
}

// search finds the subscribers of an earlier workflow. It searches twice, because visibility lags behind. Later subscribers send a signal themselves.
func (e *emergencyStop) search(ctx workflow.Context) {
	var hub *holds.Activities
	for _, pause := range []time.Duration{0, kit.ListAgainAfter} {
		options := workflow.TimerOptions{Summary: "second search for subscribers"}
		if workflow.NewTimerWithOptions(ctx, pause, options).Get(ctx, nil) != nil {
			return
		}
		var found []temporal.Subscription
		if e.retrier(func(string) {}).Run(ctx, "find subscribers", hub.FindSubscribers, struct{}{}, &found) != nil {
			return
		}
		for _, s := range found {
			if !slices.ContainsFunc(e.Workflows, func(f kit.Subscriber) bool { return f.WorkflowID == s.WorkflowID }) {
				e.Workflows = append(e.Workflows, kit.Subscriber{Subscription: s})
			}
		}
	}
	e.searched = true
}

// save saves every change of the holds on the hub.
func (e *emergencyStop) save(ctx workflow.Context) {
	var hub *holds.Activities
	report := func(trouble string) {
		e.saveTrouble = trouble
		e.show(ctx)
	}
	for {
		if workflow.Await(ctx, func() bool { return e.loaded && e.saved != e.state.Number && !e.mustContinueAsNew(ctx) }) != nil {
			return
		}
		e.lookForHub(ctx) // the state must not replace holds that are not loaded
		if ctx.Err() != nil {
			return
		}
		state := e.state
		err := e.retrier(report).Run(ctx, "save holds", hub.SaveHolds, state, nil)
		if err != nil && ctx.Err() != nil {
			return
		}
		e.saved = state.Number
		if err != nil {
			report(temporal.ErrorMessage(err))
		} else if e.saveTrouble != "" {
			report("")
		}
	}
}

// retrier returns a retrier for activities on the hub. If no worker has a hub, or every attempt of a round finds a worker without one, it gives up: clusters
// can be maintained without a hub. An attempt that fails otherwise proves that some worker has a hub, and then it does not give up.
func (e *emergencyStop) retrier(report func(trouble string)) kit.Retrier {
	noHub, hubExists := "", false
	return kit.Retrier{
		TaskQueue: temporal.TaskQueue,
		Report: func(_ workflow.Context, reason, message string) {
			switch reason {
			case temporal.ErrNoHub:
				noHub = message
			case "":
			default:
				hubExists = true
			}
			report(message)
		},
		BeforeRound: func() error {
			if noHub == "" || hubExists {
				return nil
			}
			return temporal.Error(temporal.ErrNotFound, noHub, nil)
		},
	}
}
