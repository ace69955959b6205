package slots

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/drydock/activities/scheduler"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	"drydock.dev/drydock/internal/scheduling"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/kit"
)

const (
	// resyncPause is the first pause before the owners are listed again. It doubles up to resyncPauseLimit.
	resyncPause      = 2 * time.Second
	resyncPauseLimit = time.Minute
	// ownersPerRequest limits the owners that one activity asks.
	ownersPerRequest = 100
	// visibleAfter is the time after which the list has every owner that a terminated scheduler may have granted a slot. Temporal lists a workflow about
	// a second after its start.
	visibleAfter = 10 * time.Second
)

// resync collects the slots from their owners when a scheduler starts without state, because the previous one was terminated. An owner may have a slot
// and not have marked its node yet, so the scheduler grants nothing until every owner has sent its set.
type resync struct {
	complete bool
	// answered has the workflow ids of owners that have sent their sets. missing are the others of the last list; all but the
	// first may have answered since.
	answered map[string]bool
	missing  []string
	// trouble is why the owners cannot be listed.
	trouble string
	since   time.Time
}

// continuedResync returns the resync of the previous run. Its owners with requests have answered.
func continuedResync(c *SchedulerCarried) resync {
	r := resync{complete: c.Resynced}
	for _, id := range c.Answered {
		r.answer(id)
	}
	for _, requester := range c.Slots.Requesters {
		r.answer(requester.Owner.WorkflowID)
	}
	return r
}

// carried returns the owners that have answered and have no requests, for the next run.
func (r *resync) carried(slots *scheduling.SlotState) []string {
	left := maps.Clone(r.answered)
	for _, requester := range slots.Requesters {
		delete(left, requester.Owner.WorkflowID)
	}
	//workflowcheck:ignore the ids are sorted
	return slices.Sorted(maps.Keys(left))
}

// answeredBy records that an owner has sent its set, and reports whether it was the last of the missing ones.
func (r *resync) answeredBy(owner scheduling.SlotOwner) (last bool) {
	if r.complete || owner == (scheduling.SlotOwner{}) { // a set without an owner only starts the scheduler
		return false
	}
	missing := len(r.missing) > 0
	r.answer(owner.WorkflowID)
	return missing && len(r.missing) == 0
}

func (r *resync) answer(id string) {
	if r.answered == nil {
		r.answered = map[string]bool{}
	}
	r.answered[id] = true
	for len(r.missing) > 0 && r.answered[r.missing[0]] {
		r.missing = r.missing[1:]
	}
}

// unanswered returns those of the owners that have not answered.
func (r *resync) unanswered(owners []string) []string {
	return slices.DeleteFunc(slices.Clone(owners), func(id string) bool { return r.answered[id] })
}

// blocked returns why the scheduler may grant no slot yet; nil: the resync is complete.
func (r *resync) blocked() *drydockv1.Wait {
	if r.complete {
		return nil
	}
	wait := &drydockv1.Wait{Reason: scheduling.ReasonSlotOwnersUnknown, Since: metav1.NewTime(r.since)}
	switch {
	case r.trouble != "":
		wait.Message = "cannot list the slot owners: " + r.trouble
	case len(r.missing) == 0:
		wait.Message = "listing the slot owners"
	default:
		wait.Message = fmt.Sprintf("waiting for the slots of %s; fix or terminate a workflow that is stuck", kit.JoinNames(r.unanswered(r.missing)))
	}
	return wait
}

// runResync asks all owners for their sets until each has answered or closed. After a terminated scheduler, it lists the owners again to find those that
// had just started.
func (s *maintenanceScheduler) runResync(ctx workflow.Context) {
	s.resync.since = workflow.Now(ctx)
	allVisible := s.startedAt
	if !s.in.First {
		allVisible = s.startedAt.Add(visibleAfter)
	}
	hub := kit.Retrier{TaskQueue: temporal.TaskQueue, Report: func(_ workflow.Context, _, message string) {
		s.resync.trouble, s.changed = message, true
	}}
	for pause := resyncPause; ; pause = min(2*pause, resyncPauseLimit) {
		var owners []string
		listedAt := workflow.Now(ctx)
		if hub.Run(ctx, "list the slot owners of "+s.in.Cluster, s.scheduler.FindSlotOwners, s.in.Cluster, &owners) != nil {
			return
		}
		s.resync.missing = s.resync.unanswered(owners)
		s.changed = true
		if len(s.resync.missing) == 0 {
			if rest := allVisible.Sub(listedAt); rest > 0 {
				_ = workflow.NewTimerWithOptions(ctx, rest, workflow.TimerOptions{Summary: "until all slot owners can be listed"}).Get(ctx, nil)
				continue
			}
			s.resync = resync{complete: true}
			return
		}
		// Ask the missing owners each time: one that was continuing as new may have missed the signal.
		for owners := range slices.Chunk(s.resync.missing, ownersPerRequest) {
			in := scheduler.RequestResyncInput{Owners: owners, Resync: scheduling.Resync{Scheduler: s.startedAt}}
			_ = hub.Once().Run(ctx, "ask the slot owners of "+s.in.Cluster, s.scheduler.RequestResync, in, nil)
			if ctx.Err() != nil {
				return
			}
		}
		s.awaitAnswers(ctx, pause)
	}
}

// awaitAnswers waits until no answer is missing, at most for the limit.
func (s *maintenanceScheduler) awaitAnswers(ctx workflow.Context, limit time.Duration) {
	timing, stop := workflow.WithCancel(ctx)
	timer := workflow.NewTimerWithOptions(timing, limit, workflow.TimerOptions{Summary: "before the slot owners are listed again"})
	_ = workflow.Await(ctx, func() bool { return len(s.resync.missing) == 0 || timer.IsReady() })
	stop() // not deferred: an evicted run must issue no command
}
