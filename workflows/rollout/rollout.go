// Package rollout holds the ClusterGroupUpgrade workflow: a remediation over a group of clusters in canaries and batches.
package rollout

import (
	"errors"
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/activities/objects"
	"drydock.dev/drydock/activities/rollouts"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/precache"
	"drydock.dev/drydock/internal/rollout"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/gates"
	"drydock.dev/drydock/workflows/kit"
	"drydock.dev/drydock/workflows/rollout/policy"
)

// Input is the input of the workflow.
type Input struct {
	// Object is the request. Its status is not read.
	Object ranv1.ClusterGroupUpgrade `json:"object"`
	// StartedBy is the person who starts the rollout. With separate duties, another person must approve it.
	StartedBy string `json:"startedBy,omitempty"`
	// Retry retries the failed clusters of the last rollout of that name with its saved spec and plan. A retry reads only the name of Object.
	Retry *rollout.RetryRequest `json:"retry,omitempty"`
	// Source is the object on the hub that requests the rollout and shows its status; nil: there is none.
	Source *temporal.Object `json:"source,omitempty"`
	// PreviousRun is the state that the previous run passed to this one by continue-as-new; nil in the first run.
	PreviousRun *PreviousRun `json:"previousRun,omitempty"`
}

// Continues implements kit.Continued.
func (in Input) Continues() bool { return in.PreviousRun != nil }

// ClusterGroupUpgrade remediates a group of clusters: canaries first, then batch by batch, each batch with a time limit. It returns the
// status of the rollout. If the rollout does not succeed, it returns a typed error with the status as details.
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
	// remediator works on the clusters.
	remediator policy.Remediator
	taskQueues map[string]string
	// notBound lists by cluster the indexes of the policies that were not bound to it when the plan was made.
	notBound map[string][]int
	// phase is the current phase of the runbook.
	phase Phase
	// nextBatch is the index of the running batch, or of the next one. startedBatch is set while it runs.
	nextBatch    int
	startedBatch *StartedBatch
	// relapseRetries is how often relapsed clusters were retried.
	relapseRetries int
	gate           healthGate
	// healthChecks limits how many clusters are checked at the same time.
	healthChecks workflow.Semaphore
	// clock measures the used part of the rollout's timeout.
	clock stopwatch
	// slowest is the longest duration of a complete cluster, on the clock of the rollout.
	slowest time.Duration
	// batch is the running batch; nil between batches.
	batch *batch
	// completions runs afterCompletion on complete clusters.
	completions completions
	// precaching and backup are nil if the spec does not ask for them.
	precaching, backup *preparation
	// preparations counts the preparations of this run. activeParts are the ClusterPreparations in progress.
	preparations int
	activeParts  []*preparationPart

	enabled bool
	// defaulted: the defaults are set in the spec.
	defaulted bool
	// edits counts the edits of this run before the rollout was enabled. Each makes the plan outdated.
	edits int
	// saved: the hub may have a status of this rollout, or has that of the rollout which is retried.
	saved bool
	// starters are the people who started, edited, enabled or retried the rollout.
	starters []string
	// missingApproval is the approval that the rollout waits for; nil: none.
	missingApproval *rollout.AwaitedApproval
	// pauseRequest is the last request to pause or to resume.
	pauseRequest temporal.SignalRequest
	// cancel stops the rollout. cancelledBy is the request to cancel; nil: there was none.
	cancel      workflow.CancelFunc
	cancelledBy *temporal.SignalRequest
	// release is the release that was looked up for precaching; nil: none was.
	release *precache.LookedUp
	lookUps lookUps
	// object is the last request of the object; planDigest identifies its last plan.
	object     ObjectRequest
	planDigest string
	// signals counts the signals of this run. Too many of them are a reason to continue as new.
	signals int

	hub     *rollouts.Activities
	objects *objects.Activities
}

func newGroupUpgrade(ctx workflow.Context, in Input) (*groupUpgrade, error) {
	g := &groupUpgrade{in: in, spec: in.Object.Spec, healthChecks: workflow.NewSemaphore(ctx, maxHealthChecks)}
	g.enabled = g.spec.Enable == nil || *g.spec.Enable
	g.object.Generation = in.Object.Generation
	var prepared *policy.PreparedItems
	if previous := in.PreviousRun; previous != nil {
		g.restore(previous)
		prepared = previous.Prepared
	} else if in.StartedBy != "" {
		g.starters = []string{in.StartedBy}
	}
	g.remediator = newRemediator(g, prepared)
	g.completions.change = rollout.ChangeAfter(&g.spec.Actions)
	g.record = newGroupRecord(ctx, &g.status, in.Object.Namespace+"/"+in.Object.Name, rollout.RemediationOf(&in.Object))
	g.record.completed, g.record.soak = g.completions.add, g.soak()
	g.completions.reportRetry = g.record.retries.Add()
	g.record.publisher = kit.Publisher{Object: in.Source, ByQuery: true, Current: func() any { return g.objectStatus() }, Retrier: g.retrier()}
	if previous := in.PreviousRun; previous != nil {
		g.record.publisher.State = previous.Publisher
		g.record.publisher.Open()
	}
	g.record.notifier = kit.Notifier{
		Kind: "rollout", Name: in.Object.Namespace + "/" + in.Object.Name, Receivers: func() []drydockv1.Notification { return g.spec.Notify },
		Planned: []string{ranv1.ReasonBatchInProgress, ranv1.ReasonSoaking, ranv1.ReasonNotEnabled, ranv1.ReasonWaitingForApproval, policy.ReasonPaused},
	}
	if previous := in.PreviousRun; previous != nil {
		g.record.notifier.State = previous.Notifier
	}
	if previous := in.PreviousRun; previous != nil && previous.Pause != nil {
		g.record.waits.Pause = previous.Pause
		g.record.show()
	}
	return g, errors.Join(g.registerUpdates(ctx), g.registerQueries(ctx))
}

