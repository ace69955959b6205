// Package windows holds the activities of maintenance windows: schedules, subscriptions, and notifications.
package windows

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"drydock.dev/drydock/activities/activitykit"
	"drydock.dev/drydock/activities/notifications"
	"drydock.dev/drydock/internal/allow"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	"drydock.dev/drydock/internal/notify"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/internal/windows"
)

// Activities reads the calendars of maintenance windows, and connects workflows and windows.
type Activities struct {
	Temporal activitykit.Starter
	// Workflows are queried for the status of windows.
	Workflows activitykit.Querier
	// Allowed are the receivers of notifications.
	Allowed allow.List
}

// ReadCalendarInput names the calendar to read, and the start of the schedule.
type ReadCalendarInput struct {
	Object drydockv1.MaintenanceWindow `json:"object"`
	From   time.Time                   `json:"from"`
	// Defining: a person defines or edits the window. Some errors are refused only then, so that they do not break a running window.
	Defining bool `json:"defining,omitempty"`
}

// ReadCalendar returns the schedule of a window. Error: InvalidSpec if the calendar cannot be read.
func (w *Activities) ReadCalendar(_ context.Context, in ReadCalendarInput) (windows.Schedule, error) {
	window, err := windows.New(&in.Object)
	if err == nil && in.Defining {
		invalid := windows.Check(&in.Object.Spec, field.NewPath("spec"))
		for i, receiver := range in.Object.Spec.Notify {
			if refused := w.Allowed.CheckReceiver(field.NewPath("spec", "notify").Index(i), receiver.URL); refused != nil {
				invalid = append(invalid, refused)
			}
		}
		err = invalid.ToAggregate()
	}
	if err != nil {
		return windows.Schedule{}, temporal.Error(temporal.ErrInvalidSpec, err.Error(), nil)
	}
	schedule, err := window.Schedule(in.From)
	if err != nil {
		return windows.Schedule{}, temporal.Error(temporal.ErrInvalidSpec, err.Error(), nil)
	}
	return schedule, nil
}

// SubscribeToWindowInput names a window, as namespace/name, and its new subscriber.
type SubscribeToWindowInput struct {
	Window string `json:"window"`
	temporal.Subscription
}

// SubscribeToWindow subscribes a workflow to the status of a window: now, and after each change. An undefined window also sends its status when it is
// defined.
func (w *Activities) SubscribeToWindow(ctx context.Context, in SubscribeToWindowInput) error {
	options := temporal.MaintenanceWindowOptions(in.Window)
	_, err := w.Temporal.SignalWithStartWorkflow(ctx, options.ID, temporal.SignalSubscribeWindow, in.Subscription, options, temporal.MaintenanceWindow)
	if err != nil {
		return fmt.Errorf("subscribe to window %s: %w", in.Window, err)
	}
	return nil
}

// SendNotice sends a notification of a window to its receiver, as notifications.Send and notifications.SendEmail do.
func (w *Activities) SendNotice(ctx context.Context, notice windows.Notice) error {
	if notify.IsEmail(notice.URL) {
		return notifications.SendEmail(ctx, w.Allowed, notifications.Email{ID: notice.ID, URL: notice.URL, Text: notice.Text()})
	}
	body, err := json.Marshal(notice.Body)
	if err != nil {
		return err
	}
	return notifications.Send(ctx, w.Allowed, notifications.Message{ID: notice.ID, URL: notice.URL, MediaType: "application/json", Body: body})
}
