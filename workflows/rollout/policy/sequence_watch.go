package policy

import (
	"slices"

	"go.temporal.io/sdk/workflow"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/policies"
	"drydock.dev/drydock/workflows/kit"
)

// watchGroup is a group of clusters that one activity watches. Clusters join a group with free capacity: a rolling rollout starts them one by one,
// and an activity for each would take all slots of the workers.
type watchGroup struct {
	sequence *sequence
	members  []*member
	// ctx is the context of the watch; nil before the first one.
	ctx workflow.Context
	// watch is the number of the current watch. extraReports is how many more reports there were than expected.
	watch, extraReports int
	stopWatch           workflow.CancelFunc
	// plans are the clusters whose InstallPlans are approved.
	plans map[string]*clusterPlans
	// removing are the clusters whose views and actions are being removed, and removals is the number of activities that do it.
	removing map[string]bool
	removals int
	// closed: no further cluster can join.
	closed bool
}

const (
	// clustersPerWatch is the maximum number of clusters in one watch. Each cluster that joins restarts the watch, with all clusters in its input.
	clustersPerWatch = 100
	// reportsExpected is the usual number of reports on a cluster for each item.
	reportsExpected = 5
)

// capacity is the number of clusters that can join.
func (g *watchGroup) capacity() int {
	if g.closed {
		return 0
	}
	return clustersPerWatch - len(g.running())
}

// join adds clusters to the group.
func (g *watchGroup) join(ctx workflow.Context, members []*member) {
	g.members = append(g.running(), members...)
	each := reportsExpected * g.sequence.items.Count()
	g.extraReports = max(g.extraReports-each*len(members), -each*clustersPerWatch)
	if g.ctx != nil {
		g.startWatch(g.ctx)
	}
}

// run watches the clusters of the group until none is running.
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
			g.sequence.endAll(ctx, g.running(), FailedCluster(err))
		}
		return
	}
	g.ctx = serving
	if g.sequence.prepared.Subscriptions != nil {
		g.sequence.approving++
		workflow.GoNamed(serving, "approve InstallPlans", g.approveInstallPlans)
	}
	g.startWatch(serving)
	g.continueWhenDue(serving)
}

// running are the running clusters of the group.
func (g *watchGroup) running() []*member {
	return slices.DeleteFunc(slices.Clone(g.members), func(m *member) bool { return !m.running() })
}

// startWatch replaces the watch by one that knows the current state. It does not wait for the end of the former watch, whose report counts only for
// relapses.
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
			changes, err := g.sequence.items.Await(ctx, known, policies.GatherPeriod(len(known), g.extraReports, kit.HistoryUsed(ctx)))
			switch {
			case g.watch != number:
				g.recordRelapses(ctx, known, changes)
				return
			case ctx.Err() != nil:
				return
			case err != nil:
				g.sequence.endAll(ctx, g.running(), FailedCluster(err))
				return
			}
			g.extraReports++
			g.sequence.rollout.ShowOnce(ctx, func() { g.sequence.recordCompliance(ctx, changes) })
		}
	})
}

// known is the known compliance of the running clusters.
func (g *watchGroup) known() []policies.KnownCluster {
	var known []policies.KnownCluster
	for _, m := range g.running() {
		known = append(known, policies.KnownCluster{
			Cluster: m.Cluster, Status: m.compliance, Policy: m.progress.Policy, Placed: m.placement == isPlaced, Unselectable: m.unselectable,
		})
	}
	return known
}

// recordRelapses restarts the soaks of clusters whose relapse the former watch has seen. The current watch cannot see a relapse that ended before it
// started.
func (g *watchGroup) recordRelapses(ctx workflow.Context, known []policies.KnownCluster, changes []policies.ClusterCompliance) {
	var relapsed []policies.ClusterCompliance
	for _, m := range g.running() {
		hasRelapsed := func(seen policies.ClusterCompliance) bool { return seen.Cluster == m.Cluster && seen.Relapsed }
		sameItem := func(known policies.KnownCluster) bool {
			return known.Cluster == m.Cluster && known.Policy == m.progress.Policy
		}
		if m.soaking() && slices.ContainsFunc(changes, hasRelapsed) && slices.ContainsFunc(known, sameItem) {
			relapsed = append(relapsed, policies.ClusterCompliance{Cluster: m.Cluster, Status: m.compliance, Relapsed: true, Unselectable: m.unselectable})
		}
	}
	if len(relapsed) > 0 {
		g.sequence.rollout.ShowOnce(ctx, func() { g.sequence.recordCompliance(ctx, relapsed) })
	}
}

// recordCompliance records the observed compliance of clusters, and takes their next steps.
func (s *sequence) recordCompliance(ctx workflow.Context, changes []policies.ClusterCompliance) {
	var progressed []ranv1.ClusterStatus
	for _, seen := range changes {
		m := s.members[seen.Cluster]
		if m == nil || !m.running() {
			continue
		}
		s.recordClusterCompliance(ctx, m, seen)
		if m.running() {
			progressed = append(progressed, s.status(m))
		}
	}
	s.rollout.ClustersProgressed(ctx, progressed)
}

// recordClusterCompliance takes the next step of one cluster.
func (s *sequence) recordClusterCompliance(ctx workflow.Context, m *member, seen policies.ClusterCompliance) {
	if seen.ClusterDeleted {
		s.end(ctx, m, ranv1.ClusterStatus{State: ranv1.ClusterFailed, Reason: ranv1.ReasonClusterDeleted, Message: MessageClusterDeleted})
		return
	}
	item, before := m.progress.Policy, m.step
	if m.placement == isPlaced && (seen.Displaced || s.items.Deleted(m.compliance.Of(item), seen.Status.Of(item))) {
		s.replaceDeletedItem(ctx, m)
	}
	m.compliance, m.unselectable = seen.Status, seen.Unselectable
	m.progress, m.step = m.progress.Next(seen, s.prepared.Soaks, workflow.Now(ctx), s.mayStart(m.Cluster))
	s.logStep(ctx, m, item, before, seen.Relapsed)
	switch {
	case m.step.State == ranv1.ClusterComplete:
		s.end(ctx, m, ranv1.ClusterStatus{State: ranv1.ClusterComplete})
	case m.step.State == ranv1.ClusterFailed:
		failed := m.progress.Policy
		if !slices.Contains(m.progress.Bound, true) {
			failed = -1
		}
		reason, message := s.items.UnboundFailure(failed)
		s.end(ctx, m, ranv1.ClusterStatus{State: ranv1.ClusterFailed, Reason: reason, Message: message})
	case m.progress.Begun && (m.state == memberWaiting || m.progress.Policy != item):
		s.activate(m)
	}
}
