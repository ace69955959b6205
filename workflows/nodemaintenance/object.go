package nodemaintenance

import (
	"reflect"
	"slices"

	"go.temporal.io/sdk/workflow"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/drydock/activities/objects"
	"drydock.dev/drydock/activities/requests"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/edits"
	"drydock.dev/drydock/internal/temporal"
)

// ObjectRequest is the part of a NodeMaintenance in the cluster that may change while the maintenance runs. An edit of the spec changes the steps that
// have not ended; an invalid one changes nothing. A deletion says that the requestor is done, or no longer needs the node.
type ObjectRequest struct {
	temporal.ObjectRequest[maintenancev1.NodeMaintenanceSpec]
	// RequestorFailed is the message of the condition RequestorFailed that the requestor set to True; nil: it is not True.
	RequestorFailed *string `json:"requestorFailed,omitempty"`
	// KeepStale: the maintenance never becomes stale, by the annotation maintenance.nvidia.com/garbage-collector.ignore.
	KeepStale bool `json:"keepStale,omitempty"`
	// Gone: the object no longer exists, and with it the requests of all its requestors. Only UID and Deleted are set beside it.
	Gone bool `json:"gone,omitempty"`
}

// ObjectRequestOf returns the request of an object.
func ObjectRequestOf(object *maintenancev1.NodeMaintenance) ObjectRequest {
	request := ObjectRequest{KeepStale: object.Annotations[maintenancev1.AnnotationKeepStale] == "true"}
	request.UID, request.Generation, request.Spec, request.Deleted = object.UID, object.Generation, object.Spec, object.DeletionTimestamp != nil
	for _, condition := range object.Status.Conditions {
		if condition.Type == maintenancev1.ConditionRequestorFailed && condition.Status == metav1.ConditionTrue {
			request.RequestorFailed = &condition.Message
		}
	}
	return request
}

// followSource begins to publish the status to the object. It cancels a maintenance whose object was deleted before it began, or already had its
// maintenance: of two workers that start it, one may be late, unless the object is unserved. found is the state of the object; nil: it was not read. unread: it must be read now.
func (m *nodeMaintenance) followSource(ctx workflow.Context, found *objects.Request, unread bool) error {
	switch {
	case m.in.Source == nil:
		return nil
	case found == nil && !unread:
		found = &objects.Request{}
	case found == nil:
		found = &objects.Request{}
		if err := m.retrier().Run(ctx, "read "+m.in.Source.String(), m.objects.ReadRequest, *m.in.Source, found); err != nil {
			return err
		}
	}
	if requests.Unwanted(*found) {
		m.record.publisher.Close()
		m.cancelForAll(temporal.SignalRequest{Reason: "the NodeMaintenance no longer requests it"})
		return ctx.Err()
	}
	m.record.publisher.Open()
	return nil
}

// followObject acts on the differences between the request of the object and the last one.
func (m *nodeMaintenance) followObject(now ObjectRequest) {
	if m.in.Source == nil || m.in.Source.UID != now.UID {
		return // the object of another maintenance with this name
	}
	last := m.state.Object
	if now.Gone {
		now.Spec, now.RequestorFailed = last.Spec, last.RequestorFailed
		now.Spec.AdditionalRequestors = nil
	}
	if now.InvalidSpec != "" {
		m.record.note("the edit of the NodeMaintenance is ignored: " + now.InvalidSpec)
		now.Spec = last.Spec
	}
	m.state.Object = now
	m.record.publisher.Change()
	m.followRequestors(last.Spec.AdditionalRequestors, now.Spec.AdditionalRequestors)
	m.followSpec(last.Spec, now.Spec)
	switch needing, failing := m.state.requestors(needsNode), m.state.failing(); {
	case now.RequestorFailed != nil && last.RequestorFailed == nil && len(needing) > 0: // the condition does not say whose work failed
		m.handleFail(temporal.SignalRequest{Requestor: needing[0].RequestorID, Reason: *now.RequestorFailed})
	case now.RequestorFailed == nil && last.RequestorFailed != nil && failing != nil:
		m.handleRecover(temporal.SignalRequest{Requestor: failing.RequestorID})
	}
	if now.Deleted && !last.Deleted {
		m.followDeletion(temporal.SignalRequest{Requestor: m.state.first().RequestorID, Reason: "the NodeMaintenance was deleted"})
	}
}

