package rollout

import (
	"fmt"
	"reflect"
	"slices"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	sdktemporal "go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/activities/rollouts"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/emergency"
	"drydock.dev/drydock/internal/precache"
	"drydock.dev/drydock/internal/rollout"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/internal/views"
	"drydock.dev/drydock/workflows/kit"
)

const (
	// clustersPerPreparation is the number of clusters of one ClusterPreparation.
	clustersPerPreparation = 100
	// maxPreparations is the maximum number of ClusterPreparations in progress, not counting those that only wait for held clusters. Each Job takes an
	// activity slot of the workers.
	maxPreparations = 5
)

// preparation is the precaching or the backup of the clusters of a rollout.
type preparation struct {
	// id is unique, so that progress and Jobs of two preparations are never mixed up.
	id   string
	work precache.Work
	// progress has the clusters of the plan. waiting are those without a ClusterPreparation.
	progress map[string]precache.Progress
	waiting  []string
	// offline are the clusters whose agents were offline before their Jobs existed, and how long Drydock waits for each. offlineChanged: there are more.
	offline        map[string]time.Time
	offlineChanged bool
	// away are the clusters that are offline or deleted, as far as is known. late: the clusters that are not started were offline when the others were
	// prepared. Each is prepared when it starts.
	away map[string]bool
	late bool
	// hold returns the hold on a cluster; nil: it is not held.
	hold func(cluster string) *drydockv1.Hold
	// ctx is the context of the ClusterPreparations, and stop cancels it. parts is the number of ClusterPreparations so far.
	ctx   workflow.Context
	stop  workflow.CancelFunc
	parts int
}

// preparationPart is a ClusterPreparation in progress.
type preparationPart struct {
	of *preparation
	// number counts the ClusterPreparations of a preparation, from 1.
	number   int
	clusters []string
}

// PreparationProgress is the report of a ClusterPreparation to its rollout.
type PreparationProgress struct {
	// Preparation is the id of the whole preparation, and Part the number of the ClusterPreparation.
	Preparation string                       `json:"preparation"`
	Part        int                          `json:"part,omitempty"`
	Clusters    map[string]precache.Progress `json:"clusters"`
}

// applyPreparations applies a new plan to precaching and backups. Precaching continues if its images and spec are the same, and stops otherwise. An
// invalid plan does not change it.
func (g *groupUpgrade) applyPreparations(plan rollouts.Plan) {
	s := &g.status
	s.Backup = nil
	if g.spec.Backup {
		s.Backup = &ranv1.BackupStatus{Image: plan.BackupImage}
	}
	switch {
	case !g.spec.PreCaching:
		s.Precaching = nil
		g.stopPrecaching()
	case plan.Valid():
		requested := &ranv1.PrecachingStatus{Spec: plan.Precaching, Image: plan.PreCacheImage}
		//workflowcheck:ignore a comparison does not depend on the order
		if before := s.Precaching; before == nil || before.Image != requested.Image || !reflect.DeepEqual(before.Spec, requested.Spec) {
			s.Precaching = requested
		}
		//workflowcheck:ignore a comparison does not depend on the order
		if g.precaching != nil && !reflect.DeepEqual(g.precaching.work, g.workOf(precache.Precaching)) {
			g.stopPrecaching()
		}
	}
}

// workOf is the work of a preparation that the spec asks for.
func (g *groupUpgrade) workOf(kind precache.Kind) precache.Work {
	if kind == precache.Backup {
		return precache.Work{Kind: kind, Image: g.status.Backup.Image, Timeout: g.timeout()}
	}
	asked := g.status.Precaching
	return precache.Work{Kind: kind, Image: asked.Image, Spec: asked.Spec, Timeout: g.timeout()}
}

// statesOf are the states of clusters in the status; nil: the spec does not ask for the preparation.
func (g *groupUpgrade) statesOf(kind precache.Kind) map[string]ranv1.PreparationState {
	switch {
	case kind == precache.Backup && g.status.Backup != nil:
		return g.status.Backup.Status
	case kind == precache.Precaching && g.status.Precaching != nil:
		return g.status.Precaching.Status
	}
	return nil
}

