package nodemaintenance

import (
	"slices"

	"go.temporal.io/sdk/log"
	sdktemporal "go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/drydock/activities/activitykit"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/conditions"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/kit"
)

// nodeRecord keeps the status of a node maintenance and publishes every change: the query, conditions, search attributes, current details of the Web UI,
// and the parent's status.
type nodeRecord struct {
	ctx        workflow.Context
	status     *maintenancev1.NodeMaintenanceStatus
	node       activitykit.NodeRef
	log        log.Logger
	reason     kit.CurrentReason
	attributes *kit.SearchAttributes
	stages     kit.Stages
	progress   kit.Progress
	publisher  kit.Publisher
	notifier   kit.Notifier
	// passing: the state is likely over at once. The object shows it when a wait begins, or with the next state.
	passing bool
	// told is the last state of which an Event on the object tells.
	told maintenancev1.NodeState
	// unlisted: the program that started the workflow has not set its search attributes.
	unlisted bool
}

func newNodeRecord(ctx workflow.Context, status *maintenancev1.NodeMaintenanceStatus, node activitykit.NodeRef, in Input) *nodeRecord {
	r := &nodeRecord{ctx: ctx, status: status, node: node, told: status.State}
	r.log = log.With(workflow.GetLogger(ctx), logKeys(in)...)
	r.attributes = &kit.SearchAttributes{Ctx: ctx, Log: r.log}
	r.attributes.Gather()
	// A client without Drydock's CLI may start the workflow without them; lists and the status show them.
	if _, known := workflow.GetTypedSearchAttributes(ctx).GetKeyword(temporal.AttributeNode); !known {
		r.attributes.Set(temporal.AttributeCluster.ValueSet(in.Cluster))
		r.attributes.Set(temporal.AttributeNode.ValueSet(in.Object.Spec.NodeName))
		r.attributes.Set(temporal.AttributeRequestor.ValueSet(in.Object.Spec.RequestorID))
		r.unlisted = true
	}
	r.reason = kit.CurrentReason{Attributes: r.attributes, Wait: &status.Wait, Show: r.show}
	r.stages = kit.Stages{Records: &status.Stages, Show: r.show}
	if status.StartedAt == nil {
		status.StartedAt = new(r.now(ctx))
	}
	return r
}

// logKeys are on every line of the log.
func logKeys(in Input) []any {
	keys := []any{"cluster", in.Cluster, "node", in.Object.Spec.NodeName, "requestor", in.Object.Spec.RequestorID}
	if of := temporal.RolloutOf(in.Parent); of != "" {
		keys = append(keys, "rollout", of)
	}
	return keys
}

func (r *nodeRecord) now(ctx workflow.Context) metav1.Time { return metav1.NewTime(workflow.Now(ctx)) }

// enter makes a transition.
func (m *nodeMaintenance) enter(ctx workflow.Context, t transition) {
	if state := after(m.state.Status.State, t); state != m.state.Status.State {
		m.waits.observed = nil
		m.record.enter(ctx, state)
		m.showWait(ctx)
	}
}

// enter records the start of a state.
func (r *nodeRecord) enter(ctx workflow.Context, state maintenancev1.NodeState) {
	keys := []any{"from", string(r.status.State), "to", string(state)}
	if failure := r.status.Failure; failure != nil {
		keys = append(keys, "reason", failure.Reason, "message", failure.Message)
	}
	r.log.Info("Node maintenance changed state", keys...)
	r.status.State = state
	r.status.States = append(r.status.States, maintenancev1.StateTime{State: state, At: r.now(ctx)})
	r.setReady(ctx)
	r.passing = passes(state)
	r.setPhase(state)
	r.notify(ctx, state)
	if state == maintenancev1.NodeReady || state == maintenancev1.NodeRequestorFailed {
		r.publisher.ChangeNow()
	}
	r.show()
}

// passes reports whether most maintenances leave a state at once. One that stays shows a wait, or an observation.
func passes(state maintenancev1.NodeState) bool {
	switch state {
	case maintenancev1.NodeReady, maintenancev1.NodeRequestorFailed:
		return false
	}
	return !state.Over()
}

// stay shows a state in which the maintenance stays.
func (r *nodeRecord) stay() {
	r.passing = false
	r.attributes.Stay()
	r.show()
}

// setPhase sets the search attribute for the state. Most maintenances pass some states at once.
func (r *nodeRecord) setPhase(state maintenancev1.NodeState) {
	phase := temporal.AttributePhase.ValueSet(string(state))
	if r.passing && !r.unlisted {
		r.attributes.SetPassing(phase)
		return
	}
	r.attributes.Set(phase)
	r.unlisted = false
}

