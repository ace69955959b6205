package workflows

import (
	"fmt"
	"slices"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	sdktemporal "go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/rollout"
	"drydock.dev/drydock/internal/temporal"
)

// clustersAtOnce is how many clusters one run keeps at work at most: the server blocks a run with too many children.
const clustersAtOnce = 300

// endRun ends the run, not the rollout: its history is long enough.
const endRun rollout.End = "ContinueAsNew"

// batch is the clusters that are taken together, within one budget of time.
type batch struct {
	group  *groupUpgrade
	number int32
	time   BatchBudget

	pending []string
	running map[string]workflow.ChildWorkflowFuture
	// timer cancels the deadline; nil while there is none.
	timer workflow.CancelFunc
	// withdraw cancels the clusters at work.
	withdraw workflow.CancelFunc
	timedOut bool
	changed  bool
}

// runBatch takes the next batch from start to end, or goes on with one that the run before has begun. It returns why the rollout ends with
// it, endRun, or "" when the next batch is due.
func (g *groupUpgrade) runBatch(ctx workflow.Context) rollout.End {
	if workflow.Await(ctx, func() bool { return !g.status.Paused }) != nil || g.holds.awaitKnown(ctx, g.record.reason) != nil {
		return rollout.EndCancelled
	}
	if mustContinueAsNew(ctx, g.signals) {
		return endRun
	}
	plan := g.status.RemediationPlan
	if g.begun == nil {
		used := g.charged.total(workflow.Now(ctx))
		g.begun = &BatchBudget{Budget: rollout.BatchBudget(g.timeout(), used, len(plan)-g.nextBatch), ChargedBefore: used}
		if g.begun.Budget <= 0 {
			return rollout.EndTimedOut
		}
		g.record.batchStarted(ctx, int32(g.nextBatch+1))
	}
	b := &batch{
		group: g, number: int32(g.nextBatch + 1), time: *g.begun,
		pending: g.record.pending(plan[g.nextBatch]), running: map[string]workflow.ChildWorkflowFuture{},
	}
	g.batch = b
	g.runClock(ctx)
	b.dropVanished(ctx, b.pending)
	b.run(ctx)
	b.dropVanished(ctx, plan[g.nextBatch])
	g.batch = nil
	if len(b.pending) > 0 && !b.timedOut && ctx.Err() == nil {
		return endRun
	}
	g.begun = nil
	g.record.notStarted(ctx, b.pending, b.timedOut)
	return b.end(ctx)
}

// run starts the clusters and waits until all are over. Out of time or cancelled, the clusters at work return their nodes first. It returns
// with clusters pending when the run must continue as new.
func (b *batch) run(ctx workflow.Context) {
	work, withdraw := workflow.WithCancel(ctx)
	b.withdraw = withdraw
	waiting, stopWaiting := workflow.NewDisconnectedContext(ctx)
	defer stopWaiting()
	b.group.runClock(ctx)
	for {
		b.changed = false
		stopped := work.Err() != nil
		if stopped {
			b.disarm()
			b.group.record.withdrawing(waiting, b.timedOut)
		} else {
			b.arm(waiting)
		}
		b.startClusters(work)
		if b.over(work) {
			break
		}
		_ = workflow.Await(waiting, func() bool { return b.changed || !stopped && work.Err() != nil || b.over(work) })
	}
	b.disarm()
}

// dropVanished fails those of the clusters that are no ManagedClusters any more: they are not worked on, and what was done to them counts for
// nothing. It does not insist for longer than the batch has time: a hub that cannot be asked until then ends nothing that works.
func (b *batch) dropVanished(ctx workflow.Context, names []string) {
	g := b.group
	if len(names) == 0 || ctx.Err() != nil {
		return
	}
	now := workflow.Now(ctx)
	insist := insistence{taskQueue: temporal.TaskQueue, waiting: g.record.reason.set, giveUpAt: now.Add(b.left(now))}
	var vanished []string
	if insist.effect(ctx, fmt.Sprintf("look which clusters of batch %d have vanished", b.number), g.hub.VanishedClusters, names, &vanished) != nil {
		return
	}
	g.record.vanished(ctx, vanished)
	b.pending = g.record.pending(b.pending)
}

