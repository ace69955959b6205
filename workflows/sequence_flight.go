package workflows

import (
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/emergency"
	"drydock.dev/drydock/internal/policies"
)

// flight is clusters of a sequence that one activity watches. Others join it as those that it began with are over: a rolling rollout starts them one
// by one, and with an activity for each, the workers would have none left for anything else.
type flight struct {
	sequence *sequence
	members  []*member
	// watching is the context of the activity that watches; nil before the first.
	watching workflow.Context
	// watch is the number of the activity that watches now; reports is how often one has reported, less what is to be expected.
	watch, reports int
	stopWatch      workflow.CancelFunc
	// landed: nobody can join any more.
	landed bool
}

const (
	// watchedTogether is how many clusters one activity watches: each that joins makes it begin anew, with all of them in its input.
	watchedTogether = 100
	// reportsExpected is how often a cluster is reported that goes through an item without trouble, roughly.
	reportsExpected = 5
)

// room is how many clusters can join.
func (f *flight) room() int {
	if f.landed {
		return 0
	}
	return watchedTogether - len(f.atWork())
}

// join takes in clusters.
func (f *flight) join(ctx workflow.Context, members []*member) {
	f.members = append(slices.DeleteFunc(f.members, func(m *member) bool { return m.over }), members...)
	each := reportsExpected * f.sequence.items.count()
	f.reports = max(f.reports-each*len(members), -each*watchedTogether)
	if f.watching != nil {
		f.startWatch(f.watching)
	}
}

// run takes the clusters through the items until all are over.
func (f *flight) run(ctx workflow.Context) {
	serving, stop := workflow.WithCancel(ctx)
	workflow.GoNamed(ctx, "end of a watch", func(ctx workflow.Context) {
		_ = workflow.Await(ctx, f.over)
		f.landed = true
		stop()
	})
	if err := f.sequence.ensurePrepared(serving); err != nil {
		f.landed = true
		if f.sequence.failure != nil {
			f.endAll(ctx, err)
		}
		return
	}
	f.watching = serving
	f.startWatch(serving)
	f.keepTime(serving)
}

func (f *flight) over() bool {
	return !slices.ContainsFunc(f.members, func(m *member) bool { return !m.over })
}

// atWork are the clusters that go on.
func (f *flight) atWork() []*member {
	return slices.DeleteFunc(slices.Clone(f.members), func(m *member) bool { return m.over || m.withdrawn })
}

// endAll fails the clusters that go on.
func (f *flight) endAll(ctx workflow.Context, err error) {
	var names []string
	for _, m := range f.atWork() {
		names = append(names, m.Cluster)
	}
	f.sequence.endAll(ctx, names, failedCluster(err))
}

// startWatch watches from now on, with what is known now. An activity that watches already is not waited for: of what it says only relapses count.
func (f *flight) startWatch(ctx workflow.Context) {
	if f.stopWatch != nil {
		f.stopWatch()
	}
	watching, stop := workflow.WithCancel(ctx)
	f.watch, f.stopWatch = f.watch+1, stop
	number := f.watch
	workflow.GoNamed(watching, "watch clusters", func(ctx workflow.Context) {
		for {
			var known []policies.KnownCluster
			for _, m := range f.atWork() {
				known = append(known, policies.KnownCluster{Cluster: m.Cluster, Standing: m.standing, Policy: m.turn.Policy})
			}
			if len(known) == 0 {
				return
			}
			news, err := f.sequence.items.await(ctx, known, policies.Gather(len(known), f.reports, historyUsed(ctx)))
			switch {
			case f.watch != number:
				f.takeRelapses(ctx, known, news)
				return
			case ctx.Err() != nil:
				return
			case err != nil:
				f.endAll(ctx, err)
				return
			}
			f.reports++
			f.sequence.rollout.Together(ctx, func() { f.take(ctx, news) })
		}
	})
}

// takeRelapses restarts the soaks in which a watch has seen a relapse that does not count any more: the one that took its place cannot have seen what was over
// by then.
func (f *flight) takeRelapses(ctx workflow.Context, known []policies.KnownCluster, news []policies.ClusterStanding) {
	var relapsed []policies.ClusterStanding
	for _, m := range f.atWork() {
		dipped := func(seen policies.ClusterStanding) bool { return seen.Cluster == m.Cluster && seen.Dipped }
		sameItem := func(known policies.KnownCluster) bool {
			return known.Cluster == m.Cluster && known.Policy == m.turn.Policy
		}
		if m.step.State == ranv1.ClusterSoaking && slices.ContainsFunc(news, dipped) && slices.ContainsFunc(known, sameItem) {
			relapsed = append(relapsed, policies.ClusterStanding{Cluster: m.Cluster, Standing: m.standing, Dipped: true})
		}
	}
	if len(relapsed) > 0 {
		f.sequence.rollout.Together(ctx, func() { f.take(ctx, relapsed) })
	}
}

