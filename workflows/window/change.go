package window

import (
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

// listen takes in what people order, and who follows.
func (w *maintenanceWindow) listen(ctx workflow.Context) error {
	heard := func(change func()) {
		w.messages++
		w.changed = true
		change()
	}
	kit.OnSignal(ctx, temporal.SignalFollowWindow, "A workflow wants to be told how the window stands.", func(s temporal.Subscription) {
		heard(func() { w.Add(s) })
	})
	kit.OnSignal(ctx, temporal.SignalLeaveWindow, "A workflow is over and wants to be told nothing more.", func(s temporal.Subscription) {
		heard(func() { w.Remove(s) })
	})
	kit.OnSignal(ctx, temporal.SignalAnnounce, "A portal may not know of the window any more.", func(i portal.Inquiry) {
		w.messages++
		w.answer(i)
	})
	kit.OnSignal(ctx, temporal.SignalCancel, "The window opens no more; an opening at hand ends now.", func(r temporal.SignalRequest) {
		w.messages++
		w.cancel(ctx, windows.Request{Actor: r.Actor, Reason: r.Reason})
	})
	return errors.Join(
		workflow.SetQueryHandlerWithOptions(ctx, temporal.QueryStatus, func() (windows.Status, error) { return w.status(ctx), nil },
			workflow.QueryHandlerOptions{Description: "How the window stands, what is to come, and what has happened."}),
		workflow.SetUpdateHandlerWithOptions(ctx, temporal.UpdateDefine, w.define, workflow.UpdateHandlerOptions{
			Description: "Define the window.",
			Validator: func(ctx workflow.Context, r windows.DefineRequest) error {
				return kit.InvalidSpec(w.checkDefine(ctx, r))
			},
		}),
		workflow.SetUpdateHandlerWithOptions(ctx, temporal.UpdateEdit, w.define, workflow.UpdateHandlerOptions{
			Description: "Change the window. An opening at hand keeps its end.",
			Validator: func(r windows.DefineRequest) error {
				return kit.InvalidSpec(errors.Join(w.checkName(r), w.course.CheckEdit(r)))
			},
		}),
		onOrder(ctx, w, temporal.UpdateExtend, "Move the end of the opening at hand, or of the next one.", (*windows.Course).CheckExtend, (*windows.Course).Extend),
		onOrder(ctx, w, temporal.UpdateEnd, "Close the window before its time, and end an emergency override.", (*windows.Course).CheckEnd, (*windows.Course).End),
		onOrder(ctx, w, temporal.UpdateCancel, "Cancel the opening at hand, the next, another one, or all.", (*windows.Course).CheckCancel, (*windows.Course).Cancel),
		onOrder(ctx, w, temporal.UpdateOverride, "Open the window in an emergency.", (*windows.Course).CheckOverride, (*windows.Course).Overriding),
	)
}

// onOrder takes in an update by which people change the window. It is answered with how the window stands then.
func onOrder[R any](ctx workflow.Context, w *maintenanceWindow, name, description string,
	check func(*windows.Course, R, time.Time) error, carryOut func(*windows.Course, R, time.Time) windows.Event,
) error {
	return workflow.SetUpdateHandlerWithOptions(ctx, name,
		func(ctx workflow.Context, r R) (windows.Status, error) {
			w.passTime(ctx)
			// Of two that arrive together, both have been found good before the first counted.
			now := workflow.Now(ctx)
			if err := check(&w.course, r, now); err != nil {
				return windows.Status{}, kit.InvalidSpec(err)
			}
			w.messages++
			w.order(ctx, carryOut(&w.course, r, now))
			w.passTime(ctx)
			return w.status(ctx), nil
		},
		workflow.UpdateHandlerOptions{
			Description: description,
			Validator: func(ctx workflow.Context, r R) error {
				now := workflow.Now(ctx)
				return kit.InvalidSpec(check(w.course.At(now), r, now))
			},
		})
}

// cancel lets the window open no more.
func (w *maintenanceWindow) cancel(ctx workflow.Context, request windows.Request) {
	w.passTime(ctx)
	all := windows.CancelRequest{Request: request, All: true}
	if now := workflow.Now(ctx); w.course.CheckCancel(all, now) == nil {
		w.order(ctx, w.course.Cancel(all, now))
	}
}

func (w *maintenanceWindow) checkName(r windows.DefineRequest) error {
	if name := r.Object.Namespace + "/" + r.Object.Name; name != w.name {
		return fmt.Errorf("object: is window %s, and this is window %s", name, w.name)
	}
	return nil
}

func (w *maintenanceWindow) checkDefine(ctx workflow.Context, r windows.DefineRequest) error {
	return errors.Join(w.checkName(r), w.course.CheckDefine(r, workflow.Now(ctx)))
}

// define defines or changes the window, once its calendar has been read: one that cannot be changes nothing.
func (w *maintenanceWindow) define(ctx workflow.Context, r windows.DefineRequest) (windows.Status, error) {
	w.messages++
	w.defining++
	w.passTime(ctx) // an opening at hand keeps its end
	now, cancelled := workflow.Now(ctx), w.course.Cancelled
	reading, _ := workflow.NewDisconnectedContext(ctx) // a window whose workflow was cancelled may be defined anew
	outlook, err := w.foresee(reading, windowsactivities.ForeseeWindowInput{Object: r.Object, From: now, Defining: true})
	w.defining--
	if err == nil && w.course.Cancelled && !cancelled {
		err = kit.InvalidSpec(errors.New("the window was cancelled meanwhile: say it once more to have the window open again"))
	}
	if err != nil {
		return windows.Status{}, err
	}
	w.trouble = ""
	w.order(ctx, w.course.Define(r, outlook, now))
	w.passTime(ctx)
	return w.status(ctx), nil
}
