// Package windows holds the activities of maintenance windows: schedules, subscriptions, and notifications to webhooks.
package windows

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"drydock.dev/drydock/activities/activitykit"
	"drydock.dev/drydock/internal/allow"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	"drydock.dev/drydock/internal/endpoint"
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
			if _, refused := w.Allowed.WebhookOf(receiver.URL); refused != nil {
				invalid = append(invalid, field.Forbidden(field.NewPath("spec", "notify").Index(i).Child("url"), refused.Error()))
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

// webhookTimeout limits the wait for the answer of a receiver.
const webhookTimeout = 10 * time.Second

// SendNotice sends a notification of a window to its receiver, which the clusters file must allow. With a secretFile it is signed according to
// https://www.standardwebhooks.com: header webhook-signature is "v1," and the Base64 of the HMAC-SHA256 of webhook-id, webhook-timestamp and the body,
// joined by dots. A receiver may get one twice with the same id, if its answer was lost. Every answer but a success is an error and is retried;
// redirections are not followed.
func (w *Activities) SendNotice(ctx context.Context, notice windows.Notice) error {
	receiver, err := w.Allowed.WebhookOf(notice.URL)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, webhookTimeout)
	defer cancel()
	request, err := noticeRequest(ctx, receiver, notice)
	if err != nil {
		return err
	}
	response, err := endpoint.Transport(receiver.PrivateAddresses).RoundTrip(request)
	if err != nil {
		return fmt.Errorf("notify the receiver on %s: %w", request.URL.Host, err)
	}
	defer response.Body.Close()
	if response.StatusCode/100 != 2 {
		return fmt.Errorf("the receiver on %s answers %s", request.URL.Host, response.Status)
	}
	return nil
}

// noticeRequest returns the request of a notification, with the credentials of its receiver. They are read each time, to notice new ones.
func noticeRequest(ctx context.Context, receiver allow.Webhook, notice windows.Notice) (*http.Request, error) {
	body, err := json.Marshal(notice.Body)
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, notice.URL, bytes.NewReader(body))
	if err != nil {
		return nil, temporal.Error(temporal.ErrInvalidSpec, "the receiver's URL cannot be used", nil)
	}
	sent := strconv.FormatInt(time.Now().Unix(), 10)
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Webhook-Id", notice.ID)
	request.Header.Set("Webhook-Timestamp", sent)
	if receiver.SecretFile != "" {
		secret, err := credential("secretFile", receiver.SecretFile)
		if err != nil {
			return nil, err
		}
		signature := hmac.New(sha256.New, secret)
		fmt.Fprintf(signature, "%s.%s.%s", notice.ID, sent, body)
		request.Header.Set("Webhook-Signature", "v1,"+base64.StdEncoding.EncodeToString(signature.Sum(nil)))
	}
	if receiver.TokenFile != "" {
		token, err := credential("tokenFile", receiver.TokenFile)
		if err != nil {
			return nil, err
		}
		request.Header.Set("Authorization", "Bearer "+string(token))
	}
	return request, nil
}

// credential reads a file without surrounding white space.
func credential(field, file string) ([]byte, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("allow.webhooks: %s: %w", field, err)
	}
	if text = bytes.TrimSpace(text); len(text) == 0 {
		return nil, fmt.Errorf("allow.webhooks: %s %s: the file is empty", field, file)
	}
	return text, nil
}
