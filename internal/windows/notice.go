package windows

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
)

// Notice is the notification of a receiver about an event.
type Notice struct {
	// ID identifies the event and the receiver. It is the same for every attempt.
	ID  string `json:"id"`
	URL string `json:"url"`
	// Body is the JSON payload.
	Body NoticeBody `json:"body"`
}

// NoticeBody is the payload for a webhook.
type NoticeBody struct {
	Type EventKind `json:"type"`
	// At is the time of the event.
	At      time.Time  `json:"timestamp"`
	Window  string     `json:"window"`
	Title   string     `json:"title,omitempty"`
	Start   *time.Time `json:"start,omitempty"`
	End     *time.Time `json:"end,omitempty"`
	Lead    string     `json:"lead,omitempty"`
	By      string     `json:"by,omitempty"`
	Reason  string     `json:"reason,omitempty"`
	Message string     `json:"message"`
}

// Notices returns the notifications of an event of the window with that name.
func Notices(name string, spec drydockv1.MaintenanceWindowSpec, e Event) []Notice {
	var notices []Notice
	if !e.Notifies() {
		return nil
	}
	for _, receiver := range spec.Notify {
		if e.Receiver != "" && e.Receiver != receiver.URL {
			continue
		}
		body := NoticeBody{Type: e.Kind, At: e.At, Window: name, Title: spec.Title, Lead: e.Lead, By: e.By, Reason: e.Reason, Message: e.Message}
		if e.Opening != nil {
			body.Start, body.End = utc(e.Opening.Start), utc(e.Opening.End)
		}
		notices = append(notices, Notice{ID: name + "/" + occasion(e) + "/" + short(receiver.URL), URL: receiver.URL, Body: body})
	}
	return notices
}

// occasion identifies an event among those of its window. Time causes each event of an opening once. People can cause an event repeatedly: an opening may be
// cancelled, and cancelled again after an edit of the window.
func occasion(e Event) string {
	when := e.At
	if e.Opening != nil {
		when = e.Opening.Start
	}
	text := when.UTC().Format("20060102T150405Z") + "/" + string(e.Kind) + e.Lead
	if e.Kind == EventCancelled && e.Opening != nil || e.Kind == EventExtended || e.Kind == EventCut || e.Kind == EventOverridden {
		text += fmt.Sprintf("-%d", e.At.UnixMicro())
	}
	return text
}

// short returns a short name of a URL, which may be long and contain secrets.
func short(url string) string {
	sum := sha256.Sum256([]byte(url))
	return hex.EncodeToString(sum[:4])
}
