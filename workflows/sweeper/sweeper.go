// Package sweeper holds the workflow that cleans up after closed workflows in a cluster.
package sweeper

import (
	"slices"
	"time"

	sdktemporal "go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/activities/jobs"
	"drydock.dev/drydock/activities/locks"
	nodeactivities "drydock.dev/drydock/activities/node"
	sweeperactivities "drydock.dev/drydock/activities/sweeper"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/kit"
)

// Input names the cluster to sweep, or the hub. An activity that wakes a sweeper starts it with that alone.
type Input struct {
	Cluster string `json:"cluster"`
	// Hub: it sweeps the hub, and Cluster is empty.
	Hub bool `json:"hub,omitempty"`
	// Carried is the status of the previous run; nil in the first run.
	Carried *Status `json:"carried,omitempty"`
}

// Continues implements kit.Continued.
func (in Input) Continues() bool { return in.Carried != nil }

// ClusterName implements kit.OnCluster.
func (in Input) ClusterName() string {
	if in.Hub {
		return "the hub"
	}
	return in.Cluster
}

const (
	// LateWriteLimit is how long an activity may still write after its workflow has closed: until its next heartbeat fails, or its attempt times out.
	// A cleanup that started earlier could be undone by such a write, or return a node from which a drain still evicts pods.
	LateWriteLimit = kit.EffectTimeout
	// cleanupTimeout limits the retries of one cleanup.
	cleanupTimeout = 2 * time.Minute
	// retryPause is the pause before a failed cleanup is tried again.
	retryPause = 5 * time.Minute
	// checkInterval is the pause between two checks for marks while the sweeper rests.
	checkInterval = 10 * time.Minute
	// unknownClusterTimeout is how long the sweeper waits for a cluster that no worker serves any longer. The next maintenance starts the sweeper
	// again.
	unknownClusterTimeout = 24 * time.Hour
	// settledPause is how long the marks of an owner are ignored after its cleanup, because the watch may lag behind.
	settledPause = 30 * time.Second
)

// Sweeper cleans up after closed workflows that could not clean up themselves, for example because they were terminated. It changes only objects
// marked by a workflow that Temporal reports as closed. A mark of a workflow that Temporal does not know may belong to another Drydock installation,
// and is only reported. The sweeper rests while the cluster has no marks. Workflows wake it before they set a mark. Because a write may arrive late,
// and a resumed rollout does not wake the sweeper, it also checks for marks every ten minutes.
func Sweeper(ctx workflow.Context, in Input) (Status, error) {
	s, err := newSweeper(ctx, in)
	if err != nil {
		return Status{}, err
	}
	return s.run(ctx)
}

// sweeper is one run of the workflow.
type sweeper struct {
	in     Input
	status Status
	record *record

	// taskQueue is that of the cluster's activities; empty until it is looked up.
	taskQueue string
	// deferred are the owners that were cleaned up a moment ago, or whose cleanup failed.
	deferred []sweeperactivities.LaterOwner
	// answers are the owners that were looked up for a worker without access to Temporal.
	answers []sweeperactivities.OwnerAnswer
	// lookedUp is when that was last begun, and lookUps counts those that followed each other.
	lookedUp time.Time
	lookUps  int
	// located: a worker has served the cluster before.
	located bool
	// woken: a scan was requested and has not begun. kept: the scan in progress must be followed by another. wakes counts the requests for both.
	woken, kept bool
	wakes       int
	// watching: a scan is in progress.
	watching bool

	cancel    workflow.CancelFunc
	cancelled *temporal.SignalRequest
	signals   int

	sweeper *sweeperactivities.Activities
	nodes   *nodeactivities.Activities
	jobs    *jobs.Activities
	locks   *locks.Activities
}

func newSweeper(ctx workflow.Context, in Input) (*sweeper, error) {
	s := &sweeper{in: in, located: in.Carried != nil}
	s.record = newRecord(ctx, &s.status, in)
	return s, workflow.SetQueryHandlerWithOptions(ctx, temporal.QueryStatus,
		func() (Status, error) { return s.status, nil },
		workflow.QueryHandlerOptions{Description: "Objects that closed workflows left in the cluster, and the result of their cleanup."})
}

