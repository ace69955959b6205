// Package rollout holds the ClusterGroupUpgrade workflow: a remediation over a group of clusters in canaries and batches.
package rollout

import (
	"errors"
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/activities/rollouts"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/emergency"
	"drydock.dev/drydock/internal/rollout"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/gates"
	"drydock.dev/drydock/workflows/kit"
	"drydock.dev/drydock/workflows/rollout/policy"
)

// Input says what is rolled out.
type Input struct {
	// Object is the request. Its status is not read.
	Object ranv1.ClusterGroupUpgrade `json:"object"`
	// StartedBy is the person who starts it. Approvals with separate duties must come from another person.
	StartedBy string `json:"startedBy,omitempty"`
	// Retry runs the failed clusters of the last rollout of that name again, with its saved spec and plan. Then only the name of Object is
	// read.
	Retry *rollout.RetryRequest `json:"retry,omitempty"`
	// PreviousRun is the state of the previous run if this run continues it.
	PreviousRun *PreviousRun `json:"previousRun,omitempty"`
}

// PreviousRun is the state that a run passes to the next one. No cluster is running then.
type PreviousRun struct {
	// Status is compact.
	Status     ranv1.ClusterGroupUpgradeStatus `json:"status"`
	TaskQueues map[string]string               `json:"taskQueues,omitempty"`
	// notBound lists, by the index of a cluster in the status, the indexes of the policies that are not bound to it.
	NotBound map[int][]int `json:"notBound,omitempty"`
	// Phase of the runbook in which the next run resumes.
	Phase string `json:"phase"`
	// Used is how much of the timeout has been charged.
	Used time.Duration `json:"used"`
	// NextBatch counts from 0.
	NextBatch int `json:"nextBatch"`
	// StartedBatch is the budget of the next batch if the previous run began that batch.
	StartedBatch *StartedBatch `json:"startedBatch,omitempty"`
	// HealthyClusters is the number of clusters of the plan that passed the health checks before the first batch.
	HealthyClusters int `json:"healthyClusters,omitempty"`
	// GateOpened: a cluster was started after all of them passed.
	GateOpened bool `json:"gateOpened,omitempty"`
	// Completed are complete clusters on which afterCompletion is still to be carried out.
	Completed []string `json:"completed,omitempty"`
	// Prepared is the result of preparing policies or manifest works; nil before the first cluster.
	Prepared *policy.PreparedItems `json:"prepared,omitempty"`
	// Held is the last known state of the emergency stop.
	Held emergency.State `json:"held"`
	// Windows is the last known state of the maintenance windows.
	Windows gates.CarriedWindows `json:"windows,omitzero"`
	// SlowestCluster is the duration of the slowest complete cluster.
	SlowestCluster time.Duration `json:"slowestCluster,omitempty"`
	// Starters are the people who started, edited or enabled the rollout.
	Starters []string `json:"starters,omitempty"`
	// Pause is the current pause.
	Pause *drydockv1.Wait `json:"pause,omitempty"`
}

// BatchTimeout is the time budget of a batch.
type StartedBatch struct {
	Timeout time.Duration `json:"timeout"`
	// UsedBefore is the time charged to the rollout before the batch began.
	UsedBefore time.Duration `json:"usedBefore"`
	// PreviousBatch is the number of the previous batch, counted from 1; 0: there was none.
	PreviousBatch int32 `json:"previousBatch,omitempty"`
}

// ClusterGroupUpgrade rolls out a remediation to a group of clusters: canaries first, then batch after batch, each with its time
// budget. It returns the status of the rollout. A rollout that does not succeed returns a typed error with the status as its
// details.
func ClusterGroupUpgrade(ctx workflow.Context, in Input) (ranv1.ClusterGroupUpgradeStatus, error) {
	g, err := newGroupUpgrade(ctx, in)
	if err != nil {
		return ranv1.ClusterGroupUpgradeStatus{}, err
	}
	return g.run(ctx)
}

