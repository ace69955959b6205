// Package onboarding holds the workflow that rolls out policies to clusters that are new on a hub.
package onboarding

import (
	"errors"
	"fmt"
	"slices"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	sdktemporal "go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	onboardingactivities "drydock.dev/drydock/activities/onboarding"
	"drydock.dev/drydock/internal/rollout"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/kit"
	rolloutworkflow "drydock.dev/drydock/workflows/rollout"
)

// Input is empty, except for the state that a run passes to the next one.
type Input struct {
	Carried *Status `json:"carried,omitempty"`
}

// Continues implements kit.Continued.
func (in Input) Continues() bool { return in.Carried != nil }

const (
	// messageLimit is the maximum length of the message of a status, in bytes.
	messageLimit = 500
	// maxRunning is the maximum number of clusters that are onboarded at the same time. The server blocks a run with too many children.
	maxRunning = 250
	// gatherEnds is how long the workflow gathers ends of rollouts before it restarts the watch with the new state.
	gatherEnds = 5 * time.Second
	// watchHubAgainAfter is the pause before a failed watch of the hub is retried.
	watchHubAgainAfter = 30 * time.Second
)

// Onboarding starts a rollout of its policies, ordered by their waves, for each ManagedCluster that becomes Available without the label of onboarded
// clusters. It ends only when it is cancelled. Rollouts that it has started continue.
func Onboarding(ctx workflow.Context, in Input) (Status, error) {
	o := newOnboarding(ctx, in)
	if err := errors.Join(
		workflow.SetQueryHandlerWithOptions(ctx, temporal.QueryStatus, func() (Status, error) { return o.record.status, nil },
			workflow.QueryHandlerOptions{Description: "Clusters that are being onboarded, and those that failed."}),
		workflow.SetUpdateHandlerWithOptions(ctx, temporal.UpdateRetry, o.retry, workflow.UpdateHandlerOptions{
			Description: "Retry the onboarding of failed clusters: {actor, reason, clusters}.", Validator: o.checkRetry,
		}),
	); err != nil {
		return Status{}, err
	}
	return o.run(ctx)
}

// Retry retries the onboarding of failed clusters with the policies that they have now.
type Retry struct {
	Actor    string   `json:"actor,omitempty"`
	Reason   string   `json:"reason,omitempty"`
	Clusters []string `json:"clusters"`
}

// retry removes failed clusters from the status. The watch finds those that still need onboarding again.
func (o *onboarding) retry(_ workflow.Context, r Retry) error {
	o.record.settled(r.Clusters)
	if r.Reason != "" {
		o.record.status.Message = temporal.Cut("retried"+kit.ActorSuffix(temporal.SignalRequest{Actor: r.Actor, Reason: r.Reason}), messageLimit)
	}
	o.outdated = true
	return nil
}

func (o *onboarding) checkRetry(r Retry) error {
	var others []string
	for _, name := range r.Clusters {
		if cluster := o.record.cluster(name); cluster == nil || cluster.State != Failed {
			others = append(others, name)
		}
	}
	switch {
	case len(r.Clusters) == 0:
		return kit.InvalidSpec(errors.New("clusters: name at least one"))
	case len(others) > 0:
		return kit.InvalidSpec(fmt.Errorf("clusters: not among those that failed: %s", kit.JoinNames(others)))
	}
	return nil
}

// onboarding is one run of the workflow.
type onboarding struct {
	record *record
	// starting counts the rollouts that are being started. The run must not continue as new before they have started.
	starting int
	// outdated: the watch must start again with the new state.
	outdated bool

	cancel    workflow.CancelFunc
	cancelled *temporal.SignalRequest
	hub       *onboardingactivities.Activities
}

func newOnboarding(ctx workflow.Context, in Input) *onboarding {
	return &onboarding{record: newRecord(ctx, in.Carried)}
}

