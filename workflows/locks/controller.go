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

// Input says for which application the locks are kept, and in which cluster.
type Input struct {
	Cluster string `json:"cluster"`
	// TaskQueue of the cluster's activities; empty: it is looked up.
	TaskQueue string `json:"taskQueue,omitempty"`
	// Policy describes the application.
	Policy drydockv1.WorkloadLockPolicy `json:"policy"`
	// Carried is the status from the run before; nil in the first.
	Carried *Status `json:"carried,omitempty"`
}

// WorkloadLockController keeps the locks of an application that has no controller of its own: it waits until one of them is not as it should
// be, and puts it right. It runs until it is cancelled, and leaves the locks as they are then: if it made them inactive, it would give up a
// veto that nobody asked it to give up. Those that are active go on blocking maintenance until the controller is started again or a person
// deletes them, which its last status says.
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
	record *lockRecord

	// withdraw ends the work; withdrawn says on whose word.
	withdraw  workflow.CancelFunc
	withdrawn *temporal.SignalRequest
	signals   int

	locks *lockcontroller.Activities
}

func newLockController(ctx workflow.Context, in Input) (*lockController, error) {
	c := &lockController{in: in}
	c.record = newLockRecord(ctx, &c.status, in)
	return c, workflow.SetQueryHandlerWithOptions(ctx, temporal.QueryStatus,
		func() (Status, error) { return c.status, nil },
		workflow.QueryHandlerOptions{Description: "The policy, the locks and why each is as it is."})
}

// run keeps the locks until the run ends.
func (c *lockController) run(ctx workflow.Context) (Status, error) {
	work, withdraw := workflow.WithCancel(ctx)
	c.withdraw = withdraw
	listening, _ := workflow.NewDisconnectedContext(ctx)
	c.listen(listening)

	err := c.keep(work)
	if workflow.IsContinueAsNewError(err) {
		return Status{}, err
	}
	return c.finish(listening, err)
}

func (c *lockController) listen(ctx workflow.Context) {
	kit.OnSignal(ctx, temporal.SignalCancel, "End, and leave the locks as they are.", func(r temporal.SignalRequest) {
		c.signals++
		if c.withdrawn == nil {
			c.withdrawn = &r
		}
		c.withdraw()
	})
}

// keep begins by putting the locks right, so that the status is full from the start, and then does so whenever something is due.
func (c *lockController) keep(ctx workflow.Context) error {
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

// apply puts the locks right and takes over how they are then. A cluster that does not answer for weeks makes the history long: then it returns errLong.
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
	c.record.report(ctx, report)
	return nil
}

// observe waits until something is due. After an outage the locks are put right once more, which also says how they are now.
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

// retrier returns the retrier of this controller: its status says why an activity does not succeed.
func (c *lockController) retrier() kit.Retrier {
	return kit.ClusterRetrier(c.in.Cluster, &c.in.TaskQueue, c.record.reason.Set)
}

// continueAsNew hands the state to a new run. No activity runs, and no signal is left behind.
func (c *lockController) continueAsNew(ctx workflow.Context) error {
	kit.HandlePendingSignals(ctx)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	in := c.in
	in.Carried = &c.status
	return workflow.NewContinueAsNewError(ctx, temporal.WorkloadLockController, in)
}

// finish records how the controller ended. It always ends in an error: left alone it would go on.
func (c *lockController) finish(ctx workflow.Context, err error) (Status, error) {
	if sdktemporal.IsCanceledError(err) {
		by := ""
		if c.withdrawn != nil {
			by = kit.ActorSuffix(*c.withdrawn)
		}
		c.record.end(ctx, Cancelled, "cancelled"+by)
		return c.status, sdktemporal.NewCanceledError(c.status)
	}
	c.record.end(ctx, Failed, temporal.ErrorMessage(err))
	return c.status, sdktemporal.NewApplicationErrorWithOptions(temporal.ErrorMessage(err), kit.ReasonOf(err),
		sdktemporal.ApplicationErrorOptions{NonRetryable: true, Details: []any{c.status}})
}