// groupUpgrade is one run of the workflow.
type groupUpgrade struct {
	in     Input
	spec   ranv1.ClusterGroupUpgradeSpec
	status ranv1.ClusterGroupUpgradeStatus
	record *groupRecord
	holds  gates.Holds
	// remediator does the work on the clusters.
	remediator policy.Remediator
	taskQueues map[string]string
	// notBound lists by cluster the indexes of the policies that were not bound to it when it was planned.
	notBound map[string][]int
	// phase is the current phase of the runbook.
	phase        string
	nextBatch    int
	startedBatch *StartedBatch
	gate         healthGate
	// healthChecks limits how many clusters have their health checked at the same time.
	healthChecks workflow.Semaphore
	// clock is the time that counts against the rollout's timeout.
	clock stopwatch
	// slowest is the charged duration of the slowest complete cluster. Time in which a window was closed does not count.
	slowest time.Duration
	// batch is the running batch; nil between batches.
	batch *batch
	// completions carries out afterCompletion on complete clusters.
	completions completions
	// precaching and backup of the clusters; nil if not asked for.
	precaching, backup *preparation
	// preparations is the number of preparations so far; activeParts are the ClusterPreparations in progress.
	preparations int
	activeParts  []*preparationPart

	enabled bool
	// defaulted: the spec has its defaults.
	defaulted bool
	// edited: the spec has changed since the plan was made.
	edited bool
	// registered: the hub may know of this run. loaded: this run has the saved plan of an earlier rollout.
	registered, loaded bool
	// starters started, edited, enabled or retried the rollout.
	starters []string
	// missingApproval is the missing approval.
	missingApproval *rollout.AwaitedApproval
	// pauseRequest is the last pause or resume: who asked for it, and why.
	pauseRequest temporal.SignalRequest
	cancel       workflow.CancelFunc
	cancelledBy  *temporal.SignalRequest
	signals      int

	hub *rollouts.Activities
}

func newGroupUpgrade(ctx workflow.Context, in Input) (*groupUpgrade, error) {
	g := &groupUpgrade{in: in, spec: in.Object.Spec, healthChecks: workflow.NewSemaphore(ctx, maxHealthChecks)}
	g.enabled = g.spec.Enable == nil || *g.spec.Enable
	var prepared *policy.PreparedItems
	if c := in.PreviousRun; c != nil {
		g.defaulted = true
		g.status, g.taskQueues, g.phase, g.clock.used, g.nextBatch, g.startedBatch = rollout.Expand(c.Status), c.TaskQueues, c.Phase, c.Used, c.NextBatch, c.StartedBatch
		g.holds.State, g.completions.due, g.starters = c.Held, c.Completed, c.Starters
		g.notBound = rollout.ExpandNotBound(c.NotBound, rollout.NamesOf(c.Status.Clusters))
		g.gate.healthy, g.gate.opened, g.slowest = c.HealthyClusters, c.GateOpened, c.SlowestCluster
		prepared = c.Prepared
		g.holds.Windows.Restore(c.Windows)
	} else if in.StartedBy != "" {
		g.starters = []string{in.StartedBy}
	}
	g.remediator = newRemediator(g, prepared)
	g.completions.change = rollout.ChangeAfter(&g.spec.Actions)
	g.record = newGroupRecord(ctx, &g.status, in.Object.Namespace+"/"+in.Object.Name, rollout.RemediationOf(&in.Object))
	g.record.completed, g.record.soak = g.completions.add, g.soak()
	g.completions.reportRetry = g.record.retries.Add()
	if c := in.PreviousRun; c != nil && c.Pause != nil {
		g.record.waits.Pause = c.Pause
		g.record.show()
	}
	return g, errors.Join(g.registerUpdates(ctx), workflow.SetQueryHandlerWithOptions(ctx, temporal.QueryHeld, g.queryHeld,
		workflow.QueryHandlerOptions{Description: "Why no new work starts on the named clusters."}), workflow.SetQueryHandlerWithOptions(ctx, temporal.QueryStatus,
		func(request temporal.StatusRequest) (ranv1.ClusterGroupUpgradeStatus, error) {
			status, err := rollout.Page(g.status, rollout.Part(request))
			return g.withHolds(status), err
		},
		workflow.QueryHandlerOptions{Description: "The status of the rollout. Optional: {filter, limit, cursor, inPlanOrder}."}))
}

// retrier retries activities on the hub. The status says why one does not succeed yet.
func (g *groupUpgrade) retrier() kit.Retrier {
	return kit.HubRetrier(g.record.retries.Add())
}

func (g *groupUpgrade) run(ctx workflow.Context) (ranv1.ClusterGroupUpgradeStatus, error) {
	work, withdraw := workflow.WithCancel(ctx)
	g.cancel = withdraw
	listening, _ := workflow.NewDisconnectedContext(ctx)
	g.registerSignals(listening)
	g.holds.Follow(work, "")
	g.runAfterCompletion(listening)

	end, err := g.rollOut(work)
	if workflow.IsContinueAsNewError(err) {
		return g.status, err
	}
	g.finishAfterCompletion(work, listening)
	g.holds.Leave(listening)
	status, err := g.finishAs(listening, end, err)
	_ = workflow.Await(listening, func() bool { return workflow.AllHandlersFinished(ctx) }) // everybody who asked for a change gets an answer
	return status, err
}