// stopPrecaching stops the precaching Jobs. Later reports from them are ignored.
func (g *groupUpgrade) stopPrecaching() {
	if g.precaching != nil {
		g.record.log.Info("Preparation of clusters stopped, because its plan is outdated", "kind", g.precaching.work.Kind)
		g.precaching.stop()
		g.precaching = nil
	}
	g.record.precachingStopped()
}

// precache precaches the clusters of the plan. After another plan, only new clusters or another spec start Jobs. It returns when it is interrupted;
// the Jobs continue.
func (g *groupUpgrade) precache(ctx workflow.Context, interrupted func() bool) {
	if !g.spec.PreCaching {
		return
	}
	if g.enabled {
		g.record.enabled()
	} else {
		g.record.notEnabled(ctx, true)
	}
	if g.precaching == nil || g.precaching.late {
		g.precaching = g.newPreparation(ctx, precache.Precaching)
		g.startParts(g.precaching)
	}
	g.prepareClusters(ctx, g.precaching, interrupted)
}

// backUp backs up every cluster of the plan before work starts on the first one.
func (g *groupUpgrade) backUp(ctx workflow.Context) (rollout.End, error) {
	if !g.spec.Backup {
		return "", nil
	}
	g.record.backupStarted(ctx)
	g.backup = g.newPreparation(ctx, precache.Backup)
	g.startParts(g.backup)
	g.prepareClusters(ctx, g.backup, func() bool { return false })
	if ctx.Err() != nil {
		return rollout.EndCancelled, nil
	}
	return g.endIfAllFailed(), nil
}

// endIfAllFailed ends the rollout if no cluster could be prepared.
func (g *groupUpgrade) endIfAllFailed() rollout.End {
	if len(g.record.notStarted(slices.Concat(g.status.RemediationPlan...))) > 0 || len(g.record.inState(ranv1.ClusterFailed)) == 0 {
		return ""
	}
	g.queueSkippedClusters()
	return rollout.EndFinished
}

// newPreparation begins a preparation. It does not repeat clusters that succeeded before.
func (g *groupUpgrade) newPreparation(ctx workflow.Context, kind precache.Kind) *preparation {
	g.preparations++
	meta := g.in.Object.ObjectMeta
	p := &preparation{
		id:       temporal.PreparationID(meta.Namespace, meta.Name, string(kind), preparationRun(ctx)[:8], g.preparations),
		work:     g.workOf(kind),
		progress: map[string]precache.Progress{},
		offline:  map[string]time.Time{},
		hold:     func(cluster string) *drydockv1.Hold { return g.holds.State.Of(cluster) },
	}
	before := g.statesOf(kind)
	for _, cluster := range workflow.DeterministicKeys(before) {
		if before[cluster] == ranv1.PreparationSucceeded {
			p.progress[cluster] = precache.Progress{State: ranv1.PreparationSucceeded}
		}
	}
	g.record.log.Info("Preparation of clusters started", "kind", kind)
	p.ctx, p.stop = workflow.WithCancel(ctx)
	g.watchAgents(p)
	return p
}

// preparationRun is the id of the run that starts a preparation. It is recorded in the history: a rollout that is reset to a later point continues
// the preparation, and one that is reset to an earlier point starts another, which does not adopt the Jobs of the first.
func preparationRun(ctx workflow.Context) string {
	var run string
	recorded := workflow.SideEffect(ctx, func(ctx workflow.Context) any { return workflow.GetInfo(ctx).WorkflowExecution.RunID })
	_ = recorded.Get(&run)
	return run
}