func (s *sweeper) run(ctx workflow.Context) (Status, error) {
	work, cancel := workflow.WithCancel(ctx)
	s.cancel = cancel
	listening, _ := workflow.NewDisconnectedContext(ctx)
	s.listen(listening)

	err := s.sweep(work)
	if workflow.IsContinueAsNewError(err) {
		return Status{}, err
	}
	if kit.HandlePendingSignals(listening); s.cancelled != nil && (s.woken || s.kept) { // the sweeper was woken after it was cancelled: a maintenance relies on it
		return Status{}, s.continueAsNew(listening)
	}
	return s.finish(listening, err)
}

func (s *sweeper) listen(ctx workflow.Context) {
	kit.OnSignal(ctx, temporal.SignalWake, "Scan the cluster for leftovers now.", func(temporal.SignalRequest) {
		s.signals++
		s.wakes++
		s.woken = true
	})
	kit.OnSignal(ctx, temporal.SignalKeepAwake, "Watch the cluster for leftovers: a workflow begins.", func(temporal.SignalRequest) {
		s.signals++
		s.wakes++
		if s.watching {
			s.kept = true
		} else {
			s.woken = true
		}
	})
	kit.OnSignal(ctx, temporal.SignalCancel, "End. The next maintenance of the cluster starts it again.", func(r temporal.SignalRequest) {
		s.signals++
		if s.cancelled == nil {
			s.cancelled = &r
		}
		s.woken, s.kept = false, false
		s.cancel()
	})
}

// sweep finds orphans and cleans them up, and rests while there are none.
func (s *sweeper) sweep(ctx workflow.Context) error {
	for {
		if kit.ShouldContinueAsNew(ctx, s.signals) {
			return s.continueAsNew(ctx)
		}
		if err := s.locate(ctx, time.Time{}); err != nil {
			return err
		}
		found, err := s.awaitFindings(ctx)
		if err != nil {
			return err
		}
		s.record.gone(ctx, found.Gone)
		s.record.unknown(ctx, found)
		s.cleanUp(ctx, found.Orphans)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if found.Quiet && !s.woken && !s.kept {
			if err := s.rest(ctx); err != nil {
				return err
			}
		}
	}
}

// locate finds the task queue of the cluster, which may have changed during a rest, and retries until giveUpAt. A cluster that was served before may
// be moving to another worker: locate asks again for a day, and whenever the sweeper is woken. The name of a cluster that was never served is
// probably wrong.
func (s *sweeper) locate(ctx workflow.Context, giveUpAt time.Time) error {
	if s.in.Hub {
		s.taskQueue = temporal.TaskQueue
	}
	if s.taskQueue != "" {
		return nil
	}
	hub := kit.HubRetrier(s.record.waiting).Until(giveUpAt)
	for gone := workflow.Now(ctx).Add(unknownClusterTimeout); ; {
		wakes := s.wakes
		err := kit.Locate(ctx, hub, s.in.Cluster, &s.taskQueue)
		s.located = s.located || err == nil
		if temporal.ErrorType(err) != temporal.ErrNotFound || !s.located || !workflow.Now(ctx).Before(gone) {
			return err
		}
		s.record.waiting(ctx, kit.ReasonOf(err), temporal.ErrorMessage(err)+"; retried every 10 minutes for a day, then the sweeper ends")
		if err := kit.AwaitFor(ctx, checkInterval, "next attempt to locate the cluster", func() bool { return s.wakes != wakes }); err != nil {
			return err
		}
	}
}

// awaitFindings waits for orphans, for changes of earlier findings, or until the cluster has no marks. A wake starts a new scan, which asks Temporal
// about every workflow again. The wait also ends when the history has become long.
func (s *sweeper) awaitFindings(ctx workflow.Context) (sweeperactivities.Orphans, error) {
	if s.woken {
		s.answers = nil
	}
	s.woken, s.kept, s.watching = false, false, true
	s.record.enter(Watching)
	s.dropExpired(ctx)
	in := sweeperactivities.AwaitOrphansInput{Cluster: s.in.Cluster, Later: s.deferred, Unknown: s.record.marksOf(FindingUnknownOwner), Answers: s.answers}
	in.Left = s.record.marksOf(FindingFailed, FindingInProgress)

	scanning, endScan := workflow.WithCancel(ctx)
	workflow.GoNamed(scanning, "wake", func(ctx workflow.Context) {
		if workflow.Await(ctx, func() bool { return s.woken || kit.ShouldContinueAsNew(ctx, s.signals) }) == nil {
			endScan()
		}
	})
	var found sweeperactivities.Orphans
	err := s.retrier().Watch(scanning, "watch "+s.in.ClusterName()+" for leftovers of closed workflows", s.sweeper.AwaitOrphans, in, &found)
	endScan()
	s.watching = false
	if sdktemporal.IsCanceledError(err) && ctx.Err() == nil {
		// Earlier findings remain until the next scan.
		return sweeperactivities.Orphans{Unknown: in.Unknown, MoreUnknown: s.status.MoreUnknownOwners, Ignored: s.status.IgnoredMarks}, nil
	}
	if err == nil && len(found.LookUp) > 0 {
		err = s.lookUp(ctx, found.LookUp)
	}
	return found, err
}