// phase is a part of a rollout. A new run may continue between phases.
type phase struct {
	name string
	// run returns why the rollout ends with this phase, endContinueAsNew to continue as new, or "" to continue. The error says why there is no plan.
	run func(workflow.Context) (rollout.End, error)
}

// The phases, in order. A run passes the name of the current one to the run that continues it.
const (
	phasePlan         = "plan"
	phaseBlocked      = "blocked"
	phaseBackup       = "backup"
	phaseBeforeEnable = "beforeEnable"
	phaseStart        = "start"
	PhaseBatches      = "batches"
	PhaseRecheck      = "recheck"
)

// runbook lists the phases of a rollout, in order.
func (g *groupUpgrade) runbook() []phase {
	return []phase{
		{phasePlan, g.planRollout},
		{phaseBlocked, g.awaitBlockers},
		{phaseBackup, g.backUp},
		{phaseBeforeEnable, g.runBeforeEnable},
		{phaseStart, g.startRemediation},
		{PhaseBatches, g.runBatches},
		{PhaseRecheck, g.recheckTimedOut},
	}
}

// rollOut runs the phases, from the one in which the previous run ended. The error is a continue-as-new, or says why there is no plan.
func (g *groupUpgrade) rollOut(ctx workflow.Context) (rollout.End, error) {
	runbook := g.runbook()
	first := max(0, slices.IndexFunc(runbook, func(p phase) bool { return p.name == g.phase }))
	for _, phase := range runbook[first:] {
		g.phase = phase.name
		g.record.log.Info("Rollout enters a phase", "phase", phase.name)
		end, err := phase.run(ctx)
		if end == endContinueAsNew {
			return g.continueAsNew(ctx)
		}
		if end != "" && phase.name == PhaseBatches {
			_, _ = g.recheckTimedOut(ctx) // also in a rollout that stops early; its result stays
		}
		if end != "" || err != nil {
			return end, err
		}
	}
	return rollout.EndFinished, nil
}

// startRemediation records that remediation starts. Earlier phases are not charged to the timeout.
func (g *groupUpgrade) startRemediation(ctx workflow.Context) (rollout.End, error) {
	g.record.started(ctx)
	return "", nil
}

// continueAsNew passes the state to a new run. No cluster is running.
func (g *groupUpgrade) continueAsNew(ctx workflow.Context) (rollout.End, error) {
	g.remediator.Settle(ctx)
	// Last: this run answers every request that arrived while it waited for anything else.
	_ = workflow.Await(ctx, func() bool { return !g.completions.running && workflow.AllHandlersFinished(ctx) })
	kit.HandlePendingSignals(ctx)
	if ctx.Err() != nil {
		return rollout.EndCancelled, nil
	}
	g.record.log.Info("Rollout continues as new", "phase", g.phase, "batch", g.nextBatch+1)
	in := g.in
	in.PreviousRun = g.stateForNextRun(workflow.Now(ctx))
	return "", workflow.NewContinueAsNewError(ctx, temporal.ClusterGroupUpgrade, in)
}

// stateForNextRun is the state that this run passes to the next one.
func (g *groupUpgrade) stateForNextRun(now time.Time) *PreviousRun {
	seen, passed := g.gate.stateForNextRun()
	status := rollout.Compact(g.status)
	status.Clusters = shortMessages(status.Clusters)
	return &PreviousRun{
		Status: status, TaskQueues: g.taskQueues, Phase: g.phase, Used: g.clock.elapsed(now), NextBatch: g.nextBatch, StartedBatch: g.startedBatch,
		Completed: g.completions.due, Prepared: g.remediator.Prepared(), HealthyClusters: seen, GateOpened: passed, Held: g.holds.State, Windows: g.holds.Windows.Carry(),
		SlowestCluster: g.slowest, Starters: g.starters, Pause: g.record.waits.Pause, NotBound: rollout.CompactNotBound(g.notBoundForNextRun(), rollout.NamesOf(g.status.Clusters)),
	}
}

// notBoundForNextRun is notBound without the complete clusters.
func (g *groupUpgrade) notBoundForNextRun() map[string][]int {
	still := map[string][]int{}
	for i := range g.status.Clusters {
		c := &g.status.Clusters[i]
		if policies, some := g.notBound[c.Name]; some && c.State != ranv1.ClusterComplete {
			still[c.Name] = policies
		}
	}
	return still
}

// messagesLimit is the total length, in bytes, of the messages of all clusters that one run passes to the next. The server refuses
// 2 MiB, and the names of 10,000 clusters alone can take half of that.
const messagesLimit = 512 << 10

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
	for limit > shortest && together() > messagesLimit {
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