// prepareClusters waits until every cluster of the plan is prepared or has failed, except those that are offline. After a cancellation it waits until all
// Jobs are stopped.
func (g *groupUpgrade) prepareClusters(ctx workflow.Context, p *preparation, interrupted func() bool) {
	clusters := g.record.notStarted(slices.Concat(g.status.RemediationPlan...))
	p.enqueue(clusters)
	g.record.showPreparation(ctx, p)
	watching, stopWatching := workflow.WithCancel(ctx)
	defer stopWatching()
	g.watchAvailability(watching, p, clusters)
	ended := func() bool {
		return !slices.ContainsFunc(clusters, func(name string) bool { return !p.progress[name].State.Over() && !p.away[name] })
	}
	waiting, stopWaiting := workflow.NewDisconnectedContext(ctx)
	_ = workflow.Await(waiting, func() bool { return ended() || interrupted() || ctx.Err() != nil && len(g.activeParts) == 0 })
	stopWaiting()
	if ctx.Err() == nil && ended() {
		g.leaveOffline(ctx, p, clusters)
		g.record.prepared(ctx, p)
	}
}

// enqueue adds the clusters of the plan. It removes waiting clusters that are no longer in the plan.
func (p *preparation) enqueue(clusters []string) {
	for _, name := range p.waiting {
		delete(p.progress, name)
	}
	p.waiting = nil
	for _, name := range clusters {
		if _, asked := p.progress[name]; !asked {
			p.progress[name] = precache.Progress{State: ranv1.PreparationNotStarted}
			p.waiting = append(p.waiting, name)
		}
	}
}

// startParts starts ClusterPreparations for waiting clusters, a limited number at a time. It starts none for held clusters, and none while the
// rollout is paused.
func (g *groupUpgrade) startParts(p *preparation) {
	workflow.GoNamed(p.ctx, string(p.work.Kind), func(ctx workflow.Context) {
		for g.holds.AwaitKnown(ctx, g.record.holdsUnknown) == nil && ctx.Err() == nil {
			held := g.holds.State.Number
			g.record.showPreparation(ctx, p)
			mayStart := func() bool { return g.busyParts() < maxPreparations && !g.status.Paused && len(p.next()) > 0 }
			if workflow.Await(ctx, func() bool { return mayStart() || g.holds.State.Number != held }) == nil && ctx.Err() == nil && mayStart() {
				g.startPart(ctx, p, p.next())
			}
		}
	})
}

// busyParts is the number of ClusterPreparations that do not only wait for held clusters.
func (g *groupUpgrade) busyParts() int {
	busy := 0
	for _, part := range g.activeParts {
		if !part.waits() {
			busy++
		}
	}
	return busy
}

// waits reports whether all unfinished clusters of the part are held.
func (part *preparationPart) waits() bool {
	waits := false
	for _, name := range part.clusters {
		progress := part.of.progress[name]
		switch {
		case part.of.startHold(name) != nil:
			waits = true
		case !progress.State.Over() && progress.Reason != temporal.ErrAgentOffline:
			return false
		}
	}
	return waits
}

// startHold is the hold that prevents the Job of a cluster; nil: none does, or the Job exists already.
func (p *preparation) startHold(cluster string) *drydockv1.Hold {
	switch p.progress[cluster].State {
	case ranv1.PreparationNotStarted, ranv1.PreparationPreparingToStart:
		return p.hold(cluster)
	}
	return nil
}

// failureOf is why a cluster could not be prepared.
func failureOf(kind precache.Kind, progress precache.Progress) (reason, message string) {
	return string(progress.State), fmt.Sprintf("%s: %s", kind, progress.Message)
}

// next are the clusters of the next ClusterPreparation.
func (p *preparation) next() []string {
	var next []string
	for _, name := range p.waiting {
		if len(next) == clustersPerPreparation {
			break
		}
		if p.hold(name) == nil {
			next = append(next, name)
		}
	}
	return next
}

func (g *groupUpgrade) startPart(ctx workflow.Context, p *preparation, clusters []string) {
	for _, name := range clusters {
		p.progress[name] = precache.Progress{State: ranv1.PreparationPreparingToStart}
	}
	p.waiting = slices.DeleteFunc(p.waiting, func(name string) bool { return p.progress[name].State != ranv1.PreparationNotStarted })
	part := g.newPart(p, clusters)
	workflow.GoNamed(ctx, fmt.Sprintf("%s, part %d", p.work.Kind, part.number), func(ctx workflow.Context) { g.preparePart(ctx, part) })
}

