package workflows

import (
	"fmt"
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	"drydock.dev/drydock/internal/scheduling"
	"drydock.dev/drydock/internal/temporal"
)

const (
	// rollCallPause is when those that may have slots are looked for once more, for one of them may be over; it doubles up to
	// rollCallPauseLimit.
	rollCallPause      = 2 * time.Second
	rollCallPauseLimit = time.Minute
	// visibleAfter is when everybody is found who may have been granted a slot by a scheduler that was terminated: Temporal finds a workflow about
	// a second after it has begun.
	visibleAfter = 10 * time.Second
)

// rollCall lets the slots of a cluster survive that somebody terminates the workflow of its scheduler. Who was granted a slot and has not marked
// its node yet is known to nobody but itself: a new scheduler grants nothing until everybody who may have a slot has told it so.
type rollCall struct {
	// complete: everybody has.
	complete bool
	// heard are the ids of the workflows that have; silent those that have not, as far as they are found.
	heard, silent []string
	// trouble is why they cannot be found.
	trouble string
	// since is when it was waited for them first.
	since time.Time
}

// take takes in who says everything.
func (r *rollCall) take(call scheduling.Call) {
	if r.complete || !call.All {
		return
	}
	r.silent = without(r.silent, call.Asker.WorkflowID)
	if !slices.Contains(r.heard, call.Asker.WorkflowID) {
		r.heard = append(r.heard, call.Asker.WorkflowID)
	}
}

// standstill is why nothing may be granted yet.
func (r *rollCall) standstill() *drydockv1.Wait {
	if r.complete {
		return nil
	}
	wait := &drydockv1.Wait{Reason: scheduling.ReasonAskersUnknown, Since: metav1.NewTime(r.since)}
	switch {
	case r.trouble != "":
		wait.Message = "it is not known who has slots: " + r.trouble
	case len(r.silent) == 0:
		wait.Message = "those that have slots are being looked for"
	default:
		wait.Message = fmt.Sprintf("waiting to be told which slots they have by %s; one that is stuck has to be mended or terminated", listed(r.silent))
	}
	return wait
}

// callRoll asks everybody who may have a slot until all have answered, or are over. Where another scheduler was terminated, those are looked for once
// more that had just begun.
func (s *maintenanceScheduler) callRoll(ctx workflow.Context) {
	s.roll.since = workflow.Now(ctx)
	allVisible := s.startedAt
	if !s.in.First {
		allVisible = s.startedAt.Add(visibleAfter)
	}
	hub := insistence{taskQueue: temporal.TaskQueue, waiting: func(_ workflow.Context, _, message string) {
		s.roll.trouble, s.changed = message, true
	}}
	for pause := rollCallPause; ; pause = min(2*pause, rollCallPauseLimit) {
		var askers []string
		asked := workflow.Now(ctx)
		if hub.effect(ctx, "who may have slots in "+s.in.Cluster, s.scheduler.FindAskers, s.in.Cluster, &askers) != nil {
			return
		}
		s.roll.silent = slices.DeleteFunc(askers, func(id string) bool { return slices.Contains(s.roll.heard, id) })
		s.changed = true
		if len(s.roll.silent) == 0 {
			if rest := allVisible.Sub(asked); rest > 0 {
				_ = workflow.NewTimerWithOptions(ctx, rest, workflow.TimerOptions{Summary: "until everybody who has just begun is found"}).Get(ctx, nil)
				continue
			}
			s.roll = rollCall{complete: true}
			return
		}
		// Each time anew: one that has continued as new in that moment may not have heard.
		for _, id := range slices.Clone(s.roll.silent) {
			if workflow.Await(ctx, func() bool { return s.telling < tellAtOnce }) != nil {
				return
			}
			s.signal(ctx, id, temporal.SignalRollCall, scheduling.RollCall{Scheduler: s.startedAt}, func() {})
		}
		s.awaitAnswers(ctx, pause)
	}
}

// awaitAnswers waits until nobody is silent, but not for longer than that.
func (s *maintenanceScheduler) awaitAnswers(ctx workflow.Context, limit time.Duration) {
	timing, stop := workflow.WithCancel(ctx)
	timer := workflow.NewTimerWithOptions(timing, limit, workflow.TimerOptions{Summary: "before looking again for those that may have slots"})
	_ = workflow.Await(ctx, func() bool { return len(s.roll.silent) == 0 || timer.IsReady() })
	stop() // not deferred: a run that is evicted from the cache must give no command
}
