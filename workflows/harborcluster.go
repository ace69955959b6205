package workflows

import (
	"errors"
	"fmt"
	"time"

	sdktemporal "go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
	"k8s.io/apimachinery/pkg/types"

	"drydock.dev/drydock/activities"
	goharborv1 "drydock.dev/drydock/internal/apis/goharbor/v1beta1"
	"drydock.dev/drydock/internal/emergency"
	"drydock.dev/drydock/internal/harbor"
	"drydock.dev/drydock/internal/temporal"
)

// HarborClusterInput names a HarborCluster.
type HarborClusterInput struct {
	Cluster   string `json:"cluster"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Carried is the state of the run before; nil in the first.
	Carried *HarborClusterCarried `json:"carried,omitempty"`
}

// HarborClusterCarried is what a run hands to the next one.
type HarborClusterCarried struct {
	Status    HarborClusterStatus            `json:"status"`
	TaskQueue string                         `json:"taskQueue"`
	UID       types.UID                      `json:"uid,omitempty"`
	Applied   map[harbor.Part]harbor.Applied `json:"applied,omitempty"`
	// Held is what is known of the emergency stop.
	Held emergency.State `json:"held"`
}

// HarborApplyRequest is a HarborCluster as somebody wants it.
type HarborApplyRequest struct {
	Actor  string                   `json:"actor,omitempty"`
	Object goharborv1.HarborCluster `json:"object"`
}

// HarborCluster keeps a Harbor and the services it depends on as their HarborCluster says, an object in the cluster: it applies database, cache and
// storage, and Harbor when they are ready; it puts right what somebody has changed; and it says in the object's status how all of it is. It ends when
// the object is deleted, and removes before what belongs to it. Cancelled, it leaves everything as it is.
func HarborCluster(ctx workflow.Context, in HarborClusterInput) (HarborClusterStatus, error) {
	h, err := newHarborKeeper(ctx, in)
	if err != nil {
		return HarborClusterStatus{}, err
	}
	return h.run(ctx)
}

// harborKeeper is one run of the workflow.
type harborKeeper struct {
	in      HarborClusterInput
	ref     activities.HarborRef
	status  HarborClusterStatus
	record  *harborRecord
	applied map[harbor.Part]harbor.Applied
	// taskQueue of the cluster's activities; empty: it is to be looked up.
	taskQueue string
	holds     holdKeeper
	// changing is how many requests to change the object are being carried out.
	changing int
	// ending: no change can be asked for any more.
	ending bool

	withdraw  workflow.CancelFunc
	withdrawn *temporal.SignalRequest
	signals   int
	drain     func()
	drainHeld func()

	hub    *activities.Rollouts
	harbor *activities.Harbor
}

func newHarborKeeper(ctx workflow.Context, in HarborClusterInput) (*harborKeeper, error) {
	h := &harborKeeper{in: in, applied: map[harbor.Part]harbor.Applied{}}
	h.ref = activities.HarborRef{Cluster: in.Cluster, Namespace: in.Namespace, Name: in.Name}
	if c := in.Carried; c != nil {
		h.taskQueue, h.ref.UID, h.holds.state = c.TaskQueue, c.UID, c.Held
		if c.Applied != nil {
			h.applied = c.Applied
		}
	}
	h.record = newHarborRecord(ctx, &h.status, in)
	return h, errors.Join(
		workflow.SetQueryHandlerWithOptions(ctx, temporal.QueryStatus, func() (HarborClusterStatus, error) { return h.status, nil },
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
func (h *harborKeeper) run(ctx workflow.Context) (HarborClusterStatus, error) {
	work, withdraw := workflow.WithCancel(ctx)
	h.withdraw = withdraw
	listening, _ := workflow.NewDisconnectedContext(ctx)
	h.drain = onSignal(listening, temporal.SignalCancel, "End, and leave everything as it is.", func(r temporal.SignalRequest) {
		h.signals++
		if h.withdrawn == nil {
			h.withdrawn = &r
		}
		h.ending = true
		h.withdraw()
	})
	h.drainHeld = h.holds.listen(listening, h.showHold)
	h.holds.follow(work, h.in.Cluster)
	err := h.keep(work)
	h.ending = true
	if workflow.IsContinueAsNewError(err) {
		return HarborClusterStatus{}, err
	}
	h.holds.leave(listening)
	_ = workflow.Await(listening, func() bool { return workflow.AllHandlersFinished(ctx) }) // who has asked for a change gets an answer
	return h.finish(listening, err)
}

// keep waits until something is to be done or said, and does it, again and again.
func (h *harborKeeper) keep(ctx workflow.Context) error {
	if err := h.locate(ctx); err != nil {
		return err
	}
	if err := h.holds.awaitKnown(ctx, h.record.reason); err != nil {
		return err
	}
	for {
		// The object may be about to be made.
		if err := workflow.Await(ctx, func() bool { return h.changing == 0 }); err != nil {
			return err
		}
		if mustContinueAsNew(ctx, h.signals) {
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
	hub := insistence{taskQueue: temporal.TaskQueue, waiting: h.record.reason.set}
	return hub.effect(ctx, "locate "+h.in.Cluster, h.hub.LocateCluster, h.in.Cluster, &h.taskQueue)
}

// held: nothing may be applied or removed. What can be seen is still said.
func (h *harborKeeper) held() bool { return h.holds.of(h.in.Cluster) != nil }

// showHold shows what keeps anything from being applied or removed.
func (h *harborKeeper) showHold() {
	h.status.Held = h.holds.of(h.in.Cluster)
	h.record.show()
}

// awaitDue watches the HarborCluster and all that belongs to it. The zero value is returned when the run must end first, or something else is to be
// waited for since the cluster is held, or is not any more.
func (h *harborKeeper) awaitDue(ctx workflow.Context) (activities.HarborDue, error) {
	held := h.held()
	watching, breakOff := workflow.WithCancel(ctx)
	workflow.GoNamed(watching, "end the run in time", func(ctx workflow.Context) {
		if workflow.Await(ctx, func() bool { return mustContinueAsNew(ctx, h.signals) || h.held() != held }) == nil {
			breakOff()
		}
	})
	in := activities.AwaitHarborDueInput{HarborRef: h.ref, Status: h.status.Harbor, Applied: h.applied, Held: held}
	var due activities.HarborDue
	insist := h.insist()
	insist.silence = blindTime
	err := insist.wait(watching, "watch "+h.ref.String(), nil, "", h.harbor.AwaitHarborDue, in, &due)
	breakOff()
	if sdktemporal.IsCanceledError(err) && ctx.Err() == nil {
		return activities.HarborDue{}, nil
	}
	return due, err
}

// take takes in how everything is. Of another object of the name nothing has been applied.
func (h *harborKeeper) take(ctx workflow.Context, due activities.HarborDue) {
	if h.ref.UID != due.UID {
		h.ref.UID = due.UID
		h.applied = map[harbor.Part]harbor.Applied{}
	}
	for _, part := range due.Moot {
		delete(h.applied, part)
	}
	h.record.seen(ctx, due.Status)
}

// act does all that is due at once, each for itself: what fails neither stops nor cancels anything else. It returns when all of it is over, and a
// little later when it is not known what came of something, which is due still then.
func (h *harborKeeper) act(ctx workflow.Context, due activities.HarborDue) {
	var trouble error
	atWork := 0
	start := func(name string, run func(workflow.Context) error) {
		atWork++
		workflow.GoNamed(ctx, name, func(ctx workflow.Context) {
			if err := run(ctx); err != nil {
				trouble = err
			}
			atWork--
		})
	}
	if due.Unheld {
		start("hold", func(ctx workflow.Context) error {
			return h.tryOnce(ctx, "hold "+h.ref.String(), h.harbor.HoldHarborCluster, h.ref, nil)
		})
	}
	for _, part := range due.Parts {
		if h.held() {
			break
		}
		start("apply "+string(part.Part), func(ctx workflow.Context) error { return h.applyPart(ctx, part) })
	}
	if due.Outdated {
		start("status", func(ctx workflow.Context) error {
			in := activities.WriteHarborStatusInput{HarborRef: h.ref, Status: due.Status}
			return h.tryOnce(ctx, "say that it is "+string(due.Status.Status), h.harbor.WriteHarborStatus, in, nil)
		})
	}
	// What has begun is ended: a cancelled run knows what it did.
	waiting, stopWaiting := workflow.NewDisconnectedContext(ctx)
	_ = workflow.Await(waiting, func() bool { return atWork == 0 })
	stopWaiting()
	h.record.failures(h.failures())
	if trouble != nil && ctx.Err() == nil {
		h.record.reason.set(ctx, reasonOf(trouble), temporal.ErrorMessage(trouble))
		_ = workflow.NewTimerWithOptions(ctx, lookAgainAfter, workflow.TimerOptions{Summary: "before it is tried again"}).Get(ctx, nil)
		h.record.reason.set(ctx, "", "")
	}
}

// lookAgainAfter is the pause after something of which it is not known what came of it.
const lookAgainAfter = 5 * time.Second

// tryOnce runs an activity for one round. What is not done then is found due again.
func (h *harborKeeper) tryOnce(ctx workflow.Context, summary string, activity, input, result any) error {
	insist := h.insist().until(workflow.Now(ctx).Add(-time.Nanosecond))
	insist.attempts = 2
	return insist.effect(ctx, summary, activity, input, result)
}

// failures are what could not be applied, all of it; nil: nothing.
func (h *harborKeeper) failures() error {
	var failures []error
	for _, part := range workflow.DeterministicKeys(h.applied) {
		if failure := h.applied[part].Failure; failure != nil {
			failures = append(failures, fmt.Errorf("%s: %s", part, failure.Message))
		}
	}
	return errors.Join(failures...)
}

// applyPart applies a part. A failure is an answer, which is remembered; an error leaves open what came of it.
func (h *harborKeeper) applyPart(ctx workflow.Context, part harbor.Due) error {
	var applied harbor.Applied
	err := h.tryOnce(ctx, fmt.Sprintf("apply the %s: %s", part.Part, part.Why), h.harbor.ApplyHarborPart,
		activities.ApplyHarborPartInput{HarborRef: h.ref, Due: part}, &applied)
	switch {
	case err == nil:
		h.applied[part.Part] = applied
		return nil
	case ctx.Err() != nil || unanswered(err):
		return err
	}
	h.applied[part.Part] = harbor.Applied{
		Wanted: part.Wanted, At: workflow.Now(ctx), Failures: h.applied[part.Part].Failures + 1,
		Failure: &harbor.Failure{Reason: harbor.ReasonApplyFailed, Message: temporal.ErrorMessage(err)},
	}
	return nil
}

// unanswered: nobody has said what came of it, or that nothing may come of it any more.
func unanswered(err error) bool {
	if _, timeout := errors.AsType[*sdktemporal.TimeoutError](err); timeout {
		return true
	}
	switch temporal.ErrorType(err) {
	case temporal.ErrHandedOver, temporal.ErrClusterUnreachable, temporal.ErrNotFound:
		return true
	}
	return false
}

// insist returns the insistence of this run: its status says why an activity does not succeed.
func (h *harborKeeper) insist() insistence {
	return insistence{taskQueue: h.taskQueue, waiting: h.record.reason.set}
}

// continueAsNew hands the state to a new run. No activity runs, and nobody waits for an answer.
func (h *harborKeeper) continueAsNew(ctx workflow.Context) error {
	if err := workflow.Await(ctx, func() bool { return workflow.AllHandlersFinished(ctx) }); err != nil {
		return err
	}
	h.drain()
	h.drainHeld()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	in := h.in
	in.Carried = &HarborClusterCarried{Status: h.status, TaskQueue: h.taskQueue, UID: h.ref.UID, Applied: h.applied, Held: h.holds.state}
	return workflow.NewContinueAsNewError(ctx, temporal.HarborCluster, in)
}