func (o *onboarding) run(ctx workflow.Context) (Status, error) {
	work, cancel := workflow.WithCancel(ctx)
	o.cancel = cancel
	listening, _ := workflow.NewDisconnectedContext(ctx)
	kit.OnSignal(listening, temporal.SignalCancel, "Stop onboarding. Started rollouts continue.", func(r temporal.SignalRequest) {
		if o.cancelled == nil {
			o.cancelled = &r
		}
		o.cancel()
	})
	o.startAll(work)
	err := o.watch(work)
	if workflow.IsContinueAsNewError(err) {
		return Status{}, err
	}
	if o.cancelled != nil {
		o.record.status.Message = "stopped" + kit.ActorSuffix(*o.cancelled)
	}
	return o.record.status, sdktemporal.NewCanceledError(o.record.status)
}

// watch finds new clusters until ctx is cancelled.
func (o *onboarding) watch(ctx workflow.Context) error {
	for {
		if err := workflow.Await(ctx, func() bool { return o.record.status.Count(Waiting) < maxRunning }); err != nil {
			return err
		}
		if kit.ShouldContinueAsNew(ctx, 0) {
			return o.continueAsNew(ctx)
		}
		found, err := o.await(ctx)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case sdktemporal.IsCanceledError(err): // the state has changed
		case err != nil:
			o.record.reason.Set(ctx, kit.ReasonOf(err), temporal.ErrorMessage(err))
			if workflow.NewTimerWithOptions(ctx, watchHubAgainAfter, workflow.TimerOptions{Summary: "pause before the next watch of the hub"}).Get(ctx, nil) != nil {
				return ctx.Err()
			}
			o.record.reason.Set(ctx, "", "")
		}
		o.record.settled(found.Settled)
		for _, cluster := range found.Found {
			o.record.found(ctx, cluster)
		}
		o.startAll(ctx)
	}
}

// await watches the hub for new clusters. The end of a rollout interrupts the watch, because it changes the set of known clusters.
func (o *onboarding) await(ctx workflow.Context) (onboardingactivities.NewClusters, error) {
	o.outdated = false
	watching, stop := workflow.WithCancel(ctx)
	workflow.GoNamed(watching, "restart the watch", func(ctx workflow.Context) {
		if workflow.Await(ctx, func() bool { return o.outdated }) != nil {
			return
		}
		if workflow.NewTimerWithOptions(ctx, gatherEnds, workflow.TimerOptions{Summary: "gather the ends of rollouts"}).Get(ctx, nil) == nil {
			stop()
		}
	})
	var found onboardingactivities.NewClusters
	retrier := kit.HubRetrier(o.record.reason.Set)
	err := retrier.Watch(watching, "watch for new clusters", o.hub.AwaitNewClusters, o.record.known(), &found)
	stop()
	return found, err
}

// startAll starts the rollouts of the next clusters.
func (o *onboarding) startAll(ctx workflow.Context) {
	for _, cluster := range o.record.next(maxRunning) {
		// A rollout continues when onboarding is stopped.
		following, _ := workflow.NewDisconnectedContext(ctx)
		workflow.GoNamed(following, cluster.Name, func(ctx workflow.Context) {
			end, err := o.onboard(ctx, cluster)
			if err != nil {
				end = onboardingactivities.RolloutEnd{Reason: kit.ReasonOf(err), Message: temporal.ErrorMessage(err)}
			}
			o.record.ended(ctx, cluster.Name, end)
			o.outdated = true
			o.startAll(ctx)
		})
	}
}

