package workflows

import (
	"fmt"
	"reflect"
	"slices"

	enumspb "go.temporal.io/api/enums/v1"
	sdktemporal "go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/drydock/activities"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/precache"
	"drydock.dev/drydock/internal/rollout"
	"drydock.dev/drydock/internal/temporal"
)

const (
	// preparedTogether is how many clusters one ClusterPreparation works on.
	preparedTogether = 100
	// preparationsAtOnce is how many of them are at work: their Jobs wait in activities, which the workers need for other things, too.
	preparationsAtOnce = 5
)

// preparation is the precaching, or the backup, of a rollout's clusters.
type preparation struct {
	work precache.Work
	// standings of the clusters that it was asked for.
	standings map[string]precache.Standing
	// ctx of the ClusterPreparations; stop cancels them. Parts is how many were asked for, atWork how many have begun and are not over.
	ctx           workflow.Context
	stop          workflow.CancelFunc
	parts, atWork int
}

// PreparationProgress is what a ClusterPreparation tells its rollout.
type PreparationProgress struct {
	Kind      precache.Kind                `json:"kind"`
	Standings map[string]precache.Standing `json:"standings"`
}

// precache pulls onto the clusters of the plan what was asked for. It is done once for each cluster, however often it is planned anew: only one that is
// new to the plan, or work that is another, is done. When the spec is edited it returns, and the Jobs go on.
func (g *groupUpgrade) precache(ctx workflow.Context) {
	if !g.spec.PreCaching {
		return
	}
	if !g.enabled {
		g.record.notEnabled(ctx, true)
	}
	asked := g.status.Precaching
	work := precache.Work{Kind: precache.Precaching, Image: asked.Image, Spec: asked.Spec, Timeout: g.timeout()}
	//workflowcheck:ignore to compare values has no order that shows
	if g.precaching == nil || !reflect.DeepEqual(g.precaching.work, work) {
		if g.precaching != nil {
			g.precaching.stop()
		}
		g.precaching = newPreparation(ctx, work, asked.Status)
	}
	g.prepareClusters(ctx, g.precaching, func() bool { return g.edited })
}

// backUp makes a backup of every cluster of the plan, before the first is worked on.
func (g *groupUpgrade) backUp(ctx workflow.Context) (rollout.End, error) {
	if !g.spec.Backup {
		return "", nil
	}
	if workflow.Await(ctx, func() bool { return !g.status.Paused }) != nil {
		return rollout.EndCancelled, nil
	}
	g.record.backingUp(ctx)
	asked := g.status.Backup
	g.backup = newPreparation(ctx, precache.Work{Kind: precache.Backup, Image: asked.Image, Timeout: g.timeout()}, asked.Status)
	g.prepareClusters(ctx, g.backup, func() bool { return false })
	if ctx.Err() != nil {
		return rollout.EndCancelled, nil
	}
	return "", nil
}

// newPreparation begins with what an earlier run of the rollout has done.
func newPreparation(ctx workflow.Context, work precache.Work, before map[string]ranv1.PreparationState) *preparation {
	p := &preparation{work: work, standings: map[string]precache.Standing{}}
	for _, cluster := range workflow.DeterministicKeys(before) {
		if before[cluster] == ranv1.PreparationSucceeded {
			p.standings[cluster] = precache.Standing{State: ranv1.PreparationSucceeded}
		}
	}
	p.ctx, p.stop = workflow.WithCancel(ctx)
	return p
}

// prepareClusters returns when every cluster of the plan is prepared, or has failed and left the plan; or when ctx was cancelled, and all Jobs are
// stopped.
func (g *groupUpgrade) prepareClusters(ctx workflow.Context, p *preparation, interrupted func() bool) {
	clusters := g.record.pending(slices.Concat(g.status.RemediationPlan...))
	var todo []ClusterToPrepare
	for _, name := range clusters {
		if _, asked := p.standings[name]; !asked {
			p.standings[name] = precache.Standing{State: ranv1.PreparationNotStarted}
			todo = append(todo, ClusterToPrepare{Name: name, TaskQueue: g.taskQueueOf(name)})
		}
	}
	g.record.preparing(ctx, p)
	for some := range slices.Chunk(todo, preparedTogether) {
		p.parts++
		number := p.parts
		workflow.GoNamed(p.ctx, fmt.Sprintf("%s, part %d", p.work.Kind, number), func(ctx workflow.Context) { g.preparePart(ctx, p, number, some) })
	}
	over := func() bool {
		return !slices.ContainsFunc(clusters, func(name string) bool { return !p.standings[name].State.Over() })
	}
	waiting, stopWaiting := workflow.NewDisconnectedContext(ctx)
	_ = workflow.Await(waiting, func() bool { return over() || interrupted() || ctx.Err() != nil && p.atWork == 0 })
	stopWaiting()
	if ctx.Err() == nil && over() {
		g.record.reason.set(ctx, "", "")
		g.record.leavePlan(ctx, p)
	}
}