// over: no cluster is at work, and none is to be started.
func (b *batch) over(ctx workflow.Context) bool {
	return len(b.running) == 0 && (len(b.pending) == 0 || ctx.Err() != nil || mustContinueAsNew(ctx, b.group.signals))
}

// arm keeps the batch's deadline as a timer. While the clock of the rollout stands still, there is no deadline.
func (b *batch) arm(ctx workflow.Context) {
	g := b.group
	if g.standsStill() {
		b.disarm()
		g.record.deadlines(ctx, nil, nil)
		return
	}
	if b.timer != nil {
		return
	}
	armed, cancel := workflow.WithCancel(ctx)
	b.timer = cancel
	workflow.GoNamed(armed, "batch deadline", func(ctx workflow.Context) {
		if b.keepTime(ctx) && armed.Err() == nil {
			b.timer = nil
			b.timeOut(ctx)
		}
	})
}

// keepTime returns true when the time of the batch is over. It looks at the clock in between: time in which no worker was there is not
// charged, and shows only by a look that comes late.
func (b *batch) keepTime(ctx workflow.Context) (over bool) {
	g := b.group
	var deadline time.Time
	for {
		now := workflow.Now(ctx)
		left := b.left(now)
		if left <= 0 {
			return true
		}
		if moved := now.Add(left); !moved.Equal(deadline) {
			deadline = moved
			g.record.deadlines(ctx, &deadline, new(now.Add(g.timeout()-g.charged.total(now))))
		}
		pause := min(left, rollout.ClockInterval(b.time.Budget))
		summary := fmt.Sprintf("batch %d of %d times out %s", b.number, len(g.status.RemediationPlan), deadline.UTC().Format("15:04:05Z"))
		if workflow.NewTimerWithOptions(ctx, pause, workflow.TimerOptions{Summary: summary}).Get(ctx, nil) != nil {
			return false
		}
		looked := workflow.Now(ctx)
		g.charged.giveBack(rollout.Outage(now, now.Add(pause), looked, b.left(looked)))
	}
}

// left is how much of the batch's time is left; negative when it is over.
func (b *batch) left(now time.Time) time.Duration {
	return b.time.Budget - (b.group.charged.total(now) - b.time.ChargedBefore)
}

func (b *batch) disarm() {
	if b.timer != nil {
		b.timer()
		b.timer = nil
	}
}

// timeOut withdraws what is at work; nothing else of the batch starts.
func (b *batch) timeOut(ctx workflow.Context) {
	b.timedOut, b.changed = true, true
	b.group.record.batchTimedOut(ctx, b.number)
	b.withdraw()
}

// startClusters starts a ClusterUpgrade for every cluster of the batch that is not held, as far as one run can keep them alive.
func (b *batch) startClusters(ctx workflow.Context) {
	free := func(cluster string) bool { return b.group.holds.state.Of(cluster) == nil }
	for started := 1; b.starts(ctx); started++ {
		next := slices.IndexFunc(b.pending, free)
		if next < 0 {
			return
		}
		b.start(ctx, b.pending[next])
		b.pending = slices.Delete(b.pending, next, next+1)
		if started%childrenAtOnce == 0 && workflow.Sleep(ctx, time.Millisecond) != nil {
			return // the rest would have come in another task
		}
	}
}

func (b *batch) starts(ctx workflow.Context) bool {
	return len(b.pending) > 0 && len(b.running) < clustersAtOnce && !b.group.status.Paused && ctx.Err() == nil && !mustContinueAsNew(ctx, b.group.signals)
}

