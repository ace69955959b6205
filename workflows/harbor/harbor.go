// Package harbor holds the workflow that deploys and manages a HarborCluster.
package harbor

import (
	"errors"

	sdktemporal "go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
	"k8s.io/apimachinery/pkg/types"

	harboractivities "drydock.dev/drydock/activities/harbor"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	goharborv1 "drydock.dev/drydock/internal/apis/goharbor/v1beta1"
	"drydock.dev/drydock/internal/emergency"
	"drydock.dev/drydock/internal/harbor"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/gates"
	"drydock.dev/drydock/workflows/kit"
)

// Input names a HarborCluster.
type Input struct {
	Cluster   string `json:"cluster"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Carried is the state of the previous run; nil in the first run.
	Carried *Carried `json:"carried,omitempty"`
}

// Continues implements kit.Continued.
func (in Input) Continues() bool { return in.Carried != nil }

// ClusterName implements kit.OnCluster.
func (in Input) ClusterName() string { return in.Cluster }

// Carried is the state that a run carries to the next one.
type Carried struct {
	Status    Status    `json:"status"`
	TaskQueue string    `json:"taskQueue"`
	UID       types.UID `json:"uid,omitempty"`
	// Known is the known state of the object, without its status, which is in Status.
	Known harbor.Known `json:"known"`
	// Held is the last known state of the emergency stop.
	Held emergency.State `json:"held"`
}

// ApplyRequest is a request to apply a HarborCluster.
type ApplyRequest struct {
	Actor  string                   `json:"actor,omitempty"`
	Reason string                   `json:"reason,omitempty"`
	Object goharborv1.HarborCluster `json:"object"`
}

// HarborCluster manages a Harbor and the services it depends on according to a HarborCluster object in the cluster. It applies database, cache and
// storage first, and Harbor when they are ready. It corrects manual changes, and writes the object's status. When the object is deleted, it removes
// its resources and then ends. When the workflow is cancelled, it leaves everything as it is.
func HarborCluster(ctx workflow.Context, in Input) (Status, error) {
	h, err := newHarborCluster(ctx, in)
	if err != nil {
		return Status{}, err
	}
	return h.run(ctx)
}

// harborCluster is one run of the workflow.
type harborCluster struct {
	in     Input
	ref    harboractivities.Ref
	status Status
	record *record
	// known is the observed state of the object, without its status.
	known harbor.Known
	// taskQueue is that of the cluster's activities; empty until it is looked up.
	taskQueue string
	holds     gates.Holds
	// unlocated is why the run ends before the cluster was located.
	unlocated error
	// refused is why the first object of the run could not be written.
	refused error
	// changing counts the updates that are changing the object.
	changing int
	// ending: updates are no longer accepted.
	ending bool
	// applying are the parts that are being applied; true: the part takes long, and other work does not wait for it.
	applying map[harbor.Part]bool
	// trouble has the errors of actions whose results are unknown.
	trouble []error
	// removing are the parts that are being removed; seen has what each of them waits for.
	removing []harbor.Part
	// notRemoved are the parts that were not removed, because the object was gone before.
	notRemoved   []string
	removalWaits map[harbor.Part]drydockv1.Wait

	cancel    workflow.CancelFunc
	cancelled *temporal.SignalRequest
	signals   int

	harbor *harboractivities.Activities
}

func newHarborCluster(ctx workflow.Context, in Input) (*harborCluster, error) {
	h := &harborCluster{in: in, applying: map[harbor.Part]bool{}, removalWaits: map[harbor.Part]drydockv1.Wait{}}
	h.ref = harboractivities.Ref{Cluster: in.Cluster, Namespace: in.Namespace, Name: in.Name}
	if c := in.Carried; c != nil {
		h.taskQueue, h.ref.UID, h.known, h.holds.State = c.TaskQueue, c.UID, c.Known, c.Held
	}
	if h.known.Applied == nil {
		h.known.Applied = map[harbor.Part]harbor.Applied{}
	}
	h.record = newRecord(ctx, &h.status, in)
	return h, errors.Join(
		workflow.SetQueryHandlerWithOptions(ctx, temporal.QueryStatus, func() (Status, error) { return h.status, nil },
			workflow.QueryHandlerOptions{Description: "Status of Harbor and of each service, with reasons."}),
		workflow.SetUpdateHandlerWithOptions(ctx, temporal.UpdateApply, h.apply, workflow.UpdateHandlerOptions{
			Description: "Apply the HarborCluster: {actor, object}.", Validator: h.checkApply,
		}),
		workflow.SetUpdateHandlerWithOptions(ctx, temporal.UpdateDelete, h.delete, workflow.UpdateHandlerOptions{
			Description: "Delete the HarborCluster and its resources: {actor, reason}.", Validator: h.checkDelete,
		}),
	)
}

// run manages the Harbor until the run ends.
func (h *harborCluster) run(ctx workflow.Context) (Status, error) {
	work, cancel := workflow.WithCancel(ctx)
	h.cancel = cancel
	listening, _ := workflow.NewDisconnectedContext(ctx)
	kit.OnSignal(listening, temporal.SignalCancel, "End the workflow. Harbor and its services stay as they are.", func(r temporal.SignalRequest) {
		h.signals++
		if h.cancelled == nil {
			h.cancelled = &r
		}
		h.ending = true
		h.cancel()
	})
	kit.OnSignal(listening, temporal.SignalObserved, "Progress of applying or removing a part.", func(o temporal.Observation) { h.observed(listening, o) })
	h.holds.Listen(listening, h.showHold)
	h.holds.Subscribe(work, h.in.Cluster)
	err := h.manage(work)
	h.ending = true
	h.awaitApplied(listening)
	if h.taskQueue == "" {
		h.unlocated = err
	}
	if workflow.IsContinueAsNewError(err) {
		return Status{}, err
	}
	h.holds.Unsubscribe(listening)
	_ = workflow.Await(listening, func() bool { return workflow.AllHandlersFinished(ctx) }) // so that pending updates are answered
	if h.refused != nil {
		err = h.refused
	}
	return h.finish(listening, err)
}

// manage waits for changes and acts on them until the run ends.
func (h *harborCluster) manage(ctx workflow.Context) error {
	if err := h.locate(ctx); err != nil {
		return err
	}
	if err := h.holds.AwaitKnown(ctx, h.record.reason.Set); err != nil {
		return err
	}
	for {
		h.settle(ctx)
		// An update may be about to create the object.
		if err := workflow.Await(ctx, func() bool { return h.changing == 0 }); err != nil {
			return err
		}
		if kit.ShouldContinueAsNew(ctx, h.signals) {
			return h.continueAsNew(ctx)
		}
		due, err := h.awaitDue(ctx)
		switch {
		case err != nil:
			return err
		case due.Gone && h.changing > 0:
		case due.Gone:
			return h.gone()
		case due.Deleting:
			h.awaitApplied(ctx)
			return h.remove(ctx, due)
		case due.UID != "":
			h.recordPlan(ctx, due)
			h.execute(ctx, due)
		}
	}
}

// locate finds the task queue of the cluster.
func (h *harborCluster) locate(ctx workflow.Context) error {
	if h.taskQueue != "" {
		return nil
	}
	hub := kit.HubRetrier(h.record.reason.Set)
	return kit.Locate(ctx, hub, h.in.Cluster, &h.taskQueue)
}

// held reports whether the emergency stop forbids applying and removing. The status is still written.
func (h *harborCluster) held() bool { return h.holds.Of(h.in.Cluster) != nil }

// showHold shows the hold in the status.
func (h *harborCluster) showHold() {
	h.status.Held = h.holds.Of(h.in.Cluster)
	h.record.show()
}

// awaitDue watches the HarborCluster and its resources until an action is due. It returns the zero value if the wait must start again: the history is
// long, the hold has changed, or a part that took long has been applied.
func (h *harborCluster) awaitDue(ctx workflow.Context) (harbor.Plan, error) {
	held, applying := h.held(), len(h.applying)
	watching, stop := workflow.WithCancel(ctx)
	workflow.GoNamed(watching, "end the run in time", func(ctx workflow.Context) {
		if workflow.Await(ctx, func() bool {
			return kit.ShouldContinueAsNew(ctx, h.signals) || h.held() != held || len(h.applying) != applying
		}) == nil {
			stop()
		}
	})
	in := harboractivities.AwaitDueInput{Ref: h.ref, Known: h.known}
	in.Known.Status, in.Known.Held, in.Known.Applying = h.status.Harbor, held, workflow.DeterministicKeys(h.applying)
	var due harbor.Plan
	retrier := h.retrier()
	retrier.HeartbeatTimeout = kit.WatchHeartbeatTimeout
	retrier.Abandon = applying > 0 // a cancelled activity takes seconds to notice
	err := retrier.Watch(watching, "watch "+h.ref.String(), h.harbor.AwaitHarborDue, in, &due)
	stop()
	if sdktemporal.IsCanceledError(err) && ctx.Err() == nil {
		return harbor.Plan{}, nil
	}
	return due, err
}

// recordPlan records the observed state. Of an object with a new UID, nothing has been applied yet.
func (h *harborCluster) recordPlan(ctx workflow.Context, due harbor.Plan) {
	if h.ref.UID != due.UID {
		h.ref.UID = due.UID
		h.known = harbor.Known{Applied: map[harbor.Part]harbor.Applied{}}
	}
	for _, part := range due.Obsolete {
		delete(h.known.Applied, part)
	}
	if due.Deferred {
		h.known.StatusWritten = nil
	}
	h.record.seen(ctx, due.Status)
}

// retrier returns a retrier that reports failing activities in the status.
func (h *harborCluster) retrier() kit.Retrier {
	return kit.ClusterRetrier(h.in.Cluster, &h.taskQueue, h.record.reason.Set)
}

// continueAsNew carries the state to a new run once all changes and updates have finished.
func (h *harborCluster) continueAsNew(ctx workflow.Context) error {
	h.awaitApplied(ctx)
	if err := workflow.Await(ctx, func() bool { return workflow.AllHandlersFinished(ctx) }); err != nil {
		return err
	}
	kit.HandlePendingSignals(ctx)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	in := h.in
	in.Carried = &Carried{Status: h.status, TaskQueue: h.taskQueue, UID: h.ref.UID, Known: h.known, Held: h.holds.State}
	h.record.log.Info("Harbor continues as new")
	return workflow.NewContinueAsNewError(ctx, temporal.HarborCluster, in)
}
