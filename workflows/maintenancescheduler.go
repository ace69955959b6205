package workflows

import (
	"time"

	"go.temporal.io/sdk/workflow"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/drydock/activities"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	"drydock.dev/drydock/internal/emergency"
	"drydock.dev/drydock/internal/scheduling"
	"drydock.dev/drydock/internal/temporal"
)

// MaintenanceSchedulerInput says which cluster's slots are granted.
type MaintenanceSchedulerInput struct {
	Cluster string `json:"cluster"`
	// First: no scheduler of the cluster has ended before, as far back as Temporal remembers, so none has granted a slot a moment ago.
	First bool `json:"first,omitempty"`
	// Carried is the state of the run before; nil in the first.
	Carried *MaintenanceSchedulerCarried `json:"carried,omitempty"`
}

// MaintenanceSchedulerCarried is what a run hands to the next one.
type MaintenanceSchedulerCarried struct {
	Book scheduling.Book `json:"book"`
	Held emergency.State `json:"held"`
	// Heard are those that have said which slots they have; nil once everybody has.
	Heard []string `json:"heard,omitempty"`
	// Complete: everybody has.
	Complete bool `json:"complete,omitempty"`
	// LookedAfter is when it was asked last whether those in the book go on.
	LookedAfter time.Time `json:"lookedAfter"`
	// Unswept: maintenances have ended without returning their slots, and the sweeper may not have been woken.
	Unswept   bool      `json:"unswept,omitempty"`
	StartedAt time.Time `json:"startedAt"`
}

const (
	// lingerTime is for how long the nodes of a cluster are watched after the last maintenance: often another follows.
	lingerTime = 5 * time.Minute
	// blindTime is how long whoever watches the nodes may be silent before another worker takes over. Until then it is decided on what was seen
	// last: a node that has gone down meanwhile does not count. To be sooner sure that somebody watches, without a heartbeat, would cost events all the time.
	blindTime = 10 * time.Second
	// watchAgainAfter is when the nodes are watched again that could not be.
	watchAgainAfter = 30 * time.Second
)

// MaintenanceScheduler grants the slots of a cluster to whoever asks for them: rollouts, other requestors and people share its budgets. It decides
// whenever something has changed: a request, a release, a node, the budgets, the emergency stop. It never ends: a request to cancel it is not
// heard, for slots would be forgotten.
func MaintenanceScheduler(ctx workflow.Context, in MaintenanceSchedulerInput) error {
	ctx, _ = workflow.NewDisconnectedContext(ctx)
	s, err := newMaintenanceScheduler(ctx, in)
	if err != nil {
		return err
	}
	return s.run(ctx)
}

// maintenanceScheduler is one run of the workflow.
type maintenanceScheduler struct {
	in    MaintenanceSchedulerInput
	book  scheduling.Book
	holds holdKeeper
	roll  rollCall
	// startedAt is when the first run began, by which a later scheduler is told from one that was terminated.
	startedAt time.Time
	// decided is the last decision.
	decided scheduling.Decision

	// queue is where the cluster's activities run; empty: that is not known yet.
	queue string
	// stopWatching stops the watch over the nodes; nil when there is none. trouble is why they cannot be seen.
	stopWatching workflow.CancelFunc
	trouble      *drydockv1.Wait
	// idleSince is since when nobody asks for anything. lookedAfter is when it was asked last whether those in the book go on.
	idleSince, lookedAfter time.Time
	// unswept: maintenances have ended without returning their slots, and the sweeper may not have been woken.
	unswept bool

	// changed wakes the loop. doubtful: somebody could not be told, and may be over. telling is how many messages are under way. untold are the turns that
	// did not reach their askers; from tellAgainAt on they are told again.
	changed, doubtful bool
	telling           int
	untold            []scheduling.Turn
	tellAgainAt       time.Time
	messages          int

	scheduler *activities.Scheduler
}

