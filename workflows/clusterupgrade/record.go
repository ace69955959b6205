package clusterupgrade

import (
	"slices"

	"go.temporal.io/sdk/log"
	sdktemporal "go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/rollout"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/kit"
)

// clusterRecord keeps the status of a cluster and publishes every change: the query, search attributes, current details of the Web UI, the status of
// the rollout, and the log.
type clusterRecord struct {
	ctx    workflow.Context
	status *ranv1.ClusterUpgradeStatus
	batch  int32
	log    log.Logger
	reason kit.CurrentReason
	// waits returns everything that the cluster waits for, except failing activities.
	waits      func() rollout.ClusterWaits
	retries    kit.Retries
	attributes *kit.SearchAttributes
	stages     kit.Stages
	progress   kit.Progress
	// followsLocks: an activity reports the progress of applications. Its reports are newer than those of nodes.
	followsLocks bool
}

func newClusterRecord(ctx workflow.Context, status *ranv1.ClusterUpgradeStatus, in Input) *clusterRecord {
	r := &clusterRecord{ctx: ctx, status: status, batch: in.Batch}
	r.log = log.With(workflow.GetLogger(ctx), "rollout", in.Namespace+"/"+in.Rollout, "cluster", in.Cluster, "batch", in.Batch)
	r.attributes = &kit.SearchAttributes{Ctx: ctx, Log: r.log}
	r.attributes.Gather()
	r.reason = kit.CurrentReason{Attributes: r.attributes, Wait: &status.Wait, Show: func() {}} // show publishes it
	r.retries.Show = r.show
	r.stages = kit.Stages{Records: &status.Stages, Show: r.show}
	now := r.now(ctx)
	*status = ranv1.ClusterUpgradeStatus{Cluster: in.Cluster, State: ranv1.ClusterRunning, StartedAt: &now}
	return r
}

func (r *clusterRecord) now(ctx workflow.Context) metav1.Time {
	return metav1.NewTime(workflow.Now(ctx))
}

// enter records that a step began.
func (r *clusterRecord) enter(step ranv1.ClusterStep) {
	if r.status.Step == step {
		return
	}
	r.status.Step = step
	r.log.Info("Cluster enters a step", "step", step)
	r.attributes.Set(temporal.AttributePhase.ValueSet(string(step)))
	r.show()
}

// failure records the first error that is not a cancellation.
func (r *clusterRecord) failure(err error) {
	if err == nil || r.status.Failure != nil || sdktemporal.IsCanceledError(err) {
		return
	}
	r.status.Failure = kit.FailureOf(err)
	r.log.Info("Cluster failed", "reason", r.status.Failure.Reason, "message", r.status.Failure.Message)
	r.show()
}

// lockWaitEnded logs the end of the wait for workload locks.
func (r *clusterRecord) lockWaitEnded(err error) {
	if err != nil {
		r.log.Info("Workload locks not released", "reason", kit.ReasonOf(err), "message", temporal.ErrorMessage(err))
		return
	}
	r.log.Info("Workload locks released")
}

// note records a message for people. It ignores a repeated message.
func (r *clusterRecord) note(text string) {
	if text != "" && !slices.Contains(r.status.Notes, text) {
		r.status.Notes = append(r.status.Notes, text)
		r.log.Info("Cluster has a note", "note", text)
		r.show()
	}
}

func (r *clusterRecord) nodeStarted(ctx workflow.Context, node string) {
	r.log.Info("Node maintenance started", "node", node)
	now := r.now(ctx)
	r.nodeProgressed(ranv1.ClusterNodeStatus{Name: node, State: maintenancev1.NodeScheduled, StartedAt: &now})
}

// nodeWaits records that a node waits for a slot again, with the remaining time of its locks.
func (r *clusterRecord) nodeWaits(node string, left *maintenancev1.LockTimeLeft) {
	r.log.Info("Node waits for a slot again", "node", node)
	r.nodeProgressed(ranv1.ClusterNodeStatus{Name: node, State: maintenancev1.NodePending, LockTimeLeft: left})
}

