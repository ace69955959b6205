package rollout

import (
	"fmt"
	"time"

	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/internal/rollout"
)

// soak is how long a complete cluster soaks before other clusters start.
func (g *groupUpgrade) soak() time.Duration {
	return time.Duration(g.spec.RemediationStrategy.SoakSeconds) * time.Second
}

// soak keeps the place of a complete cluster while it soaks, even if the cluster completed after it was cancelled.
func (b *batch) soak(cluster *activeCluster, duration time.Duration) {
	cluster.ctx, cluster.cancel = workflow.WithCancel(b.work)
	b.active[cluster.name] = cluster
	b.group.record.clusterSoaks(cluster.ctx, cluster.name, workflow.Now(cluster.ctx).Add(duration))
	workflow.GoNamed(cluster.ctx, "soak "+cluster.name, func(ctx workflow.Context) {
		timer := workflow.NewTimerWithOptions(ctx, duration, workflow.TimerOptions{Summary: fmt.Sprintf("soak %s %v", cluster.name, duration)})
		if timer.Get(ctx, nil) == nil && b.active[cluster.name] == cluster {
			b.endClusterSoak(ctx, cluster)
		}
	})
}

func (b *batch) endClusterSoak(ctx workflow.Context, cluster *activeCluster) {
	delete(b.active, cluster.name)
	b.changed = true
	b.group.record.clusterSoaked(ctx, cluster.name)
	b.group.record.batchReached(ctx, b.currentBatch())
}

// onlySoaks reports whether all active clusters soak, and the batch starts no other.
func (b *batch) onlySoaks() bool {
	return len(b.active) > 0 && b.busy() == 0 && (len(b.pending)+len(b.offline) == 0 || b.timedOut)
}

// endSoak ends the soak of the remaining clusters. No cluster waits for them.
func (b *batch) endSoak(ctx workflow.Context) {
	for _, name := range b.clusters {
		if cluster := b.active[name]; cluster != nil && cluster.state == rollout.WorkSoaking {
			cluster.cancel() // stops its timer
			b.endClusterSoak(ctx, cluster)
		}
	}
}
