package workflows

import (
	"errors"
	"fmt"
	"time"

	sdktemporal "go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/activities"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/emergency"
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
	// Held is what the rollout knows of the emergency stop. It was not paused.
	Held emergency.State `json:"held,omitzero"`
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
	p.holds.state = in.Held
	if err := errors.Join(workflow.SetQueryHandlerWithOptions(ctx, temporal.QueryStatus,
		func() (map[string]precache.Standing, error) { return p.standings, nil },
		workflow.QueryHandlerOptions{Description: "Where each cluster stands."}),
		workflow.SetQueryHandlerWithOptions(ctx, temporal.QueryHeld,
			func(clusters []string) (temporal.Held, error) { return p.heldOf(clusters...), nil },
			workflow.QueryHandlerOptions{Description: "What keeps a Job from being started on the clusters that are named."})); err != nil {
		return nil, err
	}
	return p.run(ctx)
}

// clusterPreparation is one run of the workflow.
type clusterPreparation struct {
	in        ClusterPreparationInput
	standings map[string]precache.Standing
	progress  progress
	holds     holdKeeper
	paused    bool
	jobs      *activities.Jobs
}

func (p *clusterPreparation) run(ctx workflow.Context) (map[string]precache.Standing, error) {
	listening, _ := workflow.NewDisconnectedContext(ctx)
	onSignal(listening, temporal.SignalObserved, "What an activity of ours waits for.", p.observed)
	p.holds.listen(listening, func() {})
	onSignal(listening, temporal.SignalPause, "Start no further Job.", func(temporal.SignalRequest) { p.paused = true })
	onSignal(listening, temporal.SignalResume, "Go on starting Jobs.", func(temporal.SignalRequest) { p.paused = false })
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

// heldOf is what keeps a Job from being started on clusters.
func (p *clusterPreparation) heldOf(clusters ...string) temporal.Held {
	return temporal.Held{Paused: p.paused, Held: p.holds.ofAny(clusters...)}
}

// unlessHeld says what keeps the Job of a cluster from being created; an empty reason: nothing does.
func (p *clusterPreparation) unlessHeld(cluster string) (reason, message string) {
	held := p.heldOf(cluster)
	switch {
	case held.Held != nil:
		return emergency.ReasonHeld, emergency.Message(*held.Held)
	case held.Paused:
		return reasonPaused, "no Job is started while the rollout is paused"
	}
	return "", ""
}

// awaitRelease stands before the Job of a cluster: while the cluster is held, or the rollout paused, none starts.
func (p *clusterPreparation) awaitRelease(ctx workflow.Context, cluster string) error {
	for reason, message := p.unlessHeld(cluster); reason != ""; reason, message = p.unlessHeld(cluster) {
		p.stand(cluster, precache.Standing{State: ranv1.PreparationPreparingToStart, Reason: reason, Message: message})
		changed := func() bool {
			now, why := p.unlessHeld(cluster)
			return now != reason || why != message
		}
		if err := workflow.Await(ctx, changed); err != nil {
			return err
		}
		p.stand(cluster, precache.Standing{State: ranv1.PreparationPreparingToStart})
	}
	return nil
}

// prepare runs the Job of one cluster to its end, and removes it. One that was only tried when the cluster was held has all its time after the release.
func (p *clusterPreparation) prepare(ctx workflow.Context, cluster ClusterToPrepare) {
	kind := p.in.Work.Kind
	job := activities.ClusterJob{Cluster: cluster.Name, Preparation: p.in.Preparation, Owner: p.in.Owner, Work: p.in.Work}
	insist := onCluster(cluster.Name, &cluster.TaskQueue, func(_ workflow.Context, reason, message string) {
		standing := p.standings[cluster.Name]
		standing.Reason, standing.Message = reason, message
		p.stand(cluster.Name, standing)
	})
	insist.before = func() error {
		reason, message := p.unlessHeld(cluster.Name)
		if job.Held = message; reason != "" && p.standings[cluster.Name].State == ranv1.PreparationPreparingToStart {
			return temporal.Error(temporal.ErrHeld, message, nil)
		}
		return nil // a Job that was seen is looked after, but not made again
	}
	err := p.awaitRelease(ctx, cluster.Name)
	for err == nil {
		job.Deadline, job.Held = workflow.Now(ctx).Add(p.in.Work.Timeout+jobGrace), ""
		err = insist.wait(ctx, fmt.Sprintf("%s of %s", kind, cluster.Name), &job.Deadline, temporal.ErrJobTimedOut, p.jobs.RunClusterJob, &job, nil)
		if temporal.ErrorType(err) != temporal.ErrHeld {
			break
		}
		err = p.awaitRelease(ctx, cluster.Name)
	}

	cleanUp, _ := workflow.NewDisconnectedContext(ctx)
	insist.before, insist.giveUpAt = nil, workflow.Now(ctx).Add(jobRemovalLimit)
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
