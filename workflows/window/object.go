package window

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.temporal.io/sdk/workflow"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	"drydock.dev/drydock/internal/conditions"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/internal/windows"
	"drydock.dev/drydock/workflows/kit"
)

// ObjectRequest is a MaintenanceWindow on the hub. Every signal has all of it.
type ObjectRequest struct {
	Source temporal.Object `json:"source"`
	// Generation of the object. An earlier one than the last is ignored.
	Generation int64 `json:"generation,omitempty"`
	// Object has the spec with its defaults, and nothing else but the name; empty: the spec is invalid.
	Object drydockv1.MaintenanceWindow `json:"object"`
	// InvalidSpec is why the spec is invalid; empty: it is valid.
	InvalidSpec string `json:"invalidSpec,omitempty"`
	// Deleted: the object has a deletionTimestamp. Gone: it no longer exists; only the UID of the source is set beside it.
	Deleted bool `json:"deleted,omitempty"`
	Gone    bool `json:"gone,omitempty"`
}

// source is the MaintenanceWindow that defines the window, and shows its status.
type source struct {
	Object temporal.Object `json:"object"`
	// Generation is the last one that was handled. Invalid is why its spec is invalid; empty: the window follows it.
	Generation int64  `json:"generation"`
	Invalid    string `json:"invalid,omitempty"`
	// Deleted: the window is cancelled, and the object is released with its last status.
	Deleted    bool               `json:"deleted,omitempty"`
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	Publisher  kit.PublisherState `json:"publisher,omitzero"`
}

// Reasons of the condition Ready of a MaintenanceWindow.
const (
	reasonReconciled  = "Reconciled"
	reasonInvalidSpec = "InvalidSpec"
)

// receive stores the request of an object. Of several requests of one object, the last one counts.
func (w *maintenanceWindow) receive(r ObjectRequest) {
	w.messages++
	w.changed = true
	if last := len(w.requests) - 1; last >= 0 && w.requests[last].Source.UID == r.Source.UID {
		if before := w.requests[last]; !r.Gone && (before.Gone || before.Generation > r.Generation) {
			return // it is late
		}
		w.requests = w.requests[:last]
	}
	w.requests = append(w.requests, r)
}

// followObject acts on the requests of the object.
func (w *maintenanceWindow) followObject(ctx workflow.Context) {
	for len(w.requests) > 0 {
		request := w.requests[0]
		w.requests = w.requests[1:]
		if w.source == nil && w.vacant(ctx) && !request.Deleted && request.InvalidSpec == "" {
			w.adopt(ctx, request.Source)
		}
		if w.source != nil && w.source.Object.UID == request.Source.UID && !w.source.Deleted {
			w.followRequest(ctx, request)
		}
	}
	if w.objectGone() {
		w.followRequest(ctx, ObjectRequest{Source: w.source.Object, Deleted: true, Gone: true})
	}
}

// vacant reports whether an object may define the window.
func (w *maintenanceWindow) vacant(ctx workflow.Context) bool {
	return w.state.Window == nil || w.state.Phase(workflow.Now(ctx)) == windows.PhaseOver
}

// adopt makes an object the one that defines the window.
func (w *maintenanceWindow) adopt(ctx workflow.Context, object temporal.Object) {
	w.source = &source{Object: object}
	_ = workflow.UpsertMemo(ctx, map[string]any{temporal.MemoObject: object}) // controllers and people see it
	w.publishTo(ctx)
}

// publishTo starts to publish the status to the object.
func (w *maintenanceWindow) publishTo(ctx workflow.Context) {
	publisher := &kit.Publisher{
		Object: &w.source.Object, Current: func() any { return w.objectStatus(ctx) }, Retrier: kit.HubRetrier(nil), State: w.source.Publisher,
	}
	w.publisher = publisher
	w.publishing.Go(w.publishingCtx, "publish", publisher.Run)
}

// followRequest acts on a request of the object that defines the window. A repeated one changes nothing.
func (w *maintenanceWindow) followRequest(ctx workflow.Context, r ObjectRequest) {
	s := w.source
	switch {
	case r.Deleted:
		w.cancel(ctx, windows.Request{Reason: "the MaintenanceWindow was deleted"})
		s.Deleted = true
	case r.Generation <= s.Generation:
	case r.InvalidSpec != "":
		s.Generation, s.Invalid = r.Generation, r.InvalidSpec
	default:
		_, err := w.define(ctx, windows.DefineRequest{Object: r.Object})
		if s.Generation, s.Invalid = r.Generation, ""; err != nil {
			s.Invalid = temporal.ErrorMessage(err)
		}
	}
}

