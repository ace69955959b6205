package workflows

import (
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/temporal"
)

// placing is what a sequence knows of what the hub has been told.
type placing struct {
	// placed are the clusters of each item, sorted.
	placed [][]string
	// tried are those that an item may be on, too: it was being put there when they were held, and nobody has heard how far that had come.
	tried [][]string
	// heldBack are the clusters on which an item is to be, and may not be put now.
	heldBack []*member
	// dirty: what is to be placed may have changed; pressing: that cannot wait. writing: the hub is being told.
	dirty, pressing, writing bool
	// ctx is that of all that serves clusters at work, nil before the first; stop ends the telling, told is that it has ended.
	ctx  workflow.Context
	stop workflow.CancelFunc
	told bool
	// pause is how long nothing is told again that the hub has refused; 0: it has refused nothing. pausing: that time is not over.
	pause   time.Duration
	pausing bool
	// leaving is how many clusters wait to be taken off the hub, and patience when they do not any more.
	leaving  int
	patience workflow.Future
	loseIt   workflow.CancelFunc
}

const (
	// removalsBehind is how long a cluster may stay placed that is through: then its removal goes together with that of others, or with what comes next.
	removalsBehind = 2 * time.Second
	// shortestPause and longestPause are how long nothing is told again that the hub has refused.
	shortestPause = 2 * time.Second
	longestPause  = time.Minute
)

// placement is what changes of the clusters that an item is on. The names are sorted.
type placement struct {
	item           int
	added, removed []string
	// clusters are all that it is to be on then, nil in a part of a placement.
	clusters []string
}

// addedBy are the clusters on which placements begin something.
func addedBy(placements []placement) []string {
	var added []string
	for _, p := range placements {
		added = append(added, p.added...)
	}
	return added
}

// refusal is that an item could not be put on a cluster, or taken off, for a reason that has to do with that cluster alone.
type refusal struct {
	item            int
	cluster         string
	reason, message string
	// final: no further attempt can change that.
	final bool
}

// serve starts to tell the hub on which clusters items are to be, and returns the context of what serves the clusters at work.
func (s *sequence) serve(ctx workflow.Context) workflow.Context {
	if s.ctx == nil {
		ctx, _ = workflow.NewDisconnectedContext(ctx)
		s.ctx, s.stop = workflow.WithCancel(ctx)
		s.placed, s.tried = make([][]string, s.items.count()), make([][]string, s.items.count())
		workflow.GoNamed(s.ctx, "place clusters", func(ctx workflow.Context) {
			s.keepPlaced(ctx)
			s.told = true
		})
	}
	return s.ctx
}

// keepPlaced is the only one that tells the hub on which clusters items are to be. What changes meanwhile is told together. Nothing is put on a cluster that is
// held: that is told when it is released.
func (s *sequence) keepPlaced(ctx workflow.Context) {
	for {
		if workflow.Await(ctx, func() bool { return s.dirty || s.released() }) != nil {
			return
		}
		s.pressing = s.pressing || s.released()
		if s.awaitPressing(ctx) != nil {
			return
		}
		s.dirty, s.pressing = false, false
		s.forgetLost()
		s.believeStaying()
		placements, heldBack := s.changes()
		s.holdBack(ctx, heldBack)
		if len(placements) == 0 {
			continue
		}
		told, refused, err := s.tell(ctx, placements)
		if ctx.Err() != nil {
			return
		}
		s.takeAnswer(ctx, told, refused)
		switch {
		case temporal.ErrorType(err) == temporal.ErrHeld:
			s.mayHavePlaced(placements)
			s.dirty, s.pressing = true, true
		case err != nil:
			s.mayHavePlaced(placements)
			s.fail(ctx, err)
			s.takeOff(ctx)
			return
		}
	}
}

// tell insists on placements, unless a cluster that they add is held, and returns those of which the hub was told.
func (s *sequence) tell(ctx workflow.Context, placements []placement) (told []placement, refused []refusal, err error) {
	s.writing = true
	defer func() { s.writing = false }()
	return s.items.place(ctx, func(added []string) insistence {
		insist := s.rollout.Retrier()
		insist.before = func() error { return s.heldOf(added) }
		return insist
	}, placements)
}

// takeOff takes the clusters off the hub that are not at work any more since the sequence has failed: the rollout may wait for days before it ends. What the
// hub refuses of one item keeps no other; it is removed with all that the rollout has made.
func (s *sequence) takeOff(ctx workflow.Context) {
	s.believeStaying()
	placements, _ := s.changes()
	for _, p := range placements {
		told, refused, _ := s.tell(ctx, []placement{p})
		for _, part := range told {
			s.placedNow(part, refused)
		}
	}
}

