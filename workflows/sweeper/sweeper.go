// Package sweeper holds the workflow that cleans up what closed workflows left in a cluster.
package sweeper

import (
	"fmt"
	"slices"
	"time"

	sdktemporal "go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/activities/activitykit"
	"drydock.dev/drydock/activities/jobs"
	"drydock.dev/drydock/activities/locks"
	nodeactivities "drydock.dev/drydock/activities/node"
	sweeperactivities "drydock.dev/drydock/activities/sweeper"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/kit"
)

// Input says in which cluster. Activities that wake a sweeper start it with the cluster alone.
type Input struct {
	Cluster string `json:"cluster"`
	// Carried is the status from the run before; nil in the first.
	Carried *Status `json:"carried,omitempty"`
}

const (
	// LastWrites is how long an activity may go on whose workflow is over: it hears of that with its next heartbeat, or its time is over. Until
	// then it might set again what is taken back, or evict more pods of a node that is returned.
	LastWrites = kit.EffectTimeout
	// takeBackLimit is how long the sweeper insists on taking something back before it says that it could not.
	takeBackLimit = 2 * time.Minute
	// tryAgainAfter is the pause after that.
	tryAgainAfter = 5 * time.Minute
	// glanceAfter is the pause between two glances at a cluster at rest.
	glanceAfter = 10 * time.Minute
	// goneAfter is after how long a cluster that no worker has any more is not waited for. The next maintenance starts the sweeper again.
	goneAfter = 24 * time.Hour
	// sweptFor is how long the marks of an owner that was swept are not looked at: what is watched may be behind.
	sweptFor = 30 * time.Second
)

// Sweeper takes back what workflows that are over have left on a cluster: those that were terminated by hand, say, and had no chance to clean
// up. It touches only what bears the mark of a workflow that Temporal says is closed; a mark of a workflow that Temporal does not know may be of
// another Drydock, and is only reported. It rests while the cluster has no marks. Who sets one wakes it before; it glances at the cluster every ten
// minutes all the same, for a write may come late, and a rollout that goes on after a pause wakes nobody.
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
	record *sweeperRecord

	// taskQueue of the cluster's activities; empty: it is to be looked up.
	taskQueue string
	// later are the owners that were swept a moment ago, or could not be.
	later []sweeperactivities.LaterOwner
	// located: a worker had the cluster once.
	located bool
	// woken: somebody has asked for a look that has not begun yet. wakes is how often somebody has asked.
	woken bool
	wakes int

	withdraw  workflow.CancelFunc
	withdrawn *temporal.SignalRequest
	signals   int

	sweeper *sweeperactivities.Activities
	nodes   *nodeactivities.Activities
	jobs    *jobs.Activities
	locks   *locks.Activities
}

func newSweeper(ctx workflow.Context, in Input) (*sweeper, error) {
	s := &sweeper{in: in, located: in.Carried != nil}
	s.record = newSweeperRecord(ctx, &s.status, in)
	return s, workflow.SetQueryHandlerWithOptions(ctx, temporal.QueryStatus,
		func() (Status, error) { return s.status, nil },
		workflow.QueryHandlerOptions{Description: "What was found that nobody would have taken back, and what became of it."})
}

// run sweeps until the run ends.
func (s *sweeper) run(ctx workflow.Context) (Status, error) {
	work, withdraw := workflow.WithCancel(ctx)
	s.withdraw = withdraw
	listening, _ := workflow.NewDisconnectedContext(ctx)
	s.listen(listening)

	err := s.sweep(work)
	if workflow.IsContinueAsNewError(err) {
		return Status{}, err
	}
	if kit.HandlePendingSignals(listening); s.withdrawn != nil && s.woken { // since it was cancelled: whoever wakes it relies on it
		return Status{}, s.continueAsNew(listening)
	}
	return s.finish(listening, err)
}

func (s *sweeper) listen(ctx workflow.Context) {
	kit.OnSignal(ctx, temporal.SignalWake, "Look now: something may have to be taken back.", func(temporal.SignalRequest) {
		s.signals++
		s.wakes++
		s.woken = true
	})
	kit.OnSignal(ctx, temporal.SignalCancel, "End. The next maintenance of the cluster starts it again.", func(r temporal.SignalRequest) {
		s.signals++
		if s.withdrawn == nil {
			s.withdrawn = &r
		}
		s.woken = false
		s.withdraw()
	})
}

// sweep looks for orphans and takes them back, and rests while there is nothing to look at.
func (s *sweeper) sweep(ctx workflow.Context) error {
	for {
		if kit.ShouldContinueAsNew(ctx, s.signals) {
			return s.continueAsNew(ctx)
		}
		if err := s.locate(ctx, time.Time{}); err != nil {
			return err
		}
		found, err := s.watch(ctx)
		if err != nil {
			return err
		}
		s.record.gone(ctx, found.Gone)
		s.record.unknown(ctx, found)
		s.takeBack(ctx, found.Orphans)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if found.Quiet && !s.woken {
			if err := s.rest(ctx); err != nil {
				return err
			}
		}
	}
}

