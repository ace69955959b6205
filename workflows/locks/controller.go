// Package locks holds the workflow that operates the workload locks of one application in a cluster.
package locks

import (
	"errors"

	sdktemporal "go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/activities/lockcontroller"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	"drydock.dev/drydock/internal/locks"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/kit"
)

// Input names the application whose locks are managed, and its cluster.
type Input struct {
	Cluster string `json:"cluster"`
	// TaskQueue is that of the cluster's activities; empty until it is looked up.
	TaskQueue string `json:"taskQueue,omitempty"`
	// Policy describes the application.
	Policy drydockv1.WorkloadLockPolicy `json:"policy"`
	// Carried is the status of the previous run; nil in the first run.
	Carried *Status `json:"carried,omitempty"`
}

// WorkloadLockController manages the locks of an application that has no lock controller of its own. It watches them and corrects each that differs
// from the policy. When it is cancelled, it leaves the locks as they are: to release them would give up a veto without a request. Active locks keep
// blocking maintenance until the controller is started again or a person deletes them. The last status names them.
func WorkloadLockController(ctx workflow.Context, in Input) (Status, error) {
	c, err := newLockController(ctx, in)
	if err != nil {
		return Status{}, err
	}
	return c.run(ctx)
}

// lockController is one run of the workflow.
type lockController struct {
	in     Input
	status Status
	record *record

	// cancel ends the work; cancelled is the signal that requested it.
	cancel    workflow.CancelFunc
	cancelled *temporal.SignalRequest
	signals   int

	locks *lockcontroller.Activities
}

func newLockController(ctx workflow.Context, in Input) (*lockController, error) {
	c := &lockController{in: in}
	c.record = newRecord(ctx, &c.status, in)
	return c, workflow.SetQueryHandlerWithOptions(ctx, temporal.QueryStatus,
		func() (Status, error) { return c.status, nil },
		workflow.QueryHandlerOptions{Description: "The policy, and the state of each lock with its reason."})
}

// run manages the locks until the run ends.
func (c *lockController) run(ctx workflow.Context) (Status, error) {
	work, cancel := workflow.WithCancel(ctx)
	c.cancel = cancel
	listening, _ := workflow.NewDisconnectedContext(ctx)
	c.listen(listening)

	err := c.manage(work)
	if workflow.IsContinueAsNewError(err) {
		return Status{}, err
	}
	return c.finish(listening, err)
}

func (c *lockController) listen(ctx workflow.Context) {
	kit.OnSignal(ctx, temporal.SignalCancel, "End the controller. The locks keep their state.", func(r temporal.SignalRequest) {
		c.signals++
		if c.cancelled == nil {
			c.cancelled = &r
		}
		c.cancel()
	})
}

// manage applies the policy to all locks at the start, so that the status is complete, and then whenever a lock is due for a change.
func (c *lockController) manage(ctx workflow.Context) error {
	if err := c.locateCluster(ctx); err != nil {
		return err
	}
	due := lockcontroller.Due{}
	for {
		err := c.apply(ctx, due)
		if errors.Is(err, kit.ErrHistoryLong) || err == nil && kit.ShouldContinueAsNew(ctx, c.signals) {
			return c.continueAsNew(ctx)
		}
		if err != nil {
			return err
		}
		if due, err = c.observe(ctx); err != nil {
			return err
		}
	}
}

func (c *lockController) locateCluster(ctx workflow.Context) error {
	if c.in.TaskQueue != "" {
		return nil
	}
	hub := kit.HubRetrier(c.record.reason.Set)
	return kit.Locate(ctx, hub, c.in.Cluster, &c.in.TaskQueue)
}

// apply applies the policy and records the result. It returns kit.ErrHistoryLong if the cluster is unreachable for so long that the history fills up.
func (c *lockController) apply(ctx workflow.Context, due lockcontroller.Due) error {
	retrier := c.retrier()
	retrier.BeforeRound = func() error {
		if kit.ShouldContinueAsNew(ctx, c.signals) {
			return kit.ErrHistoryLong
		}
		return nil
	}
	var report locks.Report
	if err := retrier.Wait(ctx, applySummary(due), nil, "", c.locks.ApplyWorkloadLocks, c.input(ctx), &report); err != nil {
		return err
	}
	c.record.applied(due)
	c.record.report(ctx, report)
	return nil
}

// observe waits until a lock is due for a change. After an outage it returns without one, so that all locks are applied again.
func (c *lockController) observe(ctx workflow.Context) (due lockcontroller.Due, err error) {
	err = c.retrier().Once().Wait(ctx, "watch the locks of "+c.in.Policy.Spec.ControllerName, nil, "", c.locks.ObserveWorkloadLocks, c.input(ctx), &due)
	if err != nil && !temporal.Final(err) && ctx.Err() == nil {
		return lockcontroller.Due{}, nil
	}
	return due, err
}

func (c *lockController) input(ctx workflow.Context) lockcontroller.Input {
	return lockcontroller.Input{Cluster: c.in.Cluster, Owner: kit.Owner(ctx), Policy: c.in.Policy.Spec}
}

// retrier returns a retrier that reports failing activities in the status.
func (c *lockController) retrier() kit.Retrier {
	return kit.ClusterRetrier(c.in.Cluster, &c.in.TaskQueue, c.record.reason.Set)
}

// continueAsNew carries the status to a new run. No activity runs at this point.
func (c *lockController) continueAsNew(ctx workflow.Context) error {
	kit.HandlePendingSignals(ctx)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	in := c.in
	in.Carried = &c.status
	c.record.log.Info("Lock controller continues as new")
	return workflow.NewContinueAsNewError(ctx, temporal.WorkloadLockController, in)
}

// finish records how the controller ended. That is always an error, because a controller has no regular end.
func (c *lockController) finish(ctx workflow.Context, err error) (Status, error) {
	if sdktemporal.IsCanceledError(err) {
		by := ""
		if c.cancelled != nil {
			by = kit.ActorSuffix(*c.cancelled)
		}
		c.record.end(ctx, Cancelled, "cancelled"+by)
		return c.status, sdktemporal.NewCanceledError(c.status)
	}
	c.record.end(ctx, Failed, temporal.ErrorMessage(err))
	return c.status, sdktemporal.NewApplicationErrorWithOptions(temporal.ErrorMessage(err), kit.ReasonOf(err),
		sdktemporal.ApplicationErrorOptions{NonRetryable: true, Details: []any{c.status}})
}