func (g *groupUpgrade) registerQueries(ctx workflow.Context) error {
	return errors.Join(
		workflow.SetQueryHandlerWithOptions(ctx, temporal.QueryHeld, g.queryHeld,
			workflow.QueryHandlerOptions{Description: "Why no new work starts on the named clusters."}),
		workflow.SetQueryHandlerWithOptions(ctx, temporal.QueryStatus, g.queryStatus,
			workflow.QueryHandlerOptions{Description: "The status of the rollout. Optional: {filter, limit, cursor, inPlanOrder}."}),
		workflow.SetQueryHandlerWithOptions(ctx, temporal.QueryRollout, func() (ranv1.ClusterGroupUpgrade, error) { return g.rollout(), nil },
			workflow.QueryHandlerOptions{Description: "The rollout as it is saved on the hub: its spec with all edits, and its status in short."}),
		workflow.SetQueryHandlerWithOptions(ctx, temporal.QueryPreviewEdit,
			func(request rollout.EditRequest) (rollout.EditPreview, error) {
				return g.previewEdit(ctx, request), nil
			},
			workflow.QueryHandlerOptions{Description: "What an edit would do: {actor, spec}."}),
		workflow.SetQueryHandlerWithOptions(ctx, temporal.QueryObjectStatus,
			func() (ranv1.ClusterGroupUpgradeStatus, error) { return g.objectStatus(), nil },
			workflow.QueryHandlerOptions{Description: "The status that the ClusterGroupUpgrade on the hub shows."}),
	)
}

func (g *groupUpgrade) queryStatus(request temporal.StatusRequest) (ranv1.ClusterGroupUpgradeStatus, error) {
	status, err := rollout.Page(g.status, rollout.Part(request))
	status.Wait, status.Clusters = rollout.DeepestWait(&g.status), rollout.Resumed(status.Clusters, status.Paused)
	return g.withPendingWaits(g.withHolds(status)), err
}

// retrier retries activities on the hub. While one fails, the status shows the error.
func (g *groupUpgrade) retrier() kit.Retrier {
	return kit.HubRetrier(g.record.retries.Add())
}

func (g *groupUpgrade) run(ctx workflow.Context) (ranv1.ClusterGroupUpgradeStatus, error) {
	work, cancel := workflow.WithCancel(ctx)
	g.cancel = cancel
	listening, _ := workflow.NewDisconnectedContext(ctx)
	g.registerSignals(listening)
	workflow.GoNamed(listening, "publish", g.record.publisher.Run)
	workflow.GoNamed(listening, "notify", g.record.notifier.Run)
	g.holds.Subscribe(work, "")
	g.runAfterCompletion(listening)

	end, err := g.rollOut(work)
	if workflow.IsContinueAsNewError(err) {
		return g.status, err
	}
	g.finishAfterCompletion(work, listening)
	g.holds.Unsubscribe(listening)
	status, err := g.finishAs(listening, end, err)
	g.record.publisher.Finish(listening)
	// Answer every update, and start every notification.
	_ = workflow.Await(listening, func() bool { return workflow.AllHandlersFinished(ctx) && g.record.notifier.Idle() })
	g.record.attributes.Flush()
	return status, err
}

// Phase names a step of the runbook.
type Phase string

// step is one step of the runbook.
type step struct {
	phase Phase
	// run returns "" to enter the next phase, endContinueAsNew, or why the rollout ends. An error ends the rollout as failed.
	run func(workflow.Context) (rollout.End, error)
}

// The phases, in order. After continue-as-new, the next run resumes in the same phase.
const (
	phasePlan         Phase = "plan"
	phaseBlocked      Phase = "blocked"
	phaseBackup       Phase = "backup"
	phaseBeforeEnable Phase = "beforeEnable"
	phaseStart        Phase = "start"
	PhaseBatches      Phase = "batches"
	PhaseRecheck      Phase = "recheck"
)

// runbook is the list of phases, in order.
func (g *groupUpgrade) runbook() []step {
	return []step{
		{phasePlan, g.planRollout},
		{phaseBlocked, g.awaitBlockers},
		{phaseBackup, g.backUp},
		{phaseBeforeEnable, g.runBeforeEnable},
		{phaseStart, g.startRemediation},
		{PhaseBatches, g.runBatches},
		{PhaseRecheck, g.recheckTimedOut},
	}
}

// rollOut runs the phases, starting with that in which the previous run ended. It returns why the rollout ends, or an error that ends the run:
// a continue-as-new, or the reason why the rollout failed.
func (g *groupUpgrade) rollOut(ctx workflow.Context) (rollout.End, error) {
	runbook := g.runbook()
	first := max(0, slices.IndexFunc(runbook, func(s step) bool { return s.phase == g.phase }))
	for _, step := range runbook[first:] {
		g.phase = step.phase
		g.record.log.Info("Rollout enters a phase", "phase", step.phase)
		end, err := step.run(ctx)
		if end == endContinueAsNew {
			return g.continueAsNew(ctx)
		}
		if end != "" && step.phase == PhaseBatches {
			_, _ = g.recheckTimedOut(ctx) // the end stays the same
			g.failRelapsed(ctx)
		}
		if end != "" || err != nil {
			return end, err
		}
	}
	return rollout.EndFinished, nil
}

// startRemediation starts the clock of the rollout: earlier phases do not count against the timeout.
func (g *groupUpgrade) startRemediation(ctx workflow.Context) (rollout.End, error) {
	g.record.started(ctx)
	return "", nil
}
