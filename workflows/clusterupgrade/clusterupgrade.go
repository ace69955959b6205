// Package clusterupgrade holds the workflow that maintains the nodes of one cluster of a rollout.
package clusterupgrade

import (
	"cmp"
	"time"

	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/activities/health"
	"drydock.dev/drydock/activities/locks"
	"drydock.dev/drydock/activities/node"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/emergency"
	"drydock.dev/drydock/internal/rollout"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/gates"
	"drydock.dev/drydock/workflows/kit"
	"drydock.dev/drydock/workflows/slots"
	"drydock.dev/drydock/workflows/sweeper"
)

// Input names a cluster of a rollout, and the maintenance of its nodes.
type Input struct {
	// Namespace and Rollout name the ClusterGroupUpgrade.
	Namespace string `json:"namespace"`
	Rollout   string `json:"rollout"`
	Cluster   string `json:"cluster"`
	// TaskQueue of the cluster's activities.
	TaskQueue   string                           `json:"taskQueue"`
	Batch       int32                            `json:"batch"`
	Remediation ranv1.NodeMaintenanceRemediation `json:"remediation"`
	// ProgressLimit is the maximum interval between progress reports to the rollout.
	ProgressLimit time.Duration `json:"progressLimit,omitempty"`
	// Held is the state of the emergency stop that the rollout received last.
	Held emergency.State `json:"held"`
	// Carried is the state of the previous run; nil in the first run.
	Carried *State `json:"carried,omitempty"`
}

// Continues implements kit.Continued.
func (in Input) Continues() bool { return in.Carried != nil }

// ClusterName implements kit.OnCluster.
func (in Input) ClusterName() string { return in.Cluster }

// State is the state of a run, which passes it to the next one.
type State struct {
	Status ranv1.ClusterUpgradeStatus `json:"status"`
	Locks  Locks                      `json:"locks,omitzero"`
	Slots  slots.ClientState          `json:"slots"`
}

// maxRunningNodes limits the node maintenances of one run, even if the budgets of the cluster allow more: the server blocks a run with too many
// children.
const maxRunningNodes = 300

// ClusterUpgrade maintains the nodes of one cluster. It waits until the workload locks of the cluster are inactive. Then it maintains the control-plane
// nodes one at a time, and the other nodes within the budgets of the cluster. It returns the status of the cluster. If the cluster is not complete, it
// also returns a typed error with the status as its details.
func ClusterUpgrade(ctx workflow.Context, in Input) (ranv1.ClusterStatus, error) {
	c, err := newClusterUpgrade(ctx, in)
	if err != nil {
		return ranv1.ClusterStatus{}, err
	}
	return c.run(ctx)
}

// clusterUpgrade is one run of the workflow.
type clusterUpgrade struct {
	in     Input
	owner  string
	state  State
	record *clusterRecord
	holds  gates.Holds

	// awaited is the name of the waiting activity in progress. observed is its last reported wait.
	awaited  string
	observed *drydockv1.Wait
	// refused is the wait before a refused request for the workload locks is retried.
	refused *drydockv1.Wait
	// blocked describes the work that a hold or a pause prevents before the first node; "": none.
	blocked string
	nodes   *nodeRollout

	cancel    workflow.CancelFunc
	cancelled *temporal.SignalRequest
	signals   int
	// suggestedAt is the length of the history, in events, when the server first suggested to continue as new.
	suggestedAt int

	cluster *node.Activities
	locks   *locks.Activities
	health  *health.Activities
}

func newClusterUpgrade(ctx workflow.Context, in Input) (*clusterUpgrade, error) {
	c := &clusterUpgrade{in: in, owner: kit.Owner(ctx)}
	c.record = newClusterRecord(ctx, &c.state.Status, in)
	c.nodes = newNodeRollout(ctx, c)
	c.record.waits = c.waits
	if in.Carried != nil {
		c.state = *in.Carried
		c.nodes.slots.State = c.state.Slots
	}
	c.holds.State, c.state.Status.Held = in.Held, in.Held.Of(in.Cluster)
	return c, workflow.SetQueryHandlerWithOptions(ctx, temporal.QueryStatus,
		func() (ranv1.ClusterUpgradeStatus, error) { return c.state.Status, nil },
		workflow.QueryHandlerOptions{Description: "The status of the cluster, node by node."})
}

// run upgrades the cluster, and cleans up after success, failure and cancellation alike.
func (c *clusterUpgrade) run(ctx workflow.Context) (ranv1.ClusterStatus, error) {
	work, cancel := workflow.WithCancel(ctx)
	c.cancel = cancel
	listening, _ := workflow.NewDisconnectedContext(ctx)
	c.listen(listening)

	err := kit.Within(work, func(following workflow.Context) error {
		workflow.GoNamed(following, "locks", c.followLocks)
		return c.upgrade(work)
	})
	if workflow.IsContinueAsNewError(err) {
		return ranv1.ClusterStatus{}, err
	}
	c.record.failure(err)
	clean, _ := workflow.NewDisconnectedContext(ctx)
	c.cleanUp(clean)
	_ = c.nodes.slots.Settle(clean)
	return c.finish(clean, err)
}

