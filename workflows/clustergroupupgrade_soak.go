package workflows

import (
	"fmt"
	"time"

	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/internal/rollout"
)

// soak is for how long what was done to a cluster must last before others follow.
func (g *groupUpgrade) soak() time.Duration {
	return time.Duration(g.spec.RemediationStrategy.SoakSeconds) * time.Second
}

// soak lets a cluster whose work is over keep its place for that long. One that was being withdrawn when it was found complete soaks like any other.
func (b *batch) soak(cluster *clusterAtWork, duration time.Duration) {
	cluster.ctx, cluster.withdraw = workflow.WithCancel(b.work)
	b.running[cluster.name] = cluster
	b.group.record.clusterSoaks(cluster.ctx, cluster.name, workflow.Now(cluster.ctx).Add(duration))
	workflow.GoNamed(cluster.ctx, "soak "+cluster.name, func(ctx workflow.Context) {
		timer := workflow.NewTimerWithOptions(ctx, duration, workflow.TimerOptions{Summary: fmt.Sprintf("soak %s %v", cluster.name, duration)})
		if timer.Get(ctx, nil) == nil && b.running[cluster.name] == cluster {
			b.soaked(ctx, cluster)
		}
	})
}

func (b *batch) soaked(ctx workflow.Context, cluster *clusterAtWork) {
	delete(b.running, cluster.name)
	b.changed = true
	b.group.record.clusterSoaked(ctx, cluster.name)
	b.group.record.batchReached(ctx, b.reached())
}

// onlySoaks reports whether there is nothing left to do but to wait until clusters have soaked.
func (b *batch) onlySoaks() bool {
	return len(b.running) > 0 && b.busy() == 0 && (len(b.pending) == 0 || b.timedOut)
}

// endSoak takes the clusters that soak still as complete: nothing waits for them any more.
func (b *batch) endSoak(ctx workflow.Context) {
	for _, name := range b.clusters {
		if cluster := b.running[name]; cluster != nil && cluster.state == rollout.WorkSoaking {
			cluster.withdraw() // its timer
			b.soaked(ctx, cluster)
		}
	}
}
