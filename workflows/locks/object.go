package locks

import (
	"reflect"
	"slices"
	"strings"
	"time"

	"go.temporal.io/sdk/workflow"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/drydock/activities/lockcontroller"
	"drydock.dev/drydock/activities/objects"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	lcmv1 "drydock.dev/drydock/internal/apis/lcm/v1alpha1"
	"drydock.dev/drydock/internal/locks"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/kit"
)

// ObjectRequest is the part of a WorkloadLockPolicy in the cluster that may change while its controller runs.
type ObjectRequest = temporal.ObjectRequest[drydockv1.WorkloadLockPolicySpec]

// CarriedObject is what the next run has to know about the object of the controller.
type CarriedObject struct {
	Request    ObjectRequest      `json:"request"`
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	Publisher  kit.PublisherState `json:"publisher"`
}

// Reasons of the condition Ready of a policy.
const (
	reasonStarting    = "Starting"
	reasonLocksKept   = "LocksKept"
	reasonInvalidEdit = "InvalidSpec"
	reasonCancelled   = "Cancelled"
	reasonDeleted     = "Deleted"
)

// Events on a policy.
const (
	eventClusterLockReleased = "ClusterLockReleased"
	eventClusterLockHeld     = "ClusterLockHeld"
	eventNodeLocksReleased   = "NodeLocksReleased"
	eventNodeLocksHeld       = "NodeLocksHeld"
	eventNodeLocksFailed     = "NodeLocksFailed"
)

// followSource begins to publish the status to the object. A controller whose object was deleted before it began cleans up.
func (c *lockController) followSource(ctx workflow.Context) error {
	if c.in.Source == nil || c.known {
		return nil
	}
	var found objects.Request
	if err := c.retrier().Run(ctx, "read "+c.in.Source.String(), c.objects.ReadRequest, *c.in.Source, &found); err != nil {
		return err
	}
	if found.Gone {
		c.followObject(ObjectRequest{UID: c.in.Source.UID, Deleted: true})
		return ctx.Err()
	}
	c.record.publisher.Open()
	c.record.publisher.Change()
	return nil
}

// followObject acts on the request of the object.
func (c *lockController) followObject(now ObjectRequest) {
	if c.in.Source == nil || c.in.Source.UID != now.UID {
		return // the object of another run
	}
	c.signals++
	last := c.object
	if now.Deleted {
		now.Spec, now.InvalidSpec = last.Spec, ""
	}
	c.object = now
	c.record.publisher.Change()
	switch {
	case now.Deleted:
		c.cancel()
	case now.InvalidSpec != "":
		c.record.log.Warn("Policy not followed: its spec is invalid", "generation", now.Generation, "error", now.InvalidSpec)
	case !sameSpec(now.Spec, c.in.Policy.Spec):
		now.Spec.ControllerName = c.in.Policy.Spec.ControllerName // it cannot be changed
		c.follows(now.Spec)
	}
}

// follows replaces the policy.
func (c *lockController) follows(policy drydockv1.WorkloadLockPolicySpec) {
	c.in.Policy.Spec, c.status.Policy = policy, policy
	c.edits++
	c.record.log.Info("Policy edited", "generation", c.object.Generation)
	c.record.show()
}

func sameSpec(a, b drydockv1.WorkloadLockPolicySpec) bool {
	//workflowcheck:ignore the order of a comparison does not matter
	return reflect.DeepEqual(a, b)
}

// untilEdited runs a step, and reports whether an edit of the policy ended it.
func (c *lockController) untilEdited(ctx workflow.Context, run func(workflow.Context) error) (edited bool, err error) {
	edits := c.edits
	step, stop := workflow.WithCancel(ctx)
	defer stop()
	workflow.GoNamed(step, "until the policy is edited", func(ctx workflow.Context) {
		if workflow.Await(ctx, func() bool { return c.edits != edits }) == nil {
			stop()
		}
	})
	err = run(step)
	return c.edits != edits && ctx.Err() == nil, err
}

// remedyPause is the time after which a policy that the cluster could not evaluate is tried again.
const remedyPause = time.Minute

// awaitRemedy shows why the policy cannot be followed, and waits for an edit, or for some time: a kind that a check names may be installed.
func (c *lockController) awaitRemedy(ctx workflow.Context, err error) error {
	c.record.trouble(ctx, kit.ReasonOf(err), temporal.ErrorMessage(err))
	edits := c.edits
	return kit.AwaitFor(ctx, remedyPause, "before the policy is tried again", func() bool { return c.edits != edits })
}

// release removes the locks after the deletion of the policy. A person may cancel it, and then the locks stay.
func (c *lockController) release(ctx workflow.Context) (lockcontroller.ReleaseResult, error) {
	releasing, stop := workflow.WithCancel(ctx)
	defer stop()
	workflow.GoNamed(releasing, "until it is cancelled", func(ctx workflow.Context) {
		if workflow.Await(ctx, func() bool { return c.cancelled != nil }) == nil {
			stop()
		}
	})
	var result lockcontroller.ReleaseResult
	if err := c.locateCluster(releasing); err != nil {
		return result, err
	}
	c.record.publisher.Open()
	in := lockcontroller.ReleaseInput{Cluster: c.in.Cluster, ControllerName: c.in.Policy.Spec.ControllerName, Policy: *c.in.Source}
	err := c.retrier().Wait(releasing, "remove the locks of "+in.ControllerName, nil, "", c.locks.ReleaseWorkloadLocks, in, &result)
	return result, err
}