// preparePart has some of the clusters prepared, when it is their turn.
func (g *groupUpgrade) preparePart(ctx workflow.Context, p *preparation, number int, clusters []ClusterToPrepare) {
	if workflow.Await(ctx, func() bool { return p.atWork < preparationsAtOnce }) != nil {
		return
	}
	p.atWork++
	defer func() { p.atWork-- }()
	meta, info := g.in.Object.ObjectMeta, workflow.GetInfo(ctx)
	child := workflow.ExecuteChildWorkflow(workflow.WithChildOptions(ctx, workflow.ChildWorkflowOptions{
		WorkflowID:          temporal.ClusterPreparationID(meta.Namespace, meta.Name, string(p.work.Kind), info.WorkflowExecution.RunID[:8], number),
		WaitForCancellation: true,
		ParentClosePolicy:   enumspb.PARENT_CLOSE_POLICY_REQUEST_CANCEL,
		StaticSummary:       fmt.Sprintf("%s of %d clusters, %s and on", p.work.Kind, len(clusters), clusters[0].Name),
		TypedSearchAttributes: sdktemporal.NewSearchAttributes(
			temporal.AttributeGroup.ValueSet(meta.Namespace + "/" + meta.Name),
		),
	}), temporal.ClusterPreparation, ClusterPreparationInput{
		Owner: owner(ctx), Work: p.work, Clusters: clusters, ProgressLimit: progressLimit(preparationsAtOnce, p.work.Timeout),
	})
	var standings map[string]precache.Standing
	err := child.Get(ctx, &standings)
	if ctx.Err() != nil {
		return
	}
	for _, cluster := range clusters {
		standing := standings[cluster.Name]
		if err != nil {
			standing = precache.Standing{State: ranv1.PreparationFailed, Reason: reasonOf(err), Message: temporal.ErrorMessage(err)}
		}
		p.standings[cluster.Name] = standing
	}
	g.record.preparing(ctx, p)
}

// preparationProgressed takes in how clusters stand. What is over stays as it is.
func (g *groupUpgrade) preparationProgressed(ctx workflow.Context, told PreparationProgress) {
	p := g.precaching
	if told.Kind == precache.Backup {
		p = g.backup
	}
	if p == nil || p.ctx.Err() != nil {
		return
	}
	//workflowcheck:ignore what is taken over has no order, either
	for cluster, standing := range told.Standings {
		if known, asked := p.standings[cluster]; asked && !known.State.Over() {
			p.standings[cluster] = standing
		}
	}
	g.record.preparing(ctx, p)
}

// taskQueueOf is where the activities of a cluster run.
func (g *groupUpgrade) taskQueueOf(cluster string) string {
	if queue, own := g.taskQueues[cluster]; own {
		return queue
	}
	return temporal.TaskQueue
}

// preparations takes over what a plan says about precaching and backups. What was done before stays done, unless it is other work now.
func (r *groupRecord) preparations(spec *ranv1.ClusterGroupUpgradeSpec, plan activities.RolloutPlan) {
	before := r.status.Precaching
	r.status.Precaching, r.status.Backup = nil, nil
	if spec.PreCaching {
		r.status.Precaching = &ranv1.PrecachingStatus{Spec: plan.Precaching, Image: plan.PreCacheImage}
		//workflowcheck:ignore to compare values has no order that shows
		if before != nil && before.Image == plan.PreCacheImage && reflect.DeepEqual(before.Spec, plan.Precaching) {
			r.status.Precaching = before
		}
	}
	if spec.Backup {
		r.status.Backup = &ranv1.BackupStatus{Image: plan.BackupImage}
	}
}

// backingUp records that the rollout was enabled, and that backups come first.
func (r *groupRecord) backingUp(ctx workflow.Context) {
	r.status.Backup.StartedAt = r.now(ctx)
	r.condition(ctx, ranv1.ConditionProgressing, metav1.ConditionFalse, ranv1.ReasonNotStarted, "The Cluster backup is in progress")
	r.phase(ranv1.ReasonNotStarted)
}

// preparing records how the clusters stand, and who keeps the rollout waiting.
func (r *groupRecord) preparing(ctx workflow.Context, p *preparation) {
	states := precache.States(p.standings)
	if p.work.Kind == precache.Backup {
		r.status.Backup.Status = states
	} else {
		r.status.Precaching.Status = states
	}
	verdict := p.work.Kind.Judge(states)
	r.condition(ctx, p.work.Kind.Condition(), verdict.Status, verdict.Reason, verdict.Message)
	if verdict.Reason != ranv1.ReasonInProgress {
		r.show()
		return
	}
	wait := &drydockv1.Wait{Reason: p.work.Kind.Reason(), Message: verdict.Message, Since: *r.now(ctx)}
	for _, cluster := range workflow.DeterministicKeys(p.standings) {
		standing := p.standings[cluster]
		if !standing.State.Over() && standing.Message != "" && len(wait.Blockers) < 5 {
			wait.Blockers = append(wait.Blockers, drydockv1.Blocker{Kind: "ManagedCluster", Name: cluster, Reason: standing.Reason, Message: standing.Message})
		}
	}
	r.reason.replace(wait)
	r.show()
}

// leavePlan takes the clusters that could not be prepared out of the plan: they have failed.
func (r *groupRecord) leavePlan(ctx workflow.Context, p *preparation) {
	failed := precache.Failed(precache.States(p.standings))
	s := r.status
	for i := range s.Clusters {
		if c := &s.Clusters[i]; slices.Contains(failed, c.Name) {
			standing := p.standings[c.Name]
			c.State, c.Since, c.CompletedAt = ranv1.ClusterFailed, r.now(ctx), r.now(ctx)
			c.Reason, c.Message = string(standing.State), fmt.Sprintf("%s: %s", p.work.Kind, standing.Message)
		}
	}
	rollout.Leave(s, failed)
	r.list(s.Clusters)
	r.show()
}
