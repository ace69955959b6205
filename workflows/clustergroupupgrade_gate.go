package workflows

import (
	"fmt"
	"slices"
	"strings"

	"go.temporal.io/sdk/workflow"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	"drydock.dev/drydock/internal/rollout"
	"drydock.dev/drydock/internal/temporal"
)

// endGate ends the batch, not the rollout: what has to come before the first cluster is started must come once more.
const endGate rollout.End = "HealthGate"

// healthGate stands before the first cluster that a rollout with health checks starts.
type healthGate struct {
	// seen is on how many clusters of the plan the checks were found to hold.
	seen int
	// standing: the rollout stands before it, and its clock stands still.
	standing bool
	// stale: no cluster could be started for a while, and what was seen before counts no more.
	stale bool
	// passed: a cluster was started.
	passed bool
	// stop ends the look that is under way; nil: there was none.
	stop workflow.CancelFunc
}

// carry is what of the gate a run hands to the next one.
func (h *healthGate) carry() (seen int, passed bool) {
	if h.stale {
		return 0, h.passed
	}
	return h.seen, h.passed
}

// hasGate reports whether the gate is still before the rollout.
func (g *groupUpgrade) hasGate() bool { return len(g.spec.HealthChecks) > 0 && !g.gate.passed }

// mustLookAgain reports whether the health checks have to hold once more before the first cluster is started.
func (g *groupUpgrade) mustLookAgain() bool { return g.gate.stale && g.hasGate() }

// holdsSoFar reports whether the health checks hold on all clusters that were looked at, or on some, and nothing has interrupted that.
func (g *groupUpgrade) holdsSoFar() bool { return g.hasGate() && g.gate.seen > 0 && !g.gate.stale }

// passGate records that a cluster is started.
func (g *groupUpgrade) passGate() { g.gate.passed = g.gate.passed || g.hasGate() }

// awaitHealth waits until the health checks of the rollout hold on every cluster that it is to work on, before it starts the first. Where one fails,
// nothing is touched.
func (g *groupUpgrade) awaitHealth(ctx workflow.Context) (rollout.End, error) {
	if !g.hasGate() {
		return "", nil
	}
	g.gate.standing = true
	end, err := g.lookAtAll(ctx)
	g.gate.standing = false
	return end, err
}

// lookAtAll looks at the clusters as soon as one may be started, and begins anew when meanwhile none may. It returns endGate when what was approved is out of
// date by then.
func (g *groupUpgrade) lookAtAll(ctx workflow.Context) (rollout.End, error) {
	clusters := g.record.pending(slices.Concat(g.status.RemediationPlan...))
	for {
		if g.awaitStartable(ctx) != nil {
			return rollout.EndCancelled, nil
		}
		if mustContinueAsNew(ctx, g.signals) {
			return endRun, nil
		}
		if g.gate.stale {
			g.gate.seen, g.gate.stale = 0, false
		}
		if g.mustApprove(ctx) {
			return endGate, nil
		}
		if g.gate.seen >= len(clusters) {
			return "", nil
		}
		some := clusters[g.gate.seen:min(len(clusters), g.gate.seen+gatesAtOnce)]
		looking, stop := workflow.WithCancel(ctx)
		g.gate.stop = stop
		failures := g.healthOf(looking, some)
		stop()
		g.record.checksHealth(nil)
		if g.gate.stale && ctx.Err() == nil {
			continue
		}
		if ctx.Err() != nil {
			return rollout.EndCancelled, nil
		}
		if err := gateFailure(some, failures); err != nil {
			return "", err
		}
		g.gate.seen += len(some)
	}
}

// awaitStartable waits until a cluster of the next batch may be started, or the run must end.
func (g *groupUpgrade) awaitStartable(ctx workflow.Context) error {
	g.runClock(ctx)
	for !g.startable() && !mustContinueAsNew(ctx, g.signals) {
		paused, number := g.status.Paused, g.holds.number()
		if err := workflow.Await(ctx, func() bool {
			return g.status.Paused != paused || g.holds.number() != number || mustContinueAsNew(ctx, g.signals)
		}); err != nil {
			return err
		}
		g.runClock(ctx)
	}
	return ctx.Err()
}

// startable reports whether a cluster of the next batch may be started.
func (g *groupUpgrade) startable() bool { return !g.status.Paused && g.startHold() == nil }

// startHold is what keeps every cluster of the next batch from being started, as of the first; nil: one may be.
func (g *groupUpgrade) startHold() *drydockv1.Hold {
	plan := g.status.RemediationPlan
	if !g.holds.any() || g.nextBatch >= len(plan) {
		return nil
	}
	var first *drydockv1.Hold
	for _, cluster := range g.record.pending(slices.Concat(plan[g.nextBatch:rollout.Together(plan, g.spec.RemediationStrategy, g.nextBatch)]...)) {
		hold := g.holds.unlessFits(cluster, g.slowest)
		if hold == nil {
			return nil
		}
		if first == nil {
			first = hold
		}
	}
	return first
}

// shutGate takes in that no cluster may be started any more, which may last: what the health checks have seen counts no more. In a run that goes on with
// what another has begun it is no news that the windows of the clusters are to be found out first.
func (g *groupUpgrade) shutGate() {
	if g.gate.stale || !g.hasGate() || g.startable() || !g.status.Paused && !g.holds.windows.known() {
		return
	}
	g.gate.stale = true
	if g.gate.stop != nil {
		g.gate.stop()
	}
}

// gateFailure is one error of those of clusters; nil: there is none.
func gateFailure(clusters []string, failures map[string]error) error {
	var messages []string
	var blockers []drydockv1.Blocker
	for _, cluster := range clusters {
		if err := failures[cluster]; err != nil {
			messages = append(messages, temporal.ErrorMessage(err))
			blockers = append(blockers, temporal.Blockers(err)...)
		}
	}
	if len(messages) == 0 {
		return nil
	}
	const named = 5
	more := ""
	if len(messages) > named {
		more = fmt.Sprintf("; and on %d more clusters", len(messages)-named)
		messages = messages[:named]
	}
	return temporal.Error(temporal.ErrHealthGateFailed, "before the first batch: "+strings.Join(messages, "; ")+more, nil, blockers...)
}