// announce records Events for the differences between two reports.
func (c *lockController) announce(ctx workflow.Context, before *locks.Report, now locks.Report) {
	if c.in.Source == nil {
		return
	}
	publish := &c.record.publisher
	publish.Change()
	if before == nil {
		before = &locks.Report{}
	}
	was, is := before.Cluster.To == lcmv1.LockInactive, now.Cluster.To == lcmv1.LockInactive
	switch {
	case is && !was:
		publish.Event(ctx, false, eventClusterLockReleased, "the cluster may be maintained")
	case was && !is:
		publish.Event(ctx, false, eventClusterLockHeld, "the lock of the cluster is active again")
	}
	nodes := func(warning bool, reason string, nodes []string) {
		if len(nodes) > 0 {
			publish.Event(ctx, warning, reason, strings.Join(nodes, ", "))
		}
	}
	nodes(false, eventNodeLocksReleased, newly(*before, now, lcmv1.LockInactive))
	nodes(true, eventNodeLocksFailed, newly(*before, now, lcmv1.LockFailed))
	nodes(false, eventNodeLocksHeld, newly(now, *before, lcmv1.LockInactive))
}

// newly returns the nodes whose locks have a state in now and not in before.
func newly(before, now locks.Report, state lcmv1.LockState) []string {
	had := inState(before, state)
	return slices.DeleteFunc(inState(now, state), func(node string) bool { return slices.Contains(had, node) })
}

func inState(report locks.Report, state lcmv1.LockState) (nodes []string) {
	for _, lock := range report.Nodes {
		if lock.To == state {
			nodes = append(nodes, lock.Node)
		}
	}
	return nodes
}

// objectStatus returns the status that the object shows.
func (c *lockController) objectStatus() any {
	status := drydockv1.WorkloadLockPolicyStatus{ObservedGeneration: c.object.Generation, State: c.status.State, Wait: c.status.Wait.DeepCopy()}
	ready := c.ready()
	ready.Type, ready.ObservedGeneration = drydockv1.ConditionReady, c.object.Generation
	ready.LastTransitionTime = metav1.NewTime(workflow.Now(c.record.ctx))
	meta.SetStatusCondition(&c.conditions, ready)
	status.Conditions = slices.Clone(c.conditions)
	if c.status.Locks != nil {
		summarize(&status, c.in.Policy.Spec.ControllerName, *c.status.Locks)
	}
	return status
}

// ready returns the condition Ready, without its fields that all conditions have.
func (c *lockController) ready() metav1.Condition {
	failing := c.record.failing
	switch {
	case c.status.State == Cancelled, c.status.State == Failed:
		reason := reasonCancelled
		if c.status.State == Failed {
			reason = c.failed
		}
		return metav1.Condition{Status: metav1.ConditionFalse, Reason: reason, Message: c.status.Notes[len(c.status.Notes)-1]}
	case c.object.Deleted:
		message := "the locks are being removed"
		if failing != nil {
			message = failing.Message
		}
		return metav1.Condition{Status: metav1.ConditionFalse, Reason: reasonDeleted, Message: message}
	case c.object.InvalidSpec != "":
		return metav1.Condition{Status: metav1.ConditionFalse, Reason: reasonInvalidEdit, Message: "the locks follow the last valid spec: " + c.object.InvalidSpec}
	case failing != nil:
		return metav1.Condition{Status: metav1.ConditionFalse, Reason: failing.Reason, Message: failing.Message}
	case c.status.Locks == nil:
		return metav1.Condition{Status: metav1.ConditionUnknown, Reason: reasonStarting}
	}
	return metav1.Condition{Status: metav1.ConditionTrue, Reason: reasonLocksKept}
}

// summarize adds the locks to the status of the object.
func summarize(status *drydockv1.WorkloadLockPolicyStatus, controllerName string, report locks.Report) {
	of := func(lock locks.LockDecision) drydockv1.LockSummary {
		return drydockv1.LockSummary{Node: lock.Node, Name: lock.Name, State: string(lock.To), Reason: string(lock.Reason), Message: lock.Message}
	}
	cluster := of(report.Cluster)
	status.ClusterLock = &cluster
	status.NodeLocks = &drydockv1.LockCounts{
		Total: int32(report.Total), Active: int32(report.Active), Inactive: int32(report.Inactive), Failed: int32(report.Failed),
	}
	for _, lock := range report.Nodes {
		status.Nodes = append(status.Nodes, of(lock))
	}
	status.MoreNodes, status.Waiting = int32(report.More), report.Waiting
	p := report.Progress
	status.Progress = &drydockv1.LockProgress{
		Controller: controllerName, Percentage: p.Percentage, Description: p.Description,
		InactiveNow: int32(p.InactiveNow), Updated: int32(p.Updated), Total: int32(p.Total),
	}
}
