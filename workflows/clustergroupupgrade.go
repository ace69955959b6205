package workflows

import (
	"errors"
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/activities"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/emergency"
	"drydock.dev/drydock/internal/rollout"
	"drydock.dev/drydock/internal/temporal"
)

// ClusterGroupUpgradeInput says what is rolled out.
type ClusterGroupUpgradeInput struct {
	// Object is the request. Its status is not read.
	Object ranv1.ClusterGroupUpgrade `json:"object"`
	// StartedBy is who starts it, for approvals that somebody else has to give.
	StartedBy string `json:"startedBy,omitempty"`
	// Retry does once more what has failed in the last run of that name, whose spec and plan are taken from the hub. Of Object then only
	// the name is read.
	Retry *rollout.RetryRequest `json:"retry,omitempty"`
	// Carried is the state of the run before, when this one continues it.
	Carried *ClusterGroupUpgradeCarried `json:"carried,omitempty"`
}

// ClusterGroupUpgradeCarried is what a run hands to the next one while no cluster is at work.
type ClusterGroupUpgradeCarried struct {
	// Status is compact.
	Status     ranv1.ClusterGroupUpgradeStatus `json:"status"`
	TaskQueues map[string]string               `json:"taskQueues,omitempty"`
	// NotBound are the policies, by number, that are not bound to clusters, by their places in the status.
	NotBound map[int][]int `json:"notBound,omitempty"`
	// Phase of the runbook that the next run goes on with.
	Phase string `json:"phase"`
	// Used is how much of the timeout has been charged.
	Used time.Duration `json:"used"`
	// NextBatch counts from 0.
	NextBatch int `json:"nextBatch"`
	// Begun is the budget of the next batch if the run before has begun it.
	Begun *BatchBudget `json:"begun,omitempty"`
	// Gated is on how many clusters of the plan the health checks were found to hold, before the first batch.
	Gated int `json:"gated,omitempty"`
	// GatePassed: a cluster was started for which they had to hold.
	GatePassed bool `json:"gatePassed,omitempty"`
	// Completed clusters to which afterCompletion is still to be done.
	Completed []string `json:"completed,omitempty"`
	// Prepared is what was found of the policies or manifest works; nil before the first cluster.
	Prepared *PreparedItems `json:"prepared,omitempty"`
	// Held is what was known of the emergency stop.
	Held emergency.State `json:"held"`
	// Windows is what was known of the maintenance windows.
	Windows CarriedWindows `json:"windows,omitzero"`
	// Slowest is how long the slowest of the complete clusters took.
	Slowest time.Duration `json:"slowest,omitempty"`
	// Starters are who brought the rollout on its way.
	Starters []string `json:"starters,omitempty"`
	// Pause is that which lasts.
	Pause *drydockv1.Wait `json:"pause,omitempty"`
}

// BatchBudget is how much time a batch has.
type BatchBudget struct {
	Budget time.Duration `json:"budget"`
	// ChargedBefore is what was charged to the rollout when the batch began.
	ChargedBefore time.Duration `json:"chargedBefore"`
	// After is the number of the batch that was begun before it, counted from 1; 0: none was.
	After int32 `json:"after,omitempty"`
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
	in     ClusterGroupUpgradeInput
	spec   ranv1.ClusterGroupUpgradeSpec
	status ranv1.ClusterGroupUpgradeStatus
	record *groupRecord
	holds  holdKeeper
	// remediator does the work on the clusters.
	remediator Remediator
	taskQueues map[string]string
	// notBound are the policies, by number, that were not bound to a cluster when it was planned.
	notBound map[string][]int
	// phase of the runbook.
	phase     string
	nextBatch int
	begun     *BatchBudget
	gate      healthGate
	// looks lets in so many looks at the health of clusters as may be under way together.
	looks workflow.Semaphore
	// charged is the time that counts against the rollout's timeout.
	charged stopwatch
	// slowest is how long the slowest of the complete clusters took, as it was charged: a window that was closed meanwhile does not count.
	slowest time.Duration
	// batch at work; nil between batches.
	batch *batch
	// completions are the clusters that are complete, for the actions that follow.
	completions completions
	// precaching and backup of the clusters; nil where there is none.
	precaching, backup *preparation
	// preparations is how many there were; partsAtWork are those of the ClusterPreparations that are at work.
	preparations int
	partsAtWork  []*preparationPart

	enabled bool
	// complete: the spec has its defaults.
	complete bool
	// edited: the spec has changed since the plan was made.
	edited bool
	// registered: the hub may know of this run. recalled: this run has the plan of the one before.
	registered, recalled bool
	// starters started, edited, enabled or retried the rollout.
	starters []string
	// awaited is the approval that is waited for.
	awaited *rollout.AwaitedApproval
	// pauseRequest is who paused or resumed last, and why.
	pauseRequest temporal.SignalRequest
	withdraw     workflow.CancelFunc
	withdrawn    *temporal.SignalRequest
	signals      int

	hub *activities.Rollouts
}