func (g *groupUpgrade) newPart(p *preparation, clusters []string) *preparationPart {
	p.parts++
	part := &preparationPart{of: p, number: p.parts, clusters: clusters}
	g.activeParts = append(g.activeParts, part)
	return part
}

// preparePart runs a ClusterPreparation.
func (g *groupUpgrade) preparePart(ctx workflow.Context, part *preparationPart) {
	defer func() {
		g.activeParts = slices.DeleteFunc(g.activeParts, func(other *preparationPart) bool { return other == part })
	}()
	p, names := part.of, slices.Clone(part.clusters)
	meta := g.in.Object.ObjectMeta
	in := PreparationInput{
		Preparation: p.id, Part: part.number, Owner: kit.Owner(ctx), Work: p.work, ProgressLimit: kit.ProgressLimit(maxPreparations, p.work.Timeout), Held: g.holds.State,
		Interval: views.Interval(min(len(p.progress), maxPreparations*clustersPerPreparation)),
	}
	for _, name := range names {
		in.Clusters = append(in.Clusters, ClusterToPrepare{Name: name, TaskQueue: g.taskQueueOf(name)})
	}
	child := workflow.ExecuteChildWorkflow(workflow.WithChildOptions(ctx, workflow.ChildWorkflowOptions{
		WorkflowID:          fmt.Sprintf("%s-%d", p.id, part.number),
		WaitForCancellation: true,
		ParentClosePolicy:   enumspb.PARENT_CLOSE_POLICY_REQUEST_CANCEL,
		StaticSummary:       fmt.Sprintf("%s of %d clusters, starting with %s", p.work.Kind, len(names), names[0]),
		TypedSearchAttributes: sdktemporal.NewSearchAttributes(
			temporal.AttributeGroup.ValueSet(meta.Namespace + "/" + meta.Name),
		),
	}), temporal.ClusterPreparation, in)
	childEnded := false
	ended := func() bool { return childEnded }
	workflow.GoNamed(ctx, "pause "+in.Preparation, func(ctx workflow.Context) { g.forwardPause(ctx, child, ended) })
	workflow.GoNamed(ctx, "hold "+in.Preparation, func(ctx workflow.Context) {
		g.holds.Forward(ctx, func() emergency.State { return g.holds.State }, in.Held, child, ended)
	})
	var progress map[string]precache.Progress
	err := child.Get(ctx, &progress)
	childEnded = true
	if ctx.Err() != nil {
		return
	}
	for _, name := range part.clusters {
		state := progress[name]
		if err != nil {
			state = precache.Progress{State: ranv1.PreparationFailed, Reason: kit.ReasonOf(err), Message: temporal.ErrorMessage(err)}
		}
		p.reported(ctx, name, state)
	}
	g.record.showPreparation(ctx, p)
}

// recordPreparationProgress records the progress of unfinished clusters.
func (g *groupUpgrade) recordPreparationProgress(ctx workflow.Context, report PreparationProgress) {
	for _, part := range g.activeParts {
		p := part.of
		if p.id != report.Preparation || part.number != report.Part || p.ctx.Err() != nil {
			continue
		}
		for _, cluster := range part.clusters {
			progress, has := report.Clusters[cluster]
			if !has || p.progress[cluster].State.Over() {
				continue
			}
			if p.reported(ctx, cluster, progress); p.late {
				g.record.preparesFirst(ctx, p, cluster)
			}
		}
		g.record.showPreparation(ctx, p)
	}
}

// taskQueueOf is the task queue of the activities of a cluster.
func (g *groupUpgrade) taskQueueOf(cluster string) string {
	if queue, own := g.taskQueues[cluster]; own {
		return queue
	}
	return temporal.TaskQueue
}
