package rollout

import (
	"errors"
	"fmt"
	"time"

	"go.temporal.io/sdk/log"
	sdktemporal "go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/activities/jobs"
	viewsactivities "drydock.dev/drydock/activities/views"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/emergency"
	"drydock.dev/drydock/internal/precache"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/gates"
	"drydock.dev/drydock/workflows/kit"
	"drydock.dev/drydock/workflows/rollout/policy"
	"drydock.dev/drydock/workflows/sweeper"
)

// PreparationInput is the input of a ClusterPreparation.
type PreparationInput struct {
	// Preparation is the id of the whole preparation. Each ClusterPreparation is a part of one, with a number.
	Preparation string `json:"preparation"`
	Part        int    `json:"part,omitempty"`
	// Owner is the ownership mark of the rollout's workflow, for the Jobs.
	Owner    string             `json:"owner"`
	Work     precache.Work      `json:"work"`
	Clusters []ClusterToPrepare `json:"clusters"`
	// ProgressLimit is the maximum interval between progress reports to the rollout.
	ProgressLimit time.Duration `json:"progressLimit"`
	// Held is the state of the emergency stop at the start. The rollout is not paused then.
	Held emergency.State `json:"held,omitzero"`
	// Interval is how often the agents of clusters without credentials read their Jobs again.
	Interval time.Duration `json:"interval,omitempty"`
}

// ClusterToPrepare is a cluster and the task queue of its activities.
type ClusterToPrepare struct {
	Name      string `json:"name"`
	TaskQueue string `json:"taskQueue"`
}

const (
	// jobGrace is how much later than the cluster itself the workflow ends a Job.
	jobGrace = time.Minute
	// jobRemovalLimit limits the wait for the removal of a Job. Its TTL removes it after a day.
	jobRemovalLimit = 2 * time.Minute
)

// ClusterPreparation precaches or backs up clusters in parallel, with a Job for each, and returns the progress of each. It does not wait for an agent that is
// offline: its cluster is NotStarted. On cancellation it stops its
// Jobs.
func ClusterPreparation(ctx workflow.Context, in PreparationInput) (map[string]precache.Progress, error) {
	p := &clusterPreparation{in: in, clusters: map[string]precache.Progress{}}
	for _, cluster := range in.Clusters {
		p.clusters[cluster.Name] = precache.Progress{State: ranv1.PreparationPreparingToStart}
	}
	p.holds.State = in.Held
	p.log = log.With(workflow.GetLogger(ctx), "rollout", temporal.RolloutOf(in.Preparation), "kind", in.Work.Kind)
	if err := errors.Join(workflow.SetQueryHandlerWithOptions(ctx, temporal.QueryStatus,
		func() (map[string]precache.Progress, error) { return p.clusters, nil },
		workflow.QueryHandlerOptions{Description: "The progress of each cluster."}),
		workflow.SetQueryHandlerWithOptions(ctx, temporal.QueryHeld,
			func(clusters []string) (temporal.Held, error) { return p.heldOf(clusters...), nil },
			workflow.QueryHandlerOptions{Description: "Why no Job starts on the named clusters."})); err != nil {
		return nil, err
	}
	return p.run(ctx)
}

// clusterPreparation is one run of the workflow.
type clusterPreparation struct {
	in       PreparationInput
	clusters map[string]precache.Progress
	progress kit.Progress
	holds    gates.Holds
	paused   bool
	log      log.Logger
	jobs     *jobs.Activities
	views    *viewsactivities.Activities
	// sweeperAwake is ready once the sweeper of the hub runs.
	sweeperAwake workflow.Future
}

