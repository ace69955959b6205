package rollout

import (
	"fmt"
	"slices"
	"strings"

	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/activities/rollouts"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	"drydock.dev/drydock/internal/rollout"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/kit"
)

// endRecheckHealth ends the batch, not the rollout: the health gate must be passed again before the first cluster starts.
const endRecheckHealth rollout.End = "HealthGate"

// healthGate is the state of the health gate: every cluster of the plan must pass the health checks before the first one is started.
type healthGate struct {
	// healthy is the number of clusters of the plan that passed the checks.
	healthy int
	// waiting: the rollout waits at the gate, and its clock is paused.
	waiting bool
	state   gateState
	// stop cancels the checks in progress; nil: no check has started.
	stop workflow.CancelFunc
}

// gateState says what the checks so far are worth.
type gateState string

const (
	// gateCurrent: the checks that passed count.
	gateCurrent gateState = ""
	// gateStale: the rollout was paused or held after the checks began. They must be repeated.
	gateStale gateState = "Stale"
	// gateOpen: the first cluster was started, so the checks are over.
	gateOpen gateState = "Open"
)

// expire makes the checks stale, unless they are over.
func (h *healthGate) expire() {
	if h.state != gateOpen {
		h.state = gateStale
	}
}

// gateClosed reports whether the rollout must still pass the gate.
func (g *groupUpgrade) gateClosed() bool {
	return len(g.spec.HealthChecks) > 0 && g.gate.state != gateOpen
}

// healthStale reports whether the checks must be repeated before the first cluster is started.
func (g *groupUpgrade) healthStale() bool { return g.gate.state == gateStale && g.gateClosed() }

// healthCurrent reports whether clusters passed the checks, and the result is not stale.
func (g *groupUpgrade) healthCurrent() bool {
	return g.gateClosed() && g.gate.healthy > 0 && g.gate.state != gateStale
}

// openGate records that the first cluster is started.
func (g *groupUpgrade) openGate() {
	if g.gateClosed() {
		g.gate.state = gateOpen
	}
}

// awaitHealthGate waits at the gate until every pending cluster passes the health checks. If one fails, the rollout fails before any cluster is
// touched.
func (g *groupUpgrade) awaitHealthGate(ctx workflow.Context) (rollout.End, error) {
	if !g.gateClosed() {
		return "", nil
	}
	g.gate.waiting = true
	end, err := g.checkPendingClusters(ctx)
	g.gate.waiting = false
	return end, err
}

// checkPendingClusters checks all pending clusters once one of them may start. It starts over after a pause or a hold. It returns endRecheckHealth
// if the approval has expired.
func (g *groupUpgrade) checkPendingClusters(ctx workflow.Context) (rollout.End, error) {
	clusters := g.record.notStarted(slices.Concat(g.status.RemediationPlan...))
	for {
		if g.awaitStartable(ctx) != nil {
			return rollout.EndCancelled, nil
		}
		if kit.ShouldContinueAsNew(ctx, g.signals) {
			return endContinueAsNew, nil
		}
		if g.gate.state == gateStale {
			g.gate.healthy, g.gate.state = 0, gateCurrent
		}
		if g.mustApprove(ctx) {
			return endRecheckHealth, nil
		}
		if g.gate.healthy >= len(clusters) {
			g.record.log.Info("Health gate passed", "clusters", len(clusters))
			return "", nil
		}
		group := clusters[g.gate.healthy:min(len(clusters), g.gate.healthy+maxHealthChecks)]
		g.record.log.Info("Health gate checks clusters", "clusters", len(group), "passed", g.gate.healthy)
		checking, stop := workflow.WithCancel(ctx)
		g.gate.stop = stop
		checked, err := g.withoutOffline(checking, group)
		if err != nil && checking.Err() == nil {
			stop()
			return "", err
		}
		failures := g.healthOf(checking, checked)
		stop()
		g.record.awaitingHealth(nil)
		if g.gate.state == gateStale && ctx.Err() == nil {
			continue
		}
		if ctx.Err() != nil {
			return rollout.EndCancelled, nil
		}
		if err := gateFailure(checked, failures); err != nil {
			g.record.log.Info("Health gate failed", "reason", temporal.ErrHealthGateFailed, "message", temporal.ErrorMessage(err))
			return "", err
		}
		g.gate.healthy += len(group)
	}
}

// withoutOffline leaves out the clusters that are offline: they do not start now, and are checked when the work on them is done.
func (g *groupUpgrade) withoutOffline(ctx workflow.Context, clusters []string) ([]string, error) {
	var seen rollouts.SeenClusters
	err := g.retrier().Run(ctx, "look up the clusters of the health gate", g.hub.LookUpClusters, clusters, &seen)
	return slices.DeleteFunc(slices.Clone(clusters), func(name string) bool { return slices.Contains(seen.Offline, name) }), err
}

// awaitStartable waits until a cluster of the next batch may start, or the run must continue as new.
func (g *groupUpgrade) awaitStartable(ctx workflow.Context) error {
	g.updateClock(ctx)
	for !g.mayStart() && !kit.ShouldContinueAsNew(ctx, g.signals) {
		paused, number := g.status.Paused, g.holds.Number()
		if err := workflow.Await(ctx, func() bool {
			return g.status.Paused != paused || g.holds.Number() != number || kit.ShouldContinueAsNew(ctx, g.signals)
		}); err != nil {
			return err
		}
		g.updateClock(ctx)
	}
	return ctx.Err()
}

// mayStart reports whether a cluster of the next batch may start.
func (g *groupUpgrade) mayStart() bool { return !g.status.Paused && g.nextBatchHold() == nil }

// nextBatchHold is the hold on the first pending cluster of the next batch if all of them are held; nil: one may start.
func (g *groupUpgrade) nextBatchHold() *drydockv1.Hold {
	if !g.holds.Any() || g.nextBatch >= len(g.status.RemediationPlan) {
		return nil
	}
	var first *drydockv1.Hold
	for _, cluster := range g.record.notStarted(g.nextClusters()) {
		hold := g.holds.HoldFor(cluster, g.slowest)
		if hold == nil {
			return nil
		}
		if first == nil {
			first = hold
		}
	}
	return first
}

// invalidateHealth makes the checks stale when no cluster may start. After continue-as-new, windows that are not known yet do not make them
// stale.
func (g *groupUpgrade) invalidateHealth() {
	if g.gate.state == gateStale || !g.gateClosed() || g.mayStart() || !g.status.Paused && !g.holds.Windows.Known() {
		return
	}
	g.gate.expire()
	g.record.log.Info("Health gate must check the clusters again")
	if g.gate.stop != nil {
		g.gate.stop()
	}
}

// gateFailure combines the errors of clusters; nil: all passed.
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
