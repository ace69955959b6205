// Package harbor holds the workflow that applies a HarborCluster and keeps it as its spec says.
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
	// Carried is the state of the run before; nil in the first.
	Carried *Carried `json:"carried,omitempty"`
}

// Carried is what a run hands to the next one.
type Carried struct {
	Status    Status    `json:"status"`
	TaskQueue string    `json:"taskQueue"`
	UID       types.UID `json:"uid,omitempty"`
	// Known is what was known of the object but for its status, which Status has.
	Known harbor.Known `json:"known"`
	// Held is what is known of the emergency stop.
	Held emergency.State `json:"held"`
}

// ApplyRequest is a HarborCluster as somebody wants it.
type ApplyRequest struct {
	Actor  string                   `json:"actor,omitempty"`
	Object goharborv1.HarborCluster `json:"object"`
}

// HarborCluster keeps a Harbor and the services it depends on as their HarborCluster says, an object in the cluster: it applies database, cache and
// storage, and Harbor when they are ready; it puts right what somebody has changed; and it says in the object's status how all of it is. It ends when
// the object is deleted, and removes before what belongs to it. Cancelled, it leaves everything as it is.
func HarborCluster(ctx workflow.Context, in Input) (Status, error) {
	h, err := newHarborKeeper(ctx, in)
	if err != nil {
		return Status{}, err
	}
	return h.run(ctx)
}

// harborKeeper is one run of the workflow.
type harborKeeper struct {
	in     Input
	ref    harboractivities.Ref
	status Status
	record *harborRecord
	// known is what is known of the object but for its status.
	known harbor.Known
	// taskQueue of the cluster's activities; empty: it is to be looked up.
	taskQueue string
	holds     gates.Holds
	// unlocated is why the run ends before it is known who works on the cluster.
	unlocated error
	// changing is how many requests to change the object are being carried out.
	changing int
	// ending: no change can be asked for any more.
	ending bool
	// applying are the parts that are being applied; true: one that takes long, which nothing else waits for.
	applying map[harbor.Part]bool
	// trouble is why it is not known what came of something.
	trouble []error
	// removing are the parts that are being removed, and seen what each waits for.
	removing []harbor.Part
	// left are the parts that were not removed, as the object was gone before its time.
	left []string
	seen map[harbor.Part]drydockv1.Wait

	withdraw  workflow.CancelFunc
	withdrawn *temporal.SignalRequest
	signals   int

	harbor *harboractivities.Activities
}

func newHarborKeeper(ctx workflow.Context, in Input) (*harborKeeper, error) {
	h := &harborKeeper{in: in, applying: map[harbor.Part]bool{}, seen: map[harbor.Part]drydockv1.Wait{}}
	h.ref = harboractivities.Ref{Cluster: in.Cluster, Namespace: in.Namespace, Name: in.Name}
	if c := in.Carried; c != nil {
		h.taskQueue, h.ref.UID, h.known, h.holds.State = c.TaskQueue, c.UID, c.Known, c.Held
	}
	if h.known.Applied == nil {
		h.known.Applied = map[harbor.Part]harbor.Applied{}
	}
	h.record = newHarborRecord(ctx, &h.status, in)
	return h, errors.Join(
		workflow.SetQueryHandlerWithOptions(ctx, temporal.QueryStatus, func() (Status, error) { return h.status, nil },
			workflow.QueryHandlerOptions{Description: "How the Harbor and each of its services is, and why."}),
		workflow.SetUpdateHandlerWithOptions(ctx, temporal.UpdateApply, h.apply, workflow.UpdateHandlerOptions{
			Description: "Apply the HarborCluster: {actor, object}.", Validator: h.checkApply,
		}),
		workflow.SetUpdateHandlerWithOptions(ctx, temporal.UpdateDelete, h.delete, workflow.UpdateHandlerOptions{
			Description: "Delete the HarborCluster, and what belongs to it: {actor, reason}.", Validator: h.checkDelete,
		}),
	)
}