func newGroupUpgrade(ctx workflow.Context, in ClusterGroupUpgradeInput) (*groupUpgrade, error) {
	g := &groupUpgrade{in: in, spec: in.Object.Spec, looks: workflow.NewSemaphore(ctx, gatesAtOnce)}
	g.enabled = g.spec.Enable == nil || *g.spec.Enable
	var prepared *PreparedItems
	if c := in.Carried; c != nil {
		g.complete = true
		g.status, g.taskQueues, g.phase, g.charged.used, g.nextBatch, g.begun = rollout.Expand(c.Status), c.TaskQueues, c.Phase, c.Used, c.NextBatch, c.Begun
		g.holds.state, g.completions.due, g.starters = c.Held, c.Completed, c.Starters
		g.notBound = rollout.ExpandNotBound(c.NotBound, rollout.NamesOf(c.Status.Clusters))
		g.gate.seen, g.gate.passed, g.slowest = c.Gated, c.GatePassed, c.Slowest
		prepared = c.Prepared
		g.holds.windows.restore(c.Windows)
	} else if in.StartedBy != "" {
		g.starters = []string{in.StartedBy}
	}
	g.remediator = newRemediator(g, prepared)
	g.completions.change = rollout.ChangeAfter(&g.spec.Actions)
	g.record = newGroupRecord(ctx, &g.status, in.Object.Namespace+"/"+in.Object.Name, rollout.RemediationOf(&in.Object))
	g.record.completed, g.record.soak = g.completions.add, g.soak()
	g.completions.trouble = g.record.troubles.add()
	if c := in.Carried; c != nil && c.Pause != nil {
		g.record.waits.Pause = c.Pause
		g.record.show()
	}
	return g, errors.Join(g.takeUpdates(ctx), workflow.SetQueryHandlerWithOptions(ctx, temporal.QueryHeld, g.heldOf,
		workflow.QueryHandlerOptions{Description: "What keeps anything new from being begun on the clusters that are named."}), workflow.SetQueryHandlerWithOptions(ctx, temporal.QueryStatus,
		func(request temporal.StatusRequest) (ranv1.ClusterGroupUpgradeStatus, error) {
			status, err := rollout.Page(g.status, rollout.Part(request))
			return g.withHolds(status), err
		},
		workflow.QueryHandlerOptions{Description: "The status of the rollout. Optional: {filter, limit, cursor, inPlanOrder}."}))
}

// insist returns the insistence of this rollout on the hub: its status says why an activity does not succeed.
func (g *groupUpgrade) insist() insistence {
	return insistence{taskQueue: temporal.TaskQueue, waiting: g.record.troubles.add()}
}

func (g *groupUpgrade) run(ctx workflow.Context) (ranv1.ClusterGroupUpgradeStatus, error) {
	work, withdraw := workflow.WithCancel(ctx)
	g.withdraw = withdraw
	listening, _ := workflow.NewDisconnectedContext(ctx)
	g.listen(listening)
	g.holds.follow(work, "")
	g.changeCompleted(listening)

	end, err := g.rollOut(work)
	if workflow.IsContinueAsNewError(err) {
		return g.status, err
	}
	g.finishChanges(work, listening)
	g.holds.leave(listening)
	status, err := g.finishAs(listening, end, err)
	_ = workflow.Await(listening, func() bool { return workflow.AllHandlersFinished(ctx) }) // who has asked for a change gets an answer
	return status, err
}

// phase is a part of a rollout, up to a point at which a new run may take over.
type phase struct {
	name string
	// run returns why the rollout ends with it, endRun, or "" when the next phase is due. The error is why no plan could be made.
	run func(workflow.Context) (rollout.End, error)
}

// The phases, in order. A run hands the name of the next one to the run that continues it.
const (
	phasePlan         = "plan"
	phaseBlocked      = "blocked"
	phaseBackup       = "backup"
	phaseBeforeEnable = "beforeEnable"
	phaseStart        = "start"
	phaseBatches      = "batches"
	phaseLookAgain    = "lookAgain"
)

