package nodemaintenance

import (
	"fmt"
	"time"

	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/activities/node"
	"drydock.dev/drydock/internal/temporal"
)

// stalenessDelay is how long a node is ready before it is watched, unless the watch also announces that. Work that takes less time costs no activity for it.
const stalenessDelay = 5 * time.Second

// followStaleness watches until ctx is cancelled whether the maintenance is stale, and whether the node stays cordoned. A maintenance is stale if its node
// is ready, or its Job runs, for longer than the cluster allows. The watch begins with the announcement or, if that is nil, after stalenessDelay.
func (m *nodeMaintenance) followStaleness(ctx workflow.Context, announce *node.AnnounceStateInput) {
	m.state.Readiness = node.Readiness{}
	in := node.AwaitStaleInput{Cluster: m.in.Cluster, ReadySince: workflow.Now(ctx), Announce: announce}
	if announce == nil {
		timer := workflow.NewTimerWithOptions(ctx, stalenessDelay, workflow.TimerOptions{Summary: "before " + m.node.Node + " is watched"})
		if timer.Get(ctx, nil) != nil {
			return
		}
	}
	if m.cordons() {
		in.CordonedNode = m.node.Node
	}
	for {
		var found node.Readiness
		// While the cluster is unreachable, the maintenance does not become stale.
		err := m.quietRetrier().Wait(ctx, "until the maintenance of "+m.node.Node+" is stale", nil, "", m.nodes.AwaitStale, in, &found)
		if err != nil || ctx.Err() != nil {
			return
		}
		m.recordReadiness(ctx, in.ReadySince, found)
		in.Known, in.Announce = found, nil
		in.Changes++
	}
}

// recordReadiness records a change of the ready node.
func (m *nodeMaintenance) recordReadiness(ctx workflow.Context, since time.Time, found node.Readiness) {
	before := m.state.Readiness
	m.state.Readiness = found
	m.record.log.Info("Readiness changed", "stale", found.Stale, "uncordoned", found.Uncordoned)
	if found.Stale && !before.Stale {
		since := since.Add(time.Duration(found.LimitSeconds) * time.Second)
		what := "the node became ready %d s before, and no done was sent"
		if !m.state.Status.ReadyForRequestors {
			what = "the Job started %d s before, and is still running"
		}
		m.record.note(fmt.Sprintf("stale since %s: "+what+" (maxNodeMaintenanceTimeSeconds)", since.UTC().Format(time.RFC3339), found.LimitSeconds))
		workflow.GetMetricsHandler(ctx).WithTags(map[string]string{"cluster": m.in.Cluster}).Counter("drydock_stale_maintenances").Inc(1)
	}
	if found.Uncordoned && !before.Uncordoned {
		m.record.note("the node was uncordoned manually: pods may come to it; cordon it again (kubectl cordon " + m.node.Node + "), and undo that cordon later")
	}
}

// collects reports whether the stale maintenance must end.
func (m *nodeMaintenance) collects() bool {
	return m.state.Readiness.Collect && !m.state.Object.KeepStale && m.state.failing() == nil && m.state.needed()
}

// collect ends a stale maintenance.
func (m *nodeMaintenance) collect() {
	reason := fmt.Sprintf("collected, as garbageCollect requires: the node was ready for more than %d s (maxNodeMaintenanceTimeSeconds)", m.state.Readiness.LimitSeconds)
	m.record.publisher.State.Delete = true
	m.cancelForAll(temporal.SignalRequest{Reason: reason})
}