// locate finds who works on the cluster; after a rest that may be somebody else. It insists until giveUpAt. A cluster that nobody has any more may be about to
// move: it is asked for again for a day, and whenever the sweeper is woken. One that nobody ever had is a name that somebody has mistyped.
func (s *sweeper) locate(ctx workflow.Context, giveUpAt time.Time) error {
	if s.taskQueue != "" {
		return nil
	}
	hub := kit.HubRetrier(s.record.waiting).Until(giveUpAt)
	for gone := workflow.Now(ctx).Add(goneAfter); ; {
		wakes := s.wakes
		err := kit.Locate(ctx, hub, s.in.Cluster, &s.taskQueue)
		s.located = s.located || err == nil
		if temporal.ErrorType(err) != temporal.ErrNotFound || !s.located || !workflow.Now(ctx).Before(gone) {
			return err
		}
		s.record.waiting(ctx, kit.ReasonOf(err), temporal.ErrorMessage(err)+"; asked again every 10 minutes for a day, then the sweeper ends")
		if err := kit.AwaitFor(ctx, glanceAfter, "then it is asked again who works on the cluster", func() bool { return s.wakes != wakes }); err != nil {
			return err
		}
	}
}

// watch waits until there is something to do or to say, or nothing left to watch. Who wakes the sweeper makes it look anew: it then asks about
// every workflow, also those it has asked about a moment ago. A look that does not succeed for days ends when the history has become long.
func (s *sweeper) watch(ctx workflow.Context) (sweeperactivities.Orphans, error) {
	s.woken = false
	s.record.enter(Watching)
	s.forgetPast(ctx)
	in := sweeperactivities.AwaitOrphansInput{Cluster: s.in.Cluster, Later: s.later, Unknown: s.record.marksOf(FindingNotTouched)}
	in.Left = s.record.marksOf(FindingNotTakenBack, FindingAtWork)

	looking, lookAnew := workflow.WithCancel(ctx)
	workflow.GoNamed(looking, "wake", func(ctx workflow.Context) {
		if workflow.Await(ctx, func() bool { return s.woken || kit.ShouldContinueAsNew(ctx, s.signals) }) == nil {
			lookAnew()
		}
	})
	var found sweeperactivities.Orphans
	err := s.retrier().Watch(looking, "watch "+s.in.Cluster+" for what nobody takes back", s.sweeper.AwaitOrphans, in, &found)
	lookAnew()
	if sdktemporal.IsCanceledError(err) && ctx.Err() == nil {
		// What was reported stands until the next look.
		return sweeperactivities.Orphans{Unknown: in.Unknown, MoreUnknown: s.status.MoreNotTouched}, nil
	}
	return found, err
}

// forgetPast drops the owners whose time has come.
func (s *sweeper) forgetPast(ctx workflow.Context) {
	now := workflow.Now(ctx)
	s.later = slices.DeleteFunc(s.later, func(o sweeperactivities.LaterOwner) bool { return !o.Until.After(now) })
}

// takeBack takes back what was found, the orphans of different owners side by side.
func (s *sweeper) takeBack(ctx workflow.Context, orphans []sweeperactivities.Orphan) {
	if len(orphans) == 0 {
		return
	}
	s.record.enter(TakingBack)
	for _, orphan := range orphans {
		s.record.found(ctx, orphan)
	}
	if workflow.NewTimerWithOptions(ctx, LastWrites, workflow.TimerOptions{Summary: "until nothing of what ended is under way"}).Get(ctx, nil) != nil {
		return
	}
	retrier := s.retrier()
	retrier.Deadline = workflow.Now(ctx).Add(takeBackLimit)
	sweeping := 0
	for _, of := range byOwner(orphans) {
		sweeping++
		workflow.GoNamed(ctx, "sweep "+of[0].Owner, func(ctx workflow.Context) {
			s.sweepOwner(ctx, retrier, of)
			sweeping--
		})
	}
	// What has begun is ended: a cancelled sweeper stops trying, but knows what it did.
	waiting, stopWaiting := workflow.NewDisconnectedContext(ctx)
	_ = workflow.Await(waiting, func() bool { return sweeping == 0 })
	stopWaiting()
	s.record.reason.Set(ctx, "", "")
}

// byOwner divides orphans, which are sorted by owner.
func byOwner(orphans []sweeperactivities.Orphan) [][]sweeperactivities.Orphan {
	var groups [][]sweeperactivities.Orphan
	for i, orphan := range orphans {
		if i == 0 || orphans[i-1].Owner != orphan.Owner {
			groups = append(groups, nil)
		}
		groups[len(groups)-1] = append(groups[len(groups)-1], orphan)
	}
	return groups
}

