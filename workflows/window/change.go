package window

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"go.temporal.io/sdk/workflow"

	windowsactivities "drydock.dev/drydock/activities/windows"
	"drydock.dev/drydock/internal/portal"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/internal/windows"
	"drydock.dev/drydock/workflows/kit"
)

// listen handles updates, signals and queries.
func (w *maintenanceWindow) listen(ctx workflow.Context) error {
	received := func(change func()) {
		w.messages++
		w.changed = true
		change()
	}
	kit.OnSignal(ctx, temporal.SignalSubscribeWindow, "Subscribe a workflow to the window.", func(s temporal.Subscription) {
		received(func() { w.Add(s) })
	})
	kit.OnSignal(ctx, temporal.SignalUnsubscribeWindow, "Unsubscribe a workflow that has ended.", func(s temporal.Subscription) {
		received(func() { w.Remove(s) })
	})
	kit.OnSignal(ctx, temporal.SignalAnnounce, "A portal asks for the openings of the window.", func(i portal.Inquiry) {
		w.messages++
		w.announceAgain(i)
	})
	kit.OnSignal(ctx, temporal.SignalCancel, "Cancel all openings; a current opening ends now.", func(r temporal.SignalRequest) {
		w.messages++
		w.cancel(ctx, windows.Request{Actor: r.Actor, Reason: r.Reason})
	})
	kit.OnSignal(ctx, temporal.SignalObject, "A MaintenanceWindow on the hub defines, changes or cancels the window.", w.receive)
	return errors.Join(
		workflow.SetQueryHandlerWithOptions(ctx, temporal.QueryStatus, func() (windows.Status, error) { return w.status(ctx), nil },
			workflow.QueryHandlerOptions{Description: "Status, upcoming openings and events of the window."}),
		workflow.SetQueryHandlerWithOptions(ctx, temporal.QueryPreviewEdit, w.previewEdit, workflow.QueryHandlerOptions{
			Description: "What an edit would do: {actor, object, now, schedule}. The schedule is the edited calendar from now on.",
		}),
		workflow.SetUpdateHandlerWithOptions(ctx, temporal.UpdateDefine, w.define, workflow.UpdateHandlerOptions{
			Description: "Define the window.",
			Validator: func(ctx workflow.Context, r windows.DefineRequest) error {
				return kit.InvalidSpec(w.checkDefine(ctx, r))
			},
		}),
		workflow.SetUpdateHandlerWithOptions(ctx, temporal.UpdateEdit, w.define, workflow.UpdateHandlerOptions{
			Description: "Change the window. A current opening keeps its end.",
			Validator: func(r windows.DefineRequest) error {
				return kit.InvalidSpec(errors.Join(w.checkName(r), cmp.Or(w.checkSource(), w.state.CheckEdit(r))))
			},
		}),
		onRequest(ctx, w, temporal.UpdateExtend, "Move the end of the current or next opening.", (*windows.State).CheckExtend, (*windows.State).Extend),
		onRequest(ctx, w, temporal.UpdateEnd, "Close the window early, and end an emergency override.", (*windows.State).CheckEnd, (*windows.State).End),
		onRequest(ctx, w, temporal.UpdateCancel, "Cancel the current opening, the next, another one, or all.", (*windows.State).CheckCancel, (*windows.State).Cancel),
		onRequest(ctx, w, temporal.UpdateOverride, "Open the window in an emergency.", (*windows.State).CheckOverride, (*windows.State).SetOverride),
	)
}

// onRequest registers an update that changes the window and returns its status. The handler checks again, because two updates may pass validation
// together.
func onRequest[R any](ctx workflow.Context, w *maintenanceWindow, name, description string,
	check func(*windows.State, R, time.Time) error, apply func(*windows.State, R, time.Time) windows.Event,
) error {
	return workflow.SetUpdateHandlerWithOptions(ctx, name,
		func(ctx workflow.Context, r R) (windows.Status, error) {
			w.advance(ctx)
			now := workflow.Now(ctx)
			if err := check(&w.state, r, now); err != nil {
				return windows.Status{}, kit.InvalidSpec(err)
			}
			w.messages++
			event := apply(&w.state, r, now)
			if event.Kind != "" { // it changed the window
				w.recordEvent(ctx, event)
			}
			w.advance(ctx)
			status := w.status(ctx)
			status.Answer = event.Message
			return status, nil
		},
		workflow.UpdateHandlerOptions{
			Description: description,
			Validator: func(ctx workflow.Context, r R) error {
				now := workflow.Now(ctx)
				return kit.InvalidSpec(check(w.state.At(now), r, now))
			},
		})
}

// cancel cancels all openings.
func (w *maintenanceWindow) cancel(ctx workflow.Context, request windows.Request) {
	w.advance(ctx)
	all := windows.CancelRequest{Request: request, All: true}
	if now := workflow.Now(ctx); !w.state.Cancelled && w.state.CheckCancel(all, now) == nil {
		w.recordEvent(ctx, w.state.Cancel(all, now))
	}
}

func (w *maintenanceWindow) checkName(r windows.DefineRequest) error {
	if name := r.Object.Namespace + "/" + r.Object.Name; name != w.name {
		return fmt.Errorf("object: is window %s, but this workflow is window %s", name, w.name)
	}
	return nil
}

func (w *maintenanceWindow) checkDefine(ctx workflow.Context, r windows.DefineRequest) error {
	return errors.Join(w.checkName(r), cmp.Or(w.checkSource(), w.state.CheckDefine(r, workflow.Now(ctx))))
}

// previewEdit returns what an edit would do, also one of the object in the cluster. It does not check which receivers the worker allows.
func (w *maintenanceWindow) previewEdit(r windows.PreviewRequest) (windows.EditPreview, error) {
	if err := w.checkName(r.DefineRequest); err != nil {
		return windows.EditPreview{}, err
	}
	preview := w.state.PreviewEdit(r, w.source != nil)
	if subscribers := w.subscriberIDs(); len(preview.Effects) > 0 && len(subscribers) > 0 {
		preview.Effects = append(preview.Effects, "used by "+kit.JoinNames(subscribers))
	}
	return preview, nil
}

// define defines or changes the window once its calendar has been read. If the calendar is unreadable, the window does not change.
func (w *maintenanceWindow) define(ctx workflow.Context, r windows.DefineRequest) (windows.Status, error) {
	w.messages++
	w.defining++
	w.advance(ctx) // a current opening keeps its end
	now, cancelled := workflow.Now(ctx), w.state.Cancelled
	reading, _ := workflow.NewDisconnectedContext(ctx) // a window whose workflow was cancelled may be defined again
	schedule, err := w.readCalendar(reading, windowsactivities.ReadCalendarInput{Object: r.Object, From: now, Defining: true})
	w.defining--
	if err == nil && w.state.Cancelled && !cancelled {
		err = kit.InvalidSpec(errors.New("the window was cancelled during the update; repeat the update to define it again"))
	}
	if err != nil {
		return windows.Status{}, err
	}
	w.trouble = ""
	w.recordEvent(ctx, w.state.Define(r, schedule, now))
	w.advance(ctx)
	return w.status(ctx), nil
}