// lockTimeLeftOf returns the remaining time of the locks of a node that waits again; nil: all of it.
func (r *clusterRecord) lockTimeLeftOf(node string) *maintenancev1.LockTimeLeft {
	i := slices.IndexFunc(r.status.Nodes, func(n ranv1.ClusterNodeStatus) bool { return n.Name == node })
	if i < 0 {
		return nil
	}
	return r.status.Nodes[i].LockTimeLeft
}

// nodeProgressed records the report of a node.
func (r *clusterRecord) nodeProgressed(status ranv1.ClusterNodeStatus) {
	for i := range r.status.Nodes {
		if n := &r.status.Nodes[i]; n.Name == status.Name {
			status.ControlPlane = n.ControlPlane
			if !r.followsLocks && len(status.LockProgress) > 0 {
				r.lockProgress(status.LockProgress)
			}
			status.LockProgress = nil
			if kit.BecameUrgent(n.Wait, status.Wait) {
				r.progress.ReportNow()
			}
			*n = status
		}
	}
	r.show()
}

// lockProgress records the progress of applications that hold locks.
func (r *clusterRecord) lockProgress(seen []drydockv1.LockProgress) {
	r.status.LockProgress = seen
	r.show()
}

func (r *clusterRecord) nodeEnded(node string, status maintenancev1.NodeMaintenanceStatus) {
	ended := ranv1.ClusterNodeStatus{Name: node, State: status.State, Failure: status.Failure, StartedAt: status.StartedAt, CompletedAt: status.CompletedAt, LockProgress: status.LockProgress}
	if status.Drain != nil {
		ended.Evicted = status.Drain.Evicted
	}
	line := []any{"node", node, "state", status.State}
	if status.Failure != nil {
		line = append(line, "reason", status.Failure.Reason, "message", status.Failure.Message)
	}
	r.log.Info("Node maintenance ended", line...)
	r.notesOf(node, status)
	r.nodeProgressed(ended)
}

// notesOf adds the notes of the maintenance of a node.
func (r *clusterRecord) notesOf(node string, status maintenancev1.NodeMaintenanceStatus) {
	for _, note := range status.Notes {
		r.note("node " + node + ": " + note)
	}
}

// summary returns the status of the cluster for its rollout.
func (r *clusterRecord) summary() ranv1.ClusterStatus {
	s := r.status
	summary := ranv1.ClusterStatus{Name: s.Cluster, State: s.State, Batch: r.batch, Step: string(s.Step), StartedAt: s.StartedAt, CompletedAt: s.CompletedAt}
	summary.Nodes.Total = int32(len(s.Nodes))
	if !s.State.Over() {
		summary.LockProgress = s.LockProgress
	}
	wait := s.Wait
	for _, n := range s.Nodes {
		summary.Nodes.Evicted += n.Evicted
		switch {
		case n.State == maintenancev1.NodeFailed:
			summary.Nodes.Failed++
		case n.State == maintenancev1.NodeCompleted, n.State == maintenancev1.NodeGone:
			summary.Nodes.Done++
		case n.State == maintenancev1.NodeCancelled:
		case n.StartedAt != nil && (summary.Step == string(s.Step) || rollout.Graver(n.Wait, wait)):
			// Name a running node: the first with the gravest wait, or else the first.
			summary.Step = n.Name + ": " + string(n.State)
			wait = n.Wait
		}
	}
	switch {
	case s.Failure != nil:
		summary.Reason, summary.Message = s.Failure.Reason, s.Failure.Message
	case wait != nil:
		summary.Reason, summary.Message, summary.Since, summary.Until = wait.Reason, wait.Message, &wait.Since, wait.Until
	}
	return summary
}

// show publishes a change.
func (r *clusterRecord) show() {
	waits := r.waits()
	waits.Retry = r.retries.Oldest()
	r.reason.Replace(waits.Current(r.now(r.ctx)))
	kit.ShowDetails(r.ctx, clusterDetails(r.status))
	r.progress.Changed = true
}
