package workflows

import (
	"fmt"
	"time"

	sdktemporal "go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/activities"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/precache"
	"drydock.dev/drydock/internal/temporal"
)

// ClusterPreparationInput says what is done on which clusters of a rollout. It is started by the rollout.
type ClusterPreparationInput struct {
	// Preparation is the one that this is a part of; no other has its id.
	Preparation string `json:"preparation"`
	// Owner is the mark of the rollout's workflow, in whose name the Jobs are made.
	Owner    string             `json:"owner"`
	Work     precache.Work      `json:"work"`
	Clusters []ClusterToPrepare `json:"clusters"`
	// ProgressLimit is the longest that the interval between messages to the rollout grows to.
	ProgressLimit time.Duration `json:"progressLimit"`
}

// ClusterToPrepare is a cluster and who works on it.
type ClusterToPrepare struct {
	Name      string `json:"name"`
	TaskQueue string `json:"taskQueue"`
}

const (
	// jobGrace is what a Job is given beyond its own deadline, at which its cluster ends it, before it is stopped from here.
	jobGrace = time.Minute
	// jobRemovalLimit is how long a preparation insists on removing a Job: it goes by itself a day after its end.
	jobRemovalLimit = 2 * time.Minute
)

// ClusterPreparation precaches or backs up some clusters at once, each by a Job, and returns how each stands in the end. Cancelled, it stops its
// Jobs.
func ClusterPreparation(ctx workflow.Context, in ClusterPreparationInput) (map[string]precache.Standing, error) {
	p := &clusterPreparation{in: in, standings: map[string]precache.Standing{}}
	for _, cluster := range in.Clusters {
		p.standings[cluster.Name] = precache.Standing{State: ranv1.PreparationPreparingToStart}
	}
	if err := workflow.SetQueryHandlerWithOptions(ctx, temporal.QueryStatus,
		func() (map[string]precache.Standing, error) { return p.standings, nil },
		workflow.QueryHandlerOptions{Description: "Where each cluster stands."}); err != nil {
		return nil, err
	}
	return p.run(ctx)
}

// clusterPreparation is one run of the workflow.
type clusterPreparation struct {
	in        ClusterPreparationInput
	standings map[string]precache.Standing
	progress  progress
	jobs      *activities.Jobs
}

func (p *clusterPreparation) run(ctx workflow.Context) (map[string]precache.Standing, error) {
	listening, _ := workflow.NewDisconnectedContext(ctx)
	onSignal(listening, temporal.SignalObserved, "What an activity of ours waits for.", p.observed)
	if parent := workflow.GetInfo(ctx).ParentWorkflowExecution; parent != nil {
		workflow.GoNamed(listening, "progress", func(ctx workflow.Context) {
			p.progress.report(ctx, parent.ID, temporal.SignalPreparationProgress, p.in.ProgressLimit, func() any {
				return PreparationProgress{Preparation: p.in.Preparation, Standings: p.standings}
			})
		})
	}
	atWork := len(p.in.Clusters)
	for _, cluster := range p.in.Clusters {
		workflow.GoNamed(ctx, cluster.Name, func(ctx workflow.Context) {
			p.prepare(ctx, cluster)
			atWork--
		})
	}
	_ = workflow.Await(listening, func() bool { return atWork == 0 })
	if ctx.Err() != nil {
		return p.standings, sdktemporal.NewCanceledError(p.standings)
	}
	return p.standings, nil
}

// prepare runs the Job of one cluster to its end, and removes it.
func (p *clusterPreparation) prepare(ctx workflow.Context, cluster ClusterToPrepare) {
	kind := p.in.Work.Kind
	deadline := workflow.Now(ctx).Add(p.in.Work.Timeout + jobGrace)
	job := activities.ClusterJob{Cluster: cluster.Name, Preparation: p.in.Preparation, Owner: p.in.Owner, Work: p.in.Work, Deadline: deadline}
	insist := insistence{taskQueue: cluster.TaskQueue, waiting: func(_ workflow.Context, reason, message string) {
		standing := p.standings[cluster.Name]
		standing.Reason, standing.Message = reason, message
		p.stand(cluster.Name, standing)
	}}
	err := insist.wait(ctx, fmt.Sprintf("%s of %s", kind, cluster.Name), &deadline, temporal.ErrJobTimedOut, p.jobs.RunClusterJob, job, nil)

	cleanUp, _ := workflow.NewDisconnectedContext(ctx)
	insist.giveUpAt = workflow.Now(ctx).Add(jobRemovalLimit)
	if left := insist.effect(cleanUp, "remove the job of "+cluster.Name, p.jobs.RemoveClusterJob, job, nil); left != nil {
		workflow.GetLogger(ctx).Warn("a job could not be removed, and goes by itself", "cluster", cluster.Name, "error", left)
	}
	switch {
	case err == nil:
		p.stand(cluster.Name, precache.Standing{State: ranv1.PreparationSucceeded})
	case ctx.Err() != nil:
	case temporal.ErrorType(err) == temporal.ErrJobTimedOut:
		p.stand(cluster.Name, precache.Standing{State: kind.TimedOut(), Reason: temporal.ErrJobTimedOut, Message: temporal.ErrorMessage(err)})
	default:
		p.stand(cluster.Name, precache.Standing{State: ranv1.PreparationFailed, Reason: reasonOf(err), Message: temporal.ErrorMessage(err)})
	}
}

// observed takes in what the Job of a cluster does.
func (p *clusterPreparation) observed(seen temporal.Observation) {
	standing, ours := p.standings[seen.Cluster]
	if !ours || standing.State.Over() || seen.Wait == nil {
		return
	}
	state := ranv1.PreparationStarting
	if seen.Wait.Reason == activities.ReasonJobRunning {
		state = ranv1.PreparationActive
	}
	p.stand(seen.Cluster, precache.Standing{State: state, Reason: seen.Wait.Reason, Message: seen.Wait.Message})
}

func (p *clusterPreparation) stand(cluster string, standing precache.Standing) {
	p.standings[cluster] = standing
	p.progress.changed = true
}