// upgrade runs the steps of the cluster.
func (c *clusterUpgrade) upgrade(ctx workflow.Context) error {
	steps := []func(workflow.Context) error{
		c.inspect,
		c.awaitClusterLocks,
		c.maintainControlPlane,
		c.maintainWorkers,
		c.checkHealth,
	}
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// inspect finds the nodes to maintain, and wakes the sweeper of the cluster.
func (c *clusterUpgrade) inspect(ctx workflow.Context) error {
	if c.in.Carried != nil {
		return nil
	}
	c.record.enter(ranv1.StepInspect)
	in := node.InspectClusterInput{Cluster: c.in.Cluster, Remediation: c.in.Remediation}
	awake := sweeper.KeepAwake(ctx, c.record.retries.Add(), c.in.Cluster, "rollout "+c.in.Namespace+"/"+c.in.Rollout+" begins")
	var plan rollout.NodePlan
	if err := c.retrier().Run(ctx, "inspect "+c.in.Cluster, c.cluster.InspectCluster, in, &plan); err != nil {
		return err
	}
	if err := awake.Get(ctx, nil); err != nil {
		return err
	}
	for _, node := range plan.ControlPlane {
		c.state.Status.Nodes = append(c.state.Status.Nodes, ranv1.ClusterNodeStatus{Name: node, ControlPlane: true, State: maintenancev1.NodePending})
	}
	for _, node := range plan.Workers {
		c.state.Status.Nodes = append(c.state.Status.Nodes, ranv1.ClusterNodeStatus{Name: node, State: maintenancev1.NodePending})
	}
	for _, skipped := range plan.Skipped {
		c.record.note("node " + skipped.Name + " is skipped: " + skipped.Reason)
	}
	return nil
}

// maintainControlPlane maintains the control-plane nodes one at a time.
func (c *clusterUpgrade) maintainControlPlane(ctx workflow.Context) error {
	c.record.enter(ranv1.StepControlPlane)
	for i := range c.state.Status.Nodes {
		if n := &c.state.Status.Nodes[i]; n.ControlPlane && !n.State.Over() {
			if err := c.nodes.maintain(ctx, []string{n.Name}); err != nil {
				return err
			}
		}
	}
	return nil
}

// maintainWorkers maintains the other nodes, as many at a time as the budgets of the cluster allow.
func (c *clusterUpgrade) maintainWorkers(ctx workflow.Context) error {
	c.record.enter(ranv1.StepWorkers)
	var workers []string
	for _, n := range c.state.Status.Nodes {
		if !n.ControlPlane && !n.State.Over() {
			workers = append(workers, n.Name)
		}
	}
	return c.nodes.maintain(ctx, workers)
}

// checkHealth waits until all maintained nodes are healthy and the declared checks pass.
func (c *clusterUpgrade) checkHealth(ctx workflow.Context) error {
	c.record.enter(ranv1.StepHealthChecks)
	in := health.AwaitClusterHealthyInput{Cluster: c.in.Cluster, Since: workflow.Now(ctx), Checks: c.in.Remediation.HealthChecks}
	for _, n := range c.state.Status.Nodes {
		if n.State == maintenancev1.NodeCompleted {
			in.Nodes = append(in.Nodes, n.Name)
		}
	}
	in.Deadline = kit.DeadlineIn(ctx, kit.HealthTimeout(c.in.Remediation.HealthTimeoutSeconds))
	return c.await(ctx, "AwaitClusterHealthy", "check the health of "+c.in.Cluster, kit.LastDeadline(ctx, in.Deadline, in.Checks), temporal.ErrHealthGateFailed,
		c.health.AwaitClusterHealthy, in)
}

// retrier returns a retrier for activities on this cluster. It shows failures in the status.
func (c *clusterUpgrade) retrier() kit.Retrier {
	return kit.ClusterRetrier(c.in.Cluster, &c.in.TaskQueue, c.record.retries.Add())
}

// waits returns all current waits of the cluster.
func (c *clusterUpgrade) waits() rollout.ClusterWaits {
	waits := rollout.ClusterWaits{Observed: c.observed, Refused: c.refused, Paused: c.state.Status.Paused, Idle: cmp.Or(c.blocked, c.nodes.idle()), Slots: c.nodes.waitForSlots()}
	if waits.Idle != "" {
		waits.Hold = c.holds.Of(c.in.Cluster)
	}
	return waits
}

// await runs a waiting activity and shows its wait in the status.
func (c *clusterUpgrade) await(ctx workflow.Context, name, summary string, deadline *time.Time, timedOut string, activity, input any) error {
	c.awaited = name
	err := c.retrier().Wait(ctx, summary, deadline, timedOut, activity, input, nil)
	c.awaited, c.observed = "", nil
	c.record.show()
	return err
}
