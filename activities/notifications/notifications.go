// Package notifications sends notifications to webhooks and by e-mail.
package notifications

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"time"

	"drydock.dev/drydock/internal/allow"
	"drydock.dev/drydock/internal/endpoint"
	"drydock.dev/drydock/internal/notify"
	"drydock.dev/drydock/internal/temporal"
)

// Activities sends notifications.
type Activities struct {
	// Allowed are the receivers.
	Allowed allow.List
}

// SendNotification sends a notification of a fact to its receiver, as Send and SendEmail do.
func (a *Activities) SendNotification(ctx context.Context, notice notify.Notice) error {
	if notify.IsEmail(notice.URL) {
		return SendEmail(ctx, a.Allowed, Email{ID: notice.ID, URL: notice.URL, Text: notice.Text()})
	}
	mediaType, body, err := notice.Payload()
	if err != nil {
		return temporal.Error(temporal.ErrInvalidSpec, err.Error(), nil)
	}
	return Send(ctx, a.Allowed, Message{ID: notice.ID, URL: notice.URL, MediaType: mediaType, Body: body})
}

// Message is a notification as a webhook gets it.
type Message struct {
	ID, URL, MediaType string
	Body               []byte
}

// webhookTimeout limits the wait for the answer of a receiver.
const webhookTimeout = 10 * time.Second

// Send sends a message to its receiver, which the clusters file must allow. With a secretFile it is signed according to
// https://www.standardwebhooks.com: header webhook-signature is "v1," and the Base64 of the HMAC-SHA256 of webhook-id, webhook-timestamp and the body,
// joined by dots. A receiver may get one twice with the same id, if its answer was lost. Every answer but a success is an error and is retried;
// redirections are not followed.
func Send(ctx context.Context, allowed allow.List, message Message) error {
	receiver, err := allowed.WebhookOf(message.URL)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, webhookTimeout)
	defer cancel()
	request, err := requestOf(ctx, receiver, message)
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

// requestOf returns the request of a message, with the credentials of its receiver. They are read each time, to notice new ones.
func requestOf(ctx context.Context, receiver allow.Webhook, message Message) (*http.Request, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, message.URL, bytes.NewReader(message.Body))
	if err != nil {
		return nil, temporal.Error(temporal.ErrInvalidSpec, "the receiver's URL cannot be used", nil)
	}
	sent := strconv.FormatInt(time.Now().Unix(), 10)
	request.Header.Set("Content-Type", message.MediaType)
	request.Header.Set("Webhook-Id", message.ID)
	request.Header.Set("Webhook-Timestamp", sent)
	if receiver.SecretFile != "" {
		secret, err := credential("allow.webhooks: secretFile", receiver.SecretFile)
		if err != nil {
			return nil, err
		}
		signature := hmac.New(sha256.New, secret)
		fmt.Fprintf(signature, "%s.%s.%s", message.ID, sent, message.Body)
		request.Header.Set("Webhook-Signature", "v1,"+base64.StdEncoding.EncodeToString(signature.Sum(nil)))
	}
	if receiver.TokenFile != "" {
		token, err := credential("allow.webhooks: tokenFile", receiver.TokenFile)
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
		return nil, fmt.Errorf("%s: %w", field, err)
	}
	if text = bytes.TrimSpace(text); len(text) == 0 {
		return nil, fmt.Errorf("%s %s: the file is empty", field, file)
	}
	return text, nil
}
