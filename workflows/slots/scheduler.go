// Package slots holds the MaintenanceScheduler, which grants the slots for maintenance in a cluster, and the client with which maintenances and rollouts
// request them.
package slots

import (
	"errors"
	"time"

	"go.temporal.io/sdk/workflow"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/drydock/activities/scheduler"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	"drydock.dev/drydock/internal/emergency"
	"drydock.dev/drydock/internal/scheduling"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/gates"
	"drydock.dev/drydock/workflows/kit"
)

// SchedulerInput names the cluster of a scheduler.
type SchedulerInput struct {
	Cluster string `json:"cluster"`
	// First: Temporal knows no earlier scheduler of the cluster. So no other scheduler has granted a slot a moment ago.
	First bool `json:"first,omitempty"`
	// Carried is the state of the previous run; nil in the first run.
	Carried *SchedulerCarried `json:"carried,omitempty"`
}

// Continues implements kit.Continued.
func (in SchedulerInput) Continues() bool { return in.Carried != nil }

// ClusterName implements kit.OnCluster.
func (in SchedulerInput) ClusterName() string { return in.Cluster }

// SchedulerCarried is the state that a run carries to the next one.
type SchedulerCarried struct {
	Slots scheduling.SlotState `json:"slots"`
	Held  emergency.State      `json:"held"`
	// Answered are the owners without requests that have answered the resync; nil once it is complete.
	Answered []string `json:"answered,omitempty"`
	// Resynced: the resync is complete.
	Resynced bool `json:"resynced,omitempty"`
	// OwnersCheckedAt is when the workflows of the owners were last checked.
	OwnersCheckedAt time.Time `json:"ownersCheckedAt"`
	// Unswept: maintenances ended without returning their nodes, and the sweeper may not have been woken.
	Unswept   bool      `json:"unswept,omitempty"`
	StartedAt time.Time `json:"startedAt"`
	// Queue is the task queue on which the nodes are being watched; empty: they are not.
	Queue string `json:"queue,omitempty"`
}

const (
	// lingerTime is how long the scheduler keeps watching the nodes after the last maintenance: often another follows.
	lingerTime = 5 * time.Minute
	// watchAgainAfter is the pause after a failed watch.
	watchAgainAfter = 30 * time.Second
	// requestPace, for each waiting owner, is the minimum time between decisions that grant nothing: a decision considers the whole queue, so it takes longer the
	// longer the queue is.
	requestPace = 100 * time.Microsecond
)

// MaintenanceScheduler grants the slots of a cluster: rollouts, other requestors and people share its budgets. It decides after each change of a
// request, a slot, a node, the budgets or the emergency stop. It never ends, and ignores cancellation, which would lose the slots.
func MaintenanceScheduler(ctx workflow.Context, in SchedulerInput) error {
	ctx, _ = workflow.NewDisconnectedContext(ctx)
	s, err := newMaintenanceScheduler(ctx, in)
	if err != nil {
		return err
	}
	return s.run(ctx)
}

// maintenanceScheduler is one run of the workflow.
type maintenanceScheduler struct {
	in     SchedulerInput
	slots  scheduling.SlotState
	log    *slotLog
	holds  gates.Holds
	resync resync
	// startedAt is when the first run started. It distinguishes the scheduler from a terminated one.
	startedAt time.Time
	// decided is the last decision, and decidedAt its time. missing are the nodes of waiting requests that the watch has not listed.
	decided   scheduling.Decision
	decidedAt time.Time
	missing   []string

	// queue is the task queue of the cluster's activities; empty: unknown. located: the run before has found it, and no watch
	// of this run has used it.
	queue   string
	located bool
	// stopWatching stops the watch on the nodes; nil: none runs. trouble is why the nodes cannot be watched.
	stopWatching workflow.CancelFunc
	trouble      *drydockv1.Wait
	// idleSince is the time since which there are no requests and no slots.
	idleSince, ownersCheckedAt time.Time
	// unswept: maintenances ended without returning their nodes, and the sweeper may not have been woken.
	unswept bool

	// changed wakes the loop. requested wakes it a moment later: requests have arrived that get no slot yet. wake is the timer of the loop, which ends at
	// wakeAt; nil: it is not set.
	changed, requested bool
	wake               workflow.Future
	wakeAt             time.Time
	stopWake           workflow.CancelFunc
	// unreachable: a message did not reach an owner, whose workflow may be closed. sending counts the outgoing messages in progress, received the incoming ones.
	unreachable       bool
	sending, received int
	// reporting: reports are being delivered. reportAt is the earliest time of the next ones.
	reporting bool
	reportAt  time.Time

	scheduler *scheduler.Activities
}