// followDeletion takes the deletion of the object for a done of its requestor if the node is ready, or may be. Before the drain it is a cancel. A node
// from which pods were evicted is checked before it returns to service.
func (m *nodeMaintenance) followDeletion(deleted temporal.SignalRequest) {
	switch first := m.state.first(); {
	case m.state.Status.ReadyForRequestors:
		m.handleDone(deleted)
	case first.State.NeedsNode() && m.state.Status.State == maintenancev1.NodeDraining:
		m.record.note("the NodeMaintenance was deleted during the drain")
		m.keepDone(first, deleted)
	case first.State.NeedsNode() && m.state.Status.State == maintenancev1.NodeReady:
		m.leave("cancel", first, deleted) // the Job ends
	default:
		m.cancelFor(deleted)
	}
}

// unwanted reports whether no requestor waits for the drain, because the object is deleted.
func (m *nodeMaintenance) unwanted() bool { return m.state.Object.Deleted && !m.state.wanted() }

// followRequestors adds and removes additional requestors.
func (m *nodeMaintenance) followRequestors(before, now []string) {
	for _, id := range missing(now, before) {
		if err := m.checkJoin(id); err != nil {
			m.record.note(id + " cannot join: " + err.Error())
			continue
		}
		m.join(temporal.SignalRequest{Requestor: id})
	}
	for _, id := range missing(before, now) {
		m.handleDone(temporal.SignalRequest{Requestor: id})
	}
}

// followSpec applies an edit of the spec: a drain or a wait in progress begins again with it. The requestors and the cordon stay: the requestors have
// their own rules, and the cordon has been decided.
func (m *nodeMaintenance) followSpec(before, now maintenancev1.NodeMaintenanceSpec) {
	receivers := now.Notify // no step depends on them
	m.spec.Notify, m.in.Object.Spec.Notify = receivers, receivers
	if edits.WorkBegun(m.state.Status.State) {
		m.keepAction(now.Action)
		before.Action, now.Action = m.spec.Action, m.spec.Action
	}
	before.AdditionalRequestors, now.AdditionalRequestors, before.Notify, now.Notify = nil, nil, nil, nil
	//workflowcheck:ignore the order of a comparison does not matter
	if reflect.DeepEqual(before, now) {
		return
	}
	now.AdditionalRequestors, now.Cordon, now.Notify = m.spec.AdditionalRequestors, m.spec.Cordon, receivers
	m.spec, m.in.Object.Spec = now, now
	m.edits++
	m.record.log.Info("Request edited", "generation", m.state.Object.Generation)
}

// keepAction keeps the action with which the work began: its Job must still be found, and removed.
func (m *nodeMaintenance) keepAction(edited *maintenancev1.Action) {
	//workflowcheck:ignore the order of a comparison does not matter
	if !reflect.DeepEqual(m.spec.Action, edited) {
		m.record.note("the edit of spec.action is ignored: the work has begun")
	}
}

// unlessEdited runs a step, and reports whether an edit of the request ended it.
func (m *nodeMaintenance) unlessEdited(ctx workflow.Context, run func(workflow.Context) error) (edited bool, err error) {
	if m.in.Parent != "" {
		return false, run(ctx) // its spec is that of the rollout
	}
	edits := m.edits
	_, err, edited = unless(ctx, "until the request is edited",
		func(ctx workflow.Context) (outcome, error) {
			err := run(ctx)
			return m.state.outcomeOf(err), err
		},
		func(ctx workflow.Context) error {
			return workflow.Await(ctx, func() bool { return m.edits != edits })
		})
	return edited, err
}

// missing returns the elements of all that are not in some.
func missing(all, some []string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(id string) bool { return slices.Contains(some, id) })
}

// objectStatus returns the status that the object shows. The condition RequestorFailed belongs to the requestor once it has set it.
func (m *nodeMaintenance) objectStatus() any {
	status := *m.state.Status.DeepCopy()
	for i := range status.Conditions {
		status.Conditions[i].ObservedGeneration = m.state.Object.Generation
	}
	if m.state.Object.RequestorFailed != nil || m.state.failing() == nil {
		status.Conditions = slices.DeleteFunc(status.Conditions, func(c metav1.Condition) bool { return c.Type == maintenancev1.ConditionRequestorFailed })
	}
	return status
}

// onlyProgress reports whether two statuses of the object differ only by progress: which pods are left, and which locks. A step that takes long reports it
// every few seconds.
func onlyProgress(last, now any) bool {
	before, after := withoutProgress(last), withoutProgress(now)
	//workflowcheck:ignore the order of a comparison does not matter
	return reflect.DeepEqual(before, after)
}

func withoutProgress(shown any) maintenancev1.NodeMaintenanceStatus {
	status := shown.(maintenancev1.NodeMaintenanceStatus)
	status = *status.DeepCopy()
	status.Drain, status.WaitForCompletion, status.LockProgress = nil, nil, nil
	if status.Wait != nil {
		status.Wait.Message, status.Wait.Blockers = "", nil
	}
	return status
}