func (p *clusterPreparation) run(ctx workflow.Context) (map[string]precache.Progress, error) {
	listening, _ := workflow.NewDisconnectedContext(ctx)
	kit.OnSignal(listening, temporal.SignalObserved, "The observation of a waiting activity.", p.observed)
	p.holds.Listen(listening, func() {})
	kit.OnSignal(listening, temporal.SignalPause, "Start no further Job.", func(temporal.SignalRequest) { p.paused = true })
	kit.OnSignal(listening, temporal.SignalResume, "Start Jobs again.", func(temporal.SignalRequest) { p.paused = false })
	if parent := workflow.GetInfo(ctx).ParentWorkflowExecution; parent != nil {
		workflow.GoNamed(listening, "progress", func(ctx workflow.Context) {
			p.progress.Report(ctx, parent.ID, temporal.SignalPreparationProgress, p.in.ProgressLimit, func() any {
				return PreparationProgress{Preparation: p.in.Preparation, Part: p.in.Part, Clusters: p.clusters}
			})
		})
	}
	// Views and actions may be left on the hub, if there are clusters without credentials.
	p.sweeperAwake = sweeper.KeepAwake(ctx, nil, "", "preparation of rollout "+temporal.RolloutOf(p.in.Preparation))
	running := len(p.in.Clusters)
	for _, cluster := range p.in.Clusters {
		workflow.GoNamed(ctx, cluster.Name, func(ctx workflow.Context) {
			p.prepare(ctx, cluster)
			running--
		})
	}
	_ = workflow.Await(listening, func() bool { return running == 0 })
	if ctx.Err() != nil {
		return p.clusters, sdktemporal.NewCanceledError(p.clusters)
	}
	return p.clusters, nil
}

// heldOf is why no Job starts on clusters.
func (p *clusterPreparation) heldOf(clusters ...string) temporal.Held {
	return temporal.Held{Paused: p.paused, Held: p.holds.OfAny(clusters...)}
}

// startBlocked returns why the Job of a cluster may not be created; an empty reason: it may.
func (p *clusterPreparation) startBlocked(cluster string) (reason, message string) {
	held := p.heldOf(cluster)
	switch {
	case held.Held != nil:
		return emergency.ReasonHeld, emergency.Message(*held.Held)
	case held.Paused:
		return policy.ReasonPaused, "no Job is started while the rollout is paused"
	}
	return "", ""
}

// awaitRelease waits until the cluster is not held and the rollout is not paused.
func (p *clusterPreparation) awaitRelease(ctx workflow.Context, cluster string) error {
	kit.HandlePendingSignals(ctx)
	for reason, message := p.startBlocked(cluster); reason != ""; reason, message = p.startBlocked(cluster) {
		p.record(cluster, precache.Progress{State: ranv1.PreparationPreparingToStart, Reason: reason, Message: message})
		changed := func() bool {
			now, why := p.startBlocked(cluster)
			return now != reason || why != message
		}
		if err := workflow.Await(ctx, changed); err != nil {
			return err
		}
		p.record(cluster, precache.Progress{State: ranv1.PreparationPreparingToStart})
	}
	return nil
}

// prepare runs the Job of one cluster, and removes it. After a hold that prevented it, the Job has its full time.
func (p *clusterPreparation) prepare(ctx workflow.Context, cluster ClusterToPrepare) {
	kind := p.in.Work.Kind
	job := jobs.ClusterJob{Cluster: cluster.Name, Preparation: p.in.Preparation, Owner: p.in.Owner, Work: p.in.Work, Interval: p.in.Interval}
	retrier := kit.ClusterRetrier(cluster.Name, &cluster.TaskQueue, func(_ workflow.Context, reason, message string) {
		progress := p.clusters[cluster.Name]
		progress.Reason, progress.Message = reason, message
		p.record(cluster.Name, progress)
	})
	err := workflow.Await(ctx, p.sweeperAwake.IsReady)
	if err == nil {
		err = p.awaitRelease(ctx, cluster.Name)
	}
	for err == nil {
		job.Deadline, job.Held = workflow.Now(ctx).Add(p.in.Work.Timeout+jobGrace+p.in.Interval), ""
		err = p.runJob(ctx, retrier, &job)
		if temporal.ErrorType(err) != temporal.ErrHeld {
			break
		}
		err = p.awaitRelease(ctx, cluster.Name)
	}

	cleanUp, _ := workflow.NewDisconnectedContext(ctx)
	job.Deadline = workflow.Now(ctx).Add(jobRemovalLimit)
	if left := retrier.Wait(cleanUp, "remove the job of "+cluster.Name, &job.Deadline, jobs.ReasonJobStopping, p.jobs.RemoveClusterJob, job, nil); left != nil {
		p.log.Warn("Could not remove a job; it will expire via its TTL", "cluster", cluster.Name, "error", left)
		_ = p.removeViews(cleanUp, retrier.Until(workflow.Now(ctx).Add(policy.HubLimit)), cluster.Name)
	}
	switch {
	case err == nil:
		p.record(cluster.Name, precache.Progress{State: ranv1.PreparationSucceeded})
	case ctx.Err() != nil:
	case temporal.ErrorType(err) == temporal.ErrAgentOffline:
		p.record(cluster.Name, precache.Progress{State: ranv1.PreparationNotStarted, Reason: temporal.ErrAgentOffline, Message: temporal.ErrorMessage(err)})
	case temporal.ErrorType(err) == temporal.ErrJobTimedOut:
		p.record(cluster.Name, precache.Progress{State: kind.TimedOut(), Reason: temporal.ErrJobTimedOut, Message: temporal.ErrorMessage(err)})
	default:
		p.record(cluster.Name, precache.Progress{State: ranv1.PreparationFailed, Reason: kit.ReasonOf(err), Message: temporal.ErrorMessage(err)})
	}
}