// releaseObject publishes the last status of a deleted object, and releases it.
func (w *maintenanceWindow) releaseObject() {
	if w.source == nil || !w.source.Deleted || w.releasing {
		return
	}
	w.releasing = true
	w.publishing.Go(w.publishingCtx, "release the object", func(ctx workflow.Context) {
		w.publisher.Finish(ctx)
		w.releasing = false
		if ctx.Err() != nil {
			return // the next run releases it
		}
		w.publisher.Close()
		w.source, w.publisher, w.changed = nil, nil, true
	})
}

// pauseObject ends the writes of this run. The next run continues them.
func (w *maintenanceWindow) pauseObject(ctx workflow.Context) {
	w.publishing.Stop()
	_ = workflow.Await(ctx, func() bool { return w.publishing.Running == 0 })
}

// finish publishes the last status of the window. It returns false if the window is needed again.
func (w *maintenanceWindow) finish(ctx workflow.Context) bool {
	if w.publisher != nil {
		written, publisher := false, w.publisher
		w.publishing.Go(w.publishingCtx, "publish the last status", func(ctx workflow.Context) {
			publisher.Finish(ctx)
			written = true
		})
		_ = workflow.Await(ctx, func() bool { return written || w.changed })
		kit.HandlePendingSignals(ctx)
	}
	return !w.changed && !w.unannounced() && w.defining == 0
}

// objectGone reports whether the object was deleted without its finalizer.
func (w *maintenanceWindow) objectGone() bool {
	return w.source != nil && w.publisher.Gone() && !w.source.Deleted
}

// checkSource refuses a change of the definition by other ways than the object.
func (w *maintenanceWindow) checkSource() error {
	if w.source == nil {
		return nil
	}
	return fmt.Errorf("%s on the hub defines the window: change that object", w.source.Object)
}

// publishEvent records an event of the window on its object. Notifications of receivers are not recorded.
func (w *maintenanceWindow) publishEvent(ctx workflow.Context, e windows.Event) {
	if w.publisher == nil || e.Kind == windows.EventUpcoming {
		return
	}
	message := e.Message
	if by := strings.TrimSuffix(e.By+": "+e.Reason, ": "); by != "" {
		message += " (" + strings.TrimPrefix(by, ": ") + ")"
	}
	w.publisher.Event(ctx, e.Kind == windows.EventMissed, strings.ToUpper(string(e.Kind[:1]))+string(e.Kind[1:]), message)
}

// showObject updates the condition, and requests a write of the status.
func (w *maintenanceWindow) showObject(ctx workflow.Context) {
	if w.source == nil {
		return
	}
	now := workflow.Now(ctx)
	ready, reason, message := metav1.ConditionTrue, reasonReconciled, "the window is "+string(w.state.Phase(now))
	if invalid := cmp.Or(w.source.Invalid, w.trouble); invalid != "" {
		ready, reason, message = metav1.ConditionFalse, reasonInvalidSpec, invalid
		if w.source.Invalid != "" && w.state.Window != nil {
			message += "; the window keeps its last valid spec"
		}
	}
	conditions.Set(&w.source.Conditions, drydockv1.ConditionReady, ready, reason, message, now)
	w.publisher.Open() // not before: an object shows a whole status from the first write on
	w.publisher.Change()
}

// objectSubscribers limits the subscribers in the status of an object.
const objectSubscribers = 20

// objectStatus returns the status that the object shows.
func (w *maintenanceWindow) objectStatus(ctx workflow.Context) drydockv1.MaintenanceWindowStatus {
	now := w.status(ctx)
	status := drydockv1.MaintenanceWindowStatus{
		ObservedGeneration: w.source.Generation, Phase: string(now.Phase), Conditions: slices.Clone(w.source.Conditions),
		SubscriberCount: int32(len(now.Subscribers)), Subscribers: now.Subscribers[:min(len(now.Subscribers), objectSubscribers)],
	}
	for i := range status.Conditions {
		status.Conditions[i].ObservedGeneration = w.source.Generation
	}
	if o := now.Opening; o != nil {
		status.Opening = &drydockv1.WindowOpening{Start: seconds(o.Start), End: seconds(o.End)}
	}
	if len(now.Upcoming) > 0 {
		status.NextOpening = &drydockv1.WindowOpening{Start: seconds(now.Upcoming[0].Start), End: seconds(now.Upcoming[0].End)}
	}
	if now.ExcludedUntil != nil {
		status.ExcludedUntil = new(seconds(*now.ExcludedUntil))
	}
	if o := now.Override; o != nil {
		status.Override = &drydockv1.WindowOverride{By: o.By, Reason: o.Reason, Until: seconds(o.Until)}
	}
	return status
}

// seconds returns a moment as the API server stores it.
func seconds(at time.Time) metav1.Time { return metav1.NewTime(at.UTC().Truncate(time.Second)) }
