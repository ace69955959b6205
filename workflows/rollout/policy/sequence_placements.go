package policy

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/activities/remediation"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/policies"
	"drydock.dev/drydock/internal/temporal"
)

// placements places the items of a sequence: the workflow says where each cluster is to be, an activity observes the hub, writes the difference and returns
// what it observed.
type placements struct {
	// generation grows with every change of where clusters are to be; sent is the last one that the hub was asked for.
	generation, sent int64
	// urgent: the change cannot wait for others. asking: the hub is being asked.
	urgent, placing bool
	// ctx is that of everything that serves running clusters, nil before the first; stop ends the calls to the hub, and stopped says that it has ended.
	ctx     workflow.Context
	stop    workflow.CancelFunc
	stopped bool
	// retryPause is how long nothing is retried that the hub refused; 0: it refused nothing. pausing: that time runs.
	retryPause time.Duration
	pausing    bool
	// awaitedRemovals is how many clusters wait until their items are removed; patience is done when they no longer wait.
	awaitedRemovals  int
	removalTimer     workflow.Future
	stopRemovalTimer workflow.CancelFunc
}

const (
	// removalDelay is how long a cluster may keep an item that it is done with: its removal is written together with others, or with what comes next.
	removalDelay = 2 * time.Second
	// MinRetryPause and longestPause limit how long nothing is retried that the hub refused.
	MinRetryPause = 2 * time.Second
	MaxRetryPause = time.Minute
)

// errDesiredChanged: what is desired has changed while the hub could not be asked.
var errDesiredChanged = errors.New("the desired placements have changed")

// startPlacing starts to place clusters, and returns the context of everything that serves running clusters.
func (s *sequence) startPlacing(ctx workflow.Context) workflow.Context {
	if s.ctx == nil {
		ctx, _ = workflow.NewDisconnectedContext(ctx)
		s.ctx, s.stop = workflow.WithCancel(ctx)
		workflow.GoNamed(s.ctx, "place clusters", func(ctx workflow.Context) {
			s.placementLoop(ctx)
			s.stopped = true
		})
	}
	return s.ctx
}

// requestPlacement takes in that a cluster is to be elsewhere.
func (s *sequence) requestPlacement(m *member, urgent bool) {
	s.generation++
	m.desired, s.urgent = s.generation, s.urgent || urgent
}

// requestAllPlacements makes the hub be asked again although nothing has changed.
func (s *sequence) requestAllPlacements() {
	s.generation++
	s.urgent = true
}

// placementLoop is the only one that places clusters. Changes that come while it asks the hub are placed together. After the sequence has failed, it removes the items
// from all clusters: the rollout may wait for days before it ends.
func (s *sequence) placementLoop(ctx workflow.Context) {
	for {
		if workflow.Await(ctx, func() bool { return s.sent < s.generation || s.anyReleased() }) != nil {
			return
		}
		s.placeReleased(ctx)
		if s.gatherChanges(ctx) != nil {
			return
		}
		s.sent, s.urgent, s.placing = s.generation, false, true
		err := s.placeAll(ctx)
		s.placing = false
		switch {
		case ctx.Err() != nil, err != nil && s.failure != nil:
			return
		case errors.Is(err, errDesiredChanged), temporal.ErrorType(err) == temporal.ErrHeld:
			s.requestAllPlacements()
		case err != nil:
			s.fail(ctx, err)
		}
	}
}

// anyReleased reports whether an item may begin on a cluster that was held.
func (s *sequence) anyReleased() bool {
	//workflowcheck:ignore the order does not matter
	for _, m := range s.members {
		if m.placement == isHeld && m.running() && s.mayStart(m.Cluster) {
			return true
		}
	}
	return false
}

// placeReleased lets the items begin on the clusters that were held.
func (s *sequence) placeReleased(ctx workflow.Context) {
	var released []ranv1.ClusterStatus
	for _, name := range workflow.DeterministicKeys(s.members) {
		if m := s.members[name]; m.placement == isHeld && m.running() && s.mayStart(name) {
			m.placement = notObserved
			s.requestPlacement(m, true)
			released = append(released, s.status(m))
		}
	}
	if len(released) > 0 {
		s.rollout.ClustersProgressed(ctx, released)
	}
}

// gatherChanges waits a while for other changes when clusters are only to lose items.
func (s *sequence) gatherChanges(ctx workflow.Context) error {
	if s.urgent {
		return nil
	}
	gathering, stop := workflow.WithCancel(ctx)
	late := workflow.NewTimerWithOptions(gathering, removalDelay, workflow.TimerOptions{Summary: "gather removals"})
	err := workflow.Await(ctx, func() bool { return s.urgent || late.IsReady() })
	stop()
	return err
}

// placeAll asks the hub for what is desired of all clusters, or of those that are not placed yet.
func (s *sequence) placeAll(ctx workflow.Context) error {
	var all, unplaced []*member
	for _, name := range workflow.DeterministicKeys(s.members) {
		m := s.members[name]
		if m.state == memberWaiting {
			continue
		}
		all = append(all, m)
		if m.placed != m.desired && (m.placement != isHeld || !m.running()) {
			unplaced = append(unplaced, m)
		}
	}
	atOnce := s.items.ClustersPerPlacement()
	switch {
	case len(unplaced) == 0:
		return nil
	case atOnce == 0:
		return s.place(ctx, all)
	}
	// Those that are to have no item come first: never more clusters are running than may be.
	slices.SortStableFunc(unplaced, func(a, b *member) int { return cmp.Compare(a.target(true).Item, b.target(true).Item) })
	for some := range slices.Chunk(unplaced, atOnce) {
		if err := s.place(ctx, some); err != nil {
			return err
		}
	}
	return nil
}

