package workflows

import (
	"time"

	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/activities"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/emergency"
	"drydock.dev/drydock/internal/rollout"
	"drydock.dev/drydock/internal/temporal"
)

// ClusterGroupUpgradeInput says what is rolled out.
type ClusterGroupUpgradeInput struct {
	// Object is the request. Its status is not read.
	Object ranv1.ClusterGroupUpgrade `json:"object"`
	// Carried is the state of the run before, when this one continues it.
	Carried *ClusterGroupUpgradeCarried `json:"carried,omitempty"`
}

// ClusterGroupUpgradeCarried is what a run hands to the next one while no cluster is at work.
type ClusterGroupUpgradeCarried struct {
	Status     ranv1.ClusterGroupUpgradeStatus `json:"status"`
	TaskQueues map[string]string               `json:"taskQueues,omitempty"`
	// Used is how much of the timeout has been charged.
	Used time.Duration `json:"used"`
	// NextBatch counts from 0.
	NextBatch int `json:"nextBatch"`
	// Begun is the budget of the next batch if the run before has begun it.
	Begun *BatchBudget `json:"begun,omitempty"`
	// Held is what was known of the emergency stop.
	Held emergency.State `json:"held"`
}

// BatchBudget is how much time a batch has.
type BatchBudget struct {
	Budget time.Duration `json:"budget"`
	// ChargedBefore is what was charged to the rollout when the batch began.
	ChargedBefore time.Duration `json:"chargedBefore"`
}

// ClusterGroupUpgrade rolls a remediation over a group of clusters: canaries first, then batch after batch, each with its budget of
// time. It ends with the status of the rollout; a rollout that did not succeed ends in a typed error that carries the status as its
// details.
func ClusterGroupUpgrade(ctx workflow.Context, in ClusterGroupUpgradeInput) (ranv1.ClusterGroupUpgradeStatus, error) {
	g, err := newGroupUpgrade(ctx, in)
	if err != nil {
		return ranv1.ClusterGroupUpgradeStatus{}, err
	}
	return g.run(ctx)
}

// groupUpgrade is one run of the workflow.
type groupUpgrade struct {
	in         ClusterGroupUpgradeInput
	spec       ranv1.ClusterGroupUpgradeSpec
	status     ranv1.ClusterGroupUpgradeStatus
	record     *groupRecord
	holds      holdKeeper
	taskQueues map[string]string
	nextBatch  int
	begun      *BatchBudget
	// charged is the time that counts against the rollout's timeout.
	charged stopwatch
	// batch at work; nil between batches.
	batch *batch

	enabled bool
	// pauseRequest is who paused or resumed last, and why.
	pauseRequest temporal.SignalRequest
	withdraw     workflow.CancelFunc
	withdrawn    *temporal.SignalRequest
	signals      int
	drains       []func()

	hub *activities.Rollouts
}

func newGroupUpgrade(ctx workflow.Context, in ClusterGroupUpgradeInput) (*groupUpgrade, error) {
	g := &groupUpgrade{in: in, spec: in.Object.Spec}
	g.enabled = g.spec.Enable == nil || *g.spec.Enable
	if c := in.Carried; c != nil {
		g.status, g.taskQueues, g.charged.used, g.nextBatch, g.begun = c.Status, c.TaskQueues, c.Used, c.NextBatch, c.Begun
		g.holds.state = c.Held
	}
	g.record = newGroupRecord(ctx, &g.status, rollout.RemediationOf(&in.Object))
	return g, workflow.SetQueryHandlerWithOptions(ctx, temporal.QueryStatus,
		func(request temporal.StatusRequest) (ranv1.ClusterGroupUpgradeStatus, error) {
			status, err := rollout.Page(g.status, request.Filter, request.Limit, request.Cursor)
			return g.withHolds(status), err
		},
		workflow.QueryHandlerOptions{Description: "The status of the rollout. Optional: {filter, limit, cursor}."})
}

func (g *groupUpgrade) run(ctx workflow.Context) (ranv1.ClusterGroupUpgradeStatus, error) {
	work, withdraw := workflow.WithCancel(ctx)
	g.withdraw = withdraw
	listening, hangUp := workflow.NewDisconnectedContext(ctx)
	defer hangUp()
	g.listen(listening)
	g.holds.follow(work, "")

	end, err := g.rollOut(work)
	switch {
	case workflow.IsContinueAsNewError(err):
		return g.status, err
	case err != nil:
		g.holds.leave(listening)
		return g.fail(listening, err)
	}
	g.holds.leave(listening)
	return g.finish(listening, end)
}