// placedNow takes over what the hub has done of a placement: some it has not put on, and some not taken off.
func (s *sequence) placedNow(p placement, refused []refusal) {
	var not []string
	for _, r := range refused {
		if r.item == p.item {
			not = append(not, r.cluster)
		}
	}
	slices.Sort(not)
	removed := notAmong(p.removed, not)
	s.placed[p.item] = union(notAmong(s.placed[p.item], removed), notAmong(p.added, not))
	s.tried[p.item] = notAmong(notAmong(s.tried[p.item], p.added), removed)
}

// heldOf says as an error what keeps an item from being put on clusters, because of one of them; nil: nothing does.
func (s *sequence) heldOf(clusters []string) error {
	for _, cluster := range clusters {
		if !s.mayBegin(cluster) {
			return temporal.Error(temporal.ErrHeld, "nothing may begin on "+cluster, nil)
		}
	}
	return nil
}

// mayHavePlaced takes over what may have been told, as far as that puts anything on a cluster.
func (s *sequence) mayHavePlaced(placements []placement) {
	for _, p := range placements {
		s.tried[p.item] = union(s.tried[p.item], p.added)
	}
}

// holdBack shows which clusters wait for an item that may not be put on them now, and which do not any more.
func (s *sequence) holdBack(ctx workflow.Context, heldBack []*member) {
	before := s.heldBack
	if s.heldBack = heldBack; len(before)+len(heldBack) == 0 {
		return
	}
	for _, m := range before {
		m.held = false
	}
	for _, m := range heldBack {
		m.held = true
	}
	var stands []ranv1.ClusterStatus
	for _, m := range slices.Concat(before, heldBack) {
		if !m.over && !m.withdrawn {
			stands = append(stands, s.status(m))
		}
	}
	s.rollout.ClustersProgressed(ctx, stands)
}

// released reports whether an item may be put on a cluster that was held back.
func (s *sequence) released() bool {
	return slices.ContainsFunc(s.heldBack, func(m *member) bool { return !m.over && !m.withdrawn && s.mayBegin(m.Cluster) })
}

// forgetLost lets what somebody has deleted be put on its clusters again.
func (s *sequence) forgetLost() {
	for _, name := range workflow.DeterministicKeys(s.atWork) {
		m := s.atWork[name]
		if !m.lost {
			continue
		}
		m.lost = false
		placed := s.placed[m.turn.Policy]
		if i, found := slices.BinarySearch(placed, name); found {
			s.placed[m.turn.Policy], m.again = slices.Delete(slices.Clone(placed), i, i+1), true
		}
	}
}

// believeStaying takes what was only tried on clusters that are complete by now for placed: it was seen there.
func (s *sequence) believeStaying() {
	for _, name := range workflow.DeterministicKeys(s.staying) {
		item := s.staying[name]
		if _, tried := slices.BinarySearch(s.tried[item], name); tried {
			s.placedNow(placement{item: item, added: []string{name}}, nil)
		}
	}
}

// takeAnswer takes over what the hub has done. Clusters that it has refused an item for good have failed; the others say what they wait for.
func (s *sequence) takeAnswer(ctx workflow.Context, placements []placement, refused []refusal) {
	var stands []ranv1.ClusterStatus
	for _, p := range placements {
		s.placedNow(p, refused)
		for _, name := range p.added {
			if m := s.atWork[name]; m != nil && !m.withdrawn && (m.refused != nil || m.again) {
				m.refused = nil
				stands = append(stands, s.status(m))
			}
		}
	}
	passing := false
	for _, r := range refused {
		passing = passing || !r.final
		m := s.atWork[r.cluster]
		switch {
		case m == nil || m.withdrawn || m.turn.Policy != r.item:
		case r.final:
			s.end(ctx, m, ranv1.ClusterStatus{State: ranv1.ClusterFailed, Reason: r.reason, Message: r.message})
		default:
			m.refused = &r
			stands = append(stands, s.status(m))
		}
	}
	s.rollout.ClustersProgressed(ctx, stands)
	s.tellAgain(ctx, passing)
}

// tellAgain tells the hub after a while what it has refused now, at longer and longer intervals.
func (s *sequence) tellAgain(ctx workflow.Context, refused bool) {
	if !refused {
		s.pause = 0
		return
	}
	if s.pausing {
		return
	}
	s.pausing, s.pause = true, min(max(2*s.pause, shortestPause), longestPause)
	workflow.GoNamed(ctx, "tell the hub again", func(ctx workflow.Context) {
		timer := workflow.NewTimerWithOptions(ctx, s.pause, workflow.TimerOptions{Summary: "tell the hub again what it has refused"})
		if timer.Get(ctx, nil) == nil {
			s.pausing, s.dirty, s.pressing = false, true, true
		}
	})
}