// dropExpired drops the owners whose pause has ended.
func (s *sweeper) dropExpired(ctx workflow.Context) {
	now := workflow.Now(ctx)
	s.deferred = slices.DeleteFunc(s.deferred, func(o sweeperactivities.LaterOwner) bool { return !o.Until.After(now) })
}

// rest waits until the sweeper is woken, or finds marks itself.
func (s *sweeper) rest(ctx workflow.Context) error {
	s.record.enter(Resting)
	for !s.woken && !kit.ShouldContinueAsNew(ctx, s.signals) {
		if err := s.sleep(ctx); err != nil {
			return err
		}
		s.taskQueue = ""
		if s.woken {
			return nil
		}
		if err := s.checkForMarks(ctx); err != nil {
			return err
		}
	}
	return nil
}

// sleep waits for a wake, or for the next check for marks.
func (s *sweeper) sleep(ctx workflow.Context) error {
	return kit.AwaitFor(ctx, checkInterval, "next check for marks", func() bool { return s.woken })
}

// checkForMarks sets woken if the cluster has marks. If the cluster does not answer, the status reports it until the next check.
func (s *sweeper) checkForMarks(ctx workflow.Context) error {
	limit := workflow.Now(ctx)
	var marked bool
	err := s.locate(ctx, limit)
	if err == nil {
		err = s.retrier().Until(limit).Run(ctx, "check "+s.in.ClusterName()+" for marks", s.sweeper.AnyMarks, s.in.Cluster, &marked)
	}
	if err == nil && s.taskQueue != temporal.TaskQueue { // a worker inside the cluster cannot start the scheduler again
		err = kit.HubRetrier(nil).Until(limit).Run(ctx, "look up the scheduler of "+s.in.Cluster, s.sweeper.LookUpOwners,
			sweeperactivities.LookUpOwnersInput{Cluster: s.in.Cluster}, nil)
	}
	if err != nil && (ctx.Err() != nil || temporal.Final(err)) {
		return err
	}
	if err != nil {
		s.record.waiting(ctx, kit.ReasonOf(err), temporal.ErrorMessage(err))
		return nil
	}
	s.record.waiting(ctx, "", "")
	s.woken = s.woken || marked
	return nil
}

// retrier returns a retrier that reports failing activities in the status.
func (s *sweeper) retrier() kit.Retrier {
	return kit.ClusterRetrier(s.in.Cluster, &s.taskQueue, s.record.waiting)
}

// continueAsNew carries the status to a new run. Pending wake signals may be dropped, because the new run begins with a scan.
func (s *sweeper) continueAsNew(ctx workflow.Context) error {
	kit.HandlePendingSignals(ctx)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	s.record.log.Info("Sweeper continues as new")
	return workflow.NewContinueAsNewError(ctx, temporal.Sweeper, Input{Cluster: s.in.Cluster, Hub: s.in.Hub, Carried: &s.status})
}

// finish records how the sweeper ended. That is always an error, because a sweeper has no regular end.
func (s *sweeper) finish(ctx workflow.Context, err error) (Status, error) {
	s.record.reason.Set(ctx, "", "")
	if sdktemporal.IsCanceledError(err) {
		if s.cancelled != nil {
			s.status.Message = "cancelled" + kit.ActorSuffix(*s.cancelled)
		}
		s.record.enter(Cancelled)
		return s.status, sdktemporal.NewCanceledError(s.status)
	}
	s.status.Message = temporal.ErrorMessage(err)
	s.record.enter(Failed)
	return s.status, sdktemporal.NewApplicationErrorWithOptions(s.status.Message, kit.ReasonOf(err),
		sdktemporal.ApplicationErrorOptions{NonRetryable: true, Details: []any{s.status}})
}