// runJob runs the Job of a cluster until it ends. If the cluster is held, or the rollout paused, before the Job exists, it fails with Held.
func (p *clusterPreparation) runJob(ctx workflow.Context, retrier kit.Retrier, job *jobs.ClusterJob) error {
	retrier.BeforeRound = func() error {
		reason, message := p.startBlocked(job.Cluster)
		if job.Held = message; reason != "" && p.clusters[job.Cluster].State == ranv1.PreparationPreparingToStart {
			return temporal.Error(temporal.ErrHeld, message, nil)
		}
		return nil // the activity watches an existing Job, but does not create it again
	}
	running, stop := workflow.WithCancel(ctx)
	defer stop()
	blocked := ""
	workflow.GoNamed(running, "hold "+job.Cluster, func(ctx workflow.Context) {
		// An activity that waits for an agent may have asked it to create the Job.
		if workflow.Await(ctx, func() bool {
			_, blocked = p.startBlocked(job.Cluster)
			progress := p.clusters[job.Cluster]
			return blocked != "" && progress.State == ranv1.PreparationPreparingToStart && jobs.BeforeCreation(progress.Reason)
		}) == nil {
			stop()
		}
	})
	err := retrier.Wait(running, fmt.Sprintf("%s of %s", p.in.Work.Kind, job.Cluster), &job.Deadline, temporal.ErrJobTimedOut, p.jobs.RunClusterJob, job, nil)
	if err == nil || running.Err() == nil || ctx.Err() != nil {
		return err
	}
	if err := p.removeViews(ctx, retrier, job.Cluster); err != nil {
		return err
	}
	return temporal.Error(temporal.ErrHeld, blocked, nil)
}

// removeViews removes the views and actions of a cluster. An action that its agent has not begun would take effect later.
func (p *clusterPreparation) removeViews(ctx workflow.Context, retrier kit.Retrier, cluster string) error {
	hub := kit.HubRetrier(retrier.Report).Until(retrier.Deadline)
	in := viewsactivities.RemoveViewsInput{Owner: p.in.Owner, Clusters: []string{cluster}}
	return hub.Run(ctx, "remove the views and actions of "+cluster, p.views.RemoveViews, in, nil)
}

// observed records the state of the Job of a cluster.
func (p *clusterPreparation) observed(seen temporal.Observation) {
	progress, ours := p.clusters[seen.Cluster]
	if !ours || progress.State.Over() || seen.Wait == nil {
		return
	}
	state := ranv1.PreparationStarting
	switch {
	case seen.Wait.Reason == jobs.ReasonJobRunning:
		state = ranv1.PreparationActive
	case jobs.BeforeCreation(seen.Wait.Reason): // an attempt after a crash does not know the Job until the agent has read it
		state = progress.State
	}
	p.record(seen.Cluster, precache.Progress{State: state, Reason: seen.Wait.Reason, Message: seen.Wait.Message})
}

func (p *clusterPreparation) record(cluster string, progress precache.Progress) {
	if before := p.clusters[cluster]; before.State != progress.State || before.Reason != progress.Reason {
		p.log.Info("Preparation of a cluster changed", "cluster", cluster, "state", progress.State, "reason", progress.Reason, "message", progress.Message)
	}
	p.clusters[cluster] = progress
	p.progress.Changed = true
}