func newMaintenanceScheduler(ctx workflow.Context, in SchedulerInput) (*maintenanceScheduler, error) {
	s := &maintenanceScheduler{in: in, startedAt: workflow.Now(ctx), ownersCheckedAt: workflow.Now(ctx)}
	if c := in.Carried; c != nil {
		s.slots, s.holds.State, s.startedAt, s.ownersCheckedAt = c.Slots, c.Held, c.StartedAt, c.OwnersCheckedAt
		s.resync, s.unswept = continuedResync(c), c.Unswept
		s.queue, s.located = c.Queue, c.Queue != ""
	} else {
		_ = workflow.UpsertTypedSearchAttributes(ctx, temporal.AttributeCluster.ValueSet(in.Cluster))
	}
	s.log = newSlotLog(ctx, in.Cluster)
	s.listen(ctx)
	s.holds.Subscribe(ctx, in.Cluster)
	return s, workflow.SetQueryHandlerWithOptions(ctx, temporal.QueryStatus,
		func(request temporal.StatusRequest) (SchedulerStatus, error) { return s.status(ctx, request) },
		workflow.QueryHandlerOptions{Description: "The slots of the cluster and the queue of requests, with the reasons to wait. Optional: {filter, limit, cursor}."})
}

// listen handles the messages of slot owners, maintenances and the watch on the nodes.
func (s *maintenanceScheduler) listen(ctx workflow.Context) {
	kit.OnSignal(ctx, temporal.SignalSlotRequests, "All requests and slots of an owner.", func(set scheduling.SlotRequests) {
		s.received++
		urgency := s.slots.Receive(set, workflow.Now(ctx))
		s.changed, s.requested = s.changed || urgency == scheduling.DueNow, s.requested || urgency == scheduling.DueLater
		s.changed = s.resync.answeredBy(set.Owner) || s.changed
	})
	kit.OnSignal(ctx, temporal.SignalSlotReturn, "A maintenance no longer needs its slot.", func(returned scheduling.SlotReturn) {
		s.receive()
		s.slots.Return(returned, workflow.Now(ctx))
	})
	kit.OnSignal(ctx, temporal.SignalNodeUpdate, "The nodes of the cluster, or their changes.", func(update scheduling.NodeUpdate) {
		s.receive()
		s.trouble = nil
		s.slots.Update(update, workflow.Now(ctx))
	})
	s.holds.Listen(ctx, func() { s.changed = true })
}

func (s *maintenanceScheduler) receive() {
	s.received++
	s.changed = true
}

// run decides after each change until it continues as new.
func (s *maintenanceScheduler) run(ctx workflow.Context) error {
	workflow.GoNamed(ctx, "find closed owners", s.findClosedOwners)
	workflow.GoNamed(ctx, "find missing nodes", s.findMissingNodes)
	if !s.resync.complete {
		workflow.GoNamed(ctx, "resync", s.runResync)
	}
	for {
		if err := workflow.Await(ctx, func() bool { return s.sending < maxSignals }); err != nil {
			return err
		}
		s.changed, s.requested = false, false
		s.watchWhileNeeded(ctx)
		again := s.decide(ctx)
		if s.runEnds(ctx) {
			return s.continueAsNew(ctx)
		}
		if err := s.awaitChange(ctx, again); err != nil {
			return err
		}
	}
}

func (s *maintenanceScheduler) historyLong(ctx workflow.Context) bool {
	return kit.ShouldContinueAsNew(ctx, s.received)
}

// runEnds reports whether the run continues as new. While reports are being delivered, it still grants slots.
func (s *maintenanceScheduler) runEnds(ctx workflow.Context) bool {
	return s.historyLong(ctx) && !s.reporting
}

// awaitChange waits until a decision is due: after a change, or at that instant; the zero time is never. Requests that get no slot yet wait for others.
func (s *maintenanceScheduler) awaitChange(ctx workflow.Context, until time.Time) error {
	for {
		now := workflow.Now(ctx)
		if s.requested {
			until = scheduling.Earlier(until, s.decidedAt.Add(s.pace()))
		}
		if s.changed || s.runEnds(ctx) || !until.IsZero() && !until.After(now) {
			return nil
		}
		known := s.requested
		s.setWake(ctx, until)
		if err := workflow.Await(ctx, func() bool {
			return s.changed || s.requested != known || s.runEnds(ctx) || s.wake != nil && s.wake.IsReady()
		}); err != nil {
			return err
		}
	}
}

// setWake sets the timer of the loop. One that ends earlier stays, because its cancellation is an event, too.
func (s *maintenanceScheduler) setWake(ctx workflow.Context, at time.Time) {
	if s.wake != nil && s.wake.IsReady() {
		s.wake = nil
	}
	if at.IsZero() || s.wake != nil && !s.wakeAt.After(at) {
		return
	}
	if s.wake != nil {
		s.stopWake()
	}
	timing, stop := workflow.WithCancel(ctx)
	s.wake = workflow.NewTimerWithOptions(timing, at.Sub(workflow.Now(ctx)), workflow.TimerOptions{Summary: "decide again"})
	s.wakeAt, s.stopWake = at, stop
}

// pace returns the minimum time between two considerations of the whole queue that grant nothing. A short queue has none.
func (s *maintenanceScheduler) pace() time.Duration {
	return (time.Duration(s.slots.Waiting()) * requestPace).Truncate(100 * requestPace)
}