// runbook is what a rollout goes through, in order.
func (g *groupUpgrade) runbook() []phase {
	return []phase{
		{phasePlan, g.prepare},
		{phaseBlocked, g.awaitBlockers},
		{phaseBackup, g.backUp},
		{phaseBeforeEnable, g.changeBefore},
		{phaseStart, g.begin},
		{phaseBatches, g.runBatches},
		{phaseLookAgain, g.lookAgain},
	}
}

// rollOut goes through the runbook, or goes on where the run before stood. The error is a continue-as-new, or why no plan could be made.
func (g *groupUpgrade) rollOut(ctx workflow.Context) (rollout.End, error) {
	runbook := g.runbook()
	first := max(0, slices.IndexFunc(runbook, func(p phase) bool { return p.name == g.phase }))
	for _, phase := range runbook[first:] {
		g.phase = phase.name
		g.record.log.Info("Rollout enters a phase", "phase", phase.name)
		end, err := phase.run(ctx)
		if end == endRun {
			return g.continueAsNew(ctx)
		}
		if end != "" && phase.name == phaseBatches {
			_, _ = g.lookAgain(ctx) // also in a rollout that stops early, which has its end already
		}
		if end != "" || err != nil {
			return end, err
		}
	}
	return rollout.EndFinished, nil
}

// begin records that remediation starts: what comes before is not charged to the timeout.
func (g *groupUpgrade) begin(ctx workflow.Context) (rollout.End, error) {
	g.record.started(ctx)
	return "", nil
}

// continueAsNew hands the state to a new run. No cluster is at work.
func (g *groupUpgrade) continueAsNew(ctx workflow.Context) (rollout.End, error) {
	g.remediator.Settle(ctx)
	// Last: what is asked for while something else is waited for is answered by this run.
	_ = workflow.Await(ctx, func() bool { return !g.completions.atWork && workflow.AllHandlersFinished(ctx) })
	hearSignals(ctx)
	if ctx.Err() != nil {
		return rollout.EndCancelled, nil
	}
	g.record.log.Info("Rollout continues as new", "phase", g.phase, "batch", g.nextBatch+1)
	in := g.in
	in.Carried = g.carry(workflow.Now(ctx))
	return "", workflow.NewContinueAsNewError(ctx, temporal.ClusterGroupUpgrade, in)
}

// carry is what this run hands to the next one.
func (g *groupUpgrade) carry(now time.Time) *ClusterGroupUpgradeCarried {
	seen, passed := g.gate.carry()
	status := rollout.Compact(g.status)
	status.Clusters = shortMessages(status.Clusters)
	return &ClusterGroupUpgradeCarried{
		Status: status, TaskQueues: g.taskQueues, Phase: g.phase, Used: g.charged.total(now), NextBatch: g.nextBatch, Begun: g.begun,
		Completed: g.completions.due, Prepared: g.remediator.Prepared(), Gated: seen, GatePassed: passed, Held: g.holds.state, Windows: g.holds.windows.carry(),
		Slowest: g.slowest, Starters: g.starters, Pause: g.record.waits.Pause, NotBound: rollout.CompactNotBound(g.notBoundStill(), rollout.NamesOf(g.status.Clusters)),
	}
}

// notBoundStill is what is known of the clusters that are not complete.
func (g *groupUpgrade) notBoundStill() map[string][]int {
	still := map[string][]int{}
	for i := range g.status.Clusters {
		c := &g.status.Clusters[i]
		if policies, some := g.notBound[c.Name]; some && c.State != ranv1.ClusterComplete {
			still[c.Name] = policies
		}
	}
	return still
}

// messagesRoom is how many bytes the messages of all clusters have together in what one run hands to the next: the server refuses 2 MiB, and the names of 10,000
// clusters alone may be half of that.
const messagesRoom = 512 << 10

// shortMessages cuts the longest messages of clusters until all of them fit.
func shortMessages(clusters []ranv1.ClusterStatus) []ranv1.ClusterStatus {
	longest := 0
	for i := range clusters {
		longest = max(longest, len(clusters[i].Message))
	}
	limit := longest
	together := func() (length int) {
		for i := range clusters {
			length += min(len(clusters[i].Message), limit)
		}
		return length
	}
	const shortest = 16
	for limit > shortest && together() > messagesRoom {
		limit /= 2
	}
	if limit == longest {
		return clusters
	}
	short := slices.Clone(clusters)
	for i := range short {
		short[i].Message = temporal.Cut(short[i].Message, limit)
	}
	return short
}