// onboard starts the rollout of a cluster, or finds it running, and waits for its end.
func (o *onboarding) onboard(ctx workflow.Context, cluster Cluster) (onboardingactivities.RolloutEnd, error) {
	run := onboardingactivities.RolloutRun{Namespace: rollout.OnboardingNamespace, Name: cluster.Name, RunID: cluster.RunID}
	if cluster.RunID == "" {
		var object *temporal.Object
		retrier := kit.HubRetrier(func(_ workflow.Context, reason, message string) { o.record.waits(cluster.Name, reason, message) })
		created := onboardingactivities.NewCluster{Name: cluster.Name, Policies: cluster.Policies}
		if err := retrier.Run(ctx, "create the object of "+cluster.Name, o.hub.CreateObject, created, &object); err != nil {
			return onboardingactivities.RolloutEnd{}, err
		}
		o.record.hasObject(cluster.Name, object != nil)
		child, started, err := o.start(ctx, cluster, object)
		if err == nil {
			o.record.started(ctx, cluster.Name, started.RunID)
			return o.childEnd(ctx, child.Get(ctx, nil), object)
		}
		if _, running := errors.AsType[*sdktemporal.ChildWorkflowExecutionAlreadyStartedError](err); !running {
			return onboardingactivities.RolloutEnd{}, err
		}
		o.record.foundRunning(ctx, cluster.Name)
	}
	var end onboardingactivities.RolloutEnd
	retrier := kit.HubRetrier(nil)
	err := retrier.Wait(ctx, "await the rollout of "+cluster.Name, nil, "", o.hub.AwaitRollout, run, &end)
	return end, err
}

// start starts the rollout of a cluster, which its object shows, if it has one. It does not depend on this workflow.
func (o *onboarding) start(ctx workflow.Context, cluster Cluster, source *temporal.Object) (workflow.ChildWorkflowFuture, workflow.Execution, error) {
	o.starting++
	defer func() { o.starting-- }()
	in := rolloutworkflow.Input{Object: rollout.OnboardingRollout(cluster.Name, cluster.Policies), Source: source}
	object, memo := in.Object, map[string]any{}
	if source != nil {
		memo[temporal.MemoObject] = *source // controllers find the rollout of the object
	}
	child := workflow.ExecuteChildWorkflow(workflow.WithChildOptions(ctx, workflow.ChildWorkflowOptions{
		WorkflowID:            temporal.ClusterGroupUpgradeID(object.Namespace, object.Name),
		WorkflowIDReusePolicy: enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE,
		ParentClosePolicy:     enumspb.PARENT_CLOSE_POLICY_ABANDON,
		StaticSummary:         "onboarding of " + cluster.Name,
		Memo:                  memo,
		StaticDetails:         temporal.RolloutDetails(object.Namespace + "/" + object.Name),
		TypedSearchAttributes: sdktemporal.NewSearchAttributes(
			temporal.AttributeGroup.ValueSet(object.Namespace+"/"+object.Name),
			temporal.AttributePaused.ValueSet(false),
		),
	}), temporal.ClusterGroupUpgrade, in)
	var execution workflow.Execution
	err := child.GetChildWorkflowExecution().Get(ctx, &execution)
	return child, execution, err
}

// childEnd is the end of a rollout that was started as a child. One that finds that its object has had its rollout ends cancelled: a controller was faster.
func (o *onboarding) childEnd(ctx workflow.Context, err error, object *temporal.Object) (end onboardingactivities.RolloutEnd, failure error) {
	switch {
	case err == nil:
		return onboardingactivities.RolloutEnd{Succeeded: true}, nil
	case sdktemporal.IsCanceledError(err) && object != nil:
		retrier := kit.HubRetrier(nil)
		failure = retrier.Run(ctx, "read how the rollout of "+object.Name+" ended", o.hub.ReadEnd, *object, &end)
		return end, failure
	case sdktemporal.IsCanceledError(err):
		return onboardingactivities.Cancelled(), nil
	}
	return onboardingactivities.RolloutEnd{Reason: kit.ReasonOf(err), Message: temporal.ErrorMessage(err)}, nil
}

// continueAsNew passes the state to a new run, which follows the running rollouts.
func (o *onboarding) continueAsNew(ctx workflow.Context) error {
	if err := workflow.Await(ctx, func() bool { return o.starting == 0 }); err != nil {
		return err
	}
	kit.HandlePendingSignals(ctx)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	status := o.record.status
	status.Clusters = slices.Clone(status.Clusters)
	o.record.log.Info("Onboarding continues as new", "clusters", len(status.Clusters))
	return workflow.NewContinueAsNewError(ctx, temporal.Onboarding, Input{Carried: &status})
}