// run keeps the Harbor until the run ends.
func (h *harborKeeper) run(ctx workflow.Context) (Status, error) {
	work, withdraw := workflow.WithCancel(ctx)
	h.withdraw = withdraw
	listening, _ := workflow.NewDisconnectedContext(ctx)
	kit.OnSignal(listening, temporal.SignalCancel, "End, and leave everything as it is.", func(r temporal.SignalRequest) {
		h.signals++
		if h.withdrawn == nil {
			h.withdrawn = &r
		}
		h.ending = true
		h.withdraw()
	})
	kit.OnSignal(listening, temporal.SignalObserved, "What applying or removing a part waits for.", func(o temporal.Observation) { h.observed(listening, o) })
	h.holds.Listen(listening, h.showHold)
	h.holds.Follow(work, h.in.Cluster)
	err := h.keep(work)
	h.ending = true
	h.awaitApplied(listening)
	if h.taskQueue == "" {
		h.unlocated = err
	}
	if workflow.IsContinueAsNewError(err) {
		return Status{}, err
	}
	h.holds.Leave(listening)
	_ = workflow.Await(listening, func() bool { return workflow.AllHandlersFinished(ctx) }) // who has asked for a change gets an answer
	return h.finish(listening, err)
}

// keep waits until something is to be done or said, and does it, again and again.
func (h *harborKeeper) keep(ctx workflow.Context) error {
	if err := h.locate(ctx); err != nil {
		return err
	}
	if err := h.holds.AwaitKnown(ctx, h.record.reason.Set); err != nil {
		return err
	}
	for {
		h.settle(ctx)
		// The object may be about to be made.
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
			h.take(ctx, due)
			h.act(ctx, due)
		}
	}
}

// locate finds who works on the cluster.
func (h *harborKeeper) locate(ctx workflow.Context) error {
	if h.taskQueue != "" {
		return nil
	}
	hub := kit.HubRetrier(h.record.reason.Set)
	return kit.Locate(ctx, hub, h.in.Cluster, &h.taskQueue)
}

// held: nothing may be applied or removed. What can be seen is still said.
func (h *harborKeeper) held() bool { return h.holds.Of(h.in.Cluster) != nil }

// showHold shows what keeps anything from being applied or removed.
func (h *harborKeeper) showHold() {
	h.status.Held = h.holds.Of(h.in.Cluster)
	h.record.show()
}

// awaitDue watches the HarborCluster and all that belongs to it. The zero value is returned when the run must end first, or something else is to be
// waited for since the cluster is held, or is not any more, or since a part that took long is applied.
func (h *harborKeeper) awaitDue(ctx workflow.Context) (harbor.Look, error) {
	held, applying := h.held(), len(h.applying)
	watching, breakOff := workflow.WithCancel(ctx)
	workflow.GoNamed(watching, "end the run in time", func(ctx workflow.Context) {
		if workflow.Await(ctx, func() bool {
			return kit.ShouldContinueAsNew(ctx, h.signals) || h.held() != held || len(h.applying) != applying
		}) == nil {
			breakOff()
		}
	})
	in := harboractivities.AwaitDueInput{Ref: h.ref, Known: h.known}
	in.Known.Status, in.Known.Held, in.Known.Applying = h.status.Harbor, held, workflow.DeterministicKeys(h.applying)
	var due harbor.Look
	retrier := h.retrier()
	retrier.HeartbeatTimeout = kit.WatchHeartbeatTimeout
	retrier.Abandon = applying > 0 // it hears only after seconds that it is cancelled
	err := retrier.Watch(watching, "watch "+h.ref.String(), h.harbor.AwaitHarborDue, in, &due)
	breakOff()
	if sdktemporal.IsCanceledError(err) && ctx.Err() == nil {
		return harbor.Look{}, nil
	}
	return due, err
}

// take takes in how everything is. Of another object of the name nothing has been applied.
func (h *harborKeeper) take(ctx workflow.Context, due harbor.Look) {
	if h.ref.UID != due.UID {
		h.ref.UID = due.UID
		h.known = harbor.Known{Applied: map[harbor.Part]harbor.Applied{}}
	}
	for _, part := range due.Moot {
		delete(h.known.Applied, part)
	}
	if due.Deferred {
		h.known.StatusWritten = nil
	}
	h.record.seen(ctx, due.Status)
}

// retrier returns the retrier of this run: its status says why an activity does not succeed.
func (h *harborKeeper) retrier() kit.Retrier {
	return kit.ClusterRetrier(h.in.Cluster, &h.taskQueue, h.record.reason.Set)
}

// continueAsNew hands the state to a new run. Nothing is being changed, and nobody waits for an answer.
func (h *harborKeeper) continueAsNew(ctx workflow.Context) error {
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
	return workflow.NewContinueAsNewError(ctx, temporal.HarborCluster, in)
}