func (b *batch) start(ctx workflow.Context, cluster string) {
	g := b.group
	meta := g.in.Object.ObjectMeta
	in := ClusterUpgradeInput{
		Namespace: meta.Namespace, Rollout: meta.Name, Cluster: cluster, TaskQueue: temporal.TaskQueue, Batch: b.number,
		ProgressLimit: progressLimit(min(len(g.status.RemediationPlan[b.number-1]), clustersAtOnce), g.timeout()),
		Held:          g.holds.state.About(cluster),
	}
	if queue, own := g.taskQueues[cluster]; own {
		in.TaskQueue = queue
	}
	if g.spec.NodeMaintenance != nil {
		in.Remediation = *g.spec.NodeMaintenance
	}
	child := workflow.ExecuteChildWorkflow(workflow.WithChildOptions(ctx, workflow.ChildWorkflowOptions{
		WorkflowID:          temporal.ClusterUpgradeID(meta.Namespace, meta.Name, cluster),
		WaitForCancellation: true,
		ParentClosePolicy:   enumspb.PARENT_CLOSE_POLICY_REQUEST_CANCEL,
		StaticSummary:       fmt.Sprintf("%s, batch %d", cluster, b.number),
		TypedSearchAttributes: sdktemporal.NewSearchAttributes(
			temporal.AttributeGroup.ValueSet(meta.Namespace+"/"+meta.Name),
			temporal.AttributeCluster.ValueSet(cluster),
			temporal.AttributeBatch.ValueSet(int64(b.number)),
		),
	}), temporal.ClusterUpgrade, in)
	b.running[cluster] = child
	g.record.clusterStarted(ctx, cluster)
	workflow.GoNamed(ctx, "pause "+cluster, func(ctx workflow.Context) { b.passOnPause(ctx, cluster, child) })
	workflow.GoNamed(ctx, "hold "+cluster, func(ctx workflow.Context) {
		g.holds.passOn(ctx, cluster, in.Held, child, func() bool { return b.running[cluster] == nil })
	})
	workflow.GoNamed(ctx, "cluster "+cluster, func(ctx workflow.Context) {
		// The child is waited for even when this run is cancelled: it returns its nodes first.
		err := child.Get(ctx, nil)
		sweepAfter(ctx, err, cluster)
		delete(b.running, cluster)
		b.changed = true
		g.record.clusterEnded(ctx, b.resultOf(ctx, cluster, child, err))
		g.runClock(ctx)
	})
}

// passOnPause tells a cluster at work of every pause and resume, in order. A cluster is only started while the rollout is not paused.
func (b *batch) passOnPause(ctx workflow.Context, cluster string, child workflow.ChildWorkflowFuture) {
	status := &b.group.status
	told := false
	for {
		_ = workflow.Await(ctx, func() bool { return b.running[cluster] == nil || status.Paused != told })
		if b.running[cluster] == nil || ctx.Err() != nil {
			return
		}
		told = status.Paused
		signal := temporal.SignalResume
		if told {
			signal = temporal.SignalPause
		}
		// A cluster that is over meanwhile needs not be told: nothing to do about an error.
		_ = child.SignalChildWorkflow(ctx, signal, b.group.pauseRequest).Get(ctx, nil)
	}
}

// resultOf is the record of a cluster that is over. One that was withdrawn when the batch ran out of time is timed out, unless it was
// complete in the same moment.
func (b *batch) resultOf(ctx workflow.Context, cluster string, child workflow.ChildWorkflowFuture, err error) ranv1.ClusterStatus {
	var result ranv1.ClusterStatus
	if err == nil {
		_ = child.Get(ctx, &result)
	} else if !detailsOf(err, &result) {
		failure := failureOf(err)
		result.State, result.Reason, result.Message = ranv1.ClusterFailed, failure.Reason, failure.Message
	}
	result.Name, result.Batch = cluster, b.number
	if sdktemporal.IsCanceledError(err) {
		result.State = ranv1.ClusterCancelled
		if b.timedOut {
			result.State = ranv1.ClusterTimedOut
			before := b.group.record.cluster(cluster)
			result.Reason, result.Message, result.Since = before.Reason, before.Message, before.Since
		}
	}
	return result
}

// end judges the batch: whether the rollout goes on after it.
func (b *batch) end(ctx workflow.Context) rollout.End {
	g := b.group
	canary := slices.ContainsFunc(g.status.RemediationPlan[b.number-1], func(c string) bool {
		return slices.Contains(g.spec.RemediationStrategy.Canaries, c)
	})
	complete := g.record.complete(g.status.RemediationPlan[b.number-1])
	switch {
	case ctx.Err() != nil:
		return rollout.EndCancelled
	case complete:
		return ""
	case canary && b.timedOut:
		return rollout.EndCanaryTimedOut
	case canary:
		return rollout.EndCanaryFailed
	case b.timedOut && g.spec.BatchTimeoutAction == ranv1.BatchTimeoutAbort:
		return rollout.EndBatchTimedOut
	}
	return ""
}