// rollOut plans, waits to be enabled, and takes batch after batch. The error is a continue-as-new, or why no plan could be made.
func (g *groupUpgrade) rollOut(ctx workflow.Context) (rollout.End, error) {
	if g.in.Carried == nil {
		if end, err := g.prepare(ctx); end != "" || err != nil {
			return end, err
		}
	}
	for g.nextBatch < len(g.status.RemediationPlan) {
		end := g.runBatch(ctx)
		if end == endRun {
			return g.continueAsNew(ctx)
		}
		if end != "" {
			return end, nil
		}
		g.nextBatch++
	}
	return rollout.EndFinished, nil
}

// prepare makes the plan and waits until the rollout is enabled; then the plan is made once more, and frozen. A rollout that is only
// planned stays so however wrong its plan is; one that is enabled from the start ends with a plan that cannot be carried out.
func (g *groupUpgrade) prepare(ctx workflow.Context) (rollout.End, error) {
	if problems := rollout.NotYetRunnable(&g.in.Object); len(problems) > 0 {
		return "", temporal.Error(temporal.ErrInvalidSpec, problems.ToAggregate().Error(), nil)
	}
	fromTheStart := g.enabled
	for {
		valid, err := g.plan(ctx)
		switch {
		case ctx.Err() != nil:
			return rollout.EndCancelled, nil
		case err != nil:
			return "", err
		case g.enabled && valid:
			g.record.started(ctx)
			return "", nil
		case fromTheStart:
			return rollout.EndFinished, nil
		}
		g.enabled = false
		g.record.notEnabled(ctx, valid)
		if workflow.Await(ctx, func() bool { return g.enabled }) != nil {
			return rollout.EndCancelled, nil
		}
	}
}

// plan selects the clusters and divides them into batches, next to the hub's objects.
func (g *groupUpgrade) plan(ctx workflow.Context) (valid bool, err error) {
	var plan activities.RolloutPlan
	insist := insistence{taskQueue: temporal.TaskQueue, waiting: g.record.reason.set}
	if err := insist.effect(ctx, "plan the rollout", g.hub.PlanRollout, g.in.Object, &plan); err != nil {
		return false, err
	}
	g.taskQueues = plan.TaskQueues
	g.record.planned(ctx, plan.Plan)
	return plan.Valid(), nil
}

// continueAsNew hands the state to a new run. No cluster is at work.
func (g *groupUpgrade) continueAsNew(ctx workflow.Context) (rollout.End, error) {
	for _, drain := range g.drains {
		drain()
	}
	if ctx.Err() != nil {
		return rollout.EndCancelled, nil
	}
	in := g.in
	in.Carried = &ClusterGroupUpgradeCarried{
		Status: g.status, TaskQueues: g.taskQueues, Used: g.charged.total(workflow.Now(ctx)), NextBatch: g.nextBatch, Begun: g.begun,
		Held: g.holds.state,
	}
	return "", workflow.NewContinueAsNewError(ctx, temporal.ClusterGroupUpgrade, in)
}

// timeout of the whole rollout; 240 minutes unless given.
func (g *groupUpgrade) timeout() time.Duration {
	if g.spec.RemediationStrategy.Timeout == 0 {
		return 240 * time.Minute
	}
	return time.Duration(g.spec.RemediationStrategy.Timeout) * time.Minute
}

// stopwatch measures time that may stand still in between.
type stopwatch struct {
	used  time.Duration
	since *time.Time
}

func (s *stopwatch) start(now time.Time) {
	if s.since == nil {
		s.since = &now
	}
}

func (s *stopwatch) stop(now time.Time) {
	s.used, s.since = s.total(now), nil
}

// giveBack takes time off that shall not count.
func (s *stopwatch) giveBack(d time.Duration) { s.used -= d }

func (s *stopwatch) total(now time.Time) time.Duration {
	if s.since == nil {
		return s.used
	}
	return s.used + now.Sub(*s.since)
}
