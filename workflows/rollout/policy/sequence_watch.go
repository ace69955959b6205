package policy

import (
	"slices"

	"go.temporal.io/sdk/workflow"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/policies"
	"drydock.dev/drydock/workflows/kit"
)

// watchGroup is the clusters of a sequence that one activity watches. Others join it when clusters end: a rolling rollout starts them one by one, and with an
// activity for each, the workers would have none left for anything else.
type watchGroup struct {
	sequence *sequence
	members  []*member
	// watching is the context of the activity that watches; nil before the first.
	watching workflow.Context
	// watch is the number of the activity that watches now; reports is how often one has reported, less than expected.
	watch, reports int
	stopWatch      workflow.CancelFunc
	// closed: no further cluster can join.
	closed bool
}

const (
	// watchedTogether is how many clusters one activity watches: each that joins starts it again, with all clusters in its input.
	watchedTogether = 100
	// reportsExpected is about how often a cluster is reported that passes an item without trouble.
	reportsExpected = 5
)

// free is how many clusters can join.
func (g *watchGroup) free() int {
	if g.closed {
		return 0
	}
	return watchedTogether - len(g.atWork())
}

// join adds clusters.
func (g *watchGroup) join(ctx workflow.Context, members []*member) {
	g.members = append(g.atWork(), members...)
	each := reportsExpected * g.sequence.items.Count()
	g.reports = max(g.reports-each*len(members), -each*watchedTogether)
	if g.watching != nil {
		g.startWatch(g.watching)
	}
}

// run takes the clusters through the items until none is running.
func (g *watchGroup) run(ctx workflow.Context) {
	serving, stop := workflow.WithCancel(ctx)
	workflow.GoNamed(ctx, "end of a watch group", func(ctx workflow.Context) {
		ended := func(m *member) bool { return m.state == memberEnded }
		_ = workflow.Await(ctx, func() bool { return !slices.ContainsFunc(g.members, func(m *member) bool { return !ended(m) }) })
		g.closed = true
		stop()
	})
	if err := g.sequence.ensurePrepared(serving); err != nil {
		g.closed = true
		if g.sequence.failure != nil {
			g.sequence.endAll(ctx, g.atWork(), FailedCluster(err))
		}
		return
	}
	g.watching = serving
	g.startWatch(serving)
	g.keepTime(serving)
}

// atWork are the clusters that continue.
func (g *watchGroup) atWork() []*member {
	return slices.DeleteFunc(slices.Clone(g.members), func(m *member) bool { return !m.atWork() })
}

// startWatch watches from now on, with what is known now. It does not wait for the activity that watches already: only relapses count of its report.
func (g *watchGroup) startWatch(ctx workflow.Context) {
	if g.stopWatch != nil {
		g.stopWatch()
	}
	watching, stop := workflow.WithCancel(ctx)
	g.watch, g.stopWatch = g.watch+1, stop
	number := g.watch
	workflow.GoNamed(watching, "watch clusters", func(ctx workflow.Context) {
		for {
			known := g.known()
			if len(known) == 0 {
				return
			}
			news, err := g.sequence.items.Await(ctx, known, policies.Gather(len(known), g.reports, kit.HistoryUsed(ctx)))
			switch {
			case g.watch != number:
				g.takeRelapses(ctx, known, news)
				return
			case ctx.Err() != nil:
				return
			case err != nil:
				g.sequence.endAll(ctx, g.atWork(), FailedCluster(err))
				return
			}
			g.reports++
			g.sequence.rollout.Together(ctx, func() { g.sequence.take(ctx, news) })
		}
	})
}

// known is what is known of the running clusters.
func (g *watchGroup) known() []policies.KnownCluster {
	var known []policies.KnownCluster
	for _, m := range g.atWork() {
		known = append(known, policies.KnownCluster{Cluster: m.Cluster, Status: m.compliance, Policy: m.progress.Policy})
	}
	return known
}

// takeRelapses restarts the soaks in which a watch has seen a relapse after another one has replaced it: the new one cannot have seen a relapse that ended before.
func (g *watchGroup) takeRelapses(ctx workflow.Context, known []policies.KnownCluster, news []policies.ClusterCompliance) {
	var relapsed []policies.ClusterCompliance
	for _, m := range g.atWork() {
		hasRelapsed := func(seen policies.ClusterCompliance) bool { return seen.Cluster == m.Cluster && seen.Relapsed }
		sameItem := func(known policies.KnownCluster) bool {
			return known.Cluster == m.Cluster && known.Policy == m.progress.Policy
		}
		if m.soaks() && slices.ContainsFunc(news, hasRelapsed) && slices.ContainsFunc(known, sameItem) {
			relapsed = append(relapsed, policies.ClusterCompliance{Cluster: m.Cluster, Status: m.compliance, Relapsed: true})
		}
	}
	if len(relapsed) > 0 {
		g.sequence.rollout.Together(ctx, func() { g.sequence.take(ctx, relapsed) })
	}
}

// take lets clusters continue by what was seen of them.
func (s *sequence) take(ctx workflow.Context, news []policies.ClusterCompliance) {
	var progressed []ranv1.ClusterStatus
	for _, seen := range news {
		m := s.members[seen.Cluster]
		if m == nil || !m.atWork() {
			continue
		}
		s.takeOne(ctx, m, seen)
		if m.atWork() {
			progressed = append(progressed, s.status(m))
		}
	}
	s.rollout.ClustersProgressed(ctx, progressed)
}

// takeOne lets one cluster continue.
func (s *sequence) takeOne(ctx workflow.Context, m *member, seen policies.ClusterCompliance) {
	if seen.Vanished {
		s.end(ctx, m, ranv1.ClusterStatus{State: ranv1.ClusterFailed, Reason: ranv1.ReasonClusterVanished, Message: MessageVanished})
		return
	}
	item, before := m.progress.Policy, m.step
	if m.placement == isPlaced && s.items.Deleted(m.compliance.Of(item), seen.Status.Of(item)) {
		s.deleted(ctx, m)
	}
	m.compliance = seen.Status
	m.progress, m.step = m.progress.Next(seen, s.prepared.Soaks, workflow.Now(ctx), s.mayBegin(m.Cluster))
	s.logStep(ctx, m, item, before, seen.Relapsed)
	switch {
	case m.step.State == ranv1.ClusterComplete:
		s.end(ctx, m, ranv1.ClusterStatus{State: ranv1.ClusterComplete})
	case m.step.State == ranv1.ClusterFailed:
		failed := m.progress.Policy
		if !slices.Contains(m.progress.Bound, true) {
			failed = -1
		}
		reason, message := s.items.Unbound(failed)
		s.end(ctx, m, ranv1.ClusterStatus{State: ranv1.ClusterFailed, Reason: reason, Message: message})
	case m.progress.Begun && (m.state == memberWaiting || m.progress.Policy != item):
		s.activate(m)
	}
}