// sweepOwner takes back what one owner has left, in the order of a clean-up. What comes after a step that fails stays for the next time: a node
// on which a job runs is not returned.
func (s *sweeper) sweepOwner(ctx workflow.Context, retrier kit.Retrier, orphans []sweeperactivities.Orphan) {
	pause := sweptFor
	for i, orphan := range orphans {
		how, err := s.undo(ctx, retrier, orphan.Mark)
		s.record.settle(ctx, orphan, how, err)
		if err != nil {
			pause = tryAgainAfter
			s.record.held(ctx, orphans[i+1:], orphan)
			break
		}
	}
	s.later = append(s.later, sweeperactivities.LaterOwner{Owner: orphans[0].Owner, Until: workflow.Now(ctx).Add(pause)})
}

// undo takes one thing back, if it still bears that mark, and says what was done.
func (s *sweeper) undo(ctx workflow.Context, retrier kit.Retrier, mark sweeperactivities.Mark) (how string, err error) {
	node := activitykit.NodeRef{Cluster: s.in.Cluster, Node: mark.Node, Owner: mark.Owner}
	switch mark.Kind {
	case sweeperactivities.MarkJob:
		in := jobs.OrphanedJob{Cluster: s.in.Cluster, Namespace: mark.Namespace, Name: mark.Name, Owner: mark.Owner}
		return "removed, or let go of if it had failed", retrier.Run(ctx, "remove "+mark.String(), s.jobs.RemoveOrphanedJob, in, nil)
	case sweeperactivities.MarkNode:
		var result nodeactivities.ReturnNodeResult
		err := retrier.Run(ctx, "return "+mark.Node, s.nodes.ReturnNode, nodeactivities.ReturnNodeInput{NodeRef: node}, &result)
		return returned(result), err
	case sweeperactivities.MarkNodeRequest:
		return "deleted", retrier.Run(ctx, "withdraw the request for "+mark.Node, s.locks.WithdrawNodeMaintenance, locks.NodeLockInput{NodeRef: node}, nil)
	case sweeperactivities.MarkClusterRequest:
		in := locks.ClusterLockInput{Cluster: s.in.Cluster, Owner: mark.Owner}
		return "deleted", retrier.Run(ctx, "withdraw the request for "+s.in.Cluster, s.locks.WithdrawClusterMaintenance, in, nil)
	}
	return "", fmt.Errorf("%s: this version takes no such thing back", mark)
}

func returned(result nodeactivities.ReturnNodeResult) string {
	switch {
	case result.Note != "":
		return "marks removed; " + result.Note
	case result.Uncordoned:
		return "uncordoned, marks removed"
	}
	return "marks removed"
}

// rest waits until somebody wakes the sweeper, for then marks are about to be set, or until there are some all the same.
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
		if err := s.glance(ctx); err != nil {
			return err
		}
	}
	return nil
}

// sleep waits until the sweeper is woken, or it is time for a glance.
func (s *sweeper) sleep(ctx workflow.Context) error {
	return kit.AwaitFor(ctx, glanceAfter, "then the cluster is glanced at", func() bool { return s.woken })
}

// glance wakes the sweeper itself if there are marks. A cluster that does not answer is left alone until the next glance, and the status says so.
func (s *sweeper) glance(ctx workflow.Context) error {
	limit := workflow.Now(ctx)
	var marked bool
	err := s.locate(ctx, limit)
	if err == nil {
		err = s.retrier().Until(limit).Run(ctx, "glance at "+s.in.Cluster, s.sweeper.AnyMarks, s.in.Cluster, &marked)
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

// retrier returns the retrier of this sweeper: its status says why an activity does not succeed.
func (s *sweeper) retrier() kit.Retrier {
	return kit.ClusterRetrier(s.in.Cluster, &s.taskQueue, s.record.waiting)
}

// continueAsNew hands the status to a new run. No activity runs, and no signal is left behind: the new run begins with a look, which is all
// that a wake asks for.
func (s *sweeper) continueAsNew(ctx workflow.Context) error {
	kit.HandlePendingSignals(ctx)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return workflow.NewContinueAsNewError(ctx, temporal.Sweeper, Input{Cluster: s.in.Cluster, Carried: &s.status})
}

// finish records how the sweeper ended. It always ends in an error: left alone it would go on.
func (s *sweeper) finish(ctx workflow.Context, err error) (Status, error) {
	s.record.reason.Set(ctx, "", "")
	if sdktemporal.IsCanceledError(err) {
		if s.withdrawn != nil {
			s.status.Message = "cancelled" + kit.ActorSuffix(*s.withdrawn)
		}
		s.record.enter(Cancelled)
		return s.status, sdktemporal.NewCanceledError(s.status)
	}
	s.status.Message = temporal.ErrorMessage(err)
	s.record.enter(Failed)
	return s.status, sdktemporal.NewApplicationErrorWithOptions(s.status.Message, kit.ReasonOf(err),
		sdktemporal.ApplicationErrorOptions{NonRetryable: true, Details: []any{s.status}})
}