func newMaintenanceScheduler(ctx workflow.Context, in MaintenanceSchedulerInput) (*maintenanceScheduler, error) {
	s := &maintenanceScheduler{in: in, startedAt: workflow.Now(ctx), lookedAfter: workflow.Now(ctx)}
	if c := in.Carried; c != nil {
		s.book, s.holds.state, s.startedAt, s.lookedAfter = c.Book, c.Held, c.StartedAt, c.LookedAfter
		s.roll.complete, s.roll.heard, s.unswept = c.Complete, c.Heard, c.Unswept
	} else {
		_ = workflow.UpsertTypedSearchAttributes(ctx, temporal.AttributeCluster.ValueSet(in.Cluster))
	}
	s.listen(ctx)
	s.holds.follow(ctx, in.Cluster)
	return s, workflow.SetQueryHandlerWithOptions(ctx, temporal.QueryStatus,
		func() (MaintenanceSchedulerStatus, error) { return s.status(ctx), nil },
		workflow.QueryHandlerOptions{Description: "Who has a slot, who waits for one, in which order and why."})
}

// listen takes in what askers say, and what is seen of the cluster.
func (s *maintenanceScheduler) listen(ctx workflow.Context) {
	onSignal(ctx, temporal.SignalCall, "Who asks for slots, and gives them back.", func(call scheduling.Call) {
		s.messages++
		s.changed = true
		s.book.Take(call, workflow.Now(ctx))
		s.roll.take(call)
	})
	onSignal(ctx, temporal.SignalSight, "How the nodes of the cluster are.", func(sight scheduling.Sight) {
		s.messages++
		s.changed = true
		s.trouble = nil
		s.book.See(sight)
	})
	s.holds.listen(ctx, func() { s.changed = true })
}

// run decides whenever something has changed.
func (s *maintenanceScheduler) run(ctx workflow.Context) error {
	workflow.GoNamed(ctx, "find lost holders", s.findLost)
	workflow.GoNamed(ctx, "find nodes that are gone", s.findGone)
	if !s.roll.complete {
		workflow.GoNamed(ctx, "call the roll", s.callRoll)
	}
	for {
		if err := workflow.Await(ctx, func() bool { return s.telling < tellAtOnce }); err != nil {
			return err
		}
		s.changed = false
		s.attend(ctx)
		again := s.decide(ctx)
		if mustContinueAsNew(ctx, s.messages) {
			return s.continueAsNew(ctx)
		}
		if err := s.awaitChange(ctx, again); err != nil {
			return err
		}
	}
}

// awaitChange waits until something has changed, or until that instant; the zero time is never.
func (s *maintenanceScheduler) awaitChange(ctx workflow.Context, until time.Time) error {
	if until.IsZero() {
		return workflow.Await(ctx, func() bool { return s.changed })
	}
	timing, stop := workflow.WithCancel(ctx)
	timer := workflow.NewTimerWithOptions(timing, until.Sub(workflow.Now(ctx)), workflow.TimerOptions{Summary: "decide again"})
	err := workflow.Await(ctx, func() bool { return s.changed || timer.IsReady() })
	stop() // not deferred: a run that is evicted from the cache must give no command
	return err
}

// decide grants what may be granted and tells the askers. It returns when to decide again although nothing happens.
func (s *maintenanceScheduler) decide(ctx workflow.Context) (again time.Time) {
	outcome := s.book.Decide(workflow.Now(ctx), s.standstill())
	s.decided = outcome.Decision
	for _, turn := range outcome.Turns {
		s.tell(ctx, turn)
	}
	s.show(ctx)
	if s.stopWatching != nil && s.book.Empty() {
		return scheduling.Earlier(outcome.Again, s.idleSince.Add(lingerTime))
	}
	return outcome.Again
}

// standstill is why nothing may be granted whatever the book says: what is not known allows nothing.
func (s *maintenanceScheduler) standstill() *drydockv1.Wait {
	if !s.holds.known() {
		return &drydockv1.Wait{Reason: emergency.ReasonUnknown, Message: "waiting to be told what is held (workflow " + temporal.EmergencyStopID + ") " + s.holds.trouble}
	}
	if hold := s.holds.state.Of(s.in.Cluster); hold != nil {
		return &drydockv1.Wait{Reason: emergency.ReasonHeld, Message: emergency.Message(*hold)}
	}
	if wait := s.roll.standstill(); wait != nil {
		return wait
	}
	return s.trouble
}

