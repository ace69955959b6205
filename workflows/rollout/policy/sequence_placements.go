package policy

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/activities/remediation"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/manifestworks"
	"drydock.dev/drydock/internal/policies"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/kit"
)

// placements places items on clusters. The workflow sets the target of each cluster; an activity reads the hub, writes the difference and returns the
// observed placement.
type placements struct {
	// generation increases with every change of a target. sent is the last generation that was sent to the hub.
	generation, sent int64
	// urgent: the change does not wait for others. calling: an activity is in progress.
	urgent, calling bool
	// ctx is the context of the placement loop and of the watch groups; nil before the first cluster. stop cancels it. stopped: the placement loop
	// has ended.
	ctx     workflow.Context
	stop    workflow.CancelFunc
	stopped bool
	// retryPause is the pause before refused placements are retried; 0: the hub refused none. pausing: the pause is in progress.
	retryPause time.Duration
	pausing    bool
	// awaitedRemovals is the number of clusters that wait for the removal of their items. removalTimer limits the wait, and stopRemovalTimer stops
	// it.
	awaitedRemovals  int
	removalTimer     workflow.Future
	stopRemovalTimer workflow.CancelFunc
	// stopPrevious ends the watch of the removal of previous items; nil: there is none.
	stopPrevious workflow.CancelFunc
}

const (
	// removalDelay is how long the removal of an item may wait, so that it is written together with other changes.
	removalDelay = 2 * time.Second
	// MinRetryPause and MaxRetryPause limit the pause before a refused placement is retried.
	MinRetryPause = 2 * time.Second
	MaxRetryPause = time.Minute
)

// errDesiredChanged: the targets changed before the hub was reached.
var errDesiredChanged = errors.New("the desired placements have changed")

// startPlacing starts the placement loop with the first cluster. It returns the context of the loop and the watch groups.
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

// requestPlacement records that the target of a cluster changed.
func (s *sequence) requestPlacement(m *member, urgent bool) {
	s.generation++
	m.desired, s.urgent = s.generation, s.urgent || urgent
}

// requestAllPlacements places all clusters again although no target changed.
func (s *sequence) requestAllPlacements() {
	s.generation++
	s.urgent = true
}