// decide grants slots and answers the owners. It returns when to decide again without a change.
func (s *maintenanceScheduler) decide(ctx workflow.Context) (again time.Time) {
	kit.HandlePendingSignals(ctx)
	blocked := s.blocked()
	s.log.blocked(blocked)
	s.decidedAt = workflow.Now(ctx)
	outcome := s.slots.Decide(s.decidedAt, blocked)
	s.log.slots(s.slots.TakeChanges())
	s.decided, s.missing = outcome.Decision, outcome.Missing()
	for _, response := range outcome.Responses {
		s.respond(ctx, response)
	}
	again = scheduling.Earlier(outcome.Again, s.report(ctx))
	s.show(ctx)
	if s.stopWatching != nil && s.slots.Empty() {
		again = scheduling.Earlier(again, s.idleSince.Add(lingerTime))
	}
	return again
}

// blocked returns why the scheduler may grant no slot; nil: it may. While anything is unknown, it grants nothing.
func (s *maintenanceScheduler) blocked() *drydockv1.Wait {
	if !s.holds.Known() {
		return &drydockv1.Wait{Reason: emergency.ReasonUnknown, Message: "waiting for the state of the emergency stop (workflow " + temporal.EmergencyStopID + ") " + s.holds.Trouble}
	}
	if hold := s.holds.State.Of(s.in.Cluster); hold != nil {
		return &drydockv1.Wait{Reason: emergency.ReasonHeld, Message: emergency.Message(*hold)}
	}
	if wait := s.resync.blocked(); wait != nil {
		return wait
	}
	return s.trouble
}

// watchWhileNeeded watches the nodes while there are requests or slots, and for lingerTime after.
func (s *maintenanceScheduler) watchWhileNeeded(ctx workflow.Context) {
	switch now := workflow.Now(ctx); {
	case !s.slots.Empty():
		s.idleSince = time.Time{}
		if s.stopWatching == nil {
			s.watch(ctx)
		}
	case s.idleSince.IsZero():
		s.idleSince = now
	case s.stopWatching != nil && !now.Before(s.idleSince.Add(lingerTime)):
		s.stopWatching()
		s.stopWatching, s.trouble = nil, nil
		s.slots.ForgetNodes()
	}
}

// watch watches the nodes of the cluster until stopWatching is called.
func (s *maintenanceScheduler) watch(ctx workflow.Context) {
	watching, stop := workflow.WithCancel(ctx)
	s.stopWatching = stop
	workflow.GoNamed(watching, "watch nodes", func(ctx workflow.Context) {
		var err error
		if !s.located {
			err = kit.Locate(ctx, kit.HubRetrier(s.watchFailed), s.in.Cluster, &s.queue)
		}
		s.located = false // the cluster may have moved before another watch
		if err == nil {
			watch := kit.ClusterRetrier(s.in.Cluster, &s.queue, s.watchFailed)
			watch.HeartbeatTimeout = kit.WatchHeartbeatTimeout
			err = watch.Wait(ctx, "watch the nodes of "+s.in.Cluster, nil, "", s.scheduler.WatchNodes, s.in.Cluster, nil)
		}
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			err = errors.New("the watch ended without an error")
		}
		// For example, no worker knows the cluster.
		s.watchFailed(ctx, kit.ReasonOf(err), temporal.ErrorMessage(err))
		if workflow.NewTimerWithOptions(ctx, watchAgainAfter, workflow.TimerOptions{Summary: "before watching " + s.in.Cluster + " again"}).Get(ctx, nil) == nil {
			s.stopWatching, s.changed = nil, true
		}
	})
}

// watchFailed records why the nodes cannot be watched; an empty reason: the watch works again.
func (s *maintenanceScheduler) watchFailed(ctx workflow.Context, reason, message string) {
	s.trouble, s.changed = nil, true
	if reason != "" {
		s.trouble = &drydockv1.Wait{Reason: reason, Message: message, Since: metav1.NewTime(workflow.Now(ctx))}
	}
}

// continueAsNew carries the state to a new run. Only the main loop calls it. It waits for outgoing messages and handles pending signals first.
func (s *maintenanceScheduler) continueAsNew(ctx workflow.Context) error {
	if err := workflow.Await(ctx, func() bool { return s.sending == 0 }); err != nil {
		return err
	}
	kit.HandlePendingSignals(ctx)
	s.log.slots(s.slots.TakeChanges())
	watched := ""
	if s.trouble == nil && s.slots.AllListed {
		watched = s.queue
	}
	s.slots.ForgetNodes() // the next run lists them again; thousands of nodes would not fit into its input
	carried := &SchedulerCarried{
		Slots: s.slots, Held: s.holds.State, Answered: s.resync.carried(&s.slots), Resynced: s.resync.complete, OwnersCheckedAt: s.ownersCheckedAt,
		Unswept: s.unswept, StartedAt: s.startedAt, Queue: watched,
	}
	s.log.log.Info("Scheduler continues as new", "owners", len(s.slots.Requesters))
	return workflow.NewContinueAsNewError(ctx, temporal.MaintenanceScheduler, SchedulerInput{Cluster: s.in.Cluster, First: s.in.First, Carried: carried})
}