// awaitPressing waits a while for more when the only change is that clusters are through.
func (s *sequence) awaitPressing(ctx workflow.Context) error {
	if s.pressing {
		return nil
	}
	gathering, stop := workflow.WithCancel(ctx)
	late := workflow.NewTimerWithOptions(gathering, removalsBehind, workflow.TimerOptions{Summary: "gather clusters that are through"})
	err := workflow.Await(ctx, func() bool { return s.pressing || late.IsReady() })
	stop()
	return err
}

// changes are the items whose clusters are others than the hub has been told. Those that only lose clusters come first: never more are at work than may be.
// Clusters on which the item is not yet, and may not be put now, are held back. What may have been put there is not taken off by itself until they may, or leave.
func (s *sequence) changes() (changes []placement, heldBack []*member) {
	wanted, waiting := make([][]string, len(s.placed)), make([][]string, len(s.placed))
	for _, name := range workflow.DeterministicKeys(s.atWork) {
		m := s.atWork[name]
		if !m.turn.Begun || m.withdrawn {
			continue
		}
		if s.mayBeOn(name, m.turn.Policy) {
			wanted[m.turn.Policy] = append(wanted[m.turn.Policy], name)
		} else {
			waiting[m.turn.Policy], heldBack = append(waiting[m.turn.Policy], name), append(heldBack, m)
		}
	}
	for _, name := range workflow.DeterministicKeys(s.staying) {
		if item := s.staying[name]; s.mayBeOn(name, item) {
			wanted[item] = append(wanted[item], name)
		}
	}
	for item, clusters := range wanted {
		slices.Sort(clusters)
		leaving := notAmong(notAmong(union(s.placed[item], s.tried[item]), clusters), waiting[item])
		p := placement{item: item, clusters: clusters, added: notAmong(clusters, s.placed[item]), removed: leaving}
		if len(p.added)+len(p.removed) > 0 {
			changes = append(changes, p)
		}
	}
	slices.SortStableFunc(changes, func(a, b placement) int { return min(len(a.added), 1) - min(len(b.added), 1) })
	return changes, heldBack
}

// mayBeOn reports whether an item is on a cluster, or may be put there now.
func (s *sequence) mayBeOn(cluster string, item int) bool {
	_, placed := slices.BinarySearch(s.placed[item], cluster)
	return placed || s.mayBegin(cluster)
}

// union are the names of both, sorted.
func union(names, others []string) []string {
	both := slices.Concat(names, others)
	slices.Sort(both)
	return slices.Compact(both)
}

// notAmong returns the names that are not among the others, which are sorted.
func notAmong(names, others []string) []string {
	var left []string
	for _, name := range names {
		if _, found := slices.BinarySearch(others, name); !found {
			left = append(left, name)
		}
	}
	return left
}

func (s *sequence) isPlaced(cluster string) bool {
	return slices.ContainsFunc(slices.Concat(s.placed, s.tried), func(clusters []string) bool {
		_, found := slices.BinarySearch(clusters, cluster)
		return found
	})
}

// awaitOff waits until a cluster that is withdrawn has been taken off the hub. When some have waited for hubLimit, the hub is not waited for any more:
// it would keep the rollout from ever going on or ending. It is told all the same, as long as the rollout goes on.
func (s *sequence) awaitOff(ctx workflow.Context, m *member) {
	off := func() bool { return m.over || !s.writing && !s.isPlaced(m.Cluster) || s.failure != nil }
	if off() {
		return
	}
	if s.leaving == 0 {
		waiting, stop := workflow.WithCancel(ctx)
		s.patience = workflow.NewTimerWithOptions(waiting, hubLimit, workflow.TimerOptions{Summary: "take clusters off the hub"})
		s.loseIt = stop
	}
	s.leaving++
	_ = workflow.Await(ctx, func() bool { return off() || s.patience.IsReady() })
	s.leaving--
	if s.leaving == 0 {
		s.loseIt()
	}
}

// settled: nothing is under way, and nothing is to be told.
func (s *sequence) settled() bool { return s.ctx == nil || s.told || !s.dirty && !s.writing }

// stopPlacing tells the hub what is left to be told, and nothing from then on. It does not insist for longer than hubLimit.
func (s *sequence) stopPlacing(ctx workflow.Context) {
	if s.ctx == nil {
		return
	}
	s.dirty, s.pressing = true, true
	waiting, stop := workflow.WithCancel(ctx)
	limit := workflow.NewTimerWithOptions(waiting, hubLimit, workflow.TimerOptions{Summary: "take clusters off the hub"})
	_ = workflow.Await(ctx, func() bool { return s.settled() || limit.IsReady() })
	stop()
	s.stop()
	_ = workflow.Await(ctx, func() bool { return s.told })
}

// stillPlaced says on which clusters items are, as far as is known.
func (s *sequence) stillPlaced() string {
	clusters := slices.Concat(slices.Concat(s.placed, s.tried)...)
	if len(clusters) == 0 {
		return ""
	}
	slices.Sort(clusters)
	return " from " + listed(slices.Compact(clusters))
}
