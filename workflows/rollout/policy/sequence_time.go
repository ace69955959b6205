package policy

import (
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/internal/policies"
)

// continueWhenDue continues with clusters whose soak has ended, and with those on which an item may start again.
func (g *watchGroup) continueWhenDue(ctx workflow.Context) {
	for {
		until := g.firstSoakEnd()
		waiting, stop := workflow.WithCancel(ctx)
		soaked := func() bool { return false }
		if until != nil {
			timer := workflow.NewTimerWithOptions(waiting, until.Sub(workflow.Now(ctx)), workflow.TimerOptions{Summary: "soak until " + until.UTC().Format("15:04:05Z")})
			soaked = timer.IsReady
		}
		err := workflow.Await(ctx, func() bool { return soaked() || g.mayContinue() || !sameInstant(until, g.firstSoakEnd()) })
		stop()
		if err != nil {
			return
		}
		seen, err := g.due(ctx)
		if err != nil {
			if ctx.Err() == nil { // without their compliance they cannot continue
				g.sequence.endAll(ctx, g.running(), FailedCluster(err))
			}
			return
		}
		if len(seen) > 0 {
			g.sequence.rollout.ShowOnce(ctx, func() { g.sequence.recordCompliance(ctx, seen) })
			g.startWatch(ctx)
		}
	}
}

// due are the clusters that can continue now, with their compliance. For those whose soak has ended it is read from the API server: a watch may lag.
func (g *watchGroup) due(ctx workflow.Context) ([]policies.ClusterCompliance, error) {
	var seen []policies.ClusterCompliance
	var soaked []string
	now := workflow.Now(ctx)
	for _, m := range g.running() {
		switch {
		case m.waiting() && g.sequence.mayStart(m.Cluster):
			seen = append(seen, policies.ClusterCompliance{Cluster: m.Cluster, Status: m.compliance, Unselectable: m.unselectable})
		case m.soaking() && !m.step.Until.After(now):
			soaked = append(soaked, m.Cluster)
		}
	}
	read, err := g.sequence.read(ctx, g.sequence.rollout.Retrier(), soaked)
	if err != nil {
		return nil, err
	}
	return append(seen, read...), nil
}

// firstSoakEnd is when the first soak ends; nil: no cluster soaks.
func (g *watchGroup) firstSoakEnd() *time.Time {
	var first *time.Time
	for _, m := range g.members {
		if m.soaking() && (first == nil || m.step.Until.Before(*first)) {
			first = m.step.Until
		}
	}
	return first
}

// mayContinue reports whether an item may start on a cluster that waits for that.
func (g *watchGroup) mayContinue() bool {
	return slices.ContainsFunc(g.members, func(m *member) bool { return m.waiting() && g.sequence.mayStart(m.Cluster) })
}

func sameInstant(a, b *time.Time) bool {
	return a == nil && b == nil || a != nil && b != nil && a.Equal(*b)
}
