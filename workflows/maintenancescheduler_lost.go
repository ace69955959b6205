package workflows

import (
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/activities"
	"drydock.dev/drydock/internal/scheduling"
	"drydock.dev/drydock/internal/temporal"
)

const (
	// lostInterval is how often it is asked whether the workflows that have slots, or wait for them, go on.
	lostInterval = 30 * time.Second
	// lostAtOnce is about how many of them is asked in one activity.
	lostAtOnce = 100
	// missingAtOnce is how many nodes are looked for in one activity that nobody has seen. Those that exist are seen a moment later; if not,
	// they are looked for again after missingPause.
	missingAtOnce = 100
	missingPause  = 5 * time.Second
)

// findLost asks again and again whether those in the book go on, and those that were not reached. Slots of those that do not are freed; the sweeper takes back
// what they have left.
func (s *maintenanceScheduler) findLost(ctx workflow.Context) {
	if s.unswept {
		s.sweep(ctx)
	}
	idle := func() bool { return s.book.Empty() && len(s.untold) == 0 }
	for {
		if idle() {
			if workflow.Await(ctx, func() bool { return !idle() }) != nil {
				return
			}
			s.lookedAfter = workflow.Now(ctx)
		}
		timing, stop := workflow.WithCancel(ctx)
		// Runs may be shorter than the interval.
		pause := max(0, s.lookedAfter.Add(lostInterval).Sub(workflow.Now(ctx)))
		timer := workflow.NewTimerWithOptions(timing, pause, workflow.TimerOptions{Summary: "look after those that have slots"})
		err := workflow.Await(ctx, func() bool { return s.doubtful || timer.IsReady() })
		stop()
		if err != nil {
			return
		}
		s.doubtful = false
		s.lookAfter(ctx)
		if !workflow.Now(ctx).Before(s.tellAgainAt) {
			s.tellAgain()
		}
	}
}

// askers are those in the book, and those that were not reached: of one whose request is over because its node is gone the book knows no more.
func (s *maintenanceScheduler) askers() []scheduling.Holder {
	askers := s.book.Holders()
	for _, turn := range s.untold {
		if !slices.ContainsFunc(askers, func(h scheduling.Holder) bool { return h.Asker == turn.Asker }) {
			askers = append(askers, scheduling.Holder{Asker: turn.Asker})
		}
	}
	return askers
}

func (s *maintenanceScheduler) lookAfter(ctx workflow.Context) {
	s.lookedAfter = workflow.Now(ctx)
	askers := s.askers()
	for len(askers) > 0 {
		some := askers[:min(lostAtOnce, len(askers))]
		askers = askers[len(some):]
		var lost []scheduling.Holder
		hub := insistence{taskQueue: temporal.TaskQueue, waiting: func(workflow.Context, string, string) {}}
		if hub.effect(ctx, "which of those with slots go on", s.scheduler.FindLost, some, &lost) != nil {
			return
		}
		left := 0
		for _, holder := range lost {
			s.untold = slices.DeleteFunc(s.untold, func(t scheduling.Turn) bool { return t.Asker == holder.Asker })
			left += len(s.book.Lose(holder, workflow.Now(ctx)))
		}
		if len(lost) > 0 {
			s.changed = true
		}
		if left > 0 {
			s.sweep(ctx)
		}
	}
}

// sweep wakes the sweeper. A run that ends before that is done leaves it to the next one.
func (s *maintenanceScheduler) sweep(ctx workflow.Context) {
	s.unswept = true
	silent := func(workflow.Context, string, string) {}
	s.unswept = wakeSweeper(ctx, silent, s.in.Cluster, "maintenances ended without returning their slots").Get(ctx, nil) != nil
}

// findGone looks for nodes that are waited for and that nobody has seen. Requests for those that do not exist are over. Nothing is granted for one
// that is not seen, whoever finds it: the budgets could not be held to.
func (s *maintenanceScheduler) findGone(ctx workflow.Context) {
	for {
		if workflow.Await(ctx, func() bool { return s.queue != "" && len(s.decided.Missing()) > 0 }) != nil {
			return
		}
		missing := s.decided.Missing()
		in := activities.FindGoneInput{Cluster: s.in.Cluster, Nodes: missing[:min(missingAtOnce, len(missing))]}
		insist := onCluster(s.in.Cluster, &s.queue, func(workflow.Context, string, string) {})
		var gone []string
		err := insist.effect(ctx, "look for nodes that nobody sees", s.scheduler.FindGone, in, &gone)
		s.book.Miss(gone)
		s.changed = true
		if err == nil && len(gone) == len(in.Nodes) {
			// What is decided next no longer misses them.
			if workflow.Await(ctx, func() bool { return !s.changed }) != nil {
				return
			}
			continue
		}
		if workflow.NewTimerWithOptions(ctx, missingPause, workflow.TimerOptions{Summary: "before looking for nodes again"}).Get(ctx, nil) != nil {
			return
		}
	}
}
