package workflows

import (
	"errors"
	"time"

	sdktemporal "go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/activities"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	"drydock.dev/drydock/internal/locks"
	"drydock.dev/drydock/internal/temporal"
)

// WorkloadLockControllerInput says for which application the locks are kept, and in which cluster.
type WorkloadLockControllerInput struct {
	Cluster string `json:"cluster"`
	// TaskQueue of the cluster's activities; empty: it is looked up.
	TaskQueue string `json:"taskQueue,omitempty"`
	// Policy describes the application.
	Policy drydockv1.WorkloadLockPolicy `json:"policy"`
	// Carried is the status from the run before; nil in the first.
	Carried *WorkloadLockControllerStatus `json:"carried,omitempty"`
}

// WorkloadLockController keeps the locks of an application that has no controller of its own: it waits until one of them is not as it should
// be, and puts it right. It runs until it is cancelled, and leaves the locks as they are then: if it made them inactive, it would give up a
// veto that nobody asked it to give up. Those that are active go on blocking maintenance until the controller is started again or a person
// deletes them, which its last status says.
func WorkloadLockController(ctx workflow.Context, in WorkloadLockControllerInput) (WorkloadLockControllerStatus, error) {
	c, err := newLockController(ctx, in)
	if err != nil {
		return WorkloadLockControllerStatus{}, err
	}
	return c.run(ctx)
}

// lockController is one run of the workflow.
type lockController struct {
	in     WorkloadLockControllerInput
	status WorkloadLockControllerStatus
	record *lockRecord

	// withdraw ends the work; withdrawn says on whose word.
	withdraw  workflow.CancelFunc
	withdrawn *temporal.SignalRequest
	signals   int

	locks *activities.WorkloadLocks
}

func newLockController(ctx workflow.Context, in WorkloadLockControllerInput) (*lockController, error) {
	c := &lockController{in: in}
	c.record = newLockRecord(ctx, &c.status, in)
	return c, workflow.SetQueryHandlerWithOptions(ctx, temporal.QueryStatus,
		func() (WorkloadLockControllerStatus, error) { return c.status, nil },
		workflow.QueryHandlerOptions{Description: "The policy, the locks and why each is as it is."})
}

// run keeps the locks until the run ends.
func (c *lockController) run(ctx workflow.Context) (WorkloadLockControllerStatus, error) {
	work, withdraw := workflow.WithCancel(ctx)
	c.withdraw = withdraw
	listening, _ := workflow.NewDisconnectedContext(ctx)
	c.listen(listening)

	err := c.keep(work)
	if workflow.IsContinueAsNewError(err) {
		return WorkloadLockControllerStatus{}, err
	}
	return c.finish(listening, err)
}

func (c *lockController) listen(ctx workflow.Context) {
	onSignal(ctx, temporal.SignalCancel, "End, and leave the locks as they are.", func(r temporal.SignalRequest) {
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
	due := activities.WorkloadLocksDue{}
	for {
		err := c.apply(ctx, due)
		if errors.Is(err, errLong) || err == nil && mustContinueAsNew(ctx, c.signals) {
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
	hub := insistence{taskQueue: temporal.TaskQueue, waiting: c.record.reason.set}
	return locate(ctx, hub, c.in.Cluster, &c.in.TaskQueue)
}

// apply puts the locks right and takes over how they are then. A cluster that does not answer for weeks makes the history long: then it returns errLong.
func (c *lockController) apply(ctx workflow.Context, due activities.WorkloadLocksDue) error {
	insist := c.insist()
	insist.before = func() error {
		if mustContinueAsNew(ctx, c.signals) {
			return errLong
		}
		return nil
	}
	var report locks.Report
	if err := insist.wait(ctx, applySummary(due), nil, "", c.locks.ApplyWorkloadLocks, c.input(ctx), &report); err != nil {
		return err
	}
	c.record.report(ctx, report)
	return nil
}

// observe waits until something is due. After an outage the locks are put right once more, which also says how they are now.
func (c *lockController) observe(ctx workflow.Context) (due activities.WorkloadLocksDue, err error) {
	oneRound := c.insist()
	oneRound.giveUpAt = workflow.Now(ctx).Add(-time.Nanosecond)
	err = oneRound.wait(ctx, "watch the locks of "+c.in.Policy.Spec.ControllerName, nil, "", c.locks.ObserveWorkloadLocks, c.input(ctx), &due)
	if err != nil && !temporal.Final(err) && ctx.Err() == nil {
		return activities.WorkloadLocksDue{}, nil
	}
	return due, err
}

func (c *lockController) input(ctx workflow.Context) activities.WorkloadLocksInput {
	return activities.WorkloadLocksInput{Cluster: c.in.Cluster, Owner: owner(ctx), Policy: c.in.Policy.Spec}
}

// insist returns the insistence of this controller: its status says why an activity does not succeed.
func (c *lockController) insist() insistence {
	return onCluster(c.in.Cluster, &c.in.TaskQueue, c.record.reason.set)
}

// continueAsNew hands the state to a new run. No activity runs, and no signal is left behind.
func (c *lockController) continueAsNew(ctx workflow.Context) error {
	hearSignals(ctx)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	in := c.in
	in.Carried = &c.status
	return workflow.NewContinueAsNewError(ctx, temporal.WorkloadLockController, in)
}

// finish records how the controller ended. It always ends in an error: left alone it would go on.
func (c *lockController) finish(ctx workflow.Context, err error) (WorkloadLockControllerStatus, error) {
	if sdktemporal.IsCanceledError(err) {
		by := ""
		if c.withdrawn != nil {
			by = byWhom(*c.withdrawn)
		}
		c.record.end(ctx, LockControllerCancelled, "cancelled"+by)
		return c.status, sdktemporal.NewCanceledError(c.status)
	}
	c.record.end(ctx, LockControllerFailed, temporal.ErrorMessage(err))
	return c.status, sdktemporal.NewApplicationErrorWithOptions(temporal.ErrorMessage(err), reasonOf(err),
		sdktemporal.ApplicationErrorOptions{NonRetryable: true, Details: []any{c.status}})
}