// placementLoop is the only caller of placeAll. Changes that arrive during a call are placed together by the next one. After a failure of the
// sequence it removes the items from all clusters: the rollout may take days to end.
func (s *sequence) placementLoop(ctx workflow.Context) {
	for {
		if workflow.Await(ctx, func() bool { return s.sent < s.generation || s.anyReleased() }) != nil {
			return
		}
		s.placeReleased(ctx)
		if s.gatherChanges(ctx) != nil {
			return
		}
		kit.HandlePendingSignals(ctx)
		s.sent, s.urgent, s.calling = s.generation, false, true
		err := s.placeAll(ctx)
		s.calling = false
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

// anyReleased reports whether an item may start on a cluster that was held.
func (s *sequence) anyReleased() bool {
	//workflowcheck:ignore the order does not matter
	for _, m := range s.members {
		if m.placement == isHeld && m.running() && s.mayStart(m.Cluster) {
			return true
		}
	}
	return false
}

// placeReleased requests the placement of items on clusters that were held.
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

// gatherChanges waits for more changes, if the changes so far only remove items.
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

// placeAll places all clusters, or those that are not placed yet.
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
	// Remove items first, so that no more clusters than allowed are running.
	slices.SortStableFunc(unplaced, func(a, b *member) int { return cmp.Compare(a.target(true).Item, b.target(true).Item) })
	for some := range slices.Chunk(unplaced, atOnce) {
		if err := s.place(ctx, some); err != nil {
			return err
		}
	}
	return nil
}

// place places some clusters, and records the observed placement.
func (s *sequence) place(ctx workflow.Context, members []*member) error {
	var targets []policies.Target
	var unfinished Unfinished
	var beginning []string
	generations := make([]int64, len(members))
	for i, m := range members {
		target := m.target(s.mayStart(m.Cluster))
		targets, generations[i] = append(targets, target), m.desired
		if m.state == memberActive && m.placed != m.desired && !target.Held {
			beginning = append(beginning, m.Cluster)
		}
		if m.state == memberCancelling && m.placed != m.desired && m.progress.Begun {
			unfinished.Targets = append(unfinished.Targets, policies.Target{Cluster: m.Cluster, Item: m.progress.Policy})
			unfinished.Limit = s.leftCapacity()
		}
	}
	retrier := s.rollout.Retrier()
	retrier.BeforeRound = func() error {
		if s.sent < s.generation || slices.ContainsFunc(beginning, func(cluster string) bool { return !s.mayStart(cluster) }) {
			return errDesiredChanged
		}
		return nil
	}
	placed, err := s.items.Place(ctx, retrier, policies.Desired(targets), unfinished, s.rollout.FirstClose(beginning))
	if err != nil {
		return err
	}
	s.recordPlacements(ctx, members, generations, placed)
	return nil
}

// leftLimit is the maximum number of bytes of the statuses of unfinished works of a rollout: the state of 10,000 clusters must fit into the input of the
// next run.
const leftLimit = 64 << 10

// leftCapacity is how many bytes of statuses of unfinished works may still be kept.
func (s *sequence) leftCapacity() int {
	if s.leftLimit == nil {
		left := leftLimit
		for _, c := range s.rollout.Status().Clusters {
			if c.CurrentManifestWork != nil {
				left -= manifestworks.StatusSize(c.CurrentManifestWork.Status)
			}
		}
		s.leftLimit = &left
	}
	return max(0, *s.leftLimit)
}

// recordPlacements records the placement of clusters at these generations. A cluster whose target changed since then is placed again.
func (s *sequence) recordPlacements(ctx workflow.Context, members []*member, generations []int64, placed remediation.PlacementResult) {
	held, removing, refusals, retry := map[string]bool{}, map[string]bool{}, map[string]*remediation.RefusedPlacement{}, false
	for _, cluster := range placed.Removing {
		removing[cluster] = true
	}
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
		if left := placed.Left[m.Cluster]; left != nil && m.state == memberCancelling {
			m.left, *s.leftLimit = left, *s.leftLimit-manifestworks.StatusSize(left)
		}
		switch {
		case m.desired != generations[i] || s.members[m.Cluster] != m:
		case refusal != nil && refusal.Final && m.running():
			s.end(ctx, m, ranv1.ClusterStatus{State: ranv1.ClusterFailed, Reason: refusal.Reason, Message: refusal.Message})
		case s.recordPlacement(ctx, m, held[m.Cluster], removing[m.Cluster], refusal):
			progressed = append(progressed, s.status(m))
		}
	}
	if len(progressed) > 0 {
		s.rollout.ClustersProgressed(ctx, progressed)
	}
	s.retryRefused(ctx, retry)
	if len(removing) > 0 {
		s.awaitPrevious(ctx)
	}
}

// awaitPrevious places the clusters again that still have their previous item, when one of them has lost it.
func (s *sequence) awaitPrevious(ctx workflow.Context) {
	if s.stopPrevious != nil {
		s.stopPrevious()
	}
	var next []policies.Target
	for _, name := range workflow.DeterministicKeys(s.members) {
		if m := s.members[name]; m.placement == isRemoving && m.state == memberActive {
			next = append(next, m.target(true))
		}
	}
	ctx, s.stopPrevious = workflow.WithCancel(ctx)
	workflow.GoNamed(ctx, "await removals", func(ctx workflow.Context) {
		err := s.items.AwaitRemoved(ctx, next)
		switch {
		case ctx.Err() != nil:
		case err != nil:
			s.fail(ctx, err)
		default:
			s.requestAllPlacements()
		}
	})
}

// retryRefused retries refused placements with a growing pause.
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

// awaitRemoved waits until a cancelled cluster has no item, at most for HubLimit after the first such wait: a refusing hub must not keep the rollout
// from continuing or ending. The removal is still retried while the rollout continues.
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

// settled reports whether every change was sent to the hub and answered.
func (s *sequence) settled() bool {
	return s.ctx == nil || s.stopped || s.sent == s.generation && !s.calling
}

// stopPlacing places the remaining changes, at most for HubLimit, and then stops the placement loop.
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