// notify notifies of a state.
func (r *nodeRecord) notify(ctx workflow.Context, state maintenancev1.NodeState) {
	where := "node " + r.node.Node + " in cluster " + r.node.Cluster
	if state != maintenancev1.NodeReady {
		r.notifier.Ends(ctx, drydockv1.EventReady)
	}
	switch {
	case state == maintenancev1.NodeCordon && !slices.ContainsFunc(r.status.States[:len(r.status.States)-1], func(before maintenancev1.StateTime) bool { return before.State == state }):
		r.notifier.Tell(ctx, drydockv1.EventStarted, "", where)
	case state == maintenancev1.NodeReady:
		r.notifier.Begins(ctx, drydockv1.EventReady, "", where, workflow.Now(ctx))
	case state == maintenancev1.NodeCompleted:
		r.notifier.End(ctx, drydockv1.EventCompleted, "", where)
	case state.Over() && r.status.Failure != nil:
		r.notifier.End(ctx, drydockv1.EventFailed, r.status.Failure.Reason, where+": "+r.status.Failure.Message)
	case state.Over():
		r.notifier.End(ctx, drydockv1.EventFailed, string(state), where)
	}
}

// setReady sets the conditions that requestors read: Ready with the state as its reason, and RequestorFailed.
func (r *nodeRecord) setReady(ctx workflow.Context) {
	ready, failed := metav1.ConditionFalse, metav1.ConditionFalse
	switch r.status.State {
	case maintenancev1.NodeReady:
		ready = metav1.ConditionTrue
	case maintenancev1.NodeRequestorFailed:
		failed = metav1.ConditionTrue
	}
	reason, now := string(r.status.State), workflow.Now(ctx)
	conditions.Set(&r.status.Conditions, maintenancev1.ConditionReady, ready, reason, "", now)
	conditions.Set(&r.status.Conditions, maintenancev1.ConditionRequestorFailed, failed, reason, "", now)
}

// failure records the first error that is not a cancellation.
func (r *nodeRecord) failure(err error) {
	if err == nil || r.status.Failure != nil || sdktemporal.IsCanceledError(err) {
		return
	}
	r.status.Failure = kit.FailureOf(err)
}

// note records a message for people. It ignores a repeated message, so a message that may repeat must contain the time.
func (r *nodeRecord) note(text string) {
	if text != "" && !slices.Contains(r.status.Notes, text) {
		r.status.Notes = append(r.status.Notes, text)
		r.show()
	}
}

// warn replaces the note about what would block the drain; empty: nothing would, or the drain itself says it.
func (m *nodeMaintenance) warn(warning string) {
	if before := m.state.Warning; before != "" && before != warning {
		m.state.Status.Notes = slices.DeleteFunc(m.state.Status.Notes, func(note string) bool { return note == before })
	}
	m.state.Warning = warning
	m.record.note(warning)
}

// lockProgress records the progress of applications that hold locks.
func (r *nodeRecord) lockProgress(seen []drydockv1.LockProgress) {
	if len(seen) > 0 {
		r.status.LockProgress = seen
		r.show()
	}
}

// summary returns the status for the parent.
func (r *nodeRecord) summary() ranv1.ClusterNodeStatus {
	s := ranv1.ClusterNodeStatus{
		Name: r.node.Node, State: r.status.State, Wait: r.status.Wait, Failure: r.status.Failure,
		StartedAt: r.status.StartedAt, CompletedAt: r.status.CompletedAt, LockProgress: r.status.LockProgress,
	}
	if r.status.Drain != nil {
		s.Evicted = r.status.Drain.Evicted
	}
	return s
}

// show publishes a change.
func (r *nodeRecord) show() {
	kit.ShowDetails(r.ctx, nodeDetails(r.node, r.status))
	r.progress.Changed = true
	r.publisher.Change()
	r.tell()
}

// tell records an Event on the object for a state that the object shows.
func (r *nodeRecord) tell() {
	state := r.status.State
	if state == r.told || !r.lasts() {
		return
	}
	r.told = state
	r.publisher.Event(r.ctx, state == maintenancev1.NodeFailed || state == maintenancev1.NodeGone, maintenancev1.EventConditionChanged, string(state))
}

// lasts reports whether the state lasts long enough for the object to show it.
func (r *nodeRecord) lasts() bool { return !r.passing || r.status.Wait != nil }