// take lets clusters go on by what was seen of them.
func (f *flight) take(ctx workflow.Context, news []policies.ClusterStanding) {
	s := f.sequence
	var stands []ranv1.ClusterStatus
	for _, seen := range news {
		m := s.atWork[seen.Cluster]
		if m == nil || m.withdrawn {
			continue
		}
		before, at := m.turn, m.turn.Policy
		if seen.Vanished {
			s.end(ctx, m, ranv1.ClusterStatus{State: ranv1.ClusterFailed, Reason: ranv1.ReasonClusterVanished, Message: messageVanished})
			continue
		}
		if before.Begun && s.items.lost(m.standing.Of(at), seen.Standing.Of(at)) {
			m.lost, s.dirty, s.pressing = true, true, true
		}
		m.standing = seen.Standing
		m.turn, m.step = m.turn.Next(seen, s.prepared.Soaks, workflow.Now(ctx), s.mayBegin(m.Cluster))
		switch m.step.State {
		case ranv1.ClusterComplete:
			s.end(ctx, m, ranv1.ClusterStatus{State: ranv1.ClusterComplete})
			continue
		case ranv1.ClusterFailed:
			item := m.turn.Policy
			if !slices.Contains(m.turn.Bound, true) {
				item = -1
			}
			reason, message := s.items.unbound(item)
			s.end(ctx, m, ranv1.ClusterStatus{State: ranv1.ClusterFailed, Reason: reason, Message: message})
			continue
		}
		if before.Begun != m.turn.Begun || before.Policy != m.turn.Policy {
			s.dirty, s.pressing = true, true
		}
		stands = append(stands, s.status(m))
	}
	s.rollout.ClustersProgressed(ctx, stands)
}

// mayBegin reports whether another item may begin on a cluster.
func (s *sequence) mayBegin(cluster string) bool {
	return !s.rollout.Status().Paused && s.rollout.Hold(cluster) == nil
}

// Reasons of clusters at work.
const (
	reasonSoaking = "Soaking"
	reasonPaused  = "Paused" // the reason of one that is held is emergency.ReasonHeld
	reasonPending = "Pending"
)

// status is how a cluster at work stands.
func (s *sequence) status(m *member) ranv1.ClusterStatus {
	standing := m.standing.Of(m.turn.Policy)
	status := ranv1.ClusterStatus{Name: m.Cluster, State: m.step.State, Reason: standing.String(), Message: s.items.awaited()}
	if status.Reason == "" {
		status.Reason = reasonPending
	}
	s.items.describe(&status, m.turn.Policy, standing)
	if m.again && !m.held {
		status.Message += "; what was put on it had been deleted, and was put there again"
	}
	switch {
	case m.held:
		status.Reason, status.Message = s.kept(m)
	case m.refused != nil:
		status.Reason, status.Message = m.refused.reason, m.refused.message+"; tried again until the time is over"
	case m.step.State == ranv1.ClusterSoaking:
		status.Reason, status.Message = reasonSoaking, "must stay so until "+m.step.Until.UTC().Format("15:04:05Z")
	case m.step.Waits:
		status.Reason, status.Message = s.kept(m)
	}
	return status
}

// kept says what keeps the next item from beginning on a cluster, or one that was to begin.
func (s *sequence) kept(m *member) (reason, message string) {
	which := "the next"
	switch {
	case m.held:
		which = "it"
	case !m.turn.Begun:
		which = "the first"
	}
	if hold := s.rollout.Hold(m.Cluster); hold != nil {
		return emergency.Reason(*hold), which + " may not begin: " + hold.String()
	}
	return reasonPaused, which + " may not begin while the rollout is paused"
}

// keepTime lets clusters go on whose soak is over, and those that waited for a pause to end.
func (f *flight) keepTime(ctx workflow.Context) {
	for {
		until := f.soakEnds()
		gathering, stop := workflow.WithCancel(ctx)
		soaked := func() bool { return false }
		if until != nil {
			timer := workflow.NewTimerWithOptions(gathering, until.Sub(workflow.Now(ctx)), workflow.TimerOptions{Summary: "soak until " + until.UTC().Format("15:04:05Z")})
			soaked = timer.IsReady
		}
		err := workflow.Await(ctx, func() bool { return soaked() || f.mayGoOn() || !sameInstant(until, f.soakEnds()) })
		stop()
		if err != nil {
			return
		}
		seen, err := f.due(ctx)
		if err != nil {
			if ctx.Err() == nil { // for good: nobody would ever say when their soak is over
				f.endAll(ctx, err)
			}
			return
		}
		if len(seen) > 0 {
			f.sequence.rollout.Together(ctx, func() { f.take(ctx, seen) })
			f.startWatch(ctx)
		}
	}
}

// due are the clusters that can go on now, as they stand: those whose soak is over are asked for once more.
func (f *flight) due(ctx workflow.Context) ([]policies.ClusterStanding, error) {
	var seen []policies.ClusterStanding
	var soaked []string
	now := workflow.Now(ctx)
	for _, m := range f.atWork() {
		switch {
		case m.step.Waits && f.sequence.mayBegin(m.Cluster):
			seen = append(seen, policies.ClusterStanding{Cluster: m.Cluster, Standing: m.standing})
		case m.step.State == ranv1.ClusterSoaking && !m.step.Until.After(now):
			soaked = append(soaked, m.Cluster)
		}
	}
	read, err := f.sequence.read(ctx, f.sequence.rollout.Retrier(), soaked)
	if err != nil {
		return nil, err
	}
	return append(seen, read...), nil
}

// soakEnds is when the first soak of a cluster is over; nil: none soaks.
func (f *flight) soakEnds() *time.Time {
	var first *time.Time
	for _, m := range f.members {
		if !m.over && !m.withdrawn && m.step.State == ranv1.ClusterSoaking && (first == nil || m.step.Until.Before(*first)) {
			first = m.step.Until
		}
	}
	return first
}

// mayGoOn reports whether a cluster that waited for a pause to end can go on.
func (f *flight) mayGoOn() bool {
	return slices.ContainsFunc(f.members, func(m *member) bool {
		return !m.over && !m.withdrawn && m.step.Waits && f.sequence.mayBegin(m.Cluster)
	})
}

func sameInstant(a, b *time.Time) bool {
	return a == nil && b == nil || a != nil && b != nil && a.Equal(*b)
}