// tell tells an asker. One that cannot be told is likely over, but that is asked, not guessed.
func (s *maintenanceScheduler) tell(ctx workflow.Context, turn scheduling.Turn) {
	turn.Scheduler = s.startedAt
	s.signal(ctx, turn.Asker.WorkflowID, temporal.SignalTurn, turn, func() {
		if len(s.untold) == 0 {
			s.tellAgainAt = workflow.Now(ctx).Add(lostInterval) // not at once: it would fail again
		}
		s.untold = append(s.untold, turn)
	})
}

// signal tells a workflow something, and calls failed when it was not reached.
func (s *maintenanceScheduler) signal(ctx workflow.Context, workflowID, signal string, payload any, failed func()) {
	s.telling++
	told := workflow.SignalExternalWorkflow(ctx, workflowID, "", signal, payload)
	workflow.GoNamed(ctx, "tell "+workflowID, func(ctx workflow.Context) {
		if told.Get(ctx, nil) != nil {
			s.doubtful = true
			failed()
		}
		s.telling--
	})
}

// tellAgain has those told with the next decision that were not reached, and are not over as far as is known.
func (s *maintenanceScheduler) tellAgain() {
	for _, turn := range s.untold {
		s.book.Untell(turn)
		s.changed = true
	}
	s.untold = nil
}

// attend watches the cluster while somebody asks for something, and for a while after.
func (s *maintenanceScheduler) attend(ctx workflow.Context) {
	switch now := workflow.Now(ctx); {
	case !s.book.Empty():
		s.idleSince = time.Time{}
		if s.stopWatching == nil {
			s.watch(ctx)
		}
	case s.idleSince.IsZero():
		s.idleSince = now
	case s.stopWatching != nil && !now.Before(s.idleSince.Add(lingerTime)):
		s.stopWatching()
		s.stopWatching, s.trouble = nil, nil
		s.book.Forget()
	}
}

// watch has the nodes of the cluster watched until that is stopped.
func (s *maintenanceScheduler) watch(ctx workflow.Context) {
	watching, stop := workflow.WithCancel(ctx)
	s.stopWatching = stop
	workflow.GoNamed(watching, "watch nodes", func(ctx workflow.Context) {
		hub := insistence{taskQueue: temporal.TaskQueue, waiting: s.blind}
		err := locate(ctx, hub, s.in.Cluster, &s.queue)
		if err == nil {
			watch := onCluster(s.in.Cluster, &s.queue, s.blind)
			watch.silence = blindTime
			err = watch.wait(ctx, "watch the nodes of "+s.in.Cluster, nil, "", s.scheduler.WatchNodes, s.in.Cluster, nil)
		}
		if err == nil || ctx.Err() != nil {
			return
		}
		// Nobody knows the cluster, say: it is tried again a little later.
		s.blind(ctx, reasonOf(err), temporal.ErrorMessage(err))
		if workflow.NewTimerWithOptions(ctx, watchAgainAfter, workflow.TimerOptions{Summary: "before watching " + s.in.Cluster + " again"}).Get(ctx, nil) == nil {
			s.stopWatching, s.changed = nil, true
		}
	})
}

// blind takes in why the nodes cannot be seen.
func (s *maintenanceScheduler) blind(ctx workflow.Context, reason, message string) {
	s.trouble, s.changed = nil, true
	if reason != "" {
		s.trouble = &drydockv1.Wait{Reason: reason, Message: message, Since: metav1.NewTime(workflow.Now(ctx))}
	}
}

// continueAsNew hands everything to a new run. It comes from the main loop only, when everybody has been told; what arrives until the end is
// taken in.
func (s *maintenanceScheduler) continueAsNew(ctx workflow.Context) error {
	if err := workflow.Await(ctx, func() bool { return s.telling == 0 }); err != nil {
		return err
	}
	hearSignals(ctx)
	s.tellAgain()
	s.book.Forget() // the next run sees for itself how the nodes are, when somebody asks; thousands of them would not fit into its input
	carried := &MaintenanceSchedulerCarried{
		Book: s.book, Held: s.holds.state, Heard: s.roll.heard, Complete: s.roll.complete, LookedAfter: s.lookedAfter,
		Unswept: s.unswept, StartedAt: s.startedAt,
	}
	return workflow.NewContinueAsNewError(ctx, temporal.MaintenanceScheduler, MaintenanceSchedulerInput{Cluster: s.in.Cluster, First: s.in.First, Carried: carried})
}