// place asks the hub for what is desired of some clusters, and takes in what was observed.
func (s *sequence) place(ctx workflow.Context, members []*member) error {
	var targets []policies.Target
	var beginning []string
	generations := make([]int64, len(members))
	for i, m := range members {
		target := m.target(s.mayStart(m.Cluster))
		targets, generations[i] = append(targets, target), m.desired
		if m.state == memberActive && m.placed != m.desired && !target.Held {
			beginning = append(beginning, m.Cluster)
		}
	}
	retrier := s.rollout.Retrier()
	retrier.BeforeRound = func() error {
		if s.sent < s.generation || slices.ContainsFunc(beginning, func(cluster string) bool { return !s.mayStart(cluster) }) {
			return errDesiredChanged
		}
		return nil
	}
	placed, err := s.items.Place(ctx, retrier, policies.Desired(targets), s.rollout.FirstClose(beginning))
	if err != nil {
		return err
	}
	s.recordPlacements(ctx, members, generations, placed)
	return nil
}

// recordPlacements takes in what was observed of clusters that were placed in these generations. A cluster whose desired place has changed since is placed again.
func (s *sequence) recordPlacements(ctx workflow.Context, members []*member, generations []int64, placed remediation.PlacementResult) {
	held, refusals, retry := map[string]bool{}, map[string]*remediation.RefusedPlacement{}, false
	for _, cluster := range placed.Waiting {
		held[cluster] = true
	}
	for i := range placed.Refused {
		retry = retry || !placed.Refused[i].Final
		for _, cluster := range placed.Refused[i].Clusters {
			refusals[cluster] = &placed.Refused[i]
		}
	}
	var progressed []ranv1.ClusterStatus
	for i, m := range members {
		refusal := refusals[m.Cluster]
		switch {
		case m.desired != generations[i] || s.members[m.Cluster] != m:
		case refusal != nil && refusal.Final && m.running():
			s.end(ctx, m, ranv1.ClusterStatus{State: ranv1.ClusterFailed, Reason: refusal.Reason, Message: refusal.Message})
		case s.recordPlacement(ctx, m, held[m.Cluster], refusal):
			progressed = append(progressed, s.status(m))
		}
	}
	if len(progressed) > 0 {
		s.rollout.ClustersProgressed(ctx, progressed)
	}
	s.retryRefused(ctx, retry)
}

// retryRefused asks the hub again after a while for what it refused, after longer and longer pauses.
func (s *sequence) retryRefused(ctx workflow.Context, refused bool) {
	switch {
	case !refused:
		s.retryPause = 0
		return
	case s.pausing:
		return
	}
	s.pausing, s.retryPause = true, min(max(2*s.retryPause, MinRetryPause), MaxRetryPause)
	workflow.GoNamed(ctx, "retry refused placements", func(ctx workflow.Context) {
		timer := workflow.NewTimerWithOptions(ctx, s.retryPause, workflow.TimerOptions{Summary: "retry refused placements"})
		if timer.Get(ctx, nil) == nil {
			s.pausing = false
			s.requestAllPlacements()
		}
	})
}

// awaitRemoved waits until a withdrawn cluster has no item. When some clusters have waited for hubLimit, none waits longer: the hub would keep the rollout from
// continuing, or from ending. Their removal is still retried, as long as the rollout continues.
func (s *sequence) awaitRemoved(ctx workflow.Context, m *member) {
	removed := func() bool { return m.state == memberEnded || s.members[m.Cluster] != m || s.failure != nil }
	if s.awaitedRemovals == 0 {
		waiting, stop := workflow.WithCancel(ctx)
		s.removalTimer = workflow.NewTimerWithOptions(waiting, HubLimit, workflow.TimerOptions{Summary: "remove items from clusters"})
		s.stopRemovalTimer = stop
	}
	s.awaitedRemovals++
	_ = workflow.Await(ctx, func() bool { return removed() || s.removalTimer.IsReady() })
	s.awaitedRemovals--
	if s.awaitedRemovals == 0 {
		s.stopRemovalTimer()
	}
}

// settled: the hub is not being asked, and needs not be.
func (s *sequence) settled() bool {
	return s.ctx == nil || s.stopped || s.sent == s.generation && !s.placing
}

// stopPlacing asks the hub for the remaining changes, for no longer than hubLimit, and for nothing from then on.
func (s *sequence) stopPlacing(ctx workflow.Context) {
	if s.ctx == nil {
		return
	}
	s.requestAllPlacements()
	waiting, stop := workflow.WithCancel(ctx)
	limit := workflow.NewTimerWithOptions(waiting, HubLimit, workflow.TimerOptions{Summary: "remove items from clusters"})
	_ = workflow.Await(ctx, func() bool { return s.settled() || limit.IsReady() })
	stop()
	s.stop()
	_ = workflow.Await(ctx, func() bool { return s.stopped })
}
