package rollout

import (
	"go.temporal.io/sdk/workflow"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/kit"
)

// registerSignals registers the handlers of signals from people, clusters and activities.
func (g *groupUpgrade) registerSignals(ctx workflow.Context) {
	kit.OnSignal(ctx, temporal.SignalCancel, "Stop the rollout, end its remediation and return its nodes.", func(r temporal.SignalRequest) {
		g.cancelFor(r)
	})
	kit.OnSignal(ctx, temporal.SignalObject, "The current request in the ClusterGroupUpgrade of the hub.", func(r ObjectRequest) { g.followObject(ctx, r) })
	kit.OnSignal(ctx, temporal.SignalEnable, "Start a planned rollout.", func(r temporal.SignalRequest) {
		if !g.isEnabled() {
			g.enabled, g.starters = true, append(g.starters, r.Actor)
			g.record.log.Info("Rollout enabled", "actor", r.Actor, "reason", r.Reason)
		}
	})
	kit.OnSignal(ctx, temporal.SignalObserved, "The observation of a waiting activity.", func(o temporal.Observation) {
		g.signals++
		g.handleObservation(ctx, o)
	})
	kit.OnSignal(ctx, temporal.SignalPause, "Start nothing new. Work in progress finishes. The timeouts are stopped.", func(r temporal.SignalRequest) {
		g.pause(ctx, true, r)
	})
	kit.OnSignal(ctx, temporal.SignalResume, "Resume after a pause.", func(r temporal.SignalRequest) { g.pause(ctx, false, r) })
	g.holds.Listen(ctx, func() { g.updateClock(ctx) })
	g.holds.Windows.Listen(ctx, func() {
		g.signals++
		g.updateClock(ctx)
	})
	kit.OnSignal(ctx, temporal.SignalPreparationProgress, "Progress of clusters that are precached or backed up.", func(p PreparationProgress) {
		g.signals++
		g.recordPreparationProgress(ctx, p)
	})
	kit.OnSignal(ctx, temporal.SignalClusterProgress, "Progress of a running cluster.", func(c ranv1.ClusterStatus) {
		g.signals++
		g.record.clusterProgressed(ctx, c)
	})
}

// pause pauses or resumes the rollout and its running clusters.
func (g *groupUpgrade) pause(ctx workflow.Context, paused bool, r temporal.SignalRequest) {
	if g.status.Paused == paused || g.status.Status.CompletedAt != nil {
		return
	}
	g.pauseRequest = r
	g.record.setPaused(ctx, paused, r)
	g.updateClock(ctx)
}
