// Package windows holds the activities of maintenance windows: schedules, subscriptions, and notifications to webhooks.
package windows

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"drydock.dev/drydock/activities/activitykit"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/internal/windows"
)

// Activities reads the calendars of maintenance windows, and connects workflows and windows.
type Activities struct {
	Temporal activitykit.Starter
	// Workflows are queried for the status of windows.
	Workflows activitykit.Querier
	// Secret signs notifications; without one none is sent.
	Secret []byte
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
		err = windows.Check(&in.Object.Spec, field.NewPath("spec")).ToAggregate()
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

// webhookTimeout limits the wait for the answer of a receiver.
const webhookTimeout = 10 * time.Second

// SendNotice sends a notification of a window to its receiver, signed according to https://www.standardwebhooks.com: header webhook-signature is "v1," and the Base64 of
// the HMAC-SHA256 of webhook-id, webhook-timestamp and the body, joined by dots. A receiver may get one twice with
// the same id, if its answer was lost. Every answer but a success is an error and is retried; redirections are not followed.
func (w *Activities) SendNotice(ctx context.Context, notice windows.Notice) error {
	if len(w.Secret) == 0 {
		return errors.New("no secret to sign with: start drydock-worker with --webhook-secret-file")
	}
	body, err := json.Marshal(notice.Body)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, webhookTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, notice.URL, bytes.NewReader(body))
	if err != nil {
		return temporal.Error(temporal.ErrInvalidSpec, "the receiver's URL cannot be used", nil)
	}
	sent := strconv.FormatInt(time.Now().Unix(), 10)
	signature := hmac.New(sha256.New, w.Secret)
	fmt.Fprintf(signature, "%s.%s.%s", notice.ID, sent, body)
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Webhook-Id", notice.ID)
	request.Header.Set("Webhook-Timestamp", sent)
	request.Header.Set("Webhook-Signature", "v1,"+base64.StdEncoding.EncodeToString(signature.Sum(nil)))
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	response, err := client.Do(request)
	if failed, ok := errors.AsType[*url.Error](err); ok {
		err = failed.Err // the URL may hold a secret
	}
	if err != nil {
		return fmt.Errorf("notify the receiver on %s: %w", request.URL.Host, err)
	}
	defer response.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, 1<<16)) // so that the connection can be used again
	if response.StatusCode/100 != 2 {
		return fmt.Errorf("the receiver on %s answers %s", request.URL.Host, response.Status)
	}
	return nil
}
