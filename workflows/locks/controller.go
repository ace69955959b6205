// Package locks holds the workflow that operates the workload locks of one application in a cluster.
package locks

import (
	"errors"

	sdktemporal "go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/drydock/activities/lockcontroller"
	"drydock.dev/drydock/activities/objects"
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
	// Source is the WorkloadLockPolicy in the cluster that started the controller; nil: it was started without one.
	Source *temporal.Object `json:"source,omitempty"`
	// Carried is the status of the previous run; nil in the first run.
	Carried *Status `json:"carried,omitempty"`
	// CarriedObject is what the previous run knew about the Source.
	CarriedObject *CarriedObject `json:"carriedObject,omitempty"`
}

// Continues implements kit.Continued.
func (in Input) Continues() bool { return in.Carried != nil || in.CarriedObject != nil }

// ClusterName implements kit.OnCluster.
func (in Input) ClusterName() string { return in.Cluster }

// WorkloadLockController manages the locks of an application that has no lock controller of its own. It watches them and corrects each that differs
// from the policy. When it is cancelled, it leaves the locks as they are: to release them would give up a veto without a request. Active locks keep
// blocking maintenance until the controller is started again or a person deletes them. The last status names them. When its WorkloadLockPolicy is
// deleted, it removes the locks: the application no longer holds the cluster.
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

	// object is the request of the Source, edits counts the edits of the policy in this run, and conditions are those that it shows. Known: it existed.
	object     ObjectRequest
	known      bool
	edits      int
	conditions []metav1.Condition
	// failed is the reason why the controller failed.
	failed string

	locks   *lockcontroller.Activities
	objects *objects.Activities
}

func newLockController(ctx workflow.Context, in Input) (*lockController, error) {
	c := &lockController{in: in}
	c.record = newRecord(ctx, &c.status, in)
	c.record.publisher = kit.Publisher{Object: in.Source, Current: c.objectStatus, Retrier: kit.ClusterRetrier(in.Cluster, &c.in.TaskQueue, nil)}
	if carried := in.CarriedObject; carried != nil {
		c.object, c.conditions, c.record.publisher.State = carried.Request, carried.Conditions, carried.Publisher
		c.record.publisher.Open()
		c.record.publisher.Change()
		c.known = true
	}
	c.in.Carried, c.in.CarriedObject = nil, nil
	return c, errors.Join(c.listenForEdits(ctx), workflow.SetQueryHandlerWithOptions(ctx, temporal.QueryStatus,
		func() (Status, error) { return c.status, nil },
		workflow.QueryHandlerOptions{Description: "The policy, and the state of each lock with its reason."}))
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
	workflow.GoNamed(ctx, "publish the status", c.record.publisher.Run)
	kit.OnSignal(ctx, temporal.SignalObject, "The WorkloadLockPolicy in the cluster that started the controller.", c.followObject)
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
	if err := c.followSource(ctx); err != nil {
		return err
	}
	due := lockcontroller.Due{}
	for {
		edited, err := c.untilEdited(ctx, func(ctx workflow.Context) (err error) {
			due, err = c.follow(ctx, due)
			return err
		})
		switch {
		case errors.Is(err, kit.ErrHistoryLong), edited && kit.ShouldContinueAsNew(ctx, c.signals):
			return c.continueAsNew(ctx)
		case edited:
			due = lockcontroller.Due{}
		case temporal.Final(err) && (c.in.Source != nil || c.edits > 0): // another edit may follow
			if err := c.awaitRemedy(ctx, err); err != nil {
				return err
			}
		case err != nil:
			return err
		}
	}
}

// follow applies the policy to all locks, and then waits until a lock is due for a change. It returns kit.ErrHistoryLong between the two if the history
// is long.
func (c *lockController) follow(ctx workflow.Context, due lockcontroller.Due) (lockcontroller.Due, error) {
	if err := c.apply(ctx, due); err != nil {
		return lockcontroller.Due{}, err
	}
	if kit.ShouldContinueAsNew(ctx, c.signals) {
		return lockcontroller.Due{}, kit.ErrHistoryLong
	}
	return c.observe(ctx)
}

func (c *lockController) locateCluster(ctx workflow.Context) error {
	if c.in.TaskQueue != "" {
		return nil
	}
	hub := kit.HubRetrier(c.record.trouble)
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
	c.announce(ctx, c.status.Locks, report)
	c.record.report(ctx, report)
	return nil
}

// observe waits until a lock is due for a change. After an outage it returns without one, so that all locks are applied again.
func (c *lockController) observe(ctx workflow.Context) (due lockcontroller.Due, err error) {
	retrier := c.retrier().Once()
	retrier.Abandon = c.in.Source != nil // an edit does not wait until the watch notices it
	err = retrier.Wait(ctx, "watch the locks of "+c.in.Policy.Spec.ControllerName, nil, "", c.locks.ObserveWorkloadLocks, c.input(ctx), &due)
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
	return kit.ClusterRetrier(c.in.Cluster, &c.in.TaskQueue, c.record.trouble)
}

// continueAsNew carries the status to a new run. No activity runs at this point.
func (c *lockController) continueAsNew(ctx workflow.Context) error {
	c.record.publisher.Pause(ctx)
	kit.HandlePendingSignals(ctx)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	c.record.publisher.Stop()
	in := c.in
	in.Carried = &c.status
	if in.Source != nil {
		in.CarriedObject = &CarriedObject{Request: c.object, Conditions: c.conditions, Publisher: c.record.publisher.State}
	}
	c.record.log.Info("Lock controller continues as new")
	return workflow.NewContinueAsNewError(ctx, temporal.WorkloadLockController, in)
}

// finish records how the controller ended. That is an error, because a controller has no regular end but the deletion of its policy.
func (c *lockController) finish(ctx workflow.Context, err error) (Status, error) {
	if c.object.Deleted && c.cancelled == nil {
		var released lockcontroller.ReleaseResult
		if released, err = c.release(ctx); err == nil {
			c.record.released(ctx, released)
			c.publishLast(ctx)
			return c.status, nil
		}
	}
	if sdktemporal.IsCanceledError(err) {
		by := ""
		if c.cancelled != nil {
			by = kit.ActorSuffix(*c.cancelled)
		}
		c.record.end(ctx, Cancelled, "cancelled"+by)
		c.publishLast(ctx)
		return c.status, sdktemporal.NewCanceledError(c.status)
	}
	c.failed = kit.ReasonOf(err)
	c.record.end(ctx, Failed, temporal.ErrorMessage(err))
	c.publishLast(ctx)
	return c.status, sdktemporal.NewApplicationErrorWithOptions(temporal.ErrorMessage(err), kit.ReasonOf(err),
		sdktemporal.ApplicationErrorOptions{NonRetryable: true, Details: []any{c.status}})
}

// publishLast publishes the last status, and releases an object that is being deleted.
func (c *lockController) publishLast(ctx workflow.Context) {
	c.record.publisher.Retrier = c.retrier()
	c.record.publisher.Finish(ctx)
}
